//! Whether the priority level that a flow schema names exists.

use std::time::Duration;

use control_types::meta;
use control_types::status::{Status, quote};
use control_types::value::Value;
use futures::FutureExt;

use super::PostStartHook;
use super::flow_control::{GROUP, LEVELS, SCHEMAS};
use crate::api::Api;
use control_registry::conditions::{self, Condition};
use control_registry::own;

pub(super) static HOOK: PostStartHook = PostStartHook {
    name: "flow schemas",
    follows: &[(GROUP, LEVELS), (GROUP, SCHEMAS)],
    every: Duration::from_secs(60),
    settle: AT_ONCE,
    run: |api| run(api).boxed(),
    stop: None,
};

/// Schemas change seldom, and who made one looks at once whether it is dangling.
const AT_ONCE: Duration = Duration::from_millis(1);

/// Under which name it is told.
const CONSUMER: &str = "api-priority-and-fairness-config-consumer-v1";

async fn run(api: &Api) -> Result<(), Status> {
    // What was just made must be known here.
    api.catch_up().await?;
    let levels = api.resource(GROUP, LEVELS)?.cache()?.state();
    let exists = |name: &str| levels.objects.get(name).is_some();
    let served = api.resource(GROUP, SCHEMAS)?;
    for mut schema in own::all(api, GROUP, SCHEMAS)? {
        let name = meta::name(&schema).to_owned();
        if judge(&mut schema, exists) {
            own::apply(api, served, &name, CONSUMER, |stored| {
                let mut judged = stored.clone();
                judge(&mut judged, exists).then(|| conditions::only(&judged, "Dangling"))
            })
            .await?;
        }
    }
    Ok(())
}

fn judge(schema: &mut Value, exists: impl Fn(&str) -> bool) -> bool {
    let level = schema
        .str_at(&["spec", "priorityLevelConfiguration", "name"])
        .unwrap_or_default();
    let (status, reason, end) = if exists(level) {
        ("False", "Found", "and it exists")
    } else {
        ("True", "NotFound", "but there is no such object")
    };
    let level = quote(level);
    let message = format!(
        "This FlowSchema references the PriorityLevelConfiguration object named {level} {end}"
    );
    let wanted = Condition {
        kind: "Dangling",
        status,
        reason,
        message,
    };
    conditions::set(schema, &wanted)
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    #[test]
    fn a_schema_dangles_while_its_level_is_missing() {
        let mut schema = value!({"spec": {"priorityLevelConfiguration": {"name": "x"}}});
        assert!(judge(&mut schema, |_| false));
        assert!(conditions::is_true(&schema, "Dangling"));
        assert!(judge(&mut schema, |name| name == "x"));
        assert!(!conditions::is_true(&schema, "Dangling"));
        assert!(!judge(&mut schema, |_| true));
    }
}

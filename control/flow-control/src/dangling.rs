//! Whether the priority level that a flow schema names exists.

use control_types::meta;
use control_types::status::{Status, quote};
use control_types::value::Value;

use crate::mandatory::{GROUP, LEVELS, SCHEMAS};
use control_registry::conditions::{self, Condition};
use control_registry::{Registry, own};

/// Under which name it is told.
const CONSUMER: &str = "api-priority-and-fairness-config-consumer-v1";

/// Sets the condition `Dangling` of all flow schemas.
///
/// # Errors
/// When it cannot be written.
pub async fn update_conditions(registry: &Registry) -> Result<(), Status> {
    // What was just made must be known here.
    registry.catch_up().await?;
    let levels = registry.resource(GROUP, LEVELS)?.cache()?.state();
    let exists = |name: &str| levels.objects.get(name).is_some();
    let served = registry.resource(GROUP, SCHEMAS)?;
    for mut schema in own::all(registry, GROUP, SCHEMAS)? {
        let name = meta::name(&schema).to_owned();
        if judge(&mut schema, exists) {
            own::apply(registry, served, &name, CONSUMER, |stored| {
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

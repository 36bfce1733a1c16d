//! `pods/eviction`: a deletion that asks the disruption budgets first.

use std::sync::Arc;

use control_types::labels::Selector;
use control_types::meta;
use control_types::registry;
use control_types::status::{Cause, Details, Status};
use control_types::value;
use control_types::value::Value;

use crate::api::{Api, Served};
use crate::body::Body;
use crate::chain::Context;
use crate::decode::{self, Expected};
use crate::negotiate::Format;
use crate::options::{DeleteOptions, WriteOptions};
use crate::reply::{self, Answer};
use crate::verbs::delete;
use crate::write::Decision;

/// Evicts the pod of the path.
///
/// # Errors
/// 404; 429 when a budget forbids it now; 500 when two budgets contradict.
pub async fn evict(context: &Context, served: &Arc<Served>, body: Body) -> Answer {
    let format = Format::of(&context.parts.headers, context.query())?;
    let options = WriteOptions::parse(context.query(), "CreateOptions", false)?;
    let schema =
        registry::schema_of("policy", "v1", "Eviction").ok_or_else(Status::unknown_path)?;
    let expected = Expected {
        group: "policy",
        version: "v1",
        kind: "Eviction",
        schema,
    };
    let headers = &context.parts.headers;
    let eviction = decode::object(headers, body, expected, options.field_validation)
        .await?
        .object;
    if meta::name(&eviction) != context.info.name {
        return Err(Status::bad_request(
            "name in URL does not match name in Eviction object",
        ));
    }
    let mut deletion = DeleteOptions::parse(None, eviction.get("deleteOptions"))?;
    deletion.dry_run |= options.dry_run;
    let key = served.key(&context.info.namespace, &context.info.name);
    let pod = context
        .api
        .get(served, &key)
        .await?
        .value()
        .map_err(Status::internal)?;
    let ended = matches!(
        pod.str_at(&["status", "phase"]),
        Some("Succeeded" | "Failed")
    );
    let going = meta::is_deleting(&pod);
    let waiting = pod.str_at(&["status", "phase"]) == Some("Pending");
    if !ended && !going && !waiting {
        ask_budget(&context.api, context, &pod, deletion.dry_run).await?;
    }
    delete::remove(context, served, &key, &deletion).await?;
    let answer = value!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201
    });
    Ok(reply::value(201, &answer, format))
}

/// Takes one disruption from the budget that covers the pod, if there is one.
async fn ask_budget(
    api: &Api,
    context: &Context,
    pod: &Value,
    dry_run: bool,
) -> Result<(), Status> {
    let budgets = api.resource("policy", "poddisruptionbudgets")?;
    let prefix = format!("{}/", context.info.namespace);
    let state = budgets.cache()?.state();
    let covering: Vec<_> = state
        .objects
        .prefixed(&prefix)
        .filter(|budget| {
            budget.value().is_ok_and(|budget| {
                Selector::from_object(budget.path(&["spec", "selector"]))
                    .is_ok_and(|selector| selector.matches(pod))
            })
        })
        .collect();
    let [budget] = covering.as_slice() else {
        return if covering.is_empty() {
            Ok(())
        } else {
            Err(Status::internal(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ))
        };
    };
    let key = format!("{prefix}{}", budget.name());
    let name = meta::name(pod).to_owned();
    api.modify(budgets, &key, dry_run, None, |current| {
        let Some(current) = current else {
            return Ok(Decision::Keep(Value::Null));
        };
        let mut budget = current.object;
        take_one(&mut budget, &name)?;
        Ok(Decision::Put(budget))
    })
    .await
    .map(|_| ())
}

/// The pure part: one disruption less, or why not.
fn take_one(budget: &mut Value, pod: &str) -> Result<(), Status> {
    let observed = budget
        .i64_at(&["status", "observedGeneration"])
        .unwrap_or_default();
    if observed < meta::generation(budget) {
        return Err(refused(
            budget,
            "The disruption budget is still being processed by the server.",
        ));
    }
    let allowed = budget
        .i64_at(&["status", "disruptionsAllowed"])
        .unwrap_or_default();
    if allowed <= 0 {
        let name = meta::name(budget);
        let wanted = budget
            .i64_at(&["status", "desiredHealthy"])
            .unwrap_or_default();
        let healthy = budget
            .i64_at(&["status", "currentHealthy"])
            .unwrap_or_default();
        let why = format!(
            "The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently"
        );
        return Err(refused(budget, &why));
    }
    budget.set_path(&["status", "disruptionsAllowed"], allowed - 1);
    let now = control_types::time::format(jiff::Timestamp::now());
    budget.set_path(&["status", "disruptedPods", pod], now);
    Ok(())
}

fn refused(budget: &Value, why: &str) -> Status {
    let _ = budget;
    let mut status = Status::too_many_requests(
        "Cannot evict pod as it would violate the pod's disruption budget.",
        0,
    );
    status.details = Some(Details {
        causes: vec![Cause {
            reason: "DisruptionBudget".into(),
            message: why.to_owned(),
            field: String::new(),
        }],
        ..Details::default()
    });
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_is_used_up_and_then_refuses() {
        let mut budget = value!({"metadata": {"name": "b"}, "status": {"disruptionsAllowed": 1}});
        assert!(take_one(&mut budget, "p").is_ok());
        assert_eq!(budget.i64_at(&["status", "disruptionsAllowed"]), Some(0));
        assert_eq!(take_one(&mut budget, "q").expect_err("used up").code, 429);
    }
}

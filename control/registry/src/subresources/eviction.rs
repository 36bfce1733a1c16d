//! `pods/eviction`: a deletion that asks the disruption budgets first.

use std::sync::Arc;

use control_admission::{Attributes, Operation, RequestOptions};
use control_types::labels::Selector;
use control_types::protobuf::Envelope;
use control_types::status::{Cause, Details, Status};
use control_types::value::Value;
use control_types::{meta, registry, value};

use crate::context::Context;
use crate::managed::{Endpoint, OWN};
use crate::registry::Registry;
use crate::reply::{self, Answer};
use crate::served_resource::ServedResource;
use crate::verbs::create::check_namespace;
use crate::verbs::delete;
use crate::write::Decision;
use control_request::body::Body;
use control_request::negotiate::Format;
use control_request::options::{DeleteOptions, WriteOptions};
use control_request::plain_error;
use control_strategy::ObjectSchema;
use control_strategy::decode::{self, ExpectedKind};

/// The condition of budgets that tells whether they allow disruptions.
const ALLOWED: &str = "DisruptionAllowed";
/// So many disrupted pods may wait for the budget's controller.
const MOST_DISRUPTED: usize = 2000;

/// Whether an eviction is of the version before, which had the same fields and is
/// read still.
fn says_beta(bytes: &[u8]) -> bool {
    const BETA: &str = "policy/v1beta1";
    if let Ok(envelope) = Envelope::open(bytes) {
        return envelope.version == BETA;
    }
    let tree = decode::from_yaml(bytes);
    tree.is_ok_and(|tree| meta::api_version(&tree) == BETA)
}

/// Evicts the pod of the path.
///
/// # Errors
/// 404; 429 when a budget forbids it now; 500 when two budgets contradict.
pub async fn evict(context: &Context, served: &Arc<ServedResource>, body: Body) -> Answer {
    let format = Format::negotiate(&context.parts.headers, context.query())?;
    let options = WriteOptions::parse(context.query(), "CreateOptions", false)?;
    let schema =
        registry::schema_of("policy", "v1", "Eviction").ok_or_else(Status::unknown_path)?;
    let expected = ExpectedKind {
        group: "policy",
        version: "v1",
        kind: "Eviction",
        form: ObjectSchema::Typed(schema),
    };
    let headers = &context.parts.headers;
    let bytes = decode::read(body).await?;
    let version = if says_beta(&bytes) { "v1beta1" } else { "v1" };
    let mut eviction = decode::object(
        headers,
        control_request::body::full(bytes),
        ExpectedKind {
            version,
            ..expected
        },
        options.field_validation,
    )
    .await?
    .object;
    context.tell_sent_as(expected.form, &eviction);
    check_namespace(context, served, &mut eviction)?;
    let attributes = Attributes {
        options: RequestOptions::Create(&options),
        dry_run: options.dry_run,
        ..context.admission(&served.version, Operation::Create, expected, "eviction")
    };
    let admission = &context.registry.admission;
    admission.admit(&attributes, &mut eviction, None).await?;
    if meta::name(&eviction) != context.info.name {
        return Err(Status::bad_request(
            "name in URL does not match name in Eviction object",
        ));
    }
    let mut deletion = DeleteOptions::parse(None, eviction.get("deleteOptions"))?;
    deletion.dry_run |= options.dry_run;
    let key = served.key(&context.info.namespace, &context.info.name);
    let pod = context.registry.get(served, &key).await?;
    let pod = pod.value().map_err(Status::internal)?;
    let validated = admission.validate_dynamic(&attributes, Some(&eviction), None);
    validated.await?;
    let budgets = covering(&context.registry, &pod)?;
    let (retried, budget) = match judge(&pod, &budgets) {
        Word::Free => (false, None),
        // As long as the pod is what was looked at.
        Word::Unchanged(budget) => (true, budget),
        Word::Ask(budget) => {
            ask(
                &context.registry,
                budget,
                meta::name(&pod),
                deletion.dry_run,
            )
            .await?;
            (false, None)
        }
        Word::Ambiguous => {
            return Err(plain_error(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
    };
    let asked = deletion.resource_version.clone();
    if retried && asked.is_none() {
        deletion.resource_version = Some(meta::resource_version(&pod).to_owned());
    }
    if let Err(status) = condemn(context, served, &key, deletion).await {
        return Err(match budget {
            Some(name) if status.code == 409 && asked.is_none() => being_processed(&name),
            _ => status,
        });
    }
    let answer = value!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201
    });
    Ok(reply::value(201, &answer, format))
}

/// Notes in the pod why it goes, then deletes it.
async fn condemn(
    context: &Context,
    served: &Arc<ServedResource>,
    key: &str,
    mut deletion: DeleteOptions,
) -> Result<(), Status> {
    if !deletion.dry_run {
        let noted = context
            .registry
            .modify(served, key, false, None, |current| {
                let mut pod = current.ok_or_else(|| served.not_found(key))?.object;
                delete::check_preconditions(served, key, &pod, &deletion)?;
                Ok(if note(&mut pod) {
                    Decision::Put(pod)
                } else {
                    Decision::Keep(pod)
                })
            });
        let pod = noted.await?.object;
        if deletion.resource_version.is_some() {
            deletion.resource_version = Some(meta::resource_version(&pod).to_owned());
        }
    }
    // The eviction was admitted; its deletion is the server's own.
    delete::remove_by(&context.registry, served, key, &deletion)
        .await
        .map(drop)
}

/// Sets the condition of pods that are disrupted; `false` if it is there.
fn note(pod: &mut Value) -> bool {
    let conditions = pod
        .make_object()
        .object_mut("status")
        .get_or_insert_with("conditions", || value!([]))
        .make_array();
    let old = conditions
        .iter()
        .position(|condition| condition.str_at(&["type"]) == Some("DisruptionTarget"));
    let reason = "EvictionByEvictionAPI";
    if old.is_some_and(|at| {
        conditions[at].str_at(&["status"]) == Some("True")
            && conditions[at].str_at(&["reason"]) == Some(reason)
    }) {
        return false;
    }
    let now = control_types::time::now();
    let condition = value!({
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": null,
        "lastTransitionTime": (now.as_str()),
        "reason": reason,
        "message": "Eviction API: evicting"
    });
    match old {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
    true
}

/// The budgets that cover a pod.
fn covering(registry: &Registry, pod: &Value) -> Result<Vec<Value>, Status> {
    let state = registry
        .resource("policy", "poddisruptionbudgets")?
        .cache()?
        .state();
    let prefix = format!("{}/", meta::namespace(pod));
    let mut covering = Vec::new();
    for budget in state.objects.prefixed(&prefix) {
        let budget = budget.value().map_err(Status::internal)?;
        // No selector selects nothing, an empty one everything.
        let selector = budget.path(&["spec", "selector"]);
        if selector.is_some_and(|selector| !selector.is_null())
            && Selector::from_object(selector).is_ok_and(|selector| selector.matches(pod))
        {
            covering.push(budget);
        }
    }
    Ok(covering)
}

/// What budgets have to say about an eviction.
#[derive(Debug, PartialEq)]
enum Word<'a> {
    /// Nothing.
    Free,
    /// Nothing, as long as the pod does not change; the budget's name is told
    /// if it does.
    Unchanged(Option<String>),
    /// One disruption is to be taken from this one.
    Ask(&'a Value),
    /// There are several.
    Ambiguous,
}

/// The pure part: who is to be asked about a pod.
fn judge<'a>(pod: &Value, budgets: &'a [Value]) -> Word<'a> {
    let phase = pod.str_at(&["status", "phase"]).unwrap_or_default();
    if matches!(phase, "Succeeded" | "Failed") || meta::is_deleting(pod) {
        return Word::Free;
    }
    if phase == "Pending" {
        return Word::Unchanged(None);
    }
    let budget = match budgets {
        [] => return Word::Free,
        [budget] => budget,
        _ => return Word::Ambiguous,
    };
    let number = |member: &str| budget.i64_at(&["status", member]).unwrap_or_default();
    if !is_ready(pod) {
        let always = budget.str_at(&["spec", "unhealthyPodEvictionPolicy"]) == Some("AlwaysAllow");
        let wanted = number("desiredHealthy");
        if always || (number("currentHealthy") >= wanted && wanted > 0) {
            return Word::Unchanged(Some(meta::name(budget).to_owned()));
        }
    }
    Word::Ask(budget)
}

fn is_ready(pod: &Value) -> bool {
    pod.items_at(&["status", "conditions"])
        .iter()
        .any(|condition| {
            condition.str_at(&["type"]) == Some("Ready")
                && condition.str_at(&["status"]) == Some("True")
        })
}

/// Takes one disruption from a budget.
async fn ask(registry: &Registry, budget: &Value, pod: &str, dry_run: bool) -> Result<(), Status> {
    let budgets = registry.resource("policy", "poddisruptionbudgets")?;
    let key = budgets.key(meta::namespace(budget), meta::name(budget));
    let asked = registry.modify(budgets, &key, dry_run, None, |current| {
        let old = current.ok_or_else(|| budgets.not_found(&key))?.object;
        let mut new = old.clone();
        take_one(&mut new, pod)?;
        Endpoint::for_resource(registry, budgets, "status").write(Some(&old), &mut new, OWN);
        Ok(Decision::Put(new))
    });
    asked.await.map(drop)
}

/// The pure part: one disruption less, or why not.
fn take_one(budget: &mut Value, pod: &str) -> Result<(), Status> {
    let name = meta::name(budget).to_owned();
    let number = |member: &str| budget.i64_at(&["status", member]).unwrap_or_default();
    if number("observedGeneration") < meta::generation(budget) {
        return Err(being_processed(&name));
    }
    let forbidden = |why: &str| Status::forbidden("policy", "poddisruptionbudget", &name, why);
    let allowed = number("disruptionsAllowed");
    if allowed < 0 {
        return Err(forbidden("pdb disruptions allowed is negative"));
    }
    let disrupted = budget.path(&["status", "disruptedPods"]);
    if disrupted
        .and_then(Value::as_object)
        .is_some_and(|pods| pods.len() > MOST_DISRUPTED)
    {
        return Err(forbidden(
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        ));
    }
    if allowed == 0 {
        return Err(refused(&why_not(budget, &name), 0));
    }
    budget.set_path(&["status", "disruptionsAllowed"], allowed - 1);
    if allowed == 1 {
        set_condition(budget);
    }
    let now = control_types::time::now();
    budget.set_path(&["status", "disruptedPods", pod], now.as_str());
    Ok(())
}

/// The condition of a budget that allows no more.
fn set_condition(budget: &mut Value) {
    let observed = budget
        .i64_at(&["status", "observedGeneration"])
        .unwrap_or_default();
    let old = budget
        .items_at(&["status", "conditions"])
        .iter()
        .find(|condition| condition.str_at(&["type"]) == Some(ALLOWED));
    let since = old
        .filter(|old| old.str_at(&["status"]) == Some("False"))
        .and_then(|old| old.get("lastTransitionTime").cloned())
        .unwrap_or_else(|| Value::from(control_types::time::now().as_str()));
    let condition = value!({
        "type": ALLOWED,
        "status": "False",
        "observedGeneration": observed,
        "lastTransitionTime": (since),
        "reason": "InsufficientPods",
        "message": ""
    });
    let conditions = budget
        .make_object()
        .object_mut("status")
        .get_or_insert_with("conditions", || value!([]))
        .make_array();
    conditions.retain(|condition| condition.str_at(&["type"]) != Some(ALLOWED));
    conditions.push(condition);
}

fn why_not(budget: &Value, name: &str) -> String {
    let number = |member: &str| budget.i64_at(&["status", member]).unwrap_or_default();
    let (healthy, wanted) = (number("currentHealthy"), number("desiredHealthy"));
    let told = budget
        .items_at(&["status", "conditions"])
        .iter()
        .find(|condition| {
            condition.str_at(&["type"]) == Some(ALLOWED)
                && condition.str_at(&["status"]) == Some("False")
        })
        .map(|condition| {
            let text = |member: &str| condition.str_at(&[member]).unwrap_or_default();
            (text("reason"), text("message"))
        })
        .filter(|(_, message)| !message.is_empty());
    let not = format!("The disruption budget {name} does not allow evicting pods currently");
    match told {
        Some(("SyncFailed", message)) => format!("{not} because it failed sync: {message}"),
        _ if healthy <= wanted => format!(
            "The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently"
        ),
        Some((reason, message)) => format!("{not} ({reason}): {message}"),
        None => not,
    }
}

/// The controller has not looked at the budget yet, or the pod changed.
fn being_processed(name: &str) -> Status {
    let why = format!("The disruption budget {name} is still being processed by the server.");
    refused(&why, 10)
}

fn refused(why: &str, retry_after_seconds: u32) -> Status {
    let mut status = Status::too_many_requests(
        "Cannot evict pod as it would violate the pod's disruption budget.",
        retry_after_seconds,
    );
    status.details = Some(Details {
        causes: vec![Cause {
            reason: "DisruptionBudget".into(),
            message: why.to_owned(),
            field: String::new(),
        }],
        retry_after_seconds,
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
        let said = &budget.items_at(&["status", "conditions"])[0];
        assert_eq!(said.str_at(&["reason"]), Some("InsufficientPods"));
    }

    #[test]
    fn what_a_budget_says_is_told_with_its_reason() {
        let mut budget = value!({"metadata": {"name": "b", "generation": 2}, "status": {"observedGeneration": 1}});
        let refused = take_one(&mut budget, "p").expect_err("not observed");
        assert_eq!(refused.details.map(|d| d.retry_after_seconds), Some(10));
        budget.set_path(&["status", "observedGeneration"], 2);
        budget.set_path(&["status", "disruptionsAllowed"], -1);
        assert_eq!(take_one(&mut budget, "p").expect_err("negative").code, 403);
        budget.set_path(
            &["status"],
            value!({"observedGeneration": 2, "currentHealthy": 2, "desiredHealthy": 1}),
        );
        assert_eq!(
            why_not(&budget, "b"),
            "The disruption budget b does not allow evicting pods currently"
        );
        budget.set_path(&["status", "desiredHealthy"], 2);
        assert_eq!(
            why_not(&budget, "b"),
            "The disruption budget b needs 2 healthy pods and has 2 currently"
        );
    }

    #[test]
    fn pods_that_are_not_ready_go_while_the_rest_is_well() {
        let pod = |ready: &str| value!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}});
        let budget = |healthy: i64| {
            vec![
                value!({"metadata": {"name": "b"}, "status": {"currentHealthy": healthy, "desiredHealthy": 1}}),
            ]
        };
        let well = budget(1);
        assert_eq!(
            judge(&pod("False"), &well),
            Word::Unchanged(Some("b".into()))
        );
        assert_eq!(judge(&pod("True"), &well), Word::Ask(&well[0]));
        let ill = budget(0);
        assert_eq!(judge(&pod("False"), &ill), Word::Ask(&ill[0]));
        assert_eq!(judge(&pod("True"), &[]), Word::Free);
        assert_eq!(
            judge(&value!({"status": {"phase": "Pending"}}), &well),
            Word::Unchanged(None)
        );
    }
}

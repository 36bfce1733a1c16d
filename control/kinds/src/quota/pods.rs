//! Pods: their number, and their requests until they have terminated.

use control_types::meta;
use control_types::value::Value;

use super::amount::{Amount, Usage};
use super::measure::{ConstraintError, Measure, Request};
use super::scope_selector;
use crate::rules::{qos, resources};
use crate::tree::Read as _;

pub(super) const MEASURE: Measure = Measure {
    group: "",
    plural: "pods",
    usage: |pod, _, now| usage(pod, now),
    tracks: |name, _| tracks(name),
    handles,
    in_scope,
    constraints,
};

const RESOURCES: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
];
/// The resources that every container must set if they are limited.
const MUST: &[&str] = &[
    "cpu",
    "memory",
    "requests.cpu",
    "requests.memory",
    "limits.cpu",
    "limits.memory",
];
const CLASS: &str = "deviceclass.resource.kubernetes.io/";

fn tracks(name: &str) -> bool {
    let extended = || {
        let asked = name.strip_prefix("requests.");
        asked.is_some_and(|asked| !resources::is_native(name) || asked.starts_with(CLASS))
    };
    RESOURCES.contains(&name)
        || name.starts_with("hugepages-")
        || name.starts_with("requests.hugepages-")
        || extended()
}

fn handles(request: &Request<'_>) -> bool {
    match (request.subresource, request.old) {
        ("", None) => true,
        ("", Some(old)) => ends(old) != ends(request.new),
        ("resize", Some(_)) => true,
        _ => false,
    }
}

/// Whether a pod is to end by itself.
fn ends(pod: &Value) -> bool {
    let seconds = pod.at("spec").int("activeDeadlineSeconds");
    seconds.is_some_and(|seconds| seconds >= 0)
}

fn in_scope(scope: &Value, pod: &Value) -> bool {
    let spec = pod.at("spec");
    let is_best_effort = || qos_class(pod) == "BestEffort";
    match scope.text("scopeName") {
        "Terminating" => ends(pod),
        "NotTerminating" => !ends(pod),
        "BestEffort" => is_best_effort(),
        "NotBestEffort" => !is_best_effort(),
        "PriorityClass" => match spec.text("priorityClassName") {
            "" => scope_selector::selects(scope, &[]),
            name => scope_selector::selects(scope, &[name]),
        },
        "CrossNamespacePodAffinity" => reaches_other_namespaces(spec.at("affinity")),
        _ => false,
    }
}

pub(crate) fn qos_class(pod: &Value) -> &str {
    match pod.at("status").text("qosClass") {
        "" => qos::class(pod.at("spec")),
        class => class,
    }
}

fn reaches_other_namespaces(affinity: &Value) -> bool {
    let reaches =
        |term: &Value| !term.items("namespaces").is_empty() || term.has("namespaceSelector");
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let terms = affinity.at(kind);
        let required = terms.items("requiredDuringSchedulingIgnoredDuringExecution");
        let preferred = terms.items("preferredDuringSchedulingIgnoredDuringExecution");
        required.iter().any(reaches)
            || preferred
                .iter()
                .any(|term| reaches(term.at("podAffinityTerm")))
    })
}

fn constraints(limited: &[&str], pod: &Value) -> Result<(), ConstraintError> {
    let spec = pod.at("spec");
    if is_stated_for_the_whole(spec.at("resources"), &["requests", "limits"]) {
        return Ok(());
    }
    let mut told = Vec::new();
    let mut must: Vec<&str> = limited.to_vec();
    must.retain(|name| MUST.contains(name));
    must.sort_unstable();
    for name in must {
        let mut missing: Vec<&str> = Vec::new();
        for list in ["containers", "initContainers"] {
            for container in spec.items(list) {
                let resources = container.at("resources");
                let stated = compute(
                    &Usage::from_list(resources.at("requests")),
                    &Usage::from_list(resources.at("limits")),
                );
                if stated.get(name).is_none() {
                    missing.push(container.text("name"));
                }
            }
        }
        missing.sort_unstable();
        missing.dedup();
        if !missing.is_empty() {
            told.push(format!("{name} for: {}", missing.join(",")));
        }
    }
    if told.is_empty() {
        return Ok(());
    }
    Err(ConstraintError(told))
}

fn usage(pod: &Value, now: jiff::Timestamp) -> Usage {
    if is_over(pod, now) {
        // Its number is still counted, as that of all objects.
        return Usage::default();
    }
    compute(&asked(pod, "requests"), &asked(pod, "limits"))
}

/// A pod that ended, or should long have: a node that is lost must not keep others
/// from taking its place.
fn is_over(pod: &Value, now: jiff::Timestamp) -> bool {
    if matches!(pod.at("status").text("phase"), "Failed" | "Succeeded") {
        return true;
    }
    end_of_grace(pod).is_some_and(|end| now > end)
}

/// The end of the grace period of a pod that is being deleted.
pub(super) fn end_of_grace(pod: &Value) -> Option<jiff::Timestamp> {
    let at = meta::deletion_timestamp(pod)?;
    let grace = meta::deletion_grace_period_seconds(pod)?;
    at.checked_add(jiff::SignedDuration::from_secs(grace)).ok()
}

/// Converts sums of requests and limits to the names of quotas.
fn compute(requests: &Usage, limits: &Usage) -> Usage {
    let mut usage = Usage::default();
    usage.set("pods", Amount::number(1));
    for name in ["cpu", "memory", "ephemeral-storage"] {
        if let Some(amount) = requests.get(name) {
            usage.set(name, amount);
            usage.set(&format!("requests.{name}"), amount);
        }
        if let Some(amount) = limits.get(name) {
            usage.set(&format!("limits.{name}"), amount);
        }
    }
    for (name, amount) in requests.iter() {
        if name.starts_with("hugepages-") {
            usage.set(name, amount);
            usage.set(&format!("requests.{name}"), amount);
        } else if resources::is_extended(name) || name.starts_with(CLASS) {
            usage.set(&format!("requests.{name}"), amount);
        }
    }
    usage
}

fn is_stated_for_the_whole(resources: &Value, lists: &[&str]) -> bool {
    lists
        .iter()
        .any(|list| resources.entries(list).any(|(name, _)| is_of_pods(name)))
}

/// Resources that a pod may state for all its containers (KEP-2837).
fn is_of_pods(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

/// Returns a pod's requests by resource, from its specification alone.
pub(crate) fn requests_of(pod: &Value) -> Value {
    let mut wanted = Value::object();
    wanted.insert("spec", pod.at("spec").clone());
    asked(&wanted, "requests").to_value()
}

/// Sums up a pod's `list` (`requests`, `limits`): the needs of its containers side by
/// side or one after the other, pod-level values, and its overhead.
fn asked(pod: &Value, list: &str) -> Usage {
    let spec = pod.at("spec");
    let mut sum = of_containers(pod, list);
    let whole = spec.at("resources");
    let lists: &[&str] = if list == "requests" {
        &["requests"]
    } else {
        &["requests", "limits"]
    };
    if is_stated_for_the_whole(whole, lists) {
        for (name, amount) in whole.entries(list).filter(|(name, _)| is_of_pods(name)) {
            sum.set(name, Amount::from_value(amount));
        }
    }
    for (name, amount) in spec.entries("overhead") {
        // Without limits, overhead limits nothing.
        let is_limited = sum.get(name).is_some_and(|sum| sum != Amount::number(0));
        if list == "requests" || is_limited {
            sum.add(name, Amount::from_value(amount));
        }
    }
    sum
}

fn of_containers(pod: &Value, list: &str) -> Usage {
    let spec = pod.at("spec");
    let mut sum = Usage::default();
    for container in spec.items("containers") {
        sum.add_all(&of_container(pod, container, "containerStatuses", list));
    }
    // Sidecars run beside all that starts after them (KEP-753).
    let (mut sidecars, mut most) = (Usage::default(), Usage::default());
    for container in spec.items("initContainers") {
        if container.text("restartPolicy") == "Always" {
            let own = of_container(pod, container, "initContainerStatuses", list);
            sum.add_all(&own);
            sidecars.add_all(&own);
            most.max_all(&sidecars);
        } else {
            let mut own = Usage::from_list(container.at("resources").at(list));
            own.add_all(&sidecars);
            most.max_all(&own);
        }
    }
    sum.max_all(&most);
    sum
}

/// Returns a container's amounts, including those that it still has while it is being
/// resized (KEP-1287).
fn of_container(pod: &Value, container: &Value, statuses: &str, list: &str) -> Usage {
    let asked = Usage::from_list(container.at("resources").at(list));
    let name = container.text("name");
    let status = pod.at("status").items(statuses).iter();
    let mut status = status.filter(|status| status.text("name") == name);
    let Some(status) = status.next_back().filter(|status| status.has("resources")) else {
        return asked;
    };
    let conditions = pod.at("status").items("conditions");
    let pending = conditions
        .iter()
        .find(|condition| condition.text("type") == "PodResizePending");
    let infeasible = pending.is_some_and(|condition| condition.text("reason") == "Infeasible");
    let mut most = if infeasible { Usage::default() } else { asked };
    most.max_all(&Usage::from_list(status.at("resources").at(list)));
    if list == "requests" {
        most.max_all(&Usage::from_list(status.at("allocatedResources")));
    }
    most
}

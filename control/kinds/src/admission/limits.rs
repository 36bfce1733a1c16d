//! `LimitRanger`: the defaults that a namespace's `LimitRange`s set for pods without
//! requests, and the bounds for pods and claims.

use std::collections::BTreeMap;

use control_types::value::{Map, Value};

use super::refusal::Refusal;
use crate::rules::quantity::{self, Nanos};
use crate::rules::resources::shown;
use crate::tree::{Read, Write};

/// The annotation that lists the applied defaults.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// Amounts by resource, each with how it is written.
type Amounts = BTreeMap<String, (Nanos, String)>;

/// Applies the defaults of `range` to the containers of `pod`, and records them on the
/// pod.
pub fn default_limits(range: &Value, pod: &mut Value) {
    let (mut limits, mut requests) = (Map::new(), Map::new());
    for limit in range.at("spec").items("limits") {
        if limit.text("type") != "Container" {
            continue;
        }
        for (field, into) in [("default", &mut limits), ("defaultRequest", &mut requests)] {
            for (name, amount) in limit.entries(field) {
                into.insert(name, amount.clone());
            }
        }
    }
    let mut notes = Vec::new();
    let Some(spec) = pod.there("spec") else {
        return;
    };
    for (list, what) in [
        ("containers", "container"),
        ("initContainers", "init container"),
    ] {
        for container in spec.items_mut(list) {
            let set_limits = fill(container, "limits", &limits);
            let set_requests = fill(container, "requests", &requests);
            for (set, kind) in [(set_requests, "request"), (set_limits, "limit")] {
                if !set.is_empty() {
                    let name = container.text("name");
                    notes.push(format!("{} {kind} for {what} {name}", set.join(", ")));
                }
            }
        }
    }
    if !notes.is_empty() {
        let annotations = pod.make("metadata").make("annotations");
        annotations.put(
            ANNOTATION,
            format!("LimitRanger plugin set: {}", notes.join("; ")),
        );
        sort(annotations);
    }
}

/// Sets missing members; returns the names of those that were set, sorted.
fn fill(container: &mut Value, field: &str, defaults: &Map) -> Vec<String> {
    let mut set = Vec::new();
    for (name, amount) in defaults.iter() {
        if container.dig(&["resources", field]).get(name).is_none() {
            let list = container.make("resources").make(field);
            list.put(name, amount.clone());
            sort(list);
            set.push(name.to_string());
        }
    }
    set.sort_unstable();
    set
}

/// Maps are written with sorted keys.
fn sort(value: &mut Value) {
    if let Value::Object(map) = value {
        map.sort();
    }
}

/// Returns why `object` (a pod or a claim) violates `range`; `None` if it does not.
#[must_use]
pub fn check_limits(range: &Value, object: &Value, is_claim: bool) -> Option<Refusal> {
    let mut found = Vec::new();
    for limit in range.at("spec").items("limits") {
        match (limit.text("type"), is_claim) {
            ("PersistentVolumeClaim", true) => check_claim(limit, object, &mut found),
            ("Container", false) => {
                let spec = object.at("spec");
                for list in ["containers", "initContainers"] {
                    for container in spec.items(list) {
                        let resources = container.at("resources");
                        let amounts = |field| amounts(resources.at(field));
                        check(limit, &amounts("requests"), &amounts("limits"), &mut found);
                    }
                }
            }
            ("Pod", false) => {
                let spec = object.at("spec");
                check(
                    limit,
                    &total(spec, "requests"),
                    &total(spec, "limits"),
                    &mut found,
                );
            }
            _ => {}
        }
    }
    // several reasons are reported as a set, each once
    let mut told: Vec<String> = Vec::new();
    for reason in found {
        if !told.contains(&reason) {
            told.push(reason);
        }
    }
    match told.as_slice() {
        [] => None,
        [one] => Some(one.as_str().into()),
        more => Some(format!("[{}]", more.join(", ")).into()),
    }
}

fn amounts(list: &Value) -> Amounts {
    match list {
        Value::Object(map) => map
            .iter()
            .map(|(name, amount)| {
                (
                    name.to_string(),
                    (quantity::to_nanos(amount), shown(amount)),
                )
            })
            .collect(),
        _ => Amounts::new(),
    }
}

fn check_claim(limit: &Value, claim: &Value, found: &mut Vec<String>) {
    let requests = amounts(claim.dig(&["spec", "resources", "requests"]));
    for (name, bound) in amounts(limit.at("min")) {
        found.extend(minimum(
            "PersistentVolumeClaim",
            &name,
            &bound,
            &requests,
            &Amounts::new(),
        ));
    }
    for (name, (most, text)) in amounts(limit.at("max")) {
        let rule = format!("maximum {name} usage per PersistentVolumeClaim is {text}");
        match requests.get(&name) {
            None => found.push(format!("{rule}.  No request is specified")),
            Some((asked, said)) if *asked > most => {
                found.push(format!("{rule}, but request is {said}"));
            }
            Some(_) => {}
        }
    }
}

fn check(limit: &Value, requests: &Amounts, limits: &Amounts, found: &mut Vec<String>) {
    let of = limit.text("type");
    for (name, bound) in amounts(limit.at("min")) {
        found.extend(minimum(of, &name, &bound, requests, limits));
    }
    for (name, bound) in amounts(limit.at("max")) {
        found.extend(maximum(of, &name, &bound, requests, limits));
    }
    for (name, bound) in amounts(limit.at("maxLimitRequestRatio")) {
        found.extend(ratio(of, &name, &bound, requests, limits));
    }
}

fn minimum(
    of: &str,
    name: &str,
    (least, text): &(Nanos, String),
    requests: &Amounts,
    limits: &Amounts,
) -> Option<String> {
    let rule = format!("minimum {name} usage per {of} is {text}");
    match (requests.get(name), limits.get(name)) {
        (None, _) => Some(format!("{rule}.  No request is specified")),
        (Some((asked, said)), _) if asked < least => Some(format!("{rule}, but request is {said}")),
        (_, Some((most, said))) if most < least => Some(format!("{rule}, but limit is {said}")),
        _ => None,
    }
}

fn maximum(
    of: &str,
    name: &str,
    (most, text): &(Nanos, String),
    requests: &Amounts,
    limits: &Amounts,
) -> Option<String> {
    let rule = format!("maximum {name} usage per {of} is {text}");
    match (limits.get(name), requests.get(name)) {
        (None, _) => Some(format!("{rule}.  No limit is specified")),
        (Some((limit, said)), _) if limit > most => Some(format!("{rule}, but limit is {said}")),
        (_, Some((asked, said))) if asked > most => Some(format!("{rule}, but request is {said}")),
        _ => None,
    }
}

#[allow(
    clippy::cast_precision_loss,
    reason = "a ratio is compared and shown as a float, as the API defines it"
)]
fn ratio(
    of: &str,
    name: &str,
    (most, text): &(Nanos, String),
    requests: &Amounts,
    limits: &Amounts,
) -> Option<String> {
    let rule = format!("{name} max limit to request ratio per {of} is {text}");
    let amount = |list: &Amounts| list.get(name).map_or(0, |(amount, _)| *amount);
    let (asked, limit) = (amount(requests), amount(limits));
    if asked == 0 {
        return Some(format!(
            "{rule}, but no request is specified or request is 0"
        ));
    }
    if limit == 0 {
        return Some(format!("{rule}, but no limit is specified or limit is 0"));
    }
    let observed = limit as f64 / asked as f64;
    let allowed = *most as f64 / 1e9;
    (observed > allowed).then(|| format!("{rule}, but provided ratio is {observed:.6}"))
}

/// Returns a pod's total: the sum of the containers that run side by side, or the maximum
/// during its start if that is larger; pod-level values for CPU and memory take
/// precedence.
fn total(spec: &Value, field: &str) -> Amounts {
    let of = |container: &Value| amounts(container.at("resources").at(field));
    let mut sum = Amounts::new();
    for container in spec.items("containers") {
        add(&mut sum, &of(container));
    }
    let (mut sidecars, mut start) = (Amounts::new(), Amounts::new());
    for container in spec.items("initContainers") {
        let own = of(container);
        let mut needed = sidecars.clone();
        add(&mut needed, &own);
        if container.text("restartPolicy") == "Always" {
            add(&mut sum, &own);
            sidecars.clone_from(&needed);
        }
        raise(&mut start, &needed);
    }
    raise(&mut sum, &start);
    for (name, amount) in amounts(spec.at("resources").at(field)) {
        if matches!(name.as_str(), "cpu" | "memory") {
            sum.insert(name, amount);
        }
    }
    sum
}

fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, (amount, text)) in more {
        match sum.get_mut(name) {
            Some((total, said)) => {
                *total += amount;
                *said = quantity::format(*total, said.ends_with('i') || text.ends_with('i'));
            }
            None => {
                sum.insert(name.clone(), (*amount, text.clone()));
            }
        }
    }
}

fn raise(to: &mut Amounts, at_least: &Amounts) {
    for (name, amount) in at_least {
        if to.get(name).is_none_or(|known| known.0 < amount.0) {
            to.insert(name.clone(), amount.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    fn range() -> Value {
        value!({"spec": {"limits": [{
            "type": "Container",
            "min": {"cpu": "50m", "memory": "100Mi"},
            "max": {"cpu": "500m", "memory": "500Mi"},
            "default": {"cpu": "500m", "memory": "500Mi"},
            "defaultRequest": {"cpu": "100m", "memory": "200Mi"},
            "maxLimitRequestRatio": {"cpu": "5"}
        }]}})
    }

    #[test]
    fn a_container_without_wishes_gets_the_defaults() {
        let mut pod = value!({"metadata": {"name": "p"}, "spec": {"containers": [
            {"name": "a"}, {"name": "b", "resources": {"requests": {"cpu": "300m"}}}
        ]}});
        default_limits(&range(), &mut pod);
        let containers = pod.items_at(&["spec", "containers"]);
        assert_eq!(
            containers[1].at("resources"),
            &value!({
                "requests": {"cpu": "300m", "memory": "200Mi"},
                "limits": {"cpu": "500m", "memory": "500Mi"}
            })
        );
        assert_eq!(
            pod.at("metadata").at("annotations").text(ANNOTATION),
            "LimitRanger plugin set: cpu, memory request for container a; cpu, memory limit for container a; \
             memory request for container b; cpu, memory limit for container b"
        );
        assert_eq!(check_limits(&range(), &pod, false), None);
    }

    #[test]
    fn what_is_out_of_bounds_is_told_in_one_sentence() {
        let pod = value!({"spec": {"containers": [
            {"name": "a", "resources": {"requests": {"cpu": "10m", "memory": "100Mi"}, "limits": {"cpu": "500m", "memory": "500Mi"}}}
        ]}});
        assert_eq!(
            check_limits(&range(), &pod, false),
            Some(
                "[minimum cpu usage per Container is 50m, but request is 10m, \
                  cpu max limit to request ratio per Container is 5, but provided ratio is 50.000000]"
                    .into()
            )
        );
    }

    #[test]
    fn a_pods_sum_counts_sidecars_and_the_largest_start() {
        let spec = value!({
            "containers": [{"resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}}],
            "initContainers": [
                {"restartPolicy": "Always", "resources": {"requests": {"cpu": "50m"}}},
                {"resources": {"requests": {"cpu": "1", "memory": "1Mi"}}}
            ]
        });
        let sum = total(&spec, "requests");
        assert_eq!(sum["cpu"].1, "1050m");
        assert_eq!(sum["memory"].1, "1Gi");
    }

    #[test]
    fn a_claim_must_stay_within_its_storage() {
        let range = value!({"spec": {"limits": [
            {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}}
        ]}});
        let claim =
            |amount: &str| value!({"spec": {"resources": {"requests": {"storage": amount}}}});
        assert_eq!(check_limits(&range, &claim("2Gi"), true), None);
        assert_eq!(
            check_limits(&range, &claim("3Gi"), true),
            Some(
                "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi".into()
            )
        );
    }
}

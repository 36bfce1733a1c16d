//! Resources of a pod as a whole (KEP-2837, KEP-5419): what its containers
//! get of them, and what the pod's status says. Pure.

use std::collections::{BTreeMap, BTreeSet};

use node_agent_objects::pod::{PodSpec, ResourceRequirements};
use node_agent_objects::quantity;

use super::qos;

/// The resources that can change while a pod lives.
pub const RESIZABLE: [&str; 2] = ["cpu", "memory"];

/// What a container has: its own, and where it says nothing the limits of its
/// pod.
#[must_use]
pub fn effective(
    own: &ResourceRequirements,
    pod: Option<&ResourceRequirements>,
) -> ResourceRequirements {
    let mut all = own.clone();
    for name in RESIZABLE {
        let set = |r: &ResourceRequirements| {
            let text = r.limits.get(name)?;
            (qos::read(name, text) > 0).then(|| text.clone())
        };
        if set(own).is_none()
            && let Some(limit) = pod.and_then(set)
        {
            all.limits.insert(name.to_owned(), limit);
        }
    }
    all
}

/// `Pod.status.allocatedResources`: what a pod asks for in all.
#[must_use]
pub fn requests(spec: &PodSpec) -> BTreeMap<String, String> {
    list(spec, qos::pod_request, |r, name| {
        r.requests.get(name).or_else(|| r.limits.get(name))
    })
}

fn limits(spec: &PodSpec) -> BTreeMap<String, String> {
    list(spec, qos::pod_limit, |r, name| r.limits.get(name))
}

/// `Pod.status.resources` of a pod that does not run: what it will have.
#[must_use]
pub fn of_waiting(granted: &PodSpec) -> ResourceRequirements {
    ResourceRequirements {
        limits: limits(granted),
        requests: requests(granted),
        ..ResourceRequirements::default()
    }
}

/// `Pod.status.resources` of a pod that runs: what is in force of CPU and
/// memory, limits only where the whole pod is limited.
#[must_use]
pub fn of_running(granted: &PodSpec, in_force: &PodSpec) -> ResourceRequirements {
    let mut shown = granted.resources.clone().unwrap_or_default();
    let group = qos::pod_limits(in_force);
    let limited = [group.cpu_quota.is_some(), group.memory.is_some()];
    let (asked, most) = (requests(in_force), limits(in_force));
    for (name, limited) in RESIZABLE.into_iter().zip(limited) {
        put(&mut shown.requests, name, asked.get(name));
        put(&mut shown.limits, name, most.get(name).filter(|_| limited));
    }
    shown
}

/// Sets the amount of a resource, or takes it away.
pub fn put(list: &mut BTreeMap<String, String>, name: &str, value: Option<&String>) {
    match value {
        Some(value) => list.insert(name.to_owned(), value.clone()),
        None => list.remove(name),
    };
}

/// By resource: what the whole pod has of it, in the notation of its parts.
fn list(
    spec: &PodSpec,
    total: fn(&PodSpec, &str) -> i64,
    part: for<'a> fn(&'a ResourceRequirements, &str) -> Option<&'a String>,
) -> BTreeMap<String, String> {
    let containers = || {
        let all = spec.containers.iter().chain(&spec.init_containers);
        all.map(|container| &container.resources)
    };
    let all = || spec.resources.iter().chain(containers());
    let names = all().flat_map(|r| r.requests.keys().chain(r.limits.keys()));
    let names: BTreeSet<&String> = names.chain(spec.overhead.keys()).collect();
    let text = |name: &String| {
        let own = spec.resources.iter().filter(|_| qos::is_of_pods(name));
        let parts = own.chain(containers()).filter_map(|r| part(r, name));
        let overhead = spec.overhead.get(name);
        let total = total(spec, name);
        let mut notation = None;
        let mut count = 0;
        for text in parts.chain(overhead) {
            notation.get_or_insert(text);
            count += 1;
            if qos::read(name, text) == total {
                return Some(text.clone());
            }
        }
        (count > 0 && total > 0).then(|| {
            if name == "cpu" {
                quantity::of_milli(total)
            } else {
                quantity::of_whole(total, notation.is_some_and(|text| text.ends_with('i')))
            }
        })
    };
    names
        .into_iter()
        .filter_map(|name| Some((name.clone(), text(name)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(json: serde_json::Value) -> PodSpec {
        serde_json::from_value(json).unwrap()
    }

    fn shown(resources: &ResourceRequirements) -> serde_json::Value {
        serde_json::to_value(resources).unwrap()
    }

    #[test]
    fn a_container_that_says_nothing_has_its_pods_limits() {
        let read = |json| serde_json::from_value::<ResourceRequirements>(json).unwrap();
        let own = read(serde_json::json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}));
        let pod = read(serde_json::json!({"limits": {"cpu": "2", "memory": "64Mi"}}));
        assert_eq!(
            shown(&effective(&own, Some(&pod))),
            serde_json::json!({"limits": {"cpu": "1", "memory": "64Mi"}, "requests": {"cpu": "1"}})
        );
        assert_eq!(effective(&own, None), own);
    }

    #[test]
    fn sums_are_written_as_their_parts_are() {
        let spec = spec(serde_json::json!({
            "initContainers": [{"name": "i", "resources": {"requests": {"cpu": "100m"}}}],
            "containers": [
                {"name": "a", "resources": {"requests": {"cpu": "700m", "memory": "64Mi"}}},
                {"name": "b", "resources": {"requests": {"cpu": "300m", "memory": "32Mi", "x.io/y": "1"},
                    "limits": {"memory": "32Mi", "x.io/y": "1"}}}]}));
        assert_eq!(
            shown(&of_waiting(&spec)),
            serde_json::json!({
                "requests": {"cpu": "1", "memory": "96Mi", "x.io/y": "1"},
                "limits": {"memory": "32Mi", "x.io/y": "1"}})
        );
        // one container is not limited, so the pod is not
        assert_eq!(
            shown(&of_running(&spec, &spec)),
            serde_json::json!({"requests": {"cpu": "1", "memory": "96Mi"}})
        );
    }

    #[test]
    fn what_is_in_force_is_shown_beside_what_was_granted() {
        let with = |cpu: &str, memory: &str| {
            spec(serde_json::json!({
                "resources": {
                    "requests": {"cpu": cpu, "hugepages-2Mi": "4Mi"},
                    "limits": {"cpu": cpu, "memory": memory, "hugepages-2Mi": "4Mi"}},
                "containers": [{"name": "a", "resources": {"requests": {"memory": "8Mi"}}}]}))
        };
        let (granted, in_force) = (with("2", "64Mi"), with("1500m", "32Mi"));
        assert_eq!(
            shown(&of_running(&granted, &in_force)),
            serde_json::json!({
                "requests": {"cpu": "1500m", "memory": "32Mi", "hugepages-2Mi": "4Mi"},
                "limits": {"cpu": "1500m", "memory": "32Mi", "hugepages-2Mi": "4Mi"}})
        );
        assert_eq!(requests(&granted)["cpu"], "2");
        let none = spec(serde_json::json!({"containers": [{"name": "a"}]}));
        assert_eq!(shown(&of_running(&none, &none)), serde_json::json!({}));
        assert!(requests(&none).is_empty());
    }
}

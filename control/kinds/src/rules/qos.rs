//! Sums of container resources and the quality-of-service class they make.

use std::collections::BTreeMap;

use control_types::qos::{Compute, QosClass};
use control_types::value::{Map, Value};

use super::quantity::{self, Nanos};
use crate::tree::Read;

/// The class of a pod: `Guaranteed`, `Burstable` or `BestEffort`.
pub(crate) fn class(spec: &Value) -> &'static str {
    let pod_level = spec.at("resources");
    let class = if pod_level.size("requests") > 0 || pod_level.size("limits") > 0 {
        QosClass::from_containers([compute(pod_level)])
    } else {
        let lists = ["containers", "initContainers"].into_iter();
        let containers = lists.flat_map(|list| spec.items(list));
        QosClass::from_containers(containers.map(|container| compute(container.at("resources"))))
    };
    class.as_str()
}

fn compute(resources: &Value) -> Compute {
    let amounts = |field: &str| {
        ["cpu", "memory"].map(|name| {
            let mut entries = resources.entries(field);
            let found = entries.find(|(known, _)| *known == name);
            found.map_or(0, |(_, amount)| quantity::to_nanos(amount))
        })
    };
    Compute {
        requests: amounts("requests"),
        limits: amounts("limits"),
    }
}

/// Returns the requests of a pod's containers: the sum of those that run side by side, or
/// the largest init container if that is more.
pub(crate) fn container_requests(spec: &Value) -> Map {
    let mut sums: BTreeMap<String, (Nanos, bool)> = BTreeMap::new();
    let add = |sums: &mut BTreeMap<String, (Nanos, bool)>, container: &Value| {
        for (name, amount) in container.at("resources").entries("requests") {
            let entry = sums.entry(name.to_owned()).or_default();
            entry.0 += quantity::to_nanos(amount);
            entry.1 |= amount.as_text().ends_with('i');
        }
    };
    for container in spec.items("containers") {
        add(&mut sums, container);
    }
    let mut sidecars: BTreeMap<String, (Nanos, bool)> = BTreeMap::new();
    let mut peak: BTreeMap<String, (Nanos, bool)> = BTreeMap::new();
    for container in spec.items("initContainers") {
        if container.text("restartPolicy") == "Always" {
            add(&mut sums, container);
            add(&mut sidecars, container);
            continue;
        }
        for (name, amount) in container.at("resources").entries("requests") {
            let beside = sidecars.get(name).map_or(0, |s| s.0);
            let entry = peak.entry(name.to_owned()).or_default();
            entry.0 = entry.0.max(quantity::to_nanos(amount) + beside);
            entry.1 |= amount.as_text().ends_with('i');
        }
    }
    for (name, (amount, binary)) in peak {
        let entry = sums.entry(name).or_default();
        entry.0 = entry.0.max(amount);
        entry.1 |= binary;
    }
    let mut out = Map::new();
    for (name, (amount, binary)) in sums {
        out.insert(name.as_str(), quantity::format(amount, binary).as_str());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class_of(text: &str) -> &'static str {
        class(&Value::from_slice(text.as_bytes()).expect("test object"))
    }

    #[test]
    fn a_pod_is_guaranteed_when_every_container_requests_its_limits() {
        assert_eq!(class_of(r#"{"containers":[{"name":"a"}]}"#), "BestEffort");
        assert_eq!(
            class_of(r#"{"containers":[{"resources":{"requests":{"cpu":"1"}}}]}"#),
            "Burstable"
        );
        let full = r#"{"resources":{"requests":{"cpu":"1","memory":"1Gi"},"limits":{"cpu":"1000m","memory":"1024Mi"}}}"#;
        assert_eq!(
            class_of(&format!(r#"{{"containers":[{full}]}}"#)),
            "Guaranteed"
        );
        assert_eq!(
            class_of(&format!(r#"{{"containers":[{full},{{}}]}}"#)),
            "Burstable"
        );
    }
}

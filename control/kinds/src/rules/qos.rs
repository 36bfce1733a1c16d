//! Sums of container resources and the quality-of-service class they make.

use std::collections::BTreeMap;

use control_types::value::{Map, Value};

use super::quantity::{self, Nanos};
use crate::tree::Read;

/// The class of a pod: `Guaranteed`, `Burstable` or `BestEffort`.
pub(crate) fn class(spec: &Value) -> &'static str {
    let pod_level = spec.at("resources");
    let whole_pod = pod_level.size("requests") > 0 || pod_level.size("limits") > 0;
    let parts: Vec<&Value> = if whole_pod {
        vec![pod_level]
    } else {
        ["containers", "initContainers"]
            .iter()
            .flat_map(|list| spec.items(list))
            .map(|container| container.at("resources"))
            .collect()
    };
    let computes = |name: &str| matches!(name, "cpu" | "memory");
    let mut requests: BTreeMap<&str, Nanos> = BTreeMap::new();
    let mut limits: BTreeMap<&str, Nanos> = BTreeMap::new();
    let mut guaranteed = true;
    for part in &parts {
        let mut limited = 0;
        for (sums, field) in [(&mut requests, "requests"), (&mut limits, "limits")] {
            for (name, amount) in part.entries(field).filter(|(name, _)| computes(name)) {
                let amount = quantity::of(amount);
                if amount > 0 {
                    *sums.entry(name).or_default() += amount;
                    limited += usize::from(field == "limits");
                }
            }
        }
        guaranteed &= limited == 2;
    }
    if requests.is_empty() && limits.is_empty() {
        return "BestEffort";
    }
    let equal = requests.len() == limits.len()
        && requests
            .iter()
            .all(|(name, sum)| limits.get(name) == Some(sum));
    if guaranteed && equal {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// What the containers of a pod request together: the sum of those that run
/// side by side, or the largest initial one if that is more.
pub(crate) fn container_requests(spec: &Value) -> Map {
    let mut sums: BTreeMap<String, (Nanos, bool)> = BTreeMap::new();
    let add = |sums: &mut BTreeMap<String, (Nanos, bool)>, container: &Value| {
        for (name, amount) in container.at("resources").entries("requests") {
            let entry = sums.entry(name.to_owned()).or_default();
            entry.0 += quantity::of(amount);
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
            entry.0 = entry.0.max(quantity::of(amount) + beside);
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

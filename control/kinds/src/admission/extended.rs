//! `ExtendedResourceToleration`: pods that request an extended resource tolerate the
//! taint of its name, which reserves nodes for them.

use std::collections::BTreeSet;

use control_types::value;
use control_types::value::{Map, Value};

use crate::rules::resources;
use crate::tree::{Read, Write};

/// Adds a toleration for every extended resource that a container asks for.
pub fn tolerate_extended_resources(pod: &mut Value) {
    let spec = pod.make("spec");
    let containers = ["containers", "initContainers"].map(|list| spec.items(list));
    let names: BTreeSet<String> = containers
        .into_iter()
        .flatten()
        .filter_map(|container| container.dig(&["resources", "requests"]).as_object())
        .flat_map(Map::iter)
        .map(|(name, _)| name.to_string())
        .filter(|name| resources::is_extended(name))
        .collect();
    if names.is_empty() {
        return;
    }
    let mut all = spec.items("tolerations").to_vec();
    for name in names {
        let same = |toleration: &Value| {
            toleration.text("key") == name
                && toleration.text("operator") == "Exists"
                && toleration.text("effect") == "NoSchedule"
                && toleration.text("value").is_empty()
        };
        let new = value!({"key": (name.as_str()), "operator": "Exists", "effect": "NoSchedule"});
        match all.iter().position(same) {
            Some(at) => all[at] = new,
            None => all.push(new),
        }
    }
    spec.put("tolerations", Value::Array(all));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_resource_is_tolerated_once() {
        let asks = value!({"requests": {"example.com/gpu": "1", "cpu": "1", "a.b/fpga": "2"}});
        let mut pod = value!({"spec": {
            "containers": [{"resources": (asks.clone())}], "initContainers": [{"resources": (asks)}],
            "tolerations": [{"key": "x", "operator": "Exists"}]
        }});
        tolerate_extended_resources(&mut pod);
        let once = pod.clone();
        tolerate_extended_resources(&mut pod);
        assert_eq!(pod, once);
        let keys: Vec<&str> = pod
            .at("spec")
            .items("tolerations")
            .iter()
            .map(|one| one.text("key"))
            .collect();
        assert_eq!(keys, ["x", "a.b/fpga", "example.com/gpu"]);
        let mut plain =
            value!({"spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]}});
        tolerate_extended_resources(&mut plain);
        assert!(!plain.at("spec").has("tolerations"));
    }
}

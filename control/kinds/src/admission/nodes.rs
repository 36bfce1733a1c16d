//! `TaintNodesByCondition` and `PodTopologyLabels`: new nodes take no pods until
//! they are ready; pods know the zone and region of their node.

use control_types::value;
use control_types::value::Value;

use crate::tree::{Read, Write};

const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// The labels of nodes that their pods get.
const TOPOLOGY: &[&str] = &[
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
];

/// Gives a new node the taint that keeps pods away until it is ready.
pub fn taint_new_node(node: &mut Value) {
    let spec = node.make("spec");
    let tainted = spec
        .items("taints")
        .iter()
        .any(|taint| taint.text("key") == NOT_READY && taint.text("effect") == "NoSchedule");
    if !tainted {
        let mut taints = spec.items("taints").to_vec();
        taints.push(value!({"key": NOT_READY, "effect": "NoSchedule"}));
        spec.put("taints", Value::Array(taints));
    }
}

/// Copies the node's place in the topology to the labels of `object` (a pod
/// with a node, or the binding that gives it one).
pub fn topology_labels(node: &Value, object: &mut Value) {
    let place = node.at("metadata").at("labels");
    if !TOPOLOGY.iter().any(|key| place.has(key)) {
        return;
    }
    let labels = object.make("metadata").make("labels");
    for key in TOPOLOGY.iter().filter(|key| place.has(key)) {
        labels.take_from(place, key);
    }
    if let Value::Object(map) = labels {
        map.sort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_node_is_tainted_once() {
        let mut node = value!({"metadata": {"name": "n"}});
        taint_new_node(&mut node);
        taint_new_node(&mut node);
        assert_eq!(node.items_at(&["spec", "taints"]).len(), 1);
    }

    #[test]
    fn a_pod_gets_the_zone_of_its_node_and_nothing_else() {
        let node = value!({"metadata": {"labels": {"topology.kubernetes.io/zone": "z", "x": "y"}}});
        let mut pod = value!({"metadata": {"labels": {"topology.kubernetes.io/zone": "old"}}});
        topology_labels(&node, &mut pod);
        assert_eq!(
            pod,
            value!({"metadata": {"labels": {"topology.kubernetes.io/zone": "z"}}})
        );
    }
}

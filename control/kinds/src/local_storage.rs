//! The node of a claim or a volume of the nodes' own driver, and the views through which
//! nodes read theirs.
//!
//! A claim belongs to the node that was selected for it, a volume to the one node of its
//! affinity. Only the views can be filtered by them, so that the kinds themselves have
//! the selectable fields that they have upstream.

use control_types::meta;
use control_types::value::Value;

use crate::generic::PLAIN;
use crate::{Field, Kind};

/// Name of the driver.
pub const DRIVER: &str = "csi.orlop.dev";
/// Topology key by which a volume of the driver belongs to a node.
pub const NODE_KEY: &str = "topology.csi.orlop.dev/node";
/// Annotation of a claim: the node on which its volume is made.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// The field by which the views are selected.
const NODE_NAME: &str = "spec.nodeName";

/// `LocalClaim`: a claim for which a node was selected.
pub static LOCAL_CLAIM: Kind = Kind {
    group: "storage.orlop.dev",
    kind: "LocalClaim",
    namespaced: Some(true),
    selectable: &[NODE_NAME],
    ..PLAIN
};

/// `LocalVolume`: a volume of the driver that is on one node.
pub static LOCAL_VOLUME: Kind = Kind {
    group: "storage.orlop.dev",
    kind: "LocalVolume",
    namespaced: Some(false),
    selectable: &[NODE_NAME],
    ..PLAIN
};

/// Returns the node that was selected for a claim, empty for none.
#[must_use]
pub fn node_of_claim(claim: &Value) -> &str {
    meta::annotation(claim, SELECTED_NODE).unwrap_or_default()
}

/// Returns the node that alone has a volume of the driver, empty for any other volume.
#[must_use]
pub fn node_of_volume(volume: &Value) -> &str {
    let affinity = ["spec", "nodeAffinity", "required", "nodeSelectorTerms"];
    let [term] = volume.items_at(&affinity) else {
        return "";
    };
    let [expression] = term.items_at(&["matchExpressions"]) else {
        return "";
    };
    let [node] = expression.items_at(&["values"]) else {
        return "";
    };
    let is_local = volume.str_at(&["spec", "csi", "driver"]) == Some(DRIVER)
        && term.items_at(&["matchFields"]).is_empty()
        && expression.str_at(&["key"]) == Some(NODE_KEY)
        && expression.str_at(&["operator"]) == Some("In");
    node.as_str().filter(|_| is_local).unwrap_or_default()
}

pub(crate) fn fields_of_claim(claim: &Value) -> Vec<Field> {
    vec![(NODE_NAME, node_of_claim(claim).to_owned())]
}

pub(crate) fn fields_of_volume(volume: &Value) -> Vec<Field> {
    vec![(NODE_NAME, node_of_volume(volume).to_owned())]
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    fn volume(terms: Value) -> Value {
        value!({"spec": {
            "csi": {"driver": "csi.orlop.dev"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": (terms)}}
        }})
    }

    #[test]
    fn volume_belongs_to_the_one_node_of_its_affinity() {
        let on = |values: Value| {
            value!([{"matchExpressions": [
                {"key": "topology.csi.orlop.dev/node", "operator": "In", "values": (values)}
            ]}])
        };
        assert_eq!(node_of_volume(&volume(on(value!(["n1"])))), "n1");
        for terms in [
            value!([]),
            on(value!([])),
            on(value!(["n1", "n2"])),
            Value::Null,
        ] {
            assert_eq!(node_of_volume(&volume(terms.clone())), "", "{terms:?}");
        }
        let mut foreign = volume(on(value!(["n1"])));
        foreign.set_path(&["spec", "csi", "driver"], "other.example.com");
        assert_eq!(node_of_volume(&foreign), "");
        let mut either = on(value!(["n1"]));
        either
            .as_array_mut()
            .expect("terms")
            .extend(on(value!(["n2"])).as_array().cloned().unwrap_or_default());
        assert_eq!(node_of_volume(&volume(either)), "");
    }

    #[test]
    fn fields_of_the_views_are_no_fields_of_the_kinds() {
        for (kind, view) in [
            ("PersistentVolumeClaim", &LOCAL_CLAIM),
            ("PersistentVolume", &LOCAL_VOLUME),
        ] {
            let stored = crate::find_kind("", kind);
            assert!(stored.selectable.is_empty(), "{kind} offers fields");
            let offered = (stored.selectable_fields)(&value!({}));
            let offered: Vec<_> = offered.iter().map(|(name, _)| *name).collect();
            assert_eq!(offered, view.selectable, "{kind}");
        }
    }
}

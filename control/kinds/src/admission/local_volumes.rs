//! `NodeRestriction` for the driver of local volumes: an agent provisions volumes on its
//! own disks, for claims that the scheduler assigned to its node, and changes no others.
//!
//! A volume object can name any storage of any machine, and pods of any node mount it. So
//! an agent may only write those of this driver that are on its own node.

use control_types::meta;
use control_types::status::quote;
use control_types::value::Value;

use super::node_restriction::node_reports_claim;
use super::refusal::Refusal;
use crate::local_storage::{DRIVER, NODE_KEY, SELECTED_NODE, node_of_claim, node_of_volume};
use crate::tree::same;

/// Whether a volume is one of the driver that is on `node` and nowhere else.
#[must_use]
pub fn is_volume_of_node(node: &str, volume: &Value) -> bool {
    !node.is_empty() && node_of_volume(volume) == node
}

/// A new volume of an agent, for `claim`: the one that the volume names, if it exists.
///
/// # Errors
/// Why the agent may not make it.
pub fn node_makes_volume(node: &str, volume: &Value, claim: Option<&Value>) -> Result<(), Refusal> {
    if !is_volume_of_node(node, volume) {
        return Err(own_volumes_only(node));
    }
    let reference = |field| {
        volume
            .str_at(&["spec", "claimRef", field])
            .unwrap_or_default()
    };
    let is_for_node = claim.is_some_and(|claim| {
        meta::uid(claim) == reference("uid")
            && node_of_claim(claim) == node
            && claim
                .str_at(&["spec", "volumeName"])
                .unwrap_or_default()
                .is_empty()
            // The class says which secrets the node may read for the volume.
            && claim.str_at(&["spec", "storageClassName"]).unwrap_or_default()
                == volume.str_at(&["spec", "storageClassName"]).unwrap_or_default()
    });
    if is_for_node && meta::name(volume) == format!("pvc-{}", reference("uid")) {
        return Ok(());
    }
    Err(format!(
        "node {} can only create volumes for claims for which it was selected",
        quote(node)
    )
    .into())
}

/// An agent's change of a volume: its size, its class of attributes, and who keeps it.
///
/// # Errors
/// Why the agent may not write it.
pub fn node_changes_volume(node: &str, new: &Value, old: &Value) -> Result<(), Refusal> {
    if !is_volume_of_node(node, old) || !is_volume_of_node(node, new) {
        return Err(own_volumes_only(node));
    }
    let rest = |volume: &Value| {
        let mut volume = volume.clone();
        for path in [
            &["metadata", "resourceVersion"],
            &["metadata", "managedFields"],
            &["metadata", "finalizers"],
            &["metadata", "generation"],
            &["spec", "capacity"],
            &["spec", "volumeAttributesClassName"],
        ] {
            volume.remove_path(path);
        }
        volume
    };
    if same(&rest(new), &rest(old)) {
        return Ok(());
    }
    Err(format!(
        "node {} can only change size, attributes and finalizers of its volumes",
        quote(node)
    )
    .into())
}

/// An agent's deletion of a volume.
///
/// # Errors
/// That it is not one of the node.
pub fn node_deletes_volume(node: &str, volume: &Value) -> Result<(), Refusal> {
    if is_volume_of_node(node, volume) {
        return Ok(());
    }
    Err(own_volumes_only(node))
}

/// Checks an agent's change of a claim: it may only give back a claim for which its node
/// was selected. Scheduler and controllers select nodes: an agent that could do so would
/// attract the pods of any claim.
///
/// # Errors
/// Why the agent may not write it.
pub fn node_gives_claim_back(node: &str, new: &Value, old: &Value) -> Result<(), Refusal> {
    let rest = |claim: &Value| {
        let mut claim = claim.clone();
        let annotations = ["metadata", "annotations"];
        claim.remove_path(&["metadata", "annotations", SELECTED_NODE]);
        if matches!(claim.path(&annotations), Some(Value::Object(left)) if left.is_empty()) {
            claim.remove_path(&annotations);
        }
        for path in [
            ["metadata", "resourceVersion"],
            ["metadata", "managedFields"],
        ] {
            claim.remove_path(&path);
        }
        claim
    };
    let is_given_back = node_of_claim(new).is_empty() || node_of_claim(new) == node;
    if node_of_claim(old) == node && is_given_back && same(&rest(new), &rest(old)) {
        return Ok(());
    }
    Err("may only update PVC status".into())
}

/// An agent's report of a claim whose volume is on its node: sizes, conditions and
/// attributes.
///
/// # Errors
/// Why the agent may not write it.
pub fn node_reports_volume_of_claim(node: &str, new: &Value, old: &Value) -> Result<(), Refusal> {
    let without_attributes = |claim: &Value| {
        let mut claim = claim.clone();
        claim.remove_path(&["status", "currentVolumeAttributesClassName"]);
        claim.remove_path(&["status", "modifyVolumeStatus"]);
        claim
    };
    node_reports_claim(node, &without_attributes(new), &without_attributes(old))
}

/// Checks an agent's report of storage capacity, which must be its own.
///
/// # Errors
/// When it concerns another node.
pub fn node_publishes_capacity(node: &str, capacity: &Value) -> Result<(), Refusal> {
    let labels = capacity.path(&["nodeTopology", "matchLabels"]);
    let one = matches!(labels, Some(Value::Object(labels)) if labels.len() == 1);
    let named = labels.and_then(|labels| labels.str_at(&[NODE_KEY]));
    let expressions = capacity.items_at(&["nodeTopology", "matchExpressions"]);
    if one && named == Some(node) && expressions.is_empty() {
        return Ok(());
    }
    Err(format!(
        "node {} can only publish the storage capacity of its own topology",
        quote(node)
    )
    .into())
}

fn own_volumes_only(node: &str) -> Refusal {
    format!(
        "node {} can only write volumes of {DRIVER} on itself",
        quote(node)
    )
    .into()
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    fn volume(node: &str) -> Value {
        value!({
            "metadata": {"name": "pvc-u", "finalizers": ["f"]},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "claimRef": {"namespace": "d", "name": "c", "uid": "u"},
                "csi": {"driver": "csi.orlop.dev", "volumeHandle": "pvc-u"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                    {"key": "topology.csi.orlop.dev/node", "operator": "In", "values": [node]}
                ]}]}}
            }
        })
    }

    fn claim(selected: &str) -> Value {
        value!({
            "metadata": {
                "namespace": "d", "name": "c", "uid": "u",
                "annotations": {"volume.kubernetes.io/selected-node": selected}
            },
            "spec": {"volumeName": ""}
        })
    }

    fn with(mut object: Value, path: &[&str], value: Value) -> Value {
        object.set_path(path, value);
        object
    }

    #[test]
    fn an_agent_makes_volumes_of_its_own_disks_for_claims_of_its_node() {
        assert_eq!(
            node_makes_volume("n", &volume("n"), Some(&claim("n"))),
            Ok(())
        );
        let terms = ["spec", "nodeAffinity", "required", "nodeSelectorTerms"];
        let host_path = value!({
            "metadata": {"name": "pvc-u"},
            "spec": {"hostPath": {"path": "/"}, "claimRef": {"uid": "u"}}
        });
        for (volume, claim) in [
            (volume("m"), Some(claim("n"))),
            (volume("n"), Some(claim("m"))),
            (volume("n"), None),
            (
                volume("n"),
                Some(with(claim("n"), &["metadata", "uid"], "other".into())),
            ),
            (
                volume("n"),
                Some(with(claim("n"), &["spec", "volumeName"], "has".into())),
            ),
            (
                with(volume("n"), &["metadata", "name"], "else".into()),
                Some(claim("n")),
            ),
            (
                with(volume("n"), &["spec", "storageClassName"], "other".into()),
                Some(claim("n")),
            ),
            (
                with(volume("n"), &["spec", "csi", "driver"], "other".into()),
                Some(claim("n")),
            ),
            (with(volume("n"), &terms, value!([])), Some(claim("n"))),
            (host_path, Some(claim("n"))),
        ] {
            assert!(
                node_makes_volume("n", &volume, claim.as_ref()).is_err(),
                "{volume:?}"
            );
        }
    }

    #[test]
    fn an_agent_changes_of_its_volumes_size_attributes_and_finalizers() {
        let old = volume("n");
        let changed = |path: &[&str], value: Value| {
            node_changes_volume("n", &with(old.clone(), path, value), &old)
        };
        assert_eq!(
            changed(&["spec", "capacity", "storage"], "2Gi".into()),
            Ok(())
        );
        assert_eq!(changed(&["metadata", "finalizers"], value!([])), Ok(()));
        for (path, value) in [
            (["spec", "csi", "volumeHandle"].as_slice(), "other"),
            (["spec", "claimRef", "uid"].as_slice(), "other"),
            (
                ["spec", "persistentVolumeReclaimPolicy"].as_slice(),
                "Retain",
            ),
            (["metadata", "labels", "l"].as_slice(), "v"),
        ] {
            assert!(changed(path, value.into()).is_err(), "{path:?}");
        }
        assert!(node_changes_volume("m", &old, &old).is_err());
        assert!(node_deletes_volume("n", &old).is_ok());
        assert!(node_deletes_volume("m", &old).is_err());
    }

    #[test]
    fn an_agent_gives_back_its_own_claims_and_selects_itself_for_none() {
        let (own, free) = (
            claim("n"),
            value!({
                "metadata": {"namespace": "d", "name": "c", "uid": "u"}, "spec": {"volumeName": ""}
            }),
        );
        assert_eq!(node_gives_claim_back("n", &free, &own), Ok(()));
        assert!(node_gives_claim_back("n", &own, &free).is_err());
        assert!(node_gives_claim_back("n", &free, &free).is_err());
        assert!(node_gives_claim_back("n", &free, &claim("m")).is_err());
        assert!(node_gives_claim_back("n", &own, &claim("m")).is_err());
        assert!(node_gives_claim_back("n", &claim("m"), &own).is_err());
        let bound = with(free.clone(), &["spec", "volumeName"], "v".into());
        assert!(node_gives_claim_back("n", &bound, &own).is_err());
    }

    #[test]
    fn an_agent_publishes_the_capacity_of_its_own_topology() {
        let of = |labels: Value| value!({"nodeTopology": {"matchLabels": labels}});
        let own = of(value!({"topology.csi.orlop.dev/node": "n"}));
        assert_eq!(node_publishes_capacity("n", &own), Ok(()));
        assert!(node_publishes_capacity("m", &own).is_err());
        for other in [value!({}), of(value!({})), of(value!({"zone": "n"}))] {
            assert!(node_publishes_capacity("n", &other).is_err(), "{other:?}");
        }
    }
}

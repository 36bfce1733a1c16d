//! NodeDeclaredFeatures: a pod runs where the node declares the features that it needs.

use super::{Cycle, Influence, Plugin, RejectedNodes};
use crate::bits::Bits;
use crate::cluster::Cluster;
use crate::event::{Event, Subject};
use crate::snapshot::{Snapshot, Wake};
use crate::view::Pod;

pub(super) struct NodeDeclaredFeatures;

impl Plugin for NodeDeclaredFeatures {
    fn name(&self) -> &'static str {
        "NodeDeclaredFeatures"
    }

    fn filter(
        &self,
        snapshot: &Snapshot,
        pod: &Pod,
        nodes: &mut Bits,
        rejected: &mut RejectedNodes,
    ) {
        let mut failing = Bits::new();
        for feature in &pod.shape.required_features {
            match snapshot.declaring(feature) {
                Some(with) => failing.union(&nodes.retain(with)),
                None => failing.union(&std::mem::take(nodes)),
            }
        }
        let reason = "node(s) didn't match Pod's required features";
        rejected.add(&failing, reason, false);
    }

    fn influence(&self, _: &Cycle<'_>) -> Influence {
        Influence::None
    }

    fn wakes(&self) -> Wake {
        Wake::NODE_ADDED
            .and(Wake::NODE_FEATURES)
            .and(Wake::POD_ITSELF)
    }

    fn hint(&self, _: &Cluster, _: &Pod, event: &Event<'_>) -> bool {
        match event.subject {
            Subject::Node {
                old: Some(old),
                new: Some(new),
            } => old.features != new.features,
            Subject::Itself { old, new } => {
                old.shape.required_features != new.shape.required_features
            }
            _ => true,
        }
    }
}

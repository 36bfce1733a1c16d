//! NodeUnschedulable: cordoned nodes take no pods but those that tolerate it.

use super::{Cycle, Influence, Plugin, RejectedNodes};
use crate::bits::Bits;
use crate::cluster::Cluster;
use crate::event::{Event, Subject};
use crate::snapshot::{Snapshot, Wake};
use crate::view::{Pod, Taint};

pub(super) struct NodeUnschedulable;

fn tolerates(pod: &Pod) -> bool {
    let taint = Taint {
        key: "node.kubernetes.io/unschedulable".into(),
        value: "".into(),
        effect: "NoSchedule".into(),
    };
    let mut tolerations = pod.shape.tolerations.iter();
    tolerations.any(|toleration| toleration.tolerates(&taint))
}

impl Plugin for NodeUnschedulable {
    fn name(&self) -> &'static str {
        "NodeUnschedulable"
    }

    fn filter(
        &self,
        snapshot: &Snapshot,
        pod: &Pod,
        nodes: &mut Bits,
        rejected: &mut RejectedNodes,
    ) {
        if !tolerates(pod) {
            let cordoned = nodes.extract(snapshot.unschedulable());
            rejected.add(&cordoned, "node(s) were unschedulable", false);
        }
    }

    fn influence(&self, _: &Cycle<'_>) -> Influence {
        Influence::None
    }

    fn wakes(&self) -> Wake {
        Wake::NODE_ADDED
            .and(Wake::NODE_SCHEDULABLE)
            .and(Wake::POD_ITSELF)
    }

    fn hint(&self, _: &Cluster, _: &Pod, event: &Event<'_>) -> bool {
        match event.subject {
            Subject::Node {
                old,
                new: Some(new),
            } => !new.unschedulable && old.is_none_or(|old| old.unschedulable),
            Subject::Itself { old, new } => new.has_other_tolerations(old) && tolerates(new),
            _ => true,
        }
    }
}

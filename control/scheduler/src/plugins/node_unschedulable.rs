//! NodeUnschedulable: cordoned nodes take no pods but those that tolerate it.

use super::{Plugin, Rejected};
use crate::bits::Bits;
use crate::snapshot::{Snapshot, Wake};
use crate::view::{Pod, Taint};

pub(super) struct NodeUnschedulable;

impl Plugin for NodeUnschedulable {
    fn name(&self) -> &'static str {
        "NodeUnschedulable"
    }

    fn filter(&self, snapshot: &Snapshot, pod: &Pod, nodes: &mut Bits, rejected: &mut Rejected) {
        let taint = Taint {
            key: "node.kubernetes.io/unschedulable".into(),
            value: "".into(),
            effect: "NoSchedule".into(),
        };
        if !pod
            .shape
            .tolerations
            .iter()
            .any(|toleration| toleration.tolerates(&taint))
        {
            let cordoned = nodes.extract(snapshot.unschedulable());
            rejected.add(&cordoned, "node(s) were unschedulable", false);
        }
    }

    fn wakes(&self) -> Wake {
        Wake::NODE_ADDED.and(Wake::NODE_SCHEDULABLE)
    }
}

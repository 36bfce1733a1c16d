//! NodePorts: a port of the host is used once per node.

use super::{Cycle, Influence, Plugin, RejectedNodes};
use crate::bits::Bits;
use crate::cluster::Cluster;
use crate::event::{Event, Subject};
use crate::snapshot::{Snapshot, Wake};
use crate::view::Pod;

pub(super) struct NodePorts;

impl Plugin for NodePorts {
    fn name(&self) -> &'static str {
        "NodePorts"
    }

    fn filter(
        &self,
        snapshot: &Snapshot,
        pod: &Pod,
        nodes: &mut Bits,
        rejected: &mut RejectedNodes,
    ) {
        let wanted = &pod.shape.ports;
        if wanted.is_empty() {
            return;
        }
        let in_use = |at: &usize| {
            let used = snapshot.ports(*at);
            wanted
                .iter()
                .any(|port| used.iter().any(|other| port.conflicts(other)))
        };
        let conflicting: Bits = nodes.iter().filter(in_use).collect();
        nodes.subtract(&conflicting);
        let reason = "node(s) didn't have free ports for the requested pod ports";
        rejected.add(&conflicting, reason, true);
    }

    fn influence(&self, cycle: &Cycle<'_>) -> Influence {
        if cycle.pod.shape.ports.is_empty() {
            Influence::None
        } else {
            Influence::Any
        }
    }

    fn wakes(&self) -> Wake {
        Wake::NODE_ADDED.and(Wake::POD_REMOVED)
    }

    fn hint(&self, _: &Cluster, pod: &Pod, event: &Event<'_>) -> bool {
        match event.subject {
            Subject::Pod {
                old: Some(gone),
                new: None,
            } => {
                let mut wanted = pod.shape.ports.iter();
                wanted.any(|port| gone.shape.ports.iter().any(|it| port.conflicts(it)))
            }
            _ => true,
        }
    }
}

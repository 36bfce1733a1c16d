//! TaintToleration: taints keep pods off that do not tolerate them
//! (`NoSchedule`, `NoExecute`), or make the node worse (`PreferNoSchedule`).

use super::{Cycle, Influence, Plugin, RejectedNodes, proportional};
use crate::bits::Bits;
use crate::cluster::Cluster;
use crate::eligible_nodes::{tolerated, untolerated_nodes};
use crate::event::{Event, Subject};
use crate::snapshot::{Snapshot, Wake};
use crate::view::{Node, Pod};

pub(super) struct TaintToleration;

impl Plugin for TaintToleration {
    fn name(&self) -> &'static str {
        "TaintToleration"
    }

    fn filter(
        &self,
        snapshot: &Snapshot,
        pod: &Pod,
        nodes: &mut Bits,
        rejected: &mut RejectedNodes,
    ) {
        let untolerated = nodes.extract(&untolerated_nodes(snapshot, &pod.shape));
        rejected.add(&untolerated, "node(s) had untolerated taint(s)", false);
    }

    fn scores(&self, _: &Pod) -> bool {
        true
    }

    fn score(&self, snapshot: &Snapshot, pod: &Pod, nodes: &Bits, scores: &mut [i64]) {
        for at in nodes.iter() {
            if let Some(score) = scores.get_mut(at) {
                *score = 0;
            }
        }
        for (taint, with) in snapshot.taints() {
            if taint.effect == "PreferNoSchedule" && !tolerated(&pod.shape, taint) {
                for at in nodes.iter().filter(|at| with.contains(*at)) {
                    if let Some(score) = scores.get_mut(at) {
                        *score += 1;
                    }
                }
            }
        }
    }

    fn normalize(&self, nodes: &Bits, scores: &mut [i64]) {
        proportional(nodes, scores, true);
    }

    fn influence(&self, _: &Cycle<'_>) -> Influence {
        Influence::None
    }

    fn wakes(&self) -> Wake {
        Wake::NODE_ADDED
            .and(Wake::NODE_TAINTS)
            .and(Wake::POD_ITSELF)
    }

    fn hint(&self, _: &Cluster, pod: &Pod, event: &Event<'_>) -> bool {
        let fits = |node: &Node| {
            let mut taints = node.taints.iter();
            taints.all(|it| it.effect == "PreferNoSchedule" || tolerated(&pod.shape, it))
        };
        match event.subject {
            Subject::Node {
                old,
                new: Some(new),
            } => fits(new) && !old.is_some_and(fits),
            Subject::Itself { old, new } => new.has_other_tolerations(old),
            _ => true,
        }
    }
}

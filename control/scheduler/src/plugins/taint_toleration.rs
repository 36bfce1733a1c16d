//! TaintToleration: taints keep pods off that do not tolerate them
//! (`NoSchedule`, `NoExecute`), or make the node worse (`PreferNoSchedule`).

use super::{Plugin, Rejected, proportional};
use crate::bits::Bits;
use crate::snapshot::{Snapshot, Wake};
use crate::view::{Pod, Taint};

pub(super) struct TaintToleration;

fn tolerated(pod: &Pod, taint: &Taint) -> bool {
    pod.shape
        .tolerations
        .iter()
        .any(|toleration| toleration.tolerates(taint))
}

impl Plugin for TaintToleration {
    fn name(&self) -> &'static str {
        "TaintToleration"
    }

    fn filter(&self, snapshot: &Snapshot, pod: &Pod, nodes: &mut Bits, rejected: &mut Rejected) {
        let mut untolerated = Bits::new();
        for (taint, with) in snapshot.taints() {
            if taint.effect != "PreferNoSchedule" && !tolerated(pod, taint) {
                untolerated.union(with);
            }
        }
        let untolerated = nodes.extract(&untolerated);
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
            if taint.effect == "PreferNoSchedule" && !tolerated(pod, taint) {
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

    fn wakes(&self) -> Wake {
        Wake::NODE_ADDED.and(Wake::NODE_TAINTS)
    }
}

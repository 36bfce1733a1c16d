//! NodeResourcesBalancedAllocation: CPU and memory of a node are better used
//! up evenly; what counts is whether the pod makes it more or less even.

use super::{MAX_SCORE, Plugin};
use crate::bits::Bits;
use crate::snapshot::Snapshot;
use crate::view::Pod;

pub(super) struct BalancedAllocation;

impl Plugin for BalancedAllocation {
    fn name(&self) -> &'static str {
        "NodeResourcesBalancedAllocation"
    }

    fn scores(&self, pod: &Pod) -> bool {
        // a pod that asks for nothing changes no balance
        pod.shape.requests.cpu != 0 || pod.shape.requests.memory != 0
    }

    fn score(&self, snapshot: &Snapshot, pod: &Pod, nodes: &Bits, scores: &mut [i64]) {
        let (has, used) = (&snapshot.allocatable, &snapshot.requested);
        let requests = &pod.shape.requests;
        let at = |column: &[i64], place: usize| column.get(place).copied().unwrap_or(0);
        for place in nodes.iter() {
            let cpu = (at(&used.cpu, place), at(&has.cpu, place));
            let memory = (at(&used.memory, place), at(&has.memory, place));
            let without = balance(cpu, memory);
            let with = balance(
                (cpu.0.saturating_add(requests.cpu), cpu.1),
                (memory.0.saturating_add(requests.memory), memory.1),
            );
            if let Some(score) = scores.get_mut(place) {
                *score = MAX_SCORE / 2 + (MAX_SCORE / 2 + with - without) / 2;
            }
        }
    }
}

/// 100 when both are used to the same share, 50 when one is full and the other
/// empty: 1 less the standard deviation, in percent.
#[expect(clippy::cast_precision_loss, reason = "shares need no more precision")]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the result is within 50 and 100"
)]
fn balance(cpu: (i64, i64), memory: (i64, i64)) -> i64 {
    let share = |(used, has): (i64, i64)| (has != 0).then(|| (used as f64 / has as f64).min(1.0));
    let deviation = match (share(cpu), share(memory)) {
        (Some(cpu), Some(memory)) => ((cpu - memory) / 2.0).abs(),
        _ => 0.0,
    };
    ((1.0 - deviation) * MAX_SCORE as f64) as i64
}

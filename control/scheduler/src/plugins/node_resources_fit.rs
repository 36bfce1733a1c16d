//! NodeResourcesFit: what a pod asks for must be free, and the more is free
//! the better (LeastAllocated over CPU and memory).

use super::{MAX_SCORE, Plugin, Rejected};
use crate::bits::Bits;
use crate::snapshot::{Snapshot, Wake};
use crate::view::Pod;

pub(super) struct NodeResourcesFit;

impl Plugin for NodeResourcesFit {
    fn name(&self) -> &'static str {
        "NodeResourcesFit"
    }

    fn filter(&self, snapshot: &Snapshot, pod: &Pod, nodes: &mut Bits, rejected: &mut Rejected) {
        let candidates = nodes.clone();
        // evicting pods helps where the node is large enough when empty
        let mut check =
            |reason: &dyn Fn() -> String, needed: i64, has: &dyn Fn(usize) -> (i64, i64)| {
                let (mut occupied, mut too_small) = (Bits::new(), Bits::new());
                for at in candidates.iter() {
                    let (allocatable, requested) = has(at);
                    if needed > allocatable - requested {
                        let bits = if needed > allocatable {
                            &mut too_small
                        } else {
                            &mut occupied
                        };
                        bits.insert(at);
                    }
                }
                for (failing, resolvable) in [(occupied, true), (too_small, false)] {
                    if !failing.is_empty() {
                        nodes.subtract(&failing);
                        rejected.add(&failing, reason(), resolvable);
                    }
                }
            };
        let (has, used) = (&snapshot.allocatable, &snapshot.requested);
        let at = |column: &[i64], place: usize| column.get(place).copied().unwrap_or(0);
        check(&|| "Too many pods".to_owned(), 1, &|place| {
            (at(&has.pods, place), at(&used.pods, place))
        });
        let requests = &pod.shape.requests;
        for (name, needed, has, used) in [
            ("cpu", requests.cpu, &has.cpu, &used.cpu),
            ("memory", requests.memory, &has.memory, &used.memory),
            (
                "ephemeral-storage",
                requests.storage,
                &has.storage,
                &used.storage,
            ),
        ] {
            if needed > 0 {
                check(&|| format!("Insufficient {name}"), needed, &|place| {
                    (at(has, place), at(used, place))
                });
            }
        }
        for (name, needed) in &requests.extended {
            check(&|| format!("Insufficient {name}"), *needed, &|place| {
                (
                    has.get_extended(name, place),
                    used.get_extended(name, place),
                )
            });
        }
    }

    fn scores(&self, _: &Pod) -> bool {
        true
    }

    fn score(&self, snapshot: &Snapshot, pod: &Pod, nodes: &Bits, scores: &mut [i64]) {
        let requests = &pod.shape.requests;
        for place in nodes.iter() {
            let (mut sum, mut resources) = (0, 0);
            for (needed, has, used) in [
                (
                    requests.cpu_nonzero,
                    &snapshot.allocatable.cpu,
                    &snapshot.cpu_nonzero,
                ),
                (
                    requests.memory_nonzero,
                    &snapshot.allocatable.memory,
                    &snapshot.memory_nonzero,
                ),
            ] {
                let (Some(&has), Some(&used)) = (has.get(place), used.get(place)) else {
                    continue;
                };
                if has > 0 {
                    sum += free(used.saturating_add(needed), has);
                    resources += 1;
                }
            }
            if let Some(score) = scores.get_mut(place) {
                *score = if resources == 0 { 0 } else { sum / resources };
            }
        }
    }

    fn wakes(&self) -> Wake {
        Wake::NODE_ADDED
            .and(Wake::NODE_ALLOCATABLE)
            .and(Wake::POD_REMOVED)
    }
}

/// The share that is left over.
fn free(requested: i64, capacity: i64) -> i64 {
    if requested > capacity {
        return 0;
    }
    // 92 PB of memory times 100 would overflow
    let share = i128::from(capacity - requested) * i128::from(MAX_SCORE) / i128::from(capacity);
    i64::try_from(share).unwrap_or(0)
}

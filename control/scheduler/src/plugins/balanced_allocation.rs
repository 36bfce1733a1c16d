//! NodeResourcesBalancedAllocation: resources of a node are better used up evenly; what
//! counts is whether the pod makes it more or less even.

use compact_str::CompactString;

use super::node_resources_fit::{default_resources, is_usual};
use super::{Cycle, Influence, MAX_SCORE, Plugin};
use crate::bits::Bits;
use crate::snapshot::Snapshot;
use crate::view::Pod;

/// With the resources of the profile's arguments.
pub(crate) struct BalancedAllocation {
    pub(crate) resources: Vec<CompactString>,
}

impl Default for BalancedAllocation {
    fn default() -> Self {
        let resources = default_resources().into_iter();
        Self {
            resources: resources.map(|(name, _)| name).collect(),
        }
    }
}

impl Plugin for BalancedAllocation {
    fn name(&self) -> &'static str {
        "NodeResourcesBalancedAllocation"
    }

    fn influence(&self, _: &Cycle<'_>) -> Influence {
        Influence::None
    }

    fn scores(&self, pod: &Pod) -> bool {
        // a pod that asks for nothing changes no balance
        let requests = &pod.shape.requests;
        self.resources.iter().any(|name| requests.get(name) != 0)
    }

    fn score(&self, snapshot: &Snapshot, pod: &Pod, nodes: &Bits, scores: &mut [i64]) {
        let requests = &pod.shape.requests;
        let columns: Vec<_> = self
            .resources
            .iter()
            .filter_map(|name| {
                let needed = requests.get(name);
                if needed == 0 && !is_usual(name) {
                    return None;
                }
                let (has, used) = snapshot.resource(name, false)?;
                Some((needed, has, used))
            })
            .collect();
        let mut shares = Vec::with_capacity(columns.len());
        let mut balance = |place: usize, with_pod: bool| {
            shares.clear();
            for (needed, has, used) in &columns {
                let has = has.get(place).copied().unwrap_or(0);
                let used = used.get(place).copied().unwrap_or(0);
                let used = used.saturating_add(if with_pod { *needed } else { 0 });
                if has != 0 {
                    shares.push(share(used, has));
                }
            }
            evenness(&shares)
        };
        for place in nodes.iter() {
            let (without, with) = (balance(place, false), balance(place, true));
            if let Some(score) = scores.get_mut(place) {
                *score = MAX_SCORE / 2 + (MAX_SCORE / 2 + with - without) / 2;
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "shares need no more precision")]
fn share(used: i64, has: i64) -> f64 {
    (used as f64 / has as f64).min(1.0)
}

/// 100 when all are used to the same share; less by the standard deviation, in percent.
#[expect(clippy::cast_precision_loss, reason = "a handful of resources")]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the result is within 50 and 100"
)]
fn evenness(shares: &[f64]) -> i64 {
    let deviation = match shares {
        [] | [_] => 0.0,
        [one, other] => ((one - other) / 2.0).abs(),
        many => {
            let count = many.len() as f64;
            let mean = many.iter().sum::<f64>() / count;
            let squares = many.iter().map(|it| (it - mean) * (it - mean));
            (squares.sum::<f64>() / count).sqrt()
        }
    };
    ((1.0 - deviation) * MAX_SCORE as f64) as i64
}

//! ImageLocality: a node that has the images need not pull them. An image on
//! few nodes counts less, or these would get all the pods.

use super::{Cycle, Influence, MAX_SCORE, Plugin};
use crate::bits::Bits;
use crate::snapshot::Snapshot;
use crate::view::Pod;

pub(super) struct ImageLocality;

const MIB: i64 = 1 << 20;
/// Less than this is pulled in no time.
const SMALL: i64 = 23 * MIB;
/// More than this per container makes no more difference.
const LARGE: i64 = 1000 * MIB;

impl Plugin for ImageLocality {
    fn name(&self) -> &'static str {
        "ImageLocality"
    }

    fn influence(&self, _: &Cycle<'_>) -> Influence {
        Influence::None
    }

    fn scores(&self, pod: &Pod) -> bool {
        !pod.shape.images.is_empty()
    }

    /// It depends on how many nodes have an image.
    fn global(&self) -> bool {
        true
    }

    #[expect(clippy::cast_precision_loss, reason = "a share of a size")]
    #[expect(clippy::cast_possible_truncation, reason = "less than the size")]
    fn score(&self, snapshot: &Snapshot, pod: &Pod, nodes: &Bits, scores: &mut [i64]) {
        for at in nodes.iter() {
            if let Some(score) = scores.get_mut(at) {
                *score = 0;
            }
        }
        if !pod
            .shape
            .images
            .iter()
            .any(|name| snapshot.image(name).is_some())
        {
            return;
        }
        let total = snapshot.live().count().max(1);
        for name in &pod.shape.images {
            let Some((size, with)) = snapshot.image(name) else {
                continue;
            };
            let spread = with.count() as f64 / total as f64;
            let scaled = (size as f64 * spread) as i64;
            for at in nodes.iter().filter(|at| with.contains(*at)) {
                if let Some(score) = scores.get_mut(at) {
                    *score += scaled;
                }
            }
        }
        let most = LARGE * i64::from(pod.shape.containers);
        for at in nodes.iter() {
            if let Some(score) = scores.get_mut(at) {
                let sum = (*score).max(SMALL).min(most);
                *score = MAX_SCORE * (sum - SMALL) / (most - SMALL);
            }
        }
    }
}

//! The range of scores.

use crate::bits::Bits;

/// The best score that a plugin gives a node.
pub const MAX_SCORE: i64 = 100;

/// Scales scores so that the highest is [`MAX_SCORE`]; with `reverse`, so that
/// the highest is 0 and 0 is [`MAX_SCORE`].
pub(crate) fn proportional(nodes: &Bits, scores: &mut [i64], reverse: bool) {
    let highest = nodes
        .iter()
        .filter_map(|at| scores.get(at))
        .copied()
        .max()
        .unwrap_or(0)
        .max(0);
    for at in nodes.iter() {
        if let Some(score) = scores.get_mut(at) {
            let scaled = if highest == 0 {
                0
            } else {
                MAX_SCORE * *score / highest
            };
            *score = if reverse { MAX_SCORE - scaled } else { scaled };
        }
    }
}

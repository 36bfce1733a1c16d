//! Requirements of a pod that no node can satisfy (a rejection by PreFilter).

use crate::snapshot::Wake;

/// The reason why no node fits a pod until other objects change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnmetReason {
    /// The rejecting plugin.
    pub plugin: &'static str,
    /// The reason, as people read it.
    pub reason: String,
    /// Whether each node counts as rejected by a filter for this reason.
    pub on_each_node: bool,
    /// Whether evicting pods could help.
    pub resolvable: bool,
    /// The events that may change that.
    pub wake: Wake,
}

//! Why a pod fits no node whatever the nodes are (a rejection by PreFilter).

use crate::snapshot::Wake;

/// The reason why no node fits a pod until other objects change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnmetReason {
    /// The plugin that says so.
    pub plugin: &'static str,
    /// The reason, as people read it.
    pub reason: String,
    /// Whether each node is counted as rejected for it by a filter.
    pub on_each_node: bool,
    /// Whether evicting pods could help.
    pub resolvable: bool,
    /// What may change that.
    pub wake: Wake,
}

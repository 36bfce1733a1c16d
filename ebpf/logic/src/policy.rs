//! The verdict of network policy on a new flow, at one of its two ends.
//!
//! It takes at most seven lookups, whatever the number of policies: root, endpoint, peer,
//! port, then one or two entries of the ruleset (three if the ruleset does not name the
//! peer); two if no policy selects the endpoint. Missing or torn entries mean deny.

mod decision;
mod guard;
#[cfg(feature = "model")]
pub mod model;

pub use decision::{Flow, HookPlace, PolicyDecision, PolicyMaps, policy};
pub use guard::{
    DeviceFacts, Guard, PolicyFlows, Recent, ReturnPath, Ruling, VerdictReason, begin, describe,
    guard, host_begin, host_outline, host_portless, host_told, is_recent, is_recent_still,
    neighbour, outline, portless, prove, unreadable, way_back,
};

#[cfg(test)]
mod tests;

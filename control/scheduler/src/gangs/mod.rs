//! Gangs: pods that are scheduled together (KEP-4671).
//!
//! A pod names a PodGroup in `spec.schedulingGroup`. All waiting pods of one group are decided
//! about at once, on one state of the cluster ([`Placer::place_gang`]): each is placed as if
//! those before it ran already. A group of the policy `gang` is scheduled when `minCount` of
//! its pods fit, those counted that are on nodes; then all that fit are bound, else none.
//!
//! The plugin GangScheduling keeps pods from being tried before `minCount` pods exist
//! (PreEnqueue), and holds those that have a node until `minCount` have one (Permit).
//!
//! Not to be confused with [`groups`](crate::groups), which counts pods on nodes by labels.
//!
//! [`Placer::place_gang`]: crate::Placer::place_gang

mod members;
mod plugin;
#[cfg(test)]
mod tests;
mod trial;

pub use members::{GangKey, Gangs, MemberCounts};
pub(crate) use plugin::{GangScheduling, NAME};
pub use trial::{Attempt, GangDecision, Member, Trial, Verdict};

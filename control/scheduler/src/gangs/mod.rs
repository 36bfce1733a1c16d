//! Gangs: pods that are scheduled together (KEP-4671).
//!
//! A pod names a PodGroup in `spec.schedulingGroup`. All waiting pods of one group are
//! decided together, on one state of the cluster ([`Placer::place_gang`]): each is placed
//! as if the preceding ones were already running. A group with the policy `gang` is
//! scheduled when `minCount` of its pods fit, including those that are on nodes; then all
//! fitting pods are bound, otherwise none.
//!
//! The plugin GangScheduling holds pods back before `minCount` pods exist (PreEnqueue),
//! and holds those that have a node until `minCount` have one (Permit).
//!
//! Not to be confused with [`groups`](crate::groups), which counts pods on nodes by
//! labels.
//!
//! [`Placer::place_gang`]: crate::Placer::place_gang

mod members;
mod plugin;
mod trial;

pub use members::{Gangs, MemberCounts};
pub(crate) use plugin::{GANG_SCHEDULING, GangScheduling};
pub use trial::{Attempt, GangDecision, Member, Trial, Verdict};

pub use crate::view::GangKey;

#[cfg(test)]
mod tests;

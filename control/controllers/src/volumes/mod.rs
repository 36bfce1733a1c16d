//! Storage: binding claims to volumes, making claims for pods, announcing
//! expansions, attaching volumes to nodes, selecting nodes for local volumes, and their
//! snapshots.

pub(crate) mod attach;
pub(crate) mod binder;
pub(crate) mod ephemeral;
pub(crate) mod expand;
pub(crate) mod local;
mod plugins;
mod pods;
pub(crate) mod snapshots;
mod written_views;

pub(crate) use plugins::driver_of_migrated;
pub(crate) use pods::claim_name;

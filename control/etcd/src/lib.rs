//! Runs and looks after the members of an etcd cluster, one beside each server.
//!
//! | module | contains |
//! | --- | --- |
//! | [`record`] | what a member is, kept in a file beside its data; its command line |
//! | [`disk`] | how long the disk takes to make a write durable |
//! | [`process`] | the process of the member: restarts, log, end |
//! | [`admin`] | questions to members and changes of the membership |
//! | [`join`] | how a member is added as a learner and promoted |
//! | [`recover`] | how one member goes on alone after a majority is lost |
//! | [`restore`] | how the first member of a new cluster is made from a snapshot |
//! | [`wal`] | the log of a member that does not run: all of it counts as committed |
//! | [`plan`] | decisions about the cluster, as pure functions |
//! | [`upkeep`] | quota alarms and defragmentation, by the leader's server |
//!
//! A server asks only the member on its own machine: a member that is alone with its fault takes
//! one server out, and clients go to another. No load balancer stands between.

pub mod admin;
pub mod disk;
mod error;
pub mod join;
mod log_line;
pub mod plan;
pub mod process;
pub mod record;
pub mod recover;
pub mod restore;
mod spawn;
pub mod upkeep;
pub mod wal;

pub use admin::{Admin, Credentials};
pub use error::Error;
pub use process::Process;
pub use record::Record;

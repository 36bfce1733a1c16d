//! Checks of a cluster's network, independent of its dataplane.
//!
//! [`checks`] turns a cluster's [`Topology`] into checks, one file per group. A check
//! names a client, an [`Operation`] and an [`Expectation`]. [`objects`] are the pods,
//! Services and policies of the checks. [`probe`] is the program in those pods: it
//! serves, or performs operations and prints one JSON line per result. [`verdict`]
//! compares an outcome with an expectation, in the probe (to stop retrying) and in the
//! command.
//!
//! Results are read from the pods' logs, so that neither `exec` nor a route from the API
//! server to pods is needed.

pub mod check;
pub mod checks;
pub mod objects;
pub mod operation;
pub mod probe;
pub mod topology;
pub mod verdict;

pub use check::{Check, Client, Group, Step};
pub use operation::{Expectation, Failure, Operation, Outcome, Report, Task};
pub use topology::Topology;

//! Checks of a cluster's network, independent of its dataplane.
//!
//! [`checks`] turns what is known of a cluster ([`Topology`]) into checks, one file per group.
//! A check names a client, an [`Operation`] and an [`Expectation`]. [`objects`] are the pods,
//! Services and policies that the checks need. [`probe`] is the program in those pods: it
//! serves, or performs operations and prints one JSON line per result. [`verdict`] compares an
//! outcome with an expectation, in the probe (to know when to stop trying) and in the command.
//!
//! Results come back through pods' logs, so that neither `exec` nor a route from the API server
//! to pods is needed.

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

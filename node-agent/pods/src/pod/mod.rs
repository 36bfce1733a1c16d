//! One pod: what is wanted, what is there, what to do.
//!
//! `next` decides and `status` reports, both pure; `worker` drives them over a
//! pod's `state`, `execute` and `kill` do what was decided.

mod actuate;
mod admission;
pub mod admit;
#[cfg(test)]
mod alignment_tests;
pub mod allocation;
pub mod backoff;
mod cleanup;
pub mod conditions;
pub mod config;
pub mod context;
mod definition;
pub mod dns;
pub mod env;
pub mod env_file;
pub mod execute;
mod keep_volumes;
pub mod kill;
pub mod limits;
mod live_status;
pub mod next;
mod probe_responder;
pub mod report;
pub mod restarts;
mod sandbox;
#[cfg(test)]
mod shutdown_tests;
#[cfg(test)]
mod slices_tests;
mod state;
pub mod status;
pub mod userns;
pub mod worker;

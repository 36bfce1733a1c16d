//! Cluster DNS: answers queries for services and pods, and forwards others.
//!
//! Names and records are those of *Kubernetes DNS-Based Service Discovery* 1.1. The
//! contents of the zone are a pure function of the currently known services and endpoint
//! slices ([`zone::Zone::answer`]); there is no second table to keep up to date.

mod encode;
mod frame;
mod limits;
mod server;
mod upstream;
pub mod zone;

pub use server::{Error, Options, run, upstreams_of};

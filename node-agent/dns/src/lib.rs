//! Cluster DNS: answers for services and pods, forwarding the rest.
//!
//! Names and records are those of *Kubernetes DNS-Based Service Discovery*
//! 1.1. What the zone says is a pure function of the services and endpoint
//! slices known at that moment ([`zone::Zone::answer`]); there is no second
//! table to keep up to date.

mod encode;
mod frame;
mod limits;
mod server;
mod upstream;
pub mod zone;

pub use server::{Error, Options, run, upstreams_of};

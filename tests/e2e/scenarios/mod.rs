//! The scenarios, one file each, and what several of them do to a node ([`node`]).

pub mod adoption;
pub mod apply;
pub mod attack;
pub mod charts;
pub mod claims;
pub mod connectivity;
pub mod crash;
pub mod deploy;
pub mod disk;
pub mod exec;
pub mod hang;
pub mod leaks;
pub mod load_balancer;
pub mod local_volumes;
pub mod metallb;
pub mod migration;
pub mod namespace;
pub mod node;
pub mod policy;
pub mod prometheus;
pub mod reading;
pub mod replace;
pub mod rollout;
pub mod servers;
pub mod services;
pub mod tasks;
pub mod upgrade;
pub mod volumes;
pub mod why;

/// The image for scenarios: made by `xtask`, known to every node.
pub const IMAGE: &str = "registry.orlop.dev/demo:1";

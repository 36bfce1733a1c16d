//! The plugins: one per file, all of one shape, named and weighted as in kube-scheduler's
//! default profile.
//!
//! A plugin works on a *set* of nodes at once. Filters run in order, each on the nodes
//! that its predecessors accepted, so that a node is reported with the reasons of the
//! first filter that rejects it.

mod affinity_state;
mod args;
pub(crate) mod balanced_allocation;
mod cycle;
mod image_locality;
mod inter_pod_affinity;
pub(crate) mod node_affinity;
mod node_declared_features;
mod node_name;
mod node_ports;
pub(crate) mod node_resources_fit;
mod node_unschedulable;
mod plugin;
pub(crate) mod pod_topology_spread;
pub(crate) mod profile;
mod rejected;
mod score;
mod spread_state;
mod taint_toleration;

pub use args::{CycleArgs, PreemptionArgs};
pub use cycle::Cycle;
pub use plugin::{Influence, Permission, Plugin};
pub use profile::Profile;
pub use rejected::{RejectedNodes, Rejection};
pub use score::MAX_SCORE;
pub(crate) use score::proportional;

#[cfg(test)]
#[path = "hints_tests.rs"]
mod hints_tests;
#[cfg(test)]
#[path = "pods_tests.rs"]
mod pods_tests;

//! Nodes: whether they live, what may run there, and their pods' addresses.

mod eviction;
mod ipam;
mod lifecycle;

pub use eviction::CONTROLLER as TAINT_EVICTION;
pub use ipam::CONTROLLER as IPAM;
pub use lifecycle::CONTROLLER as LIFECYCLE;

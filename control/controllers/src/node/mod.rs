//! Nodes: whether they live, what may run there, and their pods' addresses.

mod eviction;
mod ipam;
mod lifecycle;
mod ttl;

pub use eviction::CONTROLLER as TAINT_EVICTION;
pub(crate) use eviction::tolerates;
pub use ipam::CONTROLLER as IPAM;
pub use lifecycle::CONTROLLER as LIFECYCLE;
pub use ttl::CONTROLLER as TTL;

//! Aggregation: groups and versions of the API that other servers serve, as
//! APIService objects say (`kube-aggregator` in stock).
//!
//! ```text
//! APIServices ──▶ Snapshot of Remotes ──▶ proxy       requests, with the caller's identity
//!                        │                discovery   their groups among ours
//!                        ▼
//!                  keep: one task a Remote: can it be reached (condition Available),
//!                        which resources does it have
//! ```
//!
//! A request for a group and version that this server serves itself costs one
//! look at an empty snapshot.

mod aggregator;
mod api_service;
mod available;
mod discover;
mod headers;
mod merge;
mod proxy;
pub mod registration;
mod remote;

pub use aggregator::{Aggregator, LocalVersion, ProxyIdentity, Snapshot};
pub use api_service::{GROUP, PLURAL};
pub use available::keep;
pub use merge::{Form, join, merge};
pub use proxy::proxy;
pub use remote::Remote;

//! Objects of the API: how they are stored, converted, owned, completed, and what requests do
//! to them.
//!
//! [`Storage`] has the resources, the caches from which they are read and the store to which
//! they are written ([`mod@write`]); custom resources follow their definitions ([`custom`]).
//! The [`Registry`] adds what a write needs besides: addresses and ports of Services
//! ([`allocate`]), admission ([`control_admission`]), and rights ([`authorizer`]). The handlers in
//! [`verbs`] and [`subresources`] answer requests, each given as a [`Context`].

pub mod allocate;
pub mod authorizer;
mod certificate_requests;
mod cluster;
pub mod conditions;
mod context;
pub mod convert;
pub mod counts;
pub mod custom;
mod escalation;
pub mod managed;
pub mod own;
pub mod owners;
mod registry;
pub mod reply;
pub mod selection;
mod served_resource;
mod storage;
mod storage_metrics;
mod store_error;
pub mod subresources;
pub mod verbs;
pub mod write;

pub use context::{Context, WatchPlace};
pub use registry::{Registry, RegistryConfig, WatchSettings};
pub use served_resource::{Projection, ServedResource};
pub use storage::{Storage, precondition};
pub use store_error::store_error;

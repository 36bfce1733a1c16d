//! The API server: listener, request chain, and what it serves besides objects.
//!
//! [`ApiServer`] is the entry: it reads the store, fills the caches and answers
//! requests, over TLS ([`ApiServer::serve`]) and in the process
//! ([`ApiServer::service`]). A request goes through the filters of [`chain`] and
//! [`route`] to a handler: what it does to objects is done by [`control_registry`],
//! connections to nodes, pods and Services by [`control_connect`].

pub mod api;
pub mod chain;
pub mod components;
pub mod config;
mod encryption;
mod error;
pub mod features;
mod gather;
pub mod health;
mod health_counts;
pub mod lifecycle;
pub mod listen;
mod local_storage;
pub mod metrics;
mod metrics_page;
mod pod_endpoints;
mod post_start_hooks;
mod pprof;
mod projected_group;
mod request_counts;
pub mod route;
pub mod server;
pub mod store_calls;
pub mod subresources;
mod zpages;

pub use config::Config;
pub use control_aggregation::ProxyIdentity;
pub use control_auth::{Access, Authorities, ClusterAccess};
pub use control_registry::authorizer::Verdict;
pub use error::Error;
pub use server::{ApiServer, Service};

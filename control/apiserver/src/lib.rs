//! Request chain, generic resource handlers, watch cache.
//!
//! [`ApiServer`] is the entry: it reads the store, fills the caches and answers
//! requests, over TLS ([`ApiServer::serve`]) and in the process
//! ([`ApiServer::service`]). A request goes through [`chain`], [`route`] and one
//! of the handlers in [`verbs`] or [`subresources`]; reads are answered by
//! [`cache`], writes go through [`write`] to the store and come back to the
//! cache through the store's watch.

#![allow(
    clippy::result_large_err,
    reason = "a Status is the answer of every refused request; boxing it at each of a hundred borders buys nothing"
)]

pub mod access;
mod access_counts;
pub mod aggregate;
pub mod api;
pub mod audit;
pub mod certificates;
pub mod chain;
pub mod components;
pub mod config;
pub mod discovery;
mod encryption;
mod fairness;
pub mod features;
mod gather;
pub mod health;
mod health_counts;
pub mod lifecycle;
pub mod listen;
mod local_storage;
pub mod metrics;
pub mod node_metrics;
pub mod oidc;
pub mod openapi;
mod paths;
mod pod_endpoints;
mod post_start_hooks;
mod pprof;
mod request_counts;
pub mod reviews;
pub mod route;
pub mod server;
mod storage_counts;
pub mod store_calls;
pub mod subresources;
mod token_request;
mod zpages;

pub use access::ClusterAccess;
pub use access_counts::Decided;
pub use aggregate::ProxyIdentity;
pub use certificates::Certificates;
pub use chain::{Access, Authorities};
pub use config::Config;
pub use control_registry::authorizer::Verdict;
pub use server::{ApiServer, Error, Service};

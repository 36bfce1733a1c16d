//! The API server: listener, request chain, and what it serves besides objects.
//!
//! [`ApiServer`] is the entry: it reads the store, fills the caches and answers
//! requests, over TLS ([`ApiServer::serve`]) and in the process
//! ([`ApiServer::service`]). A request goes through the filters of [`chain`] and
//! [`route`] to a handler: what it does to objects is done by [`control_registry`],
//! connections to nodes, pods and Services by [`subresources`].

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

//! Connections to nodes, pods and Services: `pods/log`, `pods/exec`, `pods/attach`,
//! `pods/portforward`, and the proxies of pods, Services and nodes.
//!
//! Each is a method of the [`Connector`]. Admission sees a connection before it is made.

mod admit;
mod connector;
mod log;
mod node;
mod proxy;
mod streams;

pub use connector::Connector;

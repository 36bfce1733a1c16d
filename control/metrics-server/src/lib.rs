//! `metrics.k8s.io/v1beta1`, as a metrics server answers it: what nodes and pods use, so that
//! `kubectl top` and autoscalers work in every cluster.
//!
//! Nodes' agents are asked every so often ([`keep`]); CPU is the difference between the last
//! two answers. Who installs a metrics server registers it as an APIService with a Service: then
//! that one is asked, and this one rests.

mod node_metrics;
mod sample;
mod scrape;
mod shape;

pub use node_metrics::{GROUP, NodeMetrics, VERSION, entry};
pub use scrape::keep;

//! Connections from the API server to other servers, and requests that are passed on
//! over them: to pods, Services, nodes ([`kubelet`]) and webhooks ([`webhook`]).
//!
//! ```text
//! client ──▶ ProxiedRequest ──▶ Target ──▶ forward   one request, one answer
//!                                     └──▶ upgrade   raw bytes after 101, or streams
//! ```
//!
//! Every proxied request gets a connection of its own to its target: there is no pool
//! whose members may have died, and a client that goes away takes the connection with
//! it ([`egress::target`]). Bodies are passed on frame by frame; none is held as a whole.

mod answer_cache;
pub mod egress;
pub mod forward;
pub mod headers;
pub mod html;
pub mod kubelet;
pub mod location;
pub mod name;
mod reviewer;
pub mod service_resolver;
pub mod streams;
pub mod upgrade;
pub mod webhook;

use http::request::Parts;
use tokio_util::sync::CancellationToken;

pub use answer_cache::AnswerCache;
pub use egress::Egress;
pub use kubelet::Kubelets;
pub use reviewer::Reviewer;
pub use service_resolver::ServiceLister;

/// A client's request that is passed on to another server.
#[derive(Clone, Copy, Debug)]
pub struct ProxiedRequest<'a> {
    /// Method, URI, headers and extensions.
    pub parts: &'a Parts,
    /// The part of the path behind the subresource, as it stood in the URI.
    pub rest: &'a str,
    /// Cancelled when streams of the request must end.
    pub ending: &'a CancellationToken,
}

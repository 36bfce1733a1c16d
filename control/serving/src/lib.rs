//! Serves HTTPS beside an API server, as kubelets, kube-scheduler and
//! kube-controller-manager do.
//!
//! ```text
//! client ──TLS──▶ accept ──▶ access ──▶ route
//!                   │           └─TokenReview, SubjectAccessReview──▶ API server
//!                  tls: certificates and authorities that are replaced while it serves
//! ```
//!
//! [`component`] is the port of a component without an API of its own: health and
//! metrics.

mod accept;
pub mod access;
pub mod component;
pub mod process;
#[cfg(test)]
mod tests;
mod tls;

pub use accept::accept;
pub use tls::{Tls, TlsError};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};

/// The body of an answer.
pub type Body = UnsyncBoxBody<Bytes, std::io::Error>;

/// An answer in plain text.
pub fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    reply(status, "text/plain; charset=utf-8", body)
}

/// An answer that is there as a whole.
pub fn reply(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    let body = Full::new(body.into())
        .map_err(|never| match never {})
        .boxed_unsync();
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

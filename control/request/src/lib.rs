//! HTTP requests to the Kubernetes API, as far as they can be understood without
//! knowing any resource: what a request asks for ([`RequestInfo`]), its query
//! ([`options`]), the media types that its client accepts ([`negotiate`]), its body
//! ([`body`]), and who is at the other end of its connection ([`peer`]).

pub mod body;
mod context;
mod info;
pub mod negotiate;
pub mod options;
pub mod peer;

use control_types::status::Status;
use http::Response;

pub use context::{Annotations, RequestContext, Warnings};
pub use info::{RequestInfo, pairs, percent_decode};

/// The answer of a handler: a response, or the status of a refused request.
pub type Answer = Result<Response<body::Body>, Status>;

/// Returns status 500 without a reason or details: upstream's answer to errors that have no
/// status of their own.
#[must_use]
pub fn plain_error(message: impl Into<String>) -> Status {
    Status {
        code: 500,
        reason: "".into(),
        message: message.into(),
        details: None,
        continue_token: String::new(),
    }
}

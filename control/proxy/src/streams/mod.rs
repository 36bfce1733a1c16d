//! Streams of clients that speak WebSocket, translated for kubelets that speak
//! SPDY only ([`control_streams`]).
//!
//! Everything else (SPDY, older WebSocket protocols, and all of it for kubelets
//! that translate themselves) is passed on as it comes, by
//! [`crate::upgrade`].

use control_streams::websocket;
use control_types::status::Status;
use http::{HeaderMap, Response};

use control_request::body::{self, Body};

pub mod remotecommand;
pub mod text;
pub mod tunnel;

/// The answer that agrees to a WebSocket, with this subprotocol if any.
///
/// # Errors
/// 400 when the request is no proper handshake.
fn agree(headers: &HeaderMap, protocol: Option<&str>) -> Result<Response<Body>, Status> {
    websocket::agree(headers, protocol)
        .map(|response| response.map(|()| body::empty()))
        .map_err(|why| Status::bad_request(why.to_string()))
}

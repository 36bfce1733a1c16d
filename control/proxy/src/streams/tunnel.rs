//! `portforward` of clients that speak WebSocket, for nodes that speak SPDY: the
//! connections to both sides.

pub use control_streams::tunnel::is_asked;
use control_streams::tunnel::{add_request_headers, carry, chosen};
use http::header::HOST;
use http::{HeaderValue, Method};
use hyper_util::rt::TokioIo;

use super::agree;
use crate::ProxiedRequest;
use crate::egress::target::Target;
use crate::{forward, headers, upgrade};
use control_request::Answer;

/// Asks the node for SPDY and, should it agree, agrees with the client to a
/// WebSocket that carries it. The node's refusal is passed back.
///
/// # Errors
/// 400 for an improper handshake, 500 when the node does not answer.
pub async fn tunnel(incoming: ProxiedRequest<'_>, target: &Target, path: &str) -> Answer {
    let client = upgrade::client_side(incoming)?;
    let asked = &incoming.parts.headers;
    // Refuses before anything is begun at the node.
    agree(asked, None)?;
    let mut onward = headers::of_upgrade(asked, forward::client_address(incoming));
    add_request_headers(&mut onward);
    if let Ok(host) = HeaderValue::from_str(&target.address()) {
        onward.insert(HOST, host);
    }
    let mut answer = match upgrade::request_upgrade(target, Method::POST, path, onward).await? {
        Ok(answer) => answer,
        Err(refusal) => return Ok(refusal),
    };
    let chosen = chosen(answer.headers());
    let response = agree(asked, chosen.as_deref())?;
    let node = hyper::upgrade::on(&mut answer);
    upgrade::spawn_on(incoming, client, move |client| async move {
        match node.await {
            Ok(node) => carry(client, TokioIo::new(node)).await,
            Err(error) => tracing::debug!(%error, "an upgrade did not come about"),
        }
    });
    Ok(response)
}

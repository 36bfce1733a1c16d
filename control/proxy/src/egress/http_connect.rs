//! Connections by a proxy that is asked with `CONNECT` (RFC 9110, 9.3.6).

use std::convert::Infallible;

use bytes::Bytes;
use http::header::{HOST, HeaderValue};
use http::{Method, Request, StatusCode};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use super::dial::{Stream, TunnelError};

/// What every such request says of its host, as kube-apiserver's does: the proxy goes
/// by the request's target.
const OF: HeaderValue = HeaderValue::from_static("127.0.0.1");

/// Asks the proxy at the other end of `stream` to connect to `address`, a host and
/// port.
///
/// # Errors
/// What the proxy said instead.
pub(super) async fn tunnel(stream: Stream, address: &str) -> Result<Stream, TunnelError> {
    let broken = |source| TunnelError::Broken {
        address: address.to_owned(),
        source,
    };
    let request = Request::builder()
        .method(Method::CONNECT)
        .uri(address)
        .header(HOST, OF)
        .body(Empty::<Bytes>::new())
        .map_err(TunnelError::Address)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(broken)?;
    let asked = async {
        let response = sender.send_request(request).await.map_err(broken)?;
        if response.status() != StatusCode::OK {
            return Err(TunnelError::Code(response.status()));
        }
        hyper::upgrade::on(response).await.map_err(broken)
    };
    // Drives the connection until it is a tunnel; what fails is told to who asks.
    let driven = async {
        let _ = connection.with_upgrades().await;
        std::future::pending::<Infallible>().await
    };
    let upgraded = tokio::select! {
        upgraded = asked => upgraded?,
        never = driven => match never {},
    };
    let parts = upgraded
        .downcast::<TokioIo<Stream>>()
        .map_err(|_| TunnelError::Lost)?;
    if !parts.read_buf.is_empty() {
        // Whoever is connected to waits for this server to speak first.
        return Err(TunnelError::Early(parts.read_buf.len()));
    }
    Ok(parts.io.into_inner())
}

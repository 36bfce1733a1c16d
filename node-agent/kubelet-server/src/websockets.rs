//! Streams of clients that speak WebSocket (KEP-4006), for a runtime that speaks
//! SPDY: what the node declares as `ExtendWebSocketsToKubelet`, so that the API
//! server passes such streams on untouched. Older protocols over WebSocket are
//! the runtime's own matter.

use control_streams::remotecommand::{LONGEST_STATUS, PROTOCOL, StreamSelection, asking, check};
use control_streams::remotecommand::{failure, serve};
use control_streams::{remotecommand, tunnel, websocket};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use node_agent_objects::error_chain;
use tokio_util::sync::CancellationToken;

use super::streams::{Error, empty, refused, request_stream};
use super::{Body, text};

/// Whether streams of a command are asked for by the protocol that is
/// translated.
pub(super) fn is_translated(request: &Request<Incoming>) -> bool {
    remotecommand::is_asked(request.method(), request.headers())
}

/// Whether connections to ports are asked for through a tunnel.
pub(super) fn is_tunnelled(request: &Request<Incoming>) -> bool {
    tunnel::is_asked(request.method(), request.headers())
}

/// Agrees to the client's WebSocket; what happens then, and be it that the
/// runtime does not answer, is told on the error channel.
pub(super) fn translate(
    url: String,
    mut request: Request<Incoming>,
    wanted: StreamSelection,
    shutdown: CancellationToken,
) -> Response<Body> {
    let response = match websocket::agree(request.headers(), Some(PROTOCOL)) {
        Ok(response) => response,
        Err(why) => return text(StatusCode::BAD_REQUEST, why.to_string()),
    };
    let client = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let client = match client.await {
            Ok(client) => TokioIo::new(client),
            Err(error) => {
                tracing::debug!(%error, "connection upgrade failed");
                return;
            }
        };
        let (reads, writes) = tokio::io::split(client);
        let connect = async {
            let connected = connect(&url).await;
            connected.map_err(|error| {
                let why = error_chain(&error);
                tracing::warn!(url, why, "failed to open the runtime's stream");
                failure(&why)
            })
        };
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = serve(reads, writes, wanted, connect) => {}
        }
    });
    response.map(|()| empty())
}

/// Asks the runtime for SPDY.
async fn connect(url: &str) -> Result<TokioIo<Upgraded>, Error> {
    let mut answer = request_stream(url, Method::POST, asking()).await?;
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        let body = Limited::new(answer.into_body(), LONGEST_STATUS)
            .collect()
            .await;
        let told = body.map(http_body_util::Collected::to_bytes);
        let told = told.unwrap_or_default();
        return Err(Error::Refused(String::from_utf8_lossy(&told).into_owned()));
    }
    check(answer.headers()).map_err(|error| Error::Protocol(error.into()))?;
    let upgraded = hyper::upgrade::on(&mut answer).await;
    upgraded.map(TokioIo::new).map_err(Error::Upgrade)
}

/// Asks the runtime for SPDY and, should it agree, agrees with the client to a
/// WebSocket that carries it.
pub(super) async fn carry(
    url: &str,
    request: Request<Incoming>,
    shutdown: CancellationToken,
) -> Response<Body> {
    match try_carry(url, request, shutdown).await {
        Ok(answer) => answer,
        Err(error) => {
            let error = error_chain(&error);
            tracing::warn!(url, error, "failed to open the runtime's stream");
            text(StatusCode::INTERNAL_SERVER_ERROR, error)
        }
    }
}

async fn try_carry(
    url: &str,
    mut request: Request<Incoming>,
    shutdown: CancellationToken,
) -> Result<Response<Body>, Error> {
    let improper = |why: websocket::HandshakeError| text(StatusCode::BAD_REQUEST, why.to_string());
    let asked: HeaderMap = request.headers().clone();
    // refuses before anything is begun at the runtime
    if let Err(why) = websocket::agree(&asked, None) {
        return Ok(improper(why));
    }
    let client = hyper::upgrade::on(&mut request);
    let mut onward = asked.clone();
    tunnel::add_request_headers(&mut onward);
    let mut answer = request_stream(url, Method::POST, onward).await?;
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        return refused(answer);
    }
    let chosen = tunnel::chosen(answer.headers());
    let response = match websocket::agree(&asked, chosen.as_deref()) {
        Ok(response) => response,
        Err(why) => return Ok(improper(why)),
    };
    let runtime = hyper::upgrade::on(&mut answer);
    tokio::spawn(async move {
        match futures::future::try_join(client, runtime).await {
            Ok((client, runtime)) => {
                tokio::select! {
                    () = shutdown.cancelled() => {}
                    () = tunnel::carry(TokioIo::new(client), TokioIo::new(runtime)) => {}
                }
            }
            Err(error) => tracing::debug!(%error, "connection upgrade failed"),
        }
    });
    Ok(response.map(|()| empty()))
}

#[cfg(test)]
#[path = "websockets_tests.rs"]
mod tests;

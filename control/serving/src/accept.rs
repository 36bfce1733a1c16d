//! Connections: HTTP/1.1 over TLS, each request checked before it is routed.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::Body;
use crate::access::{Access, AccessDenied};
use crate::tls::{Peer, Tls};

/// How long a client may take for the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long a client may take for the head of a request.
const HEAD: Duration = Duration::from_secs(60);

/// Passes authorized requests to `route`, until `shutdown`. Others are answered with 401
/// (unauthenticated) and 403 (unauthorized); a certificate of another authority ends the
/// handshake.
pub async fn accept<R, A>(
    listener: Arc<TcpListener>,
    tls: Tls,
    access: Arc<Access>,
    route: R,
    shutdown: CancellationToken,
) where
    R: Fn(Request<Incoming>) -> A + Clone + Send + 'static,
    A: Future<Output = Response<Body>> + Send + 'static,
{
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, peer)) = accepted else {
            // out of descriptors or the like
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (config, generation) = tls.config();
        let acceptor = tokio_rustls::TlsAcceptor::from(config);
        let tls = tls.clone();
        let (access, route) = (access.clone(), route.clone());
        tokio::spawn(async move {
            let _ = stream.set_nodelay(true);
            let handshake = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await;
            let Ok(Ok(stream)) = handshake else {
                tracing::debug!(%peer, "no TLS");
                return;
            };
            let shown = stream.get_ref().1.peer_certificates().unwrap_or_default();
            let chain: Arc<[_]> = shown.iter().map(|one| one.clone().into_owned()).collect();
            let client = tls.peer(chain.first());
            let service = hyper::service::service_fn(move |request| {
                let access = access.clone();
                let believed = tls.still_believes(generation, &chain);
                let client = believed.and_then(|()| client.clone());
                let route = route.clone();
                async move {
                    let answer = match admit(&access, client, &request).await {
                        Ok(()) => Box::pin(route(request)).await,
                        Err(refused) => access.refusal(&refused),
                    };
                    Ok::<_, Infallible>(answer)
                }
            });
            let served = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD)
                .serve_connection(TokioIo::new(stream), service)
                .with_upgrades()
                .await;
            if let Err(error) = served {
                tracing::debug!(%peer, %error, "connection ended");
            }
        });
    }
}

/// Whether the request may be served.
async fn admit<B>(
    access: &Access,
    peer: Result<Option<Peer>, StatusCode>,
    request: &Request<B>,
) -> Result<(), AccessDenied> {
    let peer = peer.map_err(|status| AccessDenied {
        status,
        message: status.canonical_reason().unwrap_or_default().to_owned(),
    })?;
    if peer.as_ref().is_some_and(|peer| peer.trusted) {
        return Ok(());
    }
    let authorization = request
        .headers()
        .get(access.header())
        .and_then(|value| value.to_str().ok());
    access
        .check(
            peer.as_ref().map(|peer| &peer.user),
            authorization,
            request.method(),
            request.uri().path(),
        )
        .await
}

//! gRPC served on unix sockets, for services whose messages are written by hand.

use std::convert::Infallible;
use std::path::Path;

#[cfg(feature = "fake")]
use futures::stream::BoxStream;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use node_agent_files::{DIRECTORY_MODE, create_dirs};
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;

use crate::UnixGrpcStream;

/// The response of a gRPC method.
pub type GrpcResponse = Response<tonic::body::Body>;

/// Serves calls on a socket until `shutdown`; whatever was there before gives
/// way, and nothing is left.
pub async fn listen<F, R>(path: &Path, shutdown: CancellationToken, answer: F)
where
    F: Fn(Request<Incoming>) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = GrpcResponse> + Send + 'static,
{
    let bound = path
        .parent()
        .map_or(Ok(()), |folder| create_dirs(folder, DIRECTORY_MODE))
        .and_then(|()| {
            let _ = std::fs::remove_file(path);
            UnixListener::bind(path)
        });
    let listener = match bound {
        Ok(listener) => listener,
        Err(error) => {
            tracing::warn!(socket = %path.display(), %error, "cannot listen");
            return;
        }
    };
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            // out of descriptors or the like
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            continue;
        };
        let answer = answer.clone();
        let service = hyper::service::service_fn(move |request| {
            let answered = answer(request);
            async move { Ok::<_, Infallible>(answered.await) }
        });
        let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .serve_connection(TokioIo::new(UnixGrpcStream::new(stream)), service);
        let shutdown = shutdown.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = shutdown.cancelled() => {}
                _ = connection => {}
            }
        });
    }
    let _ = std::fs::remove_file(path);
}

/// One message for one.
pub async fn unary<Q, A>(
    request: Request<Incoming>,
    with: impl Fn(Q) -> Result<A, tonic::Status> + Clone + Send + 'static,
) -> GrpcResponse
where
    Q: prost::Message + Default + 'static,
    A: prost::Message + Default + 'static,
{
    let codec = tonic_prost::ProstCodec::<A, Q>::default();
    let service = tower::service_fn(move |request: tonic::Request<Q>| {
        let answered = with(request.into_inner()).map(tonic::Response::new);
        std::future::ready(answered)
    });
    tonic::server::Grpc::new(codec)
        .unary(service, request)
        .await
}

/// Many messages for one.
#[cfg(feature = "fake")]
pub async fn streaming<Q, A>(
    request: Request<Incoming>,
    messages: BoxStream<'static, Result<A, tonic::Status>>,
) -> GrpcResponse
where
    Q: prost::Message + Default + 'static,
    A: prost::Message + Default + 'static,
{
    let codec = tonic_prost::ProstCodec::<A, Q>::default();
    // it is asked for once
    let messages = std::sync::Arc::new(std::sync::Mutex::new(Some(messages)));
    let service = tower::service_fn(move |_: tonic::Request<Q>| {
        let messages = messages.lock().ok().and_then(|mut held| held.take());
        let none = || tonic::Status::internal("asked twice");
        std::future::ready(messages.map(tonic::Response::new).ok_or_else(none))
    });
    tonic::server::Grpc::new(codec)
        .server_streaming(service, request)
        .await
}

/// There is no such method.
#[must_use]
pub fn unknown() -> GrpcResponse {
    tonic::Status::unimplemented("no such method").into_http()
}

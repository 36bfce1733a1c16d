//! CRI over gRPC on a unix socket.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint, Uri};

use super::{Result, RuntimeError};

/// The timeout of a call; `None` waits as long as the call takes.
pub type CallTimeout = Option<Duration>;

/// What most calls get: the kubelet's `runtimeRequestTimeout`.
pub(super) const USUAL: CallTimeout = Some(Duration::from_secs(120));

/// What calls get that may have to fetch an image or wait for a network.
pub(super) const SLOW: CallTimeout = Some(Duration::from_secs(240));

/// The largest answer accepted: a list of thousands of containers.
const LARGEST: usize = 16 << 20;

/// A client of the container runtime on a unix socket. It connects on first use and reconnects
/// after a failure.
#[derive(Clone, Debug)]
pub struct RuntimeClient {
    channel: Channel,
    socket: PathBuf,
}

impl RuntimeClient {
    /// A client for `endpoint`, which is a path or `unix://` and a path.
    ///
    /// Must be called within a tokio runtime. It does not connect yet, so it
    /// cannot fail for a runtime that is not there.
    #[must_use]
    pub fn new(endpoint: &str) -> Self {
        let socket = PathBuf::from(endpoint.strip_prefix("unix://").unwrap_or(endpoint));
        let path = socket.clone();
        let channel = Endpoint::from_static("http://runtime.invalid")
            .connect_timeout(Duration::from_secs(5))
            .connect_with_connector_lazy(tower::service_fn(move |_: Uri| {
                let path = path.clone();
                async move {
                    let stream = tokio::net::UnixStream::connect(path).await?;
                    Ok::<_, std::io::Error>(hyper_util::rt::TokioIo::new(stream))
                }
            }));
        Self { channel, socket }
    }

    /// The socket's path.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Calls a method that answers with one message.
    ///
    /// # Errors
    /// When it fails or takes longer than `limit`.
    pub async fn unary<Q, A>(
        &self,
        method: &'static str,
        request: Q,
        limit: CallTimeout,
    ) -> Result<A>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        let call = async {
            let mut grpc = self.ready(method).await?;
            let codec = tonic_prost::ProstCodec::<Q, A>::default();
            grpc.unary(tonic::Request::new(request), path(method)?, codec)
                .await
                .map(tonic::Response::into_inner)
                .map_err(|status| error(method, &status))
        };
        match limit {
            None => call.await,
            Some(limit) => tokio::time::timeout(limit, call).await.unwrap_or_else(|_| {
                Err(RuntimeError {
                    method: name(method),
                    code: tonic::Code::DeadlineExceeded,
                    message: "context deadline exceeded".to_owned(),
                })
            }),
        }
    }

    /// Calls a method that answers with any number of messages.
    ///
    /// # Errors
    /// When the call fails; what fails later is an item.
    pub async fn stream<Q, A>(
        &self,
        method: &'static str,
        request: Q,
    ) -> Result<BoxStream<'static, Result<A>>>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        let mut grpc = self.ready(method).await?;
        let codec = tonic_prost::ProstCodec::<Q, A>::default();
        let answer = grpc
            .server_streaming(tonic::Request::new(request), path(method)?, codec)
            .await
            .map_err(|status| error(method, &status))?;
        Ok(answer
            .into_inner()
            .map(move |item| item.map_err(|status| error(method, &status)))
            .boxed())
    }

    async fn ready(&self, method: &'static str) -> Result<tonic::client::Grpc<Channel>> {
        let mut grpc = tonic::client::Grpc::new(self.channel.clone())
            .max_decoding_message_size(LARGEST)
            .max_encoding_message_size(LARGEST);
        grpc.ready().await.map_err(|e| RuntimeError {
            method: name(method),
            code: tonic::Code::Unavailable,
            message: format!("{} does not answer: {e}", self.socket.display()),
        })?;
        Ok(grpc)
    }
}

fn path(method: &'static str) -> Result<PathAndQuery> {
    PathAndQuery::from_str(&format!("/{method}")).map_err(|e| RuntimeError {
        method: name(method),
        code: tonic::Code::Internal,
        message: e.to_string(),
    })
}

pub(super) fn name(method: &'static str) -> &'static str {
    method.rsplit('/').next().unwrap_or(method)
}

fn error(method: &'static str, status: &tonic::Status) -> RuntimeError {
    RuntimeError {
        method: name(method),
        code: status.code(),
        message: status.message().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api;

    /// Whatever it does not answer, a runtime keeps nobody for longer than the
    /// limit of the call.
    #[tokio::test]
    async fn a_call_ends_though_the_runtime_hangs() {
        let dir = tempfile::tempdir().unwrap();
        let ask = |socket: PathBuf| async move {
            let client = RuntimeClient::new(&socket.display().to_string());
            let request = api::StatusRequest { verbose: false };
            let limit = Some(Duration::from_millis(300));
            let answer: Result<api::StatusResponse> = client
                .unary("runtime.v1.RuntimeService/Status", request, limit)
                .await;
            answer.unwrap_err().code
        };
        // it takes connections and says nothing
        let mute = dir.path().join("mute.sock");
        let _listener = std::os::unix::net::UnixListener::bind(&mute).unwrap();
        assert_eq!(ask(mute).await, tonic::Code::DeadlineExceeded);
        // it speaks, and never answers the call
        let slow = dir.path().join("slow.sock");
        let (at, end) = (slow.clone(), tokio_util::sync::CancellationToken::new());
        let stop = end.clone();
        let server = tokio::spawn(async move {
            node_agent_unix_grpc::server::listen(&at, stop, |_| std::future::pending()).await;
        });
        while !slow.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(ask(slow).await, tonic::Code::DeadlineExceeded);
        end.cancel();
        server.await.unwrap();
        // it is not there
        assert_eq!(ask(dir.path().join("none")).await, tonic::Code::Unavailable);
    }
}

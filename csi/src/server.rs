//! The socket: one for all services, which root alone may use.

use std::convert::Infallible;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::graceful::GracefulShutdown;
use node_agent_unix_grpc::UnixGrpcStream;
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;
use tonic::body::Body;

/// The answer to a call.
pub type Answer = http::Response<Body>;

/// Answers calls.
pub type Handler = Arc<dyn Fn(http::Request<Body>) -> BoxFuture<'static, Answer> + Send + Sync>;

/// How long calls may take to end after a request to stop.
const GRACE: Duration = Duration::from_secs(30);

/// Reason why the driver cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The endpoint is not a unix socket.
    #[error("`--endpoint` is `{endpoint}`: must be `unix:///PATH`")]
    Endpoint {
        /// Value of the option.
        endpoint: String,
    },
    /// Something else is at the path.
    #[error("`{}` is no socket: remove it, or choose another endpoint", path.display())]
    Occupied {
        /// Path of the socket.
        path: PathBuf,
    },
    /// Another process answers at the socket.
    #[error("another process serves `{}`: stop it, or choose another endpoint", path.display())]
    Served {
        /// Path of the socket.
        path: PathBuf,
    },
    /// The socket cannot be made.
    #[error("cannot listen at `{}`", path.display())]
    Listen {
        /// Path of the socket.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
}

/// Returns the path of an endpoint: `unix:///PATH`, `unix:/PATH`, or `/PATH`.
///
/// # Errors
/// When it is something else.
pub fn socket_path(endpoint: &str) -> Result<PathBuf, ServeError> {
    let path = endpoint
        .strip_prefix("unix://")
        .or_else(|| endpoint.strip_prefix("unix:"))
        .unwrap_or(endpoint);
    if path.starts_with('/') && path.len() > 1 {
        return Ok(path.into());
    }
    Err(ServeError::Endpoint {
        endpoint: endpoint.to_owned(),
    })
}

/// Listens at a path that only root can use; replaces a socket that is no longer served.
///
/// # Errors
/// When another process serves it, or something else exists there.
pub async fn listen(path: &Path) -> Result<UnixListener, ServeError> {
    let failed = |source| ServeError::Listen {
        path: path.to_owned(),
        source,
    };
    if let Some(folder) = path.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o750)
            .create(folder)
            .map_err(failed)?;
    }
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(ServeError::Occupied {
                path: path.to_owned(),
            });
        }
        Ok(_) if UnixStream::connect(path).await.is_ok() => {
            return Err(ServeError::Served {
                path: path.to_owned(),
            });
        }
        Ok(_) => fs::remove_file(path).map_err(failed)?,
    }
    // Under another name until its mode is set, so that nobody else can connect in
    // between.
    let hidden = path.with_extension("new");
    let _ = fs::remove_file(&hidden);
    let listener = UnixListener::bind(&hidden).map_err(failed)?;
    fs::set_permissions(&hidden, fs::Permissions::from_mode(0o600)).map_err(failed)?;
    fs::rename(&hidden, path).map_err(failed)?;
    Ok(listener)
}

/// Serves until `shutdown`; calls that have begun may end.
pub async fn serve(
    listener: UnixListener,
    path: &Path,
    handler: Handler,
    shutdown: CancellationToken,
) {
    let connections = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) if is_allowed(&stream) => stream,
            Ok(_) => continue,
            Err(error) => {
                // Out of descriptors or similar.
                tracing::warn!(%error, "failed to accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let handler = handler.clone();
        let service = service_fn(move |request: http::Request<Incoming>| {
            let answer = handler(request.map(Body::new));
            async move { Ok::<_, Infallible>(answer.await) }
        });
        let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .serve_connection(TokioIo::new(UnixGrpcStream::new(stream)), service);
        let connection = connections.watch(connection);
        // It ends with its peer, or at the shutdown, for which it is watched.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "connection failed");
            }
        });
    }
    let _ = fs::remove_file(path);
    if tokio::time::timeout(GRACE, connections.shutdown())
        .await
        .is_err()
    {
        tracing::warn!("calls are still running, the next start recovers them");
    }
}

/// The mode of the socket keeps others out already; a descriptor that was
/// handed on, or a folder that was mounted elsewhere, does not get past this.
fn is_allowed(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    match stream.peer_cred() {
        Ok(peer) if peer.uid() == 0 || peer.uid() == own => true,
        Ok(peer) => {
            tracing::warn!(uid = peer.uid(), "rejected a connection of another user");
            false
        }
        Err(error) => {
            tracing::warn!(%error, "rejected a connection of an unknown user");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_unix_sockets() {
        for endpoint in [
            "unix:///run/csi.sock",
            "unix:/run/csi.sock",
            "/run/csi.sock",
        ] {
            assert_eq!(socket_path(endpoint).unwrap(), Path::new("/run/csi.sock"));
        }
        for endpoint in ["tcp://127.0.0.1:1", "unix://", "csi.sock", "/"] {
            assert!(socket_path(endpoint).is_err(), "{endpoint}");
        }
    }

    #[tokio::test]
    async fn a_stale_socket_gives_way_and_one_that_is_served_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("csi.sock");
        let first = listen(&path).await.unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(matches!(
            listen(&path).await,
            Err(ServeError::Served { .. })
        ));
        drop(first);
        assert!(listen(&path).await.is_ok());
        fs::remove_file(&path).unwrap();
        fs::write(&path, "").unwrap();
        assert!(matches!(
            listen(&path).await,
            Err(ServeError::Occupied { .. })
        ));
    }
}

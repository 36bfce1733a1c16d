//! The socket, which the owner of the process alone may use.

use std::convert::Infallible;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;

use crate::service::Service;

/// How long calls may take to end after a request to stop.
const GRACE: Duration = Duration::from_secs(5);

/// The limit on open calls of one connection: kube-apiserver has a watch per resource and
/// as many requests as its clients.
const MAX_STREAMS: u32 = 100_000;

/// How many bytes of a stream and of a connection may be on their way.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 8 << 20;

/// Reason why the store cannot be served by etcd's API.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The endpoint is not a unix socket.
    #[error("`{endpoint}` is no endpoint for etcd's API: give `unix:///PATH`")]
    Endpoint {
        /// The given endpoint.
        endpoint: String,
    },
    /// Something else is at the path.
    #[error("`{}` is no socket: remove it, or choose another path for etcd's API", path.display())]
    Occupied {
        /// Path of the socket.
        path: PathBuf,
    },
    /// Another process answers at the socket.
    #[error("another process serves `{}`: stop it, or choose another path for etcd's API", path.display())]
    Served {
        /// Path of the socket.
        path: PathBuf,
    },
    /// The socket cannot be made.
    #[error("cannot listen at `{}`: its folder must exist and be writable", path.display())]
    Listen {
        /// Path of the socket.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
}

/// A socket that is open.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: UnixListener,
    path: PathBuf,
}

/// The path of an endpoint: `unix:///PATH`.
pub(crate) fn socket_path(endpoint: &str) -> Result<PathBuf, ServeError> {
    let path = endpoint.strip_prefix("unix://").map(Path::new);
    path.filter(|path| path.is_absolute() && path.file_name().is_some())
        .map(Path::to_owned)
        .ok_or_else(|| ServeError::Endpoint {
            endpoint: endpoint.to_owned(),
        })
}

/// Listens at a path; replaces a socket that is no longer served.
pub(crate) async fn listen(path: &Path) -> Result<Listener, ServeError> {
    let failed = |source| ServeError::Listen {
        path: path.to_owned(),
        source,
    };
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
    let socket = UnixListener::bind(&hidden).map_err(failed)?;
    fs::set_permissions(&hidden, fs::Permissions::from_mode(0o600)).map_err(failed)?;
    fs::rename(&hidden, path).map_err(failed)?;
    Ok(Listener {
        socket,
        path: path.to_owned(),
    })
}

// === impl Listener ===

impl Listener {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Serves until `shutdown`; calls that have begun may end.
    pub async fn serve(self, service: Service, shutdown: CancellationToken) {
        let connections = GracefulShutdown::new();
        loop {
            let accepted = tokio::select! {
                () = shutdown.cancelled() => break,
                accepted = self.socket.accept() => accepted,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Out of descriptors or similar.
                    tracing::warn!(%error, "failed to accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let service = service.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                let answer = service.answer(request);
                async move { Ok::<_, Infallible>(answer.await) }
            });
            let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .max_concurrent_streams(MAX_STREAMS)
                .initial_stream_window_size(STREAM_WINDOW)
                .initial_connection_window_size(CONNECTION_WINDOW)
                .serve_connection(TokioIo::new(stream), service);
            let connection = connections.watch(connection);
            // It ends with its peer, or at the shutdown, for which it is watched.
            tokio::spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "connection of the etcd API failed");
                }
            });
        }
        let _ = fs::remove_file(&self.path);
        if tokio::time::timeout(GRACE, connections.shutdown())
            .await
            .is_err()
        {
            tracing::warn!("calls of the etcd API did not end in time");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_an_absolute_path() {
        let path = socket_path("unix:///run/orlop/etcd.sock").expect("a path");
        assert_eq!(path, Path::new("/run/orlop/etcd.sock"));
        for bad in [
            "",
            "unix://",
            "unix:///",
            "unix://etcd.sock",
            "/run/etcd.sock",
            "http://127.0.0.1:2379",
        ] {
            assert!(socket_path(bad).is_err(), "{bad}");
        }
    }

    #[tokio::test]
    async fn a_socket_in_use_and_a_file_are_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("etcd.sock");
        let first = listen(&path).await.expect("a socket");
        let mode = fs::metadata(&path).expect("a socket").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let second = listen(&path).await.expect_err("in use");
        assert!(matches!(second, ServeError::Served { .. }), "{second}");
        drop(first);
        listen(&path).await.expect("left by a crash");
        let file = folder.path().join("file");
        fs::write(&file, "").expect("a file");
        let occupied = listen(&file).await.expect_err("a file");
        assert!(
            matches!(occupied, ServeError::Occupied { .. }),
            "{occupied}"
        );
    }
}

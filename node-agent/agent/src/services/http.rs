//! Small HTTP servers for machines that ask how things are: one answer a path,
//! no state, no authentication, as at kube-proxy's ports.

use std::{convert::Infallible, io, net::SocketAddr, sync::Arc, time::Duration};

use http_body_util::Full;
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header,
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
    sync::{OnceCell, Semaphore},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

/// Connections that are served at once; others wait.
const MOST: usize = 64;
/// How long a client may take to ask.
const PATIENCE: Duration = Duration::from_secs(10);
/// After the system refused a connection (out of descriptors).
const PAUSE: Duration = Duration::from_millis(100);
/// How often a port that is taken is tried again.
const TAKEN: Duration = Duration::from_secs(1);

/// The response to a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpAnswer {
    pub status: StatusCode,
    pub content_type: &'static str,
    pub body: String,
    /// Further headers.
    pub headers: Vec<(&'static str, String)>,
}

// === impl Answer ===

impl HttpAnswer {
    pub fn json(status: StatusCode, body: String) -> Self {
        Self {
            status,
            content_type: "application/json",
            body,
            headers: Vec::new(),
        }
    }

    pub fn text(status: StatusCode, body: impl Into<String>) -> Self {
        Self {
            status,
            content_type: "text/plain; charset=utf-8",
            body: body.into(),
            headers: Vec::new(),
        }
    }

    pub fn not_found() -> Self {
        Self::text(StatusCode::NOT_FOUND, "404 page not found\n")
    }

    fn response(self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(Bytes::from(self.body)));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            header::HeaderValue::from_static(self.content_type),
        );
        headers.insert(
            "x-content-type-options",
            header::HeaderValue::from_static("nosniff"),
        );
        for (name, value) in self.headers {
            if let Ok(value) = header::HeaderValue::from_str(&value) {
                headers.insert(name, value);
            }
        }
        response
    }
}

/// Listens; a dual-stack address (`::`) serves both IP versions.
///
/// # Errors
/// What the system says: the port is taken.
pub async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// A source of connections.
pub trait Listener: Send {
    /// A connection.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    /// The next one.
    fn accept(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Listener for TcpListener {
    type Stream = tokio::net::TcpStream;

    async fn accept(&self) -> io::Result<Self::Stream> {
        Ok(Self::accept(self).await?.0)
    }
}

impl Listener for UnixListener {
    type Stream = tokio::net::UnixStream;

    async fn accept(&self) -> io::Result<Self::Stream> {
        Ok(Self::accept(self).await?.0)
    }
}

/// A port at which another program may still listen: it is served once that has ended.
pub struct AwaitedPort {
    address: SocketAddr,
    listener: OnceCell<TcpListener>,
}

impl AwaitedPort {
    /// Listens, or will. Unless `waits`, a port that is taken is an error.
    ///
    /// # Errors
    /// What the system says.
    pub async fn open(address: SocketAddr, waits: bool) -> io::Result<Self> {
        let listener = match listen(address).await {
            Ok(listener) => OnceCell::new_with(Some(listener)),
            Err(error) if waits && error.kind() == io::ErrorKind::AddrInUse => {
                info!(%address, "port is in use; waiting for it");
                OnceCell::new()
            }
            Err(error) => return Err(error),
        };
        Ok(Self { address, listener })
    }

    async fn listener(&self) -> &TcpListener {
        let bound = self.listener.get_or_init(|| async {
            loop {
                tokio::time::sleep(TAKEN).await;
                if let Ok(listener) = listen(self.address).await {
                    info!(address = %self.address, "port is free; serving it");
                    return listener;
                }
            }
        });
        bound.await
    }
}

impl Listener for AwaitedPort {
    type Stream = tokio::net::TcpStream;

    async fn accept(&self) -> io::Result<Self::Stream> {
        Ok(self.listener().await.accept().await?.0)
    }
}

/// Serves until `shutdown`, in a task of that name.
pub fn serve_supervised<F, A>(
    name: &'static str,
    listener: impl Listener + Sync + 'static,
    answer: F,
    shutdown: &CancellationToken,
) where
    F: Fn(String) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = HttpAnswer> + Send + 'static,
{
    let (listener, until) = (Arc::new(listener), shutdown.clone());
    control_supervise::task(name)
        .until(shutdown)
        .spawn_restarting(move || serve(listener.clone(), answer.clone(), until.clone()));
}

/// Serves until `shutdown`. What is asked for is a path.
pub async fn serve<F, A>(
    listener: Arc<impl Listener + Sync>,
    answer: F,
    shutdown: CancellationToken,
) where
    F: Fn(String) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = HttpAnswer> + Send + 'static,
{
    let room = Arc::new(Semaphore::new(MOST));
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else {
            return;
        };
        let accepted = tokio::select! {
            () = shutdown.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok(stream) => stream,
            Err(error) => {
                debug!(%error, "failed to accept a connection");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let answer = answer.clone();
        let ended = shutdown.clone();
        tokio::spawn(async move {
            let _place = place;
            let service = service_fn(move |request: Request<Incoming>| {
                let path = request.uri().path().to_owned();
                let answer = answer.clone();
                async move { Ok::<_, Infallible>(answer(path).await.response()) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(PATIENCE)
                .serve_connection(TokioIo::new(stream), service);
            tokio::select! {
                () = ended.cancelled() => {}
                result = connection => if let Err(error) = result {
                    debug!(%error, "connection ended with an error");
                }
            }
        });
    }
}

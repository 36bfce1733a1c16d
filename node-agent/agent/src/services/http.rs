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
    sync::{Mutex, Semaphore, watch},
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

/// A port that another program may have: it is served once that has ended, and given up while it is
/// `lent`.
pub struct AwaitedPort {
    address: SocketAddr,
    listener: Mutex<Option<Arc<TcpListener>>>,
    lent: watch::Receiver<bool>,
}

impl AwaitedPort {
    /// Listens, or will. Unless `waits`, a port that is taken is an error.
    ///
    /// # Errors
    /// What the system says.
    pub async fn open(
        address: SocketAddr,
        waits: bool,
        lent: watch::Receiver<bool>,
    ) -> io::Result<Self> {
        let listener = match listen(address).await {
            Ok(listener) => Some(Arc::new(listener)),
            Err(error) if waits && error.kind() == io::ErrorKind::AddrInUse => {
                info!(%address, "port is in use; waiting for it");
                None
            }
            Err(error) => return Err(error),
        };
        Ok(Self {
            address,
            listener: Mutex::new(listener),
            lent,
        })
    }

    /// Returns the listener, once the port is free.
    async fn listener(&self) -> Arc<TcpListener> {
        let mut bound = self.listener.lock().await;
        loop {
            if let Some(listener) = &*bound {
                return Arc::clone(listener);
            }
            tokio::time::sleep(TAKEN).await;
            if let Ok(listener) = listen(self.address).await {
                info!(address = %self.address, "port is free; serving it");
                *bound = Some(Arc::new(listener));
            }
        }
    }
}

impl Listener for AwaitedPort {
    type Stream = tokio::net::TcpStream;

    async fn accept(&self) -> io::Result<Self::Stream> {
        let mut lent = self.lent.clone();
        loop {
            let accepted = async { self.listener().await.accept().await };
            tokio::select! {
                biased;
                Ok(_) = lent.wait_for(|it| *it) => {}
                accepted = accepted => return Ok(accepted?.0),
            }
            self.listener.lock().await.take();
            info!(address = %self.address, "port is left to kube-proxy");
            if lent.wait_for(|it| !*it).await.is_err() {
                return std::future::pending().await;
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_lent_port_is_free_for_others_and_served_again_afterwards() {
        let (lend, lent) = watch::channel(false);
        let any = "127.0.0.1:0".parse().expect("an address");
        let free = listen(any).await.expect("a port");
        let address = free.local_addr().expect("an address");
        drop(free);
        let port = AwaitedPort::open(address, true, lent).await.expect("open");
        let until = CancellationToken::new();
        let answer = |_| async { HttpAnswer::text(StatusCode::OK, "ours") };
        let serving = tokio::spawn(serve(Arc::new(port), answer, until.clone()));
        let ask = || crate::machine::fetch(address, "/", 1024, PATIENCE);
        assert_eq!(ask().await.expect("an answer").1, "ours");

        lend.send_replace(true);
        let others = tokio::time::timeout(PATIENCE, async {
            loop {
                if let Ok(listener) = listen(address).await {
                    return listener;
                }
                tokio::time::sleep(PAUSE).await;
            }
        });
        let others = others.await.expect("the port is free");
        lend.send_replace(false);
        drop(others);
        let again = tokio::time::timeout(PATIENCE, async {
            while ask().await.is_err() {
                tokio::time::sleep(PAUSE).await;
            }
        });
        again.await.expect("served again");
        until.cancel();
        serving.await.expect("ended");
    }
}

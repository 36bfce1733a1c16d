//! The network listener: TLS, HTTP/1.1 and HTTP/2, and an orderly end.

mod idle;
mod inline_executor;
mod system_runtime;

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use control_request::peer::{ClientAddr, GoAway, KnownPeer, PeerCertificates};
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use self::system_runtime::SystemRuntime;
use crate::chain::Chain;
use crate::gather::Gather;
use control_registry::reply;
use control_request::body::{Body, BoxError};
use inline_executor::{Driver, InlineExecutor};

/// How long a client may take for its TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// What the head of a request may hold, in bytes. Each stream of a connection may
/// hold as much.
const HEAD: u32 = 64 * 1024;
const HTTP1_HEAD: usize = 128 * 1024;
/// Streams that a client may reset before they were looked at, until it is told to
/// go away (CVE-2023-44487).
const RESETS: usize = 200;
/// What a stream has ready for its client beside what was made last, in bytes: a frame.
/// Who asks for much and reads none of it keeps no more waiting here.
const AHEAD: usize = 16 * 1024;
/// HTTP/2 streams of one connection; informers hold one per watched resource.
const STREAMS: u32 = 1000;

/// TLS settings that may be replaced while the server runs (certificates that
/// rotate). New connections use what was stored last.
pub type Tls = Arc<ArcSwap<rustls::ServerConfig>>;

/// Accepts connections until `shutdown`; then closes idle connections, lets
/// open requests finish for at most `grace`, and returns. Connections to an
/// address that is withdrawn end at once. The cluster's own
/// connections are served in the runtime `system`, if there is one.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Tls,
    chain: Chain,
    system: Option<&SystemRuntime>,
    grace: Duration,
    shutdown: CancellationToken,
) {
    let connections = TaskTracker::new();
    let kill = CancellationToken::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors, or a connection that died while waiting:
                // neither is a reason to stop, nor to spin.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let acceptor = TlsAcceptor::from(tls.load_full());
        let local = stream.local_addr().ok().map(|it| it.ip());
        let cut = cut_off(kill.clone(), chain.api().lifecycle.withdrawn(local));
        let greeting = greet(stream, address, acceptor, chain.clone(), shutdown.clone());
        let system = system.and_then(SystemRuntime::handle).cloned();
        let tracker = connections.clone();
        connections.spawn(async move {
            let mut cut = Box::pin(cut);
            let greeted = tokio::select! {
                () = &mut cut => return,
                greeted = greeting => greeted,
            };
            let Some(mut greeted) = greeted else { return };
            if let Some(system) = system
                && greeted.is_of_cluster()
            {
                match greeted.rehome(&system) {
                    Ok(()) => {
                        tracker.spawn_on(run_until(cut, greeted.converse()), &system);
                        return;
                    }
                    Err(error) => {
                        tracing::debug!(%address, %error, "a connection stays where it is");
                    }
                }
            }
            run_until(cut, greeted.converse()).await;
        });
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(grace, connections.wait())
        .await
        .is_err()
    {
        tracing::warn!("some requests did not finish in time and are cut off");
    }
    kill.cancel();
    connections.wait().await;
}

/// Whether a request says what it asks for: over HTTP/2 it may have left that out,
/// which makes it malformed (RFC 9113, section 8.3.1). It must not pass for `/`.
fn has_path<B>(request: &hyper::Request<B>) -> bool {
    request.method() == hyper::Method::CONNECT || !request.uri().path().is_empty()
}

/// Completes when a connection is to end, whatever it does.
async fn cut_off(kill: CancellationToken, withdrawn: impl Future<Output = ()>) {
    tokio::select! {
        () = kill.cancelled() => {}
        () = withdrawn => {}
    }
}

async fn run_until(end: impl Future<Output = ()>, work: impl Future<Output = ()>) {
    tokio::select! {
        () = end => {}
        () = work => {}
    }
}

/// A connection after its TLS handshake.
struct SecureConnection {
    stream: TlsStream<TcpStream>,
    address: SocketAddr,
    certificates: Option<PeerCertificates>,
    chain: Chain,
    shutdown: CancellationToken,
}

/// Does the handshake of a new connection; `None` when it failed, which is told.
async fn greet(
    stream: TcpStream,
    address: SocketAddr,
    acceptor: TlsAcceptor,
    chain: Chain,
    shutdown: CancellationToken,
) -> Option<SecureConnection> {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%address, %error, "connection ended before it began");
        return None;
    }
    let stream = match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            chain.api().metrics.requests.handshake_failed();
            tracing::debug!(%address, %error, "TLS handshake failed");
            return None;
        }
        Err(_) => {
            chain.api().metrics.requests.handshake_failed();
            tracing::debug!(%address, "TLS handshake took too long");
            return None;
        }
    };
    let certificates = stream.get_ref().1.peer_certificates().map(|chain| {
        PeerCertificates(
            chain
                .iter()
                .map(|certificate| certificate.clone().into_owned())
                .collect(),
        )
    });
    Some(SecureConnection {
        stream,
        address,
        certificates,
        chain,
        shutdown,
    })
}

// === impl SecureConnection ===

impl SecureConnection {
    /// Whether its client is a part of the cluster itself.
    fn is_of_cluster(&self) -> bool {
        let access = &self.chain.api().config.access;
        let shown = self.certificates.as_ref();
        shown.is_some_and(|certificates| access.is_of_cluster(&certificates.0))
    }

    /// Moves it to another pool of threads, where it is to be spoken with from now on.
    fn rehome(&mut self, to: &Handle) -> std::io::Result<()> {
        system_runtime::rehome(self.stream.get_mut().0, to)
    }

    /// Answers its requests until it ends.
    async fn converse(self) {
        let Self {
            stream,
            address,
            certificates,
            chain,
            shutdown,
        } = self;
        let settings = &chain.api().config.chain;
        let (headers, idle_timeout) = (settings.header_timeout, settings.idle_timeout);
        let ping = settings.ping_interval;
        let known = KnownPeer::default();
        let go_away = GoAway::default();
        let asked = go_away.clone();
        let executor = InlineExecutor::default();
        let idle = executor.idle().clone();
        let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
            if request.version() < hyper::Version::HTTP_2 {
                idle.leave();
            }
            let mut request = request
                .map(|body| Body::new(http_body_util::BodyExt::map_err(body, BoxError::from)));
            request.extensions_mut().insert(ClientAddr(address));
            request.extensions_mut().insert(go_away.clone());
            if let Some(certificates) = &certificates {
                request.extensions_mut().insert(certificates.clone());
                request.extensions_mut().insert(known.clone());
            }
            let chain = chain.clone();
            async move {
                Ok::<_, std::convert::Infallible>(if has_path(&request) {
                    chain.answer(request).await
                } else {
                    reply::text(400, "malformed request: missing path\n")
                })
            }
        });
        let mut builder = auto::Builder::new(executor.clone());
        builder
            .http1()
            .timer(TokioTimer::new())
            .max_buf_size(HTTP1_HEAD)
            .header_read_timeout(headers);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .keep_alive_interval(ping)
            .keep_alive_timeout(ping / 2)
            .initial_stream_window_size(256 * 1024)
            .initial_connection_window_size(1024 * 1024)
            .max_pending_accept_reset_streams(RESETS)
            .max_local_error_reset_streams(RESETS)
            .max_send_buf_size(AHEAD)
            .max_header_list_size(HEAD);
        let connection =
            builder.serve_connection_with_upgrades(TokioIo::new(Gather::new(stream)), service);
        tokio::pin!(connection);
        let idle = executor.idle().clone();
        let mut driver = Driver::new(executor);
        let ended = tokio::select! {
            ended = poll_fn(|context| driver.poll(connection.as_mut(), context)) => ended,
            () = async {
                tokio::select! {
                    () = shutdown.cancelled() => {}
                    () = asked.requested() => {}
                    () = idle.passed(idle_timeout) => {}
                }
            } => {
                connection.as_mut().graceful_shutdown();
                driver.woken();
                poll_fn(|context| driver.poll(connection.as_mut(), context)).await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%address, %error, "connection ended");
        }
    }
}

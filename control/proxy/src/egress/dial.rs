//! Making one connection.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use control_tracing::Connect;
use http::StatusCode;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use super::client::explain;
use super::counts::{Counts, Labels, Stage};
use super::{http_connect, konnectivity};

/// The bytes of a connection, whatever it goes through.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Io for S {}

/// A connection.
pub type Stream = Box<dyn Io>;

/// Makes connections by one way. Cheap to clone. The default is the direct way.
#[derive(Clone, Default)]
pub struct Dialer(Option<Arc<ProxyDialer>>);

/// The way by a proxy, and what is counted of it.
struct ProxyDialer {
    proxy: Proxy,
    counts: Arc<Counts>,
}

/// Who makes connections for this server.
pub(super) enum Proxy {
    /// Takes `CONNECT` at a host and port; over TLS where it is said how, and which
    /// name the proxy must prove if that is not its host.
    Tcp {
        host: String,
        port: u16,
        tls: Option<(Arc<ClientConfig>, Option<String>)>,
    },
    /// Takes `CONNECT` at a Unix socket.
    Unix(PathBuf),
    /// A konnectivity server at a Unix socket.
    Konnectivity(PathBuf),
}

/// Why there is no connection. The words are those that clients of stock know and
/// match.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DialError {
    /// What listens at an address could not be reached.
    #[error("dial {network} {address}: {}", words(why))]
    Dial {
        /// `tcp` or `unix`.
        network: &'static str,
        /// Host and port, or the socket's path.
        address: String,
        /// What the system said.
        why: io::Error,
    },
    /// TLS is not spoken with the proxy.
    #[error("proxy {proxy}: tls: {why}")]
    Tls {
        /// Which.
        proxy: String,
        /// What is wrong.
        why: io::Error,
    },
    /// The proxy does not make the connection.
    #[error("proxy error from {proxy} while dialing {address}, {}", explain(why))]
    Proxy {
        /// Which proxy.
        proxy: String,
        /// The host and port that it was asked for.
        address: String,
        /// What it said.
        why: TunnelError,
    },
}

/// Why a proxy does not make a connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TunnelError {
    /// The proxy did not answer `CONNECT`.
    #[error("reading HTTP response from CONNECT to {address} failed")]
    Broken {
        /// The host and port that it was asked for.
        address: String,
        /// What is wrong.
        source: hyper::Error,
    },
    /// It was asked for no address.
    #[error("the address is none")]
    Address(#[source] http::Error),
    /// It answered `CONNECT` with this code.
    #[error("code {}: {}", .0.as_u16(), .0)]
    Code(StatusCode),
    /// It agreed, and the connection is not there.
    #[error("the connection is lost")]
    Lost,
    /// It sent so many bytes before it was spoken to.
    #[error("unexpected {0} bytes of buffered data")]
    Early(usize),
    /// The konnectivity server does not speak gRPC.
    #[error(transparent)]
    Transport(#[from] tonic::transport::Error),
    /// It answered with an error of gRPC.
    #[error("{}", .0.message())]
    Status(tonic::Status),
    /// It could not connect; in its words.
    #[error("{0}")]
    Dial(String),
    /// It gave the connection up.
    #[error("dial closed")]
    DialClosed,
    /// It ended before it connected.
    #[error("tunnel closed")]
    Closed,
}

/// What went wrong with a system call.
pub(super) fn words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        io::ErrorKind::ConnectionReset => "connect: connection reset by peer".to_owned(),
        io::ErrorKind::HostUnreachable => "connect: no route to host".to_owned(),
        io::ErrorKind::NetworkUnreachable => "connect: network is unreachable".to_owned(),
        io::ErrorKind::TimedOut => "i/o timeout".to_owned(),
        _ => error.to_string(),
    }
}

/// Host and port, as in a URL.
pub(super) fn authority(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

// === impl DialError ===

impl From<DialError> for io::Error {
    fn from(error: DialError) -> Self {
        let kind = match &error {
            DialError::Dial { why, .. } | DialError::Tls { why, .. } => why.kind(),
            DialError::Proxy { .. } => io::ErrorKind::ConnectionAborted,
        };
        Self::new(kind, error)
    }
}

// === impl Dialer ===

impl std::fmt::Debug for Dialer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            None => formatter.write_str("Direct"),
            Some(proxied) => write!(formatter, "By({})", proxied.proxy.name()),
        }
    }
}

impl Dialer {
    pub(super) fn by(proxy: Proxy, counts: Arc<Counts>) -> Self {
        Self(Some(Arc::new(ProxyDialer { proxy, counts })))
    }

    /// Whether no proxy is asked.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.0.is_none()
    }

    /// Connects to a host's port. The names of hosts are resolved by whoever makes
    /// the connection. How long that may take is for the caller to say.
    ///
    /// # Errors
    /// [`DialError`].
    pub async fn dial(&self, host: &str, port: u16) -> Result<Stream, DialError> {
        match &self.0 {
            None => Ok(Box::new(tcp(host, port).await?)),
            Some(proxied) => proxied.dial(&authority(host, port)).await,
        }
    }
}

impl Connect for Dialer {
    type Stream = Stream;

    async fn connect(&self, host: &str, port: u16) -> io::Result<Stream> {
        Ok(self.dial(host, port).await?)
    }
}

impl ProxyDialer {
    async fn dial(&self, address: &str) -> Result<Stream, DialError> {
        let Self { proxy, counts } = self;
        let labels = proxy.labels();
        let Labels {
            protocol,
            transport,
        } = labels;
        let _span =
            control_tracing::child(format!("Proxy via {protocol} protocol over {transport}"))
                .map(|span| span.with("address", address));
        let began = Instant::now();
        counts.starts(labels);
        let connected = proxy
            .connect()
            .await
            .inspect_err(|_| counts.fails(labels, Stage::Connect))?;
        let made = match proxy {
            Proxy::Konnectivity(_) => konnectivity::tunnel(connected, address).await,
            Proxy::Tcp { .. } | Proxy::Unix(_) => http_connect::tunnel(connected, address).await,
        };
        let made = made.map_err(|why| {
            counts.fails(labels, Stage::Proxy);
            DialError::Proxy {
                proxy: proxy.name(),
                address: address.to_owned(),
                why,
            }
        })?;
        counts.made(labels, began.elapsed());
        Ok(made)
    }
}

// === impl Proxy ===

impl Proxy {
    fn labels(&self) -> Labels {
        let (protocol, transport) = match self {
            Self::Tcp { .. } => ("http_connect", "tcp"),
            Self::Unix(_) => ("http_connect", "uds"),
            Self::Konnectivity(_) => ("grpc", "uds"),
        };
        Labels {
            protocol,
            transport,
        }
    }

    /// As errors name it.
    fn name(&self) -> String {
        match self {
            Self::Tcp { host, port, .. } => authority(host, *port),
            Self::Unix(path) | Self::Konnectivity(path) => path.display().to_string(),
        }
    }

    /// A connection to the proxy itself.
    async fn connect(&self) -> Result<Stream, DialError> {
        let (host, port, tls) = match self {
            Self::Tcp { host, port, tls } => (host, *port, tls),
            Self::Unix(path) | Self::Konnectivity(path) => {
                let stream = UnixStream::connect(path).await;
                let stream = stream.map_err(|why| DialError::Dial {
                    network: "unix",
                    address: self.name(),
                    why,
                })?;
                return Ok(Box::new(stream));
            }
        };
        let stream = tcp(host, port).await?;
        let Some((config, name)) = tls else {
            return Ok(Box::new(stream));
        };
        let failed = |why| DialError::Tls {
            proxy: self.name(),
            why,
        };
        let name = ServerName::try_from(name.as_ref().unwrap_or(host).clone())
            .map_err(|error| failed(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
        let connector = TlsConnector::from(Arc::clone(config));
        let stream = connector.connect(name, stream).await.map_err(failed)?;
        Ok(Box::new(stream))
    }
}

async fn tcp(host: &str, port: u16) -> Result<TcpStream, DialError> {
    let failed = |why| DialError::Dial {
        network: "tcp",
        address: authority(host, port),
        why,
    };
    let stream = TcpStream::connect((host, port)).await.map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    Ok(stream)
}

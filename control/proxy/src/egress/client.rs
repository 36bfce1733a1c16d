//! An HTTP client that keeps its connections: of extension API servers, webhooks and
//! whatever else is asked again and again.
//!
//! Requests are sent to an address (`https://10.0.0.7:8443/…`), but the server
//! there must prove that it is who is meant: the name in its certificate is given
//! with the client, not with the request. Connections are kept and shared, and
//! speak HTTP/2 where the server does.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy;
pub use hyper_util::client::legacy::Error as RequestError;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

use super::dial::{self, Dialer};
use control_request::body::Body;

/// How long a connection and its handshake may take to be made.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a connection is kept that nobody uses.
const IDLE: Duration = Duration::from_secs(90);
/// Idle connections to one address.
const IDLE_MOST: usize = 8;

/// A client of one server, or of one Service. Cheap to clone; clones share
/// connections.
#[derive(Clone, Debug)]
pub struct HttpClient(legacy::Client<Connector, Body>);

// === impl HttpClient ===

impl HttpClient {
    /// A client that believes a server as `tls` says and under this name only.
    ///
    /// # Errors
    /// When the name is none that a certificate can have.
    pub fn over_tls(dialer: Dialer, tls: ClientConfig, server_name: &str) -> io::Result<Self> {
        let name = ServerName::try_from(server_name.to_owned())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let mut tls = tls;
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let tls = TlsConnector::from(Arc::new(tls));
        Ok(Self::of(Connector {
            dialer,
            tls: Some((tls, name)),
        }))
    }

    /// A client that speaks in the clear, over HTTP/1.1.
    #[must_use]
    pub fn in_clear(dialer: Dialer) -> Self {
        Self::of(Connector { dialer, tls: None })
    }

    fn of(connector: Connector) -> Self {
        let client = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_MOST)
            // A connection whose other end is gone is noticed before a request
            // waits on it for minutes.
            .http2_keep_alive_interval(Duration::from_secs(30))
            .http2_keep_alive_timeout(Duration::from_secs(15))
            .http2_initial_stream_window_size(1024 * 1024)
            .http2_initial_connection_window_size(4 * 1024 * 1024)
            .build(connector);
        Self(client)
    }

    /// Sends a request to the host and port of its address. Who is asked is told of the
    /// trace that it belongs to.
    ///
    /// # Errors
    /// When there is no connection or no answer.
    pub async fn request(
        &self,
        mut request: Request<Body>,
    ) -> Result<Response<Incoming>, RequestError> {
        let span = control_tracing::child_of(&mut request);
        let answered = control_tracing::under(span.as_ref(), self.0.request(request)).await;
        if let Some(span) = span {
            let code = answered
                .as_ref()
                .ok()
                .map(|answer| answer.status().as_u16());
            span.answered(code);
        }
        answered
    }
}

/// Makes connections to the host and port of a request's address.
#[derive(Clone)]
struct Connector {
    dialer: Dialer,
    /// Without, it is spoken in the clear.
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Connector")
            .field("dialer", &self.dialer)
            .field("name", &self.tls.as_ref().map(|(_, name)| name))
            .finish()
    }
}

impl tower::Service<Uri> for Connector {
    type Response = HttpConnection;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<HttpConnection>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let Self { dialer, tls } = self.clone();
        Box::pin(async move {
            let made = async {
                let host = uri.host().unwrap_or_default();
                let host = host.trim_matches(['[', ']']);
                let usual = if tls.is_some() { 443 } else { 80 };
                let stream = dialer.dial(host, uri.port_u16().unwrap_or(usual)).await?;
                let Some((tls, name)) = tls else {
                    return Ok(HttpConnection {
                        io: TokioIo::new(stream),
                        speaks_h2: false,
                    });
                };
                let stream = tls.connect(name, stream).await.map_err(handshake)?;
                let speaks_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                let stream: dial::Stream = Box::new(stream);
                Ok(HttpConnection {
                    io: TokioIo::new(stream),
                    speaks_h2,
                })
            };
            tokio::time::timeout(CONNECT, made)
                .await
                .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "i/o timeout")))
        })
    }
}

/// A connection of an [`HttpClient`].
struct HttpConnection {
    io: TokioIo<dial::Stream>,
    speaks_h2: bool,
}

impl Connection for HttpConnection {
    fn connected(&self) -> Connected {
        if self.speaks_h2 {
            Connected::new().negotiated_h2()
        } else {
            Connected::new()
        }
    }
}

impl Read for HttpConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl Write for HttpConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, buffers)
    }
}

/// Why a handshake failed, in words that people look for.
fn handshake(error: io::Error) -> io::Error {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    match inner {
        Some(rustls::Error::InvalidCertificate(why)) => {
            let why = crate::webhook::words::of_certificate(why);
            let text = format!("tls: failed to verify certificate: x509: {why}");
            io::Error::new(error.kind(), text)
        }
        _ => error,
    }
}

/// What went wrong with a request, in one line: all its causes, but what only
/// says in which step of the client it was.
#[must_use]
pub fn explain(error: &(dyn std::error::Error + 'static)) -> String {
    if let Some(error) = error.downcast_ref::<legacy::Error>()
        && let Some(source) = std::error::Error::source(error)
    {
        return explain(source);
    }
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let more = cause.to_string();
        if !text.ends_with(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        source = cause.source();
    }
    text
}

/// Error for a URL by which no server can be asked.
#[derive(Debug, thiserror::Error)]
pub enum UrlError {
    /// It is no URL.
    #[error("{url:?} is no URL")]
    Malformed {
        /// The text.
        url: String,
        /// What is wrong with it.
        source: http::uri::InvalidUri,
    },
    /// It has another scheme.
    #[error("{url:?}: only {schemes} servers are asked")]
    Scheme {
        /// The URL.
        url: String,
        /// The schemes that it may have.
        schemes: String,
    },
    /// It has no host.
    #[error("{url:?} names no host")]
    NoHost {
        /// The URL.
        url: String,
    },
}

/// The address and the host of a URL of one of `schemes`.
///
/// # Errors
/// Why it is none.
pub fn parse(url: &str, schemes: &[&str]) -> Result<(Uri, String), UrlError> {
    let named = || url.to_owned();
    let uri: Uri = url.parse().map_err(|source| UrlError::Malformed {
        url: named(),
        source,
    })?;
    if !uri
        .scheme_str()
        .is_some_and(|scheme| schemes.contains(&scheme))
    {
        let schemes = schemes.join(" and ");
        return Err(UrlError::Scheme {
            url: named(),
            schemes,
        });
    }
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    if host.is_empty() {
        return Err(UrlError::NoHost { url: named() });
    }
    let host = host.to_owned();
    Ok((uri, host))
}

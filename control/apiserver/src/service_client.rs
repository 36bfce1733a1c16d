//! An HTTP client for what stands behind Services: extension API servers and
//! webhooks.
//!
//! Requests are sent to an address (`https://10.0.0.7:8443/…`), but the server
//! there must prove that it is the Service: the name in its certificate is given
//! with the client, not with the request. Connections are kept and shared, and
//! speak HTTP/2 where the server does.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use control_pki::Issued;
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::body::Body;
use crate::proxy::connect::{unverified, unverified_tls, words};

/// How long a connection and its handshake may take to be made.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a connection is kept that nobody uses.
const IDLE: Duration = Duration::from_secs(90);
/// Idle connections to one address.
const IDLE_MOST: usize = 8;

/// A client of one Service. Cheap to clone; clones share connections.
pub type ServiceClient = Client<Connector, Body>;

/// Makes a client that believes a server as `tls` says and under this name only.
///
/// # Errors
/// When the name is none that a certificate can have.
pub fn service_client(tls: ClientConfig, server_name: &str) -> Result<ServiceClient, io::Error> {
    let name = ServerName::try_from(server_name.to_owned())
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let mut tls = tls;
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let connector = Connector {
        tls: TlsConnector::from(Arc::new(tls)),
        name,
    };
    Ok(Client::builder(TokioExecutor::new())
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
        .build(connector))
}

/// Where systems keep the authorities that they believe.
const SYSTEM_ROOTS: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

/// Whom a client believes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust<'a> {
    /// The authorities of a PEM text.
    Bundle(&'a str),
    /// Those that this machine believes.
    System,
    /// Whoever answers.
    Anybody,
}

/// How TLS is spoken by a client that shows `own` certificate, if any.
///
/// # Errors
/// When a certificate or key cannot be read.
pub fn tls(trust: Trust<'_>, own: Option<&Issued>) -> Result<ClientConfig, control_pki::Error> {
    let bundle = match trust {
        Trust::Bundle(pem) => return control_pki::client_config(pem, own),
        Trust::System => {
            let found = SYSTEM_ROOTS
                .iter()
                .find_map(|path| std::fs::read_to_string(path).ok());
            return control_pki::client_config(&found.unwrap_or_default(), own);
        }
        Trust::Anybody => own.map(|own| own.cert_pem.as_str()),
    };
    // The builder wants some authority, which is not asked.
    match bundle {
        Some(pem) => {
            let mut config = control_pki::client_config(pem, own)?;
            config.dangerous().set_certificate_verifier(unverified());
            Ok(config)
        }
        None => Ok(ClientConfig::clone(&unverified_tls())),
    }
}

/// Makes connections to the host and port of a request's address.
#[derive(Clone)]
pub struct Connector {
    tls: TlsConnector,
    name: ServerName<'static>,
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Connector")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl tower::Service<Uri> for Connector {
    type Response = Stream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let Self { tls, name } = self.clone();
        Box::pin(async move {
            let made = async {
                let host = uri.host().unwrap_or_default();
                let host = host.trim_start_matches('[').trim_end_matches(']');
                let port = uri.port_u16().unwrap_or(443);
                let dial = |error: io::Error| {
                    let address = uri.authority().map_or("", |all| all.as_str());
                    let text = format!("dial tcp {address}: {}", words(&error));
                    io::Error::new(error.kind(), text)
                };
                let stream = TcpStream::connect((host, port)).await.map_err(dial)?;
                stream.set_nodelay(true)?;
                let stream = tls.connect(name, stream).await.map_err(handshake)?;
                Ok(Stream(TokioIo::new(stream)))
            };
            tokio::time::timeout(CONNECT, made)
                .await
                .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "i/o timeout")))
        })
    }
}

/// A connection of a [`ServiceClient`].
#[derive(Debug)]
pub struct Stream(TokioIo<TlsStream<TcpStream>>);

impl Connection for Stream {
    fn connected(&self) -> Connected {
        let (_, session) = self.0.inner().get_ref();
        if session.alpn_protocol() == Some(b"h2") {
            Connected::new().negotiated_h2()
        } else {
            Connected::new()
        }
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl Write for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, buffers)
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
    if let Some(error) = error.downcast_ref::<hyper_util::client::legacy::Error>()
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

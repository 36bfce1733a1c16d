//! Connections to where requests are passed on.

use std::io;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::body::Body;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(30);
/// How long its TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Where to connect.
#[derive(Clone)]
pub struct Target {
    /// An address or a host's name.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// How TLS is spoken; without, in the clear.
    pub tls: Option<Arc<ClientConfig>>,
    /// The name that its certificate must have, if that is not the host.
    pub server_name: Option<String>,
}

/// Why a target cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No connection.
    #[error("dial tcp {address}: {}", words(source))]
    Dial {
        /// Host and port.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// No TLS.
    #[error("tls: {address}: {source}")]
    Tls {
        /// Host and port.
        address: String,
        /// What is wrong.
        source: io::Error,
    },
    /// It did not answer in HTTP.
    #[error("{address}: {source}")]
    Http {
        /// Host and port.
        address: String,
        /// What is wrong.
        source: hyper::Error,
    },
}

/// What went wrong, in the words that clients of stock know and match.
pub(crate) fn words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        io::ErrorKind::ConnectionReset => "connect: connection reset by peer".to_owned(),
        io::ErrorKind::HostUnreachable => "connect: no route to host".to_owned(),
        io::ErrorKind::NetworkUnreachable => "connect: network is unreachable".to_owned(),
        io::ErrorKind::TimedOut => "i/o timeout".to_owned(),
        _ => error.to_string(),
    }
}

/// A connection in the clear or not.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

// === impl Target ===

impl std::fmt::Debug for Target {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Target")
            .field("address", &self.address())
            .field("tls", &self.tls.is_some())
            .finish()
    }
}

impl Target {
    /// Host and port, as in a URL.
    #[must_use]
    pub fn address(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Sends one request over a connection of its own and returns the answer
    /// as soon as its headers are there. The connection lives as long as the
    /// answer's body, or as what it is upgraded to.
    ///
    /// # Errors
    /// When there is no connection or no answer.
    pub async fn send(&self, request: Request<Body>) -> Result<Response<Incoming>, Error> {
        let address = self.address();
        let http = |source| Error::Http {
            address: address.clone(),
            source,
        };
        let stream = self.connect().await?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(http)?;
        tokio::spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(%error, "connection to a proxied target ended");
            }
        });
        sender.send_request(request).await.map_err(http)
    }

    async fn connect(&self) -> Result<Box<dyn Stream>, Error> {
        let address = self.address();
        let dial = |source| Error::Dial {
            address: address.clone(),
            source,
        };
        let stream = within(CONNECT, TcpStream::connect((self.host.as_str(), self.port)))
            .await
            .map_err(dial)?;
        stream.set_nodelay(true).map_err(dial)?;
        let Some(config) = &self.tls else {
            return Ok(Box::new(stream));
        };
        let tls = |source| Error::Tls {
            address: address.clone(),
            source,
        };
        let name = self.server_name.as_ref().unwrap_or(&self.host);
        let name = ServerName::try_from(name.clone())
            .map_err(|error| tls(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
        let connector = TlsConnector::from(Arc::clone(config));
        let stream = within(HANDSHAKE, connector.connect(name, stream))
            .await
            .map_err(tls)?;
        Ok(Box::new(stream))
    }
}

async fn within<T>(limit: Duration, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(limit, work)
        .await
        .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "i/o timeout")))
}

/// TLS towards what users name (`https:pod:443`): its certificate is the
/// user's own affair and is not verified, as with stock. Nothing of this
/// server's or the caller's credentials is sent there.
#[must_use]
pub fn unverified_tls() -> Arc<ClientConfig> {
    static CONFIG: LazyLock<Arc<ClientConfig>> = LazyLock::new(|| {
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map(|builder| {
                builder
                    .dangerous()
                    .with_custom_certificate_verifier(unverified())
                    .with_no_client_auth()
            });
        // The provider is compiled in and has both versions.
        Arc::new(config.unwrap_or_else(|_| unreachable!("aws-lc-rs has TLS 1.2 and 1.3")))
    });
    Arc::clone(&CONFIG)
}

/// Takes any certificate whose key the server holds.
pub(crate) fn unverified() -> Arc<dyn ServerCertVerifier> {
    Arc::new(AnyCertificate(provider()))
}

fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> =
        LazyLock::new(|| Arc::new(aws_lc_rs::default_provider()));
    Arc::clone(&PROVIDER)
}

#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

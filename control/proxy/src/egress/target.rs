//! Where a request is passed on, over a connection of its own.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

use super::dial::{self, DialError, Dialer, Stream};
use control_request::body::Body;

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
    /// By which way it is reached.
    pub dialer: Dialer,
}

/// Why a target cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No connection.
    #[error(transparent)]
    Dial(DialError),
    /// No TLS.
    #[error("tls: {address}")]
    Tls {
        /// Host and port.
        address: String,
        /// What is wrong.
        source: io::Error,
    },
    /// It did not answer in HTTP.
    #[error("{address}")]
    Http {
        /// Host and port.
        address: String,
        /// What is wrong.
        source: hyper::Error,
    },
}

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
        dial::authority(&self.host, self.port)
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

    async fn connect(&self) -> Result<Stream, Error> {
        let address = self.address();
        let dialed = tokio::time::timeout(CONNECT, self.dialer.dial(&self.host, self.port))
            .await
            .unwrap_or_else(|_| {
                Err(DialError::Dial {
                    network: "tcp",
                    address: address.clone(),
                    why: io::ErrorKind::TimedOut.into(),
                })
            });
        let stream = dialed.map_err(Error::Dial)?;
        let Some(config) = &self.tls else {
            return Ok(stream);
        };
        let tls = |source| Error::Tls {
            address: address.clone(),
            source,
        };
        let name = self.server_name.as_ref().unwrap_or(&self.host);
        let name = ServerName::try_from(name.clone())
            .map_err(|error| tls(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
        let connector = TlsConnector::from(Arc::clone(config));
        let stream = tokio::time::timeout(HANDSHAKE, connector.connect(name, stream))
            .await
            .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "i/o timeout")))
            .map_err(tls)?;
        Ok(Box::new(stream))
    }
}

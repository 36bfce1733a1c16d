//! The TLS of a port: whom it shows, and who may ask.

use std::sync::{Arc, LazyLock, PoisonError, RwLock, RwLockReadGuard};

use http::StatusCode;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};

use crate::access::User;

/// The TLS of a port. `Clone` shares.
#[derive(Clone)]
pub struct Tls {
    clients: Arc<RwLock<Clients>>,
    identity: Arc<Identity>,
    names: Arc<[String]>,
}

/// The authorities of clients for new connections.
struct Clients {
    config: Arc<ServerConfig>,
    /// Verifies them; `None` if they present none.
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    /// The authorities, PEM.
    authorities: String,
    /// How often they were replaced.
    generation: u64,
}

impl Clients {
    /// Those of these authorities, or that show no certificate.
    fn of(client_ca: &str, identity: &Arc<Identity>) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(client_ca.as_bytes()) {
            roots
                .add(root.map_err(TlsError::of)?)
                .map_err(TlsError::of)?;
        }
        let provider = provider();
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                .allow_unauthenticated()
                .build()
                .map_err(TlsError::of)?;
        // sessions belong to a configuration: former ones are not resumed
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TlsError::of)?
            .with_client_cert_verifier(verifier.clone())
            .with_cert_resolver(identity.clone());
        Ok(Self {
            config: with_protocols(config),
            verifier: Some(verifier),
            authorities: client_ca.to_owned(),
            generation: 0,
        })
    }
}

fn with_protocols(mut config: ServerConfig) -> Arc<ServerConfig> {
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}

/// A peer with a certificate of the cluster.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// Whether it may do everything: the API server, or an administrator.
    pub(crate) trusted: bool,
    /// The user.
    pub(crate) user: User,
}

/// The certificate that is shown, once there is one.
#[derive(Debug, Default)]
struct Identity(RwLock<Option<Arc<CertifiedKey>>>);

/// The one cryptography of the process.
fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> =
        LazyLock::new(|| Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
    PROVIDER.clone()
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls")
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

/// Reason why the TLS of a port cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error("cannot be used for the TLS of a port: {0}")]
pub struct TlsError(String);

impl TlsError {
    // It takes ownership for `map_err`.
    fn of(error: impl std::fmt::Display) -> Self {
        Self(error.to_string())
    }
}

impl ResolvesServerCert for Identity {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Tls {
    /// Serves with this certificate and key. Clients of the authorities in `client_ca`
    /// whose common name is one of `names` or who are in the group `system:masters` may
    /// do everything. All are PEM.
    ///
    /// # Errors
    /// When one of them cannot be read, or the key does not match.
    pub fn new(
        certificate: &str,
        key: &str,
        client_ca: &str,
        names: &[&str],
    ) -> Result<Self, TlsError> {
        let tls = Self::without_certificate(client_ca, names)?;
        tls.replace(certificate, key)?;
        Ok(tls)
    }

    /// As [`Tls::new`], for a node that will get its certificate by and by:
    /// until [`Tls::replace`] no connection comes about.
    ///
    /// # Errors
    /// When the authorities cannot be read.
    pub fn without_certificate(client_ca: &str, names: &[&str]) -> Result<Self, TlsError> {
        let identity = Arc::new(Identity::default());
        let clients = Clients::of(client_ca, &identity)?;
        Ok(Self::with(clients, identity, names))
    }

    /// Serves with this certificate and key, both PEM, clients without certificates.
    ///
    /// # Errors
    /// When one of them cannot be read, or the key does not match.
    pub fn without_clients(certificate: &str, key: &str) -> Result<Self, TlsError> {
        let identity = Arc::new(Identity::default());
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(TlsError::of)?
            .with_no_client_auth()
            .with_cert_resolver(identity.clone());
        let clients = Clients {
            config: with_protocols(config),
            verifier: None,
            authorities: String::new(),
            generation: 0,
        };
        let tls = Self::with(clients, identity, &[]);
        tls.replace(certificate, key)?;
        Ok(tls)
    }

    fn with(clients: Clients, identity: Arc<Identity>, names: &[&str]) -> Self {
        Self {
            clients: Arc::new(RwLock::new(clients)),
            identity,
            names: names.iter().map(|n| (*n).to_owned()).collect(),
        }
    }

    /// Takes clients of the authorities in `client_ca` (PEM) from now on, and of no others;
    /// whether those are others than before. Connections stay; what clients of other
    /// authorities ask on them is refused.
    ///
    /// # Errors
    /// When it cannot be read, or holds none; the old ones then stay.
    pub fn replace_authorities(&self, client_ca: &str) -> Result<bool, TlsError> {
        if self.clients().authorities == client_ca {
            return Ok(false);
        }
        let made = Clients::of(client_ca, &self.identity)?;
        let mut clients = self.clients.write().unwrap_or_else(PoisonError::into_inner);
        let generation = clients.generation + 1;
        *clients = Clients { generation, ..made };
        Ok(true)
    }

    /// The authorities of clients, PEM.
    #[must_use]
    pub fn authorities(&self) -> String {
        self.clients().authorities.clone()
    }

    fn clients(&self) -> RwLockReadGuard<'_, Clients> {
        self.clients.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows another certificate to those who connect from now on.
    ///
    /// # Errors
    /// When it cannot be read, or the key does not fit; the old one then stays.
    pub fn replace(&self, certificate: &str, key: &str) -> Result<(), TlsError> {
        let chain = CertificateDer::pem_slice_iter(certificate.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(TlsError::of)?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(TlsError::of)?;
        let certified = CertifiedKey::from_der(chain, key, &provider()).map_err(TlsError::of)?;
        let shown = &self.identity.0;
        *shown.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(certified));
        Ok(())
    }

    /// Whether there is a certificate to show.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let shown = &self.identity.0;
        shown
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .is_some()
    }

    /// How a new connection is made, and which of the changes of authorities it is after.
    pub(crate) fn config(&self) -> (Arc<ServerConfig>, u64) {
        let clients = self.clients();
        (Arc::clone(&clients.config), clients.generation)
    }

    /// Checks that one of the current authorities accepts a client that those of the
    /// `generation` accepted, with this chain of certificates or none.
    ///
    /// # Errors
    /// The response to a client that is no longer trusted.
    pub(crate) fn still_believes(
        &self,
        generation: u64,
        chain: &[CertificateDer<'_>],
    ) -> Result<(), StatusCode> {
        let clients = self.clients();
        let Some((first, rest)) = chain.split_first() else {
            return Ok(());
        };
        if clients.generation == generation {
            return Ok(());
        }
        let verifier = clients.verifier.as_ref().ok_or(StatusCode::UNAUTHORIZED)?;
        let vouched = verifier.verify_client_cert(first, rest, UnixTime::now());
        vouched.map(drop).map_err(|_| StatusCode::UNAUTHORIZED)
    }

    /// Returns the user of a client with this certificate, and whether it needs no
    /// review; `None` without a certificate.
    ///
    /// # Errors
    /// The response to a certificate that cannot be read.
    pub(crate) fn peer(
        &self,
        certificate: Option<&CertificateDer<'_>>,
    ) -> Result<Option<Peer>, StatusCode> {
        let Some(certificate) = certificate else {
            return Ok(None);
        };
        let (_, parsed) = x509_parser::parse_x509_certificate(certificate)
            .map_err(|_| StatusCode::UNAUTHORIZED)?;
        let subject = parsed.subject();
        let name = subject
            .iter_common_name()
            .find_map(|a| a.as_str().ok())
            .unwrap_or_default();
        let groups: Vec<String> = subject
            .iter_organization()
            .filter_map(|a| a.as_str().ok())
            .map(str::to_owned)
            .collect();
        if name.is_empty() {
            return Err(StatusCode::UNAUTHORIZED);
        }
        let trusted = self.names.iter().any(|n| n == name)
            || groups.iter().any(|group| group == "system:masters");
        Ok(Some(Peer {
            trusted,
            user: User::certified(name, groups),
        }))
    }
}

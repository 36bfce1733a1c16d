//! TLS configurations for servers and clients.
//!
//! A server requests a certificate from every client and accepts any, or none, in the
//! handshake; TLS proves that the client holds the key. [`ClientTrust`] verifies the
//! authority per connection, so that a wrong certificate is answered with 401 in HTTP, as
//! in kube-apiserver, and so that proxies and users can be distinguished by their
//! authority.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, ServerConfig, version};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};

use crate::authority::check_certificate;
use crate::possession::Possession;
use crate::vouched::VouchedKey;
use crate::{CertificateKeyPair, Error};

/// The authority whose clients are believed.
#[derive(Clone, Debug)]
pub struct ClientTrust(Arc<dyn ClientCertVerifier>);

/// A server's certificate, which can be replaced while it serves.
#[derive(Debug)]
pub struct ServingIdentity(RwLock<Arc<CertifiedKey>>);

/// The limits of a server's TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsLimits {
    /// Whether clients may use TLS 1.2, too. 1.3 is preferred in any case.
    pub tls12: bool,
    /// The cipher suites, by their IANA names (`TLS_AES_128_GCM_SHA256`, …); all
    /// supported ones if empty. None of them is weak.
    pub suites: Vec<String>,
}

impl TlsLimits {
    /// Checks that every suite is known.
    ///
    /// # Errors
    /// [`Error::Crypto`].
    pub fn check(&self) -> Result<(), Error> {
        self.provider().map(drop)
    }

    /// The cryptography that is within the limits.
    fn provider(&self) -> Result<CryptoProvider, Error> {
        let mut provider = aws_lc_rs::default_provider();
        if self.suites.is_empty() {
            return Ok(provider);
        }
        // Those of TLS 1.3 have another name there than here.
        let name = |suite: &rustls::SupportedCipherSuite| {
            format!("{:?}", suite.suite()).replacen("TLS13_", "TLS_", 1)
        };
        let known: Vec<String> = provider.cipher_suites.iter().map(name).collect();
        if let Some(unknown) = self.suites.iter().find(|suite| !known.contains(suite)) {
            let known = known.join(", ");
            return Err(refused(
                "choose cipher suites",
                format!("`{unknown}` is not among {known}"),
            ));
        }
        provider
            .cipher_suites
            .retain(|suite| self.suites.contains(&name(suite)));
        Ok(provider)
    }
}

/// A server that speaks TLS 1.3 only, HTTP/2 before HTTP/1.1, and asks clients
/// for a certificate. `trusted` are only named to the client, to help it
/// choose; judge with [`ClientTrust::verify`].
///
/// # Errors
/// [`Error::Crypto`].
pub fn server_config(
    identity: Arc<ServingIdentity>,
    trusted: &[&ClientTrust],
) -> Result<ServerConfig, Error> {
    server_config_within(identity, trusted, &TlsLimits::default())
}

/// As [`server_config`], with other limits.
///
/// # Errors
/// [`Error::Crypto`], also for unknown suites or if none is left.
pub fn server_config_within(
    identity: Arc<ServingIdentity>,
    trusted: &[&ClientTrust],
    limits: &TlsLimits,
) -> Result<ServerConfig, Error> {
    let provider = Arc::new(limits.provider()?);
    let versions: &[&rustls::SupportedProtocolVersion] = if limits.tls12 {
        &[&version::TLS13, &version::TLS12]
    } else {
        &[&version::TLS13]
    };
    let hints = trusted
        .iter()
        .flat_map(|trust| trust.0.root_hint_subjects())
        .cloned()
        .collect();
    let possession = Arc::new(Possession { hints });
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .map_err(tls("configure a server"))?
        .with_client_cert_verifier(possession)
        .with_cert_resolver(identity);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// A client that believes servers of the authority `ca_pem` and shows `own`
/// certificate, if any. TLS 1.3 or 1.2. No ALPN: the caller's HTTP library sets
/// it.
///
/// # Errors
/// [`Error::Malformed`] or [`Error::Crypto`].
pub fn client_config(
    ca_pem: &str,
    own: Option<&CertificateKeyPair>,
) -> Result<ClientConfig, Error> {
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])
        .map_err(tls("configure a client"))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(VouchedKey::new(ca_pem)?));
    match own {
        None => Ok(builder.with_no_client_auth()),
        Some(own) => builder
            .with_client_auth_cert(parse_certificates(&own.cert_pem)?, parse_key(&own.key_pem)?)
            .map_err(tls("use a client certificate")),
    }
}

/// The certificates of a PEM text, at least one.
///
/// # Errors
/// [`Error::Crypto`].
pub fn parse_certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|error| refused("read a certificate", error))?;
    if certificates.is_empty() {
        return Err(refused("read a certificate", "there is none in the text"));
    }
    Ok(certificates)
}

fn parse_key(pem: &str) -> Result<PrivateKeyDer<'static>, Error> {
    PrivateKeyDer::from_pem_slice(pem.as_bytes())
        .map_err(|error| refused("read a private key", error))
}

pub(crate) fn roots(pem: &str) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in parse_certificates(pem)? {
        roots.add(certificate).map_err(tls("trust an authority"))?;
    }
    Ok(roots)
}

pub(crate) fn tls(action: &'static str) -> impl FnOnce(rustls::Error) -> Error {
    move |error| refused(action, error)
}

fn refused(action: &'static str, detail: impl std::fmt::Display) -> Error {
    Error::Crypto {
        action,
        detail: detail.to_string(),
    }
}

// === impl ClientTrust ===

impl ClientTrust {
    /// Believes clients of the authorities in `ca_pem`.
    ///
    /// # Errors
    /// [`Error::Crypto`].
    pub fn new(ca_pem: &str) -> Result<Self, Error> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots(ca_pem)?), provider)
            .build()
            .map(Self)
            .map_err(|error| refused("trust an authority", error))
    }

    /// Whether one of the authorities vouches now for the first of these
    /// certificates as a client; the rest are intermediates.
    ///
    /// # Errors
    /// What is wrong, in the TLS library's words.
    pub fn verify(&self, chain: &[CertificateDer<'_>]) -> Result<(), rustls::Error> {
        let (first, rest) = chain
            .split_first()
            .ok_or(rustls::Error::NoCertificatesPresented)?;
        self.0
            .verify_client_cert(first, rest, UnixTime::now())
            .map(drop)
    }
}

// === impl ServingIdentity ===

impl ServingIdentity {
    /// Serves with this certificate.
    ///
    /// # Errors
    /// [`Error::Expired`] (naming `path`), [`Error::Crypto`] if the key does not
    /// fit or cannot be read.
    pub fn new(issued: &CertificateKeyPair, path: &Path) -> Result<Arc<Self>, Error> {
        Ok(Arc::new(Self(RwLock::new(Self::certified(issued, path)?))))
    }

    /// Serves new connections with another certificate.
    ///
    /// # Errors
    /// As [`ServingIdentity::new`]; the old one then stays.
    pub fn replace(&self, issued: &CertificateKeyPair, path: &Path) -> Result<(), Error> {
        let certified = Self::certified(issued, path)?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = certified;
        Ok(())
    }

    fn certified(issued: &CertificateKeyPair, path: &Path) -> Result<Arc<CertifiedKey>, Error> {
        check_certificate(
            &issued.cert_pem,
            path,
            "delete it and its key to have a new one made at the next start",
        )?;
        let chain = parse_certificates(&issued.cert_pem)?;
        let key = parse_key(&issued.key_pem)?;
        CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider())
            .map(Arc::new)
            .map_err(tls("use a serving certificate"))
    }
}

impl ResolvesServerCert for ServingIdentity {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(
            self.0
                .read()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
        )
    }
}

#[cfg(test)]
mod tests {
    use rustls::{ClientConnection, ServerConnection};

    use super::*;
    use crate::{Authority, Spec};

    /// A handshake in memory; what the server saw of the client.
    fn shake(
        server: ServerConfig,
        client: ClientConfig,
    ) -> Result<Option<Vec<CertificateDer<'static>>>, String> {
        let name = "kubernetes".try_into().expect("a name");
        let mut client = ClientConnection::new(Arc::new(client), name).expect("a client");
        let mut server = ServerConnection::new(Arc::new(server)).expect("a server");
        for _ in 0..10 {
            let mut wire = Vec::new();
            while client.wants_write() {
                client
                    .write_tls(&mut wire)
                    .map_err(|error| error.to_string())?;
            }
            let mut wire = &wire[..];
            while !wire.is_empty() {
                server
                    .read_tls(&mut wire)
                    .map_err(|error| error.to_string())?;
                server
                    .process_new_packets()
                    .map_err(|error| error.to_string())?;
            }
            let mut wire = Vec::new();
            while server.wants_write() {
                server
                    .write_tls(&mut wire)
                    .map_err(|error| error.to_string())?;
            }
            let mut wire = &wire[..];
            while !wire.is_empty() {
                client
                    .read_tls(&mut wire)
                    .map_err(|error| error.to_string())?;
                client
                    .process_new_packets()
                    .map_err(|error| error.to_string())?;
            }
        }
        assert!(!client.is_handshaking() && !server.is_handshaking());
        Ok(server
            .peer_certificates()
            .map(<[_]>::to_vec)
            .map(|chain| chain.into_iter().map(CertificateDer::into_owned).collect()))
    }

    fn server(authority: &Authority) -> (ServerConfig, ClientTrust) {
        let issued = authority
            .issue(&Spec::server("s", ["kubernetes"]))
            .expect("issued");
        let identity = ServingIdentity::new(&issued, Path::new("s.crt")).expect("an identity");
        let trust = ClientTrust::new(authority.certificate_pem()).expect("trust");
        (
            server_config(identity, &[&trust]).expect("a configuration"),
            trust,
        )
    }

    #[test]
    fn suites_and_versions_are_limited_to_what_is_known_and_strong() {
        let authority = Authority::create("kubernetes").expect("an authority");
        let issued = authority
            .issue(&Spec::server("kubernetes", ["kubernetes"]))
            .expect("issued");
        let within = |tls12, suites: &[&str]| {
            let limits = TlsLimits {
                tls12,
                suites: suites.iter().map(|&suite| suite.to_owned()).collect(),
            };
            let identity = ServingIdentity::new(&issued, Path::new("x")).expect("usable");
            server_config_within(identity, &[], &limits)
        };
        assert!(within(false, &["TLS_AES_128_GCM_SHA256"]).is_ok());
        let old = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256";
        assert!(within(true, &[old]).is_ok());
        for weak in [
            "TLS_RSA_WITH_AES_128_CBC_SHA",
            "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
        ] {
            let error = within(true, &[weak]).expect_err("refused").to_string();
            assert!(error.contains(weak), "{error}");
        }
        // Nothing is left to speak.
        assert!(within(false, &[old]).is_err());
    }

    #[test]
    fn a_client_without_a_certificate_may_connect() {
        let ca = Authority::create("kubernetes").expect("an authority");
        let client = client_config(ca.certificate_pem(), None).expect("a client");
        assert_eq!(shake(server(&ca).0, client), Ok(None));
    }

    #[test]
    fn trust_tells_the_clients_of_its_authority_from_others() {
        let ca = Authority::create("kubernetes").expect("an authority");
        let other = Authority::create("kubernetes").expect("another authority");
        for (signer, trusted) in [(&ca, true), (&other, false)] {
            let own = signer.issue(&Spec::client("ann", &[])).expect("issued");
            let client = client_config(ca.certificate_pem(), Some(&own)).expect("a client");
            let (server, trust) = server(&ca);
            let chain = shake(server, client)
                .expect("a handshake")
                .expect("a certificate");
            assert_eq!(trust.verify(&chain).is_ok(), trusted);
        }
        // A server's certificate is not good for asking.
        let own = ca.issue(&Spec::server("x", ["x"])).expect("issued");
        let trust = ClientTrust::new(ca.certificate_pem()).expect("trust");
        assert!(
            trust
                .verify(&parse_certificates(&own.cert_pem).expect("parsed"))
                .is_err()
        );
        assert!(trust.verify(&[]).is_err());
    }

    #[test]
    fn a_client_that_takes_any_server_takes_only_one_that_holds_its_key() {
        let ca = Authority::create("kubernetes").expect("an authority");
        let any = ClientConfig::clone(&crate::unverified_client_config());
        assert_eq!(shake(server(&ca).0, any.clone()), Ok(None));
        // another's certificate, with a key of its own
        let issue = || {
            ca.issue(&Spec::server("s", ["kubernetes"]))
                .expect("issued")
        };
        let (shown, own) = (issue(), issue());
        let identity = ServingIdentity::new(&own, Path::new("s.crt")).expect("an identity");
        let forged = CertifiedKey::new(
            parse_certificates(&shown.cert_pem).expect("parsed"),
            identity.0.read().expect("no panic").key.clone(),
        );
        *identity.0.write().expect("no panic") = Arc::new(forged);
        let server = server_config(identity, &[]).expect("a configuration");
        let error = shake(server, any).expect_err("no signature of that key");
        assert!(error.contains("BadSignature"), "{error}");
    }

    #[test]
    fn a_client_refuses_a_server_of_another_authority() {
        let ca = Authority::create("kubernetes").expect("an authority");
        let other = Authority::create("kubernetes").expect("another authority");
        let client = client_config(other.certificate_pem(), None).expect("a client");
        assert!(shake(server(&ca).0, client).is_err());
    }

    #[test]
    fn a_replaced_certificate_serves_the_next_connection() {
        let ca = Authority::create("kubernetes").expect("an authority");
        let first = ca
            .issue(&Spec::server("s", ["kubernetes"]))
            .expect("issued");
        let second = ca
            .issue(&Spec::server("s", ["kubernetes"]))
            .expect("issued");
        let identity = ServingIdentity::new(&first, Path::new("s.crt")).expect("an identity");
        let mismatched = CertificateKeyPair {
            key_pem: first.key_pem.clone(),
            ..second.clone()
        };
        assert!(identity.replace(&mismatched, Path::new("s.crt")).is_err());
        identity
            .replace(&second, Path::new("s.crt"))
            .expect("replaced");
        let served = identity.0.read().expect("no panic").cert.clone();
        assert_eq!(
            served,
            parse_certificates(&second.cert_pem).expect("parsed")
        );
    }
}

//! Verifiers that only check that peers hold the key of the certificate that they
//! present.
//!
//! A server identifies its clients later ([`ClientTrust`](crate::ClientTrust)); a client
//! does not verify its server where nothing secret is sent.

use std::sync::{Arc, LazyLock};

use rustls::client::danger::{ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{ClientConfig, DistinguishedName};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::signatures::signature_methods;

/// Takes any certificate whose key the peer holds.
#[derive(Debug)]
pub(crate) struct Possession {
    /// Authorities that are named to clients, to help them choose.
    pub hints: Vec<DistinguishedName>,
}

/// Takes any server that holds the key of its certificate.
#[must_use]
pub fn any_server() -> Arc<dyn ServerCertVerifier> {
    Arc::new(Possession { hints: Vec::new() })
}

/// A client that takes [any server](any_server) and shows no certificate. No
/// ALPN: the caller's HTTP library sets it.
#[must_use]
pub fn unverified_client_config() -> Arc<ClientConfig> {
    static CONFIG: LazyLock<Arc<ClientConfig>> = LazyLock::new(|| {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map(|builder| {
                builder
                    .dangerous()
                    .with_custom_certificate_verifier(any_server())
                    .with_no_client_auth()
            });
        // the provider is compiled in and has both versions
        Arc::new(config.unwrap_or_else(|_| unreachable!("aws-lc-rs has TLS 1.2 and 1.3")))
    });
    CONFIG.clone()
}

impl ClientCertVerifier for Possession {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    signature_methods!();
}

impl ServerCertVerifier for Possession {
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

    signature_methods!();
}

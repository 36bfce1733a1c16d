//! Whom this server believes when it connects, and how it speaks TLS then.

use std::sync::{Arc, LazyLock};

use control_pki::Issued;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};

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

impl<'a> Trust<'a> {
    /// What a configuration says: its authorities, if any, and whether it does
    /// without.
    #[must_use]
    pub fn of(bundle: Option<&'a str>, anybody: bool) -> Self {
        match bundle {
            _ if anybody => Self::Anybody,
            Some(pem) => Self::Bundle(pem),
            None => Self::System,
        }
    }
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

//! Whom this server believes when it connects, and how it speaks TLS then.

use std::sync::Arc;

use control_pki::CertificateKeyPair;
use rustls::ClientConfig;

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
    pub fn from_config(bundle: Option<&'a str>, anybody: bool) -> Self {
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
pub fn tls(
    trust: Trust<'_>,
    own: Option<&CertificateKeyPair>,
) -> Result<ClientConfig, control_pki::Error> {
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
            config
                .dangerous()
                .set_certificate_verifier(control_pki::any_server());
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
    control_pki::unverified_client_config()
}

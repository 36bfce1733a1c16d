//! The servers that a client trusts: those whose certificate an authority of a bundle
//! signed, and those whose own certificate is in the bundle.
//!
//! `openssl req -x509` creates the latter, and webhooks often use it: a self-signed
//! certificate that is marked as an authority. The web's rules reject an authority as a
//! server; Go, and with it kube-apiserver, accepts it.

use std::sync::Arc;

use rustls::CertificateError;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs;
use rustls::server::ParsedCertificate;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::Error;
use crate::signatures::signature_methods;
use crate::tls::{parse_certificates, roots, tls};

/// The certificates of a bundle.
#[derive(Debug)]
pub(crate) struct VouchedKey {
    authorities: Arc<WebPkiServerVerifier>,
    /// Each could be a server's own.
    bundle: Vec<CertificateDer<'static>>,
}

// === impl Vouched ===

impl VouchedKey {
    /// Those of a PEM text.
    pub fn new(pem: &str) -> Result<Self, Error> {
        let roots = Arc::new(roots(pem)?);
        let provider = Arc::new(aws_lc_rs::default_provider());
        let authorities = WebPkiServerVerifier::builder_with_provider(roots, provider)
            .build()
            .map_err(|error| tls("trust authorities")(rustls::Error::General(error.to_string())))?;
        Ok(Self {
            authorities,
            bundle: parse_certificates(pem)?,
        })
    }
}

impl ServerCertVerifier for VouchedKey {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified = self.authorities.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        if verified.is_ok() || self.bundle.iter().all(|one| one != end_entity) {
            return verified;
        }
        let certificate = ParsedCertificate::try_from(end_entity)?;
        rustls::client::verify_server_name(&certificate, server_name)?;
        is_valid_at(end_entity, now)?;
        Ok(ServerCertVerified::assertion())
    }

    signature_methods!();
}

fn is_valid_at(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), rustls::Error> {
    let (_, certificate) =
        X509Certificate::from_der(certificate).map_err(|_| CertificateError::BadEncoding)?;
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    if now < certificate.validity().not_before.timestamp() {
        return Err(CertificateError::NotValidYet.into());
    }
    if now > certificate.validity().not_after.timestamp() {
        return Err(CertificateError::Expired.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// What `openssl req -x509` makes.
    fn own(name: &str) -> (CertificateDer<'static>, String) {
        let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).expect("a name");
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2030, 1, 1);
        let key = rcgen::KeyPair::generate().expect("a key");
        let made = params.self_signed(&key).expect("a certificate");
        (made.der().clone(), made.pem())
    }

    #[test]
    fn a_server_that_vouches_for_itself_is_believed_if_it_stands_in_the_bundle() {
        let (hook, bundle) = own("hook.example.com");
        let (other, _) = own("hook.example.com");
        let trust = VouchedKey::new(&bundle).expect("a bundle");
        let ask = |who: &CertificateDer<'_>, name: &'static str, at: u64| {
            let name = ServerName::try_from(name).expect("a name");
            let at = UnixTime::since_unix_epoch(Duration::from_secs(at));
            trust.verify_server_cert(who, &[], &name, &[], at).is_ok()
        };
        let in_2025 = 1_750_000_000;
        assert!(ask(&hook, "hook.example.com", in_2025));
        assert!(!ask(&hook, "else.example.com", in_2025));
        assert!(!ask(&hook, "hook.example.com", 1_900_000_000));
        assert!(!ask(&hook, "hook.example.com", 1_500_000_000));
        assert!(!ask(&other, "hook.example.com", in_2025));
    }
}

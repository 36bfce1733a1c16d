//! Verifies that a server is a certain subject, beside its name or address.
//!
//! A node writes its own addresses, so a certificate for the address that the API server
//! dials may be another node's. The subject of a kubelet's serving certificate
//! (`system:node:NAME`) says which node it is.

use std::sync::Arc;

use rustls::CertificateError;
use rustls::client::danger::{ServerCertVerified, ServerCertVerifier};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::Error;
use crate::signatures::signature_methods;
use crate::vouched::VouchedKey;

/// Returns a verifier of servers that the authorities in `ca_pem` signed.
///
/// # Errors
/// [`Error::Crypto`].
pub fn server_verifier(ca_pem: &str) -> Result<Arc<dyn ServerCertVerifier>, Error> {
    Ok(Arc::new(VouchedKey::new(ca_pem)?))
}

/// Returns a verifier that accepts what `verifier` accepts, if the certificate's common
/// name is `common_name`.
#[must_use]
pub fn verify_subject(
    verifier: Arc<dyn ServerCertVerifier>,
    common_name: String,
) -> Arc<dyn ServerCertVerifier> {
    Arc::new(SubjectVerifier {
        verifier,
        common_name,
    })
}

#[derive(Debug)]
struct SubjectVerifier {
    verifier: Arc<dyn ServerCertVerifier>,
    common_name: String,
}

impl ServerCertVerifier for SubjectVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified = self.verifier.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        )?;
        let (_, certificate) =
            X509Certificate::from_der(end_entity).map_err(|_| CertificateError::BadEncoding)?;
        let mut names = certificate.subject().iter_common_name();
        let name = names.next().and_then(|name| name.as_str().ok());
        if name == Some(self.common_name.as_str()) {
            return Ok(verified);
        }
        let (shown, wanted) = (name.unwrap_or_default(), &self.common_name);
        Err(rustls::Error::General(format!(
            "certificate is issued to `{shown}`, not `{wanted}`"
        )))
    }

    signature_methods!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Authority, Spec, parse_certificates};

    #[test]
    fn another_nodes_certificate_for_the_same_address_is_refused() {
        let authority = Authority::create("kubelet-serving-ca").expect("an authority");
        let verifier = server_verifier(authority.certificate_pem()).expect("a verifier");
        let issued = authority
            .issue(&Spec::server("system:node:n2", ["192.0.2.2"]))
            .expect("issued");
        let chain = parse_certificates(&issued.cert_pem).expect("a certificate");
        let (first, rest) = chain.split_first().expect("one");
        let verify = |node: &str| {
            let name = ServerName::try_from("192.0.2.2").expect("an address");
            verify_subject(Arc::clone(&verifier), format!("system:node:{node}"))
                .verify_server_cert(first, rest, &name, &[], UnixTime::now())
                .map_err(|error| error.to_string())
        };
        assert!(verify("n2").is_ok());
        let refused = verify("n1").expect_err("it is n2");
        assert!(refused.contains("system:node:n2"), "{refused}");
    }
}

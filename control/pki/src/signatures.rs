//! Verifies that a peer holds the key of the certificate that it shows.
//!
//! Every verifier of this crate judges certificates in its own way, but the signature of
//! a handshake in this one.

use std::sync::LazyLock;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::{DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::CertificateDer;

/// The algorithms of signatures in handshakes.
static ALGORITHMS: LazyLock<WebPkiSupportedAlgorithms> =
    LazyLock::new(|| aws_lc_rs::default_provider().signature_verification_algorithms);

pub(crate) fn verify_tls12(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, rustls::Error> {
    rustls::crypto::verify_tls12_signature(message, certificate, signed, &ALGORITHMS)
}

pub(crate) fn verify_tls13(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, rustls::Error> {
    rustls::crypto::verify_tls13_signature(message, certificate, signed, &ALGORITHMS)
}

pub(crate) fn schemes() -> Vec<SignatureScheme> {
    ALGORITHMS.supported_schemes()
}

/// The methods of `ServerCertVerifier` and `ClientCertVerifier` that verify signatures.
macro_rules! signature_methods {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            cert: &rustls_pki_types::CertificateDer<'_>,
            dss: &rustls::DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
            $crate::signatures::verify_tls12(message, cert, dss)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &rustls_pki_types::CertificateDer<'_>,
            dss: &rustls::DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
            $crate::signatures::verify_tls13(message, cert, dss)
        }

        fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
            $crate::signatures::schemes()
        }
    };
}

pub(crate) use signature_methods;

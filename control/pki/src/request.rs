//! Certificate signing requests (PKCS #10, RFC 2986): made by who wants a
//! certificate, read and signed by who gives it.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use rcgen::{CertificateParams, CertificateSigningRequestParams, KeyPair};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::error::X509Error;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::FromDer;

use crate::authority::{address, distinguished_name, no_name};
use crate::{Authority, Error, Spec, Usage};

/// The PEM label of requests.
const LABEL: &str = "CERTIFICATE REQUEST";

/// Error for bytes that are no signed request.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// There is no PEM block of a request.
    #[error("PEM block type must be {}", LABEL)]
    Pem,
    /// The PEM block holds something else.
    #[error("no PKCS #10 request")]
    Malformed(#[from] x509_parser::nom::Err<X509Error>),
    /// The author does not hold the key.
    #[error("the signature is wrong")]
    Signature(#[source] X509Error),
}

/// A new key, and the request for its certificate.
#[derive(Clone, Debug)]
pub struct Request {
    /// The request, PEM.
    pub request_pem: String,
    /// The private key, PKCS#8 PEM. It never leaves who made it.
    pub key_pem: String,
}

/// The contents of a request. Its signature was verified: its author holds the key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateRequest {
    /// The common name; empty if there is none.
    pub cn: String,
    /// The organisations, in order.
    pub orgs: Vec<String>,
    /// Names of a server.
    pub dns_names: Vec<String>,
    /// Addresses of a server.
    pub addresses: Vec<IpAddr>,
    /// Mail addresses.
    pub emails: Vec<String>,
    /// URIs.
    pub uris: Vec<String>,
    /// Whether there are names of other kinds.
    pub other_names: bool,
    der: Vec<u8>,
}

// === impl Request ===

impl Request {
    /// Makes a key and a request for a certificate of this name, these groups
    /// and, for a server, these names and addresses.
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::TooManyOrganisations`] or [`Error::Crypto`].
    pub fn new(cn: &str, orgs: &[&str], sans: &[String]) -> Result<Self, Error> {
        let key = KeyPair::generate().map_err(Error::crypto("make a key"))?;
        let orgs: Vec<String> = orgs.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::default();
        params.distinguished_name = distinguished_name(cn, &orgs)?;
        for san in sans {
            let one = CertificateParams::new(vec![san.clone()]).map_err(|_| no_name(san))?;
            params.subject_alt_names.extend(one.subject_alt_names);
        }
        let request_pem = params
            .serialize_request(&key)
            .and_then(|request| request.pem())
            .map_err(Error::crypto("make a certificate request"))?;
        Ok(Self {
            request_pem,
            key_pem: key.serialize_pem(),
        })
    }
}

// === impl CertificateRequest ===

impl CertificateRequest {
    /// Reads a PEM request and checks its signature.
    ///
    /// # Errors
    /// When they are no request, or not signed with its key.
    pub fn parse(pem: &[u8]) -> Result<Self, RequestError> {
        let (_, pem) = parse_x509_pem(pem).map_err(|_| RequestError::Pem)?;
        if pem.label != LABEL {
            return Err(RequestError::Pem);
        }
        let (_, request) = X509CertificationRequest::from_der(&pem.contents)?;
        request
            .verify_signature()
            .map_err(RequestError::Signature)?;
        let subject = &request.certification_request_info.subject;
        let mut this = Self {
            cn: subject
                .iter_common_name()
                .find_map(|cn| cn.as_str().ok())
                .unwrap_or_default()
                .to_owned(),
            orgs: subject
                .iter_organization()
                .filter_map(|org| org.as_str().ok().map(ToOwned::to_owned))
                .collect(),
            ..Self::default()
        };
        let names = request
            .requested_extensions()
            .into_iter()
            .flatten()
            .filter_map(|extension| match extension {
                ParsedExtension::SubjectAlternativeName(names) => Some(&names.general_names),
                _ => None,
            })
            .flatten();
        for name in names {
            match name {
                GeneralName::DNSName(name) => this.dns_names.push((*name).to_owned()),
                GeneralName::RFC822Name(name) => this.emails.push((*name).to_owned()),
                GeneralName::URI(name) => this.uris.push((*name).to_owned()),
                GeneralName::IPAddress(bytes) => match address(bytes) {
                    Some(address) => this.addresses.push(address),
                    None => this.other_names = true,
                },
                _ => this.other_names = true,
            }
        }
        this.der = pem.contents;
        Ok(this)
    }
}

// === impl Authority ===

impl Authority {
    /// Signs the request: its subject, its names of servers and its key, for this usage
    /// and time (limited by the authority's own). The caller decides whether the
    /// requester may have it.
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::TooManyOrganisations`] or [`Error::Crypto`], for what
    /// our certificates cannot contain.
    pub fn sign(
        &self,
        requested: &CertificateRequest,
        usage: Usage,
        validity: Duration,
    ) -> Result<String, Error> {
        if let Some(name) = requested.emails.iter().chain(&requested.uris).next() {
            return Err(no_name(name));
        }
        if requested.other_names {
            return Err(no_name("a name that is no DNS name and no address"));
        }
        let addresses = requested.addresses.iter().map(ToString::to_string);
        let spec = Spec {
            cn: requested.cn.clone(),
            orgs: requested.orgs.clone(),
            sans: requested
                .dns_names
                .iter()
                .cloned()
                .chain(addresses)
                .collect(),
            usage,
            validity,
        };
        let der = requested.der.as_slice().into();
        let mut request = CertificateSigningRequestParams::from_der(&der)
            .map_err(Error::crypto("read a certificate request"))?;
        request.params = self.params(&spec)?;
        let certificate = request
            .signed_by(&self.issuer)
            .map_err(Error::crypto("sign a certificate"))?;
        Ok(certificate.pem())
    }
}

/// When a certificate (the first of a PEM text) begins and ends to be valid.
///
/// # Errors
/// [`Error::Malformed`], naming `path`.
pub fn validity(pem: &str, path: &Path) -> Result<(Timestamp, Timestamp), Error> {
    crate::authority::validity(pem, path)
}

/// The names and addresses of a server's certificate (the first of a PEM text).
///
/// # Errors
/// [`Error::Malformed`], naming `path`.
pub fn names(pem: &str, path: &Path) -> Result<Vec<String>, Error> {
    crate::authority::names(pem, path)
}

/// Whether a certificate (the first of a PEM text) names the key of `authority` as its
/// signer's. It verifies nothing.
///
/// # Errors
/// [`Error::Malformed`].
pub fn is_signed_by(pem: &str, authority: &str) -> Result<bool, Error> {
    crate::authority::is_signed_by(pem, authority)
}

/// The hash by which an authority is known to who has not met it yet, as
/// kubeadm writes it: `sha256:` and the SHA-256 of the subject's public key
/// info (RFC 7469), in hexadecimal.
///
/// # Errors
/// [`Error::Malformed`], naming `path`.
pub fn public_key_hash(pem: &str, path: &Path) -> Result<String, Error> {
    let key = crate::authority::public_key(pem, path)?;
    Ok(format!("sha256:{}", crate::fingerprint(&key)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClientTrust, parse_certificates};

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn request(sans: &[&str]) -> Request {
        let sans: Vec<_> = sans.iter().map(ToString::to_string).collect();
        Request::new("system:node:n1", &["system:nodes"], &sans).expect("a request")
    }

    #[test]
    fn what_is_asked_for_is_read_back_and_signed() {
        let made = request(&["n1", "10.0.0.1", "fd00::1"]);
        let asked = CertificateRequest::parse(made.request_pem.as_bytes()).expect("read");
        assert_eq!(asked.cn, "system:node:n1");
        assert_eq!(asked.orgs, ["system:nodes"]);
        assert_eq!(asked.dns_names, ["n1"]);
        let addresses: [IpAddr; 2] = ["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()];
        assert_eq!(asked.addresses, addresses);

        let authority = Authority::create("kubernetes").expect("an authority");
        let pem = authority.sign(&asked, Usage::Client, DAY).expect("signed");
        let trust = ClientTrust::new(authority.certificate_pem()).expect("trust");
        trust
            .verify(&parse_certificates(&pem).expect("a certificate"))
            .expect("the authority vouches for it as a client");
        let (begins, ends) = validity(&pem, Path::new("n1.crt")).expect("times");
        assert!(begins < Timestamp::now() && ends > Timestamp::now());
        let key = KeyPair::from_pem(&made.key_pem).expect("the key");
        let signed = crate::authority::public_key(&pem, Path::new("n1.crt")).expect("a key");
        assert_eq!(
            rcgen::PublicKeyData::subject_public_key_info(&key),
            signed,
            "the certificate is for the requester's own key"
        );
    }

    #[test]
    fn a_certificate_for_serving_is_none_for_asking() {
        let asked =
            CertificateRequest::parse(request(&["n1"]).request_pem.as_bytes()).expect("read");
        let authority = Authority::create("kubernetes").expect("an authority");
        let pem = authority.sign(&asked, Usage::Server, DAY).expect("signed");
        let trust = ClientTrust::new(authority.certificate_pem()).expect("trust");
        let chain = parse_certificates(&pem).expect("a certificate");
        assert!(trust.verify(&chain).is_err());
    }

    #[test]
    fn a_forged_request_and_rubbish_are_refused() {
        let one = request(&[]).request_pem;
        let two = request(&[]).request_pem;
        let body = |pem: &str| parse_x509_pem(pem.as_bytes()).expect("PEM").1.contents;
        // The request of one with the signature of the other.
        let (mut forged, other) = (body(&one), body(&two));
        let from = forged.len() - 20;
        forged.truncate(from);
        forged.extend_from_slice(&other[other.len() - 20..]);
        let forged = format!(
            "-----BEGIN {LABEL}-----\n{}\n-----END {LABEL}-----\n",
            base64::Engine::encode(&base64::engine::general_purpose::STANDARD, forged)
        );
        assert!(CertificateRequest::parse(forged.as_bytes()).is_err());
        for rubbish in [
            "",
            "x",
            "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n",
        ] {
            assert!(
                CertificateRequest::parse(rubbish.as_bytes()).is_err(),
                "{rubbish:?}"
            );
        }
        let authority = Authority::create("kubernetes").expect("an authority");
        let error = CertificateRequest::parse(authority.certificate_pem().as_bytes())
            .expect_err("no request");
        assert!(matches!(error, RequestError::Pem), "{error}");
    }

    #[test]
    fn the_hash_of_an_authority_is_that_of_its_key() {
        let authority = Authority::create("kubernetes").expect("an authority");
        let hash =
            public_key_hash(authority.certificate_pem(), Path::new("ca.crt")).expect("a hash");
        assert!(
            hash.starts_with("sha256:") && hash.len() == 7 + 64,
            "{hash}"
        );
        let other = Authority::create("kubernetes").expect("an authority");
        let other = public_key_hash(other.certificate_pem(), Path::new("ca.crt")).expect("a hash");
        assert_ne!(hash, other);
    }
}

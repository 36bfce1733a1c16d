//! Public keys of service accounts' tokens: which tokens they signed, and how they
//! are published (RFC 7517).

use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use rcgen::{KeyPair, PublicKeyData};
use rustls_pki_types::pem::{PemObject, SectionKind};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use x509_parser::error::X509Error;
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey as Parsed;
use x509_parser::x509::SubjectPublicKeyInfo;

use crate::service_account::TokenRejection;
use crate::{Error, ServiceAccountKey, files};

const P256: &str = "1.2.840.10045.3.1.7";
const P384: &str = "1.3.132.0.34";
/// Bits of RSA keys below which nothing is believed.
const RSA: usize = 2048;

/// Knows the tokens that a key signed.
#[derive(Clone)]
pub struct PublicKey {
    pub(crate) id: String,
    pub(crate) algorithm: Algorithm,
    pub(crate) pem: String,
    verifying: DecodingKey,
    jwk: Value,
}

/// The keys of a cluster's tokens: one signs, all are believed.
#[derive(Debug)]
pub struct ServiceAccountKeys {
    signing: Arc<ServiceAccountKey>,
    /// Those that signed before, or sign elsewhere.
    others: Vec<PublicKey>,
}

/// Reason why a public key cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyError {
    #[error(transparent)]
    Malformed(#[from] x509_parser::nom::Err<X509Error>),
    #[error(transparent)]
    Parameters(X509Error),
    #[error("RSA keys must have at least {RSA} bits")]
    Short,
    #[error("its curve is neither P-256 nor P-384")]
    Curve,
    #[error("its public point has another form")]
    PointForm,
    #[error("its public point has another length")]
    PointLength,
    #[error("it is a key of another kind")]
    Kind,
    #[error(transparent)]
    Verifying(jsonwebtoken::errors::Error),
}

// === impl PublicKey ===

impl PublicKey {
    /// Reads all keys of a file: public ones, the public halves of private ones; PEM.
    ///
    /// # Errors
    /// [`Error::File`], or [`Error::Malformed`], also if there is none.
    pub fn load(path: &Path) -> Result<Vec<Self>, Error> {
        let wrong = |detail: String| Error::Malformed {
            path: path.to_owned(),
            expected: "public or private keys (ECDSA P-256 or P-384, or RSA, PEM)",
            detail,
        };
        let text = files::read(path)?.ok_or_else(|| wrong("there is no such file".to_owned()))?;
        let mut keys = Vec::new();
        for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(text.as_bytes()) {
            let (kind, der) = section.map_err(|error| wrong(error.to_string()))?;
            let info = match kind {
                SectionKind::PublicKey => der,
                SectionKind::PrivateKey
                | SectionKind::RsaPrivateKey
                | SectionKind::EcPrivateKey => {
                    private(kind, der).map_err(|error| wrong(error.to_string()))?
                }
                _ => continue,
            };
            let key = Self::from_der(&info).map_err(|error| wrong(error.to_string()))?;
            keys.push(key);
        }
        if keys.is_empty() {
            return Err(wrong("it holds no key".to_owned()));
        }
        Ok(keys)
    }

    /// The key of a `SubjectPublicKeyInfo` (RFC 5280).
    pub(crate) fn from_der(der: &[u8]) -> Result<Self, KeyError> {
        let (_, info) = SubjectPublicKeyInfo::from_der(der)?;
        let id = URL_SAFE_NO_PAD.encode(Sha256::digest(der));
        let coded = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let (algorithm, verifying, jwk) = match info.parsed().map_err(KeyError::Parameters)? {
            Parsed::RSA(key) => {
                if key.key_size() < RSA {
                    return Err(KeyError::Short);
                }
                let modulus = key.modulus;
                let leading = modulus.iter().take_while(|byte| **byte == 0).count();
                let (n, e) = (coded(&modulus[leading..]), coded(key.exponent));
                let verifying = DecodingKey::from_rsa_components(&n, &e);
                let jwk =
                    json!({"use": "sig", "kty": "RSA", "kid": id, "alg": "RS256", "n": n, "e": e});
                (Algorithm::RS256, verifying, jwk)
            }
            Parsed::EC(point) => {
                let curve = info.algorithm.parameters.as_ref();
                let curve = curve.and_then(|curve| curve.as_oid().ok());
                let (algorithm, name, size) =
                    match curve.map(|curve| curve.to_id_string()).as_deref() {
                        Some(P256) => (Algorithm::ES256, ("P-256", "ES256"), 32),
                        Some(P384) => (Algorithm::ES384, ("P-384", "ES384"), 48),
                        _ => return Err(KeyError::Curve),
                    };
                // Uncompressed: 4, x, y (SEC 1, 2.3.3).
                let [4, point @ ..] = point.data() else {
                    return Err(KeyError::PointForm);
                };
                if point.len() != 2 * size {
                    return Err(KeyError::PointLength);
                }
                let (x, y) = point.split_at(size);
                let (x, y) = (coded(x), coded(y));
                let verifying = DecodingKey::from_ec_components(&x, &y);
                let jwk = json!({"use": "sig", "kty": "EC", "kid": id, "crv": name.0, "alg": name.1, "x": x, "y": y});
                (algorithm, verifying, jwk)
            }
            _ => return Err(KeyError::Kind),
        };
        Ok(Self {
            id,
            algorithm,
            pem: written(der),
            verifying: verifying.map_err(KeyError::Verifying)?,
            jwk,
        })
    }

    /// The claims of a token that this key signed.
    pub(crate) fn verify<T: DeserializeOwned>(&self, token: &str) -> Result<T, TokenRejection> {
        let header = jsonwebtoken::decode_header(token).map_err(|_| TokenRejection::NotOurs)?;
        let other = |id: &String| *id != self.id;
        if header.alg != self.algorithm || header.kid.as_ref().is_some_and(other) {
            return Err(TokenRejection::NotOurs);
        }
        jsonwebtoken::decode(token, &self.verifying, &self.validation())
            .map(|data| data.claims)
            .map_err(TokenRejection::Invalid)
    }

    /// How the key is published.
    #[must_use]
    pub fn jwk(&self) -> &Value {
        &self.jwk
    }

    /// Returns a validation of the signature only: times and audiences are checked by
    /// their users (control-access).
    pub(crate) fn validation(&self) -> Validation {
        let mut validation = Validation::new(self.algorithm);
        validation.required_spec_claims.clear();
        validation.validate_exp = false;
        validation.validate_nbf = false;
        validation.validate_aud = false;
        validation
    }
}

impl std::fmt::Debug for PublicKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("PublicKey")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// The public half of a private key.
fn private(kind: SectionKind, der: Vec<u8>) -> Result<Vec<u8>, rcgen::Error> {
    use rustls_pki_types::PrivateKeyDer;
    let der = match kind {
        SectionKind::RsaPrivateKey => PrivateKeyDer::Pkcs1(der.into()),
        SectionKind::EcPrivateKey => PrivateKeyDer::Sec1(der.into()),
        _ => PrivateKeyDer::Pkcs8(der.into()),
    };
    let pair = KeyPair::try_from(&der)?;
    Ok(pair.subject_public_key_info())
}

/// PEM (RFC 7468).
fn written(der: &[u8]) -> String {
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let mut pem = String::from("-----BEGIN PUBLIC KEY-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(64));
        pem.push_str(line);
        pem.push('\n');
        rest = after;
    }
    pem.push_str("-----END PUBLIC KEY-----\n");
    pem
}

// === impl ServiceAccountKeys ===

impl From<Arc<ServiceAccountKey>> for ServiceAccountKeys {
    fn from(signing: Arc<ServiceAccountKey>) -> Self {
        Self::new(signing, Vec::new())
    }
}

impl ServiceAccountKeys {
    /// `signing` signs; it and `others` are believed.
    #[must_use]
    pub fn new(signing: Arc<ServiceAccountKey>, mut others: Vec<PublicKey>) -> Self {
        let mut known = vec![signing.public().id.clone()];
        others.retain(|key| {
            let new = !known.contains(&key.id);
            known.push(key.id.clone());
            new
        });
        Self { signing, others }
    }

    /// The key that signs.
    #[must_use]
    pub fn signing(&self) -> &ServiceAccountKey {
        &self.signing
    }

    /// The claims of a token that one of the keys signed. Says nothing about their
    /// time, audience or truth.
    ///
    /// # Errors
    /// [`TokenRejection`].
    pub fn verify<T: DeserializeOwned>(&self, token: &str) -> Result<T, TokenRejection> {
        let mut last = TokenRejection::NotOurs;
        for key in self.all() {
            match key.verify(token) {
                Ok(claims) => return Ok(claims),
                Err(TokenRejection::NotOurs) => {}
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// The document of `/openid/v1/jwks` (RFC 7517).
    #[must_use]
    pub fn jwks(&self) -> Value {
        json!({"keys": self.all().map(PublicKey::jwk).collect::<Vec<_>>()})
    }

    /// The algorithms of the keys, by name, each once.
    #[must_use]
    pub fn algorithms(&self) -> Vec<&str> {
        let mut all: Vec<&str> = self
            .all()
            .filter_map(|key| key.jwk.get("alg")?.as_str())
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The identifiers of the keys, the signing one's first.
    #[must_use]
    pub fn ids(&self) -> Vec<&str> {
        self.all().map(|key| key.id.as_str()).collect()
    }

    fn all(&self) -> impl Iterator<Item = &PublicKey> {
        std::iter::once(self.signing.public()).chain(&self.others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(
        dir: &Path,
        name: &str,
        algorithm: &'static rcgen::SignatureAlgorithm,
    ) -> Arc<ServiceAccountKey> {
        let pair = KeyPair::generate_for(algorithm).expect("a key");
        let path = dir.join(name);
        std::fs::write(&path, pair.serialize_pem()).expect("written");
        Arc::new(ServiceAccountKey::load(&path).expect("usable"))
    }

    #[test]
    fn a_key_that_signed_before_is_believed_until_it_is_taken_away() {
        let dir = tempfile::tempdir().expect("a directory");
        let old = key(dir.path(), "old.key", &rcgen::PKCS_ECDSA_P256_SHA256);
        let token = old.sign(&json!({"sub": "a"})).expect("signed");
        let public = dir.path().join("old.pub");
        std::fs::write(&public, old.public_pem()).expect("written");
        let new = || key(dir.path(), "new.key", &rcgen::PKCS_ECDSA_P384_SHA384);
        // The public file and the private one hold the same key.
        let mut others = PublicKey::load(&public).expect("keys");
        others.extend(PublicKey::load(&dir.path().join("old.key")).expect("keys"));
        let both = ServiceAccountKeys::new(new(), others);
        assert_eq!(
            (both.ids().len(), both.algorithms()),
            (2, vec!["ES256", "ES384"])
        );
        let claims: Value = both.verify(&token).expect("ours");
        assert_eq!(claims["sub"], "a");
        let later = both.signing().sign(&json!({"sub": "b"})).expect("signed");
        let claims: Value = both.verify(&later).expect("ours");
        assert_eq!(claims["sub"], "b");
        let alone = ServiceAccountKeys::from(new());
        assert!(matches!(
            alone.verify::<Value>(&token),
            Err(TokenRejection::NotOurs)
        ));
        let keys = both.jwks();
        assert_eq!(keys["keys"][1]["kid"], old.public().jwk()["kid"]);
    }

    #[test]
    fn keys_of_rsa_sign_as_kubeadms_do() {
        let dir = tempfile::tempdir().expect("a directory");
        let rsa = key(dir.path(), "rsa.key", &rcgen::PKCS_RSA_SHA256);
        let token = rsa.sign(&json!({"sub": "a"})).expect("signed");
        let keys = ServiceAccountKeys::from(rsa);
        let claims: Value = keys.verify(&token).expect("ours");
        assert_eq!(claims["sub"], "a");
        assert_eq!(keys.jwks()["keys"][0]["e"], "AQAB");
        // A public key is no secret with which somebody may sign.
        let header =
            URL_SAFE_NO_PAD.encode(format!(r#"{{"alg":"HS256","kid":"{}"}}"#, keys.ids()[0]));
        let (_, rest) = token.split_once('.').expect("three parts");
        assert!(keys.verify::<Value>(&format!("{header}.{rest}")).is_err());
    }

    #[test]
    fn files_without_a_key_are_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("x");
        for text in [
            "",
            "x",
            "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
        ] {
            std::fs::write(&path, text).expect("written");
            assert!(PublicKey::load(&path).is_err(), "{text}");
        }
        assert!(PublicKey::load(Path::new("/nowhere")).is_err());
    }
}

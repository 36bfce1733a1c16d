//! The key that signs service accounts' tokens.
//!
//! ES256 (ECDSA on P-256), which every verifier of Kubernetes tokens takes. The
//! key's identifier is what kube-apiserver computes: the SHA-256 of the public
//! key's DER (`SubjectPublicKeyInfo`), base64url without padding.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use rcgen::{KeyPair, PublicKeyData};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::{Error, files};

/// Signs and verifies tokens.
pub struct ServiceAccountKey {
    id: String,
    signing: EncodingKey,
    verifying: DecodingKey,
    validation: Validation,
    public_pem: String,
    /// The public point, uncompressed, without its first byte: X then Y.
    point: Vec<u8>,
}

/// Why a token is none of ours.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Rejected {
    /// Another key signed it, or it is no token at all.
    #[error("the token was not signed by this cluster's key")]
    NotOurs,
    /// The signature is wrong or the content cannot be read.
    #[error("the token is damaged or forged")]
    Invalid(#[source] jsonwebtoken::errors::Error),
}

// === impl ServiceAccountKey ===

impl ServiceAccountKey {
    /// The key in `sa.key` of `dir`, made with `sa.pub` if it is not there.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Malformed`] (also for a key that is not P-256)
    /// or [`Error::Crypto`].
    pub fn load_or_create(dir: &Path) -> Result<Self, Error> {
        let path = dir.join("sa.key");
        let key = Self::from_pem(
            &if let Some(pem) = files::read(&path)? {
                pem
            } else {
                let pem = KeyPair::generate()
                    .map_err(Error::crypto("make a key"))?
                    .serialize_pem();
                files::write_private(&path, pem.as_bytes())?;
                pem
            },
            &path,
        )?;
        let public = dir.join("sa.pub");
        if files::read(&public)?.as_deref() != Some(key.public_pem()) {
            files::write_public(&public, key.public_pem().as_bytes())?;
        }
        Ok(key)
    }

    fn from_pem(pem: &str, path: &Path) -> Result<Self, Error> {
        let wrong = |detail: String| Error::Malformed {
            path: path.to_owned(),
            expected: "service account key (ECDSA P-256, PEM)",
            detail,
        };
        let pair = KeyPair::from_pem(pem).map_err(|error| wrong(error.to_string()))?;
        if !pair.is_compatible(&rcgen::PKCS_ECDSA_P256_SHA256) {
            return Err(wrong("it is a key of another kind".to_owned()));
        }
        // rcgen writes PKCS#8, whatever the file has.
        let signing = EncodingKey::from_ec_pem(pair.serialize_pem().as_bytes())
            .map_err(|error| wrong(error.to_string()))?;
        let point = pair.public_key_raw().get(1..65).map(<[u8]>::to_vec);
        let point = point.ok_or_else(|| wrong("its public point has another form".to_owned()))?;
        let (x, y) = point.split_at(32);
        let verifying =
            DecodingKey::from_ec_components(&URL_SAFE_NO_PAD.encode(x), &URL_SAFE_NO_PAD.encode(y))
                .map_err(|error| wrong(error.to_string()))?;
        // Times and audiences are judged by who knows what they mean
        // (control-access); here it is about the signature.
        let mut validation = Validation::new(Algorithm::ES256);
        validation.required_spec_claims.clear();
        validation.validate_exp = false;
        validation.validate_nbf = false;
        validation.validate_aud = false;
        Ok(Self {
            id: URL_SAFE_NO_PAD.encode(Sha256::digest(pair.subject_public_key_info())),
            signing,
            verifying,
            validation,
            public_pem: pair.public_key_pem(),
            point,
        })
    }

    /// Signs claims into a token.
    ///
    /// # Errors
    /// [`Error::Crypto`].
    pub fn sign(&self, claims: &impl Serialize) -> Result<String, Error> {
        let mut header = Header::new(Algorithm::ES256);
        header.typ = None;
        header.kid = Some(self.id.clone());
        jsonwebtoken::encode(&header, claims, &self.signing).map_err(|error| Error::Crypto {
            action: "sign a token",
            detail: error.to_string(),
        })
    }

    /// The claims of a token that this key signed. Says nothing about their
    /// time, audience or truth.
    ///
    /// # Errors
    /// [`Rejected`].
    pub fn verify<T: DeserializeOwned>(&self, token: &str) -> Result<T, Rejected> {
        let header = jsonwebtoken::decode_header(token).map_err(|_| Rejected::NotOurs)?;
        if header.alg != Algorithm::ES256 || header.kid.as_ref().is_some_and(|id| *id != self.id) {
            return Err(Rejected::NotOurs);
        }
        jsonwebtoken::decode(token, &self.verifying, &self.validation)
            .map(|data| data.claims)
            .map_err(Rejected::Invalid)
    }

    /// The public key, PEM.
    #[must_use]
    pub fn public_pem(&self) -> &str {
        &self.public_pem
    }

    /// The document of `/openid/v1/jwks` (RFC 7517).
    #[must_use]
    pub fn jwks(&self) -> serde_json::Value {
        let (x, y) = self.point.split_at(32);
        json!({ "keys": [{
            "use": "sig",
            "kty": "EC",
            "kid": self.id,
            "crv": "P-256",
            "alg": "ES256",
            "x": URL_SAFE_NO_PAD.encode(x),
            "y": URL_SAFE_NO_PAD.encode(y),
        }]})
    }
}

impl std::fmt::Debug for ServiceAccountKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ServiceAccountKey")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> (tempfile::TempDir, ServiceAccountKey) {
        let dir = tempfile::tempdir().expect("a directory");
        let key = ServiceAccountKey::load_or_create(dir.path()).expect("made");
        (dir, key)
    }

    #[test]
    fn a_token_survives_a_restart_and_another_key_refuses_it() {
        let (dir, key) = key();
        let token = key.sign(&json!({ "sub": "a", "exp": 1 })).expect("signed");
        let again = ServiceAccountKey::load_or_create(dir.path()).expect("loaded");
        let claims: serde_json::Value = again.verify(&token).expect("ours");
        assert_eq!(claims["sub"], "a");
        let (_dir, other) = self::key();
        assert!(matches!(
            other.verify::<serde_json::Value>(&token),
            Err(Rejected::NotOurs)
        ));
    }

    #[test]
    fn forged_tokens_are_refused() {
        let (_dir, key) = key();
        let token = key.sign(&json!({ "sub": "a" })).expect("signed");
        let (rest, signature) = token.rsplit_once('.').expect("three parts");
        let (header, _) = rest.split_once('.').expect("three parts");
        let claims = URL_SAFE_NO_PAD.encode(r#"{"sub":"b"}"#);
        let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
        let symmetric = URL_SAFE_NO_PAD.encode(format!(r#"{{"alg":"HS256","kid":"{}"}}"#, key.id));
        for forged in [
            format!("{header}.{claims}.{signature}"),
            format!("{none}.{claims}."),
            format!("{none}.{claims}.{signature}"),
            format!("{symmetric}.{claims}.{signature}"),
            format!("{rest}."),
            rest.to_owned(),
            "a.b.c".to_owned(),
            String::new(),
        ] {
            assert!(
                key.verify::<serde_json::Value>(&forged).is_err(),
                "{forged}"
            );
        }
    }

    #[test]
    fn the_key_set_and_the_public_file_are_of_the_same_key() {
        let (dir, key) = key();
        let pem = std::fs::read_to_string(dir.path().join("sa.pub")).expect("a file");
        let jwk = &key.jwks()["keys"][0];
        assert_eq!(jwk["kid"].as_str().map(str::len), Some(43));
        let token = key.sign(&json!({ "sub": "a" })).expect("signed");
        let header = jsonwebtoken::decode_header(&token).expect("a header");
        assert_eq!(header.kid.as_deref(), jwk["kid"].as_str());
        let decoding = DecodingKey::from_ec_pem(pem.as_bytes()).expect("a key");
        let claims = jsonwebtoken::decode::<serde_json::Value>(&token, &decoding, &key.validation);
        assert_eq!(claims.expect("verified").claims["sub"], "a");
    }
}

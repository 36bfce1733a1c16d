//! The key that signs service accounts' tokens.
//!
//! ES256 (ECDSA on P-256) unless an operator brings another, which every verifier of
//! Kubernetes tokens takes. The key's identifier is what kube-apiserver computes: the
//! SHA-256 of the public key's DER (`SubjectPublicKeyInfo`), base64url without padding.

use std::path::Path;

use jsonwebtoken::{Algorithm, EncodingKey, Header};
use rcgen::{KeyPair, PublicKeyData};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::public_key::PublicKey;
use crate::{Error, files};

/// Signs tokens, and knows those that it signed.
pub struct ServiceAccountKey {
    signing: EncodingKey,
    public: PublicKey,
}

/// Reason why a token is not ours.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenRejection {
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
    /// [`Error::File`], [`Error::Malformed`] or [`Error::Crypto`].
    pub fn load_or_create(dir: &Path) -> Result<Self, Error> {
        let path = dir.join("sa.key");
        if files::read(&path)?.is_none() {
            let pair = KeyPair::generate().map_err(Error::crypto("make a key"))?;
            files::write_private(&path, pair.serialize_pem().as_bytes())?;
        }
        let key = Self::load(&path)?;
        let public = dir.join("sa.pub");
        if files::read(&public)?.as_deref() != Some(key.public_pem()) {
            files::write_public(&public, key.public_pem().as_bytes())?;
        }
        Ok(key)
    }

    /// The private key in a file: ECDSA on P-256 or P-384, or RSA; PEM.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::Malformed`].
    pub fn load(path: &Path) -> Result<Self, Error> {
        let wrong = |detail: String| Error::Malformed {
            path: path.to_owned(),
            expected: "private key (ECDSA P-256 or P-384, or RSA, PEM)",
            detail,
        };
        let pem = files::read(path)?.ok_or_else(|| wrong("there is no such file".to_owned()))?;
        let pair = KeyPair::from_pem(&pem).map_err(|error| wrong(error.to_string()))?;
        let public = PublicKey::from_der(&pair.subject_public_key_info())
            .map_err(|error| wrong(error.to_string()))?;
        let signing = if public.algorithm == Algorithm::RS256 {
            EncodingKey::from_rsa_pem(pem.as_bytes())
        } else {
            // rcgen writes PKCS#8, whatever the file has.
            EncodingKey::from_ec_pem(pair.serialize_pem().as_bytes())
        };
        Ok(Self {
            signing: signing.map_err(|error| wrong(error.to_string()))?,
            public,
        })
    }

    /// Signs claims into a token.
    ///
    /// # Errors
    /// [`Error::Crypto`].
    pub fn sign(&self, claims: &impl Serialize) -> Result<String, Error> {
        let mut header = Header::new(self.public.algorithm);
        header.typ = None;
        header.kid = Some(self.public.id.clone());
        jsonwebtoken::encode(&header, claims, &self.signing).map_err(|error| Error::Crypto {
            action: "sign a token",
            detail: error.to_string(),
        })
    }

    /// The claims of a token that this key signed. Says nothing about their
    /// time, audience or truth.
    ///
    /// # Errors
    /// [`TokenRejection`].
    pub fn verify<T: DeserializeOwned>(&self, token: &str) -> Result<T, TokenRejection> {
        self.public.verify(token)
    }

    /// The public key, PEM.
    #[must_use]
    pub fn public_pem(&self) -> &str {
        &self.public.pem
    }

    /// Its public half.
    #[must_use]
    pub fn public(&self) -> &PublicKey {
        &self.public
    }
}

impl std::fmt::Debug for ServiceAccountKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ServiceAccountKey")
            .field("id", &self.public.id)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use jsonwebtoken::DecodingKey;
    use serde_json::json;

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
            Err(TokenRejection::NotOurs)
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
        let symmetric =
            URL_SAFE_NO_PAD.encode(format!(r#"{{"alg":"HS256","kid":"{}"}}"#, key.public.id));
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
        let jwk = &key.public().jwk();
        assert_eq!(jwk["kid"].as_str().map(str::len), Some(43));
        let token = key.sign(&json!({ "sub": "a" })).expect("signed");
        let header = jsonwebtoken::decode_header(&token).expect("a header");
        assert_eq!(header.kid.as_deref(), jwk["kid"].as_str());
        let decoding = DecodingKey::from_ec_pem(pem.as_bytes()).expect("a key");
        let claims =
            jsonwebtoken::decode::<serde_json::Value>(&token, &decoding, &key.public.validation());
        assert_eq!(claims.expect("verified").claims["sub"], "a");
    }
}

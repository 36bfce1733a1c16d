//! The keys of an issuer (RFC 7517), and signatures made with them (RFC 7515).

use std::str::FromStr;

use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::{Map, Value};

/// Keys, each with its identifier.
#[derive(Clone)]
pub struct Keys(Vec<(Option<String>, DecodingKey)>);

/// Why no signature can be verified, or this one is not right.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeysError {
    /// The document is no set of keys.
    #[error("the document of the keys cannot be read: {0}")]
    Unreadable(String),
    /// The token is none.
    #[error("oidc: malformed jwt: {0}")]
    Malformed(String),
    /// The algorithm is not among those that the issuer may use.
    #[error(
        "oidc: id token signed with unsupported algorithm, expected [{expected}] got \"{found}\""
    )]
    Algorithm {
        /// Those that would do.
        expected: String,
        /// That of the token.
        found: String,
    },
    /// None of the keys made the signature.
    #[error("failed to verify signature: failed to verify id token signature")]
    Signature,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Keys")
            .field("count", &self.0.len())
            .finish()
    }
}

impl Keys {
    /// Reads a key set. Keys of kinds that are not known are left out.
    ///
    /// # Errors
    /// [`KeysError::Unreadable`].
    pub fn parse(document: &[u8]) -> Result<Self, KeysError> {
        let set: Value = serde_json::from_slice(document)
            .map_err(|error| KeysError::Unreadable(error.to_string()))?;
        let keys = set.get("keys").and_then(Value::as_array);
        let keys = keys.ok_or_else(|| KeysError::Unreadable("it has no keys".to_owned()))?;
        let mut found = Vec::new();
        for key in keys {
            // One at a time: a set may hold kinds that others use.
            let one = serde_json::json!({ "keys": [key] });
            let Ok(set) = serde_json::from_value::<JwkSet>(one) else {
                continue;
            };
            for jwk in &set.keys {
                // A key shared with the issuer would make every client an issuer.
                if matches!(
                    jwk.algorithm,
                    jsonwebtoken::jwk::AlgorithmParameters::OctetKey(_)
                ) {
                    continue;
                }
                if let Ok(key) = DecodingKey::from_jwk(jwk) {
                    found.push((jwk.common.key_id.clone(), key));
                }
            }
        }
        Ok(Self(found))
    }

    /// The claims of a token that one of the keys signed with one of the
    /// algorithms. Nothing is said of their time or truth.
    ///
    /// # Errors
    /// [`KeysError`].
    pub fn verify(
        &self,
        token: &str,
        algorithms: &[String],
    ) -> Result<Map<String, Value>, KeysError> {
        let header = jsonwebtoken::decode_header(token)
            .map_err(|error| KeysError::Malformed(error.to_string()))?;
        let allowed: Vec<Algorithm> = algorithms
            .iter()
            .filter(|name| !name.starts_with("HS"))
            .filter_map(|name| Algorithm::from_str(name).ok())
            .collect();
        if !allowed.contains(&header.alg) {
            let expected: Vec<String> = algorithms.iter().map(|one| format!("{one:?}")).collect();
            return Err(KeysError::Algorithm {
                expected: expected.join(" "),
                found: format!("{:?}", header.alg),
            });
        }
        let mut validation = Validation::new(header.alg);
        validation.required_spec_claims.clear();
        validation.validate_exp = false;
        validation.validate_nbf = false;
        validation.validate_aud = false;
        for (id, key) in &self.0 {
            if header.kid.is_some() && id.is_some() && header.kid != *id {
                continue;
            }
            if let Ok(data) = jsonwebtoken::decode::<Map<String, Value>>(token, key, &validation) {
                return Ok(data.claims);
            }
        }
        Err(KeysError::Signature)
    }
}

//! The keys of an issuer (RFC 7517), and verification of their signatures (RFC 7515): RSA
//! with PKCS#1 and PSS padding, and ECDSA on the curves of NIST.

use aws_lc_rs::signature::{
    self, EcdsaVerificationAlgorithm, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

/// The algorithms by which issuers may sign (RFC 7518, section 3.1). Those with a
/// shared secret are not among them: every client would be an issuer.
pub const ALGORITHMS: [&str; 9] = [
    "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512",
];

/// Keys, each with its identifier.
#[derive(Clone)]
pub struct Keys(Vec<(Option<String>, Key)>);

#[derive(Clone)]
enum Key {
    /// Modulus and exponent.
    Rsa(Vec<u8>, Vec<u8>),
    /// The name of the curve, and a point on it, uncompressed (SEC 1, section 2.3.3).
    Point(String, Vec<u8>),
}

/// Error for unusable keys or an invalid signature.
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
        let one = |key: &Value| {
            let id = key.get("kid").and_then(Value::as_str).map(str::to_owned);
            Some((id, Key::parse(key)?))
        };
        Ok(Self(keys.iter().filter_map(one).collect()))
    }

    /// Returns the claims of a token that one of the keys signed with one of the
    /// algorithms. The claims themselves, including times, are not checked.
    ///
    /// # Errors
    /// [`KeysError`].
    pub fn verify(
        &self,
        token: &str,
        algorithms: &[String],
    ) -> Result<Map<String, Value>, KeysError> {
        let malformed = |why: &str| KeysError::Malformed(why.to_owned());
        let (signed, signature) = token
            .rsplit_once('.')
            .ok_or_else(|| malformed("it has no parts"))?;
        let (header, claims) = signed
            .split_once('.')
            .ok_or_else(|| malformed("it has two parts"))?;
        let decode = |part: &str| {
            let bytes = URL_SAFE_NO_PAD.decode(part);
            bytes.map_err(|error| KeysError::Malformed(error.to_string()))
        };
        let object = |bytes: &[u8]| {
            serde_json::from_slice::<Map<String, Value>>(bytes)
                .map_err(|error| KeysError::Malformed(error.to_string()))
        };
        let header = object(&decode(header)?)?;
        // Critical headers that are not supported (RFC 7515, section 4.1.11).
        if header.contains_key("crit") {
            return Err(malformed("it has critical headers"));
        }
        let text = |name: &str| header.get(name).and_then(Value::as_str);
        let algorithm = text("alg").unwrap_or_default();
        if !algorithms.iter().any(|one| one == algorithm) || !ALGORITHMS.contains(&algorithm) {
            let expected: Vec<String> = algorithms.iter().map(|one| format!("{one:?}")).collect();
            return Err(KeysError::Algorithm {
                expected: expected.join(" "),
                found: algorithm.to_owned(),
            });
        }
        let signature = decode(signature)?;
        let wanted = text("kid");
        let mut candidates = self.0.iter().filter(|(id, _)| {
            let id = id.as_deref();
            wanted.is_none() || id.is_none() || wanted == id
        });
        if candidates.any(|(_, key)| key.made(algorithm, signed.as_bytes(), &signature)) {
            return object(&decode(claims)?);
        }
        Err(KeysError::Signature)
    }
}

impl Key {
    fn parse(key: &Value) -> Option<Self> {
        let number = |name: &str| URL_SAFE_NO_PAD.decode(key.get(name)?.as_str()?).ok();
        match key.get("kty")?.as_str()? {
            "RSA" => Some(Self::Rsa(number("n")?, number("e")?)),
            "EC" => {
                let curve = key.get("crv")?.as_str()?;
                let size: usize = match curve {
                    "P-256" => 32,
                    "P-384" => 48,
                    "P-521" => 66,
                    _ => return None,
                };
                let mut point = vec![4];
                for name in ["x", "y"] {
                    let number = number(name)?;
                    // Zeros at the front may be left out, or there may be one too many.
                    let zeros = number.iter().take_while(|byte| **byte == 0).count();
                    let number = &number[zeros..];
                    point.resize(point.len() + size.checked_sub(number.len())?, 0);
                    point.extend_from_slice(number);
                }
                Some(Self::Point(curve.to_owned(), point))
            }
            _ => None,
        }
    }

    fn made(&self, algorithm: &str, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Rsa(n, e) => rsa(algorithm).is_some_and(|parameters| {
                let key = RsaPublicKeyComponents { n, e };
                key.verify(parameters, message, signature).is_ok()
            }),
            Self::Point(curve, point) => ecdsa(algorithm, curve).is_some_and(|algorithm| {
                let key = UnparsedPublicKey::new(algorithm, point);
                key.verify(message, signature).is_ok()
            }),
        }
    }
}

fn rsa(algorithm: &str) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        "RS256" => &signature::RSA_PKCS1_2048_8192_SHA256,
        "RS384" => &signature::RSA_PKCS1_2048_8192_SHA384,
        "RS512" => &signature::RSA_PKCS1_2048_8192_SHA512,
        "PS256" => &signature::RSA_PSS_2048_8192_SHA256,
        "PS384" => &signature::RSA_PSS_2048_8192_SHA384,
        "PS512" => &signature::RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

/// Returns the algorithm for one curve (RFC 7518, section 3.4).
fn ecdsa(algorithm: &str, curve: &str) -> Option<&'static EcdsaVerificationAlgorithm> {
    Some(match (algorithm, curve) {
        ("ES256", "P-256") => &signature::ECDSA_P256_SHA256_FIXED,
        ("ES384", "P-384") => &signature::ECDSA_P384_SHA384_FIXED,
        ("ES512", "P-521") => &signature::ECDSA_P521_SHA512_FIXED,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::rsa::KeySize;
    use aws_lc_rs::signature::{
        EcdsaKeyPair, EcdsaSigningAlgorithm, KeyPair as _, RsaEncoding, RsaKeyPair,
    };
    use serde_json::json;

    use super::*;

    fn encode(bytes: impl AsRef<[u8]>) -> String {
        URL_SAFE_NO_PAD.encode(bytes)
    }

    fn input(algorithm: &str) -> String {
        let header = json!({"alg": algorithm, "kid": "k"}).to_string();
        format!(
            "{}.{}",
            encode(header),
            encode(json!({"sub": "ann"}).to_string())
        )
    }

    fn check(algorithm: &str, token: &str, key: Value) {
        let mut key = key;
        key["kid"] = json!("k");
        let keys = Keys::parse(json!({"keys": [key]}).to_string().as_bytes()).expect("keys");
        let all: Vec<String> = ALGORITHMS.map(str::to_owned).into();
        let claims = keys.verify(token, &all).expect(algorithm);
        assert_eq!(claims["sub"], "ann");
        let (signed, _) = token.rsplit_once('.').expect("parts");
        assert!(matches!(
            keys.verify(&format!("{signed}.{}", encode([0; 132])), &all),
            Err(KeysError::Signature)
        ));
        let others: Vec<String> = all.into_iter().filter(|one| one != algorithm).collect();
        assert!(matches!(
            keys.verify(token, &others),
            Err(KeysError::Algorithm { .. })
        ));
    }

    #[test]
    fn signatures_on_every_curve_are_verified() {
        for (algorithm, curve, signing) in [
            (
                "ES256",
                "P-256",
                &signature::ECDSA_P256_SHA256_FIXED_SIGNING,
            ),
            (
                "ES384",
                "P-384",
                &signature::ECDSA_P384_SHA384_FIXED_SIGNING,
            ),
            (
                "ES512",
                "P-521",
                &signature::ECDSA_P521_SHA512_FIXED_SIGNING,
            ),
        ] {
            let signing: &'static EcdsaSigningAlgorithm = signing;
            let pair = EcdsaKeyPair::generate(signing).expect("a key");
            let point = &pair.public_key().as_ref()[1..];
            let (x, y) = point.split_at(point.len() / 2);
            let input = input(algorithm);
            let made = pair
                .sign(&SystemRandom::new(), input.as_bytes())
                .expect("signed");
            let key = json!({"kty": "EC", "crv": curve, "x": encode(x), "y": encode(y)});
            check(algorithm, &format!("{input}.{}", encode(made)), key);
        }
    }

    #[test]
    fn signatures_of_rsa_are_verified_with_either_padding() {
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).expect("a key");
        let public = pair.public_key();
        let (n, e) = (public.modulus(), public.exponent());
        let key = json!({
            "kty": "RSA",
            "n": encode(n.big_endian_without_leading_zero()), "e": encode(e.big_endian_without_leading_zero())
        });
        let paddings: [(&str, &'static dyn RsaEncoding); 6] = [
            ("RS256", &signature::RSA_PKCS1_SHA256),
            ("RS384", &signature::RSA_PKCS1_SHA384),
            ("RS512", &signature::RSA_PKCS1_SHA512),
            ("PS256", &signature::RSA_PSS_SHA256),
            ("PS384", &signature::RSA_PSS_SHA384),
            ("PS512", &signature::RSA_PSS_SHA512),
        ];
        for (algorithm, padding) in paddings {
            let input = input(algorithm);
            let mut made = vec![0; pair.public_modulus_len()];
            pair.sign(padding, &SystemRandom::new(), input.as_bytes(), &mut made)
                .expect("signed");
            check(algorithm, &format!("{input}.{}", encode(made)), key.clone());
        }
    }

    #[test]
    fn what_is_no_token_is_refused_before_any_key_is_tried() {
        let keys = Keys::parse(br#"{"keys": []}"#).expect("no keys");
        let all: Vec<String> = ALGORITHMS.map(str::to_owned).into();
        let critical = encode(r#"{"alg":"ES256","crit":["b64"],"b64":false}"#);
        for bad in ["", "a", "a.b", "..", "!.!.!", &format!("{critical}.e30.")] {
            assert!(
                matches!(keys.verify(bad, &all), Err(KeysError::Malformed(_))),
                "{bad}"
            );
        }
        // A point that is longer than its curve.
        let long = json!({"kty": "EC", "crv": "P-256", "x": encode([1; 33]), "y": encode([1; 32])});
        let keys = Keys::parse(json!({"keys": [long]}).to_string().as_bytes()).expect("a set");
        assert_eq!(format!("{keys:?}"), "Keys { count: 0 }");
    }
}

//! Keys of encrypted volumes that a key manager (KMS v2) wraps.
//!
//! Each volume has a random key. The manager encrypts it, and the result is stored in the
//! header of the volume's own device, as a token of LUKS2: it moves with the device, and
//! into copies, and nobody can read the volume without the manager.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use control_kms::{Client, EncryptedData};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::tool::Secret;

/// How long the manager may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes of a volume's key.
const KEY_BYTES: usize = 32;

/// Type of the token.
const TOKEN_TYPE: &str = "orlop-kms-v2";

/// The client of a class's key manager.
#[derive(Debug)]
pub struct KeyManager {
    client: Client,
}

impl KeyManager {
    /// Starts the client for the socket at `path`; it connects when it is first used.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(class: &str, path: &str) -> Result<Self> {
        let client = Client::start(class, path, PATIENCE);
        let client = client.map_err(Error::io("start a client of", path.as_ref()))?;
        Ok(Self { client })
    }

    /// Makes the key of a volume, and has it wrapped.
    ///
    /// # Errors
    /// When the manager refuses or does not answer.
    pub fn make_key(&self, id: &str) -> Result<(Secret, WrappedKey)> {
        let random = "/dev/urandom";
        let mut key = [0; KEY_BYTES];
        File::open(random)
            .and_then(|mut file| file.read_exact(&mut key))
            .map_err(Error::io("read", random.as_ref()))?;
        let wrapped = self.client.encrypt(key.to_vec());
        let wrapped = wrapped.map_err(Error::key_manager("wrap the new key of", id))?;
        Ok((Secret::new(key), WrappedKey(wrapped)))
    }

    /// Unwraps the key of a volume.
    ///
    /// # Errors
    /// When the manager refuses or does not answer.
    pub fn unwrap_key(&self, id: &str, wrapped: WrappedKey) -> Result<Secret> {
        let key = self.client.decrypt(wrapped.0);
        let key = key.map_err(Error::key_manager("unwrap the key of", id))?;
        Ok(Secret::new(key))
    }

    /// Wraps the key of a volume with the manager's current key, if a former one wrapped
    /// it; returns `None` if it is unchanged.
    ///
    /// # Errors
    /// When the manager refuses or does not answer.
    pub fn wrap_again(
        &self,
        id: &str,
        key: &Secret,
        wrapped_by: &str,
    ) -> Result<Option<WrappedKey>> {
        let status = self.client.status();
        let status = status.map_err(Error::key_manager("learn its key for", id))?;
        if status.key_id == wrapped_by {
            return Ok(None);
        }
        let wrapped = self.client.encrypt(key.bytes().to_vec());
        let wrapped = wrapped.map_err(Error::key_manager("wrap again the key of", id))?;
        Ok(Some(WrappedKey(wrapped)))
    }
}

/// A volume's key as the manager wrapped it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrappedKey(EncryptedData);

/// The token of LUKS2 that holds it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Token {
    r#type: String,
    /// The slots that the key opens, which every token names.
    keyslots: Vec<String>,
    key_id: String,
    ciphertext: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

/// The parts of a device's LUKS2 header that are read (`cryptsetup luksDump
/// --dump-json-metadata`).
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Header {
    tokens: BTreeMap<String, serde_json::Value>,
}

impl WrappedKey {
    /// Returns the token for the header.
    #[must_use]
    pub fn token(&self) -> String {
        let annotations = self.0.annotations.iter();
        let token = Token {
            r#type: TOKEN_TYPE.to_owned(),
            keyslots: vec!["0".to_owned()],
            key_id: self.0.key_id.clone(),
            ciphertext: STANDARD.encode(&self.0.ciphertext),
            annotations: annotations
                .map(|(name, value)| (name.clone(), STANDARD.encode(value)))
                .collect(),
        };
        serde_json::json!(token).to_string()
    }

    /// Returns the name of the manager's key that wrapped it.
    #[must_use]
    pub fn wrapped_by(&self) -> &str {
        &self.0.key_id
    }

    /// Returns the wrapped key that a header holds, and the number of its token; none of
    /// another kind or form.
    #[must_use]
    pub fn find(header: &Header) -> Option<(&str, Self)> {
        let mut tokens = header.tokens.iter();
        let (number, token) = tokens.find(|(_, token)| token["type"] == TOKEN_TYPE)?;
        let token = Token::deserialize(token).ok()?;
        let annotations = token.annotations.into_iter();
        let annotations = annotations
            .map(|(name, value)| Some((name, STANDARD.decode(value).ok()?)))
            .collect::<Option<_>>()?;
        let key = Self(EncryptedData {
            ciphertext: STANDARD.decode(token.ciphertext).ok()?,
            key_id: token.key_id,
            annotations,
        });
        Some((number, key))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(tokens: &[&str]) -> Header {
        let tokens = tokens.iter().enumerate();
        let tokens: Vec<String> = tokens
            .map(|(number, token)| format!("\"{number}\": {token}"))
            .collect();
        let text = format!(
            "{{\"keyslots\": {{}}, \"tokens\": {{{}}}}}",
            tokens.join(",")
        );
        serde_json::from_str(&text).expect("a header")
    }

    #[test]
    fn tokens_of_others_are_no_keys() {
        assert_eq!(WrappedKey::find(&Header::default()), None);
        for token in [
            r#"{"type": "luks2-keyring", "keyslots": ["0"], "key_description": "k"}"#,
            r#"{"type": "orlop-kms-v2", "keyslots": ["0"]}"#,
            r#"{"type": "orlop-kms-v2", "keyslots": [], "keyId": "k", "ciphertext": "?"}"#,
        ] {
            assert_eq!(WrappedKey::find(&header(&[token])), None, "{token}");
        }
    }

    proptest! {
        #[test]
        fn a_key_comes_back_from_its_token_as_it_was(
            ciphertext in proptest::collection::vec(any::<u8>(), 0..32),
            key_id in any::<String>(),
            annotations in proptest::collection::btree_map(
                any::<String>(), proptest::collection::vec(any::<u8>(), 0..8), 0..3),
        ) {
            let key = WrappedKey(EncryptedData { ciphertext, key_id, annotations });
            let other = r#"{"type": "luks2-keyring", "keyslots": ["0"]}"#;
            let header = header(&[other, &key.token()]);
            prop_assert_eq!(WrappedKey::find(&header), Some(("1", key)));
        }
    }
}

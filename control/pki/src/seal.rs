//! Encryption of values at rest.
//!
//! The bytes are those of the `aesgcm` provider of kube-apiserver's encryption
//! configuration, so that either server reads what the other wrote:
//! `k8s:enc:aesgcm:v1:<key name>:` then a nonce of 12 bytes, then the ciphertext
//! with its tag. The key under which the value is stored is authenticated, so a
//! value cannot be moved to another key.

use std::path::Path;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::{Error, files};

const PREFIX: &[u8] = b"k8s:enc:aesgcm:v1:key1:";
/// What values of any encryption provider begin with.
const ANY_PREFIX: &[u8] = b"k8s:enc:";

/// Encrypts and decrypts values of the store.
pub struct SealingKey {
    key: LessSafeKey,
}

// === impl SealingKey ===

impl SealingKey {
    /// The key in `path` (32 bytes in base64), made if there is no such file.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::Malformed`].
    pub fn load_or_create(path: &Path) -> Result<Self, Error> {
        let text = if let Some(text) = files::read(path)? {
            text
        } else {
            let mut bytes = [0; 32];
            random(&mut bytes)?;
            let text = STANDARD.encode(bytes);
            files::write_private(path, text.as_bytes())?;
            text
        };
        let wrong = |detail: &str| Error::Malformed {
            path: path.to_owned(),
            expected: "encryption key",
            detail: detail.to_owned(),
        };
        let bytes = STANDARD
            .decode(text.trim())
            .map_err(|error| wrong(&error.to_string()))?;
        let key = UnboundKey::new(&AES_256_GCM, &bytes)
            .map_err(|_| wrong("it must be 32 bytes in base64"))?;
        Ok(Self {
            key: LessSafeKey::new(key),
        })
    }

    /// Encrypts `value`, which will lie under `stored_key`.
    ///
    /// # Errors
    /// [`Error::Crypto`].
    pub fn seal(&self, stored_key: &[u8], value: &[u8]) -> Result<Vec<u8>, Error> {
        let mut nonce = [0; NONCE_LEN];
        random(&mut nonce)?;
        let mut body = value.to_vec();
        self.key
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(stored_key),
                &mut body,
            )
            .map_err(|_| refused("encrypt a value"))?;
        Ok([PREFIX, &nonce, &body].concat())
    }

    /// Decrypts what [`SealingKey::seal`] made. A value that was never encrypted
    /// comes back as it is: it was stored before encryption was turned on.
    ///
    /// # Errors
    /// [`Error::Crypto`] if the value was changed, moved from another key, or
    /// encrypted with another key or by another provider.
    pub fn open(&self, stored_key: &[u8], value: &[u8]) -> Result<Vec<u8>, Error> {
        let Some(sealed) = value.strip_prefix(PREFIX) else {
            if value.starts_with(ANY_PREFIX) {
                return Err(refused("decrypt a value of another key or provider"));
            }
            return Ok(value.to_vec());
        };
        let Some((nonce, body)) = sealed.split_first_chunk::<NONCE_LEN>() else {
            return Err(refused("decrypt a value that was cut off"));
        };
        let mut body = body.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let length = self
            .key
            .open_in_place(nonce, Aad::from(stored_key), &mut body)
            .map_err(|_| refused("decrypt a value"))?
            .len();
        body.truncate(length);
        Ok(body)
    }
}

impl std::fmt::Debug for SealingKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("SealingKey")
    }
}

/// Fills `bytes` from the system's source.
pub(crate) fn random(bytes: &mut [u8]) -> Result<(), Error> {
    aws_lc_rs::rand::fill(bytes).map_err(|_| refused("get random bytes"))
}

fn refused(action: &'static str) -> Error {
    Error::Crypto {
        action,
        detail: "the key does not fit or the bytes were changed".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_value_opens_only_under_its_own_key_and_unchanged() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("encryption.key");
        let key = SealingKey::load_or_create(&path).expect("made");
        let sealed = key
            .seal(b"/registry/secrets/a/b", b"hunter2")
            .expect("sealed");
        assert!(!sealed.windows(7).any(|window| window == b"hunter2"));
        let again = SealingKey::load_or_create(&path).expect("loaded");
        assert_eq!(
            again
                .open(b"/registry/secrets/a/b", &sealed)
                .expect("opened"),
            b"hunter2"
        );
        assert!(
            again.open(b"/registry/secrets/a/c", &sealed).is_err(),
            "moved"
        );
        let mut changed = sealed.clone();
        *changed.last_mut().expect("bytes") ^= 1;
        assert!(
            again.open(b"/registry/secrets/a/b", &changed).is_err(),
            "changed"
        );
        for cut in 0..sealed.len() {
            let opened = again.open(b"/registry/secrets/a/b", &sealed[..cut]);
            assert!(
                opened.map_or(true, |value| value == sealed[..cut]),
                "cut at {cut}"
            );
        }
        assert_eq!(
            again.open(b"k", b"{\"plain\":1}").expect("as it is"),
            b"{\"plain\":1}"
        );
    }

    #[test]
    fn a_key_of_the_wrong_length_is_refused_with_its_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("encryption.key");
        files::write_private(&path, STANDARD.encode([1; 16]).as_bytes()).expect("written");
        let error = SealingKey::load_or_create(&path)
            .expect_err("too short")
            .to_string();
        assert!(
            error.contains("encryption.key") && error.contains("32 bytes"),
            "{error}"
        );
    }
}

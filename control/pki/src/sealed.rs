//! Secrets that travel: encrypted under a key that only sender and receiver know.
//!
//! AES-256-GCM under a key that HKDF-SHA256 derives from the shared one; the context is
//! authenticated with it, so that one sealed for one purpose opens for no other.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf;

use crate::{Error, random};

/// Bytes of the shared key.
pub const SEAL_KEY_BYTES: usize = 32;

/// Encrypts `plain` under `key` for `context`.
///
/// # Errors
/// Returns [`Error::Crypto`] when the system has no random bytes.
pub fn seal(key: &[u8; SEAL_KEY_BYTES], context: &str, plain: &[u8]) -> Result<Vec<u8>, Error> {
    let mut nonce = [0; NONCE_LEN];
    random::fill(&mut nonce)?;
    let mut out = nonce.to_vec();
    let mut body = plain.to_vec();
    derive(key, context)
        .and_then(|key| {
            let nonce = Nonce::assume_unique_for_key(nonce);
            let aad = Aad::from(context.as_bytes());
            key.seal_in_place_append_tag(nonce, aad, &mut body).ok()
        })
        .ok_or_else(|| Error::Crypto {
            action: "encrypt keys",
            detail: "the cipher refused".to_owned(),
        })?;
    out.extend_from_slice(&body);
    Ok(out)
}

/// Decrypts what [`seal`] made; `None` for another key or context, or changed bytes.
#[must_use]
pub fn open_sealed(key: &[u8; SEAL_KEY_BYTES], context: &str, sealed: &[u8]) -> Option<Vec<u8>> {
    let (nonce, body) = sealed.split_first_chunk::<NONCE_LEN>()?;
    let mut body = body.to_vec();
    let nonce = Nonce::assume_unique_for_key(*nonce);
    let aad = Aad::from(context.as_bytes());
    let plain = derive(key, context)?.open_in_place(nonce, aad, &mut body);
    plain.ok().map(|plain| plain.to_vec())
}

struct KeyLength;

impl hkdf::KeyType for KeyLength {
    fn len(&self) -> usize {
        SEAL_KEY_BYTES
    }
}

fn derive(key: &[u8; SEAL_KEY_BYTES], context: &str) -> Option<LessSafeKey> {
    let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, b"orlop sealed v1");
    let mut derived = [0; SEAL_KEY_BYTES];
    let info = [context.as_bytes()];
    let prk = salt.extract(key);
    prk.expand(&info, KeyLength).ok()?.fill(&mut derived).ok()?;
    UnboundKey::new(&AES_256_GCM, &derived)
        .ok()
        .map(LessSafeKey::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_key_and_the_context_open_it() {
        let (key, other) = ([7; SEAL_KEY_BYTES], [8; SEAL_KEY_BYTES]);
        let sealed = seal(&key, "join abcdef", b"secret").expect("sealed");
        assert!(!sealed.windows(6).any(|bytes| bytes == b"secret"));
        let opened = open_sealed(&key, "join abcdef", &sealed);
        assert_eq!(opened.as_deref(), Some(&b"secret"[..]));
        assert_eq!(open_sealed(&other, "join abcdef", &sealed), None);
        assert_eq!(open_sealed(&key, "join ghijkl", &sealed), None);
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(open_sealed(&key, "join abcdef", &changed), None, "{at}");
        }
        assert_eq!(open_sealed(&key, "join abcdef", &sealed[..4]), None);
    }
}

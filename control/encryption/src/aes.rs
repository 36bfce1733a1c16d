//! AES in both of stock's ways: GCM, and CBC with PKCS#7 padding.

use aws_lc_rs::aead::{
    AES_128_GCM, AES_192_GCM, AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey,
};
use aws_lc_rs::cipher::{
    AES_128, AES_192, AES_256, DecryptionContext, PaddedBlockDecryptingKey,
    PaddedBlockEncryptingKey, UnboundCipherKey,
};
use aws_lc_rs::iv::{FixedLength, IV_LEN_128_BIT};

use crate::cipher::Cipher;
use crate::error::{Error, crypto};

/// AES-GCM: nonce of 12 bytes, ciphertext, tag of 16. The place of the value is
/// authenticated.
pub(crate) struct Gcm(LessSafeKey);

/// AES-CBC: initialization vector of 16 bytes, ciphertext. It is not authenticated.
pub(crate) struct Cbc {
    key: Vec<u8>,
}

// === impl Gcm ===

impl Gcm {
    /// With a key of 16, 24 or 32 bytes; nothing for others.
    pub fn new(key: &[u8]) -> Option<Self> {
        let algorithm = match key.len() {
            16 => &AES_128_GCM,
            24 => &AES_192_GCM,
            32 => &AES_256_GCM,
            _ => return None,
        };
        UnboundKey::new(algorithm, key)
            .ok()
            .map(|key| Self(LessSafeKey::new(key)))
    }
}

impl Cipher for Gcm {
    fn seal(&self, place: &[u8], value: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let mut nonce = [0; NONCE_LEN];
        random(&mut nonce)?;
        out.extend_from_slice(&nonce);
        let start = out.len();
        out.extend_from_slice(value);
        let body = out.get_mut(start..).unwrap_or_default();
        let tag = self
            .0
            .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::from(place), body)
            .map_err(|_| crypto("encrypt a value"))?;
        out.extend_from_slice(tag.as_ref());
        Ok(())
    }

    fn open(&self, place: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, body) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let mut body = body.to_vec();
        let length = self
            .0
            .open_in_place(
                Nonce::assume_unique_for_key(*nonce),
                Aad::from(place),
                &mut body,
            )
            .ok()?
            .len();
        body.truncate(length);
        Some(body)
    }
}

// === impl Cbc ===

impl Cbc {
    /// With a key of 16, 24 or 32 bytes; nothing for others.
    pub fn new(key: &[u8]) -> Option<Self> {
        matches!(key.len(), 16 | 24 | 32).then(|| Self { key: key.to_vec() })
    }

    fn key(&self) -> Option<UnboundCipherKey> {
        let algorithm = match self.key.len() {
            16 => &AES_128,
            24 => &AES_192,
            _ => &AES_256,
        };
        UnboundCipherKey::new(algorithm, &self.key).ok()
    }
}

impl Cipher for Cbc {
    fn seal(&self, _place: &[u8], value: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let failed = || crypto("encrypt a value");
        let key = self.key().ok_or_else(failed)?;
        let key = PaddedBlockEncryptingKey::cbc_pkcs7(key).map_err(|_| failed())?;
        let mut body = value.to_vec();
        let context = key.encrypt(&mut body).map_err(|_| failed())?;
        let DecryptionContext::Iv128(iv) = context else {
            return Err(failed());
        };
        out.extend_from_slice(iv.as_ref());
        out.extend_from_slice(&body);
        Ok(())
    }

    fn open(&self, _place: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (iv, body) = sealed.split_first_chunk::<IV_LEN_128_BIT>()?;
        if body.is_empty() || body.len() % IV_LEN_128_BIT != 0 {
            return None;
        }
        let key = PaddedBlockDecryptingKey::cbc_pkcs7(self.key()?).ok()?;
        let mut body = body.to_vec();
        let context = DecryptionContext::Iv128(FixedLength::from(iv));
        let length = key.decrypt(&mut body, context).ok()?.len();
        body.truncate(length);
        Some(body)
    }
}

/// Fills bytes from the system's source.
pub(crate) fn random(bytes: &mut [u8]) -> Result<(), Error> {
    aws_lc_rs::rand::fill(bytes).map_err(|_| crypto("get random bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by `openssl enc -aes-128-cbc` with an initialization vector that
    /// counts from 0 to 15.
    #[test]
    fn what_another_implementation_encrypted_is_read() {
        let key = hex("2b7e151628aed2a6abf7158809cf4f3c");
        let cipher = Cbc::new(&key).expect("a key");
        let stored = hex(concat!(
            "000102030405060708090a0b0c0d0e0f",
            "7cb67c26108bde81778c75e35e1fcc0b309ca6f114b8b073b74d32d3dc6faa9b"
        ));
        assert_eq!(
            cipher.open(b"", &stored).expect("opened"),
            b"attack at dawn, not before"
        );
    }

    #[test]
    fn cbc_pads_to_whole_blocks_and_refuses_what_is_cut() {
        let cipher = Cbc::new(&[1; 32]).expect("a key");
        let mut out = Vec::new();
        cipher
            .seal(b"", b"0123456789abcdef", &mut out)
            .expect("sealed");
        assert_eq!(out.len(), 16 + 32, "a whole block of padding is added");
        assert_eq!(cipher.open(b"", &out).expect("opened"), b"0123456789abcdef");
        for cut in 0..out.len() {
            let opened = cipher.open(b"", &out[..cut]);
            assert_ne!(opened.as_deref(), Some(&b"0123456789abcdef"[..]), "{cut}");
        }
    }

    #[test]
    fn gcm_opens_in_its_own_place_and_unchanged_only() {
        for length in [16, 24, 32] {
            let cipher = Gcm::new(&vec![7; length]).expect("a key");
            let mut out = Vec::new();
            cipher.seal(b"/a", b"value", &mut out).expect("sealed");
            assert_eq!(out.len(), 12 + 5 + 16);
            assert_eq!(cipher.open(b"/a", &out).expect("opened"), b"value");
            assert_eq!(cipher.open(b"/b", &out), None);
            for at in 0..out.len() {
                let mut changed = out.clone();
                changed[at] ^= 1;
                assert_eq!(cipher.open(b"/a", &changed), None, "{at}");
            }
        }
        assert!(Gcm::new(&[0; 20]).is_none());
    }

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len() / 2)
            .map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).expect("hex"))
            .collect()
    }
}

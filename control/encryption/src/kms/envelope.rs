//! The stored form, and the derivation of keys from a seed.

use std::collections::BTreeMap;

use aws_lc_rs::hkdf;

use crate::aes::{Gcm, random};
use crate::cipher::Cipher as _;
use crate::error::{Error, crypto};

/// The source is a seed of which each value's key is derived; else it is the key.
pub(super) const SEED: i32 = 1;
/// Bytes of a value that its key is derived with.
const INFO: usize = 32;

/// `v2.EncryptedObject` of kube-apiserver.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct EncryptedObject {
    #[prost(bytes = "vec", tag = "1")]
    pub encrypted_data: Vec<u8>,
    #[prost(string, tag = "2")]
    pub key_id: String,
    #[prost(bytes = "vec", tag = "3")]
    pub encrypted_dek_source: Vec<u8>,
    #[prost(btree_map = "string, bytes", tag = "4")]
    pub annotations: BTreeMap<String, Vec<u8>>,
    #[prost(int32, tag = "5")]
    pub encrypted_dek_source_type: i32,
}

/// The seed of keys: HKDF-SHA256's expansion with 32 random bytes, which precede the
/// value.
pub(super) struct Seed(hkdf::Prk);

struct Length;

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        32
    }
}

impl Seed {
    pub fn new(bytes: &[u8]) -> Self {
        Self(hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, bytes))
    }

    fn key(&self, info: &[u8]) -> Option<Gcm> {
        let mut key = [0; 32];
        self.0.expand(&[info], Length).ok()?.fill(&mut key).ok()?;
        Gcm::new(&key)
    }

    pub fn seal(&self, place: &[u8], value: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let mut info = [0; INFO];
        random(&mut info)?;
        out.extend_from_slice(&info);
        self.key(&info)
            .ok_or_else(|| crypto("derive a key"))?
            .seal(place, value, out)
    }

    pub fn open(&self, place: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (info, body) = sealed.split_first_chunk::<INFO>()?;
        self.key(info)?.open(place, body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 5869, A.1: the expansion alone.
    #[test]
    fn keys_are_derived_as_the_rfc_says() {
        let hex = |text: &str| -> Vec<u8> {
            (0..text.len() / 2)
                .map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).expect("hex"))
                .collect()
        };
        let prk = hex("077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5");
        let info = hex("f0f1f2f3f4f5f6f7f8f9");
        let mut out = [0; 32];
        let seed = Seed::new(&prk);
        seed.0
            .expand(&[&info], Length)
            .and_then(|okm| okm.fill(&mut out))
            .expect("derived");
        assert_eq!(
            out.to_vec(),
            hex("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf")
        );
    }

    #[test]
    fn each_value_has_a_key_of_its_own() {
        let seed = Seed::new(&[9; 32]);
        let (mut one, mut other) = (Vec::new(), Vec::new());
        seed.seal(b"/a", b"value", &mut one).expect("sealed");
        seed.seal(b"/a", b"value", &mut other).expect("sealed");
        assert_ne!(one[..INFO], other[..INFO]);
        assert_eq!(seed.open(b"/a", &one).expect("opened"), b"value");
        assert_eq!(seed.open(b"/b", &one), None);
    }
}

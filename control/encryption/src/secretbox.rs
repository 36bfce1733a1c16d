//! NaCl's secretbox: XSalsa20 and Poly1305. Nonce of 24 bytes, tag of 16,
//! ciphertext.

use poly1305::Poly1305;
use poly1305::universal_hash::KeyInit as _;
use salsa20::XSalsa20;
use salsa20::cipher::{KeyIvInit as _, StreamCipher as _};

use crate::aes::random;
use crate::cipher::Cipher;
use crate::error::{Error, crypto};

const NONCE: usize = 24;
const TAG: usize = 16;

/// A key.
pub(crate) struct SecretBox([u8; 32]);

impl SecretBox {
    /// With a key of 32 bytes; nothing for others.
    pub fn new(key: &[u8]) -> Option<Self> {
        key.try_into().ok().map(Self)
    }

    /// The stream for a nonce, behind the first 32 bytes, and what those key.
    fn stream(&self, nonce: &[u8; NONCE]) -> (XSalsa20, Poly1305) {
        let mut stream = XSalsa20::new(&self.0.into(), &(*nonce).into());
        let mut key = [0; 32];
        stream.apply_keystream(&mut key);
        (stream, Poly1305::new(&key.into()))
    }
}

impl Cipher for SecretBox {
    fn seal(&self, _place: &[u8], value: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let mut nonce = [0; NONCE];
        random(&mut nonce)?;
        let (mut stream, tag) = self.stream(&nonce);
        let mut body = value.to_vec();
        stream
            .try_apply_keystream(&mut body)
            .map_err(|_| crypto("encrypt a value"))?;
        out.extend_from_slice(&nonce);
        out.extend_from_slice(&tag.compute_unpadded(&body));
        out.extend_from_slice(&body);
        Ok(())
    }

    fn open(&self, _place: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, rest) = sealed.split_first_chunk::<NONCE>()?;
        let (tag, body) = rest.split_first_chunk::<TAG>()?;
        let (mut stream, key) = self.stream(nonce);
        let right = key.compute_unpadded(body);
        aws_lc_rs::constant_time::verify_slices_are_equal(&right, tag).ok()?;
        let mut body = body.to_vec();
        stream.try_apply_keystream(&mut body).ok()?;
        Some(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vector of NaCl's own tests (tests/secretbox.c).
    #[test]
    fn the_published_box_is_opened() {
        let key = hex("1b27556473e985d462cd51197a9a46c76009549eac6474f206c4ee0844f68389");
        let nonce = hex("69696ee955b62b73cd62bda875fc73d68219e0036b7a0b37");
        let sealed = hex(
            "f3ffc7703f9400e52a7dfb4b3d3305d98e993b9f48681273c29650ba32fc76ce48332ea7164d96a4476fb8c531a1186ac0dfc17c98dce87b4da7f011ec48c97271d2c20f9b928fe2270d6fb863d51738b48eeee314a7cc8ab932164548e526ae90224368517acfeabd6bb3732bc0e9da99832b61ca01b6de56244a9e88d5f9b37973f622a43d14a6599b1f654cb45a74e355a5",
        );
        let plain = hex(
            "be075fc53c81f2d5cf141316ebeb0c7b5228c52a4c62cbd44b66849b64244ffce5ecbaaf33bd751a1ac728d45e6c61296cdc3c01233561f41db66cce314adb310e3be8250c46f06dceea3a7fa1348057e2f6556ad6b1318a024a838f21af1fde048977eb48f59ffd4924ca1c60902e52f0a089bc76897040e082f937763848645e0705",
        );
        let cipher = SecretBox::new(&key).expect("a key");
        let stored = [nonce, sealed].concat();
        assert_eq!(cipher.open(b"", &stored).expect("opened"), plain);
        let mut changed = stored.clone();
        changed[60] ^= 1;
        assert_eq!(cipher.open(b"", &changed), None);
        assert_eq!(cipher.open(b"", &stored[..39]), None);
    }

    #[test]
    fn what_is_sealed_opens_with_the_same_key_only() {
        let cipher = SecretBox::new(&[1; 32]).expect("a key");
        let mut out = Vec::new();
        cipher.seal(b"", b"value", &mut out).expect("sealed");
        assert_eq!(cipher.open(b"", &out).expect("opened"), b"value");
        let other = SecretBox::new(&[2; 32]).expect("a key");
        assert_eq!(other.open(b"", &out), None);
        assert!(SecretBox::new(&[1; 31]).is_none());
    }

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len() / 2)
            .map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).expect("hex"))
            .collect()
    }
}

//! A token with which a server joins: `ID.SECRET.KEY`.
//!
//! `ID.SECRET` is a bootstrap token that authenticates the machine. `KEY` decrypts the
//! keys that the cluster then provides. It is never sent and not stored in the cluster,
//! so neither a reader of the cluster's Secrets nor a machine in the middle learns the
//! keys.

use control_access::parse_bootstrap_token;
use control_pki::SEAL_KEY_BYTES;

/// A server's token.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerToken {
    id: String,
    secret: String,
    key: [u8; SEAL_KEY_BYTES],
}

// === impl ServerToken ===

impl ServerToken {
    /// A new token for a bootstrap token's id and secret.
    pub fn new(id: &str, secret: &str) -> Self {
        Self {
            id: id.to_owned(),
            secret: secret.to_owned(),
            key: rand::random(),
        }
    }

    /// Reads a token; `None` for anything else, such as a node's.
    pub fn parse(text: &str) -> Option<Self> {
        let (token, key) = text.rsplit_once('.')?;
        let (id, secret) = parse_bootstrap_token(token)?;
        let is_lower = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if key.len() != SEAL_KEY_BYTES * 2 || !key.bytes().all(is_lower) {
            return None;
        }
        let mut bytes = [0; SEAL_KEY_BYTES];
        for (byte, pair) in bytes.iter_mut().zip(key.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self {
            id: id.to_owned(),
            secret: secret.to_owned(),
            key: bytes,
        })
    }

    /// The whole token.
    pub fn text(&self) -> String {
        let key: String = self.key.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}.{}.{key}", self.id, self.secret)
    }

    /// The part by which the cluster knows who asks.
    pub fn bootstrap(&self) -> String {
        format!("{}.{}", self.id, self.secret)
    }

    /// The part that names the token.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Encrypts what only the holder of this token may read.
    ///
    /// # Errors
    /// As [`control_pki::seal`].
    pub fn seal(&self, plain: &[u8]) -> Result<Vec<u8>, control_pki::Error> {
        control_pki::seal(&self.key, &self.context(), plain)
    }

    /// Decrypts it.
    pub fn open(&self, sealed: &[u8]) -> Option<Vec<u8>> {
        control_pki::open_sealed(&self.key, &self.context(), sealed)
    }

    fn context(&self) -> String {
        format!("server join {}", self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_and_a_node_s_is_none() {
        let token = ServerToken::new("abcdef", "0123456789abcdef");
        let text = token.text();
        let read = ServerToken::parse(&text).expect("a token");
        assert!(read == token);
        assert_eq!(read.bootstrap(), "abcdef.0123456789abcdef");
        let (_, key) = text.rsplit_once('.').expect("a key");
        for wrong in [
            "abcdef.0123456789abcdef".to_owned(),
            format!("abcdef.0123456789abcdef.{}", &key[1..]),
            format!("abcdef.0123456789abcdef.{}", key.replace(|_| true, "x")),
            format!("abc.0123456789abcdef.{key}"),
            format!("abcdef.0123456789abcdef.+{}", &key[1..]),
            String::new(),
        ] {
            assert!(ServerToken::parse(&wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn what_one_token_sealed_no_other_opens() {
        let token = ServerToken::new("abcdef", "0123456789abcdef");
        let other = ServerToken::new("abcdef", "0123456789abcdef");
        let sealed = token.seal(b"keys").expect("sealed");
        assert_eq!(token.open(&sealed).as_deref(), Some(&b"keys"[..]));
        assert_eq!(other.open(&sealed), None);
    }
}

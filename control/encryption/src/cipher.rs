//! The interface of all ciphers.

use crate::error::Error;

/// The common prefix of values of every provider.
pub const ANY_PREFIX: &[u8] = b"k8s:enc:";

/// A way to encrypt values.
pub(crate) trait Cipher: Send + Sync {
    /// Appends the encrypted value. `place` is where it will lie.
    fn seal(&self, place: &[u8], value: &[u8], out: &mut Vec<u8>) -> Result<(), Error>;

    /// The value, if the key fits and it was not changed.
    fn open(&self, place: &[u8], sealed: &[u8]) -> Option<Vec<u8>>;
}

/// A decrypted value.
#[derive(Debug, PartialEq, Eq)]
pub struct OpenedValue {
    /// The value.
    pub value: Vec<u8>,
    /// Whether it would be encrypted otherwise now.
    pub stale: bool,
}

//! Random bytes.

use crate::Error;

/// Fills `bytes` from the system's source.
pub(crate) fn fill(bytes: &mut [u8]) -> Result<(), Error> {
    aws_lc_rs::rand::fill(bytes).map_err(|_| Error::Crypto {
        action: "get random bytes",
        detail: "the system has none".to_owned(),
    })
}

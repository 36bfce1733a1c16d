//! Digests, for names of files and objects.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// SHA-256, in hexadecimal digits.
#[must_use]
pub fn digest(text: &str) -> String {
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(text.as_bytes()) {
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

//! The file of a backup: a tar archive, compressed by zstd, encrypted by age.
//!
//! ```text
//! about.json       what the backup is                  manifest.rs
//! server/…         files of the server's folder        authorities, keys
//! store/00000001   keys: messages with their lengths   entry.rs, a few MiB each
//! manifest.json    counts, checksums                   without it the file is no backup
//! ```
//!
//! `age -d -i KEY FILE | zstd -d | tar t` lists it without Orlop.

mod read;
mod write;

pub use read::{ArchiveReader, Item};
pub use write::{ArchiveWriter, ServerFile};

const ABOUT: &str = "about.json";
const MANIFEST: &str = "manifest.json";
const FILES: &str = "server/";
const KEYS: &str = "store/";
/// The bytes of keys in one entry.
const CHUNK: usize = 4 << 20;

/// Hexadecimal digits of a digest.
fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;

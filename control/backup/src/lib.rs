//! Backups of a cluster's store and keys; restoring them; moving a store to another one.
//!
//! ```text
//! store ──▶ source ──▶ archive: tar ▶ zstd ▶ age ──▶ place: a folder or an S3 bucket
//!           pages of one revision                        │
//! embedded store, file for etcd, running etcd ◀── restore ◀── archive
//! ```
//!
//! A backup is one file. It contains the keys of the store as of one revision with their
//! metadata, the files of the server's folder (authorities, keys), and last a manifest
//! with counts and checksums: without a manifest it is not a backup. Nothing here knows a
//! kind.

pub mod age;
pub mod archive;
pub mod create;
mod entry;
mod error;
mod manifest;
mod name;
pub mod place;
pub mod restore;
pub mod retention;
pub mod source;
pub mod transfer;

pub use entry::Entry;
pub use error::Error;
pub use manifest::{Manifest, StoreSummary};
pub use name::BackupName;

//! Converts errors of the database library into errors that a person can act on.

use std::io;
use std::path::Path;
use std::sync::Arc;

use redb::{DatabaseError, StorageError};

use super::layout::FORMAT;
use crate::Error;

/// Converts an error of an operation on an open database.
pub(super) fn operation(path: &Path, error: redb::Error) -> Error {
    match error {
        redb::Error::Io(source) => system(path, source),
        redb::Error::PreviousIo => system(path, io::Error::other("an earlier write failed")),
        redb::Error::ValueTooLarge(size) => Error::TooLarge {
            size,
            limit: u32::MAX as usize,
        },
        redb::Error::DatabaseClosed => Error::Closed,
        redb::Error::DatabaseAlreadyOpen => Error::Locked {
            path: path.to_owned(),
        },
        redb::Error::UpgradeRequired(found) => Error::Format {
            path: path.to_owned(),
            found: found.into(),
            known: FORMAT,
        },
        other => corrupt(path, other.to_string()),
    }
}

/// Converts an error of opening a file.
pub(super) fn open(path: &Path, error: DatabaseError) -> Error {
    match error {
        DatabaseError::LockProtocolMismatch => Error::Locked {
            path: path.to_owned(),
        },
        DatabaseError::Storage(StorageError::Io(source))
            if matches!(
                source.kind(),
                io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
            ) =>
        {
            corrupt(path, source.to_string())
        }
        other => operation(path, other.into()),
    }
}

pub(super) fn system(path: &Path, source: io::Error) -> Error {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::Full {
            path: path.to_owned(),
        },
        _ => Error::Io {
            path: path.to_owned(),
            source: Arc::new(source),
        },
    }
}

pub(super) fn corrupt(path: &Path, detail: impl Into<String>) -> Error {
    Error::Corrupt {
        path: path.to_owned(),
        detail: detail.into(),
    }
}

/// A row that cannot be read, in the library's own error type, so that reads and
/// writes have one.
pub(super) fn bad_row(table: &str, at: u64) -> redb::Error {
    redb::Error::Corrupted(format!("row {at} of table `{table}` cannot be read"))
}

/// Returns the message of a panic, for the report of a damaged file.
pub(super) fn panic_text(payload: &(dyn std::any::Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "its pages contradict each other".to_owned())
}

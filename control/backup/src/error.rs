//! Errors of backups.

use std::io;
use std::path::{Path, PathBuf};

/// Reason why a backup is not made, read or restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder.
    #[error("cannot use `{}`", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A backup that cannot be written to where it goes.
    #[error("cannot write the backup")]
    Write(#[source] io::Error),
    /// A backup that is damaged, cut off, or something else.
    #[error("the backup is damaged: {detail}; restore another one")]
    Damaged {
        /// The problem.
        detail: String,
    },
    /// A format of another version.
    #[error(
        "the backup has format {found}, this version reads {known}: use the version that wrote it"
    )]
    Format {
        /// The backup's.
        found: u32,
        /// This version's.
        known: u32,
    },
    /// Encryption.
    #[error("the backup cannot be encrypted or decrypted")]
    Age(#[source] crate::age::Error),
    /// An encrypted backup without an identity.
    #[error("the backup is encrypted: give --identity FILE of one of its recipients")]
    Encrypted,
    /// The store that is read or filled.
    #[error("the store cannot be used")]
    Store(#[source] control_store::Error),
    /// No such backup.
    #[error("there is no backup `{name}` in {place}")]
    NotFound {
        /// Its name.
        name: String,
        /// The place that was searched.
        place: String,
    },
    /// A backup of that name exists.
    #[error("{place} already has `{name}`")]
    Exists {
        /// Its name.
        name: String,
        /// The place.
        place: String,
    },
    /// An option of a place.
    #[error("{0}")]
    Place(String),
    /// An answer of an S3 server.
    #[error("{action} at {place} failed with {status}: {detail}")]
    S3 {
        /// The operation that failed.
        action: &'static str,
        /// The folder or bucket.
        place: String,
        /// The HTTP status.
        status: u16,
        /// The server's message.
        detail: String,
    },
    /// An S3 server that is not reached.
    #[error("cannot reach {place}: check the endpoint, its certificate and the network")]
    Unreachable {
        /// The folder or bucket.
        place: String,
        /// The error of the request.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A target that is not empty.
    #[error("{target} already holds keys: {way_out}")]
    NotEmpty {
        /// The target.
        target: String,
        /// What to do.
        way_out: &'static str,
    },
    /// An etcd whose revision would have to be raised too far.
    #[error(
        "{target} stands at revision {current} and would have to reach {wanted}, so that no client's watch goes back: write a file for etcd instead (--etcd-snapshot FILE), which begins there"
    )]
    TooFar {
        /// The target.
        target: String,
        /// Its revision.
        current: u64,
        /// The one to reach.
        wanted: u64,
    },
    /// A copy differs from its source.
    #[error("{count} keys differ between source and target, the first is `{first}`")]
    Differs {
        /// The number of keys that differ.
        count: u64,
        /// The first such key.
        first: String,
    },
    /// A source that changes after its server has stopped.
    #[error(
        "{target} is still written to after the server stopped: stop the other API servers, too"
    )]
    StillWritten {
        /// The target.
        target: String,
    },
    /// The part that reads ended early.
    #[error("the backup was given up")]
    Cancelled,
}

impl Error {
    pub(crate) fn file(path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_owned();
        move |source| Self::File { path, source }
    }

    pub(crate) fn damaged(detail: impl Into<String>) -> Self {
        Self::Damaged {
            detail: detail.into(),
        }
    }
}

//! Errors of a store, one variant for each failure that a caller must recognise.

use std::path::PathBuf;
use std::sync::Arc;

use crate::Revision;

/// Error of the store. It can be cloned, because one failed commit fails many writers.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The requested revision is compacted. List again and watch from there.
    #[error("revision {requested} has been compacted, the oldest is {compacted}")]
    Compacted {
        /// The requested revision.
        requested: Revision,
        /// Up to where the past is forgotten.
        compacted: Revision,
    },
    /// The revision has not happened yet.
    #[error("revision {requested} is in the future, the newest is {current}")]
    FutureRevision {
        /// The requested revision.
        requested: Revision,
        /// The newest.
        current: Revision,
    },
    /// The value is larger than the store takes.
    #[error("key and value take {size} bytes, the store takes at most {limit}")]
    TooLarge {
        /// The size of key and value together, in bytes.
        size: usize,
        /// The bound, in bytes.
        limit: usize,
    },
    /// Another process has the file open.
    #[error("store `{}` is in use by another process: stop that process, or give this one its own data directory", path.display())]
    Locked {
        /// The store's file.
        path: PathBuf,
    },
    /// The file holds something else than a store, or a damaged one.
    #[error("store `{}` is damaged: {detail}; move the file away and restore a backup, or start with an empty store", path.display())]
    Corrupt {
        /// The store's file.
        path: PathBuf,
        /// The problem that was found.
        detail: String,
    },
    /// The file was written by a version of this program whose format this one
    /// does not know.
    #[error("store `{}` has format {found}, this version reads {known}: use the version that wrote it", path.display())]
    Format {
        /// The store's file.
        path: PathBuf,
        /// The format in the file.
        found: u64,
        /// The format of this version.
        known: u64,
    },
    /// No space left, or a quota is reached.
    #[error("no space left for store `{}`: free space on that file system, writes then go on by themselves", path.display())]
    Full {
        /// The store's file.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("store `{}` cannot be used: check the directory, its permissions and the disk", path.display())]
    Io {
        /// The store's file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: Arc<std::io::Error>,
    },
    /// No member of etcd answers, or none knows its leader. It is unknown
    /// whether a write happened.
    #[error(
        "etcd at {endpoints} does not answer: check that it runs, has a leader, and that addresses and certificates are right"
    )]
    Unreachable {
        /// The members that were tried.
        endpoints: Arc<str>,
        /// The error of the call.
        #[source]
        source: Arc<etcd_client::Error>,
    },
    /// No member of etcd has known a leader for longer than an election takes: the
    /// majority is down or unreachable. Nothing was written.
    #[error(
        "etcd at {endpoints} has had no leader for {seconds} s: bring a majority of its members back, or recover from one of them (`orlop etcd members list` says how they are); resourceVersion=0 reads what is cached"
    )]
    NoLeader {
        /// The members that were tried.
        endpoints: Arc<str>,
        /// For how long.
        seconds: u64,
    },
    /// etcd does not let this client do that.
    #[error(
        "etcd at {endpoints} refused: {reason}; check the client's certificate, user and roles"
    )]
    Refused {
        /// The members that were tried.
        endpoints: Arc<str>,
        /// etcd's own words.
        reason: String,
    },
    /// etcd's quota is used up: it takes no writes but deletions.
    #[error(
        "etcd at {endpoints} has used up its space: compact and defragment it and disarm its alarm (`etcdctl alarm disarm`), or raise --quota-backend-bytes"
    )]
    Quota {
        /// The members that were tried.
        endpoints: Arc<str>,
    },
    /// The lease that a key was to have ran out just then; nothing changed.
    #[error("the lease of the key ran out before it was written: write again")]
    LeaseNotFound,
    /// The lease that a request names was not granted, was revoked, or ran out.
    #[error("there is no lease {id}: grant one first")]
    UnknownLease {
        /// The lease.
        id: i64,
    },
    /// A lease of that number was granted before.
    #[error("lease {id} exists: choose another number, or let the store choose it")]
    LeaseExists {
        /// The lease.
        id: i64,
    },
    /// A write is to keep the value or the lease of a key that does not exist.
    #[error("the key does not exist: write it with a value first")]
    KeyNotFound,
    /// A transaction changes one key twice.
    #[error("the transaction changes a key twice: use two transactions")]
    DuplicateKey,
    /// The store is closing.
    #[error("the store is closed")]
    Closed,
}

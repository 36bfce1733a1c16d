//! A revisioned key-value store with watches; it knows no kinds.
//!
//! A store is an ordered map from keys to values with one counter, the *revision*. Every
//! change takes the next revision; a key remembers the revision that created it and the
//! one that last changed it. This provides everything that the API server needs:
//!
//! * **compare-and-swap**: [`Store::write`] with [`Precondition::ModRevision`] changes a
//!   key only if it has not changed since it was read;
//! * **consistent reads of the past**: [`Range::at`] reads the map as it was, so that a
//!   paginated list is consistent;
//! * **watch**: [`Store::watch`] delivers every change after a revision, in order,
//!   exactly once;
//! * **compaction**: [`Store::compact`] drops the history before a revision; reading it
//!   afterwards fails with [`Error::Compacted`].
//!
//! Terms and rules are etcd's (`etcdserverpb`, API v3), because etcd is the other
//! backend. A new store is at revision 1; the first change is revision 2.
//!
//! [`embedded::EmbeddedStore`] keeps the map in one file, [`etcd::Etcd`] in an etcd cluster.

mod error;
mod types;
mod watch;

pub mod embedded;
pub mod etcd;
pub mod txn;

pub use error::Error;
pub use types::{
    Batch, Event, EventKind, KeyValue, Outcome, Page, Precondition, Range, Revision, Size, Write,
    prefix_end,
};
pub use watch::{Progress, Watch, WatchParts};

use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;

/// A revisioned map of keys to bytes. See the crate's documentation for the
/// rules that every backend keeps.
///
/// Object-safe: the API server holds an `Arc<dyn Store>`.
pub trait Store: Send + Sync + 'static {
    /// The value of `key`, now or as of revision `at`.
    ///
    /// # Errors
    /// [`Error::Compacted`] when `at` was forgotten, [`Error::FutureRevision`]
    /// when it is in the future, or an error of the backend.
    fn get(
        &self,
        key: Bytes,
        at: Option<Revision>,
    ) -> BoxFuture<'_, Result<Option<KeyValue>, Error>>;

    /// The keys of a half-open interval in byte order, now or as of a revision.
    ///
    /// # Errors
    /// As [`Store::get`].
    fn range(&self, range: Range) -> BoxFuture<'_, Result<Page, Error>>;

    /// Changes one key if `precondition` holds. Returns when the change is durable. A
    /// failed precondition is not an error: see [`Outcome::Failed`], which carries the
    /// current value of the key.
    ///
    /// # Errors
    /// [`Error::TooLarge`], or an error of the backend. After any error other than
    /// `TooLarge` it is unknown whether the change happened: read again.
    fn write(
        &self,
        key: Bytes,
        precondition: Precondition,
        write: Write,
    ) -> BoxFuture<'_, Result<Outcome, Error>>;

    /// Watches every change after revision `after` to keys that begin with `prefix`, in
    /// the order of revisions. An empty prefix means all keys.
    ///
    /// The watch keeps its position: a slow reader delays no other and loses nothing,
    /// unless compaction overtakes it; then the watch yields [`Error::Compacted`] and
    /// ends. `after` may be in the future; the watch yields nothing until then.
    fn watch(&self, prefix: Bytes, after: Revision) -> Watch;

    /// Drops the history before `revision`: superseded values and, with them, watches and
    /// reads from before it. The values that are current at `revision` stay readable at
    /// `revision`.
    ///
    /// # Errors
    /// [`Error::Compacted`] if the history is already compacted that far,
    /// [`Error::FutureRevision`], or an error of the backend.
    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), Error>>;

    /// Returns the revision of the store's newest change by any process. Where only this
    /// process writes, that is [`Store::revision`].
    ///
    /// # Errors
    /// Errors of the backend.
    fn latest(&self) -> BoxFuture<'_, Result<Revision, Error>> {
        Box::pin(futures::future::ready(Ok(self.revision())))
    }

    /// Returns the remaining lifetime of keys with a lease; `None` if there is no such
    /// lease.
    ///
    /// # Errors
    /// Errors of the backend.
    fn remaining(&self, _lease: u64) -> BoxFuture<'_, Result<Option<Duration>, Error>> {
        Box::pin(futures::future::ready(Ok(None)))
    }

    /// How much room the store's file takes on a disk, where that can be found out.
    fn size(&self) -> BoxFuture<'_, Option<Size>> {
        Box::pin(futures::future::ready(None))
    }

    /// Returns for how long the store has been unable to take writes or linearizable
    /// reads, where that is known; `None` while it can.
    fn outage(&self) -> Option<Duration> {
        None
    }

    /// Returns the revision of the newest durable change that this process knows of. It
    /// never decreases.
    fn revision(&self) -> Revision;

    /// Returns the compacted revision; 0 if nothing was compacted.
    fn compacted(&self) -> Revision;
}

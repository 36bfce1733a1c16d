//! Revisions, keys, bytes, watch; knows no kind.
//!
//! A store is one ordered map from keys to values with one counter, the
//! *revision*. Every change takes the next revision; a key remembers the
//! revision that created it and the one that last changed it. What follows from
//! this is all that the API server needs:
//!
//! * **compare-and-swap**: [`Store::write`] with [`Precondition::ModRevision`]
//!   changes a key only if nobody else did since it was read;
//! * **consistent reads of the past**: [`Range::at`] reads the map as it was,
//!   so that a list in pages is one list;
//! * **watch**: [`Store::watch`] delivers every change after a revision, in
//!   order, exactly once;
//! * **compaction**: [`Store::compact`] forgets the past up to a revision;
//!   asking for it afterwards answers [`Error::Compacted`].
//!
//! The words and the rules are etcd's (`etcdserverpb`, API v3), because a real
//! etcd is the other backend. A new store stands at revision 1; the first
//! change is revision 2.
//!
//! [`embedded::Embedded`] keeps the map in one file, [`etcd::Etcd`] in an etcd
//! cluster.

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

    /// Changes one key if `precondition` holds. The answer comes when the
    /// change is durable. A failed precondition is no error: see
    /// [`Outcome::Failed`], which carries what the key holds instead.
    ///
    /// # Errors
    /// [`Error::TooLarge`], or an error of the backend. After any error other
    /// than `TooLarge` it is unknown whether the change happened: read again.
    fn write(
        &self,
        key: Bytes,
        precondition: Precondition,
        write: Write,
    ) -> BoxFuture<'_, Result<Outcome, Error>>;

    /// Every change after revision `after` to a key that begins with `prefix`,
    /// in the order of revisions. An empty prefix means all keys.
    ///
    /// The watch holds its place by itself: one that is read slowly delays
    /// nobody and loses nothing, unless compaction overtakes it: then it yields
    /// [`Error::Compacted`] and ends. `after` may lie in the future; nothing
    /// comes until then.
    fn watch(&self, prefix: Bytes, after: Revision) -> Watch;

    /// Forgets all that lies before `revision`: superseded values and, with
    /// them, watches and reads from before it. What is current at `revision`
    /// stays readable at `revision`.
    ///
    /// # Errors
    /// [`Error::Compacted`] when that much is forgotten already,
    /// [`Error::FutureRevision`], or an error of the backend.
    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), Error>>;

    /// The revision of the store's newest change, whoever made it. Where only
    /// this process writes, that is [`Store::revision`].
    ///
    /// # Errors
    /// Errors of the backend.
    fn latest(&self) -> BoxFuture<'_, Result<Revision, Error>> {
        Box::pin(futures::future::ready(Ok(self.revision())))
    }

    /// How long keys with a lease still live; `None` if there is no such lease.
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

    /// For how long the store has not been able to take writes or say what is the present, where
    /// that is known; none while it can.
    fn outage(&self) -> Option<Duration> {
        None
    }

    /// The revision of the newest durable change that this process knows of.
    /// Never goes back.
    fn revision(&self) -> Revision;

    /// The revision up to which the past is forgotten; 0 if none of it.
    fn compacted(&self) -> Revision;
}

//! Requests of etcd's clients beyond [`Store`](crate::Store): transactions over several
//! keys, queries with etcd's options, leases.

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use tokio::sync::oneshot;

use super::writer::{Request, TxnRequest};
use super::{EmbeddedStore, blocking, read};
use crate::txn::{LeaseStatus, Query, Selection, Txn, TxnAnswer};
use crate::{Batch, Error, Revision};

/// A lease request to the writer.
pub(super) enum LeaseRequest {
    Grant {
        id: Option<i64>,
        ttl: u64,
        answer: oneshot::Sender<Result<i64, Error>>,
    },
    Revoke {
        id: i64,
        answer: oneshot::Sender<Result<Revision, Error>>,
    },
    Renew {
        id: i64,
        answer: oneshot::Sender<Result<Option<i64>, Error>>,
    },
    Status {
        id: i64,
        with_keys: bool,
        answer: oneshot::Sender<Result<Option<LeaseStatus>, Error>>,
    },
    List {
        answer: oneshot::Sender<Result<Vec<i64>, Error>>,
    },
}

impl EmbeddedStore {
    /// Performs several operations in one revision. Returns when the change is durable.
    ///
    /// # Errors
    /// [`Error::DuplicateKey`], [`Error::TooLarge`], [`Error::UnknownLease`],
    /// [`Error::KeyNotFound`], [`Error::Compacted`] and [`Error::FutureRevision`] leave
    /// the store unchanged; after an error of the file it is unknown whether the change
    /// happened.
    pub fn transact(&self, txn: Txn) -> BoxFuture<'_, Result<TxnAnswer, Error>> {
        let limit = self.shared.options.max_entry_bytes;
        let size = txn.weight();
        let refused = if size > limit {
            Err(Error::TooLarge { size, limit })
        } else {
            txn.check()
        };
        if let Err(error) = refused {
            return futures::future::ready(Err(error)).boxed();
        }
        self.ask(|answer| Request::Txn(TxnRequest { txn, answer }))
    }

    /// Selects keys with etcd's options.
    ///
    /// # Errors
    /// [`Error::Compacted`], [`Error::FutureRevision`], or an error of the file.
    pub fn query(&self, query: Query) -> BoxFuture<'_, Result<Selection, Error>> {
        let shared = self.shared.clone();
        blocking(move || shared.read(query.at, |transaction| read::query(transaction, &query)))
    }

    /// Returns the writes to keys with `prefix` that are left of the revision up to which
    /// the past is forgotten, and where watches can begin after them.
    ///
    /// # Errors
    /// An error of the file.
    pub fn oldest_writes(&self, prefix: Bytes) -> BoxFuture<'_, Result<Batch, Error>> {
        let shared = self.shared.clone();
        blocking(move || {
            let history = shared.read(None, |transaction| {
                read::oldest_writes(transaction, &prefix)
            })?;
            Ok(Batch {
                events: history.events,
                revision: history.through,
            })
        })
    }

    /// Grants a lease of `ttl` seconds and returns its number, which the store chooses if
    /// `id` is `None`.
    ///
    /// # Errors
    /// [`Error::LeaseExists`], [`Error::UnknownLease`] for a number that no lease can
    /// have, or an error of the file.
    pub fn grant_lease(&self, id: Option<i64>, ttl: u64) -> BoxFuture<'_, Result<i64, Error>> {
        self.ask(|answer| Request::Lease(LeaseRequest::Grant { id, ttl, answer }))
    }

    /// Ends a lease and deletes its keys, all in one revision; returns the newest one.
    ///
    /// # Errors
    /// [`Error::UnknownLease`], or an error of the file.
    pub fn revoke_lease(&self, id: i64) -> BoxFuture<'_, Result<Revision, Error>> {
        self.ask(|answer| Request::Lease(LeaseRequest::Revoke { id, answer }))
    }

    /// Renews a lease and returns its time to live in seconds; `None` if there is no such
    /// lease.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn renew_lease(&self, id: i64) -> BoxFuture<'_, Result<Option<i64>, Error>> {
        self.ask(|answer| Request::Lease(LeaseRequest::Renew { id, answer }))
    }

    /// Returns the state of a lease; `None` if there is no such lease.
    ///
    /// # Errors
    /// An error of the file.
    pub fn lease_status(
        &self,
        id: i64,
        with_keys: bool,
    ) -> BoxFuture<'_, Result<Option<LeaseStatus>, Error>> {
        self.ask(|answer| {
            Request::Lease(LeaseRequest::Status {
                id,
                with_keys,
                answer,
            })
        })
    }

    /// Returns the numbers of all leases, the one that ends next first.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn leases(&self) -> BoxFuture<'_, Result<Vec<i64>, Error>> {
        self.ask(|answer| Request::Lease(LeaseRequest::List { answer }))
    }
}

//! Restores into a running store through its API: an etcd. Values and keys are the same,
//! revisions are new.

use std::sync::Arc;

use bytes::Bytes;
use control_store::{Outcome, Precondition, Range, Revision, Store, Write};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};

use super::RestoreSummary;
use crate::archive::{ArchiveReader, Item};
use crate::{Entry, Error};

/// The number of concurrent writes.
const WRITERS: usize = 128;
/// How many keys wait to be written.
const BATCH: usize = 2048;
/// A key that is written to raise the revision, and deleted then.
const RAISED: &[u8] = b"orlop.dev/revision";
/// The limit by which it is raised.
const MAX_RAISE: Revision = 5_000_000;
/// The number of them after which the history is compacted, so that the file stays small.
const COMPACTED_EVERY: Revision = 100_000;

/// Fills an empty store from a backup, and raises its revision to `ahead` more than the
/// backup's. `check` and the archive are read on this thread: call it where waiting is
/// allowed, inside a runtime.
///
/// # Errors
/// [`Error::NotEmpty`], [`Error::TooFar`], or what cannot be read or written.
pub fn restore_live(
    archive: ArchiveReader,
    store: &Arc<dyn Store>,
    target: &str,
    ahead: Revision,
) -> Result<RestoreSummary, Error> {
    let runtime = tokio::runtime::Handle::current();
    runtime.block_on(ensure_empty(&**store, target))?;
    let (mut files, mut batch) = (Vec::new(), Vec::new());
    let manifest = archive.read(|item| {
        match item {
            Item::About(about) => {
                let wanted = about.revision.saturating_add(ahead);
                check_raise(store.revision(), wanted, target)?;
            }
            Item::File(file) => files.push(file),
            Item::Key(entry) => {
                batch.push(entry);
                if batch.len() == BATCH {
                    let entries = std::mem::take(&mut batch);
                    runtime.block_on(put_all(&**store, entries))?;
                }
            }
        }
        Ok(())
    })?;
    let revision = runtime.block_on(async {
        put_all(&**store, batch).await?;
        let wanted = manifest.about.revision.saturating_add(ahead);
        raise_revision(&**store, wanted, target).await
    })?;
    Ok(RestoreSummary {
        manifest,
        files,
        revision,
    })
}

pub(crate) async fn ensure_empty(store: &dyn Store, target: &str) -> Result<(), Error> {
    let all = Range {
        limit: 1,
        ..Range::prefix(Bytes::new())
    };
    let page = store.range(all).await.map_err(Error::Store)?;
    if page.kvs.is_empty() {
        return Ok(());
    }
    Err(Error::NotEmpty {
        target: target.to_owned(),
        way_out: "use an etcd that is empty, or restore into a file for a new one (--etcd-snapshot FILE)",
    })
}

/// Writes keys with their values, each with the life that is left to it.
pub(crate) async fn put_all(store: &dyn Store, entries: Vec<Entry>) -> Result<(), Error> {
    stream::iter(entries)
        .map(|entry| async move {
            let write = Write::Put {
                ttl: entry.remaining(),
                value: entry.value,
            };
            let written = store.write(entry.key, Precondition::Any, write).await;
            written.map(drop).map_err(Error::Store)
        })
        .buffer_unordered(WRITERS)
        .try_collect()
        .await
}

fn check_raise(current: Revision, wanted: Revision, target: &str) -> Result<(), Error> {
    if wanted.saturating_sub(current) > MAX_RAISE {
        return Err(Error::TooFar {
            target: target.to_owned(),
            current,
            wanted,
        });
    }
    Ok(())
}

/// Raises the revision of a store to `wanted` at least, by writing one key as often as it
/// takes, and forgets the past before it; returns the revision.
///
/// # Errors
/// [`Error::TooFar`], [`Error::Store`].
pub async fn raise_revision(
    store: &dyn Store,
    wanted: Revision,
    target: &str,
) -> Result<Revision, Error> {
    let mut current = store.latest().await.map_err(Error::Store)?;
    check_raise(current, wanted, target)?;
    let key = || Bytes::from_static(RAISED);
    let mut is_raised = false;
    while current < wanted {
        let count = (wanted - current).min(COMPACTED_EVERY);
        stream::iter(0..count)
            .map(|_| {
                let write = Write::Put {
                    value: Bytes::new(),
                    ttl: None,
                };
                store.write(key(), Precondition::Any, write)
            })
            .buffer_unordered(WRITERS)
            .try_for_each(|_: Outcome| std::future::ready(Ok(())))
            .await
            .map_err(Error::Store)?;
        is_raised = true;
        current = store.latest().await.map_err(Error::Store)?;
        compact(store, current).await?;
    }
    if is_raised {
        let deleted = store.write(key(), Precondition::Any, Write::Delete).await;
        deleted.map_err(Error::Store)?;
        current = store.latest().await.map_err(Error::Store)?;
        compact(store, current).await?;
    }
    Ok(current)
}

async fn compact(store: &dyn Store, revision: Revision) -> Result<(), Error> {
    match store.compact(revision).await {
        // Another process has done so.
        Ok(()) | Err(control_store::Error::Compacted { .. }) => Ok(()),
        Err(error) => Err(Error::Store(error)),
    }
}

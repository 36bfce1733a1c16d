//! Events that the ring has forgotten and the store has not.
//!
//! A client that was away for longer than the ring reaches back, or that
//! watched the process before this one, goes on from where it was: its watch
//! reads the store's history until it meets the ring. Only what the store has
//! compacted must be listed anew.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use control_store::{EventKind, KeyValue, Revision, Watch};

use super::object::{CacheEntry, Change};
use super::resource::{Event, ResourceCache};
use super::{Caches, opened};
use crate::storage::Transform;

/// One resource's events out of the store, from some revision on.
pub struct HistoryReplay {
    cache: Arc<ResourceCache>,
    transform: Transform,
    watch: Watch,
    events: VecDeque<Event>,
    /// Everything up to here has been read from the store.
    revision: Revision,
}

/// What the store's history says next.
#[derive(Debug)]
pub enum ReplayStep {
    /// An event.
    Event(Event),
    /// The ring goes on from this sequence number.
    Ring(u64),
}

impl std::fmt::Debug for HistoryReplay {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("HistoryReplay")
            .field("cache", &self.cache)
            .field("revision", &self.revision)
            .finish_non_exhaustive()
    }
}

impl Caches {
    /// The events of `cache` after `revision`, out of the store.
    #[must_use]
    pub fn past(&self, cache: &Arc<ResourceCache>, revision: Revision) -> HistoryReplay {
        let prefix = Bytes::copy_from_slice(cache.prefix().as_bytes());
        HistoryReplay {
            cache: Arc::clone(cache),
            transform: self.reader.transform.clone(),
            watch: self.store.watch(prefix, revision),
            events: VecDeque::new(),
            revision,
        }
    }
}

impl HistoryReplay {
    /// Up to where the store was read.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The next event, or where the ring takes over.
    ///
    /// # Errors
    /// When the store has forgotten the revision, or does not answer.
    pub async fn next(&mut self) -> Result<ReplayStep, control_store::Error> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(ReplayStep::Event(event));
            }
            if let Ok(next) = self.cache.first_after(self.revision) {
                return Ok(ReplayStep::Ring(next));
            }
            // History of other resources alone makes no batch: have the store
            // say how far it has come, so that this meets the ring.
            self.watch.progress().request();
            let batch = match self.watch.next().await {
                Some(batch) => batch?,
                None => return Err(control_store::Error::Closed),
            };
            self.revision = self.revision.max(batch.revision);
            let events = batch.events.iter().filter_map(|event| self.event(event));
            self.events = events.collect();
        }
    }

    fn event(&self, event: &control_store::Event) -> Option<Event> {
        let key = std::str::from_utf8(&event.kv.key).ok()?;
        let key = key.strip_prefix(self.cache.prefix())?;
        let previous = event
            .previous
            .as_ref()
            .and_then(|previous| self.object(key, previous));
        let revision = event.kv.mod_revision;
        let (change, object) = match (event.kind, &previous) {
            (EventKind::Put, None) => (Change::Added, self.object(key, &event.kv)?),
            (EventKind::Put, Some(_)) => (Change::Modified, self.object(key, &event.kv)?),
            (EventKind::Delete, Some(previous)) => (
                Change::Deleted,
                Arc::new(previous.at_revision(revision, Change::Deleted)),
            ),
            (EventKind::Delete, None) => return None,
        };
        Some(Event::new(change, object, previous))
    }

    fn object(&self, key: &str, kv: &KeyValue) -> Option<Arc<CacheEntry>> {
        opened(&self.transform, &self.cache, key, kv)
    }
}

#[cfg(test)]
mod tests {
    use control_store::embedded::{EmbeddedStore, Options};
    use control_store::{Precondition, Store, Write};
    use control_types::value;

    use super::*;
    use crate::encode;

    async fn write(store: &dyn Store, name: &str, write: Option<&str>) {
        let key = Bytes::from(format!("/registry/configmaps/{name}"));
        let write = match write {
            Some(data) => Write::Put {
                value: encode(&value!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": (name)}, "data": {"a": (data)}})).into(),
                ttl: None,
            },
            None => Write::Delete,
        };
        store
            .write(key, Precondition::Any, write)
            .await
            .expect("written");
    }

    #[tokio::test]
    async fn what_the_ring_has_forgotten_comes_from_the_store_and_then_the_ring_goes_on() {
        let dir = tempfile::tempdir().expect("a directory");
        let store: Arc<dyn Store> =
            Arc::new(EmbeddedStore::open_in(dir.path(), Options::default()).expect("a store"));
        for (name, data) in [
            ("a", Some("1")),
            ("b", Some("1")),
            ("a", Some("2")),
            ("b", None),
        ] {
            write(&*store, name, data).await;
        }
        let kind = control_kinds::find_kind("", "ConfigMap");
        let cache = Arc::new(ResourceCache::new(kind.into(), "/registry/configmaps/"));
        cache.fill(Vec::new(), store.revision());
        let caches = Caches::new(
            [Arc::clone(&cache)],
            Arc::clone(&store),
            Transform::default(),
        );
        let first = store.revision() - 3;
        let mut past = caches.past(&cache, first);
        let mut seen = Vec::new();
        let next = loop {
            match past.next().await.expect("history") {
                ReplayStep::Event(event) => seen.push((
                    event.change,
                    event.object.name().to_owned(),
                    event.object.revision() - first,
                    event.previous.is_some(),
                )),
                ReplayStep::Ring(next) => break next,
            }
        };
        assert_eq!(
            seen,
            [
                (Change::Added, "b".to_owned(), 1, false),
                (Change::Modified, "a".to_owned(), 2, true),
                (Change::Deleted, "b".to_owned(), 3, true)
            ]
        );
        assert_eq!((next, past.revision()), (0, store.revision()));
    }

    #[tokio::test]
    async fn what_the_store_has_compacted_is_an_error() {
        let dir = tempfile::tempdir().expect("a directory");
        let store: Arc<dyn Store> =
            Arc::new(EmbeddedStore::open_in(dir.path(), Options::default()).expect("a store"));
        write(&*store, "a", Some("1")).await;
        write(&*store, "a", Some("2")).await;
        store.compact(store.revision()).await.expect("compacted");
        let kind = control_kinds::find_kind("", "ConfigMap");
        let cache = Arc::new(ResourceCache::new(kind.into(), "/registry/configmaps/"));
        cache.fill(Vec::new(), store.revision());
        let caches = Caches::new(
            [Arc::clone(&cache)],
            Arc::clone(&store),
            Transform::default(),
        );
        assert!(matches!(
            caches.past(&cache, 1).next().await,
            Err(control_store::Error::Compacted { .. })
        ));
    }
}

//! Whether a cache holds what the store holds.
//!
//! They are compared as of one revision, which both know: the newest that the cache
//! has surely taken in. Values are not looked at, since one revision of a key has one
//! value.

use control_store::{Error, KeyValue, Range, Revision};

use super::resource::{ResourceCache, State};
use super::tree::{Position, TreeEntry as _};
use super::{Caches, ComparisonResult};

/// How many keys are read from the store at a time.
const PAGE: usize = 500;

impl Caches {
    /// Compares a cache with the store, and counts the result. Answers the first key on
    /// which they differ.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn compare(&self, cache: &ResourceCache) -> Result<Option<String>, Error> {
        let compared = self.difference(cache).await;
        cache.counts().compared(match &compared {
            Ok(None) => ComparisonResult::Same,
            Ok(Some(_)) => ComparisonResult::Different,
            Err(_) => ComparisonResult::Unknown,
        });
        compared
    }

    async fn difference(&self, cache: &ResourceCache) -> Result<Option<String>, Error> {
        // First the number: the snapshot has at least all that had happened by then.
        let applied = self.applied();
        let state = cache.state();
        let mut range = Range {
            at: Some(applied.max(state.revision)),
            limit: PAGE,
            ..Range::prefix(cache.prefix().to_owned())
        };
        let mut next = SnapshotCursor::of(&state);
        loop {
            let page = self.store.range(range.clone()).await?;
            if let Some(key) = next.differs(cache.prefix(), &page.kvs) {
                return Ok(Some(key));
            }
            if !page.more {
                return Ok(next.rest());
            }
            if let Some(last) = page.kvs.last() {
                range.start = [&*last.key, &[0]].concat().into();
            }
        }
    }
}

/// The object of a snapshot that the store should have next.
struct SnapshotCursor<'s> {
    state: &'s State,
    position: Position,
}

impl<'s> SnapshotCursor<'s> {
    fn of(state: &'s State) -> Self {
        Self {
            state,
            position: Position::default(),
        }
    }

    /// The first key of a page of the store that is not the next of the snapshot.
    fn differs(&mut self, prefix: &str, page: &[KeyValue]) -> Option<String> {
        page.iter().find_map(|kv| {
            let key = String::from_utf8_lossy(&kv.key);
            let key = key.strip_prefix(prefix).unwrap_or(&key);
            if self.take() == Some((key, kv.mod_revision)) {
                return None;
            }
            Some(key.to_owned())
        })
    }

    /// What the snapshot has and the store has not.
    fn rest(&mut self) -> Option<String> {
        self.take().map(|(key, _)| key.to_owned())
    }

    fn take(&mut self) -> Option<(&'s str, Revision)> {
        let (object, next) = self.state.objects.at(self.position)?;
        self.position = next;
        Some((object.key(), object.revision()))
    }
}

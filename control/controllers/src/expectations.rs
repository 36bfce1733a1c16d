//! Tracks whether the cache shows a controller's own writes.
//!
//! Between a write and its event the cache is stale: a controller that counts pods in it
//! would create some twice. So it records expected events, which the events decrement,
//! and changes no sizes until all have arrived.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::views::Text;

/// An event that has not come by then was missed; the cache is right again.
pub(crate) const FORGOTTEN_AFTER: Duration = Duration::from_secs(300);

/// Records of writes whose events have not arrived yet, per controlled object.
#[derive(Debug)]
pub struct Expectations<K>(Mutex<HashMap<K, Note>>);

#[derive(Debug)]
struct Note {
    creations: usize,
    deletions: HashSet<Text>,
    since: Instant,
}

impl Default for Note {
    fn default() -> Self {
        Self {
            creations: 0,
            deletions: HashSet::new(),
            since: Instant::now(),
        }
    }
}

impl<K> Default for Expectations<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Hash + Eq + Clone> Expectations<K> {
    /// Expects `count` creations, which are about to be requested.
    pub fn expect_creations(&self, key: &K, count: usize) {
        let mut notes = self.lock();
        let note = notes.entry(key.clone()).or_default();
        note.creations += count;
        note.since = Instant::now();
    }

    /// Expects the deletion of these uids, which is about to be requested.
    pub fn expect_deletions(&self, key: &K, uids: impl IntoIterator<Item = Text>) {
        let mut notes = self.lock();
        let note = notes.entry(key.clone()).or_default();
        note.deletions.extend(uids);
        note.since = Instant::now();
    }

    /// A creation was seen, or failed.
    pub fn created(&self, key: &K) {
        self.lower(key, |note| {
            note.creations = note.creations.saturating_sub(1);
        });
    }

    /// The deletion of `uid` was seen to begin or end, or failed.
    pub fn deleted(&self, key: &K, uid: &str) {
        self.lower(key, |note| {
            note.deletions.remove(uid);
        });
    }

    /// Whether everything was seen, or waited for too long.
    #[must_use]
    pub fn settled(&self, key: &K) -> bool {
        let mut notes = self.lock();
        match notes.get(key) {
            None => true,
            Some(note) if note.since.elapsed() > FORGOTTEN_AFTER => {
                notes.remove(key);
                true
            }
            Some(_) => false,
        }
    }

    /// Returns the uids whose deletion was requested and has not been observed yet.
    #[must_use]
    pub fn leaving(&self, key: &K) -> HashSet<Text> {
        let notes = self.lock();
        notes
            .get(key)
            .map(|note| note.deletions.clone())
            .unwrap_or_default()
    }

    /// Forgets a deleted object.
    pub fn forget(&self, key: &K) {
        self.lock().remove(key);
    }

    fn lower(&self, key: &K, change: impl FnOnce(&mut Note)) {
        let mut notes = self.lock();
        if let Some(note) = notes.get_mut(key) {
            change(note);
            if note.creations == 0 && note.deletions.is_empty() {
                notes.remove(key);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<K, Note>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settled_when_all_events_came() {
        let e = Expectations::default();
        assert!(e.settled(&1));
        e.expect_creations(&1, 2);
        e.expect_deletions(&1, ["a".into()]);
        e.created(&1);
        e.deleted(&1, "a");
        assert!(!e.settled(&1));
        e.created(&1);
        assert!(e.settled(&1));
    }

    #[test]
    fn events_of_others_do_not_count() {
        let e = Expectations::default();
        e.expect_deletions(&1, ["a".into()]);
        e.deleted(&1, "b");
        e.deleted(&2, "a");
        assert!(!e.settled(&1));
        e.deleted(&1, "a");
        // a deletion is told twice: begun and done
        e.deleted(&1, "a");
        assert!(e.settled(&1));
    }
}

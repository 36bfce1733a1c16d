//! Tracks whether the cache shows a controller's last write.
//!
//! A decision from an object as it was before the controller's own last write would
//! conflict with that write or repeat it. Revisions can be compared (KEP-5504), so the
//! controller remembers the revision of its write and waits for the event, which wakes
//! it; several changes in between are then handled together.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use control_client::{Error, Meta};

use crate::key::Key;

/// After this time the cache is believed: the object may have been deleted
/// between the write and the event, or the server's revisions are no numbers.
const BELIEVED_AFTER: Duration = Duration::from_secs(2);

/// The revisions of the last writes.
#[derive(Debug, Default)]
pub struct OwnWrites(Mutex<HashMap<Key, (u64, Instant)>>);

impl OwnWrites {
    /// Records the server's response to a write.
    pub fn note(&self, answer: &Meta) {
        if let Some(revision) = answer.revision() {
            self.0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(Key::from_meta(answer), (revision, Instant::now()));
        }
    }

    /// Records the response to the write of a status. A deleted object is ignored.
    ///
    /// # Errors
    /// Any other failure of the write.
    pub fn record_answer(&self, answer: Result<Meta, Error>) -> Result<(), Error> {
        match answer {
            Ok(meta) => {
                self.note(&meta);
                Ok(())
            }
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns the longest wait until the cache shows the last write to `key`; `None` if
    /// it does. `cached` is what the cache shows.
    #[must_use]
    pub fn behind(&self, key: &Key, cached: Option<&Meta>) -> Option<Duration> {
        let mut writes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (revision, since) = *writes.get(key)?;
        let shown = cached
            .and_then(Meta::revision)
            .is_some_and(|r| r >= revision);
        // A zero wait would be repeated without end.
        let left = BELIEVED_AFTER.checked_sub(since.elapsed());
        let left = left.filter(|left| !left.is_zero());
        if shown || left.is_none() {
            writes.remove(key);
            return None;
        }
        left
    }

    /// Forgets a deleted object.
    pub fn forget(&self, key: &Key) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(revision: &str) -> Meta {
        Meta {
            name: "a".into(),
            resource_version: revision.into(),
            ..Meta::default()
        }
    }

    #[test]
    fn cache_is_behind_until_it_shows_the_write() {
        let written = OwnWrites::default();
        let key = Key::new("", "a");
        assert_eq!(written.behind(&key, None), None);
        written.note(&meta("100"));
        assert!(written.behind(&key, Some(&meta("99"))).is_some());
        assert!(written.behind(&key, None).is_some());
        assert_eq!(written.behind(&key, Some(&meta("100"))), None);
        // once shown, it is not asked again
        assert_eq!(written.behind(&key, Some(&meta("99"))), None);
    }

    #[test]
    fn revisions_that_are_no_numbers_are_not_waited_for() {
        let written = OwnWrites::default();
        written.note(&meta("abc"));
        assert_eq!(written.behind(&Key::new("", "a"), None), None);
    }
}

//! Limits events about a lasting condition.
//!
//! A loop that retries would record the same event at each attempt, and often with
//! another message: free space, for example, changes between attempts, so that the
//! correlator takes them for different events.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::ObjectReference;

/// The interval at which a lasting condition is recorded again, so that its event does
/// not expire.
const AGAIN: Duration = Duration::from_secs(600);

/// The limit on entries; beyond it, entries that no longer suppress anything are dropped.
const REMEMBERED: usize = 4096;

/// Lets an event through when it begins, when its cause is another one, and every ten
/// minutes.
#[derive(Debug, Default)]
pub struct RepeatFilter {
    said: Mutex<HashMap<(ObjectReference, String), LastEvent>>,
}

#[derive(Debug)]
struct LastEvent {
    cause: String,
    at: Instant,
}

impl RepeatFilter {
    /// Returns whether to record an event about an object. `cause` is the part that does
    /// not change while the condition lasts, such as an error code; it need not be
    /// readable.
    pub fn passes(&self, about: &ObjectReference, reason: &str, cause: &str) -> bool {
        self.passes_at(Instant::now(), about, reason, cause)
    }

    fn passes_at(&self, now: Instant, about: &ObjectReference, reason: &str, cause: &str) -> bool {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let is_old = |said: &LastEvent| now.duration_since(said.at) >= AGAIN;
        if said.len() > REMEMBERED {
            said.retain(|_, said| !is_old(said));
        }
        let key = (about.clone(), reason.to_owned());
        if said
            .get(&key)
            .is_some_and(|said| said.cause == cause && !is_old(said))
        {
            return false;
        }
        let cause = cause.to_owned();
        said.insert(key, LastEvent { cause, at: now });
        true
    }

    /// Forgets the events about an object, so that the next one is recorded immediately.
    pub fn forget(&self, about: &ObjectReference) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.retain(|(object, _), _| object != about);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(name: &str) -> ObjectReference {
        ObjectReference {
            name: name.to_owned(),
            ..ObjectReference::default()
        }
    }

    #[test]
    fn what_lasts_is_said_once_and_again_when_its_cause_changes_or_time_has_passed() {
        let filter = RepeatFilter::default();
        let now = Instant::now();
        let passes = |at: Instant, name: &str, reason: &str, cause: &str| {
            filter.passes_at(at, &claim(name), reason, cause)
        };
        assert!(passes(now, "a", "Failed", "full"));
        assert!(!passes(now, "a", "Failed", "full"));
        assert!(passes(now, "b", "Failed", "full"), "another object");
        assert!(passes(now, "a", "Other", "full"), "another reason");
        assert!(passes(now, "a", "Failed", "gone"));
        assert!(!passes(now + AGAIN / 2, "a", "Failed", "gone"));
        assert!(passes(now + AGAIN, "a", "Failed", "gone"));
        assert!(!passes(now + AGAIN, "a", "Failed", "gone"));
    }

    #[test]
    fn what_is_over_is_said_at_once_when_it_comes_back() {
        let filter = RepeatFilter::default();
        assert!(filter.passes(&claim("a"), "Failed", "full"));
        assert!(filter.passes(&claim("b"), "Failed", "full"));
        filter.forget(&claim("a"));
        assert!(filter.passes(&claim("a"), "Failed", "full"));
        assert!(!filter.passes(&claim("b"), "Failed", "full"));
    }

    #[test]
    fn many_objects_are_not_remembered_for_ever() {
        let filter = RepeatFilter::default();
        let now = Instant::now();
        for number in 0..=REMEMBERED {
            assert!(filter.passes_at(now, &claim(&number.to_string()), "Failed", ""));
        }
        assert!(filter.passes_at(now + AGAIN, &claim("last"), "Failed", ""));
        assert_eq!(filter.said.lock().expect("a lock").len(), 1);
    }
}

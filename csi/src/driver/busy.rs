//! Tracks which objects operations work on: a second operation on one of them is asked to
//! retry, as the specification recommends.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, Result};

/// How an object is held.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hold {
    /// Used by operations that only read it.
    Shared(usize),
    /// Used by one that changes it.
    Exclusive,
}

/// The objects that are held.
#[derive(Clone, Default)]
pub(super) struct Busy(Arc<Mutex<BTreeMap<String, Hold>>>);

/// Holds an object until it is dropped.
pub(super) struct Guard {
    busy: Busy,
    key: String,
}

impl Busy {
    /// Holds an object that is going to change.
    pub(super) fn change(&self, kind: &str, id: &str) -> Result<Guard> {
        self.hold(kind, id, |held| match held {
            None => Some(Hold::Exclusive),
            Some(_) => None,
        })
    }

    /// Holds an object that must not change.
    pub(super) fn read(&self, kind: &str, id: &str) -> Result<Guard> {
        self.hold(kind, id, |held| match held {
            None => Some(Hold::Shared(1)),
            Some(Hold::Shared(count)) => Some(Hold::Shared(count + 1)),
            Some(Hold::Exclusive) => None,
        })
    }

    fn hold(
        &self,
        kind: &str,
        id: &str,
        next: impl FnOnce(Option<Hold>) -> Option<Hold>,
    ) -> Result<Guard> {
        let key = format!("{kind}/{id}");
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let hold =
            next(held.get(&key).copied()).ok_or_else(|| Error::Busy { id: id.to_owned() })?;
        held.insert(key.clone(), hold);
        Ok(Guard {
            busy: self.clone(),
            key,
        })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut held = self.busy.0.lock().unwrap_or_else(PoisonError::into_inner);
        match held.get_mut(&self.key) {
            Some(Hold::Shared(count)) if *count > 1 => *count -= 1,
            _ => {
                held.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_share_and_a_change_is_alone() {
        let busy = Busy::default();
        let one = busy.read("volume", "a").unwrap();
        let two = busy.read("volume", "a").unwrap();
        assert!(busy.change("volume", "a").is_err());
        assert!(busy.change("snapshot", "a").is_ok());
        drop(one);
        assert!(busy.change("volume", "a").is_err());
        drop(two);
        let change = busy.change("volume", "a").unwrap();
        assert!(busy.read("volume", "a").is_err());
        drop(change);
        assert!(busy.read("volume", "a").is_ok());
    }
}

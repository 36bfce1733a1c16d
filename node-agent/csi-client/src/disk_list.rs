//! What was found on disk, for as long as nothing of it changed: the folders of all
//! pods are not opened again each time that the node's status is looked at.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// After so long the disk is looked at though nobody told of a change: another program
/// may have made one. As often as the node's status is written unchanged.
const GOOD_FOR: Duration = Duration::from_secs(300);

/// A list computed from files on disk and cached until they change.
#[derive(Default)]
pub(super) struct DiskList {
    changes: AtomicU64,
    known: Mutex<Option<CachedList>>,
}

struct CachedList {
    /// The count of changes before it was made.
    changes: u64,
    at: Instant,
    names: Vec<String>,
}

impl DiskList {
    /// Tells that something changed; after it did.
    pub(super) fn changed(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// Tells so at the end of a scope, however that comes.
    pub(super) fn changing(&self) -> ListChange<'_> {
        ListChange(self)
    }

    /// The list; `make` makes it where the known one may be wrong.
    pub(super) fn get(&self, make: impl FnOnce() -> Vec<String>) -> Vec<String> {
        // before it is made: what changes meanwhile counts for the next time
        let changes = self.changes.load(Ordering::Acquire);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some(one) if one.changes == changes && one.at.elapsed() < GOOD_FOR => one.names.clone(),
            _ => {
                let names = make();
                *known = Some(CachedList {
                    changes,
                    at: Instant::now(),
                    names: names.clone(),
                });
                names
            }
        }
    }
}

pub(super) struct ListChange<'a>(&'a DiskList);

impl Drop for ListChange<'_> {
    fn drop(&mut self) {
        self.0.changed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_made_once_a_change_and_one_meanwhile_counts() {
        let (listed, made) = (DiskList::default(), std::cell::Cell::new(0));
        let make = || {
            made.set(made.get() + 1);
            vec![made.get().to_string()]
        };
        assert_eq!(listed.get(make), ["1"]);
        assert_eq!(listed.get(make), ["1"]);
        listed.changed();
        assert_eq!(listed.get(make), ["2"]);
        drop(listed.changing());
        let meanwhile = || {
            listed.changed();
            make()
        };
        assert_eq!(listed.get(meanwhile), ["3"]);
        assert_eq!(listed.get(make), ["4"]);
        assert_eq!(listed.get(make), ["4"]);
    }
}

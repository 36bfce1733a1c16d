//! The writer of a reflector's cache, and the changes that it reports.

use std::sync::{Arc, PoisonError};

use super::{Change, ReflectorShared};
use crate::cache::Store;
use crate::resource::Object;

/// The only writer of a cache. It collects changes, publishes them in the cache and then
/// sends them to subscribers.
pub(super) struct Writer<V> {
    store: Store<V>,
    pending: Vec<Change<V>>,
    /// Objects that were read and are not in the cache until all are.
    pub(super) gathered: Vec<V>,
    pub(super) shared: Arc<ReflectorShared<V>>,
}

// === impl Writer ===

impl<V: Object> Writer<V> {
    pub(super) fn new(shared: Arc<ReflectorShared<V>>) -> Self {
        // An earlier run may have published objects: subscribers receive the difference.
        let published = shared.published.load().objects().cloned().collect();
        Self {
            store: Store::from_objects(published),
            pending: Vec::new(),
            gathered: Vec::new(),
            shared,
        }
    }

    pub(super) fn insert(&mut self, object: V) {
        if let Some(known) = self.store.get(&object)
            && !is_newer(&object, known)
        {
            return;
        }
        let current = Arc::new(object);
        let previous = self.store.insert(Arc::clone(&current));
        self.note(previous, current);
    }

    /// Notes that an object was added or changed. If the uid of a known name changed, the
    /// deletion was missed, and is noted first.
    fn note(&mut self, mut previous: Option<Arc<V>>, current: Arc<V>) {
        if let Some(gone) = previous.take_if(|known| !current.has_uid_of(known)) {
            self.pending.push(Change {
                previous: Some(gone),
                current: None,
            });
        }
        self.pending.push(Change {
            previous,
            current: Some(current),
        });
    }

    pub(super) fn delete(&mut self, object: &V) {
        if let Some(known) = self.store.get(object)
            && known.has_uid_of(object)
            && let (Some(deleted), Some(known)) = (object.revision(), known.revision())
            && deleted < known
        {
            return;
        }
        if let Some(previous) = self.store.remove(object) {
            self.pending.push(Change {
                previous: Some(previous),
                current: None,
            });
        }
    }

    /// Replaces all objects. Those that are missing from `objects` are deleted.
    pub(super) fn replace(&mut self, objects: Vec<V>) {
        let mut next: Vec<Arc<V>> = Vec::with_capacity(objects.len());
        for object in objects {
            // what did not change stays the same allocation
            match self.store.get(&object) {
                Some(known) if is_same(&object, known) => next.push(Arc::clone(known)),
                _ => next.push(Arc::new(object)),
            }
        }
        let next = Store::from_objects(next);
        for current in next.iter() {
            let previous = self.store.get(current);
            if !previous.is_some_and(|previous| Arc::ptr_eq(previous, current)) {
                let previous = previous.cloned();
                self.note(previous, Arc::clone(current));
            }
        }
        for previous in self.store.iter() {
            if next.get(previous).is_none() {
                self.pending.push(Change {
                    previous: Some(Arc::clone(previous)),
                    current: None,
                });
            }
        }
        self.store = next;
        self.publish_pending();
        self.shared.synced.send_replace(true);
    }

    /// Whether changes wait to be published.
    pub(super) const fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Publishes the pending changes in the cache, then sends them to subscribers.
    pub(super) fn publish_pending(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let mut subscribers = self
            .shared
            .subscribers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.store.publish(&self.shared.published);
        let Some((last, others)) = subscribers.split_last() else {
            self.pending.clear();
            return;
        };
        for change in self.pending.drain(..) {
            for subscriber in others {
                subscriber.send(change.clone());
            }
            last.send(change);
        }
        subscribers.retain(|subscriber| !subscriber.sender.is_closed());
    }
}

fn is_same<V: Object>(new: &V, known: &V) -> bool {
    new.has_uid_of(known)
        && new.resource_version() == known.resource_version()
        && !new.resource_version().is_empty()
}

/// Whether an event is newer than the known object. Revisions are comparable within
/// the life of an object (KEP-5504); where they are no numbers, the order of
/// arrival counts.
fn is_newer<V: Object>(new: &V, known: &V) -> bool {
    if !new.has_uid_of(known) {
        return true;
    }
    match (new.revision(), known.revision()) {
        (Some(new), Some(known)) => new > known,
        _ => !is_same(new, known),
    }
}

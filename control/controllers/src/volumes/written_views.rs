//! Objects as they were written last, until the caches show them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use control_client::View;

use crate::key::Key;

use crate::kind_cache::KindCache;

/// The answers to the last writes, in front of a cache: a decision on an object as it was
/// before one's own write would bind a second volume.
pub(super) struct WrittenViews<V: View> {
    kind: Arc<KindCache<V>>,
    written: Mutex<HashMap<Key, Arc<V>>>,
}

impl<V: View> WrittenViews<V> {
    /// Stands in front of a cache.
    pub(super) fn over(kind: Arc<KindCache<V>>) -> Self {
        Self {
            kind,
            written: Mutex::default(),
        }
    }

    /// Keeps the answer to a write.
    pub(super) fn note(&self, view: &Arc<V>) {
        self.written
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(Key::from_meta(view.meta()), Arc::clone(view));
    }

    /// Returns the newest known version of an object. An object that the cache does not
    /// show was deleted: only objects that it shows are written.
    pub(super) fn get(&self, key: &Key) -> Option<Arc<V>> {
        let cached = self.kind.by_key(key);
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(newer) = written.get(key) else {
            return cached;
        };
        match cached {
            Some(cached) if is_newer(newer.as_ref(), cached.as_ref()) => Some(Arc::clone(newer)),
            other => {
                written.remove(key);
                other
            }
        }
    }

    /// All objects in their newest known versions.
    pub(super) fn all(&self) -> Vec<Arc<V>> {
        let mut all = self.kind.all();
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if !written.is_empty() {
            for object in &mut all {
                let newer = written.get(&Key::from_meta(object.meta()));
                if let Some(newer) = newer.filter(|newer| is_newer(newer.as_ref(), object)) {
                    *object = Arc::clone(newer);
                }
            }
        }
        all
    }
}

fn is_newer<V: View>(written: &V, cached: &V) -> bool {
    let (written, cached) = (written.meta(), cached.meta());
    written.uid == cached.uid && written.revision() > cached.revision()
}

//! Caches and their objects for readers who do not know the store.

use std::sync::Arc;

use control_strategy::{CachedObject, ObjectCache};
use control_types::status::Status;
use control_types::value::{Pick, Value};

use crate::{CacheEntry, ResourceCache, TreeEntry};

impl CachedObject for CacheEntry {
    fn key(&self) -> &str {
        TreeEntry::key(self)
    }

    fn revision(&self) -> u64 {
        Self::revision(self)
    }

    fn label(&self, key: &str) -> Option<&str> {
        Self::label(self, key)
    }

    fn field(&self, name: &str) -> Option<&str> {
        Self::field(self, name)
    }

    fn value(&self) -> Result<Value, Status> {
        Self::value(self).map_err(Status::internal)
    }

    fn pick(&self, parts: &Pick) -> Result<Value, Status> {
        Self::pick(self, parts).map_err(Status::internal)
    }
}

impl ObjectCache for ResourceCache {
    fn is_empty(&self) -> bool {
        Self::is_empty(self)
    }

    fn revision(&self) -> u64 {
        self.state().revision
    }

    fn get(&self, key: &str) -> Option<Arc<dyn CachedObject>> {
        let object = Self::get(self, key)?;
        Some(object)
    }

    fn list(&self, namespace: &str) -> (u64, Vec<Arc<dyn CachedObject>>) {
        fn shared(object: &Arc<CacheEntry>) -> Arc<dyn CachedObject> {
            Arc::clone(object) as _
        }
        let state = self.state();
        let objects = if namespace.is_empty() {
            state.objects.iter().map(shared).collect()
        } else {
            let prefix = format!("{namespace}/");
            state.objects.prefixed(&prefix).map(shared).collect()
        };
        (state.revision, objects)
    }
}

//! Reading objects that are held in memory, whoever holds them.

use std::fmt::Debug;
use std::sync::Arc;

use control_types::status::Status;
use control_types::value::{Pick, Value};

/// An object in a cache.
pub trait CachedObject: Send + Sync {
    /// Returns `namespace/name`, or `name` alone.
    fn key(&self) -> &str;

    /// Returns the revision of the last change.
    fn revision(&self) -> u64;

    /// Returns the value of a label.
    fn label(&self, key: &str) -> Option<&str>;

    /// Returns the value of a selectable field.
    fn field(&self, name: &str) -> Option<&str>;

    /// Parses the object.
    ///
    /// # Errors
    /// 500 when the object cannot be read.
    fn value(&self) -> Result<Value, Status>;

    /// Parses part of the object.
    ///
    /// # Errors
    /// 500 when the object cannot be read.
    fn pick(&self, parts: &Pick) -> Result<Value, Status>;
}

/// All objects of a resource, which may lag behind the store a little.
pub trait ObjectCache: Debug + Send + Sync {
    /// Whether there are no objects.
    fn is_empty(&self) -> bool;

    /// Returns the revision of the last change.
    fn revision(&self) -> u64;

    /// Returns an object by its key.
    fn get(&self, key: &str) -> Option<Arc<dyn CachedObject>>;

    /// Returns the objects of a namespace, or of all of them if it is empty, with the revision
    /// at which they were these.
    fn list(&self, namespace: &str) -> (u64, Vec<Arc<dyn CachedObject>>);
}

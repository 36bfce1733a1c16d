//! One at a time, by what it is about: work on the same thing waits, work on
//! other things does not.

use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashMap;
use tokio::sync::OwnedMutexGuard;

/// A mutex per key; keys that nobody holds or waits for take no memory.
#[derive(Debug)]
pub struct KeyedMutex<K>(Mutex<FxHashMap<K, Arc<tokio::sync::Mutex<()>>>>);

impl<K> Default for KeyedMutex<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash> KeyedMutex<K> {
    /// Waits for the turn; it ends when what is returned is dropped. Who takes
    /// several takes them in the order of their keys.
    pub async fn take(&self, key: K) -> OwnedMutexGuard<()> {
        let lock = {
            let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            turns.retain(|_, lock| Arc::strong_count(lock) > 1);
            turns.entry(key).or_default().clone()
        };
        lock.lock_owned().await
    }
}

//! Objects that this process is writing, until they come back through the watch.
//!
//! A writer has the object's JSON, its labels and its selectable fields; the feed
//! needs just these, and would have to decode the stored bytes to get them. So the
//! writer leaves them here before it writes, under the key and together with the
//! bytes it is about to store. The feed takes them if the bytes that come back are the
//! same: then it does not matter whose write it was, in which order writes were
//! committed, or whether the event comes before the answer.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use rustc_hash::FxHashMap;

use super::object::PreparedObject;

/// Most offers that are kept. Offers that are never taken, since writes fail or lose a race,
/// are dropped when there are more; the feed then decodes.
const KEPT: usize = 4096;

/// Offers by key in the store.
#[derive(Debug, Default)]
pub(super) struct PendingWrites(Mutex<FxHashMap<Bytes, Vec<Offer>>>);

#[derive(Debug)]
struct Offer {
    stored: Bytes,
    prepared: PreparedObject,
}

impl PendingWrites {
    /// Offers the object that `stored` decodes to.
    pub fn offer(&self, key: Bytes, stored: Bytes, prepared: PreparedObject) {
        let mut offers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if offers.len() >= KEPT {
            offers.clear();
        }
        let of_key = offers.entry(key).or_default();
        // Writers that race for one key: only one of them wins each revision.
        if of_key.len() >= 8 {
            of_key.clear();
        }
        of_key.push(Offer { stored, prepared });
    }

    /// Withdraws the offer of a write that failed.
    pub fn withdraw(&self, key: &Bytes, stored: &Bytes) {
        drop(self.take(key, stored));
    }

    /// Takes the object that `stored` decodes to, if a writer offered it.
    pub fn take(&self, key: &Bytes, stored: &Bytes) -> Option<PreparedObject> {
        let mut offers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_key = offers.get_mut(key)?;
        let at = of_key.iter().position(|offer| offer.stored == *stored)?;
        let offer = of_key.swap_remove(at);
        if of_key.is_empty() {
            offers.remove(key);
        }
        Some(offer.prepared)
    }
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    fn prepared(name: &str) -> PreparedObject {
        let object = value!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": name}});
        let json = crate::encode(&object);
        PreparedObject::new(&object, json, &control_kinds::find_kind("", "Node").into())
    }

    #[test]
    fn only_the_very_bytes_are_taken_and_once() {
        let handoff = PendingWrites::default();
        let (key, a, b) = (
            Bytes::from_static(b"k"),
            Bytes::from_static(b"a"),
            Bytes::from_static(b"b"),
        );
        handoff.offer(key.clone(), a.clone(), prepared("a"));
        handoff.offer(key.clone(), b.clone(), prepared("b"));
        assert!(handoff.take(&key, &Bytes::from_static(b"c")).is_none());
        assert!(handoff.take(&key, &b).is_some());
        assert!(handoff.take(&key, &b).is_none());
        handoff.withdraw(&key, &a);
        assert!(handoff.take(&key, &a).is_none());
    }

    #[test]
    fn what_is_never_taken_is_bounded() {
        let handoff = PendingWrites::default();
        for number in 0..3 * KEPT {
            let key = Bytes::from(number.to_string());
            handoff.offer(key, Bytes::new(), prepared("a"));
        }
        let key = Bytes::from_static(b"one");
        for number in 0..100 {
            handoff.offer(key.clone(), Bytes::from(number.to_string()), prepared("a"));
        }
        let offers = handoff.0.lock().expect("not poisoned");
        assert!(offers.len() <= KEPT);
        assert!(offers[&key].len() <= 8);
    }
}

//! The words of the border: keys, values, ranges, outcomes, events.

use std::time::Duration;

use bytes::Bytes;

/// A moment of the store: the number of the change that made it. 1 is the empty
/// store.
pub type Revision = u64;

/// A key and all that is known about its current value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// The key.
    pub key: Bytes,
    /// The value; empty in the event of a deletion.
    pub value: Bytes,
    /// The revision at which the key was (last) created.
    pub create_revision: Revision,
    /// The revision of the last change.
    pub mod_revision: Revision,
    /// The number of writes since the key was created; 1 for a new key.
    pub version: u64,
    /// 0 if the key stays until it is deleted, otherwise a backend's name for
    /// the lease that will delete it (the embedded store: Unix milliseconds).
    pub lease: u64,
}

/// How much room a store's file takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The name of the store in metrics.
    pub of: &'static str,
    /// In bytes.
    pub bytes: u64,
}

/// The condition on a key under which a write happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// The key does not exist.
    Absent,
    /// The key exists and was last changed at this revision.
    ModRevision(Revision),
    /// Nothing. (Deleting what does not exist still changes nothing and
    /// answers [`Outcome::Failed`].)
    Any,
}

/// A change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Create or replace.
    Put {
        /// The new value.
        value: Bytes,
        /// How long the key lives if nothing else happens to it. It is deleted
        /// up to a second or two late (by etcd: a twentieth of the time, or a
        /// minute, later than that). `None` takes away an earlier limit.
        ttl: Option<Duration>,
    },
    /// Delete.
    Delete,
}

/// The outcome of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The change is durable.
    Done {
        /// The revision of the change.
        revision: Revision,
        /// The previous value of the key.
        previous: Option<KeyValue>,
    },
    /// The precondition did not hold; nothing changed.
    Failed {
        /// The current value of the key.
        current: Option<KeyValue>,
        /// The revision as of which that is so.
        revision: Revision,
    },
}

/// A question for the keys of `start..end`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first key.
    pub start: Bytes,
    /// The key after the last; empty means no end.
    pub end: Bytes,
    /// How many keys at most; 0 means all.
    pub limit: usize,
    /// As of which revision; `None` means now.
    pub at: Option<Revision>,
}

impl Range {
    /// All keys that begin with `prefix`, now, without limit.
    #[must_use]
    pub fn prefix(prefix: impl Into<Bytes>) -> Self {
        let start = prefix.into();
        let end = prefix_end(&start);
        Self {
            start,
            end,
            limit: 0,
            at: None,
        }
    }
}

/// Returns the smallest key greater than every key that begins with `prefix`; empty (no
/// end) if there is none.
#[must_use]
pub fn prefix_end(prefix: &[u8]) -> Bytes {
    let kept = prefix
        .iter()
        .rposition(|&byte| byte != 0xff)
        .map_or(0, |last| last + 1);
    let mut end = prefix[..kept].to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end.into()
}

/// The answer to a [`Range`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The keys in byte order.
    pub kvs: Vec<KeyValue>,
    /// Whether the limit cut something off. The next page starts at the last
    /// key with a zero byte appended, `at` this page's revision.
    pub more: bool,
    /// How many keys the limit cut off.
    pub count_remaining: u64,
    /// The revision as of which the page is true.
    pub revision: Revision,
}

/// Whether a key was written or deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Created or replaced.
    Put,
    /// Deleted, by a client or because its time was over.
    Delete,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The kind of change.
    pub kind: EventKind,
    /// The key after the change. For a deletion: the key, an empty value and
    /// the deletion's revision as `mod_revision`; the other numbers are 0.
    pub kv: KeyValue,
    /// The key before the change; `None` if it did not exist.
    pub previous: Option<KeyValue>,
}

/// Changes in the order of their revisions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// The changes; none in a batch that only reports progress.
    pub events: Vec<Event>,
    /// The watch has delivered everything up to and including this revision.
    pub revision: Revision,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_prefix_is_the_next_sibling() {
        assert_eq!(
            prefix_end(b"/registry/pods/"),
            Bytes::from_static(b"/registry/pods0")
        );
        assert_eq!(prefix_end(b"a\xff\xff"), Bytes::from_static(b"b"));
        assert_eq!(prefix_end(b"\xff"), Bytes::new());
        assert_eq!(prefix_end(b""), Bytes::new());
    }
}

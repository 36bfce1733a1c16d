//! A key in a backup: etcd's own message (`mvccpb.KeyValue`), and how long it still lives.

use std::time::Duration;

use bytes::Bytes;
use control_store::KeyValue;
use prost::Message;

/// A key, its value and its revisions.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Entry {
    /// The key.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// The revision that created it.
    #[prost(uint64, tag = "2")]
    pub create_revision: u64,
    /// The revision that changed it last.
    #[prost(uint64, tag = "3")]
    pub mod_revision: u64,
    /// How often it was written since it was created.
    #[prost(uint64, tag = "4")]
    pub version: u64,
    /// Its value.
    #[prost(bytes = "bytes", tag = "5")]
    pub value: Bytes,
    /// The number of its lease; 0 if it has none.
    #[prost(uint64, tag = "6")]
    pub lease: u64,
    /// How long it still lived when the backup was made, in milliseconds; 0 if for ever.
    #[prost(uint64, tag = "15")]
    pub remaining_ms: u64,
}

impl Entry {
    /// A key as the store has it.
    #[must_use]
    pub fn new(kv: KeyValue, remaining: Option<Duration>) -> Self {
        let remaining = remaining.map_or(0, |time| {
            u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1)
        });
        Self {
            key: kv.key,
            create_revision: kv.create_revision,
            mod_revision: kv.mod_revision,
            version: kv.version,
            value: kv.value,
            lease: kv.lease,
            remaining_ms: remaining,
        }
    }

    /// How long it still lived; `None` if for ever.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        (self.remaining_ms != 0).then(|| Duration::from_millis(self.remaining_ms))
    }

    /// The key as a store has it, without its lease.
    #[must_use]
    pub fn key_value(&self) -> KeyValue {
        KeyValue {
            key: self.key.clone(),
            value: self.value.clone(),
            create_revision: self.create_revision,
            mod_revision: self.mod_revision,
            version: self.version,
            lease: 0,
        }
    }

    /// The resource of a key: `/registry/pods/` of `/registry/pods/default/a`.
    #[must_use]
    pub fn group(&self) -> String {
        let text = String::from_utf8_lossy(&self.key);
        let mut ends = text.match_indices('/').map(|(at, _)| at + 1);
        let short = ends.by_ref().nth(2).unwrap_or(text.len());
        let head = text.get(..short).unwrap_or_default();
        // Groups of custom resources have a part more, and so do Services.
        let parts: Vec<&str> = head.split('/').collect();
        let is_long = parts
            .get(2)
            .is_some_and(|part| part.contains('.') || *part == "services");
        match (is_long, ends.next()) {
            (true, Some(long)) => text.get(..long).unwrap_or_default().to_owned(),
            _ => head.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_counted_by_their_resource() {
        let group = |key: &'static str| {
            Entry {
                key: Bytes::from_static(key.as_bytes()),
                ..Entry::default()
            }
            .group()
        };
        assert_eq!(group("/registry/pods/default/a"), "/registry/pods/");
        assert_eq!(group("/registry/minions/a"), "/registry/minions/");
        assert_eq!(
            group("/registry/services/specs/default/a"),
            "/registry/services/specs/"
        );
        assert_eq!(
            group("/registry/example.com/things/a/b"),
            "/registry/example.com/things/"
        );
        assert_eq!(group("compact_rev_key"), "compact_rev_key");
        assert_eq!(group(""), "");
    }
}

//! Converts between etcd's types and ours.

use bytes::Bytes;

use crate::{Event, EventKind, KeyValue, Revision};

/// Converts etcd's signed numbers, none of which is negative.
pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

/// A number that no revision reaches stays one.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn key_value(kv: etcd_client::KeyValue) -> KeyValue {
    let (create, modified, version, lease) = (
        kv.create_revision(),
        kv.mod_revision(),
        kv.version(),
        kv.lease(),
    );
    let (key, value) = kv.into_key_value();
    KeyValue {
        key: key.into(),
        value: value.into(),
        create_revision: unsigned(create),
        mod_revision: unsigned(modified),
        version: unsigned(version),
        lease: lease.cast_unsigned(),
    }
}

/// Converts an event; returns the revision if etcd has compacted what the event was
/// about.
pub(super) fn event(event: &etcd_client::Event) -> Result<Option<Event>, Revision> {
    let Some(kv) = event.kv() else {
        return Ok(None);
    };
    let previous = event.prev_kv().cloned().map(key_value);
    match event.event_type() {
        etcd_client::EventType::Put => {
            let kv = key_value(kv.clone());
            if kv.version > 1 && previous.is_none() {
                return Err(kv.mod_revision);
            }
            Ok(Some(Event {
                kind: EventKind::Put,
                kv,
                previous,
            }))
        }
        etcd_client::EventType::Delete => {
            let revision = unsigned(kv.mod_revision());
            if previous.is_none() {
                return Err(revision);
            }
            Ok(Some(Event {
                kind: EventKind::Delete,
                kv: KeyValue {
                    key: Bytes::copy_from_slice(kv.key()),
                    value: Bytes::new(),
                    create_revision: 0,
                    mod_revision: revision,
                    version: 0,
                    lease: 0,
                },
                previous,
            }))
        }
    }
}

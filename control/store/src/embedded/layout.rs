//! The tables of the file and the bytes in them.
//!
//! ```text
//! index   (key, revision)      -> 1 if the key was written then, 0 if deleted
//! log     revision             -> record (below): what happened then, or what happened first
//! parts   (revision, key)      -> number u32, record: what else happened in that revision
//! leases  lease                -> seconds that it lives after a grant or a renewal
//! leased  (lease, key)         -> nothing: the keys that end with a lease
//! expiry  (time, revision)     -> key: deleted at that time, if the revision is still its last
//! state   "state"              -> format, revision, compacted, swept: 4 × u64
//!         "clock"              -> store's time, time of day, uptime: 3 × u64; boot: u128
//!
//! record, little endian:
//!   kind u8 · create u64 · version u64 · lease u64 · previous u64 · key length u32 · key · value
//! ```
//!
//! Times are milliseconds by the store's own clock (`clock.rs`).
//!
//! Values lie in the log, which grows at its right end only, so that a commit
//! touches few pages and a watch that catches up reads them in sequence. The
//! index stays small: it is what a list walks.
//!
//! `previous` is the revision of the change that this one supersedes, 0 if the
//! key did not exist. Sweeping after a compaction needs no more than that: it
//! walks the log between `swept` and `compacted` and removes what each record
//! supersedes, and the record itself if it is a deletion.
//!
//! A transaction of etcd's clients may change several keys in one revision. The first of
//! these changes is in the log, so that every revision has a row there; the others are in
//! `parts`, numbered from 1 in the order in which they happened. The state's format is
//! [`FORMAT`] once a file has parts or leases, which earlier versions do not know, and
//! [`FIRST_FORMAT`] until then.
//!
//! A record's `lease` is 0, a time as in `expiry`, or the number of a granted lease with
//! the highest bit set.

use bytes::Bytes;
use redb::TableDefinition;

use crate::{EventKind, KeyValue, Revision};

pub(super) const INDEX: TableDefinition<(&[u8], u64), u8> = TableDefinition::new("index");
pub(super) const LOG: TableDefinition<u64, &[u8]> = TableDefinition::new("log");
pub(super) const EXPIRY: TableDefinition<(u64, u64), &[u8]> = TableDefinition::new("expiry");
pub(super) const PARTS: TableDefinition<(u64, &[u8]), (u32, &[u8])> = TableDefinition::new("parts");
pub(super) const LEASES: TableDefinition<u64, u64> = TableDefinition::new("leases");
pub(super) const LEASED: TableDefinition<(u64, &[u8]), ()> = TableDefinition::new("leased");
pub(super) const STATE: TableDefinition<&str, &[u8]> = TableDefinition::new("state");
pub(super) const STATE_KEY: &str = "state";
pub(super) const CLOCK_KEY: &str = "clock";

/// The newest format that this version of the program knows.
pub(super) const FORMAT: u64 = 2;
/// The format of a file without parts and leases.
pub(super) const FIRST_FORMAT: u64 = 1;

/// In the index: the key was written at this revision.
pub(super) const WRITTEN: u8 = 1;
/// In the index: the key was deleted at this revision.
pub(super) const DELETED: u8 = 0;

const HEADER: usize = 1 + 4 * 8 + 4;

/// The store's counters, as written in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoreCounters {
    /// [`FIRST_FORMAT`] or [`FORMAT`].
    pub format: u64,
    /// The newest revision.
    pub revision: Revision,
    /// The past before this is forgotten.
    pub compacted: Revision,
    /// Records up to this revision have been swept from the file.
    pub swept: Revision,
}

/// One row of the log, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub kind: EventKind,
    pub create: Revision,
    pub version: u64,
    pub lease: u64,
    /// The revision that this one supersedes; 0 if none.
    pub previous: Revision,
    pub key: &'a [u8],
    pub value: &'a [u8],
}

// === impl State ===

impl StoreCounters {
    pub fn new() -> Self {
        Self {
            format: FIRST_FORMAT,
            revision: 1,
            compacted: 0,
            swept: 0,
        }
    }

    pub fn encode(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        let fields = [self.format, self.revision, self.compacted, self.swept];
        for (chunk, field) in bytes.chunks_exact_mut(8).zip(fields) {
            chunk.copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }

    /// The format's number first, so that a caller can name an unknown one;
    /// `None` for the state of a format that this version cannot read.
    pub fn decode(bytes: &[u8]) -> Option<(u64, Option<Self>)> {
        let (format, rest) = take_u64(bytes)?;
        if !(FIRST_FORMAT..=FORMAT).contains(&format) {
            return Some((format, None));
        }
        let (revision, rest) = take_u64(rest)?;
        let (compacted, rest) = take_u64(rest)?;
        let (swept, rest) = take_u64(rest)?;
        let sane = rest.is_empty() && revision >= 1 && swept <= compacted && compacted <= revision;
        sane.then_some((
            format,
            Some(Self {
                format,
                revision,
                compacted,
                swept,
            }),
        ))
    }
}

// === impl Record ===

impl<'a> Record<'a> {
    /// The bytes that [`Record::encode`] needs.
    pub fn size(&self) -> usize {
        HEADER + self.key.len() + self.value.len()
    }

    /// Writes the record into `bytes`, which is [`Record::size`] long.
    pub fn encode(&self, bytes: &mut [u8]) {
        let mut at = 0;
        let mut put = |field: &[u8]| {
            bytes[at..at + field.len()].copy_from_slice(field);
            at += field.len();
        };
        put(&[match self.kind {
            EventKind::Put => WRITTEN,
            EventKind::Delete => DELETED,
        }]);
        for number in [self.create, self.version, self.lease, self.previous] {
            put(&number.to_le_bytes());
        }
        // The writer refuses keys that do not fit.
        put(&u32::try_from(self.key.len())
            .unwrap_or(u32::MAX)
            .to_le_bytes());
        put(self.key);
        put(self.value);
    }

    /// `None` if the bytes are no record.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (&kind, rest) = bytes.split_first()?;
        let kind = match kind {
            WRITTEN => EventKind::Put,
            DELETED => EventKind::Delete,
            _ => return None,
        };
        let (create, rest) = take_u64(rest)?;
        let (version, rest) = take_u64(rest)?;
        let (lease, rest) = take_u64(rest)?;
        let (previous, rest) = take_u64(rest)?;
        let (key_length, rest) = rest.split_first_chunk::<4>()?;
        let (key, value) = rest.split_at_checked(u32::from_le_bytes(*key_length) as usize)?;
        Some(Self {
            kind,
            create,
            version,
            lease,
            previous,
            key,
            value,
        })
    }

    pub fn to_key_value(self, revision: Revision) -> KeyValue {
        KeyValue {
            key: Bytes::copy_from_slice(self.key),
            value: Bytes::copy_from_slice(self.value),
            create_revision: self.create,
            mod_revision: revision,
            version: self.version,
            lease: self.lease,
        }
    }
}

fn take_u64(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*number), rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_record_survives_its_encoding(
            deleted in any::<bool>(),
            numbers in any::<[u64; 4]>(),
            key in proptest::collection::vec(any::<u8>(), 0..40),
            value in proptest::collection::vec(any::<u8>(), 0..80),
        ) {
            let record = Record {
                kind: if deleted { EventKind::Delete } else { EventKind::Put },
                create: numbers[0],
                version: numbers[1],
                lease: numbers[2],
                previous: numbers[3],
                key: &key,
                value: &value,
            };
            let mut bytes = vec![0; record.size()];
            record.encode(&mut bytes);
            prop_assert_eq!(Record::decode(&bytes), Some(record));
        }

        #[test]
        fn bytes_that_are_no_record_are_refused_without_a_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..64),
        ) {
            if let Some(record) = Record::decode(&bytes) {
                prop_assert_eq!(record.size(), bytes.len());
            }
            let _ = StoreCounters::decode(&bytes);
        }
    }

    #[test]
    fn a_state_of_another_format_names_its_format() {
        let mut bytes = StoreCounters::new().encode();
        assert_eq!(
            StoreCounters::decode(&bytes),
            Some((FIRST_FORMAT, Some(StoreCounters::new())))
        );
        bytes[0] = 9;
        assert_eq!(StoreCounters::decode(&bytes), Some((9, None)));
        assert_eq!(StoreCounters::decode(&bytes[..7]), None);
    }
}

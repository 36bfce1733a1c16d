//! Reads: all on one snapshot of the file, beside the writer.

use bytes::Bytes;
use redb::{ReadTransaction, ReadableTable};

use super::fault;
use super::layout::{DELETED, INDEX, LOG, Record, STATE, STATE_KEY, State};
use crate::{Event, EventKind, KeyValue, Page, Range, Revision};

/// A part of the past: what a watch that lags reads at a time.
pub(super) struct History {
    /// The changes that concern the watch.
    pub events: Vec<Event>,
    /// All changes up to here have been looked at.
    pub through: Revision,
}

/// What a question about the past comes to.
pub(super) enum Past<T> {
    Answer(T),
    Compacted { compacted: Revision },
    Future { current: Revision },
}

/// How much of the log one [`history`] looks at, in records and in bytes of
/// values: bounds the memory of a watch that lags.
const HISTORY_RECORDS: usize = 1024;
const HISTORY_BYTES: usize = 1 << 20;

pub(super) fn state(transaction: &ReadTransaction) -> Result<State, redb::Error> {
    let table = transaction.open_table(STATE)?;
    let row = table.get(STATE_KEY)?;
    row.and_then(|row| State::decode(row.value())?.1)
        .ok_or_else(|| fault::bad_row("state", 0))
}

/// The value of a key as of `at` (or now).
pub(super) fn get(
    transaction: &ReadTransaction,
    key: &[u8],
    at: Option<Revision>,
) -> Result<Past<Option<KeyValue>>, redb::Error> {
    let at = match moment(state(transaction)?, at) {
        Past::Answer(at) => at,
        Past::Compacted { compacted } => return Ok(Past::Compacted { compacted }),
        Past::Future { current } => return Ok(Past::Future { current }),
    };
    let index = transaction.open_table(INDEX)?;
    let log = transaction.open_table(LOG)?;
    let Some(revision) = last_written(&index, key, at)? else {
        return Ok(Past::Answer(None));
    };
    Ok(Past::Answer(Some(key_value(&log, revision)?)))
}

/// The keys of an interval as of `range.at` (or now).
pub(super) fn range(
    transaction: &ReadTransaction,
    range: &Range,
) -> Result<Past<Page>, redb::Error> {
    let at = match moment(state(transaction)?, range.at) {
        Past::Answer(at) => at,
        Past::Compacted { compacted } => return Ok(Past::Compacted { compacted }),
        Past::Future { current } => return Ok(Past::Future { current }),
    };
    let mut page = Page {
        revision: at,
        ..Page::default()
    };
    let end = (!range.end.is_empty()).then_some(&*range.end);
    if end.is_some_and(|end| end <= &*range.start) {
        return Ok(Past::Answer(page));
    }
    let index = transaction.open_table(INDEX)?;
    let log = transaction.open_table(LOG)?;
    let from = (&*range.start, 0);
    let rows = match end {
        Some(end) => index.range::<(&[u8], u64)>(from..(end, 0))?,
        None => index.range::<(&[u8], u64)>(from..)?,
    };

    // Rows come key by key, each key's revisions ascending: the last one that
    // is not after `at` counts.
    let mut key: Vec<u8> = Vec::new();
    let mut last: Option<Revision> = None;
    let mut settle = |last: Option<Revision>| -> Result<(), redb::Error> {
        let Some(revision) = last else { return Ok(()) };
        if range.limit == 0 || page.kvs.len() < range.limit {
            page.kvs.push(key_value(&log, revision)?);
        } else {
            page.more = true;
            page.count_remaining += 1;
        }
        Ok(())
    };
    for row in rows {
        let (place, kind) = row?;
        let (row_key, revision) = place.value();
        if row_key != key {
            settle(last.take())?;
            key.clear();
            key.extend_from_slice(row_key);
        }
        if revision <= at {
            last = (kind.value() != DELETED).then_some(revision);
        }
    }
    settle(last)?;
    Ok(Past::Answer(page))
}

/// The changes to keys with `prefix` in `after + 1 ..= to`, as many as one
/// portion takes.
pub(super) fn history(
    transaction: &ReadTransaction,
    prefix: &[u8],
    after: Revision,
    to: Revision,
) -> Result<Past<History>, redb::Error> {
    let state = state(transaction)?;
    if after < state.compacted {
        return Ok(Past::Compacted {
            compacted: state.compacted,
        });
    }
    let log = transaction.open_table(LOG)?;
    let mut events = Vec::new();
    let mut bytes = 0;
    let mut through = after;
    for (count, row) in log.range(after.saturating_add(1)..)?.enumerate() {
        if through >= to {
            break;
        }
        if count >= HISTORY_RECORDS || bytes >= HISTORY_BYTES {
            return Ok(Past::Answer(History { events, through }));
        }
        let (revision, record) = row?;
        let revision = revision.value();
        if revision > to {
            break;
        }
        through = revision;
        let record =
            Record::decode(record.value()).ok_or_else(|| fault::bad_row("log", revision))?;
        if !record.key.starts_with(prefix) {
            continue;
        }
        let previous = match record.previous {
            0 => None,
            previous => Some(key_value(&log, previous)?),
        };
        bytes += record.size() + previous.as_ref().map_or(0, |kv| kv.value.len());
        let kv = match record.kind {
            EventKind::Put => record.to_key_value(revision),
            EventKind::Delete => deletion(Bytes::copy_from_slice(record.key), revision),
        };
        events.push(Event {
            kind: record.kind,
            kv,
            previous,
        });
    }
    Ok(Past::Answer(History {
        events,
        through: to,
    }))
}

/// The revision of the last change to `key` not after `at`, unless that deleted
/// it.
pub(super) fn last_written(
    index: &impl ReadableTable<(&'static [u8], u64), u8>,
    key: &[u8],
    at: Revision,
) -> Result<Option<Revision>, redb::Error> {
    let Some(row) = index
        .range::<(&[u8], u64)>((key, 0)..=(key, at))?
        .next_back()
    else {
        return Ok(None);
    };
    let (place, kind) = row?;
    Ok((kind.value() != DELETED).then_some(place.value().1))
}

/// What the log holds for `revision`.
pub(super) fn key_value(
    log: &impl ReadableTable<u64, &'static [u8]>,
    revision: Revision,
) -> Result<KeyValue, redb::Error> {
    let row = log.get(revision)?;
    row.as_ref()
        .and_then(|row| Record::decode(row.value()))
        .filter(|record| record.kind == EventKind::Put)
        .map(|record| record.to_key_value(revision))
        .ok_or_else(|| fault::bad_row("log", revision))
}

/// What the log says about the key of a deletion.
pub(super) fn deletion(key: Bytes, revision: Revision) -> KeyValue {
    KeyValue {
        key,
        value: Bytes::new(),
        create_revision: 0,
        mod_revision: revision,
        version: 0,
        lease: 0,
    }
}

fn moment(state: State, at: Option<Revision>) -> Past<Revision> {
    match at {
        None => Past::Answer(state.revision),
        Some(at) if at > state.revision => Past::Future {
            current: state.revision,
        },
        Some(at) if at < state.compacted => Past::Compacted {
            compacted: state.compacted,
        },
        Some(at) => Past::Answer(at),
    }
}

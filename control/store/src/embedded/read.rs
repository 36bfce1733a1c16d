//! Reads: all on one snapshot of the file, beside the writer.

use bytes::Bytes;
use redb::{ReadTransaction, ReadableTable};

use super::fault;
use super::layout::{DELETED, INDEX, LOG, PARTS, Record, STATE, STATE_KEY, StoreCounters};
use crate::txn::{Keys, Query, Selection, SortOrder, SortTarget};
use crate::{Event, EventKind, KeyValue, Page, Range, Revision};

/// The table of keys and revisions.
pub(super) trait Index: ReadableTable<(&'static [u8], u64), u8> {}
impl<T: ReadableTable<(&'static [u8], u64), u8>> Index for T {}

/// The table of each revision's first record.
pub(super) trait Log: ReadableTable<u64, &'static [u8]> {}
impl<T: ReadableTable<u64, &'static [u8]>> Log for T {}

/// The table of the further records of revisions.
pub(super) trait Parts: ReadableTable<(u64, &'static [u8]), (u32, &'static [u8])> {}
impl<T: ReadableTable<(u64, &'static [u8]), (u32, &'static [u8])>> Parts for T {}

/// A part of the history that a lagging watch reads at a time.
pub(super) struct History {
    /// The changes that concern the watch.
    pub events: Vec<Event>,
    /// All changes up to here have been looked at.
    pub through: Revision,
}

/// The result of a read of the history.
pub(super) enum HistoryReplay<T> {
    Answer(T),
    Compacted { compacted: Revision },
    Future { current: Revision },
}

/// How much of the log one [`history`] looks at, in records and in bytes of
/// values: bounds the memory of a watch that lags.
const HISTORY_RECORDS: usize = 1024;
const HISTORY_BYTES: usize = 1 << 20;

pub(super) fn state(transaction: &ReadTransaction) -> Result<StoreCounters, redb::Error> {
    let table = transaction.open_table(STATE)?;
    let row = table.get(STATE_KEY)?;
    row.and_then(|row| StoreCounters::decode(row.value())?.1)
        .ok_or_else(|| fault::bad_row("state", 0))
}

/// The value of a key as of `at` (or now).
pub(super) fn get(
    transaction: &ReadTransaction,
    key: &[u8],
    at: Option<Revision>,
) -> Result<HistoryReplay<Option<KeyValue>>, redb::Error> {
    let at = match moment(state(transaction)?, at) {
        HistoryReplay::Answer(at) => at,
        HistoryReplay::Compacted { compacted } => {
            return Ok(HistoryReplay::Compacted { compacted });
        }
        HistoryReplay::Future { current } => return Ok(HistoryReplay::Future { current }),
    };
    let index = transaction.open_table(INDEX)?;
    let Some(revision) = last_written(&index, key, at)? else {
        return Ok(HistoryReplay::Answer(None));
    };
    let log = transaction.open_table(LOG)?;
    let parts = transaction.open_table(PARTS)?;
    key_value(&log, &parts, key, revision).map(|kv| HistoryReplay::Answer(Some(kv)))
}

/// The keys of an interval as of `range.at` (or now).
pub(super) fn range(
    transaction: &ReadTransaction,
    range: &Range,
) -> Result<HistoryReplay<Page>, redb::Error> {
    let at = match moment(state(transaction)?, range.at) {
        HistoryReplay::Answer(at) => at,
        HistoryReplay::Compacted { compacted } => {
            return Ok(HistoryReplay::Compacted { compacted });
        }
        HistoryReplay::Future { current } => return Ok(HistoryReplay::Future { current }),
    };
    let mut page = Page {
        revision: at,
        ..Page::default()
    };
    let index = transaction.open_table(INDEX)?;
    let log = transaction.open_table(LOG)?;
    let parts = transaction.open_table(PARTS)?;
    walk(&index, (&range.start, &range.end), at, |key, revision| {
        if range.limit == 0 || page.kvs.len() < range.limit {
            page.kvs.push(key_value(&log, &parts, key, revision)?);
        } else {
            page.more = true;
            page.count_remaining += 1;
        }
        Ok(())
    })?;
    Ok(HistoryReplay::Answer(page))
}

/// The answer to a query as of `query.at` (or now).
pub(super) fn query(
    transaction: &ReadTransaction,
    query: &Query,
) -> Result<HistoryReplay<Selection>, redb::Error> {
    let state = state(transaction)?;
    let at = match moment(state, query.at) {
        HistoryReplay::Answer(at) => at,
        HistoryReplay::Compacted { compacted } => {
            return Ok(HistoryReplay::Compacted { compacted });
        }
        HistoryReplay::Future { current } => return Ok(HistoryReplay::Future { current }),
    };
    let index = transaction.open_table(INDEX)?;
    let log = transaction.open_table(LOG)?;
    let parts = transaction.open_table(PARTS)?;
    let mut selection = select(&index, &log, &parts, query, at)?;
    selection.revision = state.revision;
    Ok(HistoryReplay::Answer(selection))
}

/// Returns what `query` selects as of `at`, without the revision.
pub(super) fn select(
    index: &impl Index,
    log: &impl Log,
    parts: &impl Parts,
    query: &Query,
    at: Revision,
) -> Result<Selection, redb::Error> {
    let is_bounded = query.mod_revision.is_set() || query.create_revision.is_set();
    // As in etcd, the limit applies after sorting and bounds, so everything is read.
    // Without an order, a target other than the key sorts only what the limit leaves.
    let needed = match query.limit {
        0 => usize::MAX,
        _ if is_bounded || query.sort_order != SortOrder::None => usize::MAX,
        limit => limit.saturating_add(1),
    };
    let mut selection = Selection::default();
    let mut kvs = Vec::new();
    walk_keys(index, &query.keys, at, |key, revision| {
        selection.count += 1;
        if !query.count_only && kvs.len() < needed {
            kvs.push(key_value(log, parts, key, revision)?);
        }
        Ok(())
    })?;
    kvs.retain(|kv: &KeyValue| {
        query.mod_revision.contain(kv.mod_revision)
            && query.create_revision.contain(kv.create_revision)
    });
    let order = |a: &KeyValue, b: &KeyValue| match query.sort_target {
        SortTarget::Key => a.key.cmp(&b.key),
        SortTarget::Version => a.version.cmp(&b.version),
        SortTarget::Create => a.create_revision.cmp(&b.create_revision),
        SortTarget::Mod => a.mod_revision.cmp(&b.mod_revision),
        SortTarget::Value => a.value.cmp(&b.value),
    };
    // Stable: keys that are equal in this stay in their own order either way.
    match query.sort_order {
        SortOrder::Descend => kvs.sort_by(|a, b| order(b, a)),
        SortOrder::None | SortOrder::Ascend => kvs.sort_by(order),
    }
    if query.limit != 0 && kvs.len() > query.limit {
        kvs.truncate(query.limit);
        selection.more = true;
    }
    if query.keys_only {
        kvs.iter_mut().for_each(|kv| kv.value = Bytes::new());
    }
    selection.kvs = kvs;
    Ok(selection)
}

/// Visits each existing key of `keys` as of `at`, with the revision of its last change.
pub(super) fn walk_keys(
    index: &impl Index,
    keys: &Keys,
    at: Revision,
    mut visit: impl FnMut(&[u8], Revision) -> Result<(), redb::Error>,
) -> Result<(), redb::Error> {
    match keys {
        Keys::One(key) => match last_written(index, key, at)? {
            Some(revision) => visit(key, revision),
            None => Ok(()),
        },
        Keys::Interval { start, end } => walk(index, (start, end), at, visit),
    }
}

/// Visits each existing key of an interval as of `at`; an empty end means no end.
fn walk(
    index: &impl Index,
    (start, end): (&[u8], &[u8]),
    at: Revision,
    mut visit: impl FnMut(&[u8], Revision) -> Result<(), redb::Error>,
) -> Result<(), redb::Error> {
    if !end.is_empty() && end <= start {
        return Ok(());
    }
    let from = (start, 0);
    let rows = if end.is_empty() {
        index.range::<(&[u8], u64)>(from..)?
    } else {
        index.range::<(&[u8], u64)>(from..(end, 0))?
    };
    // Rows come key by key, each key's revisions ascending: the last one that
    // is not after `at` counts.
    let mut key: Vec<u8> = Vec::new();
    let mut last: Option<Revision> = None;
    for row in rows {
        let (place, kind) = row?;
        let (row_key, revision) = place.value();
        if row_key != key {
            if let Some(revision) = last.take() {
                visit(&key, revision)?;
            }
            key.clear();
            key.extend_from_slice(row_key);
        }
        if revision <= at {
            last = (kind.value() != DELETED).then_some(revision);
        }
    }
    if let Some(revision) = last {
        visit(&key, revision)?;
    }
    Ok(())
}

/// The changes to keys with `prefix` in `after + 1 ..= to`, as many as one
/// portion takes.
pub(super) fn history(
    transaction: &ReadTransaction,
    prefix: &[u8],
    after: Revision,
    to: Revision,
) -> Result<HistoryReplay<History>, redb::Error> {
    let state = state(transaction)?;
    if after < state.compacted {
        return Ok(HistoryReplay::Compacted {
            compacted: state.compacted,
        });
    }
    let log = transaction.open_table(LOG)?;
    let parts = transaction.open_table(PARTS)?;
    let first = after.saturating_add(1);
    let mut further = parts.range::<(u64, &[u8])>((first, &[][..])..)?.peekable();
    let mut events = Vec::new();
    let (mut bytes, mut count) = (0, 0);
    let mut through = after;
    for row in log.range(first..)? {
        if through >= to {
            break;
        }
        if count >= HISTORY_RECORDS || bytes >= HISTORY_BYTES {
            return Ok(HistoryReplay::Answer(History { events, through }));
        }
        let (revision, record) = row?;
        let revision = revision.value();
        if revision > to {
            break;
        }
        through = revision;
        let mut take = |record: &[u8]| -> Result<(), redb::Error> {
            count += 1;
            let record = Record::decode(record).ok_or_else(|| fault::bad_row("log", revision))?;
            if record.key.starts_with(prefix) {
                let event = event(&log, &parts, record, revision)?;
                bytes += record.size() + event.previous.as_ref().map_or(0, |kv| kv.value.len());
                events.push(event);
            }
            Ok(())
        };
        take(record.value())?;
        let mut same = Vec::new();
        while let Some(row) = further.next_if(|row| {
            row.as_ref()
                .map_or(true, |(at, _)| at.value().0 <= revision)
        }) {
            let (at, part) = row?;
            if at.value().0 == revision {
                let (number, record) = part.value();
                same.push((number, record.to_vec()));
            }
        }
        same.sort_unstable_by_key(|(number, _)| *number);
        same.iter().try_for_each(|(_, record)| take(record))?;
    }
    Ok(HistoryReplay::Answer(History {
        events,
        through: to,
    }))
}

/// Returns the remaining writes to keys with `prefix` at or before the compacted
/// revision, in order. Deletions and superseded values have been removed.
pub(super) fn oldest_writes(
    transaction: &ReadTransaction,
    prefix: &[u8],
) -> Result<HistoryReplay<History>, redb::Error> {
    let revision = state(transaction)?.compacted;
    let log = transaction.open_table(LOG)?;
    let parts = transaction.open_table(PARTS)?;
    let mut records = Vec::new();
    if let Some(first) = log.get(revision)? {
        records.push((0, first.value().to_vec()));
    }
    for row in parts.range::<(u64, &[u8])>((revision, &[][..])..(revision + 1, &[][..]))? {
        let (_, part) = row?;
        let (number, record) = part.value();
        records.push((number, record.to_vec()));
    }
    records.sort_unstable_by_key(|(number, _)| *number);
    let mut events = Vec::new();
    for (_, record) in &records {
        let record = Record::decode(record).ok_or_else(|| fault::bad_row("log", revision))?;
        if record.kind == EventKind::Put && record.key.starts_with(prefix) {
            events.push(Event {
                kind: EventKind::Put,
                kv: record.to_key_value(revision),
                previous: None,
            });
        }
    }
    Ok(HistoryReplay::Answer(History {
        events,
        through: revision,
    }))
}

fn event(
    log: &impl Log,
    parts: &impl Parts,
    record: Record<'_>,
    revision: Revision,
) -> Result<Event, redb::Error> {
    let previous = match record.previous {
        0 => None,
        previous => Some(key_value(log, parts, record.key, previous)?),
    };
    let kv = match record.kind {
        EventKind::Put => record.to_key_value(revision),
        EventKind::Delete => deletion(Bytes::copy_from_slice(record.key), revision),
    };
    Ok(Event {
        kind: record.kind,
        kv,
        previous,
    })
}

/// The revision of the last change to `key` not after `at`, unless that deleted
/// it.
pub(super) fn last_written(
    index: &impl Index,
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

/// Returns what was written to `key` at `revision`.
pub(super) fn key_value(
    log: &impl Log,
    parts: &impl Parts,
    key: &[u8],
    revision: Revision,
) -> Result<KeyValue, redb::Error> {
    let found = |record: &[u8]| {
        Record::decode(record)
            .filter(|record| record.kind == EventKind::Put && record.key == key)
            .map(|record| record.to_key_value(revision))
    };
    let first = log.get(revision)?.and_then(|row| found(row.value()));
    if let Some(kv) = first {
        return Ok(kv);
    }
    let part = parts.get((revision, key))?;
    part.and_then(|row| found(row.value().1))
        .ok_or_else(|| fault::bad_row("log", revision))
}

/// Returns the log's entry for the key of a deletion.
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

fn moment(state: StoreCounters, at: Option<Revision>) -> HistoryReplay<Revision> {
    match at {
        None => HistoryReplay::Answer(state.revision),
        Some(at) if at > state.revision => HistoryReplay::Future {
            current: state.revision,
        },
        Some(at) if at < state.compacted => HistoryReplay::Compacted {
            compacted: state.compacted,
        },
        Some(at) => HistoryReplay::Answer(at),
    }
}

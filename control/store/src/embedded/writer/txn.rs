//! Transactions over several keys: all changes of one are made in one revision.

use std::slice;

use bytes::Bytes;
use redb::{ReadableTable as _, ReadableTableMetadata as _};

use super::super::layout::{DELETED, FORMAT, Record, StoreCounters, WRITTEN};
use super::super::{fault, read};
use super::{AppliedTxn, Tables};
use crate::txn::{
    Compare, GRANTED, Keys, LeaseChoice, Op, OpAnswer, PutKey, Query, Txn, TxnAnswer, lease_id,
};
use crate::{Error, Event, EventKind, KeyValue, Revision};

/// A change of one key that is decided.
pub(super) struct KeyChange<'c> {
    pub key: &'c Bytes,
    /// The current value of the key.
    pub current: Option<KeyValue>,
    /// The value; `None` deletes the key.
    pub value: Option<Bytes>,
    /// The lease, as records have it.
    pub lease: u64,
    /// The revision of the change.
    pub revision: Revision,
    /// How many changes of the same revision were made before.
    pub number: u32,
}

/// One transaction while it is applied.
struct Session<'a> {
    applied: &'a mut AppliedTxn,
    /// The newest revision before it.
    begin: Revision,
    changes: u32,
}

/// The branches that a transaction takes: of itself, then of those inside, in order.
type Branches<'b> = slice::Iter<'b, bool>;

/// The result of an operation, or the reason why it cannot be done.
type StepResult = Result<Result<(), Error>, redb::Error>;

// === impl Session ===

impl Session<'_> {
    /// The newest revision as a step sees it.
    fn revision(&self) -> Revision {
        self.begin + u64::from(self.changes > 0)
    }
}

// === impl Tables ===

impl Tables<'_> {
    /// Applies one transaction on top of those before it in the same commit. A
    /// transaction that fails changes nothing.
    pub(super) fn apply_txn(
        &mut self,
        txn: &Txn,
        applied: &mut AppliedTxn,
    ) -> Result<Result<TxnAnswer, Error>, redb::Error> {
        let mut branches = Vec::new();
        self.choose(txn, &mut branches)?;
        if let Err(error) = self.check(txn, &branches, applied.state)? {
            return Ok(Err(error));
        }
        let begin = applied.state.revision;
        let mut session = Session {
            applied,
            begin,
            changes: 0,
        };
        let (succeeded, answers) = self.run(txn, &mut branches.iter(), &mut session)?;
        let revision = session.revision();
        Ok(Ok(TxnAnswer {
            succeeded,
            answers,
            revision,
        }))
    }

    /// Deletes the keys of a lease, in one revision, and the lease.
    pub(super) fn end_lease(
        &mut self,
        id: u64,
        applied: &mut AppliedTxn,
    ) -> Result<(), redb::Error> {
        let begin = applied.state.revision;
        let mut session = Session {
            applied,
            begin,
            changes: 0,
        };
        for key in self.keys_of(id)? {
            if let Some(current) = self.current(&key)? {
                self.delete(&key, current, &mut session)?;
            }
        }
        self.leases.remove(id)?;
        Ok(())
    }

    /// The keys of a lease.
    pub(super) fn keys_of(&self, id: u64) -> Result<Vec<Bytes>, redb::Error> {
        let rows = self
            .leased
            .range::<(u64, &[u8])>((id, &[][..])..(id + 1, &[][..]))?;
        rows.map(|row| Ok(Bytes::copy_from_slice(row?.0.value().1)))
            .collect()
    }

    /// Decides which branches are taken, all by the state before.
    fn choose(&self, txn: &Txn, branches: &mut Vec<bool>) -> Result<(), redb::Error> {
        let mut holds = true;
        for compare in &txn.compare {
            holds = holds && self.holds(compare)?;
        }
        branches.push(holds);
        for op in branch(txn, holds) {
            if let Op::Txn(inner) = op {
                self.choose(inner, branches)?;
            }
        }
        Ok(())
    }

    fn holds(&self, compare: &Compare) -> Result<bool, redb::Error> {
        let mut kvs = Vec::new();
        read::walk_keys(
            &self.index,
            &compare.keys,
            Revision::MAX,
            |key, revision| {
                kvs.push(read::key_value(&self.log, &self.parts, key, revision)?);
                Ok(())
            },
        )?;
        Ok(compare.holds(&kvs))
    }

    /// Whether every step of the branches that are taken can be done; as etcd, writes are
    /// looked at first.
    fn check(&self, txn: &Txn, branches: &[bool], state: StoreCounters) -> StepResult {
        let mut ops = Vec::new();
        taken(txn, &mut branches.iter(), &mut ops);
        for op in &ops {
            if let Op::Put(put) = op
                && let Err(error) = self.check_put(put)?
            {
                return Ok(Err(error));
            }
        }
        let queries = ops.iter().filter_map(|op| match op {
            Op::Query(query) => Some(check_query(query, state)),
            _ => None,
        });
        Ok(queries.collect())
    }

    fn check_put(&self, put: &PutKey) -> StepResult {
        let keeps = put.value.is_none() || put.lease == LeaseChoice::Keep;
        if keeps && self.current(&put.key)?.is_none() {
            return Ok(Err(Error::KeyNotFound));
        }
        match put.lease {
            LeaseChoice::Attach(id) if !self.has_lease(id)? => Ok(Err(Error::UnknownLease { id })),
            _ => Ok(Ok(())),
        }
    }

    fn has_lease(&self, id: i64) -> Result<bool, redb::Error> {
        let Ok(id) = u64::try_from(id) else {
            return Ok(false);
        };
        Ok(self.leases.get(id)?.is_some())
    }

    fn run(
        &mut self,
        txn: &Txn,
        branches: &mut Branches<'_>,
        session: &mut Session<'_>,
    ) -> Result<(bool, Vec<OpAnswer>), redb::Error> {
        let succeeded = branches.next().copied().unwrap_or_default();
        let mut answers = Vec::new();
        for op in branch(txn, succeeded) {
            answers.push(match op {
                Op::Query(query) => {
                    let at = query.at.unwrap_or(Revision::MAX);
                    let mut selection =
                        read::select(&self.index, &self.log, &self.parts, query, at)?;
                    selection.revision = session.revision();
                    OpAnswer::Query(selection)
                }
                Op::Put(put) => self.put(put, session)?,
                Op::Delete(delete) => {
                    let mut previous = self.delete_all(&delete.keys, session)?;
                    let deleted = previous.len() as u64;
                    if !delete.previous {
                        previous.clear();
                    }
                    OpAnswer::Delete {
                        revision: session.revision(),
                        deleted,
                        previous,
                    }
                }
                Op::Txn(inner) => {
                    let (succeeded, answers) = self.run(inner, branches, session)?;
                    OpAnswer::Txn { succeeded, answers }
                }
            });
        }
        Ok((succeeded, answers))
    }

    fn put(&mut self, put: &PutKey, session: &mut Session<'_>) -> Result<OpAnswer, redb::Error> {
        let current = self.current(&put.key)?;
        let held = current.as_ref();
        let value = put.value.clone();
        let value = value.or_else(|| held.map(|kv| kv.value.clone()));
        let lease = match put.lease {
            LeaseChoice::Detach => 0,
            LeaseChoice::Keep => held.map_or(0, |kv| kv.lease),
            LeaseChoice::Attach(id) => GRANTED | id.unsigned_abs(),
        };
        let previous = current.clone().filter(|_| put.previous);
        let change = KeyChange {
            key: &put.key,
            current,
            value: Some(value.unwrap_or_default()),
            lease,
            revision: session.begin + 1,
            number: session.changes,
        };
        self.change(change, session.applied)?;
        session.changes += 1;
        Ok(OpAnswer::Put {
            revision: session.revision(),
            previous,
        })
    }

    fn delete_all(
        &mut self,
        keys: &Keys,
        session: &mut Session<'_>,
    ) -> Result<Vec<KeyValue>, redb::Error> {
        let mut found = Vec::new();
        read::walk_keys(&self.index, keys, Revision::MAX, |key, revision| {
            found.push(read::key_value(&self.log, &self.parts, key, revision)?);
            Ok(())
        })?;
        for kv in &found {
            self.delete(&kv.key, kv.clone(), session)?;
        }
        Ok(found)
    }

    fn delete(
        &mut self,
        key: &Bytes,
        current: KeyValue,
        session: &mut Session<'_>,
    ) -> Result<(), redb::Error> {
        let change = KeyChange {
            key,
            current: Some(current),
            value: None,
            lease: 0,
            revision: session.begin + 1,
            number: session.changes,
        };
        self.change(change, session.applied)?;
        session.changes += 1;
        Ok(())
    }

    /// Writes a change into all tables, and notes its event.
    pub(super) fn change(
        &mut self,
        change: KeyChange<'_>,
        applied: &mut AppliedTxn,
    ) -> Result<(), redb::Error> {
        let (key, revision, current) = (change.key, change.revision, change.current);
        let (kind, kv) = match change.value {
            Some(value) => {
                let kv = KeyValue {
                    key: key.clone(),
                    value,
                    create_revision: current.as_ref().map_or(revision, |kv| kv.create_revision),
                    mod_revision: revision,
                    version: current.as_ref().map_or(1, |kv| kv.version + 1),
                    lease: change.lease,
                };
                (EventKind::Put, kv)
            }
            None => (EventKind::Delete, read::deletion(key.clone(), revision)),
        };
        let record = Record {
            kind,
            create: kv.create_revision,
            version: kv.version,
            lease: kv.lease,
            previous: current.as_ref().map_or(0, |kv| kv.mod_revision),
            key,
            value: &kv.value,
        };
        if change.number == 0 {
            record.encode(self.log.insert_reserve(revision, record.size())?.as_mut());
        } else {
            let mut bytes = vec![0; record.size()];
            record.encode(&mut bytes);
            self.parts
                .insert((revision, &**key), (change.number, &*bytes))?;
            applied.state.format = FORMAT;
        }
        let mark = if kind == EventKind::Put {
            WRITTEN
        } else {
            DELETED
        };
        self.index.insert((&**key, revision), mark)?;
        // Before the new lease is attached, which may be the same.
        if let Some(old) = &current {
            self.detach(key, old)?;
        }
        self.attach(&kv, applied)?;
        applied.state.revision = revision;
        applied.events.push(Event {
            kind,
            kv,
            previous: current,
        });
        Ok(())
    }

    fn attach(&mut self, kv: &KeyValue, applied: &mut AppliedTxn) -> Result<(), redb::Error> {
        let lease = kv.lease;
        if lease & GRANTED != 0 {
            self.leased.insert((lease & !GRANTED, &*kv.key), ())?;
            applied.state.format = FORMAT;
        } else if lease != 0 {
            self.expiry.insert((lease, kv.mod_revision), &*kv.key)?;
            let next = applied.next_expiry.map_or(lease, |when| when.min(lease));
            applied.next_expiry = Some(next);
        }
        Ok(())
    }

    pub(super) fn detach(&mut self, key: &Bytes, old: &KeyValue) -> Result<(), redb::Error> {
        if old.lease & GRANTED != 0 {
            self.leased
                .remove((lease_id(old.lease).unsigned_abs(), &**key))?;
        } else if old.lease != 0 {
            self.expiry.remove((old.lease, old.mod_revision))?;
        }
        Ok(())
    }

    /// Removes what was written to `key` at `revision`.
    pub(super) fn forget(&mut self, key: &[u8], revision: Revision) -> Result<(), redb::Error> {
        self.index.remove((key, revision))?;
        let is_first = self.parts.is_empty()?
            || self
                .log
                .get(revision)?
                .and_then(|row| Some(Record::decode(row.value())?.key == key))
                .unwrap_or_default();
        if is_first {
            self.log.remove(revision)?;
        } else {
            self.parts.remove((revision, key))?;
        }
        Ok(())
    }

    /// Returns what the records of `parts` in some revisions supersede, and whether they
    /// are deletions.
    pub(super) fn superseded_by_parts(
        &self,
        from: Revision,
        to: Revision,
    ) -> Result<Vec<super::SweptRow>, redb::Error> {
        let rows = self
            .parts
            .range::<(u64, &[u8])>((from, &[][..])..(to + 1, &[][..]))?;
        rows.map(|row| {
            let (at, part) = row?;
            let revision = at.value().0;
            let record =
                Record::decode(part.value().1).ok_or_else(|| fault::bad_row("parts", revision))?;
            let deleted = record.kind == EventKind::Delete;
            Ok((revision, record.previous, deleted, record.key.to_vec()))
        })
        .collect()
    }
}

fn branch(txn: &Txn, succeeded: bool) -> &[Op] {
    if succeeded {
        &txn.success
    } else {
        &txn.failure
    }
}

/// The steps of the branches that are taken, without transactions inside.
fn taken<'t>(txn: &'t Txn, branches: &mut Branches<'_>, ops: &mut Vec<&'t Op>) {
    let succeeded = branches.next().copied().unwrap_or_default();
    for op in branch(txn, succeeded) {
        match op {
            Op::Txn(inner) => taken(inner, branches, ops),
            op => ops.push(op),
        }
    }
}

/// Whether the revision of a query is one that can be read.
fn check_query(query: &Query, state: StoreCounters) -> Result<(), Error> {
    match query.at {
        Some(requested) if requested > state.revision => Err(Error::FutureRevision {
            requested,
            current: state.revision,
        }),
        Some(requested) if requested < state.compacted => Err(Error::Compacted {
            requested,
            compacted: state.compacted,
        }),
        _ => Ok(()),
    }
}

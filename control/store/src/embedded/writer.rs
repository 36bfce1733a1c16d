//! The one thread that changes the file.

mod import;
mod lease;
mod txn;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use redb::backends::FileBackend;
use redb::{Database, ReadableDatabase, ReadableTable, Table, TableError, WriteTransaction};
use tokio::sync::oneshot;

use super::clock::{Clock, ClockMark, Readings};
use super::hub::Hub;
use super::layout::{
    CLOCK_KEY, EXPIRY, FORMAT, INDEX, LEASED, LEASES, LOG, PARTS, Record, STATE, STATE_KEY,
    StoreCounters,
};
use super::mark::Marker;
use super::read::{self, HistoryReplay};
use super::{EmbeddedShared, LeaseRequest, Options, fault};
use crate::txn::{Txn, TxnAnswer};
use crate::{Error, Event, EventKind, KeyValue, Outcome, Precondition, Revision, Write};
use lease::EmbeddedLeases;

pub use import::{ImportedChange, Importer, inspect};

/// The bounds of one commit: more waits for the next one.
const GROUP_REQUESTS: usize = 512;
const GROUP_BYTES: usize = 8 << 20;

/// Number of records that one commit sweeps: few beside waiting writers, many when
/// nothing waits.
const SWEEP_BUSY: usize = 64;
const SWEEP_IDLE: usize = 1024;

/// Keys whose time is over are collected for this long, so that they share a
/// commit.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(1);
const EXPIRY_KEYS: usize = 512;

/// Idle time after the last write before the file is settled.
const SETTLE_AFTER: Duration = Duration::from_millis(100);

/// Delay before the file is reopened after a fault, unless a request comes earlier.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// A request to the writer. Requests without `answer` come from the writer itself.
pub(super) enum Request {
    Write(WriteRequest),
    Txn(TxnRequest),
    Lease(LeaseRequest),
    Compact {
        revision: Revision,
        answer: Option<oneshot::Sender<Result<(), Error>>>,
    },
    Close,
}

pub(super) struct WriteRequest {
    pub key: Bytes,
    pub precondition: Precondition,
    pub write: Write,
    pub answer: Option<oneshot::Sender<Result<Outcome, Error>>>,
}

pub(super) struct TxnRequest {
    pub txn: Txn,
    pub answer: oneshot::Sender<Result<TxnAnswer, Error>>,
}

/// A request that shares a commit with others.
enum GroupedRequest {
    Write(WriteRequest),
    Txn(TxnRequest),
}

/// The result of a request in a commit.
enum Reply {
    Write(Outcome),
    Txn(Result<TxnAnswer, Error>),
}

pub(super) struct Writer {
    shared: Arc<EmbeddedShared>,
    hub: Arc<Hub>,
    requests: Receiver<Request>,
    state: StoreCounters,
    /// The times at which each revision was the newest, oldest first, for automatic
    /// compaction.
    marks: VecDeque<(Instant, Revision)>,
    clock: Clock,
    /// The earliest time, by the store's clock, at which a key may have to go.
    next_expiry: Option<u64>,
    last_expiry: Instant,
    leases: EmbeddedLeases,
    last_lease_expiry: Instant,
    /// When the last commit was made that a crash would have verified.
    unsettled: Option<Instant>,
    /// Notes the newest revision beside the file's content.
    marker: Option<Marker>,
}

/// The effects of one transaction.
struct AppliedTxn {
    replies: Vec<Reply>,
    events: Vec<Event>,
    state: StoreCounters,
    next_expiry: Option<u64>,
    /// The store's time.
    now: u64,
}

/// The time of expiry by the store's clock, the revision that it is for.
type ExpiryRow = (u64, u64);

/// The part of a record that sweeping needs: its revision, the superseded revision,
/// whether it is a deletion, its key.
type SweptRow = (Revision, Revision, bool, Vec<u8>);

/// The tables of a write transaction.
struct Tables<'t> {
    index: Table<'t, (&'static [u8], u64), u8>,
    log: Table<'t, u64, &'static [u8]>,
    parts: Table<'t, (u64, &'static [u8]), (u32, &'static [u8])>,
    leases: Table<'t, u64, u64>,
    leased: Table<'t, (u64, &'static [u8]), ()>,
    expiry: Table<'t, (u64, u64), &'static [u8]>,
    counters: Table<'t, &'static str, &'static [u8]>,
}

/// Opens the file and reads its counters; makes the tables of a new one.
pub(super) fn open(path: &Path, options: &Options) -> Result<(Database, StoreCounters), Error> {
    // The library trusts a file that was closed in order, and panics on pages
    // that make no sense.
    catch_unwind(AssertUnwindSafe(|| open_trusting(path, options)))
        .unwrap_or_else(|payload| Err(fault::corrupt(path, fault::panic_text(&*payload))))
}

fn open_trusting(path: &Path, options: &Options) -> Result<(Database, StoreCounters), Error> {
    let file = private_file(path).map_err(|source| fault::system(path, source))?;
    let database = FileBackend::new(file)
        .and_then(|file| {
            let mut builder = Database::builder();
            builder.set_cache_size(options.cache_bytes);
            builder.create_with_backend(file)
        })
        .map_err(|error| fault::open(path, error))?;
    let operation = |error| fault::operation(path, error);
    let row = stored_state(&database).map_err(operation)?;
    let state = match row {
        Some(row) => match StoreCounters::decode(&row) {
            Some((_, Some(state))) => {
                add_tables(&database).map_err(operation)?;
                state
            }
            Some((found, None)) if found != FORMAT => {
                return Err(Error::Format {
                    path: path.to_owned(),
                    found,
                    known: FORMAT,
                });
            }
            _ => return Err(fault::corrupt(path, "its counters cannot be read")),
        },
        None => create_tables(&database).map_err(operation)?,
    };
    Ok((database, state))
}

fn private_file(path: &Path) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

fn stored_state(database: &Database) -> Result<Option<Vec<u8>>, redb::Error> {
    let transaction = database.begin_read()?;
    let table = match transaction.open_table(STATE) {
        Ok(table) => table,
        Err(TableError::TableDoesNotExist(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let row = table.get(STATE_KEY)?;
    row.map(|row| Some(row.value().to_vec()))
        .ok_or_else(|| fault::bad_row("state", 0))
}

fn create_tables(database: &Database) -> Result<StoreCounters, redb::Error> {
    let state = StoreCounters::new();
    let transaction = database.begin_write()?;
    let mut tables = Tables::open(&transaction)?;
    tables
        .counters
        .insert(STATE_KEY, state.encode().as_slice())?;
    drop(tables);
    transaction.commit()?;
    Ok(state)
}

/// Adds the tables that a file of an earlier version does not have.
fn add_tables(database: &Database) -> Result<(), redb::Error> {
    match database.begin_read()?.open_table(LEASED) {
        Err(TableError::TableDoesNotExist(_)) => {
            let transaction = database.begin_write()?;
            drop(Tables::open(&transaction)?);
            transaction.commit()?;
            Ok(())
        }
        Err(error) => Err(error.into()),
        Ok(_) => Ok(()),
    }
}

/// Makes a commit that saves a full verification of the file after a crash.
///
/// A commit is durable when it returns, after one flush: pages and the root that refers
/// to them go to the disk together, checksums tell after a crash whether all of it
/// arrived, and if not, the previous root is valid (redb's design, "1PC+C"). The price is
/// that the next opening verifies the whole file. A settling commit takes two flushes and
/// records which pages are free; writers should not wait for that, so it is made when the
/// store is idle.
fn settle(database: &Database) -> Result<(), redb::Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_quick_repair(true);
    transaction.commit()?;
    Ok(())
}

// === impl Writer ===

impl Writer {
    pub fn new(
        shared: Arc<EmbeddedShared>,
        hub: Arc<Hub>,
        requests: Receiver<Request>,
        state: StoreCounters,
        marker: Option<Marker>,
        readings: Readings,
    ) -> Result<Self, Error> {
        let mut writer = Self {
            shared,
            hub,
            requests,
            state,
            marks: VecDeque::new(),
            clock: Clock::resume(None, readings),
            next_expiry: None,
            last_expiry: Instant::now(),
            leases: EmbeddedLeases::default(),
            last_lease_expiry: Instant::now(),
            unsettled: None,
            marker,
        };
        let mark = writer.read(|database| {
            let counters = database.begin_read()?.open_table(STATE)?;
            let row = counters.get(CLOCK_KEY)?;
            Ok(row.and_then(|row| ClockMark::decode(row.value())))
        })?;
        writer.clock = Clock::resume(mark, readings);
        writer.next_expiry = writer.read(|database| {
            let expiry = database.begin_read()?.open_table(EXPIRY)?;
            Ok(expiry.first()?.map(|(when, _)| when.value().0))
        })?;
        writer.load_leases()?;
        Ok(writer)
    }

    pub fn run(mut self) {
        loop {
            let first = match self.pause() {
                Some(pause) => self.requests.recv_timeout(pause),
                None => self
                    .requests
                    .recv()
                    .map_err(|_| RecvTimeoutError::Disconnected),
            };
            let idle = first.is_err();
            let go_on = match first {
                Ok(request) => self.serve(request),
                Err(RecvTimeoutError::Timeout) => true,
                Err(RecvTimeoutError::Disconnected) => false,
            };
            if !go_on {
                break;
            }
            self.housekeep(idle);
        }
        if let Some(marker) = &mut self.marker {
            marker.closing(self.state.revision);
        }
        // Requests that arrive after closing are answered by dropping them.
        self.hub.close();
        let mut database = self
            .shared
            .database
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(Err(error)) = database.take().map(Database::close) {
            tracing::warn!(path = %self.shared.path.display(), %error, "store closed with an error");
        }
    }

    /// Serves `request` and what waits behind it. False: the end.
    fn serve(&mut self, request: Request) -> bool {
        let mut group = Vec::new();
        let mut bytes = 0;
        let mut next = Some(request);
        while let Some(request) = next {
            match request {
                Request::Write(write) => {
                    bytes += write.key.len();
                    if let Write::Put { value, .. } = &write.write {
                        bytes += value.len();
                    }
                    group.push(GroupedRequest::Write(write));
                }
                Request::Txn(txn) => {
                    bytes += txn.txn.weight();
                    group.push(GroupedRequest::Txn(txn));
                }
                Request::Lease(request) => {
                    self.commit(std::mem::take(&mut group));
                    self.lease(request);
                }
                Request::Compact { revision, answer } => {
                    self.commit(std::mem::take(&mut group));
                    let result = self.compact(revision);
                    if let Some(answer) = answer {
                        // The caller may have dropped its receiver.
                        let _ = answer.send(result);
                    }
                }
                Request::Close => {
                    self.commit(group);
                    return false;
                }
            }
            if group.len() >= GROUP_REQUESTS || bytes >= GROUP_BYTES {
                break;
            }
            next = self.requests.try_recv().ok();
        }
        self.commit(group);
        true
    }

    /// Applies `group` in one transaction and answers it.
    fn commit(&mut self, group: Vec<GroupedRequest>) {
        if group.is_empty() {
            return;
        }
        let state = self.state;
        let (next_expiry, now) = (self.next_expiry, self.clock.now());
        let result = self.transact(|tables| {
            let mut applied = AppliedTxn {
                replies: Vec::new(),
                events: Vec::new(),
                state,
                next_expiry,
                now,
            };
            for request in &group {
                let reply = match request {
                    GroupedRequest::Write(write) => {
                        Reply::Write(tables.apply(write, &mut applied)?)
                    }
                    GroupedRequest::Txn(request) => {
                        Reply::Txn(tables.apply_txn(&request.txn, &mut applied)?)
                    }
                };
                applied.replies.push(reply);
            }
            if applied.events.is_empty() {
                return Ok((applied, Change::Nothing));
            }
            tables.sweep(&mut applied.state, SWEEP_BUSY)?;
            let state = applied.state;
            Ok((applied, Change::To(state)))
        });
        match result {
            Ok(applied) => {
                self.publish(&applied);
                for (request, reply) in group.into_iter().zip(applied.replies) {
                    // The caller may have dropped its receiver.
                    match (request, reply) {
                        (GroupedRequest::Write(request), Reply::Write(outcome)) => {
                            let _ = request.answer.map(|answer| answer.send(Ok(outcome)));
                        }
                        (GroupedRequest::Txn(request), Reply::Txn(result)) => {
                            let _ = request.answer.send(result);
                        }
                        _ => {}
                    }
                }
            }
            Err(error) => {
                for request in group {
                    match request {
                        GroupedRequest::Write(request) => {
                            let _ = request.answer.map(|answer| answer.send(Err(error.clone())));
                        }
                        GroupedRequest::Txn(request) => {
                            let _ = request.answer.send(Err(error.clone()));
                        }
                    }
                }
            }
        }
    }

    /// Publishes the effects of a commit.
    fn publish(&mut self, applied: &AppliedTxn) {
        self.state = applied.state;
        self.next_expiry = applied.next_expiry;
        if applied.events.is_empty() {
            return;
        }
        self.shared
            .revision
            .store(self.state.revision, Ordering::Release);
        self.hub.publish(&applied.events, self.state.revision);
        if let Some(marker) = &mut self.marker {
            marker.committed(self.state.revision);
        }
    }

    fn load_leases(&mut self) -> Result<(), Error> {
        let now = self.clock.now();
        self.leases = self.read(|database| EmbeddedLeases::load(database, now))?;
        Ok(())
    }

    /// Forgets the past before `revision`; its rows are removed little by
    /// little, by later commits.
    fn compact(&mut self, revision: Revision) -> Result<(), Error> {
        if revision <= self.state.compacted {
            return Err(Error::Compacted {
                requested: revision,
                compacted: self.state.compacted,
            });
        }
        if revision > self.state.revision {
            return Err(Error::FutureRevision {
                requested: revision,
                current: self.state.revision,
            });
        }
        let mut state = self.state;
        state.compacted = revision;
        self.state = self.transact(|tables| {
            tables.sweep(&mut state, SWEEP_BUSY)?;
            Ok((state, Change::To(state)))
        })?;
        self.shared.compacted.store(revision, Ordering::Release);
        tracing::debug!(revision, "store compacted");
        Ok(())
    }

    /// How long nothing needs to be done by itself; `None`: for ever.
    fn pause(&self) -> Option<Duration> {
        if self.state.swept < self.state.compacted {
            return Some(Duration::ZERO);
        }
        let now = Instant::now();
        let broken = self.database_is_closed().then_some(RETRY_INTERVAL);
        let expiry = self.next_expiry.map(|when| {
            let due = Duration::from_millis(when.saturating_sub(self.clock.now()));
            due.max((self.last_expiry + EXPIRY_INTERVAL).saturating_duration_since(now))
        });
        let compaction = self.shared.options.retain.and_then(|retain| {
            let (oldest, _) = self.marks.front()?;
            let (newest, marked) = self.marks.back()?;
            let mut due = *oldest + retain;
            if *marked < self.state.revision {
                due = due.min(*newest + mark_interval(retain));
            }
            Some(due.saturating_duration_since(now))
        });
        let settling = self
            .unsettled
            .map(|at| (at + SETTLE_AFTER).saturating_duration_since(now));
        let leases = self.lease_pause(now);
        let due = expiry.into_iter().chain(compaction).chain(settling);
        let due = due.chain(leases);
        broken.into_iter().chain(due).min()
    }

    /// Performs due work: reopening the file, expiry, compaction.
    fn housekeep(&mut self, idle: bool) {
        if self.database_is_closed()
            && let Err(error) = self.reopen()
        {
            tracing::warn!(%error, "store is still unusable");
            return;
        }
        self.expire();
        self.expire_leases();
        self.compact_by_age();
        if idle
            && self
                .unsettled
                .is_some_and(|at| at.elapsed() >= SETTLE_AFTER)
        {
            self.unsettled = None;
            if let Err(error) = self.guarded(|this| this.read(settle)) {
                tracing::warn!(%error, "store failed to settle the file");
            }
        }
        if idle && self.state.swept < self.state.compacted {
            let mut state = self.state;
            let result = self.transact(|tables| {
                tables.sweep(&mut state, SWEEP_IDLE)?;
                Ok((state, Change::To(state)))
            });
            match result {
                Ok(state) => self.state = state,
                Err(error) => tracing::warn!(%error, "store failed to sweep compacted revisions"),
            }
        }
    }

    fn expire(&mut self) {
        let now = self.clock.now();
        if self.next_expiry.is_none_or(|when| when > now)
            || self.last_expiry.elapsed() < EXPIRY_INTERVAL
        {
            return;
        }
        self.last_expiry = Instant::now();
        let state = self.state;
        let result = self.transact(|tables| {
            let mut applied = AppliedTxn {
                replies: Vec::new(),
                events: Vec::new(),
                state,
                next_expiry: None,
                now,
            };
            for (row, key) in tables.due(now)? {
                tables.expiry.remove(row)?;
                let request = WriteRequest {
                    key,
                    precondition: Precondition::ModRevision(row.1),
                    write: Write::Delete,
                    answer: None,
                };
                tables.apply(&request, &mut applied)?;
            }
            applied.next_expiry = tables.expiry.first()?.map(|(when, _)| when.value().0);
            let state = applied.state;
            Ok((applied, Change::To(state)))
        });
        match result {
            Ok(applied) => self.publish(&applied),
            Err(error) => tracing::warn!(%error, "store failed to delete expired keys"),
        }
    }

    /// Compacts revisions that are older than [`Options::retain`] or too many.
    fn compact_by_age(&mut self) {
        let Some(retain) = self.shared.options.retain else {
            return;
        };
        let now = Instant::now();
        let mut target = 0;
        while let Some(&(when, revision)) = self.marks.front() {
            if now.saturating_duration_since(when) < retain {
                break;
            }
            target = revision;
            self.marks.pop_front();
        }
        let due = self.marks.back().is_none_or(|&(when, revision)| {
            revision < self.state.revision
                && now.saturating_duration_since(when) >= mark_interval(retain)
        });
        if due && target.max(self.state.compacted) < self.state.revision {
            self.marks.push_back((now, self.state.revision));
        }
        let bound = self.shared.options.retain_revisions.max(1);
        if self.state.revision - self.state.compacted > bound + bound / 4 {
            target = target.max(self.state.revision - bound);
        }
        if target > self.state.compacted
            && let Err(error) = self.compact(target)
        {
            tracing::warn!(%error, revision = target, "store failed to compact");
        }
    }

    fn database_is_closed(&self) -> bool {
        self.shared
            .database
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .is_none()
    }

    fn read<T>(
        &self,
        question: impl FnOnce(&Database) -> Result<T, redb::Error>,
    ) -> Result<T, Error> {
        let database = self
            .shared
            .database
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let database = database.as_ref().ok_or(Error::Closed)?;
        question(database).map_err(|error| fault::operation(&self.shared.path, error))
    }

    /// Runs one write transaction. After a fault the file is reopened, since the library
    /// refuses all further work on it; the file then tells whether the transaction
    /// happened.
    fn transact<T>(
        &mut self,
        work: impl FnOnce(&mut Tables<'_>) -> Result<(T, Change), redb::Error>,
    ) -> Result<T, Error> {
        if self.database_is_closed() {
            self.reopen()?;
        }
        let mark = self.clock.mark().encode();
        let attempt = |this: &Self| {
            this.read(|database| {
                let transaction = database.begin_write()?;
                let mut tables = Tables::open(&transaction)?;
                let (answer, change) = work(&mut tables)?;
                if let Change::To(state) = change {
                    tables
                        .counters
                        .insert(STATE_KEY, state.encode().as_slice())?;
                    tables.counters.insert(CLOCK_KEY, mark.as_slice())?;
                }
                drop(tables);
                let changed = matches!(change, Change::To(_));
                if changed {
                    transaction.commit()?;
                } else {
                    transaction.abort()?;
                }
                Ok((answer, changed))
            })
        };
        let result = self.guarded(attempt)?;
        if result.1 {
            self.unsettled = Some(Instant::now());
        }
        Ok(result.0)
    }

    /// Runs an operation on the file; reopens the file after a fault.
    fn guarded<T>(&mut self, attempt: impl FnOnce(&Self) -> Result<T, Error>) -> Result<T, Error> {
        let attempt = || attempt(self);
        let result = catch_unwind(AssertUnwindSafe(attempt)).unwrap_or_else(|payload| {
            Err(fault::corrupt(
                &self.shared.path,
                fault::panic_text(&*payload),
            ))
        });
        if let Err(error) = &result {
            tracing::error!(%error, "store failed to write, reopening it");
            if let Err(error) = self.reopen() {
                tracing::error!(%error, "store failed to reopen, retrying");
            }
        }
        result
    }

    /// Reopens the file, and publishes the writes of a commit of unknown outcome if it
    /// happened.
    fn reopen(&mut self) -> Result<(), Error> {
        let mut slot = self
            .shared
            .database
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        drop(slot.take());
        let (database, state) = open(&self.shared.path, &self.shared.options)?;
        if state.revision < self.state.revision {
            // A durable commit is missing: the file was replaced.
            return Err(fault::corrupt(
                &self.shared.path,
                format!(
                    "revision {} was written, the file has {}",
                    self.state.revision, state.revision
                ),
            ));
        }
        *slot = Some(database);
        drop(slot);
        let mut known = self.state.revision;
        self.state = state;
        self.shared
            .compacted
            .store(state.compacted, Ordering::Release);
        self.next_expiry = Some(0);
        self.load_leases()?;
        while known < state.revision {
            let past = self.read(|database| {
                read::history(&database.begin_read()?, b"", known, state.revision)
            })?;
            let HistoryReplay::Answer(history) = past else {
                break;
            };
            known = history.through;
            self.shared.revision.store(known, Ordering::Release);
            self.hub.publish(&history.events, known);
        }
        Ok(())
    }
}

/// Whether a transaction is to be committed, with which counters.
#[derive(Clone, Copy)]
enum Change {
    Nothing,
    To(StoreCounters),
}

// === impl Tables ===

impl<'t> Tables<'t> {
    fn open(transaction: &'t WriteTransaction) -> Result<Self, redb::Error> {
        Ok(Self {
            index: transaction.open_table(INDEX)?,
            log: transaction.open_table(LOG)?,
            parts: transaction.open_table(PARTS)?,
            leases: transaction.open_table(LEASES)?,
            leased: transaction.open_table(LEASED)?,
            expiry: transaction.open_table(EXPIRY)?,
            counters: transaction.open_table(STATE)?,
        })
    }

    /// Applies one write on top of those before it in the transaction.
    fn apply(
        &mut self,
        request: &WriteRequest,
        applied: &mut AppliedTxn,
    ) -> Result<Outcome, redb::Error> {
        let current = self.current(&request.key)?;
        let holds = match request.precondition {
            Precondition::Absent => current.is_none(),
            Precondition::ModRevision(revision) => current
                .as_ref()
                .is_some_and(|kv| kv.mod_revision == revision),
            Precondition::Any => current.is_some() || matches!(request.write, Write::Put { .. }),
        };
        // A deletion needs something to delete, whatever it was promised.
        let deletes_nothing = current.is_none() && matches!(request.write, Write::Delete);
        if !holds || deletes_nothing {
            return Ok(Outcome::Failed {
                current,
                revision: applied.state.revision,
            });
        }
        let revision = applied.state.revision + 1;
        let (value, lease) = match &request.write {
            Write::Put { value, ttl } => {
                let lease = ttl.map_or(0, |ttl| expires_at(applied.now, ttl));
                (Some(value.clone()), lease)
            }
            Write::Delete => (None, 0),
        };
        let change = txn::KeyChange {
            key: &request.key,
            current: current.clone(),
            value,
            lease,
            revision,
            number: 0,
        };
        self.change(change, applied)?;
        Ok(Outcome::Done {
            revision,
            previous: current,
        })
    }

    fn current(&self, key: &[u8]) -> Result<Option<KeyValue>, redb::Error> {
        match read::last_written(&self.index, key, Revision::MAX)? {
            Some(revision) => read::key_value(&self.log, &self.parts, key, revision).map(Some),
            None => Ok(None),
        }
    }

    /// The rows of keys whose time is over.
    fn due(&self, now: u64) -> Result<Vec<(ExpiryRow, Bytes)>, redb::Error> {
        self.expiry
            .range(..=(now, u64::MAX))?
            .take(EXPIRY_KEYS)
            .map(|row| {
                let (when, key) = row?;
                Ok((when.value(), Bytes::copy_from_slice(key.value())))
            })
            .collect()
    }

    /// Sweeps up to `records` compacted records.
    fn sweep(&mut self, state: &mut StoreCounters, records: usize) -> Result<(), redb::Error> {
        if state.swept >= state.compacted {
            return Ok(());
        }
        let mut rows: Vec<SweptRow> = Vec::new();
        let from = state.swept + 1;
        for row in self
            .log
            .range(state.swept + 1..=state.compacted)?
            .take(records)
        {
            let (revision, record) = row?;
            let revision = revision.value();
            let record =
                Record::decode(record.value()).ok_or_else(|| fault::bad_row("log", revision))?;
            let deleted = record.kind == EventKind::Delete;
            rows.push((revision, record.previous, deleted, record.key.to_vec()));
        }
        state.swept = match rows.last() {
            Some((last, ..)) if rows.len() == records => *last,
            _ => state.compacted,
        };
        rows.extend(self.superseded_by_parts(from, state.swept)?);
        for (revision, superseded, deleted, key) in rows {
            if superseded != 0 {
                self.forget(&key, superseded)?;
            }
            if deleted {
                self.forget(&key, revision)?;
            }
        }
        Ok(())
    }
}

/// Returns the interval between the marks for automatic compaction.
fn mark_interval(retain: Duration) -> Duration {
    retain / 10
}

/// Never 0, which would mean never.
fn expires_at(now: u64, ttl: Duration) -> u64 {
    let ttl = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
    now.saturating_add(ttl).max(1)
}

//! Leases that clients grant: a lease lives until it is not renewed in time, and its keys
//! end with it, in one revision.
//!
//! A renewal is not written down. As with a new leader of etcd, every lease has its whole
//! time again when the store is opened.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use redb::{Database, ReadableDatabase as _, ReadableTable as _};

use super::super::LeaseRequest;
use super::super::layout::{FORMAT, LEASED, LEASES};
use super::{AppliedTxn, Change, EXPIRY_INTERVAL, Writer};
use crate::txn::LeaseStatus;
use crate::{Error, Revision};

/// How many leases end in one commit at most.
const ENDED_LEASES: usize = 64;

/// The leases, by their numbers.
#[derive(Default)]
pub(super) struct EmbeddedLeases(BTreeMap<u64, EmbeddedLease>);

#[derive(Clone, Copy)]
struct EmbeddedLease {
    /// In seconds.
    ttl: u64,
    /// The time of expiry by the store's clock.
    ends: u64,
}

// === impl Leases ===

impl EmbeddedLeases {
    /// Reads them from the file; each has its whole time from `now` on.
    pub fn load(database: &Database, now: u64) -> Result<Self, redb::Error> {
        let table = database.begin_read()?.open_table(LEASES)?;
        let rows = table.iter()?.map(|row| {
            let (id, ttl) = row?;
            Ok((id.value(), EmbeddedLease::granted(ttl.value(), now)))
        });
        rows.collect::<Result<_, redb::Error>>().map(Self)
    }

    /// Returns when the next lease expires.
    pub fn next(&self) -> Option<u64> {
        self.0.values().map(|lease| lease.ends).min()
    }

    fn due(&self, now: u64) -> Vec<u64> {
        let due = self.0.iter().filter(|(_, lease)| lease.ends <= now);
        due.map(|(id, _)| *id).take(ENDED_LEASES).collect()
    }

    /// A number that no lease has.
    fn free_id(&self, now: u64) -> u64 {
        // Times grow, so that a number is not given out again.
        let mut id = (now << 16) & (u64::MAX >> 1);
        while id == 0 || self.0.contains_key(&id) {
            id += 1;
        }
        id
    }
}

impl EmbeddedLease {
    fn granted(ttl: u64, now: u64) -> Self {
        Self {
            ttl,
            ends: now.saturating_add(ttl.saturating_mul(1000)),
        }
    }
}

// === impl Writer ===

impl Writer {
    pub(super) fn lease(&mut self, request: LeaseRequest) {
        // The caller may have dropped its receiver.
        match request {
            LeaseRequest::Grant { id, ttl, answer } => {
                let _ = answer.send(self.grant(id, ttl));
            }
            LeaseRequest::Revoke { id, answer } => {
                let _ = answer.send(self.revoke(id));
            }
            LeaseRequest::Renew { id, answer } => {
                let now = self.clock.now();
                let lease = self.known(id).and_then(|id| self.leases.0.get_mut(&id));
                let ttl = lease.map(|lease| {
                    *lease = EmbeddedLease::granted(lease.ttl, now);
                    signed(lease.ttl)
                });
                let _ = answer.send(Ok(ttl));
            }
            LeaseRequest::Status {
                id,
                with_keys,
                answer,
            } => {
                let _ = answer.send(self.status(id, with_keys));
            }
            LeaseRequest::List { answer } => {
                let mut leases: Vec<_> = self.leases.0.iter().collect();
                leases.sort_by_key(|(id, lease)| (lease.ends, **id));
                let ids = leases.into_iter().map(|(id, _)| signed(*id));
                let _ = answer.send(Ok(ids.collect()));
            }
        }
    }

    /// The number in the table, if such a lease exists.
    fn known(&self, id: i64) -> Option<u64> {
        u64::try_from(id)
            .ok()
            .filter(|id| self.leases.0.contains_key(id))
    }

    fn grant(&mut self, id: Option<i64>, ttl: u64) -> Result<i64, Error> {
        let now = self.clock.now();
        let id = match id {
            None => self.leases.free_id(now),
            Some(id) => match u64::try_from(id) {
                Ok(id) if id != 0 => id,
                _ => return Err(Error::UnknownLease { id }),
            },
        };
        if self.leases.0.contains_key(&id) {
            return Err(Error::LeaseExists { id: signed(id) });
        }
        let mut state = self.state;
        state.format = FORMAT;
        self.transact(|tables| {
            tables.leases.insert(id, ttl)?;
            Ok(((), Change::To(state)))
        })?;
        self.state = state;
        self.leases.0.insert(id, EmbeddedLease::granted(ttl, now));
        Ok(signed(id))
    }

    fn revoke(&mut self, id: i64) -> Result<Revision, Error> {
        let known = self.known(id).ok_or(Error::UnknownLease { id })?;
        self.end(&[known])?;
        Ok(self.state.revision)
    }

    fn status(&self, id: i64, with_keys: bool) -> Result<Option<LeaseStatus>, Error> {
        let Some((id, lease)) = self
            .known(id)
            .and_then(|id| Some((id, *self.leases.0.get(&id)?)))
        else {
            return Ok(None);
        };
        let keys = if with_keys {
            self.read(|database| {
                let leased = database.begin_read()?.open_table(LEASED)?;
                let rows = leased.range::<(u64, &[u8])>((id, &[][..])..(id + 1, &[][..]))?;
                rows.map(|row| Ok(bytes::Bytes::copy_from_slice(row?.0.value().1)))
                    .collect::<Result<_, redb::Error>>()
            })?
        } else {
            Vec::new()
        };
        let remaining = lease.ends.saturating_sub(self.clock.now()) / 1000;
        Ok(Some(LeaseStatus {
            granted_ttl: signed(lease.ttl),
            remaining: signed(remaining),
            keys,
        }))
    }

    /// How long no lease ends.
    pub(super) fn lease_pause(&self, now: Instant) -> Option<Duration> {
        let due = Duration::from_millis(self.leases.next()?.saturating_sub(self.clock.now()));
        let collected = self.last_lease_expiry + EXPIRY_INTERVAL;
        Some(due.max(collected.saturating_duration_since(now)))
    }

    /// Ends the leases that were not renewed in time.
    pub(super) fn expire_leases(&mut self) {
        let now = self.clock.now();
        if self.leases.next().is_none_or(|ends| ends > now)
            || self.last_lease_expiry.elapsed() < EXPIRY_INTERVAL
        {
            return;
        }
        self.last_lease_expiry = Instant::now();
        let due = self.leases.due(now);
        if let Err(error) = self.end(&due) {
            tracing::warn!(%error, "store failed to expire leases");
        }
    }

    /// Expires leases in one commit, each with its keys in a revision of its own.
    fn end(&mut self, ids: &[u64]) -> Result<(), Error> {
        let (state, next_expiry, now) = (self.state, self.next_expiry, self.clock.now());
        let applied = self.transact(|tables| {
            let mut applied = AppliedTxn {
                replies: Vec::new(),
                events: Vec::new(),
                state,
                next_expiry,
                now,
            };
            for id in ids {
                tables.end_lease(*id, &mut applied)?;
            }
            let state = applied.state;
            Ok((applied, Change::To(state)))
        })?;
        for id in ids {
            self.leases.0.remove(id);
        }
        self.publish(&applied);
        Ok(())
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

//! Leases for keys with a limited lifetime.
//!
//! A separate lease for each key would double the writes and burden etcd's leader, which
//! tracks every lease. So keys with equal lifetimes share a lease while it lasts long
//! enough for them: they live up to a twentieth of their lifetime, or a minute, longer
//! than requested.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use etcd_client::LeaseClient;

use super::EtcdShared;
use crate::Error;

/// The leases that are handed out, by the life of their keys in seconds.
pub(super) struct EtcdLeases {
    client: LeaseClient,
    shared: Mutex<HashMap<u64, EtcdLease>>,
}

#[derive(Clone, Copy)]
struct EtcdLease {
    id: i64,
    ends: Instant,
    keys: u32,
}

/// The number of keys that share a lease: all are deleted in one transaction when it
/// expires.
const KEYS: u32 = 1_000;

/// How much longer than asked a key may live.
const LONGEST_EXTRA: u64 = 60;

// === impl Leases ===

impl EtcdLeases {
    pub fn new(client: LeaseClient) -> Self {
        Self {
            client,
            shared: Mutex::new(HashMap::new()),
        }
    }

    /// A lease under which a key lives at least for `ttl`.
    pub async fn lease(&self, ttl: Duration, shared: &EtcdShared) -> Result<i64, Error> {
        // Rounded up to whole seconds; etcd has no lease of zero.
        let seconds = (ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0)).max(1);
        let now = Instant::now();
        if let Some(lease) = self.lock().get_mut(&seconds)
            && lease.keys < KEYS
            && lease.ends >= now + ttl
        {
            lease.keys += 1;
            return Ok(lease.id);
        }
        let granted = seconds.saturating_add(extra(seconds));
        let mut client = self.client.clone();
        let call = client.grant(i64::try_from(granted).unwrap_or(i64::MAX), None);
        let answer = shared
            .timed(call)
            .await
            .map_err(|error| shared.faults.operation(error))?;
        let lease = EtcdLease {
            id: answer.id(),
            // Taken before the call: etcd counts from some moment within it.
            ends: now + Duration::from_secs(granted),
            keys: 1,
        };
        let mut all = self.lock();
        all.retain(|_, lease| lease.ends > now);
        all.insert(seconds, lease);
        Ok(lease.id)
    }

    /// Hands out none of the present ones any more.
    pub fn forget(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, EtcdLease>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time for which a lease is shared, in seconds.
const fn extra(seconds: u64) -> u64 {
    let twentieth = seconds / 20;
    if twentieth < LONGEST_EXTRA {
        twentieth
    } else {
        LONGEST_EXTRA
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_live_a_twentieth_or_a_minute_longer_at_most() {
        assert_eq!(
            [1, 19, 20, 600, 3_600, u64::MAX].map(extra),
            [0, 0, 1, 30, 60, 60]
        );
    }
}

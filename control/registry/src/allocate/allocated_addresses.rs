//! The addresses that are known to be taken.

use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use control_kinds::service;
use rustc_hash::FxHashSet;

/// How far a cache may lag behind the store.
const LAG: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub struct AllocatedAddresses {
    pub addresses: FxHashSet<IpAddr>,
    /// Reservations that are not in the cache yet; a rebuild keeps them.
    pub pending: Vec<IpAddr>,
    /// What was given back lately: a cache that lags may still show it.
    pub freed: Vec<(IpAddr, Instant)>,
}

pub fn lock(taken: &Mutex<AllocatedAddresses>) -> MutexGuard<'_, AllocatedAddresses> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AllocatedAddresses {
    pub fn take(&mut self, address: IpAddr) -> bool {
        self.freed.retain(|(freed, _)| *freed != address);
        self.addresses.insert(address)
    }

    pub fn free(&mut self, address: IpAddr) {
        self.addresses.remove(&address);
        self.pending.retain(|pending| *pending != address);
        self.freed.push((address, Instant::now()));
    }

    /// Takes over what another knows that the caches may not show yet.
    pub fn inherit(&mut self, old: &mut Self) {
        self.freed = std::mem::take(&mut old.freed);
        self.freed.retain(|(_, at)| at.elapsed() < LAG);
        for (address, _) in &self.freed {
            self.addresses.remove(address);
        }
        self.pending = std::mem::take(&mut old.pending);
        self.pending
            .retain(|address| !self.addresses.contains(address));
        for address in self.pending.clone() {
            self.take(address);
        }
    }
}

pub fn addresses_of(held: &service::ReleasedResources) -> Vec<IpAddr> {
    let addresses = held.addresses.iter();
    addresses.filter_map(|text| text.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_back_stays_free_though_a_cache_still_shows_it() {
        let address: IpAddr = "10.0.0.1".parse().expect("an address");
        let mut old = AllocatedAddresses::default();
        old.take(address);
        old.free(address);
        let mut fresh = AllocatedAddresses::default();
        fresh.take(address);
        fresh.inherit(&mut old);
        assert!(fresh.take(address));
        // An address that was freed and then taken again counts as taken.
        let mut newer = AllocatedAddresses::default();
        newer.take(address);
        newer.inherit(&mut fresh);
        assert!(!newer.take(address));
    }
}

//! Limits of each client's share of the server.
//!
//! Clients are pods of this node, each with an address of its own. A pod that opens
//! connections and does not read, or queries names whose resolver does not answer, uses
//! up only its own share; the shares of others, and of UDP, remain.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A bound for all clients together, and one for each.
#[derive(Debug)]
pub(crate) struct ClientLimit {
    all: usize,
    each: usize,
    held: Mutex<HeldSlot>,
}

#[derive(Debug, Default)]
struct HeldSlot {
    all: usize,
    by_client: HashMap<IpAddr, usize>,
}

/// A place that a client holds until this is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    limit: Arc<ClientLimit>,
    client: IpAddr,
}

impl ClientLimit {
    pub fn new(all: usize, each: usize) -> Arc<Self> {
        Arc::new(Self {
            all,
            each,
            held: Mutex::default(),
        })
    }

    /// Takes a place for a client, unless it or all together hold as many as they may.
    pub fn acquire(self: &Arc<Self>, client: IpAddr) -> Option<Permit> {
        // One client has one share, by whichever family of sockets it comes.
        let client = client.to_canonical();
        let mut held = self.held();
        let own = held.by_client.get(&client).copied().unwrap_or(0);
        if held.all >= self.all || own >= self.each {
            return None;
        }
        held.all += 1;
        held.by_client.insert(client, own + 1);
        drop(held);
        Some(Permit {
            limit: Arc::clone(self),
            client,
        })
    }

    fn held(&self) -> MutexGuard<'_, HeldSlot> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut held = self.limit.held();
        held.all = held.all.saturating_sub(1);
        if let Some(own) = held.by_client.get_mut(&self.client) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                held.by_client.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_client_gets_its_share_and_no_more() {
        let limit = ClientLimit::new(5, 2);
        let (one, other) = (address("10.0.0.1"), address("10.0.0.2"));
        let first = limit.acquire(one);
        let second = limit.acquire(one);
        assert!(first.is_some() && second.is_some());
        assert!(limit.acquire(address("::ffff:10.0.0.1")).is_none());
        assert!(limit.acquire(other).is_some());
        drop(first);
        assert!(limit.acquire(one).is_some());
    }

    #[test]
    fn all_together_have_a_bound_and_nothing_is_kept_of_who_left() {
        let limit = ClientLimit::new(2, 2);
        let held: Vec<_> = (1..=2)
            .map(|it| limit.acquire(address(&format!("10.0.0.{it}"))))
            .collect();
        assert!(held.iter().all(Option::is_some));
        assert!(limit.acquire(address("10.0.0.3")).is_none());
        drop(held);
        assert!(limit.held().by_client.is_empty());
        assert_eq!(limit.held().all, 0);
    }
}

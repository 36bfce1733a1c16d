//! Chooses the server for a request when there are several; a small policy without I/O.
//!
//! Each client has a *home*, chosen at random so that clients spread. A server that fails
//! or is slow is avoided for a period that doubles with each further fault; requests go
//! to the next server in that period. Afterwards the next request goes home again.

use std::time::{Duration, Instant};

use http::uri::Authority;

/// For how long a server is left after its first fault, and at most.
const FIRST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(60);
/// The limit for a server that never answered and may be unreachable from here.
const LONGEST_UNKNOWN: Duration = Duration::from_secs(600);

/// The servers, and how they did of late.
#[derive(Debug)]
pub(crate) struct Preferences {
    servers: Vec<ServerRecord>,
    /// The server of requests while nothing is wrong.
    home: usize,
}

#[derive(Clone, Debug)]
struct ServerRecord {
    authority: Authority,
    faults: u32,
    left_until: Option<Instant>,
    has_answered: bool,
}

// === impl Preferences ===

impl Preferences {
    /// Prefers one of the servers by the number `seed`.
    pub fn new(servers: Vec<Authority>, seed: usize) -> Self {
        let home = seed.checked_rem(servers.len()).unwrap_or(0);
        let servers = servers.into_iter().map(ServerRecord::new).collect();
        Self { servers, home }
    }

    /// How many servers there are.
    pub fn len(&self) -> usize {
        self.servers.len()
    }

    /// The server for a request: home, or the next one in order that is not left; if all are,
    /// the one that is to be tried again first.
    pub fn choose(&self, now: Instant) -> Option<Authority> {
        let count = self.servers.len();
        let order = (0..count).map(|step| &self.servers[(self.home + step) % count]);
        let is_left = |known: &&ServerRecord| known.left_until.is_some_and(|until| until > now);
        order
            .clone()
            .find(|known| !is_left(known))
            .or_else(|| order.min_by_key(|known| known.left_until))
            .map(|known| known.authority.clone())
    }

    /// A server failed or is slow.
    pub fn failed(&mut self, server: &Authority, now: Instant) {
        let Some(known) = self.find(server) else {
            return;
        };
        // Requests that were under way together fail together: that is one fault.
        if known.left_until.is_some_and(|until| until > now) {
            return;
        }
        let longest = if known.has_answered {
            LONGEST
        } else {
            LONGEST_UNKNOWN
        };
        let pause = FIRST.saturating_mul(1 << known.faults.min(16)).min(longest);
        known.faults += 1;
        known.left_until = Some(now + pause);
    }

    /// A server answered in time.
    pub fn answered(&mut self, server: &Authority) {
        if let Some(known) = self.find(server) {
            known.faults = 0;
            known.left_until = None;
            known.has_answered = true;
        }
    }

    /// Replaces the servers, and keeps the state of those that remain. Returns whether
    /// anything changed. `seed` chooses a home if the old one was removed.
    pub fn learn(&mut self, servers: Vec<Authority>, seed: usize) -> bool {
        let same = servers.len() == self.servers.len()
            && servers
                .iter()
                .zip(&self.servers)
                .all(|(new, old)| *new == old.authority);
        if same || servers.is_empty() {
            return false;
        }
        let home = self
            .servers
            .get(self.home)
            .map(|known| known.authority.clone());
        let before = std::mem::take(&mut self.servers);
        let known = |server: Authority| {
            let before = before.iter().find(|known| known.authority == server);
            before.cloned().unwrap_or_else(|| ServerRecord::new(server))
        };
        self.servers = servers.into_iter().map(known).collect();
        let kept = self
            .servers
            .iter()
            .position(|known| Some(&known.authority) == home.as_ref());
        self.home = kept.unwrap_or(seed % self.servers.len());
        true
    }

    fn find(&mut self, server: &Authority) -> Option<&mut ServerRecord> {
        self.servers
            .iter_mut()
            .find(|known| known.authority == *server)
    }
}

impl ServerRecord {
    const fn new(authority: Authority) -> Self {
        Self {
            authority,
            faults: 0,
            left_until: None,
            has_answered: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn servers(count: u8) -> Vec<Authority> {
        (1..=count)
            .map(|number| {
                format!("10.0.0.{number}:6443")
                    .parse()
                    .expect("an authority")
            })
            .collect()
    }

    #[test]
    fn a_failed_server_is_left_for_the_next_and_returned_to() {
        let all = servers(3);
        let mut preferences = Preferences::new(all.clone(), 1);
        let now = Instant::now();
        assert_eq!(preferences.choose(now).as_ref(), Some(&all[1]));
        preferences.answered(&all[1]);
        preferences.failed(&all[1], now);
        // Others of the same moment are the same fault.
        preferences.failed(&all[1], now);
        assert_eq!(preferences.choose(now).as_ref(), Some(&all[2]));
        preferences.failed(&all[2], now);
        assert_eq!(preferences.choose(now).as_ref(), Some(&all[0]));
        let later = now + FIRST;
        assert_eq!(
            preferences.choose(later).as_ref(),
            Some(&all[1]),
            "home again"
        );
        preferences.failed(&all[1], later);
        let much_later = later + FIRST;
        assert_ne!(
            preferences.choose(much_later).as_ref(),
            Some(&all[1]),
            "left longer"
        );
        preferences.answered(&all[1]);
        assert_eq!(preferences.choose(much_later).as_ref(), Some(&all[1]));
    }

    #[test]
    fn with_all_of_them_left_the_one_that_is_due_first_is_tried() {
        let all = servers(2);
        let mut preferences = Preferences::new(all.clone(), 0);
        let now = Instant::now();
        preferences.failed(&all[0], now);
        preferences.failed(&all[1], now + Duration::from_secs(1));
        let next = preferences.choose(now + Duration::from_secs(1));
        assert_eq!(next.as_ref(), Some(&all[0]));
    }

    #[test]
    fn clients_spread_over_servers() {
        let all = servers(3);
        let homes: std::collections::BTreeSet<String> = (0..9)
            .filter_map(|seed| Preferences::new(all.clone(), seed).choose(Instant::now()))
            .map(|home| home.to_string())
            .collect();
        assert_eq!(homes.len(), 3);
    }

    #[test]
    fn what_is_learnt_keeps_home_and_faults() {
        let all = servers(3);
        let mut preferences = Preferences::new(all[..2].to_vec(), 1);
        let now = Instant::now();
        preferences.failed(&all[1], now);
        assert!(preferences.learn(all.clone(), 0));
        assert!(!preferences.learn(all.clone(), 0));
        assert_eq!(preferences.choose(now).as_ref(), Some(&all[2]));
        assert_eq!(preferences.choose(now + FIRST).as_ref(), Some(&all[1]));
        assert!(preferences.learn(all[2..].to_vec(), 7));
        assert_eq!(preferences.choose(now).as_ref(), Some(&all[2]));
        assert!(!preferences.learn(Vec::new(), 0), "nobody is no news");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn a_server_that_works_is_found_within_one_fault_of_each_other(
            count in 1u8..6, works in 0u8..6, seed in any::<usize>(),
        ) {
            let all = servers(count);
            let works = &all[usize::from(works % count)];
            let mut preferences = Preferences::new(all.clone(), seed);
            let now = Instant::now();
            let mut asked = 0;
            loop {
                let chosen = preferences.choose(now).expect("one");
                asked += 1;
                if chosen == *works { break; }
                preferences.failed(&chosen, now);
                prop_assert!(asked <= count);
            }
        }
    }
}

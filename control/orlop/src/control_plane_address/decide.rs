//! Decides which server has the control plane's address.

use std::time::Duration;

use tokio::time::Instant;

/// A server that is silent for this long counts as down, unless servers were slow recently.
pub const SILENCE: Duration = Duration::from_millis(500);
/// The longest time that [`SilenceLimit`] waits for a server.
const LONGEST_SILENCE: Duration = Duration::from_secs(2);
/// A server that is heard again within this time was slow, not down.
const SLOW: Duration = Duration::from_secs(3);
/// How long servers have to be punctual before less patience is needed.
const PUNCTUAL: Duration = Duration::from_secs(600);

/// How long the holder keeps the address although it is not ready: longer than etcd takes to
/// elect a leader, for which servers are not ready one after the other.
const UNREADY: Duration = Duration::from_millis(2500);

/// This server.
#[derive(Clone, Copy, Debug)]
pub struct OwnState {
    /// The server's identity.
    pub id: u64,
    /// Whether it answers requests.
    pub is_ready: bool,
    /// Whether it has the address.
    pub is_holder: bool,
    /// For how long it has listened.
    pub listened: Duration,
    /// Whether it was stalled for so long that others took it for down.
    pub was_silent: bool,
}

/// Another server that was heard recently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The server's identity.
    pub id: u64,
    /// Whether it answers requests.
    pub is_ready: bool,
    /// Whether it has the address.
    pub is_holder: bool,
}

/// Returns whether this server should have the address.
///
/// Ready servers take precedence. Among equals the one that has the address keeps it, so
/// that connections are not cut without need; if two have it, or none, the one with the
/// smallest id takes it. A server that was silent leaves it to the one that took it meanwhile:
/// clients use that one already.
#[must_use]
pub fn holds(own: OwnState, peers: &[Peer]) -> bool {
    // A server that has just started may not have heard the holder.
    if !own.is_holder && own.listened < SILENCE * 2 {
        return false;
    }
    if own.was_silent && peers.iter().any(|peer| peer.is_ready && peer.is_holder) {
        return false;
    }
    let as_peer = Peer {
        id: own.id,
        is_ready: own.is_ready,
        is_holder: own.is_holder,
    };
    let best = peers
        .iter()
        .chain([&as_peer])
        .min_by_key(|one| (!one.is_ready, !one.is_holder, one.id));
    best.is_some_and(|best| best.id == own.id)
}

/// Limits the silence after which a server counts as down. Each false alarm cuts the connections
/// of all clients, so the limit grows while machines are too busy to be punctual.
#[derive(Clone, Copy, Debug)]
pub struct SilenceLimit {
    limit: Duration,
    /// The time of the last change.
    changed: Instant,
}

impl SilenceLimit {
    /// Starts with [`SILENCE`].
    pub const fn new(now: Instant) -> Self {
        Self {
            limit: SILENCE,
            changed: now,
        }
    }

    /// Returns the limit.
    pub const fn get(&self) -> Duration {
        self.limit
    }

    /// Doubles the limit if a server that counted as down, after `silence`, was only slow.
    pub fn heard_again(&mut self, silence: Duration, now: Instant) {
        if silence < SLOW {
            self.limit = (self.limit * 2).min(LONGEST_SILENCE);
            self.changed = now;
        }
    }

    /// Halves the limit after ten minutes without a false alarm.
    pub fn elapse(&mut self, now: Instant) {
        if self.limit > SILENCE && now - self.changed >= PUNCTUAL {
            self.limit = (self.limit / 2).max(SILENCE);
            self.changed = now;
        }
    }
}

/// The server's own state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Whether it answers requests.
    pub is_ready: bool,
    /// Whether it is about to end.
    pub is_stopping: bool,
}

/// Debounces the readiness of this server.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnReadiness {
    unready_since: Option<Instant>,
}

impl OwnReadiness {
    /// Returns whether the server counts as ready. The holder of the address counts as ready for
    /// 2.5 seconds after it ceases to be, and while it shuts down: it then gives the address away
    /// when its clients have gone.
    pub fn update(&mut self, look: Look, is_holder: bool, now: Instant) -> bool {
        if look.is_ready {
            self.unready_since = None;
            return true;
        }
        let since = *self.unready_since.get_or_insert(now);
        is_holder && (look.is_stopping || now - since < UNREADY)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn own(id: u64, is_ready: bool, is_holder: bool) -> OwnState {
        OwnState {
            id,
            is_ready,
            is_holder,
            listened: SILENCE * 2,
            was_silent: false,
        }
    }

    const fn peer(id: u64, is_ready: bool, is_holder: bool) -> Peer {
        Peer {
            id,
            is_ready,
            is_holder,
        }
    }

    #[test]
    fn who_has_it_keeps_it_while_it_is_ready() {
        assert!(holds(own(9, true, true), &[peer(1, true, false)]));
        assert!(!holds(own(1, true, false), &[peer(9, true, true)]));
        assert!(!holds(own(1, false, true), &[peer(9, true, false)]));
        assert!(holds(own(9, true, false), &[peer(1, false, true)]));
    }

    #[test]
    fn without_anybody_ready_it_stays_where_it_is() {
        assert!(holds(own(9, false, true), &[peer(1, false, false)]));
        assert!(holds(own(9, false, true), &[]));
    }

    #[test]
    fn two_that_have_it_agree_on_one() {
        assert!(holds(own(1, true, true), &[peer(2, true, true)]));
        assert!(!holds(own(2, true, true), &[peer(1, true, true)]));
    }

    #[test]
    fn one_that_was_silent_leaves_it_to_the_one_that_took_it() {
        let silent = OwnState {
            was_silent: true,
            ..own(1, true, true)
        };
        assert!(!holds(silent, &[peer(2, true, true)]));
        assert!(holds(silent, &[peer(2, true, false)]));
        assert!(holds(silent, &[peer(2, false, true)]));
    }

    #[test]
    fn the_limit_grows_with_false_alarms_and_shrinks_with_time() {
        let began = Instant::now();
        let mut limit = SilenceLimit::new(began);
        limit.heard_again(Duration::from_secs(60), began);
        assert_eq!(limit.get(), SILENCE, "that one was gone");
        for _ in 0..5 {
            limit.heard_again(Duration::from_millis(700), began);
        }
        assert_eq!(limit.get(), LONGEST_SILENCE);
        limit.elapse(began + PUNCTUAL / 2);
        assert_eq!(limit.get(), LONGEST_SILENCE);
        for round in 1..=3 {
            limit.elapse(began + PUNCTUAL * round);
        }
        assert_eq!(limit.get(), SILENCE);
    }

    #[test]
    fn the_holder_stays_ready_through_an_election_of_etcd() {
        let now = Instant::now();
        let unready = Look::default();
        let mut own = OwnReadiness::default();
        assert!(own.update(unready, true, now));
        assert!(!own.update(unready, false, now), "no holder");
        assert!(own.update(unready, true, now + UNREADY / 2));
        assert!(!own.update(unready, true, now + UNREADY));
        let ready = Look {
            is_ready: true,
            is_stopping: false,
        };
        assert!(own.update(ready, true, now + UNREADY));
        assert!(own.update(unready, true, now + UNREADY));
        let stopping = Look {
            is_ready: false,
            is_stopping: true,
        };
        assert!(!own.update(stopping, false, now + UNREADY));
        assert!(
            own.update(stopping, true, now + 9 * UNREADY),
            "clients go first"
        );
    }

    #[test]
    fn one_that_has_just_begun_listens_first() {
        let new = OwnState {
            listened: SILENCE,
            ..own(1, true, false)
        };
        assert!(!holds(new, &[]));
        assert!(holds(own(1, true, false), &[]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn servers_that_hear_each_other_choose_exactly_one(
            all in prop::collection::vec((any::<bool>(), any::<bool>()), 1..6),
        ) {
            let all: Vec<Peer> = (0..)
                .zip(all)
                .map(|(id, (is_ready, is_holder))| peer(id, is_ready, is_holder))
                .collect();
            let chosen: Vec<&Peer> = all
                .iter()
                .filter(|one| {
                    let others: Vec<Peer> =
                        all.iter().filter(|other| other.id != one.id).copied().collect();
                    holds(own(one.id, one.is_ready, one.is_holder), &others)
                })
                .collect();
            prop_assert_eq!(chosen.len(), 1);
            prop_assert!(chosen[0].is_ready || all.iter().all(|one| !one.is_ready));
        }
    }
}

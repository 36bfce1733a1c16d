//! Decides which server has the control plane's address.

use std::time::Duration;

/// A server that is silent for this long counts as down.
pub const SILENCE: Duration = Duration::from_millis(500);

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
/// smallest id takes it.
#[must_use]
pub fn holds(own: OwnState, peers: &[Peer]) -> bool {
    // A server that has just started may not have heard the holder.
    if !own.is_holder && own.listened < SILENCE * 2 {
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

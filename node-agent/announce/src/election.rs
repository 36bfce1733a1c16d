//! Which node answers for an address by ARP and NDP.
//!
//! Every agent decides for itself, from what all see: the nodes that may serve
//! the address, and the Announcers by which agents say that they live and what
//! they answer for. There is no leader and no vote.
//!
//! - The nodes that may are ranked by rendezvous hashing over (address, node): each
//!   address has its own order, and a node that goes moves only its own addresses.
//! - The first [`CONTENDERS`] of an address say that they live, every [`RENEW`].
//!   All nodes would cost the API server a write a node a period, however few
//!   addresses there are.
//! - Who lives and answers for an address already keeps it, so that a node that
//!   comes back takes no connection away from the one that stood in. Else the first
//!   contender that lives has it.
//! - If several answer for it, who was cut off meanwhile gives it up, and who took it
//!   from a dead one does not listen to that one's old claim. Of those that never
//!   were apart the one of the highest rank has it.
//! - An address that is new is left for [`HEARING`] to contenders of higher rank
//!   that were not heard yet: they begin to say that they live when they learn of
//!   it, as this node does. Without that, whoever learns of it first would answer
//!   for some milliseconds, until the other speaks up.
//!
//! # Why never two for long, and no outage when the API server is away
//!
//! An agent counts as dead when its Announcer did not change for [`STALE`], by the
//! observer's clock; clocks are never compared. An agent takes an address only
//! while its *own* renewals come back to it through the watch, the last within
//! [`FRESH`]: this proves that it can write and that what it sees of the others is
//! not older. `FRESH` is less than `STALE`, so when others hold it for dead it
//! knows itself that it is cut off.
//!
//! Who was cut off itself knows nothing of others' deaths, and its watch goes on where
//! it was, with words from before. So for [`STALE`] after its return it takes nothing
//! at all, and gives up what another claims to have taken; an outage of the API server,
//! after which one is heard before the other, moves nothing. Who just started has
//! listed what all say: it leaves only what a dead one claims, for as long.
//!
//! Who is cut off goes on answering for what it has: if the API server is away for
//! all, nobody could take over, and Services would go down for nothing. But it takes
//! nothing new, and gives an address up as soon as it hears another node announce
//! it (as RFC 5227 has it for conflicts): whoever takes over announces itself at once
//! and several times. So two answer for no longer than it takes until one such
//! announcement arrives, or, if all of them were lost, its own renewal does.
//!
//! After a node's death its last renewal is at most [`STALE`] old when it is missed:
//! takeover within 2.5 s, and the time of one write.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use control_load_balancer::Text;

use crate::desired::L2;

/// How many nodes stand ready for an address.
pub const CONTENDERS: usize = 3;
/// How often a contender says that it lives.
pub const RENEW: Duration = Duration::from_millis(500);
/// Own renewals older than this are no proof of being in touch.
pub const FRESH: Duration = Duration::from_millis(2000);
/// An agent that said nothing for so long is dead.
pub const STALE: Duration = Duration::from_millis(2500);

/// The nodes in the order in which they should answer for an address.
#[must_use]
pub fn ranked<'a>(address: IpAddr, nodes: impl IntoIterator<Item = &'a Text>) -> Vec<&'a Text> {
    let mut all: Vec<(u64, &Text)> = nodes
        .into_iter()
        .map(|node| (weight(address, node), node))
        .collect();
    all.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
    all.into_iter().map(|(_, node)| node).collect()
}

/// FNV-1a over both, then the finaliser of SplitMix64: agents of all versions must
/// agree, so no hasher is used that may change.
fn weight(address: IpAddr, node: &str) -> u64 {
    let (v4, v6);
    let octets: &[u8] = match address {
        IpAddr::V4(it) => {
            v4 = it.octets();
            &v4
        }
        IpAddr::V6(it) => {
            v6 = it.octets();
            &v6
        }
    };
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in octets.iter().chain(node.as_bytes()) {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// How long contenders of higher rank have to be heard, once an address is wanted:
/// the time of a renewal and of its way to here.
pub const HEARING: Duration = Duration::from_millis(1000);

/// What is known of the agents' lives.
#[derive(Debug, Default)]
pub struct Lives {
    seen: BTreeMap<Text, Life>,
}

#[derive(Debug)]
struct Life {
    /// Compared for change only.
    renewed: Option<Text>,
    at: Instant,
    claims: BTreeSet<IpAddr>,
}

impl Lives {
    /// Notes what a node's Announcer says now.
    pub fn observe(
        &mut self,
        node: &Text,
        renewed: Option<&Text>,
        claims: BTreeSet<IpAddr>,
        now: Instant,
    ) {
        match self.seen.get_mut(node) {
            Some(life) if life.renewed.as_ref() == renewed => life.claims = claims,
            _ => {
                let renewed = renewed.cloned();
                self.seen.insert(
                    node.clone(),
                    Life {
                        renewed,
                        at: now,
                        claims,
                    },
                );
            }
        }
    }

    /// Its Announcer is gone.
    pub fn forget(&mut self, node: &str) {
        self.seen.remove(node);
    }

    fn within(&self, node: &str, age: Duration, now: Instant) -> bool {
        self.seen
            .get(node)
            .is_some_and(|life| now.saturating_duration_since(life.at) < age)
    }

    /// Whether a node lives.
    #[must_use]
    pub fn is_live(&self, node: &str, now: Instant) -> bool {
        self.within(node, STALE, now)
    }

    /// Whether the own node is in touch.
    #[must_use]
    pub fn is_in_touch(&self, own: &str, now: Instant) -> bool {
        self.within(own, FRESH, now)
    }

    fn claims(&self, node: &str, address: IpAddr) -> bool {
        self.seen
            .get(node)
            .is_some_and(|life| life.claims.contains(&address))
    }

    /// Whether another that lives answers for an address, other than those it was
    /// `taken_from`.
    #[must_use]
    pub fn is_claimed_by_other(
        &self,
        own: &str,
        address: IpAddr,
        taken_from: &BTreeSet<Text>,
        now: Instant,
    ) -> bool {
        let others = self.seen.keys().filter(|node| node.as_str() != own);
        others
            .filter(|node| !taken_from.contains(*node))
            .any(|node| self.claims(node, address) && self.is_live(node, now))
    }

    /// Who said last that it answers for an address, and is dead.
    fn claimed_by_dead(&self, address: IpAddr, now: Instant) -> BTreeSet<Text> {
        let dead = |node: &&Text| self.claims(node, address) && !self.is_live(node, now);
        self.seen.keys().filter(dead).cloned().collect()
    }

    /// When the next of them is held for dead, or the own node is out of touch, if
    /// nothing comes.
    #[must_use]
    pub fn next_end(&self, own: &str, now: Instant) -> Option<Instant> {
        let ends = self.seen.values().map(|life| life.at + STALE);
        let out_of_touch = self.seen.get(own).map(|life| life.at + FRESH);
        ends.chain(out_of_touch).filter(|end| *end > now).min()
    }
}

/// What the own node holds, from one decision to the next.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Held {
    /// What it answers for.
    pub addresses: BTreeSet<IpAddr>,
    /// What it gave up while out of touch.
    pub yielded: BTreeSet<IpAddr>,
    /// What it kept while out of touch, until it is known whether others took it.
    pub doubtful: BTreeSet<IpAddr>,
    /// Dead nodes that it took an address from and that still claim it.
    pub taken_from: BTreeMap<IpAddr, BTreeSet<Text>>,
    /// Since when it is in touch, if it is.
    pub in_touch: Option<Instant>,
    /// Whether it was in touch before it was out of touch last.
    pub returned: bool,
    /// Since when it may answer for each address.
    pub since: BTreeMap<IpAddr, Instant>,
}

impl Held {
    /// When the next hearing ends, or others may be held for dead.
    #[must_use]
    pub fn next_end(&self, now: Instant) -> Option<Instant> {
        let hearings = self.since.values().map(|since| *since + HEARING);
        let ends = hearings.chain(self.in_touch.map(|since| since + STALE));
        ends.filter(|end| *end > now).min()
    }
}

/// Whether the own node is to say that it lives.
#[must_use]
pub fn contends(own: &str, wanted: &L2, held: &Held) -> bool {
    wanted.iter().any(|(address, it)| {
        it.nodes.contains(own)
            && (held.addresses.contains(address)
                || ranked(*address, &it.nodes)
                    .iter()
                    .take(CONTENDERS)
                    .any(|node| node.as_str() == own))
    })
}

/// The node that answers for an address that this node may answer for `since` then.
/// Claims of those `taken_from` whom it took it do not count; that of its `holder`,
/// this node itself, does before others can hear it.
fn winner<'a>(
    address: IpAddr,
    nodes: &'a BTreeSet<Text>,
    lives: &Lives,
    holder: Option<&str>,
    taken_from: &BTreeSet<Text>,
    since: Instant,
    now: Instant,
) -> Option<&'a Text> {
    let ranked = ranked(address, nodes);
    let holds = |node: &&&Text| {
        let claims = lives.claims(node, address) && !taken_from.contains(**node);
        lives.is_live(node, now) && (claims || holder == Some(node.as_str()))
    };
    if let Some(holder) = ranked.iter().find(holds) {
        return Some(holder);
    }
    let mut contenders = ranked.iter().take(CONTENDERS);
    if now.saturating_duration_since(since) < HEARING {
        // The first may still be about to say that it lives.
        contenders.next().filter(|node| lives.is_live(node, now))
    } else {
        contenders.find(|node| lives.is_live(node, now))
    }
    .copied()
}

/// What the own node answers for now.
#[must_use]
pub fn decide(own: &str, wanted: &L2, lives: &Lives, before: &Held, now: Instant) -> Held {
    let in_touch = lives
        .is_in_touch(own, now)
        .then(|| before.in_touch.unwrap_or(now));
    let may_judge = in_touch.is_some_and(|since| now.saturating_duration_since(since) >= STALE);
    let mut held = Held {
        in_touch,
        returned: before.returned || (before.in_touch.is_some() && in_touch.is_none()),
        ..Held::default()
    };
    for (address, it) in wanted {
        if !it.nodes.contains(own) {
            continue;
        }
        let since = *before.since.get(address).unwrap_or(&now);
        held.since.insert(*address, since);
        let held_before = before.addresses.contains(address);
        let mut taken_from = before.taken_from.get(address).cloned().unwrap_or_default();
        taken_from.retain(|node| held_before && lives.claims(node, *address));
        let doubtful = held_before && before.doubtful.contains(address);
        let holds = if in_touch.is_some() {
            let lost = if held_before {
                doubtful && lives.is_claimed_by_other(own, *address, &taken_from, now)
            } else {
                !may_judge && (held.returned || !lives.claimed_by_dead(*address, now).is_empty())
            };
            let holder = held_before.then_some(own);
            let winner = winner(*address, &it.nodes, lives, holder, &taken_from, since, now);
            let holds = !lost && winner.is_some_and(|node| node == own);
            if holds && doubtful && !may_judge {
                // What it heard first may be older than the word of who took it.
                held.doubtful.insert(*address);
            }
            holds
        } else {
            let yielded = before.yielded.contains(address);
            if yielded {
                held.yielded.insert(*address);
            }
            let keeps = held_before && !yielded;
            if keeps {
                held.doubtful.insert(*address);
            }
            keeps
        };
        if holds && !held_before {
            taken_from = lives.claimed_by_dead(*address, now);
        }
        if holds && !taken_from.is_empty() {
            held.taken_from.insert(*address, taken_from);
        }
        if holds {
            held.addresses.insert(*address);
        }
    }
    held
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::desired::L2Address;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn nodes(names: &[&str]) -> BTreeSet<Text> {
        names.iter().map(|name| Text::from(*name)).collect()
    }

    fn wanted(names: &[&str]) -> L2 {
        let it = L2Address {
            nodes: nodes(names),
            ..L2Address::default()
        };
        L2::from([(ip("10.0.0.1"), it)])
    }

    fn say(lives: &mut Lives, node: &str, renewed: &str, claims: &[&str], at: Instant) {
        let claims = claims.iter().map(|text| ip(text)).collect();
        lives.observe(&node.into(), Some(&renewed.into()), claims, at);
    }

    /// Nothing held, the hearing of [`ADDRESS`] over at `t0`, and long in touch.
    fn heard(t0: Instant) -> Held {
        let before = |time| t0.checked_sub(time).expect("a machine up for seconds");
        Held {
            since: BTreeMap::from([(ip(ADDRESS), before(HEARING))]),
            in_touch: Some(before(STALE)),
            ..Held::default()
        }
    }

    const ADDRESS: &str = "10.0.0.1";
    const MS: fn(u64) -> Duration = Duration::from_millis;

    /// The nodes a, b, c in their order for the address.
    fn order() -> Vec<String> {
        let all = nodes(&["a", "b", "c"]);
        ranked(ip(ADDRESS), &all)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn the_next_takes_over_when_the_first_is_silent_and_keeps_it() {
        let (names, t0) = (order(), Instant::now());
        let [first, second, _] = names.as_slice() else {
            panic!("three")
        };
        let wanted = wanted(&["a", "b", "c"]);
        let mut lives = Lives::default();
        say(&mut lives, first, "1", &[], t0);
        say(&mut lives, second, "1", &[], t0);
        let holds = |lives: &Lives, node: &str, at: Instant| {
            !decide(node, &wanted, lives, &heard(t0), at)
                .addresses
                .is_empty()
        };
        assert!(holds(&lives, first, t0 + MS(1)) && !holds(&lives, second, t0 + MS(1)));
        // the first claims and dies; the second goes on
        say(&mut lives, first, "2", &[ADDRESS], t0 + MS(10));
        for (n, at) in [(2, 500), (3, 1000), (4, 1500), (5, 2000), (6, 2500)] {
            say(&mut lives, second, &n.to_string(), &[], t0 + MS(at));
        }
        assert!(!holds(&lives, second, t0 + MS(2505)));
        assert_eq!(lives.next_end(second, t0 + MS(2505)), Some(t0 + MS(2510)));
        assert!(
            holds(&lives, second, t0 + MS(2510)),
            "within 2.5 s of the last word"
        );
        // the first comes back: the second keeps what it has
        say(&mut lives, second, "7", &[ADDRESS], t0 + MS(2600));
        say(&mut lives, first, "9", &[], t0 + MS(2700));
        assert!(holds(&lives, second, t0 + MS(2710)) && !holds(&lives, first, t0 + MS(2710)));
        // both claim, and never were apart: the higher rank has it
        say(&mut lives, first, "10", &[ADDRESS], t0 + MS(2800));
        assert!(!holds(&lives, second, t0 + MS(2810)) && holds(&lives, first, t0 + MS(2810)));
    }

    /// Whatever their ranks, and though no announcement was heard.
    #[test]
    fn who_was_cut_off_gives_up_what_another_took_meanwhile() {
        let (names, t0) = (order(), Instant::now());
        let wanted = wanted(&["a", "b", "c"]);
        for (cut, taker) in [(0, 1), (1, 0)] {
            let (cut, taker) = (names[cut].as_str(), names[taker].as_str());
            // Both see the same when they are in touch.
            let mut lives = Lives::default();
            say(&mut lives, cut, "1", &[ADDRESS], t0);
            let of_cut = decide(cut, &wanted, &lives, &heard(t0), t0);
            assert_eq!(of_cut.addresses.len(), 1);
            let mut seen_by_taker = lives;
            say(&mut seen_by_taker, taker, "1", &[], t0 + MS(2400));
            let of_taker = decide(taker, &wanted, &seen_by_taker, &heard(t0), t0 + MS(2600));
            assert_eq!(of_taker.addresses.len(), 1, "{taker} takes it");
            let mut seen_by_cut = Lives::default();
            say(&mut seen_by_cut, cut, "1", &[ADDRESS], t0);
            let of_cut = decide(cut, &wanted, &seen_by_cut, &of_cut, t0 + MS(2600));
            assert_eq!(of_cut.addresses.len(), 1, "{cut} does not know");
            // The cable is in again: what it kept is in its first words.
            for lives in [&mut seen_by_taker, &mut seen_by_cut] {
                say(lives, taker, "2", &[ADDRESS], t0 + MS(2900));
                say(lives, cut, "2", &[ADDRESS], t0 + MS(3000));
            }
            let of_taker = decide(taker, &wanted, &seen_by_taker, &of_taker, t0 + MS(3010));
            assert_eq!(of_taker.addresses.len(), 1, "{taker} keeps it");
            let of_cut = decide(cut, &wanted, &seen_by_cut, &of_cut, t0 + MS(3010));
            assert!(of_cut.addresses.is_empty(), "{cut} gives it up");
            // Then its claim is gone, and would count again.
            say(&mut seen_by_taker, cut, "3", &[], t0 + MS(3100));
            let of_taker = decide(taker, &wanted, &seen_by_taker, &of_taker, t0 + MS(3110));
            assert!(of_taker.addresses.len() == 1 && of_taker.taken_from.is_empty());
        }
    }

    #[test]
    fn who_took_an_address_keeps_it_before_its_claim_is_heard() {
        let (names, t0) = (order(), Instant::now());
        let wanted = wanted(&["a", "b", "c"]);
        let (first, second) = (names[0].as_str(), names[1].as_str());
        let mut lives = Lives::default();
        say(&mut lives, first, "1", &[ADDRESS], t0);
        say(&mut lives, second, "1", &[], t0 + MS(2400));
        let taker = decide(second, &wanted, &lives, &heard(t0), t0 + MS(2500));
        assert_eq!(taker.addresses.len(), 1);
        // The first is back before the second has heard itself say that it took it.
        say(&mut lives, first, "2", &[ADDRESS], t0 + MS(2510));
        let taker = decide(second, &wanted, &lives, &taker, t0 + MS(2510));
        assert_eq!(taker.addresses.len(), 1);
        say(&mut lives, first, "3", &[], t0 + MS(2520));
        let taker = decide(second, &wanted, &lives, &taker, t0 + MS(2520));
        assert_eq!(
            taker.addresses.len(),
            1,
            "of which no claim is heard at all"
        );
    }

    #[test]
    fn who_was_cut_off_first_hears_what_it_said_itself() {
        let (names, t0) = (order(), Instant::now());
        let wanted = wanted(&["a", "b", "c"]);
        let (cut, taker) = (names[0].as_str(), names[1].as_str());
        let mut lives = Lives::default();
        say(&mut lives, cut, "1", &[ADDRESS], t0);
        let held = decide(cut, &wanted, &lives, &heard(t0), t0);
        assert_eq!(lives.next_end(cut, t0), Some(t0 + FRESH), "it looks then");
        let held = decide(cut, &wanted, &lives, &held, t0 + FRESH);
        assert_eq!((held.addresses.len(), held.doubtful.len()), (1, 1));
        // The watch goes on where it was: a renewal from before comes before the claim.
        say(&mut lives, cut, "2", &[ADDRESS], t0 + MS(3000));
        let held = decide(cut, &wanted, &lives, &held, t0 + MS(3000));
        assert_eq!(held.addresses.len(), 1);
        say(&mut lives, taker, "2", &[ADDRESS], t0 + MS(3001));
        let held = decide(cut, &wanted, &lives, &held, t0 + MS(3001));
        assert!(held.addresses.is_empty());
    }

    #[test]
    fn an_outage_of_the_api_server_moves_nothing() {
        let (names, t0) = (order(), Instant::now());
        let wanted = wanted(&["a", "b", "c"]);
        let (first, last) = (names[0].as_str(), names[2].as_str());
        let mut lives = Lives::default();
        say(&mut lives, first, "1", &[], t0);
        say(&mut lives, last, "1", &[ADDRESS], t0);
        let holder = decide(last, &wanted, &lives, &heard(t0), t0);
        let other = decide(first, &wanted, &lives, &heard(t0), t0);
        assert!(holder.addresses.len() == 1 && other.addresses.is_empty());
        let holder = decide(last, &wanted, &lives, &holder, t0 + MS(60_000));
        let other = decide(first, &wanted, &lives, &other, t0 + MS(60_000));
        assert!(holder.addresses.len() == 1 && holder.doubtful.len() == 1);
        assert!(other.in_touch.is_none());
        // The first is heard again before the holder.
        say(&mut lives, first, "2", &[], t0 + MS(60_010));
        let holder = decide(last, &wanted, &lives, &holder, t0 + MS(60_010));
        let other = decide(first, &wanted, &lives, &other, t0 + MS(60_010));
        assert!(holder.addresses.len() == 1 && other.addresses.is_empty());
        assert_eq!(other.next_end(t0 + MS(60_010)), Some(t0 + MS(62_510)));
        say(&mut lives, last, "2", &[ADDRESS], t0 + MS(60_400));
        let holder = decide(last, &wanted, &lives, &holder, t0 + MS(60_400));
        assert!(holder.addresses.len() == 1 && holder.doubtful.len() == 1);
        // Nobody has claimed it for as long as it takes to be heard.
        for (n, at) in [("3", 61_500), ("4", 62_900)] {
            say(&mut lives, last, n, &[ADDRESS], t0 + MS(at));
        }
        let holder = decide(last, &wanted, &lives, &holder, t0 + MS(62_900));
        assert!(holder.addresses.len() == 1 && holder.doubtful.is_empty());
    }

    #[test]
    fn who_is_cut_off_keeps_what_it_has_until_another_speaks_up() {
        let (names, t0) = (order(), Instant::now());
        let first = names[0].as_str();
        let wanted = wanted(&["a", "b", "c"]);
        let mut lives = Lives::default();
        say(&mut lives, first, "1", &[ADDRESS], t0);
        let held = decide(first, &wanted, &lives, &Held::default(), t0);
        assert_eq!(held.addresses.len(), 1);
        let late = t0 + MS(60_000);
        let mut cut = decide(first, &wanted, &lives, &held, late);
        assert_eq!(cut.addresses.len(), 1);
        let nothing = decide(first, &wanted, &lives, &Held::default(), late);
        assert!(nothing.addresses.is_empty(), "but it takes nothing new");
        cut.addresses.clear();
        cut.yielded.insert(ip(ADDRESS));
        let after = decide(first, &wanted, &lives, &cut, late);
        assert!(after.addresses.is_empty() && after.yielded.len() == 1);
        // in touch again: the others say who has it
        say(&mut lives, first, "2", &[], late);
        let back = decide(first, &wanted, &lives, &after, late);
        assert!(back.yielded.is_empty() && back.addresses.is_empty());
        // Nobody said so for as long as it takes to be heard.
        for (n, at) in [("3", 1500), ("4", 2500)] {
            say(&mut lives, first, n, &[], late + MS(at));
        }
        let later = decide(first, &wanted, &lives, &back, late + MS(2500));
        assert_eq!(later.addresses.len(), 1);
    }

    /// It heard the announcement first, then its own former words, and last the claim.
    #[test]
    fn who_gave_way_while_cut_off_does_not_take_it_back_on_its_return() {
        let (names, t0) = (order(), Instant::now());
        let wanted = wanted(&["a", "b", "c"]);
        let (cut, taker) = (names[0].as_str(), names[1].as_str());
        let mut lives = Lives::default();
        say(&mut lives, cut, "1", &[ADDRESS], t0);
        say(&mut lives, taker, "1", &[], t0);
        let held = decide(cut, &wanted, &lives, &heard(t0), t0);
        let mut held = decide(cut, &wanted, &lives, &held, t0 + MS(2900));
        held.addresses.remove(&ip(ADDRESS));
        held.yielded.insert(ip(ADDRESS));
        let held = decide(cut, &wanted, &lives, &held, t0 + MS(2910));
        say(&mut lives, taker, "2", &[], t0 + MS(2920));
        say(&mut lives, cut, "2", &[ADDRESS], t0 + MS(2930));
        let held = decide(cut, &wanted, &lives, &held, t0 + MS(2930));
        assert!(
            held.addresses.is_empty(),
            "its own former claim is no right"
        );
        say(&mut lives, taker, "3", &[ADDRESS], t0 + MS(2940));
        say(&mut lives, cut, "3", &[], t0 + MS(2950));
        for at in [2950, 5000] {
            say(&mut lives, cut, &at.to_string(), &[], t0 + MS(at));
            say(&mut lives, taker, &at.to_string(), &[ADDRESS], t0 + MS(at));
            let held = decide(cut, &wanted, &lives, &held, t0 + MS(at));
            assert!(held.addresses.is_empty());
        }
    }

    #[test]
    fn who_took_an_address_and_was_out_of_touch_then_keeps_it() {
        let (names, t0) = (order(), Instant::now());
        let wanted = wanted(&["a", "b", "c"]);
        let (cut, taker) = (names[0].as_str(), names[1].as_str());
        let mut lives = Lives::default();
        say(&mut lives, cut, "1", &[ADDRESS], t0);
        say(&mut lives, taker, "1", &[], t0 + MS(2400));
        let held = decide(taker, &wanted, &lives, &heard(t0), t0 + MS(2500));
        let held = decide(taker, &wanted, &lives, &held, t0 + MS(4500));
        assert_eq!((held.addresses.len(), held.doubtful.len()), (1, 1));
        // Both are back, and neither has heard the other.
        say(&mut lives, cut, "2", &[ADDRESS], t0 + MS(4600));
        say(&mut lives, taker, "2", &[ADDRESS], t0 + MS(4610));
        let held = decide(taker, &wanted, &lives, &held, t0 + MS(4610));
        assert_eq!(held.addresses.len(), 1);
    }

    #[test]
    fn a_new_address_waits_for_those_of_higher_rank_to_be_heard() {
        let (names, t0) = (order(), Instant::now());
        let wanted = wanted(&["a", "b", "c"]);
        let mut lives = Lives::default();
        // The second hears itself before it hears the first.
        say(&mut lives, &names[1], "1", &[], t0);
        let mut held = decide(&names[1], &wanted, &lives, &Held::default(), t0);
        assert!(held.addresses.is_empty());
        assert_eq!(held.next_end(t0), Some(t0 + HEARING));
        for (n, at) in [(2, 400), (3, 800)] {
            say(&mut lives, &names[1], &n.to_string(), &[], t0 + MS(at));
            held = decide(&names[1], &wanted, &lives, &held, t0 + MS(at));
            assert!(held.addresses.is_empty());
        }
        let late = decide(&names[1], &wanted, &lives, &held, t0 + HEARING);
        assert_eq!(late.addresses.len(), 1, "the first is dead");
        say(&mut lives, &names[0], "1", &[], t0 + MS(900));
        for at in [MS(900), HEARING] {
            let after = decide(&names[1], &wanted, &lives, &held, t0 + at);
            assert!(after.addresses.is_empty(), "the first lives");
        }
        let first = decide(&names[0], &wanted, &lives, &Held::default(), t0 + MS(900));
        assert_eq!(first.addresses.len(), 1, "and waits for nobody");
    }

    #[test]
    fn only_the_first_few_say_that_they_live() {
        let names: Vec<String> = (0..20).map(|n| format!("n{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let wanted = wanted(&names);
        let speak = names
            .iter()
            .filter(|n| contends(n, &wanted, &Held::default()))
            .count();
        assert_eq!(speak, CONTENDERS);
        let held = Held {
            addresses: BTreeSet::from([ip(ADDRESS)]),
            ..Held::default()
        };
        assert!(
            names.iter().all(|n| contends(n, &wanted, &held)),
            "and who holds it"
        );
    }

    proptest! {
        #[test]
        fn of_those_who_see_the_same_exactly_one_answers(
            count in 1_usize..12, live in prop::collection::vec(any::<(bool, bool)>(), 12), last in any::<u8>(),
        ) {
            let address = IpAddr::from([10, 0, 0, last]);
            let t0 = Instant::now();
            let now = t0 + HEARING;
            let heard = Held { since: BTreeMap::from([(address, t0)]), in_touch: Some(t0), ..Held::default() };
            let names: BTreeSet<Text> = (0..count).map(|n| format!("n{n}").into()).collect();
            let mut lives = Lives::default();
            for (name, (lives_now, claims)) in names.iter().zip(&live) {
                if *lives_now {
                    let claims = claims.then_some(address).into_iter().collect();
                    lives.observe(name, Some(&"1".into()), claims, now);
                }
            }
            let wanted = L2::from([(address, L2Address { nodes: names.clone(), ..L2Address::default() })]);
            let holders = names.iter().filter(|own| {
                !decide(own, &wanted, &lives, &heard, now).addresses.is_empty()
            }).count();
            let contender = ranked(address, &names).into_iter().take(CONTENDERS).any(|n| lives.is_live(n, now));
            let holder = names.iter().any(|n| lives.claims(n, address));
            prop_assert_eq!(holders, usize::from(contender || holder));
        }

        #[test]
        fn a_node_that_goes_moves_only_its_own(last in any::<u16>(), gone in 0_usize..8) {
            let address = IpAddr::from([10, 0, (last >> 8) as u8, last as u8]);
            let all: BTreeSet<Text> = (0..8).map(|n| format!("n{n}").into()).collect();
            let mut left = all.clone();
            left.remove(format!("n{gone}").as_str());
            let (before, after) = (ranked(address, &all), ranked(address, &left));
            let same: Vec<_> = before.into_iter().filter(|n| n.as_str() != format!("n{gone}")).collect();
            prop_assert_eq!(same, after);
        }
    }

    #[test]
    fn addresses_spread_over_nodes() {
        let all: BTreeSet<Text> = (0..4).map(|n| format!("node-{n}").into()).collect();
        let mut counts: BTreeMap<Text, u32> = BTreeMap::new();
        for n in 0..=255 {
            let first = ranked(IpAddr::from([192, 0, 2, n]), &all)[0].clone();
            *counts.entry(first).or_default() += 1;
        }
        assert!(
            counts.len() == 4 && counts.values().all(|n| (40..=90).contains(n)),
            "{counts:?}"
        );
    }
}

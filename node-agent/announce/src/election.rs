//! Which node answers for an address by ARP and NDP.
//!
//! Every agent decides for itself, from what all see: the nodes that may serve
//! the address, and the Announcers by which agents say that they live and what
//! they claim. There is no leader and no vote.
//!
//! - The nodes that may are ranked by rendezvous hashing over (address, node): each
//!   address has its own order, and a node that goes moves only its own addresses.
//! - The first [`CONTENDERS`] of an address say that they live, every [`RENEW`].
//!   All nodes would cost the API server a write a node a period, however few
//!   addresses there are.
//! - An address that no live node claims is claimed by the first contender that
//!   lives. Who claimed it keeps it: a node that comes back takes no connection away
//!   from the one that stood in.
//! - An address that is new is left for [`HEARING`] to contenders of higher rank
//!   that were not heard yet: they begin to say that they live when they learn of
//!   it, as this node does.
//!
//! # Why the order of words in the API server decides
//!
//! All agents hear all words in one order, the later the more they lag. So what
//! follows from that order is the same for all, and clocks are never compared.
//!
//! A node claims an address first, and answers for it when that word came back to it
//! through the watch and the claim **stands**. A claim carries its **term**, the revision
//! up to which its node had heard all when it made it. It stands unless another that
//! claims the address, too, spoke between that revision and the claim: that one lives,
//! and the claimant did not know. So of several that claim at once the first in the
//! order has the address, and who was held for dead and speaks up in time keeps it.
//!
//! Of two that answer, the one of the higher term knew of the other and held it for
//! dead: whoever was cut off returns with a lower one, however late the words come, and
//! gives the address up when it hears the higher.
//!
//! Words overtake each other when a write that was given up arrives after all. Each
//! node's times only rise, so a word older than the last one heard is passed over.
//!
//! # When a node is dead
//!
//! After [`STALE`] of silence, which only this node's own words that come back prove:
//! each proves that what was heard of the others is no older than it, and counts for
//! the time since the one before, up to [`COUNTED`]. So while nobody is heard, the API
//! server being away or slow for all, nobody dies. After a [`GAP`] between own words, and
//! after a [`LATE`] one, all have the whole time anew: an outage, after which one is heard
//! before the other, moves nothing.
//!
//! # Who is cut off
//!
//! goes on answering for what it has: if the API server is away for all, nobody could
//! take over, and Services would go down for nothing. But it claims nothing new, and
//! gives an address up as soon as it hears another node announce it (as RFC 5227 has
//! it for conflicts): whoever takes over announces itself at once and several times.
//! So two answer for no longer than it takes until one such announcement arrives, or,
//! if all of them were lost, until it hears the other's claim. What it gave up that way
//! it does not claim before a word that it said later came back: the claim of who
//! announced it is older.
//!
//! After a node's death its last word is at most [`STALE`] old when it is missed, and
//! then an own word is said at once as the proof: takeover within 2.5 s, and the time
//! of two writes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use control_load_balancer::Text;

use crate::desired::L2;

mod lives;

pub use self::lives::{AgentLives, AnnouncerStatement, OwnStatement};

/// How many nodes stand ready for an address.
pub const CONTENDERS: usize = 3;
/// How often a contender says that it lives.
pub const RENEW: Duration = Duration::from_millis(500);
/// Own words said longer ago are no proof of being in touch.
pub const FRESH: Duration = Duration::from_millis(2000);
/// An agent that said nothing for so long is dead.
pub const STALE: Duration = Duration::from_millis(2500);
/// The maximum time for which one own word proves the others' silence: with words every
/// [`RENEW`] all of it, unless the API server is slow.
pub const COUNTED: Duration = Duration::from_millis(750);
/// After a longer time between own words that came back, all others count as alive again,
pub const GAP: Duration = Duration::from_millis(1500);
/// and after one that took longer to come back: a word that was sent while the API server
/// was unreachable may be written when it is back, before others are heard.
pub const LATE: Duration = Duration::from_millis(1000);
/// The time in which contenders of higher rank must be heard once an address is wanted:
/// the time of a renewal and its delivery.
pub const HEARING: Duration = Duration::from_millis(1000);

/// A claim that did not come back for this long is repeated, if at all.
pub const PENDING: Duration = Duration::from_secs(5);

/// Addresses that a node claims.
pub type Claims = BTreeMap<IpAddr, ClaimState>;

/// A node's statement about an address that it claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimState {
    /// The revision up to which its node had heard all others when it made the claim.
    pub term: u64,
    /// Whether the claim stood, so that the node answers.
    pub answers: bool,
}

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

/// The claims of the own node, kept from one decision to the next.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct HeldClaims {
    /// The node's claims.
    pub claims: BTreeMap<IpAddr, Claim>,
    /// Addresses that it gave up while out of touch, and when.
    pub yielded: BTreeMap<IpAddr, Instant>,
    /// Since when it may answer for each address.
    pub since: BTreeMap<IpAddr, Instant>,
}

/// A claim of the own node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// The state of the claim.
    pub said: ClaimState,
    /// When it was made.
    pub at: Instant,
}

impl HeldClaims {
    /// Returns the addresses that this node answers for.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let answered = self.claims.iter().filter(|(_, claim)| claim.said.answers);
        answered.map(|(address, _)| *address)
    }

    /// Resumes the addresses that the previous agent on this node answered for, unless
    /// another node does by now: a restart moves nothing.
    #[must_use]
    pub fn resumed(former: &Claims, lives: &AgentLives, now: Instant) -> Self {
        let kept = former.iter().filter(|(address, said)| {
            let other = lives.answered(**address, None);
            said.answers && other.is_none_or(|(term, _)| term < said.term)
        });
        let claims = kept.map(|(address, said)| {
            (
                *address,
                Claim {
                    said: *said,
                    at: now,
                },
            )
        });
        Self {
            claims: claims.collect(),
            ..Self::default()
        }
    }

    /// Handles the announcement of an address by another host: returns whether this node
    /// yields it. In touch it does not; the other will yield, or is not one of our nodes.
    pub fn contested(&mut self, address: IpAddr, lives: &AgentLives, now: Instant) -> bool {
        let answers = (self.claims.get(&address)).is_some_and(|claim| claim.said.answers);
        let leaves = answers && !lives.is_in_touch(now);
        if leaves {
            self.claims.remove(&address);
            self.yielded.insert(address, now);
        }
        leaves
    }

    /// Returns when the next claim that did not come back is given up.
    #[must_use]
    pub fn next_end(&self) -> Option<Instant> {
        let waiting = self.claims.values().filter(|claim| !claim.said.answers);
        waiting.map(|claim| claim.at + PENDING).min()
    }
}

/// The content of the own Announcer.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Report {
    /// Whether renewals are needed.
    pub contends: bool,
    /// The node's claims.
    pub claims: Claims,
    /// The time since which an own word is needed to prove that another node is dead. A
    /// change requests one immediately.
    pub proof: Option<Instant>,
}

impl Report {
    /// Returns the consequences of a decision.
    #[must_use]
    pub fn new(
        own: &str,
        wanted: &L2,
        lives: &AgentLives,
        held: &HeldClaims,
        now: Instant,
    ) -> Self {
        let claims = held.claims.iter();
        let contends = contends(own, wanted, held);
        Self {
            contends,
            claims: claims.map(|(it, claim)| (*it, claim.said)).collect(),
            proof: lives.proof_wanted(now).filter(|_| contends),
        }
    }
}

/// Whether the own node is to say that it lives.
#[must_use]
pub fn contends(own: &str, wanted: &L2, held: &HeldClaims) -> bool {
    wanted.iter().any(|(address, it)| {
        it.nodes.contains(own)
            && (held.claims.contains_key(address)
                || ranked(*address, &it.nodes)
                    .iter()
                    .take(CONTENDERS)
                    .any(|node| node.as_str() == own))
    })
}

/// Returns whether this node is the one to claim an address that no node holds and that
/// this one may answer for since `since`.
fn is_next(
    own: &str,
    address: IpAddr,
    nodes: &BTreeSet<Text>,
    lives: &AgentLives,
    since: Instant,
) -> bool {
    let ranked = ranked(address, nodes);
    let mut contenders = ranked.iter().take(CONTENDERS);
    let next = if lives.is_known_until(since + HEARING) {
        contenders.find(|node| lives.is_live(node))
    } else {
        // The first may still be about to say that it lives.
        contenders.next()
    };
    next.is_some_and(|node| node.as_str() == own)
}

/// The claim that the own node made, if it is not beaten and did not fail.
fn kept(
    own: &str,
    address: IpAddr,
    nodes: &BTreeSet<Text>,
    lives: &AgentLives,
    before: &HeldClaims,
    now: Instant,
) -> Option<Claim> {
    let mut claim = *before.claims.get(&address)?;
    if !claim.said.answers {
        match lives.stands(address, claim.said.term) {
            Some(stands) => claim.said.answers = stands,
            None if now.saturating_duration_since(claim.at) < PENDING => return Some(claim),
            None => {}
        }
    }
    let other = lives.answered(address, Some(nodes));
    let beaten = other.is_some_and(|other| other > (claim.said.term, own));
    (claim.said.answers && !beaten).then_some(claim)
}

/// Decides what this node claims and answers for.
#[must_use]
pub fn decide(
    own: &str,
    wanted: &L2,
    lives: &AgentLives,
    before: &HeldClaims,
    now: Instant,
) -> HeldClaims {
    let mut held = HeldClaims::default();
    for (address, it) in wanted.iter().filter(|(_, it)| it.nodes.contains(own)) {
        let since = *before.since.get(address).unwrap_or(&now);
        held.since.insert(*address, since);
        if let Some(kept) = kept(own, *address, &it.nodes, lives, before, now) {
            held.claims.insert(*address, kept);
            continue;
        }
        let yielded = before.yielded.get(address).copied();
        if let Some(at) = yielded.filter(|at| !lives.is_known_until(*at)) {
            held.yielded.insert(*address, at);
        } else if lives.is_in_touch(now)
            && !lives.is_claimed(*address, &it.nodes)
            && is_next(own, *address, &it.nodes, lives, since)
        {
            let said = ClaimState {
                term: lives.next_term(*address),
                answers: false,
            };
            held.claims.insert(*address, Claim { said, at: now });
        }
    }
    held
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

//! Tracks which agents are alive: from their words, in the order of the API server, and
//! from the own words that came back.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use control_load_balancer::Text;

use super::{COUNTED, ClaimState, Claims, FRESH, GAP, LATE, STALE};

/// So many own words that did not come back are remembered.
const UNHEARD: usize = 64;

/// The content of another node's Announcer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnnouncerStatement {
    /// Rises with each word of a node; compared with others of the same node only.
    pub renewed: Option<Text>,
    /// The word's position in the order of all.
    pub revision: u64,
    /// The node's claims.
    pub claims: Claims,
}

/// A statement of the own node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnStatement {
    /// Identifies it when it comes back.
    pub renewed: Text,
    /// When it was sent.
    pub sent: Instant,
    /// The node's claims.
    pub claims: Claims,
}

/// The agents that are known to be alive.
#[derive(Debug)]
pub struct AgentLives {
    own: Text,
    seen: BTreeMap<Text, AgentLife>,
    /// The newest revision that was heard.
    revision: u64,
    /// Own words that did not come back yet, the oldest first.
    sent: VecDeque<OwnStatement>,
    /// When the last own word that came back was sent.
    heard: Option<Instant>,
    /// Own claims that came back, and whether they stand.
    judged: BTreeMap<IpAddr, (u64, bool)>,
}

#[derive(Debug)]
struct AgentLife {
    renewed: Option<Text>,
    /// The revision of its last word.
    revision: u64,
    /// When its last word was heard, or it counted as alive again.
    at: Instant,
    /// For how long it is proven to have said nothing.
    silent: Duration,
    claims: Claims,
}

impl AgentLives {
    /// Returns the state without any knowledge, of the node `own`.
    #[must_use]
    pub fn new(own: &str) -> Self {
        Self {
            own: own.into(),
            seen: BTreeMap::new(),
            revision: 0,
            sent: VecDeque::new(),
            heard: None,
            judged: BTreeMap::new(),
        }
    }

    /// Records the own next word. Must be called before the word can come back.
    pub fn record_own(&mut self, word: OwnStatement) {
        if self.sent.len() == UNHEARD {
            self.sent.pop_front();
        }
        self.sent.push_back(word);
    }

    /// Processes the current word of a node's Announcer.
    pub fn observe(&mut self, node: &Text, said: &AnnouncerStatement, now: Instant) {
        self.revision = self.revision.max(said.revision);
        match self.seen.get_mut(node) {
            Some(life) if said.renewed < life.renewed => return,
            Some(life) if said.renewed == life.renewed => life.claims.clone_from(&said.claims),
            _ => {
                let life = AgentLife {
                    renewed: said.renewed.clone(),
                    revision: said.revision,
                    at: now,
                    silent: Duration::ZERO,
                    claims: said.claims.clone(),
                };
                self.seen.insert(node.clone(), life);
            }
        }
        if *node == self.own {
            self.hear(said.renewed.as_ref(), now);
        }
    }

    /// Processes an own word that came back, unless it is the previous agent's.
    fn hear(&mut self, renewed: Option<&Text>, now: Instant) {
        let found = (self.sent.iter()).position(|word| Some(&word.renewed) == renewed);
        let Some(word) = found.and_then(|at| self.sent.drain(..=at).next_back()) else {
            return;
        };
        let before = self.heard.replace(word.sent);
        let gap = before.is_none_or(|it| word.sent.saturating_duration_since(it) > GAP);
        let late = now.saturating_duration_since(word.sent) > LATE;
        for life in self.seen.values_mut() {
            if gap || late {
                (life.at, life.silent) = (now, Duration::ZERO);
            } else {
                let since = before.map_or(life.at, |it| it.max(life.at));
                life.silent += word.sent.saturating_duration_since(since).min(COUNTED);
            }
        }
        let judge = |(address, claim): (&IpAddr, &ClaimState)| {
            let before = self.judged.get(address);
            let before = before.filter(|(term, _)| *term == claim.term);
            let stands = || !self.is_opposed(*address, claim.term);
            let stands = before.map_or_else(stands, |(_, stands)| *stands);
            (*address, (claim.term, stands))
        };
        self.judged = word.claims.iter().map(judge).collect();
    }

    /// Whether another that lives and claims an address spoke after `term`.
    fn is_opposed(&self, address: IpAddr, term: u64) -> bool {
        let mut others = self.others();
        others.any(|(_, life)| life.revision > term && life.claims.contains_key(&address))
    }

    /// The others that live.
    fn others(&self) -> impl Iterator<Item = (&Text, &AgentLife)> {
        let all = self.seen.iter();
        all.filter(|(node, life)| **node != self.own && life.silent < STALE)
    }

    /// Removes a node whose Announcer was deleted.
    pub fn forget(&mut self, node: &str) {
        self.seen.remove(node);
    }

    /// Whether a node lives. The own node does.
    #[must_use]
    pub fn is_live(&self, node: &str) -> bool {
        node == self.own || self.seen.get(node).is_some_and(|life| life.silent < STALE)
    }

    /// Returns whether everything said before `time` is known.
    #[must_use]
    pub fn is_known_until(&self, time: Instant) -> bool {
        self.heard.is_some_and(|sent| sent >= time)
    }

    /// Whether the own node is in touch.
    #[must_use]
    pub fn is_in_touch(&self, now: Instant) -> bool {
        let heard = self.heard;
        heard.is_some_and(|sent| now.saturating_duration_since(sent) < FRESH)
    }

    /// Returns whether the node's own claim stands, once it came back.
    #[must_use]
    pub fn stands(&self, address: IpAddr, term: u64) -> Option<bool> {
        let judged = self.judged.get(&address);
        let judged = judged.filter(|(of, _)| *of == term);
        judged.map(|(_, stands)| *stands)
    }

    /// Whether another that lives claims an address, of those `among`.
    #[must_use]
    pub fn is_claimed(&self, address: IpAddr, among: &BTreeSet<Text>) -> bool {
        let mut others = self.others().filter(|(node, _)| among.contains(*node));
        others.any(|(_, life)| life.claims.contains_key(&address))
    }

    /// The highest term of another that lives and answers for an address, of those
    /// `among` if given, and who that is.
    #[must_use]
    pub fn answered(&self, address: IpAddr, among: Option<&BTreeSet<Text>>) -> Option<(u64, &str)> {
        let others = self.others();
        let others = others.filter(|(node, _)| among.is_none_or(|all| all.contains(*node)));
        let claims = others.filter_map(|(node, life)| {
            let claim = life.claims.get(&address).filter(|claim| claim.answers)?;
            Some((claim.term, node.as_str()))
        });
        claims.max()
    }

    /// Returns the term of a new claim of this node: above all that it knows of.
    #[must_use]
    pub fn next_term(&self, address: IpAddr) -> u64 {
        let known = self.seen.values().filter_map(|it| it.claims.get(&address));
        let above = known.map(|claim| claim.term.saturating_add(1));
        above.fold(self.revision, u64::max)
    }

    /// Returns when each other claiming node counts as dead, if it stays silent.
    fn ends(&self) -> impl Iterator<Item = Instant> + '_ {
        let others = self.others().filter(|(_, life)| !life.claims.is_empty());
        others.map(|(_, life)| {
            let since = self.heard.map_or(life.at, |it| it.max(life.at));
            since + STALE.saturating_sub(life.silent)
        })
    }

    /// When the next one is held for dead as soon as an own word proves it.
    #[must_use]
    pub fn next_end(&self, now: Instant) -> Option<Instant> {
        self.ends().filter(|end| *end > now).min()
    }

    /// Since when an own word is wanted as the proof that another is dead.
    #[must_use]
    pub fn proof_wanted(&self, now: Instant) -> Option<Instant> {
        self.ends().filter(|end| *end <= now).max()
    }
}

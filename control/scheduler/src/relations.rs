//! Counts of pods by selector and topology domain, kept between decisions.
//!
//! What is counted depends on the pods of single nodes only, so each count is brought up to
//! date from the nodes that changed since it was last read: a decision costs time in
//! proportion to nodes, never to pods.

use std::sync::Arc;

use compact_str::CompactString;
use control_client::StringMap;
use rustc_hash::FxHashMap;

use crate::bits::Bits;
use crate::eligible_nodes::{matching_nodes, untolerated_nodes};
use crate::groups::{PodSelector, TermKind};
use crate::snapshot::Snapshot;
use crate::view::Shape;

/// The domain of a node without the label.
pub const NO_DOMAIN: u32 = u32::MAX;

/// Numbers in all caches together (8 bytes each) before they are dropped.
const CAPACITY: usize = 16 << 20;

/// The domains of one topology key.
#[derive(Debug, Default)]
pub struct Topology {
    clock: u64,
    domain_of: Vec<u32>,
    ids: FxHashMap<CompactString, u32>,
    /// Values by domain, with how many nodes have them.
    values: Vec<(CompactString, u32)>,
    free: Vec<u32>,
}

/// Pods that all of some selectors select, by node.
#[derive(Debug, Default)]
pub struct NodeCounts {
    clock: u64,
    namespaces: u64,
    /// By slot of a label set: when it was added (0: never), and whether it is selected.
    verdicts: Vec<(u64, bool)>,
    nodes: Vec<u32>,
}

/// The pods that are counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CountKey {
    /// All of these must select a pod.
    pub selectors: Box<[PodSelector]>,
    /// Whether pods that are being deleted count as well.
    pub terminating: bool,
}

/// The nodes that count as part of a domain.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Eligibility {
    /// All that have the label.
    All,
    /// Those that a topology spread constraint includes.
    Spread {
        /// The shape of the pod that is to be placed.
        shape: Arc<Shape>,
        /// Labels that a node must have.
        keys: Box<[CompactString]>,
        /// Whether the pod's node affinity excludes nodes.
        honour_affinity: bool,
        /// Whether taints that the pod does not tolerate exclude nodes.
        honour_taints: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct DomainKey {
    count: usize,
    topology: usize,
    eligibility: Eligibility,
}

/// Pods by domain.
#[derive(Debug, Default)]
pub struct DomainCounts {
    clock: u64,
    /// The namespace version at the time of counting.
    namespaces: u64,
    eligible_at: u64,
    eligible: Bits,
    /// The contribution of each node: domain and pods.
    seen: Vec<(u32, u32)>,
    /// Pods and eligible nodes by domain.
    domains: Vec<(i64, u32)>,
    total: i64,
}

/// The effect of placed pods' terms on pods with one set of labels, by domain.
#[derive(Debug, Default)]
pub struct TermCounts {
    clock: u64,
    seen: FxHashMap<usize, Vec<Contribution>>,
    /// By topology: the number of pods by domain whose required anti-affinity excludes
    /// it, and the sum of weights.
    topologies: FxHashMap<usize, Vec<(i64, i64)>>,
}

#[derive(Clone, Copy, Debug)]
struct Contribution {
    topology: usize,
    domain: u32,
    excluding: i64,
    weight: i64,
}

/// Slots of terms that select a label set, with when they were added.
type MatchedTerms = Arc<[(usize, u64)]>;

/// All counts. Must always be used with the same snapshot as it moves on.
#[derive(Debug, Default)]
pub struct Relations {
    topology_ids: FxHashMap<CompactString, usize>,
    topologies: Vec<Topology>,
    count_ids: FxHashMap<CountKey, usize>,
    counts: Vec<NodeCounts>,
    domain_ids: FxHashMap<DomainKey, usize>,
    domains: Vec<DomainCounts>,
    matched: FxHashMap<(CompactString, StringMap), (u64, u64, MatchedTerms)>,
    term_ids: FxHashMap<(MatchedTerms, i32), usize>,
    terms: Vec<TermCounts>,
}

// === impl Topology ===

impl Topology {
    fn refresh(&mut self, key: &str, snapshot: &Snapshot) {
        if self.clock >= snapshot.nodes_clock() && self.domain_of.len() == snapshot.places() {
            return;
        }
        self.domain_of.resize(snapshot.places(), NO_DOMAIN);
        for place in snapshot.changed_since(self.clock).iter() {
            let value = snapshot.label(place, key);
            let Some(domain) = self.domain_of.get_mut(place) else {
                continue;
            };
            let old = usize::try_from(*domain).unwrap_or(usize::MAX);
            if let Some((known, nodes)) = self.values.get_mut(old) {
                if value.is_some_and(|value| value == known) {
                    continue;
                }
                *nodes -= 1;
                if *nodes == 0 {
                    self.ids.remove(known);
                    self.free.push(*domain);
                }
            }
            *domain = match value {
                None => NO_DOMAIN,
                Some(value) => {
                    let id = self.ids.get(value).copied().unwrap_or_else(|| {
                        let id = self.free.pop().unwrap_or_else(|| {
                            self.values.push((CompactString::default(), 0));
                            u32::try_from(self.values.len() - 1).unwrap_or(NO_DOMAIN)
                        });
                        self.ids.insert(value.into(), id);
                        id
                    });
                    if let Some(known) = self.values.get_mut(id as usize) {
                        known.0 = value.into();
                        known.1 += 1;
                    }
                    id
                }
            };
        }
        self.clock = snapshot.clock();
    }

    /// The domain of a node; [`NO_DOMAIN`] without the label.
    #[must_use]
    pub fn domain(&self, place: usize) -> u32 {
        self.domain_of.get(place).copied().unwrap_or(NO_DOMAIN)
    }

    /// How many domains there may be.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether no node has the label.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

// === impl NodeCounts ===

impl NodeCounts {
    fn refresh(&mut self, key: &CountKey, snapshot: &Snapshot) {
        let namespaces = snapshot.namespaces().version();
        if self.namespaces != namespaces {
            let by_label = key.selectors.iter();
            if by_label
                .into_iter()
                .any(|it| it.namespace_selector.is_some())
            {
                self.clock = 0;
                self.verdicts.clear();
            }
            self.namespaces = namespaces;
        }
        self.nodes.resize(snapshot.places(), 0);
        let groups = snapshot.groups();
        self.verdicts.resize(groups.label_sets.slots(), (0, false));
        for place in snapshot.changed_since(self.clock).iter() {
            let mut pods = 0;
            for count in groups.label_sets_on(place) {
                let Some((labels, born)) = groups.label_sets.get(count.slot) else {
                    continue;
                };
                let Some(verdict) = self.verdicts.get_mut(count.slot) else {
                    continue;
                };
                if verdict.0 != born {
                    let selected = key.selectors.iter().all(|selector| {
                        selector.matches(&labels.0, &labels.1, snapshot.namespaces())
                    });
                    *verdict = (born, selected);
                }
                if verdict.1 {
                    let gone = if key.terminating {
                        0
                    } else {
                        count.terminating
                    };
                    pods += count.pods - gone;
                }
            }
            if let Some(node) = self.nodes.get_mut(place) {
                *node = pods;
            }
        }
        self.clock = snapshot.clock();
    }

    /// How many pods a node has.
    #[must_use]
    pub fn on(&self, place: usize) -> u32 {
        self.nodes.get(place).copied().unwrap_or(0)
    }
}

// === impl DomainCounts ===

impl DomainCounts {
    fn refresh(
        &mut self,
        eligibility: &Eligibility,
        topology: &Topology,
        counts: &NodeCounts,
        snapshot: &Snapshot,
    ) {
        if self.eligible_at < snapshot.nodes_clock() {
            self.eligible = eligibility.nodes(snapshot);
            self.eligible_at = snapshot.nodes_clock();
        }
        if self.namespaces != counts.namespaces {
            // Counts may have changed on any node.
            self.clock = 0;
            self.namespaces = counts.namespaces;
        }
        self.seen.resize(snapshot.places(), (NO_DOMAIN, 0));
        self.domains.resize(topology.len(), (0, 0));
        for place in snapshot.changed_since(self.clock).iter() {
            let Some(seen) = self.seen.get_mut(place) else {
                continue;
            };
            if let Some((pods, nodes)) = self.domains.get_mut(seen.0 as usize) {
                *pods -= i64::from(seen.1);
                *nodes -= 1;
                self.total -= i64::from(seen.1);
            }
            *seen = if self.eligible.contains(place) {
                (topology.domain(place), counts.on(place))
            } else {
                (NO_DOMAIN, 0)
            };
            if let Some((pods, nodes)) = self.domains.get_mut(seen.0 as usize) {
                *pods += i64::from(seen.1);
                *nodes += 1;
                self.total += i64::from(seen.1);
            }
        }
        self.clock = snapshot.clock();
    }

    /// How many pods a domain has.
    #[must_use]
    pub fn pods(&self, domain: u32) -> i64 {
        self.domains
            .get(domain as usize)
            .map_or(0, |(pods, _)| *pods)
    }

    /// Returns the number of domains with an eligible node, and the fewest pods in one of
    /// them.
    #[must_use]
    pub fn fewest(&self) -> (usize, i64) {
        let present = self.domains.iter().filter(|(_, nodes)| *nodes > 0);
        let (mut count, mut fewest) = (0, i64::MAX);
        for (pods, _) in present {
            count += 1;
            fewest = fewest.min(*pods);
        }
        (count, fewest)
    }

    /// How many pods all domains have.
    #[must_use]
    pub const fn total(&self) -> i64 {
        self.total
    }
}

impl Eligibility {
    fn nodes(&self, snapshot: &Snapshot) -> Bits {
        let mut nodes = snapshot.live().clone();
        if let Self::Spread {
            shape,
            keys,
            honour_affinity,
            honour_taints,
        } = self
        {
            for key in keys {
                match snapshot.with_label_key(key) {
                    Some(with) => nodes.intersect(with),
                    None => nodes = Bits::new(),
                }
            }
            if *honour_affinity && let Some(matching) = matching_nodes(snapshot, shape) {
                nodes.intersect(&matching);
            }
            if *honour_taints {
                nodes.subtract(&untolerated_nodes(snapshot, shape));
            }
        }
        nodes
    }
}

// === impl TermCounts ===

impl TermCounts {
    fn refresh(
        &mut self,
        matched: &MatchedTerms,
        hard_weight: i32,
        ids: &FxHashMap<CompactString, usize>,
        topologies: &[Topology],
        snapshot: &Snapshot,
    ) {
        let groups = snapshot.groups();
        for place in snapshot.changed_since(self.clock).iter() {
            for old in self.seen.remove(&place).into_iter().flatten() {
                self.add(old, -1);
            }
            if !snapshot.live().contains(place) {
                continue;
            }
            let mut new = Vec::new();
            for (slot, pods) in groups.terms_on(place) {
                if matched
                    .binary_search_by_key(slot, |(slot, _)| *slot)
                    .is_err()
                {
                    continue;
                }
                let Some((term, _)) = groups.terms.get(*slot) else {
                    continue;
                };
                let Some(topology) = ids.get(&term.topology_key) else {
                    continue;
                };
                let domain = topologies
                    .get(*topology)
                    .map_or(NO_DOMAIN, |it| it.domain(place));
                if domain == NO_DOMAIN {
                    continue;
                }
                let pods = i64::from(*pods);
                let (excluding, weight) = match term.kind {
                    TermKind::RequiredAntiAffinity => (pods, 0),
                    TermKind::RequiredAffinity => (0, pods * i64::from(hard_weight)),
                    TermKind::Preferred(weight) => (0, pods * i64::from(weight)),
                };
                let one = Contribution {
                    topology: *topology,
                    domain,
                    excluding,
                    weight,
                };
                self.add(one, 1);
                new.push(one);
            }
            if !new.is_empty() {
                self.seen.insert(place, new);
            }
        }
        self.clock = snapshot.clock();
    }

    fn add(&mut self, contribution: Contribution, sign: i64) {
        let domains = self.topologies.entry(contribution.topology).or_default();
        let domain = contribution.domain as usize;
        if domains.len() <= domain {
            domains.resize(domain + 1, (0, 0));
        }
        if let Some((excluding, weight)) = domains.get_mut(domain) {
            *excluding += sign * contribution.excluding;
            *weight += sign * contribution.weight;
        }
    }

    /// By topology: the number of pods by domain whose required anti-affinity excludes
    /// it, and the sum of weights.
    pub fn topologies(&self) -> impl Iterator<Item = (usize, &[(i64, i64)])> {
        self.topologies
            .iter()
            .map(|(at, domains)| (*at, domains.as_slice()))
    }
}

// === impl Relations ===

impl Relations {
    /// Drops everything when it takes too much memory. Must be called between decisions.
    pub fn trim(&mut self, snapshot: &Snapshot) {
        let columns = self.counts.len() + 2 * self.domains.len() + self.topologies.len();
        let matched = self.matched.len() * 64;
        if columns * snapshot.places() + matched > CAPACITY || self.terms.len() > 4096 {
            *self = Self::default();
        }
    }

    /// The number of a topology key, brought up to date.
    pub fn topology(&mut self, key: &CompactString, snapshot: &Snapshot) -> usize {
        let id = self.topology_ids.get(key).copied().unwrap_or_else(|| {
            self.topologies.push(Topology::default());
            let id = self.topologies.len() - 1;
            self.topology_ids.insert(key.clone(), id);
            id
        });
        if let Some(topology) = self.topologies.get_mut(id) {
            topology.refresh(key, snapshot);
        }
        id
    }

    /// The number of what counts pods by node, brought up to date.
    pub fn count(&mut self, key: CountKey, snapshot: &Snapshot) -> usize {
        let id = self
            .count_ids
            .get(&key)
            .copied()
            .unwrap_or(self.counts.len());
        if id == self.counts.len() {
            self.counts.push(NodeCounts::default());
        }
        if let Some(counts) = self.counts.get_mut(id) {
            counts.refresh(&key, snapshot);
        }
        self.count_ids.entry(key).or_insert(id);
        id
    }

    /// The number of what counts pods by domain, brought up to date. Count and topology must
    /// have been brought up to date.
    pub fn domain_counts(
        &mut self,
        count: usize,
        topology: usize,
        eligibility: Eligibility,
        snapshot: &Snapshot,
    ) -> usize {
        let key = DomainKey {
            count,
            topology,
            eligibility,
        };
        let id = self
            .domain_ids
            .get(&key)
            .copied()
            .unwrap_or(self.domains.len());
        if id == self.domains.len() {
            self.domains.push(DomainCounts::default());
        }
        if let (Some(domains), Some(topology), Some(counts)) = (
            self.domains.get_mut(id),
            self.topologies.get(topology),
            self.counts.get(count),
        ) {
            domains.refresh(&key.eligibility, topology, counts, snapshot);
        }
        self.domain_ids.entry(key).or_insert(id);
        id
    }

    /// Returns the index of the counts of placed pods' terms that select a pod with these
    /// labels; `None` if there are no such terms.
    pub fn placed_terms(
        &mut self,
        namespace: &CompactString,
        labels: &StringMap,
        hard_weight: i32,
        snapshot: &Snapshot,
    ) -> Option<usize> {
        let terms = &snapshot.groups().terms;
        let versions = (terms.changes(), snapshot.namespaces().version());
        let key = (namespace.clone(), labels.clone());
        let matched = match self.matched.get(&key) {
            Some((changes, version, matched)) if (*changes, *version) == versions => {
                Arc::clone(matched)
            }
            _ => {
                let selecting = terms.iter().filter(|(_, term, _)| {
                    let selector = &term.selector;
                    selector.matches(namespace, labels, snapshot.namespaces())
                });
                let matched: MatchedTerms = selecting.map(|(slot, _, born)| (slot, born)).collect();
                let remembered = (versions.0, versions.1, Arc::clone(&matched));
                self.matched.insert(key, remembered);
                matched
            }
        };
        if matched.is_empty() {
            return None;
        }
        for (slot, _) in matched.iter() {
            if let Some((term, _)) = terms.get(*slot) {
                self.topology(&term.topology_key, snapshot);
            }
        }
        let key = (matched, hard_weight);
        let id = self.term_ids.get(&key).copied().unwrap_or(self.terms.len());
        if id == self.terms.len() {
            self.terms.push(TermCounts::default());
        }
        if let Some(counts) = self.terms.get_mut(id) {
            counts.refresh(
                &key.0,
                hard_weight,
                &self.topology_ids,
                &self.topologies,
                snapshot,
            );
        }
        self.term_ids.entry(key).or_insert(id);
        Some(id)
    }

    /// The domains of a topology key.
    #[must_use]
    pub fn get_topology(&self, id: usize) -> Option<&Topology> {
        self.topologies.get(id)
    }

    /// Pods by node.
    #[must_use]
    pub fn get_count(&self, id: usize) -> Option<&NodeCounts> {
        self.counts.get(id)
    }

    /// Pods by domain.
    #[must_use]
    pub fn get_domains(&self, id: usize) -> Option<&DomainCounts> {
        self.domains.get(id)
    }

    /// Terms of placed pods by domain.
    #[must_use]
    pub fn get_terms(&self, id: usize) -> Option<&TermCounts> {
        self.terms.get(id)
    }
}

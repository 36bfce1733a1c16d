//! A ruleset: all that policies say about one direction of some pods, with
//! the tiers flattened into one order.

use ebpf_abi::Protocol;
use ebpf_abi::policy::{Direction, PeerEntry, PolicyVerdict, cookies};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::sync::Arc;

use crate::policy::{PortRange, RuleVerdict};
use crate::ports::{ClassId, PortId, Ports};

/// Number of a thing that addresses match: see [`atom`].
pub type AtomId = u32;
/// Number of a class of peers, or a kind.
pub type PeerId = u32;
/// Number of a revision of a policy.
pub type PolicyId = u32;
/// Number of a ruleset.
pub type RulesetId = u32;

/// Sorts of atoms: the two lowest bits of their numbers.
pub mod atom {
    /// Pods by selector.
    pub const PODS: u32 = 0;
    /// Nodes by selector.
    pub const NODES: u32 = 1;
    /// Ranges of addresses.
    pub const NETWORKS: u32 = 2;
    /// A port that the pod has by name.
    pub const PORT: u32 = 3;

    /// Ranges of pods' addresses, where no pod is known: it may match any selector of pods.
    /// Tables of ranges begin with 1.
    pub const UNKNOWN_POD: u32 = atom(NETWORKS, 0);

    /// The atom of a table's number.
    pub const fn atom(sort: u32, number: u32) -> u32 {
        number << 2 | sort
    }

    /// Its sort.
    pub const fn sort(atom: u32) -> u32 {
        atom & 3
    }

    /// Its number in the table of its sort.
    pub const fn number(atom: u32) -> u32 {
        atom >> 2
    }
}

/// Identifies a ruleset: rulesets with equal keys are one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The direction.
    pub direction: Direction,
    /// Whether it is for a node whose API and agent must stay reachable.
    pub protected: bool,
    /// In the order of evaluation.
    pub policies: Box<[PolicyId]>,
    /// For incoming traffic: the pod's ports whose names the policies use.
    pub named: Box<[(Box<str>, PortRange)]>,
}

/// A rule over atoms.
#[derive(Clone, Debug)]
pub struct AtomRule {
    /// The verdict on matching traffic.
    pub action: RuleVerdict,
    /// The peers; `None`: all.
    pub peers: Option<Box<[Term]>>,
    /// The ports; `None`: all.
    pub ports: Option<Box<[PortTerm]>>,
    /// Its number for people.
    pub cookie: u32,
}

/// The peers that a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Term {
    /// Every pod.
    AllPods,
    /// Every address of a family.
    Family {
        /// Whether it is IPv4.
        v4: bool,
        /// Without these.
        except: Option<AtomId>,
    },
    /// Peers with this atom.
    Atom(AtomId),
}

/// The ports that a rule matches.
#[derive(Clone, Debug)]
pub enum PortTerm {
    /// A range.
    Range(PortId),
    /// The ports of that name which the destination has.
    Named {
        /// The name.
        name: Box<str>,
        /// Only this protocol.
        protocol: Option<Protocol>,
    },
}

/// A class of peers, as rulesets see it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PeerClass {
    /// See [`PeerEntry`].
    pub kind: u32,
    /// The matching atoms, sorted.
    pub atoms: Box<[AtomId]>,
}

impl PeerClass {
    fn is_pod(&self) -> bool {
        self.kind & 2 != 0
    }

    fn is_v4(&self) -> bool {
        self.kind & 1 == 0
    }

    /// Returns whether an atom matches.
    pub fn has(&self, atom: AtomId) -> bool {
        self.atoms.binary_search(&atom).is_ok()
    }
}

/// A named port of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Binding {
    /// The name.
    pub name: Box<str>,
    /// Protocol and number; a range of one.
    pub port: PortRange,
}

/// A binding in use, as rulesets see it.
#[derive(Clone, Copy, Debug)]
pub struct BindingInUse<'a> {
    /// The binding.
    pub binding: &'a Binding,
    /// Its range's number.
    pub port: PortId,
}

/// The verdicts of a ruleset for one peer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// The verdict for ports in no class below.
    pub default: AttributedVerdict,
    /// The verdicts for others, by class.
    pub classes: Box<[(ClassId, AttributedVerdict)]>,
}

/// A verdict and the policy that it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttributedVerdict {
    /// Allowed?
    pub allow: bool,
    /// The rule.
    pub cookie: u32,
}

impl Row {
    /// Returns the verdict for a class.
    pub fn said(&self, class: ClassId) -> AttributedVerdict {
        self.classes
            .iter()
            .find(|(it, _)| *it == class)
            .map_or(self.default, |(_, said)| *said)
    }

    /// Its entries.
    pub fn entries(&self) -> impl Iterator<Item = (ClassId, PolicyVerdict)> {
        let ports = if self.classes.is_empty() {
            0
        } else {
            PolicyVerdict::PORTS
        };
        let entry = |said: AttributedVerdict, flags| PolicyVerdict {
            cookie: said.cookie,
            flags: flags | (u32::from(said.allow) * PolicyVerdict::ALLOW),
        };
        let classes = self.classes.iter();
        classes
            .map(move |(class, said)| (*class, entry(*said, 0)))
            .chain([(0, entry(self.default, ports))])
    }
}

/// Rules as a set of bits.
type Mask = SmallVec<[u64; 2]>;

/// A ruleset with all its entries.
#[derive(Debug)]
pub struct Ruleset {
    /// The policies that it consists of.
    pub key: Key,
    rules: Vec<AtomRule>,
    /// The ends of the tiers: rules of Admin, of NetworkPolicies, of Baseline.
    ends: [usize; 2],
    /// The cookie of the denial if some NetworkPolicy selects the pods and none allows.
    isolated: Option<u32>,
    by_atom: FxHashMap<AtomId, SmallVec<[u32; 2]>>,
    by_port: FxHashMap<PortId, SmallVec<[u32; 2]>>,
    /// Rules that ask for no port.
    all_ports: Mask,
    families: Vec<(u32, bool, Option<AtomId>)>,
    anybody: Mask,
    all_pods: Mask,
    /// Rules for some pods, which a pod that is not known may be one of.
    some_pods: Mask,
    /// Rules that ask for a port by its name at the destination.
    by_name: Mask,
    names: FxHashSet<Box<str>>,
    /// Entries: of the four kinds, and of the peers that are treated otherwise.
    pub rows: FxHashMap<PeerId, Arc<Row>>,
    /// Ranges that this ruleset holds itself.
    pub held: Vec<PortId>,
    /// How many sides of pods and nodes it applies to.
    pub users: u32,
}

impl Ruleset {
    /// Puts rules together; `named` are the ranges of the key's named ports.
    pub fn new(
        key: Key,
        rules: Vec<AtomRule>,
        ends: [usize; 2],
        isolated: Option<u32>,
        named: &[PortId],
    ) -> Self {
        let empty: Mask = SmallVec::from_elem(0, rules.len().div_ceil(64));
        let mut ruleset = Self {
            ends,
            isolated,
            by_atom: FxHashMap::default(),
            by_port: FxHashMap::default(),
            all_ports: empty.clone(),
            families: Vec::new(),
            anybody: empty.clone(),
            all_pods: empty.clone(),
            some_pods: empty.clone(),
            by_name: empty,
            names: FxHashSet::default(),
            rows: FxHashMap::default(),
            held: named.to_vec(),
            users: 0,
            rules: Vec::new(),
            key,
        };
        for (number, rule) in (0_u32..).zip(&rules) {
            ruleset.index(number, rule, named);
        }
        ruleset.rules = rules;
        ruleset
    }

    fn index(&mut self, number: u32, rule: &AtomRule, named: &[PortId]) {
        match &rule.peers {
            None => set(&mut self.anybody, number),
            Some(terms) => {
                for term in terms {
                    match term {
                        Term::AllPods => set(&mut self.all_pods, number),
                        Term::Family { v4, except } => self.families.push((number, *v4, *except)),
                        Term::Atom(atom) => {
                            self.by_atom.entry(*atom).or_default().push(number);
                            if atom::sort(*atom) == atom::PODS {
                                set(&mut self.some_pods, number);
                            }
                        }
                    }
                }
            }
        }
        match &rule.ports {
            None => set(&mut self.all_ports, number),
            Some(terms) => {
                for term in terms {
                    match term {
                        PortTerm::Range(port) => {
                            self.by_port.entry(*port).or_default().push(number);
                        }
                        PortTerm::Named { name, protocol }
                            if self.key.direction == Direction::INGRESS =>
                        {
                            for ((bound, range), port) in self.key.named.iter().zip(named) {
                                if bound == name && protocol.is_none_or(|it| it == range.protocol) {
                                    self.by_port.entry(*port).or_default().push(number);
                                }
                            }
                        }
                        PortTerm::Named { name, .. } => {
                            self.names.insert(name.clone());
                            set(&mut self.by_name, number);
                        }
                    }
                }
            }
        }
    }

    /// Atoms by which it tells peers apart.
    pub fn atoms(&self) -> impl Iterator<Item = AtomId> {
        let except = self.families.iter().filter_map(|(_, _, except)| *except);
        let is_any = |mask: &Mask| mask.iter().any(|it| *it != 0);
        let unknown = is_any(&self.some_pods) || is_any(&self.by_name);
        let unknown = unknown.then_some(atom::UNKNOWN_POD);
        self.by_atom.keys().copied().chain(except).chain(unknown)
    }

    /// Names of its destinations' ports.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|it| &**it)
    }

    /// Returns the ranges by which it distinguishes ports, except those of names.
    pub fn ports(&self) -> impl Iterator<Item = PortId> {
        self.by_port.keys().copied()
    }

    /// Returns the row for a peer. `bound` are the peer's named ports.
    pub fn row(&self, peer: &PeerClass, bound: &[BindingInUse<'_>], ports: &Ports) -> Row {
        let mask = self.mask(peer);
        let (mut possible, mut by_name) = (mask.clone(), None);
        if peer.has(atom::UNKNOWN_POD) {
            add(&mut possible, &self.some_pods);
            by_name = Some(&self.by_name);
        }
        let mut classes: SmallVec<[ClassId; 16]> = SmallVec::new();
        let mut dynamic: SmallVec<[(u32, PortId); 4]> = SmallVec::new();
        for (port, rules) in &self.by_port {
            if rules.iter().any(|rule| get(&possible, *rule)) {
                classes.extend(ports.classes(*port).iter().copied());
            }
        }
        if !self.names.is_empty() && !bound.is_empty() {
            for (number, rule) in (0_u32..).zip(&self.rules) {
                for term in rule.ports.iter().flatten() {
                    let PortTerm::Named { name, protocol } = term else {
                        continue;
                    };
                    for it in bound {
                        let fits = it.binding.name == *name
                            && protocol.is_none_or(|of| of == it.binding.port.protocol);
                        if fits && get(&mask, number) {
                            dynamic.push((number, it.port));
                            classes.extend(ports.classes(it.port).iter().copied());
                        }
                    }
                }
            }
        }
        classes.sort_unstable();
        classes.dedup();
        let decide = |open: &Mask| {
            let sure = both(&mask, open);
            let Some(by_name) = by_name else {
                return self.decide(0, &sure, &sure);
            };
            let mut open = open.clone();
            add(&mut open, by_name);
            self.decide(0, &sure, &both(&possible, &open))
        };
        let default = decide(&self.all_ports);
        let mut said = Vec::new();
        for class in classes {
            let mut open = self.all_ports.clone();
            for range in ports.signature(class) {
                for rule in self.by_port.get(range).into_iter().flatten() {
                    set(&mut open, *rule);
                }
                for (rule, port) in &dynamic {
                    if port == range {
                        set(&mut open, *rule);
                    }
                }
            }
            let verdict = decide(&open);
            if verdict != default {
                said.push((class, verdict));
            }
        }
        Row {
            default,
            classes: said.into(),
        }
    }

    /// Rules that match a peer, whatever the port.
    fn mask(&self, peer: &PeerClass) -> Mask {
        let mut mask = self.anybody.clone();
        if peer.is_pod() {
            add(&mut mask, &self.all_pods);
        }
        for (rule, v4, except) in &self.families {
            if *v4 == peer.is_v4() && !except.is_some_and(|it| peer.has(it)) {
                set(&mut mask, *rule);
            }
        }
        for atom in &peer.atoms {
            for rule in self.by_atom.get(atom).into_iter().flatten() {
                set(&mut mask, *rule);
            }
        }
        mask
    }

    /// Evaluates the tiers in their order, from `tier` on: Admin's first match, then
    /// NetworkPolicies together, then Baseline's first match, then everything is allowed.
    /// It is unknown whether rules match that are `possible` and not `sure`: what may be
    /// denied is denied.
    fn decide(&self, mut tier: usize, sure: &Mask, possible: &Mask) -> AttributedVerdict {
        for (word, (certain, left)) in sure.iter().zip(possible).enumerate() {
            let mut left = *left;
            while left != 0 {
                let bit = left.trailing_zeros();
                let number = word * 64 + bit as usize;
                let is_sure = certain >> bit & 1 != 0;
                left &= left - 1;
                let of = self.ends.iter().filter(|end| number >= **end).count();
                if of < tier {
                    continue;
                }
                if let (true, Some(cookie)) = (of == 2, self.isolated) {
                    return AttributedVerdict {
                        allow: false,
                        cookie,
                    };
                }
                let Some(rule) = self.rules.get(number) else {
                    continue;
                };
                match rule.action {
                    RuleVerdict::Pass if is_sure => tier = of + 1,
                    RuleVerdict::Pass => {
                        let passed = self.decide(of + 1, sure, possible);
                        if !passed.allow {
                            return passed;
                        }
                    }
                    RuleVerdict::Accept if !is_sure => {}
                    action => {
                        return AttributedVerdict {
                            allow: action == RuleVerdict::Accept,
                            cookie: rule.cookie,
                        };
                    }
                }
            }
        }
        match self.isolated {
            Some(cookie) => AttributedVerdict {
                allow: false,
                cookie,
            },
            None => AttributedVerdict {
                allow: true,
                cookie: cookies::DEFAULT,
            },
        }
    }
}

/// The kinds of peers that are in no class.
pub fn kinds() -> impl Iterator<Item = (PeerId, PeerClass)> {
    (0..PeerEntry::FIRST).map(|kind| {
        let atoms = Box::default();
        (kind, PeerClass { kind, atoms })
    })
}

fn add(to: &mut Mask, from: &Mask) {
    for (to, from) in to.iter_mut().zip(from) {
        *to |= from;
    }
}

fn both(a: &Mask, b: &Mask) -> Mask {
    a.iter().zip(b).map(|(a, b)| a & b).collect()
}

fn set(mask: &mut Mask, rule: u32) {
    if let Some(word) = mask.get_mut(rule as usize / 64) {
        *word |= 1 << (rule % 64);
    }
}

fn get(mask: &Mask, rule: u32) -> bool {
    mask.get(rule as usize / 64)
        .is_some_and(|word| word & (1 << (rule % 64)) != 0)
}

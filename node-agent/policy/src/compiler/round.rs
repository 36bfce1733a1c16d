//! One round: from what is dirty to actions, in an order in which every
//! prefix is sound.

use std::sync::Arc;

use ebpf_abi::policy::{Direction, EndpointKey, EndpointPolicy, PeerEntry, VerdictKey, cookies};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::{Compiler, Endpoint, Owner};
use crate::action::Action;
use crate::address::Prefix;
use crate::policy::{Tier, Verdict};
use crate::ruleset::{
    self, AtomId, Binding, Bound, Key, Peer, PeerId, PolicyId, PortTerm, Row, Ruleset, RulesetId,
    atom, kinds,
};

/// What a round writes, in the order in which it is written.
#[derive(Default)]
struct Out {
    closed: Vec<Action>,
    verdicts: Vec<Action>,
    ports: Vec<Action>,
    peers: Vec<Action>,
    endpoints: Vec<Action>,
    gone: Vec<Action>,
}

impl Compiler {
    pub(super) fn round(&mut self, actions: &mut Vec<Action>) {
        let mut out = Out::default();
        let rules = std::mem::take(&mut self.dirty.rules);
        actions.extend(
            rules
                .into_iter()
                .map(|(cookie, name)| Action::PutRule(cookie, name)),
        );

        // Who is who, and which policies apply: numbers are taken.
        let (new_peers, old_peers, old_bindings) = self.resolve(&mut out);
        let new_rulesets = self.choose_rulesets();

        // Ports in the ranges that all this needs.
        let changed = self.ports.settle(self.root.epoch);
        out.ports.extend(
            changed
                .elements
                .into_iter()
                .map(|(element, classes)| Action::PutPorts(element, classes)),
        );

        // Rulesets are completed.
        let mut full: FxHashSet<RulesetId> = new_rulesets.into_iter().collect();
        for range in &changed.ranges {
            full.extend(self.rulesets_of_port.get(range).into_iter().flatten());
        }
        let bound_ports = self
            .binding_ports
            .iter()
            .filter(|(_, port)| changed.ranges.contains(port));
        for (number, _) in bound_ports {
            if let Some(binding) = self.bindings.get(*number) {
                full.extend(
                    self.rulesets_of_name
                        .get(&binding.name)
                        .into_iter()
                        .flatten(),
                );
            }
        }
        for id in &full {
            self.fill(*id, &mut out);
        }
        for peer in new_peers {
            let seers = self.peers.get(peer).map(|it| self.seers(it));
            for id in seers.into_iter().flatten() {
                if !full.contains(&id) {
                    self.add_peer(id, peer, &mut out);
                }
            }
        }

        self.point_endpoints(&mut out);

        // What nothing refers to any more.
        for peer in old_peers {
            self.release_peer(peer, &mut out);
        }
        for number in old_bindings {
            self.release_binding(number);
        }
        for id in std::mem::take(&mut self.idle) {
            if self.rulesets.get(&id).is_some_and(|it| it.users == 0) {
                self.drop_ruleset(id, &mut out);
            }
        }
        actions.append(&mut out.closed);
        actions.append(&mut out.verdicts);
        actions.append(&mut out.ports);
        actions.append(&mut out.peers);
        actions.append(&mut out.endpoints);
        actions.append(&mut out.gone);
    }

    /// Peers of dirty addresses and prefixes: those that are new, those that
    /// are held once less, and bindings that are.
    fn resolve(&mut self, out: &mut Out) -> (Vec<PeerId>, Vec<PeerId>, Vec<u32>) {
        let (mut new, mut old, mut old_bindings) = (Vec::new(), Vec::new(), Vec::new());
        let epoch = self.root.epoch;
        for prefix in std::mem::take(&mut self.dirty.mentions) {
            let before = self.mentions.get(&prefix).copied();
            if self.prefixes.is_mentioned(prefix) {
                let peer = Peer {
                    kind: PeerEntry::other_kind(prefix.address()),
                    atoms: self.prefixes.signature(prefix).as_ref().into(),
                };
                let id = self.hold_peer(peer, &mut new);
                self.mentions.insert(prefix, id);
                old.extend(before);
                if before != Some(id) {
                    let entry = PeerEntry { peer: id, flags: 0 };
                    // A host's own entry is under the same key as its prefix.
                    if !self.is_host(prefix) {
                        out.peers.push(Action::PutPeer(epoch, prefix, entry));
                    }
                }
            } else if let Some(before) = before {
                self.mentions.remove(&prefix);
                old.push(before);
                if !self.is_host(prefix) {
                    out.gone.push(Action::DeletePeer(epoch, prefix));
                }
            }
        }
        for address in std::mem::take(&mut self.dirty.hosts) {
            let prefix = Prefix::of(address, 128);
            let (wanted, bindings) = match self.describe(address) {
                Some((peer, flags, bindings)) => {
                    let id = self.hold_peer(peer, &mut new);
                    (Some(PeerEntry { peer: id, flags }), bindings)
                }
                None => (None, SmallVec::new()),
            };
            let Some(host) = self.hosts.get_mut(&address) else {
                continue;
            };
            let before = std::mem::replace(&mut host.said, wanted);
            old_bindings.extend(std::mem::replace(&mut host.bindings, bindings));
            old.extend(before.map(|it| it.peer));
            if wanted.is_none() && host.pods.is_empty() && host.nodes.is_empty() && !host.own {
                self.hosts.remove(&address);
            }
            match (before, wanted) {
                (_, Some(wanted)) if before != Some(wanted) => {
                    out.peers.push(Action::PutPeer(epoch, prefix, wanted));
                }
                (Some(_), None) => match self.mentions.get(&prefix) {
                    Some(peer) => out.peers.push(Action::PutPeer(
                        epoch,
                        prefix,
                        PeerEntry {
                            peer: *peer,
                            flags: 0,
                        },
                    )),
                    None => out.gone.push(Action::DeletePeer(epoch, prefix)),
                },
                _ => {}
            }
        }
        (new, old, old_bindings)
    }

    fn is_host(&self, prefix: Prefix) -> bool {
        prefix.bits() == 128
            && self
                .hosts
                .get(&prefix.first())
                .is_some_and(|it| it.said.is_some())
    }

    /// Who has an address: its peer, its flags, and the bindings it now holds.
    fn describe(&mut self, address: u128) -> Option<(Peer, u32, SmallVec<[u32; 1]>)> {
        let prefix = Prefix::of(address, 128);
        let other = PeerEntry::other_kind(prefix.address());
        let mut atoms: SmallVec<[AtomId; 16]> = SmallVec::new();
        let mut held: SmallVec<[u32; 1]> = SmallVec::new();
        let own = self.hosts.get(&address).is_some_and(|it| it.own);
        let here = |local: bool| u32::from(local && self.config.node.is_some()) * PeerEntry::LOCAL;
        let owner = self.owner(address);
        let (kind, flags) = match owner {
            Some(Owner::Node(id)) => {
                let node = self.nodes.get(&id)?;
                let selectors = self.node_atoms.iter();
                atoms.extend(
                    selectors
                        .filter(|(_, selector)| selector.matches(&node.labels))
                        .map(|(number, _)| atom::of(atom::NODES, number)),
                );
                (other, PeerEntry::NODE | here(node.local || own))
            }
            None if own => (other, PeerEntry::NODE | here(true)),
            None => return None,
            Some(Owner::Pod(id)) => {
                let pod = self.pods.get(&id)?;
                let state = self.namespaces.get(&pod.namespace)?;
                let selectors = state.atoms.candidates(&pod.labels).filter(|number| {
                    let selector = self.pod_atoms.get(*number);
                    selector.is_some_and(|it| it.pods.matches(&pod.labels))
                });
                atoms.extend(selectors.map(|number| atom::of(atom::PODS, number)));
                let wanted: SmallVec<[Binding; 2]> = pod
                    .ports
                    .iter()
                    .filter(|it| self.names.contains_key(&it.name))
                    .cloned()
                    .collect();
                let flags = PeerEntry::POD | here(pod.local);
                for binding in wanted {
                    let number = self.hold_binding(binding);
                    held.push(number);
                    atoms.push(atom::of(atom::PORT, number));
                }
                (other | 2, flags)
            }
        };
        atoms.extend(self.prefixes.signature(prefix).iter().copied());
        atoms.sort_unstable();
        atoms.dedup();
        let atoms = atoms.as_slice().into();
        Some((Peer { kind, atoms }, flags, held))
    }

    fn hold_binding(&mut self, binding: Binding) -> u32 {
        let (name, range) = (binding.name.clone(), binding.port);
        let (number, new) = self.bindings.acquire(binding);
        if new {
            let port = self.ports.acquire(range);
            self.binding_ports.insert(number, port);
            let atoms = self.bindings_of.entry(name).or_default();
            atoms.push(atom::of(atom::PORT, number));
        }
        number
    }

    fn release_binding(&mut self, number: u32) {
        let Some(binding) = self.bindings.release(number) else {
            return;
        };
        if let Some(port) = self.binding_ports.remove(&number) {
            self.ports.release(port);
        }
        if let Some(atoms) = self.bindings_of.get_mut(&binding.name) {
            atoms.retain(|it| *it != atom::of(atom::PORT, number));
            if atoms.is_empty() {
                self.bindings_of.remove(&binding.name);
            }
        }
    }

    fn hold_peer(&mut self, peer: Peer, new: &mut Vec<PeerId>) -> PeerId {
        if peer.atoms.is_empty() {
            return peer.kind;
        }
        let atoms = peer.atoms.clone();
        let (id, is_new) = self.peers.acquire(peer);
        if is_new {
            for atom in atoms {
                self.peers_of.entry(atom).or_default().insert(id);
            }
            new.push(id);
        }
        id
    }

    fn release_peer(&mut self, id: PeerId, out: &mut Out) {
        if id < PeerEntry::FIRST {
            return;
        }
        let Some(peer) = self.peers.release(id) else {
            return;
        };
        let seers = self.seers(&peer);
        for atom in &peer.atoms {
            if let Some(peers) = self.peers_of.get_mut(atom) {
                peers.remove(&id);
                if peers.is_empty() {
                    self.peers_of.remove(atom);
                }
            }
        }
        for ruleset in seers {
            let Some(state) = self.rulesets.get_mut(&ruleset) else {
                continue;
            };
            if let Some(row) = state.rows.remove(&id) {
                let classes = row.entries().map(|(class, _)| class);
                let epoch = self.root.epoch;
                out.gone.extend(
                    classes.map(|class| Action::DeleteVerdict(key(epoch, ruleset, id, class))),
                );
            }
        }
    }

    /// Rulesets that tell a peer from others of its kind.
    fn seers(&self, peer: &Peer) -> FxHashSet<RulesetId> {
        let mut seers = FxHashSet::default();
        for atom in &peer.atoms {
            if atom::sort(*atom) == atom::PORT {
                if let Some(binding) = self.bindings.get(atom::number(*atom)) {
                    seers.extend(
                        self.rulesets_of_name
                            .get(&binding.name)
                            .into_iter()
                            .flatten(),
                    );
                }
            } else {
                seers.extend(self.rulesets_of.get(atom).into_iter().flatten());
            }
        }
        seers
    }

    /// Rulesets of dirty pods and nodes; those that are new.
    fn choose_rulesets(&mut self) -> Vec<RulesetId> {
        let mut new = Vec::new();
        for id in std::mem::take(&mut self.dirty.pods) {
            let Some(pod) = self.pods.get(&id) else {
                continue;
            };
            let mut policies: SmallVec<[PolicyId; 8]> = SmallVec::new();
            if let (true, Some(state)) = (pod.local, self.namespaces.get(&pod.namespace)) {
                let subjects = state.subjects.candidates(&pod.labels).filter(|number| {
                    let selector = self.subjects.get(*number);
                    selector.is_some_and(|it| it.pods.matches(&pod.labels))
                });
                for subject in subjects {
                    if let Some(ids) = self.subject_policies.get(&subject) {
                        policies.extend(ids.iter().copied());
                    }
                }
            }
            let (old, ports) = (pod.rulesets, pod.ports.clone());
            self.order(&mut policies);
            let rulesets = [Direction::INGRESS, Direction::EGRESS]
                .map(|direction| self.hold_ruleset(direction, &policies, &ports, None, &mut new));
            if let Some(pod) = self.pods.get_mut(&id) {
                pod.rulesets = rulesets;
                self.dirty.endpoints.extend(&pod.addresses);
            }
            self.release_rulesets(old);
        }
        for id in std::mem::take(&mut self.dirty.nodes) {
            let Some(node) = self.nodes.get(&id) else {
                continue;
            };
            let mut policies: SmallVec<[PolicyId; 8]> = SmallVec::new();
            let mut forced = false;
            for id in self.current.values() {
                let Some(state) = self.policies.get(id) else {
                    continue;
                };
                if let crate::policy::Subject::Nodes(selector) = &state.policy.subject
                    && selector.matches(&node.labels)
                {
                    policies.push(*id);
                    forced |= state.policy.forced;
                }
            }
            let old = node.rulesets;
            self.order(&mut policies);
            let rulesets = [Direction::INGRESS, Direction::EGRESS].map(|direction| {
                self.hold_ruleset(direction, &policies, &[], Some(!forced), &mut new)
            });
            if let Some(node) = self.nodes.get_mut(&id) {
                node.rulesets = rulesets;
                self.dirty.endpoints.extend(&node.addresses);
            }
            self.dirty.endpoints.extend(&self.own_addresses);
            self.release_rulesets(old);
        }
        new
    }

    fn order(&self, policies: &mut [PolicyId]) {
        policies.sort_by(|a, b| {
            let place = |id| {
                let state = self.policies.get(id)?;
                Some((state.policy.tier, &state.policy.name))
            };
            place(a).cmp(&place(b))
        });
    }

    fn hold_ruleset(
        &mut self,
        direction: Direction,
        policies: &[PolicyId],
        bindings: &[Binding],
        protected: Option<bool>,
        new: &mut Vec<RulesetId>,
    ) -> RulesetId {
        let rules_of = |id: &PolicyId| {
            let state = self.policies.get(id)?;
            if direction == Direction::INGRESS {
                state.ingress.as_ref()
            } else {
                state.egress.as_ref()
            }
        };
        let policies: Box<[PolicyId]> = policies
            .iter()
            .copied()
            .filter(|id| rules_of(id).is_some())
            .collect();
        if policies.is_empty() {
            return 0;
        }
        let named = if direction == Direction::INGRESS && !bindings.is_empty() {
            let rules = policies.iter().filter_map(rules_of).flatten();
            let used: FxHashSet<&str> = rules
                .flat_map(|rule| rule.ports.iter().flatten())
                .filter_map(|term| match term {
                    PortTerm::Named { name, .. } => Some(&**name),
                    PortTerm::Range(_) => None,
                })
                .collect();
            bindings
                .iter()
                .filter(|it| used.contains(&*it.name))
                .map(|it| (it.name.clone(), it.port))
                .collect()
        } else {
            Box::default()
        };
        let key = Key {
            direction,
            protected: protected == Some(true),
            policies,
            named,
        };
        if let Some(&id) = self.ruleset_ids.get(&key) {
            if let Some(ruleset) = self.rulesets.get_mut(&id) {
                ruleset.users += 1;
            }
            return id;
        }
        let id = self.next_ruleset;
        self.next_ruleset += 1;
        let ruleset = self.flatten(key);
        for atom in ruleset.atoms() {
            self.rulesets_of.entry(atom).or_default().insert(id);
        }
        for port in ruleset.ports() {
            self.rulesets_of_port.entry(port).or_default().insert(id);
        }
        for name in ruleset.names() {
            self.rulesets_of_name
                .entry(name.into())
                .or_default()
                .insert(id);
        }
        self.ruleset_ids.insert(Arc::new(ruleset.key.clone()), id);
        self.rulesets.insert(id, ruleset);
        new.push(id);
        id
    }

    /// All rules of a key's policies in one order.
    fn flatten(&mut self, key: Key) -> Ruleset {
        let named: Vec<_> = key
            .named
            .iter()
            .map(|(_, range)| self.ports.acquire(*range))
            .collect();
        let mut tiers: [Vec<ruleset::Rule>; 3] = Default::default();
        let mut isolated = None;
        if key.protected {
            tiers[0].push(ruleset::Rule {
                action: Verdict::Accept,
                peers: None,
                ports: Some(
                    self.protected
                        .iter()
                        .copied()
                        .map(PortTerm::Range)
                        .collect(),
                ),
                cookie: cookies::PROTECTED,
            });
        }
        for id in &key.policies {
            let Some(state) = self.policies.get(id) else {
                continue;
            };
            let rules = if key.direction == Direction::INGRESS {
                &state.ingress
            } else {
                &state.egress
            };
            let tier = match state.policy.tier {
                Tier::Admin(_) => 0,
                Tier::Namespace => {
                    isolated = isolated.or(Some(state.cookie + key.direction.0));
                    1
                }
                Tier::Baseline(_) => 2,
            };
            if let Some(tier) = tiers.get_mut(tier) {
                tier.extend(rules.iter().flatten().cloned());
            }
        }
        let [admin, namespace, baseline] = tiers;
        let ends = [admin.len(), admin.len() + namespace.len()];
        let rules = [admin, namespace, baseline].concat();
        let mut ruleset = Ruleset::new(key, rules, ends, isolated, &named);
        ruleset.users = 1;
        ruleset
    }

    pub(super) fn release_rulesets(&mut self, rulesets: [RulesetId; 2]) {
        for id in rulesets {
            if let Some(ruleset) = self.rulesets.get_mut(&id) {
                ruleset.users -= 1;
                if ruleset.users == 0 {
                    self.idle.insert(id);
                }
            }
        }
    }

    fn drop_ruleset(&mut self, id: RulesetId, out: &mut Out) {
        let Some(ruleset) = self.rulesets.remove(&id) else {
            return;
        };
        self.ruleset_ids.remove(&ruleset.key);
        for atom in ruleset.atoms() {
            forget(&mut self.rulesets_of, &atom, id);
        }
        for port in ruleset.ports() {
            forget(&mut self.rulesets_of_port, &port, id);
        }
        for name in ruleset.names() {
            forget(&mut self.rulesets_of_name, &Box::from(name), id);
        }
        for port in &ruleset.held {
            self.ports.release(*port);
        }
        let epoch = self.root.epoch;
        for (peer, row) in &ruleset.rows {
            let classes = row.entries().map(|(class, _)| class);
            out.gone
                .extend(classes.map(|class| Action::DeleteVerdict(key(epoch, id, *peer, class))));
        }
    }

    /// Rows for all peers that a ruleset tells from others.
    fn fill(&mut self, id: RulesetId, out: &mut Out) {
        let Some(mut ruleset) = self.rulesets.remove(&id) else {
            return;
        };
        let mut wanted: FxHashMap<PeerId, Arc<Row>> = FxHashMap::default();
        for (kind, peer) in kinds() {
            wanted.insert(kind, Arc::new(ruleset.row(&peer, &[], &self.ports)));
        }
        let named = ruleset
            .names()
            .filter_map(|name| self.bindings_of.get(name));
        let named: Vec<AtomId> = named.flatten().copied().collect();
        let mut seen: FxHashSet<PeerId> = FxHashSet::default();
        let mut rows: FxHashSet<Arc<Row>> = wanted.values().cloned().collect();
        for atom in ruleset.atoms().chain(named) {
            for peer in self.peers_of.get(&atom).into_iter().flatten() {
                if !seen.insert(*peer) {
                    continue;
                }
                if let Some(row) = self.row(&ruleset, *peer, &wanted) {
                    // Equal rows are one.
                    let row = rows.get(&row).map_or(row, Arc::clone);
                    rows.insert(Arc::clone(&row));
                    wanted.insert(*peer, row);
                }
            }
        }
        let epoch = self.root.epoch;
        let before = std::mem::replace(&mut ruleset.rows, wanted);
        for (peer, row) in &ruleset.rows {
            write_row(epoch, id, *peer, before.get(peer), row, out);
        }
        for (peer, row) in before {
            if !ruleset.rows.contains_key(&peer) {
                let classes = row.entries().map(|(class, _)| class);
                out.gone.extend(
                    classes.map(|class| Action::DeleteVerdict(key(epoch, id, peer, class))),
                );
            }
        }
        self.rulesets.insert(id, ruleset);
    }

    /// A row of its own; none if the peer is treated as all of its kind.
    fn row(
        &self,
        ruleset: &Ruleset,
        id: PeerId,
        kinds: &FxHashMap<PeerId, Arc<Row>>,
    ) -> Option<Arc<Row>> {
        let peer = self.peers.get(id)?;
        let mut bound: SmallVec<[Bound<'_>; 4]> = SmallVec::new();
        for atom in &peer.atoms {
            if atom::sort(*atom) == atom::PORT {
                let number = atom::number(*atom);
                if let (Some(binding), Some(port)) =
                    (self.bindings.get(number), self.binding_ports.get(&number))
                {
                    bound.push(Bound {
                        binding,
                        port: *port,
                    });
                }
            }
        }
        let row = ruleset.row(peer, &bound, &self.ports);
        let like_all = kinds.get(&peer.kind).is_some_and(|it| **it == row);
        (!like_all).then(|| Arc::new(row))
    }

    fn add_peer(&mut self, id: RulesetId, peer: PeerId, out: &mut Out) {
        let Some(mut ruleset) = self.rulesets.remove(&id) else {
            return;
        };
        if let Some(row) = self.row(&ruleset, peer, &ruleset.rows) {
            write_row(
                self.root.epoch,
                id,
                peer,
                ruleset.rows.get(&peer),
                &row,
                out,
            );
            ruleset.rows.insert(peer, row);
        }
        self.rulesets.insert(id, ruleset);
    }

    /// Which rulesets apply to which addresses.
    fn point_endpoints(&mut self, out: &mut Out) {
        let epoch = self.root.epoch;
        for address in std::mem::take(&mut self.dirty.endpoints) {
            let owner = self.owner(address);
            let wanted = match owner {
                Some(Owner::Pod(id)) => self
                    .pods
                    .get(&id)
                    .filter(|it| it.local)
                    .map(|it| it.rulesets),
                Some(Owner::Node(id)) => self
                    .nodes
                    .get(&id)
                    .filter(|it| it.local)
                    .map(|it| it.rulesets),
                None if self.own_addresses.contains(&address) => {
                    let own = self.nodes.values().find(|it| it.local);
                    own.map(|it| it.rulesets)
                }
                None => None,
            };
            // A node that no policy selects is open, and needs no entry.
            let is_pod = matches!(owner, Some(Owner::Pod(_)));
            let wanted = wanted
                .filter(|it| is_pod || *it != [0; 2])
                .map(|rulesets| Endpoint {
                    owner: owner.unwrap_or(Owner::Node(0)),
                    rulesets,
                });
            let before = self.endpoints.get(&address).copied();
            if before == wanted {
                continue;
            }
            let at = |direction| EndpointKey {
                epoch,
                direction,
                address: Prefix::of(address, 128).address(),
            };
            let both = [Direction::INGRESS, Direction::EGRESS];
            let is_other = before.is_some_and(|it| wanted.is_none_or(|new| new.owner != it.owner));
            if is_other {
                let delete = both.map(|it| Action::DeleteEndpoint(at(it)));
                out.closed.extend(delete);
            }
            match wanted {
                Some(wanted) => {
                    self.endpoints.insert(address, wanted);
                    for (number, direction) in both.into_iter().enumerate() {
                        let ruleset = wanted.rulesets.get(number).copied().unwrap_or(0);
                        let same = before.and_then(|it| it.rulesets.get(number).copied());
                        if is_other || same != Some(ruleset) {
                            out.endpoints.push(Action::PutEndpoint(
                                at(direction),
                                EndpointPolicy {
                                    ruleset,
                                    reserved: 0,
                                },
                            ));
                        }
                    }
                }
                None => {
                    self.endpoints.remove(&address);
                }
            }
        }
    }
}

fn key(epoch: u32, ruleset: RulesetId, peer: PeerId, class: u16) -> VerdictKey {
    VerdictKey {
        epoch,
        ruleset,
        peer,
        class: u32::from(class),
    }
}

/// Writes what differs, the classes before the default that points to them.
fn write_row(
    epoch: u32,
    ruleset: RulesetId,
    peer: PeerId,
    before: Option<&Arc<Row>>,
    row: &Arc<Row>,
    out: &mut Out,
) {
    let old: FxHashMap<_, _> = before.into_iter().flat_map(|it| it.entries()).collect();
    for (class, verdict) in row.entries() {
        if old.get(&class) != Some(&verdict) {
            let key = key(epoch, ruleset, peer, class);
            out.verdicts.push(Action::PutVerdict(key, verdict));
        }
    }
    for class in old.keys() {
        if *class != 0 && row.classes.iter().all(|(it, _)| it != class) {
            let key = key(epoch, ruleset, peer, *class);
            out.gone.push(Action::DeleteVerdict(key));
        }
    }
}

fn forget<K: std::hash::Hash + Eq>(
    map: &mut FxHashMap<K, FxHashSet<RulesetId>>,
    key: &K,
    id: RulesetId,
) {
    if let Some(all) = map.get_mut(key) {
        all.remove(&id);
        if all.is_empty() {
            map.remove(key);
        }
    }
}

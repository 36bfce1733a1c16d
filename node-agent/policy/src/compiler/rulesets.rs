//! Groups the policies of pods and nodes to rulesets, and computes their rows.

use std::sync::Arc;

use ebpf_abi::policy::{Direction, VerdictKey, cookies};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::Compiler;
use super::round::{RoundOutput, key};
use crate::action::Action;
use crate::policy::{RuleVerdict, Tier};
use crate::ruleset::{
    self, AtomId, Binding, BindingInUse, Key, PeerId, PolicyId, PortTerm, Row, Ruleset, RulesetId,
    atom, kinds,
};

impl Compiler {
    /// Rulesets of dirty pods and nodes; those that are new.
    pub(super) fn choose_rulesets(&mut self) -> Vec<RulesetId> {
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
            self.leave_rulesets(old, rulesets);
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
            self.leave_rulesets(old, rulesets);
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
        let mut tiers: [Vec<ruleset::AtomRule>; 3] = Default::default();
        let mut isolated = None;
        if key.protected {
            tiers[0].push(ruleset::AtomRule {
                action: RuleVerdict::Accept,
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

    /// Rulesets that a pod or node no longer has, or has still: then they are held once
    /// more than by it.
    pub(super) fn leave_rulesets(&mut self, old: [RulesetId; 2], new: [RulesetId; 2]) {
        for (old, new) in old.into_iter().zip(new) {
            match self.rulesets.get_mut(&old) {
                Some(ruleset) if old == new => ruleset.users -= 1,
                Some(_) => self.leaving.now.rulesets.push(old),
                None => {}
            }
        }
    }

    /// Releases a ruleset once; removes it if it is unused.
    pub(super) fn release_ruleset(&mut self, id: RulesetId, out: &mut RoundOutput) {
        if let Some(ruleset) = self.rulesets.get_mut(&id) {
            ruleset.users -= 1;
            if ruleset.users == 0 {
                self.drop_ruleset(id, out);
            }
        }
    }

    /// Returns whether there is such an entry.
    pub(super) fn has_entry(&self, key: &VerdictKey) -> bool {
        let row = self
            .rulesets
            .get(&key.ruleset)
            .and_then(|it| it.rows.get(&key.peer));
        row.is_some_and(|it| it.entries().any(|(class, _)| u32::from(class) == key.class))
    }

    fn drop_ruleset(&mut self, id: RulesetId, out: &mut RoundOutput) {
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
    pub(super) fn fill(&mut self, id: RulesetId, out: &mut RoundOutput) {
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
            let gone = write_row(epoch, id, *peer, before.get(peer), row, out);
            self.leaving.now.verdicts.extend(gone);
        }
        for (peer, row) in before {
            if !ruleset.rows.contains_key(&peer) {
                let classes = row.entries().map(|(class, _)| key(epoch, id, peer, class));
                self.leaving.now.verdicts.extend(classes);
            }
        }
        self.rulesets.insert(id, ruleset);
    }

    /// Returns a separate row; `None` if the peer is treated as all of its kind.
    fn row(
        &self,
        ruleset: &Ruleset,
        id: PeerId,
        kinds: &FxHashMap<PeerId, Arc<Row>>,
    ) -> Option<Arc<Row>> {
        let peer = self.peers.get(id)?;
        let mut bound: SmallVec<[BindingInUse<'_>; 4]> = SmallVec::new();
        for atom in &peer.atoms {
            if atom::sort(*atom) == atom::PORT {
                let number = atom::number(*atom);
                if let (Some(binding), Some(port)) =
                    (self.bindings.get(number), self.binding_ports.get(&number))
                {
                    bound.push(BindingInUse {
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

    pub(super) fn add_peer(&mut self, id: RulesetId, peer: PeerId, out: &mut RoundOutput) {
        let Some(mut ruleset) = self.rulesets.remove(&id) else {
            return;
        };
        if let Some(row) = self.row(&ruleset, peer, &ruleset.rows) {
            let epoch = self.root.epoch;
            let gone = write_row(epoch, id, peer, ruleset.rows.get(&peer), &row, out);
            self.leaving.now.verdicts.extend(gone);
            ruleset.rows.insert(peer, row);
        }
        self.rulesets.insert(id, ruleset);
    }
}

/// Writes what differs, the classes before the default that points to them; entries
/// that are no more.
fn write_row(
    epoch: u32,
    ruleset: RulesetId,
    peer: PeerId,
    before: Option<&Arc<Row>>,
    row: &Arc<Row>,
    out: &mut RoundOutput,
) -> Vec<VerdictKey> {
    let old: FxHashMap<_, _> = before.into_iter().flat_map(|it| it.entries()).collect();
    for (class, verdict) in row.entries() {
        if old.get(&class) != Some(&verdict) {
            let key = key(epoch, ruleset, peer, class);
            out.verdicts.push(Action::PutVerdict(key, verdict));
        }
    }
    old.into_keys()
        .filter(|class| *class != 0 && row.classes.iter().all(|(it, _)| it != class))
        .map(|class| key(epoch, ruleset, peer, class))
        .collect()
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

//! Policies: their rules over atoms, taken and given back.

use ebpf_abi::policy::Direction;

use super::explanation::word;
use super::{Compiler, PolicyState, is_of, pods_atom};
use crate::action::Action;
use crate::address::Prefix;
use crate::policy::{
    Networks, ObjectName, PodSelector, Policy, PolicyRule, PortMatch, RulePeer, RuleVerdict,
    Subject,
};
use crate::ruleset::{self, AtomId, PolicyId, PortTerm, Term, atom};

impl Compiler {
    pub(super) fn put_policy(&mut self, name: &ObjectName, policy: Option<Policy>) {
        self.problems.remove(name);
        let old = self.current.get(name).copied();
        if let Some(policy) = &policy {
            if !policy.problems.is_empty() {
                self.problems.insert(name.clone(), policy.problems.clone());
            }
            let unchanged = old.and_then(|id| self.policies.get(&id));
            if unchanged.is_some_and(|it| it.policy == *policy) {
                return;
            }
        }
        if let Some(id) = old {
            self.current.remove(name);
            self.unselect(id);
            self.leaving.now.policies.push(id);
        }
        if let Some(policy) = policy {
            let id = self.next_policy;
            self.next_policy += 1;
            let state = self.compile(policy);
            self.cookies.insert(state.cookie, id);
            self.policies.insert(id, state);
            self.current.insert(name.clone(), id);
            self.select(id);
        }
    }

    /// Acquires what a policy needs.
    fn compile(&mut self, policy: Policy) -> PolicyState {
        let cookie = self.next_cookie;
        let mut state = PolicyState {
            cookie,
            ingress: None,
            egress: None,
            subject: None,
            atoms: Vec::new(),
            ports: Vec::new(),
            names: Vec::new(),
            policy: policy.clone(),
        };
        let mut next = cookie + 2;
        let mut compile = |compiler: &mut Self, rules: &Option<Vec<PolicyRule>>, direction| {
            let rules = rules.as_ref()?;
            let word = word(direction);
            if policy.tier == crate::policy::Tier::Namespace {
                let text = format!("{} {word}: no rule allows it", policy.name);
                compiler
                    .dirty
                    .rules
                    .push((cookie + direction.0, text.into()));
            }
            let mut compiled = Vec::new();
            for rule in rules {
                let text = rule_name(&policy.name, word, rule);
                compiler.dirty.rules.push((next, text.into()));
                compiled.push(compiler.compile_rule(rule, next, direction, &mut state));
                next += 1;
            }
            Some(compiled)
        };
        let ingress = compile(self, &policy.ingress, Direction::INGRESS);
        let egress = compile(self, &policy.egress, Direction::EGRESS);
        self.next_cookie = next;
        PolicyState {
            ingress,
            egress,
            ..state
        }
    }

    fn compile_rule(
        &mut self,
        rule: &PolicyRule,
        cookie: u32,
        direction: Direction,
        state: &mut PolicyState,
    ) -> ruleset::AtomRule {
        let peers = rule.peers.as_ref().map(|peers| {
            let mut terms = Vec::new();
            for peer in peers {
                self.terms(peer, &mut terms, state);
            }
            terms.into()
        });
        let ports = rule.ports.as_ref().map(|ports| {
            let ports = ports.iter();
            ports
                .map(|port| match port {
                    PortMatch::Range(range) => {
                        let id = self.ports.acquire(*range);
                        state.ports.push(id);
                        PortTerm::Range(id)
                    }
                    PortMatch::Named { name, protocol } => {
                        if direction == Direction::EGRESS {
                            self.hold_name(name);
                            state.names.push(name.clone());
                        }
                        PortTerm::Named {
                            name: name.clone(),
                            protocol: *protocol,
                        }
                    }
                })
                .collect()
        });
        ruleset::AtomRule {
            action: rule.action,
            peers,
            ports,
            cookie,
        }
    }

    fn terms(&mut self, peer: &RulePeer, terms: &mut Vec<Term>, state: &mut PolicyState) {
        match peer {
            RulePeer::Pods(selector) if selector.is_everything() => terms.push(Term::AllPods),
            RulePeer::Pods(selector) => {
                let (number, new) = self.pod_atoms.acquire(selector.clone());
                if new {
                    self.index_atom(number, selector);
                }
                state.atoms.push(pods_atom(number));
                terms.push(Term::Atom(pods_atom(number)));
            }
            RulePeer::Nodes(selector) => {
                let (number, new) = self.node_atoms.acquire(selector.clone());
                if new {
                    for node in self.nodes.values() {
                        self.dirty.hosts.extend(&node.addresses);
                    }
                }
                let atom = atom::atom(atom::NODES, number);
                state.atoms.push(atom);
                terms.push(Term::Atom(atom));
            }
            RulePeer::Networks(networks) => self.network_terms(networks, terms, state),
        }
    }

    /// Whole families are no atoms: else every address would match one.
    fn network_terms(
        &mut self,
        networks: &Networks,
        terms: &mut Vec<Term>,
        state: &mut PolicyState,
    ) {
        let is_whole = |prefix: &Prefix| [Prefix::V4, Prefix::V6].contains(prefix);
        let (whole, parts): (Vec<Prefix>, Vec<Prefix>) =
            networks.within.iter().copied().partition(is_whole);
        for family in whole {
            let except: Box<[Prefix]> = networks
                .except
                .iter()
                .copied()
                .filter(|it| family.contains(*it))
                .collect();
            let except = (!except.is_empty()).then(|| {
                let set = Networks {
                    within: except,
                    except: Box::default(),
                };
                self.networks(set, state)
            });
            terms.push(Term::Family {
                v4: family == Prefix::V4,
                except,
            });
        }
        if !parts.is_empty() {
            let set = Networks {
                within: parts.into(),
                except: networks.except.clone(),
            };
            let atom = self.networks(set, state);
            terms.push(Term::Atom(atom));
        }
    }

    fn networks(&mut self, mut set: Networks, state: &mut PolicyState) -> AtomId {
        for list in [&mut set.within, &mut set.except] {
            let mut sorted = std::mem::take(list).into_vec();
            sorted.sort_unstable();
            sorted.dedup();
            *list = sorted.into();
        }
        let (number, new) = self.network_atoms.acquire(set.clone());
        let atom = atom::atom(atom::NETWORKS, number);
        if new {
            let new = self.prefixes.insert(atom, &set);
            // Also an exception that is not inside.
            for prefix in &new {
                self.prefixes.refresh_one(*prefix);
            }
            self.dirty.mentions.extend(new);
            self.refresh(&set);
        }
        state.atoms.push(atom);
        atom
    }

    /// Mentions a range of pods' addresses, or does not any more.
    pub(super) fn put_range(&mut self, range: Prefix, is_there: bool) {
        let set = Networks {
            within: [range].into(),
            except: Box::default(),
        };
        let changed = if is_there {
            let new = self.prefixes.insert(atom::UNKNOWN_POD, &set);
            for prefix in &new {
                self.prefixes.refresh_one(*prefix);
            }
            new
        } else {
            self.prefixes.remove(atom::UNKNOWN_POD, &set)
        };
        self.dirty.mentions.extend(changed);
        self.refresh(&set);
    }

    /// Recomputes the members of a set of addresses.
    fn refresh(&mut self, set: &Networks) {
        let changed = self.prefixes.refresh(set);
        self.dirty.mentions.extend(changed);
        for prefix in &set.within {
            let inside = self.hosts.range(prefix.first()..=prefix.last());
            let inside = inside.map(|(address, _)| *address);
            self.dirty
                .hosts
                .extend(inside.filter(|it| prefix.contains(Prefix::new(*it, 128))));
        }
    }

    fn index_atom(&mut self, number: u32, selector: &PodSelector) {
        for (name, state) in &mut self.namespaces {
            let labels = state.labels.as_ref();
            if !labels.is_some_and(|it| is_of(&selector.namespaces, name, it)) {
                continue;
            }
            state.atoms.insert(number, &selector.pods);
            for pod in state.pods.iter().filter_map(|id| self.pods.get(id)) {
                if selector.pods.matches(&pod.labels) {
                    self.dirty.hosts.extend(&pod.addresses);
                }
            }
        }
    }

    /// Pods that a name of ports concerns.
    fn hold_name(&mut self, name: &str) {
        let count = self.names.entry(name.into()).or_default();
        *count += 1;
        if *count == 1 {
            self.touch_name(name);
        }
    }

    fn touch_name(&mut self, name: &str) {
        for pod in self.pods.values() {
            if pod.ports.iter().any(|it| *it.name == *name) {
                self.dirty.hosts.extend(&pod.addresses);
            }
        }
    }

    /// Applies the policy to its pods and nodes.
    fn select(&mut self, id: PolicyId) {
        let Some(state) = self.policies.get(&id) else {
            return;
        };
        let Subject::Pods(selector) = state.policy.subject.clone() else {
            self.dirty_nodes();
            return;
        };
        let (number, new) = self.subjects.acquire(selector.clone());
        if new {
            for (name, namespace) in &mut self.namespaces {
                let labels = namespace.labels.as_ref();
                if labels.is_some_and(|it| is_of(&selector.namespaces, name, it)) {
                    namespace.subjects.insert(number, &selector.pods);
                }
            }
        }
        if let Some(state) = self.policies.get_mut(&id) {
            state.subject = Some(number);
        }
        self.subject_policies.entry(number).or_default().push(id);
        self.dirty_subject(&selector);
    }

    /// Stops applying the policy to its pods and nodes.
    fn unselect(&mut self, id: PolicyId) {
        let Some(state) = self.policies.get_mut(&id) else {
            return;
        };
        let number = state.subject.take();
        let (Some(number), Subject::Pods(selector)) = (number, state.policy.subject.clone()) else {
            self.dirty_nodes();
            return;
        };
        if let Some(policies) = self.subject_policies.get_mut(&number) {
            policies.retain(|it| *it != id);
            if policies.is_empty() {
                self.subject_policies.remove(&number);
            }
        }
        self.dirty_subject(&selector);
        if self.subjects.release(number).is_some() {
            for namespace in self.namespaces.values_mut() {
                namespace.subjects.remove(number, &selector.pods);
            }
        }
    }

    fn dirty_nodes(&mut self) {
        let local = self.nodes.iter().filter(|(_, node)| node.local);
        self.dirty.nodes.extend(local.map(|(id, _)| *id));
    }

    fn dirty_subject(&mut self, selector: &PodSelector) {
        let named = match &selector.namespaces {
            crate::policy::Namespaces::Named(name) => self.namespaces.get_key_value(&**name),
            crate::policy::Namespaces::Matching(_) => None,
        };
        let all = self.namespaces.iter().filter(|_| named.is_none());
        for (name, state) in named.into_iter().chain(all) {
            let labels = state.labels.as_ref();
            if !labels.is_some_and(|it| is_of(&selector.namespaces, name, it)) {
                continue;
            }
            for id in &state.pods {
                let pod = self.pods.get(id);
                if pod.is_some_and(|it| it.local && selector.pods.matches(&it.labels)) {
                    self.dirty.pods.insert(*id);
                }
            }
        }
    }

    /// Releases what an old policy acquired. Nothing refers to its rules.
    pub(super) fn retire(&mut self, id: PolicyId, actions: &mut Vec<Action>) {
        let Some(state) = self.policies.remove(&id) else {
            return;
        };
        self.cookies.remove(&state.cookie);
        for name in state.names {
            if let Some(count) = self.names.get_mut(&name) {
                *count -= 1;
                if *count == 0 {
                    self.names.remove(&name);
                    self.touch_name(&name);
                }
            }
        }
        for port in state.ports {
            self.ports.release(port);
        }
        for atom in state.atoms {
            self.release_atom(atom);
        }
        for (direction, rules) in [(0, &state.ingress), (1, &state.egress)] {
            let Some(rules) = rules else {
                continue;
            };
            if state.policy.tier == crate::policy::Tier::Namespace {
                actions.push(Action::DeleteRule(state.cookie + direction));
            }
            actions.extend(rules.iter().map(|rule| Action::DeleteRule(rule.cookie)));
        }
    }

    fn release_atom(&mut self, atom: AtomId) {
        let number = atom::number(atom);
        match atom::sort(atom) {
            atom::PODS => {
                let Some(selector) = self.pod_atoms.release(number) else {
                    return;
                };
                for state in self.namespaces.values_mut() {
                    state.atoms.remove(number, &selector.pods);
                }
            }
            atom::NODES => {
                if self.node_atoms.release(number).is_none() {
                    return;
                }
            }
            _ => {
                let Some(set) = self.network_atoms.release(number) else {
                    return;
                };
                let gone = self.prefixes.remove(atom, &set);
                self.dirty.mentions.extend(gone);
                self.refresh(&set);
            }
        }
        // The former owner has another identity now.
        let Some(peers) = self.peers_of.get(&atom) else {
            return;
        };
        let had = self.hosts.iter().filter(|(_, host)| {
            let said = host.said.as_ref();
            said.is_some_and(|it| peers.contains(&it.peer))
        });
        self.dirty.hosts.extend(had.map(|(address, _)| *address));
    }
}

fn rule_name(object: &ObjectName, word: &str, rule: &PolicyRule) -> String {
    let action = match rule.action {
        RuleVerdict::Accept => "accepts",
        RuleVerdict::Deny => "denies",
        RuleVerdict::Pass => "passes on",
    };
    let index = rule.index;
    if rule.name.is_empty() {
        format!("{object} {word}[{index}] {action}")
    } else {
        format!("{object} {word}[{index}] {:?} {action}", &*rule.name)
    }
}

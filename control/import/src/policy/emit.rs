//! NetworkPolicies and ClusterNetworkPolicies out of placed rules.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::{Action, Direction, Peers, Port, Ports, Protocol};
use crate::labels::{Conjunction, Requirements};
use crate::net::{Block, everything};
use crate::{IMPORTED_FROM, ObjectId, Remark};

/// The most rules of a direction, peers of a rule, networks of a peer and protocols of a rule
/// that a ClusterNetworkPolicy may have.
const MAX_ITEMS: usize = 25;
/// The highest priority number of a ClusterNetworkPolicy.
const LAST_PRIORITY: usize = 1000;
/// The first one that is used: lower numbers are left for policies that go before.
const FIRST_PRIORITY: usize = 100;

/// A tier of ClusterNetworkPolicies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ClusterTier {
    Admin,
    Baseline,
}

/// The position of a policy: tier, whether at the tier's end, position in the tier.
type Order = (usize, bool, usize);

/// All objects to be.
pub(super) struct Emission {
    prefix: String,
    namespaced: BTreeMap<(String, ObjectId, Requirements), NamespacedDraft>,
    cluster: BTreeMap<(ClusterTier, Order), Vec<RuleRun>>,
}

/// A NetworkPolicy.
#[derive(Default)]
struct NamespacedDraft {
    name: String,
    ingress: Option<Vec<Value>>,
    egress: Option<Vec<Value>>,
}

/// Rules of one policy for the same pods that follow each other.
struct RuleRun {
    id: ObjectId,
    name: String,
    subject: Conjunction,
    direction: Direction,
    rules: Vec<Value>,
}

impl Emission {
    pub(super) fn new(prefix: &str) -> Self {
        Self {
            prefix: prefix.to_owned(),
            namespaced: BTreeMap::new(),
            cluster: BTreeMap::new(),
        }
    }

    /// Returns a NetworkPolicy for these pods, with what a rule allows.
    pub(super) fn add_namespaced(
        &mut self,
        (id, name): (&ObjectId, &str),
        (namespace, pods): (&str, &Requirements),
        direction: Direction,
        allowed: Option<(&Peers, &Ports)>,
    ) {
        let key = (namespace.to_owned(), id.clone(), pods.clone());
        let policy = self.namespaced.entry(key).or_default();
        name.clone_into(&mut policy.name);
        let rules = match direction {
            Direction::Ingress => &mut policy.ingress,
            Direction::Egress => &mut policy.egress,
        };
        let rules = rules.get_or_insert_default();
        if let Some((peers, ports)) = allowed
            && let Some(rule) = namespaced_rule(namespace, direction, peers, ports)
            && !rules.contains(&rule)
        {
            rules.push(rule);
        }
    }

    /// Rules of a ClusterNetworkPolicy for these pods.
    pub(super) fn add_cluster(
        &mut self,
        tier: ClusterTier,
        order: Order,
        (id, name): (&ObjectId, &str),
        subject: &Conjunction,
        direction: Direction,
        rules: Vec<Value>,
    ) {
        let runs = self.cluster.entry((tier, order)).or_default();
        // Rules for other pods between two rules for the same keep their place.
        let last = runs.iter_mut().rfind(|run| run.direction == direction);
        if let Some(run) = last.filter(|run| run.subject == *subject) {
            run.rules.extend(rules);
            return;
        }
        runs.push(RuleRun {
            id: id.clone(),
            name: name.to_owned(),
            subject: subject.clone(),
            direction,
            rules,
        });
    }

    /// Returns the objects; what cannot be placed is refused.
    pub(super) fn objects(self, refused: &mut BTreeSet<Remark>) -> Vec<Value> {
        let mut all = Vec::new();
        let mut names = BTreeSet::new();
        for ((tier, runs), priority) in in_order(self.cluster) {
            let Some(priority) = priority else {
                if let Some(run) = runs.first() {
                    refused.insert(Remark {
                        object: run.id.clone(),
                        place: String::new(),
                        text: format!(
                            "it would need a priority above {LAST_PRIORITY}: merge policies"
                        ),
                    });
                }
                continue;
            };
            all.extend(cluster_policies(
                &self.prefix,
                tier,
                priority,
                runs,
                &mut names,
            ));
        }
        for ((namespace, id, pods), policy) in self.namespaced {
            let base = format!("{}.{}", self.prefix, policy.name);
            let name = unique(&mut names, &namespace, &base);
            let mut types = Vec::new();
            let mut spec = Map::new();
            spec.insert("podSelector".to_owned(), pods.selector());
            for (key, kind, rules) in [
                ("ingress", "Ingress", policy.ingress),
                ("egress", "Egress", policy.egress),
            ] {
                if let Some(rules) = rules {
                    types.push(kind);
                    if !rules.is_empty() {
                        spec.insert(key.to_owned(), rules.into());
                    }
                }
            }
            spec.insert("policyTypes".to_owned(), types.into());
            all.push(json!({
                "apiVersion": "networking.k8s.io/v1",
                "kind": "NetworkPolicy",
                "metadata": {
                    "namespace": namespace,
                    "name": name,
                    "annotations": {IMPORTED_FROM: id.to_string()},
                },
                "spec": spec,
            }));
        }
        all
    }
}

type PlacedRuns = (ClusterTier, Vec<RuleRun>);

/// Runs of one policy that may share a priority, in the order of evaluation. Equal priorities
/// are ordered by name, which nothing here relies on: those that share one are for different
/// directions, or say the same.
fn in_order(
    cluster: BTreeMap<(ClusterTier, Order), Vec<RuleRun>>,
) -> Vec<(PlacedRuns, Option<usize>)> {
    let mut all = Vec::new();
    let mut next: BTreeMap<ClusterTier, usize> = BTreeMap::new();
    for ((tier, _), runs) in cluster {
        let (ingress, egress): (Vec<RuleRun>, Vec<RuleRun>) = runs
            .into_iter()
            .partition(|run| run.direction == Direction::Ingress);
        let mut ingress = ingress.into_iter();
        let mut egress = egress.into_iter();
        loop {
            let together: Vec<RuleRun> = ingress.next().into_iter().chain(egress.next()).collect();
            if together.is_empty() {
                break;
            }
            let longest = together.iter().map(|run| run.rules.len()).max();
            let needed = longest.unwrap_or_default().div_ceil(MAX_ITEMS).max(1);
            let first = next.entry(tier).or_insert(FIRST_PRIORITY);
            let priority = (*first + needed - 1 <= LAST_PRIORITY).then_some(*first);
            *first += needed;
            all.push(((tier, together), priority));
        }
    }
    all
}

/// Returns the objects of runs that share a priority; further ones if there are too many
/// rules.
fn cluster_policies(
    prefix: &str,
    tier: ClusterTier,
    priority: usize,
    runs: Vec<RuleRun>,
    names: &mut BTreeSet<(String, String)>,
) -> Vec<Value> {
    let mut by_subject: Vec<(Conjunction, ObjectId, String, [Vec<Value>; 2])> = Vec::new();
    for run in runs {
        let at = usize::from(run.direction == Direction::Egress);
        match by_subject.iter_mut().find(|it| it.0 == run.subject) {
            Some(known) => known.3[at].extend(run.rules),
            None => {
                let mut both = [Vec::new(), Vec::new()];
                both[at].extend(run.rules);
                by_subject.push((run.subject, run.id, run.name, both));
            }
        }
    }
    let mut all = Vec::new();
    for (subject, id, name, [ingress, egress]) in by_subject {
        let parts = ingress.len().max(egress.len()).div_ceil(MAX_ITEMS);
        for part in 0..parts {
            let some = |rules: &[Value]| -> Vec<Value> {
                let from = rules.iter().skip(part * MAX_ITEMS);
                from.take(MAX_ITEMS).cloned().collect()
            };
            let mut spec = json!({
                "tier": match tier {
                    ClusterTier::Admin => "Admin",
                    ClusterTier::Baseline => "Baseline",
                },
                "priority": priority + part,
                "subject": pods(&subject),
            });
            for (key, rules) in [("ingress", some(&ingress)), ("egress", some(&egress))] {
                if !rules.is_empty() {
                    spec[key] = rules.into();
                }
            }
            let name = unique(names, "", &format!("{prefix}.{name}"));
            all.push(json!({
                "apiVersion": "policy.networking.k8s.io/v1alpha2",
                "kind": "ClusterNetworkPolicy",
                "metadata": {"name": name, "annotations": {IMPORTED_FROM: id.to_string()}},
                "spec": spec,
            }));
        }
    }
    all
}

/// A name that no other object has.
fn unique(names: &mut BTreeSet<(String, String)>, namespace: &str, base: &str) -> String {
    // Room for a number.
    let base: String = base.chars().take(240).collect();
    let base = base.trim_end_matches(['.', '-']).to_owned();
    let mut name = base.clone();
    let mut number = 1;
    while !names.insert((namespace.to_owned(), name.clone())) {
        number += 1;
        name = format!("{base}-{number}");
    }
    name
}

/// Pods as a subject or peer of a ClusterNetworkPolicy.
fn pods(of: &Conjunction) -> Value {
    if of.pod.is_empty() {
        json!({"namespaces": of.namespace.selector()})
    } else {
        json!({"pods": {
            "namespaceSelector": of.namespace.selector(),
            "podSelector": of.pod.selector(),
        }})
    }
}

/// The rules of a ClusterNetworkPolicy that together say one rule.
///
/// # Errors
/// Why no such rules can say it.
pub(super) fn cluster_rules(
    direction: Direction,
    action: Action,
    peers: &Peers,
    ports: &Ports,
) -> Result<Vec<Value>, &'static str> {
    let mut protocols = Vec::new();
    let mut named = false;
    if let Ports::Listed(list) = ports {
        if list.is_empty() {
            return Ok(Vec::new());
        }
        for port in list {
            match port {
                Port::Range(protocol, first, last) => {
                    protocols.push(cluster_port(*protocol, *first, *last));
                }
                Port::Named(..) => named = true,
            }
        }
    }
    if named {
        return Err("a ClusterNetworkPolicy's named ports are of any protocol");
    }
    let mut list: Vec<Value> = Vec::new();
    match (direction, peers) {
        (Direction::Ingress, Peers::Anybody) => {
            return Err(
                "a ClusterNetworkPolicy cannot match addresses outside the cluster on \
                        ingress",
            );
        }
        (Direction::Ingress, Peers::Listed(peers)) if !peers.blocks.is_empty() || peers.nodes => {
            return Err("a ClusterNetworkPolicy cannot match addresses on ingress");
        }
        (Direction::Egress, Peers::Anybody) => {
            list.push(json!({"networks": everything()}));
        }
        (_, Peers::Listed(peers)) => {
            list.extend(peers.pods.iter().map(pods));
            let networks: Vec<_> = peers.blocks.iter().flat_map(Block::ranges).collect();
            list.extend(networks.chunks(MAX_ITEMS).map(|it| json!({"networks": it})));
            if peers.nodes {
                list.push(json!({"nodes": {}}));
            }
        }
    }
    let key = match direction {
        Direction::Ingress => "from",
        Direction::Egress => "to",
    };
    let action = match action {
        Action::Allow => "Accept",
        Action::Deny => "Deny",
        Action::Pass => "Pass",
    };
    let mut rules = Vec::new();
    for peers in list.chunks(MAX_ITEMS) {
        if protocols.is_empty() {
            rules.push(json!({"action": action, key: peers}));
        }
        for protocols in protocols.chunks(MAX_ITEMS) {
            rules.push(json!({"action": action, key: peers, "protocols": protocols}));
        }
    }
    Ok(rules)
}

fn cluster_port(protocol: Protocol, first: u16, last: u16) -> Value {
    let key = protocol.name().to_ascii_lowercase();
    if first <= 1 && last == u16::MAX {
        json!({key: {}})
    } else if first == last {
        json!({key: {"destinationPort": {"number": first}}})
    } else {
        json!({key: {"destinationPort": {"range": {"start": first, "end": last}}}})
    }
}

/// A rule of a NetworkPolicy; `None` if it matches nothing.
fn namespaced_rule(
    namespace: &str,
    direction: Direction,
    peers: &Peers,
    ports: &Ports,
) -> Option<Value> {
    let mut rule = Map::new();
    if let Peers::Listed(peers) = peers {
        let mut list: Vec<Value> = Vec::new();
        let own = Requirements::namespace(namespace);
        for one in &peers.pods {
            let mut peer = Map::new();
            if one.namespace != own {
                peer.insert("namespaceSelector".to_owned(), one.namespace.selector());
            }
            if one.namespace == own || !one.pod.is_empty() {
                peer.insert("podSelector".to_owned(), one.pod.selector());
            }
            list.push(peer.into());
        }
        for block in &peers.blocks {
            let mut peer = json!({"cidr": block.within});
            if !block.except.is_empty() {
                peer["except"] = json!(block.except);
            }
            list.push(json!({"ipBlock": peer}));
        }
        if list.is_empty() {
            return None;
        }
        let key = match direction {
            Direction::Ingress => "from",
            Direction::Egress => "to",
        };
        rule.insert(key.to_owned(), list.into());
    }
    if let Ports::Listed(list) = ports {
        if list.is_empty() {
            return None;
        }
        let list = list.iter().map(|port| match port {
            Port::Range(protocol, first, u16::MAX) if *first <= 1 => {
                json!({"protocol": protocol.name()})
            }
            Port::Range(protocol, first, last) if first == last => {
                json!({"protocol": protocol.name(), "port": first})
            }
            Port::Range(protocol, first, last) => {
                json!({"protocol": protocol.name(), "port": first, "endPort": last})
            }
            Port::Named(protocol, name) => json!({"protocol": protocol.name(), "port": name}),
        });
        rule.insert("ports".to_owned(), list.collect::<Vec<_>>().into());
    }
    Some(rule.into())
}

//! PodTopologySpread and InterPodAffinity against a reference that walks all pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use control_client::StringMap;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::inter_pod_affinity::InterPodAffinity;
use super::pod_topology_spread::PodTopologySpread;
use super::*;
use crate::cluster::Cluster;
use crate::relations::Relations;
use crate::snapshot::Snapshot;
use crate::view::{Node, Pod, PodTerm, Spread};

/// A cluster as lists: each pod with the node that it is on.
#[derive(Default)]
struct Lists {
    nodes: BTreeMap<String, Arc<Node>>,
    pods: BTreeMap<String, (Arc<Pod>, String)>,
    namespaces: BTreeMap<String, StringMap>,
}

type Domain = (String, String);

impl Lists {
    fn placed(&self) -> impl Iterator<Item = (&Pod, &Node)> {
        let pods = self.pods.values();
        pods.filter_map(|(pod, on)| Some((&**pod, &**self.nodes.get(on)?)))
    }

    fn selects(&self, term: &PodTerm, owner: &Pod, other: &Pod) -> bool {
        let namespace = &other.metadata.namespace;
        let here = match &term.namespace_selector {
            None if term.namespaces.is_empty() => *namespace == owner.metadata.namespace,
            None => term.namespaces.contains(namespace),
            Some(selector) => {
                let none = StringMap::default();
                let labels = self.namespaces.get(namespace.as_str()).unwrap_or(&none);
                term.namespaces.contains(namespace) || selector.matches(labels)
            }
        };
        here && term.selector.matches(&other.metadata.labels)
    }

    fn add(counts: &mut BTreeMap<Domain, i64>, node: &Node, key: &str, by: i64) {
        if let Some(value) = node.metadata.labels.get(key) {
            *counts.entry((key.into(), value.into())).or_default() += by;
        }
    }

    fn at(counts: &BTreeMap<Domain, i64>, node: &Node, key: &str) -> Option<i64> {
        let value = node.metadata.labels.get(key)?;
        let count = counts.get(&(key.into(), value.into()));
        Some(count.copied().unwrap_or(0))
    }

    /// Returns why a node does not fit by affinity.
    fn affinity(&self, pod: &Pod, node: &Node) -> Option<&'static str> {
        let shape = &pod.shape;
        let (mut near, mut away, mut placed) = Default::default();
        for (other, on) in self.placed() {
            if shape
                .affinity
                .iter()
                .all(|term| self.selects(term, pod, other))
            {
                for term in &shape.affinity {
                    Self::add(&mut near, on, &term.topology_key, 1);
                }
            }
            for term in &shape.anti_affinity {
                if self.selects(term, pod, other) {
                    Self::add(&mut away, on, &term.topology_key, 1);
                }
            }
            for term in &other.shape.anti_affinity {
                if self.selects(term, other, pod) {
                    Self::add(&mut placed, on, &term.topology_key, 1);
                }
            }
        }
        let itself = shape
            .affinity
            .iter()
            .all(|term| self.selects(term, pod, pod));
        let first = near.is_empty() && itself;
        for term in &shape.affinity {
            match Self::at(&near, node, &term.topology_key) {
                Some(pods) if pods > 0 || first => {}
                _ => return Some("node(s) didn't match pod affinity rules"),
            }
        }
        for term in &shape.anti_affinity {
            if Self::at(&away, node, &term.topology_key).is_some_and(|pods| pods > 0) {
                return Some("node(s) didn't match pod anti-affinity rules");
            }
        }
        let mut labels = node.metadata.labels.iter();
        if labels.any(|(key, value)| placed.contains_key(&(key.to_owned(), value.to_owned()))) {
            return Some("node(s) didn't satisfy existing pods anti-affinity rules");
        }
        None
    }

    fn affinity_scores(&self, pod: &Pod) -> BTreeMap<String, i64> {
        let mut sums: BTreeMap<Domain, i64> = BTreeMap::new();
        for (other, on) in self.placed() {
            for (weight, term) in &pod.shape.preferred_pods {
                if self.selects(term, pod, other) {
                    Self::add(&mut sums, on, &term.topology_key, i64::from(*weight));
                }
            }
            for (weight, term) in &other.shape.preferred_pods {
                if self.selects(term, other, pod) {
                    Self::add(&mut sums, on, &term.topology_key, i64::from(*weight));
                }
            }
            for term in &other.shape.affinity {
                if self.selects(term, other, pod) {
                    Self::add(&mut sums, on, &term.topology_key, 1);
                }
            }
        }
        let raw: BTreeMap<&String, i64> = self
            .nodes
            .iter()
            .map(|(name, node)| {
                let labels = node.metadata.labels.iter();
                let sum = labels
                    .filter_map(|(key, _)| Self::at(&sums, node, key))
                    .sum();
                (name, sum)
            })
            .collect();
        let least = raw.values().min().copied().unwrap_or(0);
        let range = raw.values().max().copied().unwrap_or(0) - least;
        let scaled = |sum: i64| match range {
            0 => 0,
            _ => (100.0 * ((sum - least) as f64 / range as f64)) as i64,
        };
        let scores = raw.into_iter();
        scores
            .map(|(name, sum)| (name.clone(), scaled(sum)))
            .collect()
    }

    fn included(pod: &Pod, node: &Node, spread: &Spread) -> bool {
        let wanted = &pod.shape.node_selector;
        let labels = &node.metadata.labels;
        let selected = || {
            wanted
                .iter()
                .all(|(key, value)| labels.get(key) == Some(value))
        };
        (!spread.honour_affinity || selected()) && (!spread.honour_taints || node.taints.is_empty())
    }

    fn counted(&self, pod: &Pod, node: &Node, spread: &Spread) -> i64 {
        if spread.selector.is_everything() {
            return 0;
        }
        let pods = self.placed().filter(|(other, on)| {
            let meta = &other.metadata;
            on.metadata.name == node.metadata.name
                && meta.namespace == pod.metadata.namespace
                && !meta.is_terminating()
                && spread.selector.matches(&meta.labels)
        });
        i64::try_from(pods.count()).unwrap()
    }

    fn spread(&self, pod: &Pod, node: &Node) -> Option<&'static str> {
        let hard: Vec<&Spread> = pod.shape.spread.iter().filter(|it| it.hard).collect();
        let has_all = |node: &Node| {
            let labels = &node.metadata.labels;
            hard.iter()
                .all(|spread| labels.contains_key(&spread.topology_key))
        };
        for spread in &hard {
            let mut counts: BTreeMap<Domain, i64> = BTreeMap::new();
            for other in self.nodes.values() {
                if has_all(other) && Self::included(pod, other, spread) {
                    let pods = self.counted(pod, other, spread);
                    Self::add(&mut counts, other, &spread.topology_key, pods);
                }
            }
            let Some(pods) = Self::at(&counts, node, &spread.topology_key) else {
                return Some(
                    "node(s) didn't match pod topology spread constraints (missing required label)",
                );
            };
            let fewest = if counts.len() < spread.min_domains as usize {
                0
            } else {
                counts.values().min().copied().unwrap_or(0)
            };
            let itself = i64::from(spread.selector.matches(&pod.metadata.labels));
            if pods + itself - fewest > i64::from(spread.max_skew) {
                return Some("node(s) didn't match pod topology spread constraints");
            }
        }
        None
    }

    fn spread_scores(&self, pod: &Pod) -> BTreeMap<String, i64> {
        let soft: Vec<&Spread> = pod.shape.spread.iter().filter(|it| !it.hard).collect();
        let has_all = |node: &&Arc<Node>| {
            let labels = &node.metadata.labels;
            soft.iter()
                .all(|spread| labels.contains_key(&spread.topology_key))
        };
        let mut sums: BTreeMap<String, f64> = BTreeMap::new();
        let scored = || self.nodes.values().filter(has_all);
        for spread in &soft {
            let key = spread.topology_key.as_str();
            let domains: BTreeSet<_> = scored().map(|it| it.metadata.labels.get(key)).collect();
            let is_hostname = key == "kubernetes.io/hostname";
            let size = if is_hostname {
                scored().count()
            } else {
                domains.len()
            };
            let mut counts: BTreeMap<Domain, i64> = BTreeMap::new();
            for other in scored().filter(|it| Self::included(pod, it, spread)) {
                Self::add(&mut counts, other, key, self.counted(pod, other, spread));
            }
            for node in scored() {
                let pods = if is_hostname {
                    self.counted(pod, node, spread)
                } else {
                    Self::at(&counts, node, key).unwrap()
                };
                let score = pods as f64 * ((size + 2) as f64).ln() + f64::from(spread.max_skew - 1);
                *sums.entry(node.metadata.name.to_string()).or_default() += score;
            }
        }
        let sums: BTreeMap<String, i64> = sums
            .into_iter()
            .map(|(name, sum)| (name, sum.round() as i64))
            .collect();
        let least = sums.values().min().copied().unwrap_or(0);
        let most = sums.values().max().copied().unwrap_or(0);
        let score = |name: &String| match sums.get(name) {
            None => 0,
            Some(_) if most == 0 => 100,
            Some(sum) => 100 * (most + least - sum) / most,
        };
        self.nodes
            .keys()
            .map(|name| (name.clone(), score(name)))
            .collect()
    }
}

/// Returns the results of a plugin by node: rejections, and the scores of all nodes.
fn verdicts(
    plugin: &dyn Plugin,
    snapshot: &Snapshot,
    cycle: &Cycle<'_>,
) -> (BTreeMap<String, String>, Option<BTreeMap<String, i64>>) {
    let mut nodes = snapshot.live().clone();
    let mut rejected = RejectedNodes::default();
    plugin.filter_cycle(cycle, &mut nodes, &mut rejected);
    let mut reasons = BTreeMap::new();
    for rejection in &rejected.rejections {
        for at in rejection.nodes.iter() {
            let reason = rejection.reason.to_string();
            assert_eq!(reasons.insert(snapshot.name(at).to_owned(), reason), None);
            assert!(!nodes.contains(at));
        }
    }
    assert_eq!(nodes.count() + reasons.len(), snapshot.live().count());
    let mut scores = vec![0; snapshot.places()];
    let scored = plugin.score_cycle(cycle, snapshot.live(), &mut scores);
    plugin.normalize_cycle(snapshot.live(), &mut scores);
    let live = snapshot.live().iter();
    let by_name = live.map(|at| (snapshot.name(at).to_owned(), scores[at]));
    (reasons, scored.then(|| by_name.collect()))
}

#[derive(Clone, Debug)]
enum Step {
    Node(u8, Option<u8>, bool),
    NoNode(u8),
    Pod {
        name: u8,
        on: u8,
        labels: u8,
        namespace: u8,
        terminating: bool,
        spec: Value,
    },
    NoPod(u8),
    Namespace(u8, Option<u8>),
    Check {
        labels: u8,
        namespace: u8,
        spec: Value,
    },
}

fn app(number: u8) -> &'static str {
    ["a", "b", "c"][usize::from(number % 3)]
}

fn selector() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => (0u8..3).prop_map(|at| json!({"matchLabels": {"app": app(at)}})),
        1 => (0u8..3).prop_map(|at| json!({"matchExpressions": [
            {"key": "app", "operator": "NotIn", "values": [app(at)]}]})),
        1 => Just(json!({})),
        1 => Just(Value::Null),
    ]
}

fn topology_key() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        Just("topology.kubernetes.io/zone"),
        Just("kubernetes.io/hostname")
    ]
}

fn term() -> impl Strategy<Value = Value> {
    let namespaces = prop_oneof![
        3 => Just(json!({})),
        1 => Just(json!({"namespaces": ["n1"]})),
        1 => Just(json!({"namespaceSelector": {}})),
        1 => Just(json!({"namespaceSelector": {"matchLabels": {"app": "a"}}})),
    ];
    (selector(), topology_key(), namespaces).prop_map(|(selector, key, mut term)| {
        term["labelSelector"] = selector;
        term["topologyKey"] = json!(key);
        term
    })
}

fn terms() -> impl Strategy<Value = Value> {
    let required = prop::collection::vec(term(), 0..3);
    let preferred = prop::collection::vec((1..100i32, term()), 0..2);
    (required, preferred).prop_map(|(required, preferred)| {
        let preferred = preferred.into_iter();
        let preferred: Vec<Value> = preferred
            .map(|(weight, term)| json!({"weight": weight, "podAffinityTerm": term}))
            .collect();
        json!({
            "requiredDuringSchedulingIgnoredDuringExecution": required,
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        })
    })
}

fn spread() -> impl Strategy<Value = Value> {
    let policies = (any::<bool>(), any::<bool>());
    (
        1..3i32,
        topology_key(),
        any::<bool>(),
        1..4i32,
        selector(),
        policies,
    )
        .prop_map(|(skew, key, hard, domains, selector, (affinity, taints))| {
            let policy = |honour: bool| if honour { "Honor" } else { "Ignore" };
            let mut spread = json!({
                "maxSkew": skew, "topologyKey": key, "labelSelector": selector,
                "whenUnsatisfiable": if hard { "DoNotSchedule" } else { "ScheduleAnyway" },
                "nodeAffinityPolicy": policy(affinity), "nodeTaintsPolicy": policy(taints),
            });
            if hard {
                spread["minDomains"] = json!(domains);
            }
            spread
        })
}

fn spec() -> impl Strategy<Value = Value> {
    let near = prop::option::weighted(0.3, terms());
    let away = prop::option::weighted(0.3, terms());
    let spread = prop::collection::vec(spread(), 0..3);
    let zone = prop::option::weighted(0.2, 0u8..2);
    (near, away, spread, zone).prop_map(|(near, away, spread, zone)| {
        let mut spec = json!({"topologySpreadConstraints": spread, "affinity": {}});
        if let Some(near) = near {
            spec["affinity"]["podAffinity"] = near;
        }
        if let Some(away) = away {
            spec["affinity"]["podAntiAffinity"] = away;
        }
        if let Some(zone) = zone {
            spec["nodeSelector"] = json!({"topology.kubernetes.io/zone": format!("z{zone}")});
        }
        spec
    })
}

fn step() -> impl Strategy<Value = Step> {
    let node = (0u8..6, prop::option::weighted(0.8, 0u8..3), any::<bool>());
    let pod = (
        0u8..24,
        0u8..7,
        0u8..3,
        0u8..2,
        prop::bool::weighted(0.2),
        spec(),
    );
    let check = (0u8..3, 0u8..2, spec());
    prop_oneof![
        3 => node.prop_map(|(name, zone, taint)| Step::Node(name, zone, taint)),
        1 => (0u8..6).prop_map(Step::NoNode),
        6 => pod.prop_map(|(name, on, labels, namespace, terminating, spec)|
            Step::Pod { name, on, labels, namespace, terminating, spec }),
        2 => (0u8..24).prop_map(Step::NoPod),
        1 => (0u8..2, prop::option::of(0u8..3)).prop_map(|(at, app)| Step::Namespace(at, app)),
        4 => check.prop_map(|(labels, namespace, spec)| Step::Check { labels, namespace, spec }),
    ]
}

fn pod(name: &str, labels: u8, namespace: u8, terminating: bool, spec: &Value) -> Arc<Pod> {
    let mut pod = json!({"metadata": {
        "name": name, "namespace": format!("n{namespace}"), "uid": name,
        "labels": {"app": app(labels)}}, "spec": spec});
    if terminating {
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    Arc::new(serde_json::from_value(pod).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]
    #[test]
    fn kept_counts_lead_to_the_decisions_of_a_walk_over_all_pods(
        steps in prop::collection::vec(step(), 1..60)
    ) {
        let mut lists = Lists::default();
        let mut cluster = Cluster::default();
        let mut relations = Relations::default();
        for step in steps {
            match step {
                Step::Node(name, zone, taint) => {
                    let name = format!("node{name}");
                    let mut labels = json!({"kubernetes.io/hostname": name});
                    if let Some(zone) = zone {
                        labels["topology.kubernetes.io/zone"] = json!(format!("z{zone}"));
                    }
                    let taints = if taint { json!([{"key": "t", "effect": "NoSchedule"}]) } else { json!([]) };
                    let node = json!({"metadata": {"name": name, "labels": labels},
                        "spec": {"taints": taints}});
                    let node: Arc<Node> = Arc::new(serde_json::from_value(node).unwrap());
                    cluster.snapshot.set_node(&node);
                    lists.nodes.insert(name, node);
                }
                Step::NoNode(name) => {
                    let name = format!("node{name}");
                    cluster.snapshot.remove_node(&name);
                    lists.nodes.remove(&name);
                }
                Step::Pod { name, on, labels, namespace, terminating, spec } => {
                    // Each name lives in one namespace.
                    let name = format!("pod{name}-{namespace}");
                    let pod = pod(&name, labels, namespace, terminating, &spec);
                    let on = format!("node{on}");
                    cluster.snapshot.put_pod(&pod, &on);
                    lists.pods.insert(name, (pod, on));
                }
                Step::NoPod(name) => for namespace in 0..2 {
                    let name = format!("pod{name}-{namespace}");
                    cluster.snapshot.remove_pod(&(format!("n{namespace}").into(), name.as_str().into()));
                    lists.pods.remove(&name);
                },
                Step::Namespace(at, labels) => {
                    let name = format!("n{at}");
                    let labels: Option<StringMap> = labels.map(|it| [("app", app(it))].into_iter().collect());
                    cluster.snapshot.set_namespace(&name.as_str().into(), labels.as_ref());
                    lists.namespaces.remove(&name);
                    if let Some(labels) = labels {
                        lists.namespaces.insert(name, labels);
                    }
                }
                Step::Check { labels, namespace, spec } => {
                    let pod = pod("new", labels, namespace, false, &spec);
                    let cycle = Cycle::prepare(&cluster, &pod, &mut relations, &CycleArgs::default(), true).unwrap();
                    let (reasons, scores) = verdicts(&InterPodAffinity, &cluster.snapshot, &cycle);
                    let expected = |why: &dyn Fn(&Node) -> Option<&'static str>| {
                        let nodes = lists.nodes.iter();
                        let failing = nodes.filter_map(|(name, node)| Some((name.clone(), why(node)?.to_owned())));
                        failing.collect::<BTreeMap<_, _>>()
                    };
                    prop_assert_eq!(reasons, expected(&|node| lists.affinity(&pod, node)));
                    let affinity = lists.affinity_scores(&pod);
                    match scores {
                        Some(scores) => prop_assert_eq!(scores, affinity),
                        None => prop_assert!(affinity.values().all(|score| *score == 0)),
                    }
                    let (reasons, scores) = verdicts(&PodTopologySpread::default(), &cluster.snapshot, &cycle);
                    prop_assert_eq!(reasons, expected(&|node| lists.spread(&pod, node)));
                    if let Some(scores) = scores {
                        prop_assert_eq!(scores, lists.spread_scores(&pod));
                    } else {
                        prop_assert!(pod.shape.spread.iter().all(|it| it.hard));
                    }
                }
            }
        }
    }
}

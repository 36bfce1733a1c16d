//! PodTopologySpread: pods like the new one are spread over topology domains, by
//! requirement (`DoNotSchedule`) or by preference (`ScheduleAnyway`).

use compact_str::CompactString;
use control_client::StringMap;

use super::{Cycle, CycleArgs, Influence, MAX_SCORE, Plugin, RejectedNodes};
use crate::bits::Bits;
use crate::catalog::{Catalog, Cluster};
use crate::event::{Event, Subject};
use crate::groups::PodSelector;
use crate::relations::{CountKey, Eligibility, NO_DOMAIN, Relations};
use crate::selector::{LabelSelector, Operator, Requirement};
use crate::snapshot::{Snapshot, Wake};
use crate::view::{Node, Pod, Spread};

const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

/// The raw score of a node without one of the labels.
const UNSCORED: i64 = -1;

#[derive(Debug, Default)]
pub(crate) struct PodTopologySpread {
    pub(crate) args: CycleArgs,
}

/// The constraints of a pod, and the counts that they refer to.
#[derive(Debug, Default)]
pub struct SpreadState {
    hard: Vec<Constraint>,
    soft: Vec<Constraint>,
    /// Whether nodes without one of the labels get no score.
    requires_all_keys: bool,
}

#[derive(Debug)]
struct Constraint {
    max_skew: i64,
    min_domains: usize,
    matches_pod: bool,
    is_hostname: bool,
    topology: usize,
    count: usize,
    domains: usize,
}

/// The constraints that a cluster has for pods without any (`defaultingType: System`).
pub(crate) fn system_defaults(selector: &LabelSelector) -> [Spread; 2] {
    [(HOSTNAME, 3), (ZONE, 5)].map(|(key, max_skew)| Spread {
        max_skew,
        topology_key: CompactString::const_new(key),
        hard: false,
        min_domains: 1,
        selector: selector.clone(),
        match_label_keys: Box::default(),
        honour_affinity: true,
        honour_taints: false,
    })
}

/// Returns the constraints for a pod without any: the default constraints of the profile,
/// for the pods of its services and controller.
fn default_constraints(
    pod: &Pod,
    catalog: &Catalog,
    args: &CycleArgs,
    scores: bool,
) -> Vec<Spread> {
    let matters = match &args.default_constraints {
        None => scores,
        Some(constraints) => constraints.iter().any(|it| it.hard || scores),
    };
    if !matters {
        return Vec::new();
    }
    let selector = default_selector(pod, catalog);
    if selector.is_everything() {
        return Vec::new();
    }
    match &args.default_constraints {
        None => system_defaults(&selector).into(),
        Some(constraints) => {
            let constraints = constraints.iter().cloned();
            let constraints = constraints.map(|it| Spread {
                selector: selector.clone(),
                ..it
            });
            constraints.collect()
        }
    }
}

/// Selects the pods that services and the pod's controller group it with; everything if
/// there is no such group.
fn default_selector(pod: &Pod, catalog: &Catalog) -> LabelSelector {
    let meta = &pod.metadata;
    let namespace = meta.namespace.as_str();
    let mut selector = LabelSelector::default();
    let has_all = |wanted: &StringMap| {
        let mut wanted = wanted.iter();
        wanted.all(|(key, value)| meta.labels.get(key) == Some(value))
    };
    if !catalog.services.is_empty() {
        let services = catalog.services.snapshot();
        for service in services.namespace(namespace) {
            // An absent selector selects no pods; an empty one selects all.
            let Some(wanted) = &service.spec.selector else {
                continue;
            };
            if has_all(wanted) {
                selector = selector.and(&LabelSelector::of_labels(wanted.iter()));
            }
        }
    }
    let Some(owner) = meta.controller() else {
        return selector;
    };
    let name = owner.name.as_str();
    let of_owner = match (owner.api_version.as_str(), owner.kind.as_str()) {
        ("v1", "ReplicationController") => {
            let owner = catalog.replication_controllers.get(namespace, name);
            owner.map(|it| {
                let labels = it.spec.selector.as_ref();
                LabelSelector::of_labels(labels.into_iter().flat_map(StringMap::iter))
            })
        }
        ("apps/v1", "ReplicaSet") => {
            let owner = catalog.replica_sets.get(namespace, name);
            owner.map(|it| it.spec.selector.clone())
        }
        ("apps/v1", "StatefulSet") => {
            let owner = catalog.stateful_sets.get(namespace, name);
            owner.map(|it| it.spec.selector.clone())
        }
        _ => None,
    };
    of_owner.map_or_else(|| selector.clone(), |of_owner| selector.and(&of_owner))
}

impl SpreadState {
    /// Brings the counts that a pod's constraints need up to date.
    pub fn prepare(
        snapshot: &Snapshot,
        pod: &Pod,
        catalog: &Catalog,
        relations: &mut Relations,
        args: &CycleArgs,
        scores: bool,
    ) -> Self {
        let shape = &pod.shape;
        let defaults = if shape.spread.is_empty() {
            default_constraints(pod, catalog, args, scores)
        } else {
            Vec::new()
        };
        let is_own = !shape.spread.is_empty();
        let spread = if is_own { &*shape.spread } else { &*defaults };
        let mut state = Self {
            requires_all_keys: is_own || args.default_constraints.is_some(),
            ..Self::default()
        };
        for hard in [true, false].into_iter().filter(|hard| *hard || scores) {
            let same = || spread.iter().filter(|spread| spread.hard == hard);
            let keys: Box<[CompactString]> = if hard || state.requires_all_keys {
                same().map(|spread| spread.topology_key.clone()).collect()
            } else {
                Box::default()
            };
            for spread in same() {
                let constraint = Constraint::prepare(snapshot, pod, relations, spread, &keys);
                let constraints = if hard {
                    &mut state.hard
                } else {
                    &mut state.soft
                };
                constraints.push(constraint);
            }
        }
        state
    }
}

/// The pods that a constraint of `pod` counts.
fn selector_for(spread: &Spread, pod: &Pod) -> LabelSelector {
    let mut selector = spread.selector.clone();
    for key in &spread.match_label_keys {
        if let Some(value) = pod.metadata.labels.get(key) {
            selector = selector.with(Requirement {
                key: key.clone(),
                operator: Operator::In([value.into()].into()),
            });
        }
    }
    selector
}

impl Constraint {
    fn prepare(
        snapshot: &Snapshot,
        pod: &Pod,
        relations: &mut Relations,
        spread: &Spread,
        keys: &[CompactString],
    ) -> Self {
        let meta = &pod.metadata;
        let selector = selector_for(spread, pod);
        let matches_pod = selector.matches(&meta.labels);
        // Upstream counts no pods for a selector without requirements.
        let counted = if selector.is_everything() {
            LabelSelector::nothing()
        } else {
            selector
        };
        let topology = relations.topology(&spread.topology_key, snapshot);
        let key = CountKey {
            selectors: [PodSelector::in_namespace(&meta.namespace, counted)].into(),
            terminating: false,
        };
        let count = relations.count(key, snapshot);
        let eligibility = Eligibility::Spread {
            shape: pod.shape.clone(),
            keys: keys.into(),
            honour_affinity: spread.honour_affinity,
            honour_taints: spread.honour_taints,
        };
        let domains = relations.domain_counts(count, topology, eligibility, snapshot);
        Self {
            max_skew: i64::from(spread.max_skew),
            min_domains: usize::try_from(spread.min_domains).unwrap_or(0),
            matches_pod,
            is_hostname: spread.topology_key == HOSTNAME,
            topology,
            count,
            domains,
        }
    }
}

impl Plugin for PodTopologySpread {
    fn name(&self) -> &'static str {
        "PodTopologySpread"
    }

    fn filter_cycle(&self, cycle: &Cycle<'_>, nodes: &mut Bits, rejected: &mut RejectedNodes) {
        for constraint in &cycle.spread.hard {
            let relations = cycle.relations;
            let (Some(topology), Some(counts)) = (
                relations.get_topology(constraint.topology),
                relations.get_domains(constraint.domains),
            ) else {
                continue;
            };
            let (domains, fewest) = counts.fewest();
            let fewest = if domains < constraint.min_domains.max(1) {
                0
            } else {
                fewest
            };
            let most = constraint.max_skew + fewest - i64::from(constraint.matches_pod);
            let (mut unlabelled, mut skewed) = (Bits::new(), Bits::new());
            for at in nodes.iter() {
                let domain = topology.domain(at);
                if domain == NO_DOMAIN {
                    unlabelled.insert(at);
                } else if counts.pods(domain) > most {
                    skewed.insert(at);
                }
            }
            nodes.subtract(&unlabelled);
            nodes.subtract(&skewed);
            rejected.add(
                &unlabelled,
                "node(s) didn't match pod topology spread constraints (missing required label)",
                false,
            );
            rejected.add(
                &skewed,
                "node(s) didn't match pod topology spread constraints",
                true,
            );
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "as upstream, counts are small")]
    #[expect(clippy::cast_possible_truncation, reason = "as upstream")]
    fn score_cycle(&self, cycle: &Cycle<'_>, nodes: &Bits, scores: &mut [i64]) -> bool {
        let state = &cycle.spread;
        if state.soft.is_empty() {
            return false;
        }
        let relations = cycle.relations;
        let parts: Vec<_> = state
            .soft
            .iter()
            .filter_map(|constraint| {
                Some((
                    constraint,
                    relations.get_topology(constraint.topology)?,
                    relations.get_count(constraint.count)?,
                    relations.get_domains(constraint.domains)?,
                ))
            })
            .collect();
        let mut scored = nodes.clone();
        if state.requires_all_keys {
            for (_, topology, ..) in &parts {
                let unlabelled = |at: &usize| topology.domain(*at) == NO_DOMAIN;
                let unlabelled: Bits = nodes.iter().filter(unlabelled).collect();
                scored.subtract(&unlabelled);
            }
        }
        let mut sums = vec![0f64; scores.len()];
        for (constraint, topology, count, domains) in parts {
            let size = if constraint.is_hostname {
                scored.count()
            } else {
                // Nodes without the label are one domain more.
                let mut present = Bits::new();
                for at in scored.iter() {
                    match topology.domain(at) {
                        NO_DOMAIN => present.insert(topology.len()),
                        domain => present.insert(domain as usize),
                    }
                }
                present.count()
            };
            let weight = ((size + 2) as f64).ln();
            for at in scored.iter() {
                let domain = topology.domain(at);
                if domain == NO_DOMAIN {
                    continue;
                }
                let pods = if constraint.is_hostname {
                    i64::from(count.on(at))
                } else {
                    domains.pods(domain)
                };
                if let Some(sum) = sums.get_mut(at) {
                    *sum += pods as f64 * weight + (constraint.max_skew - 1) as f64;
                }
            }
        }
        for at in nodes.iter() {
            if let Some(score) = scores.get_mut(at) {
                let sum = sums.get(at).map_or(0, |sum| sum.round() as i64);
                *score = if scored.contains(at) { sum } else { UNSCORED };
            }
        }
        true
    }

    fn normalize_cycle(&self, nodes: &Bits, scores: &mut [i64]) {
        let (mut least, mut most) = (i64::MAX, 0);
        for at in nodes.iter() {
            let sum = scores.get(at).copied().unwrap_or(UNSCORED);
            if sum != UNSCORED {
                least = least.min(sum);
                most = most.max(sum);
            }
        }
        for at in nodes.iter() {
            let Some(score) = scores.get_mut(at) else {
                continue;
            };
            *score = if *score == UNSCORED {
                0
            } else if most == 0 {
                MAX_SCORE
            } else {
                MAX_SCORE * (most + least - *score) / most
            };
        }
    }

    fn influence(&self, cycle: &Cycle<'_>) -> Influence {
        if cycle.spread.hard.is_empty() {
            Influence::None
        } else {
            Influence::Any
        }
    }

    fn wakes(&self) -> Wake {
        Wake::NODE_ADDED
            .and(Wake::NODE_REMOVED)
            .and(Wake::NODE_LABELS)
            .and(Wake::NODE_TAINTS)
            .and(Wake::POD_ADDED)
            .and(Wake::POD_CHANGED)
            .and(Wake::POD_REMOVED)
            .and(Wake::POD_ITSELF)
    }

    fn hint(&self, cluster: &Cluster, pod: &Pod, event: &Event<'_>) -> bool {
        let defaults = if pod.shape.spread.is_empty() {
            default_constraints(pod, &cluster.catalog, &self.args, false)
        } else {
            Vec::new()
        };
        let constraints = pod.shape.spread.iter().chain(&defaults);
        let hard: Vec<&Spread> = constraints.filter(|it| it.hard).collect();
        match event.subject {
            Subject::Pod { old, new } => {
                let is_near = |it: &Pod| it.metadata.namespace == pod.metadata.namespace;
                if old.into_iter().chain(new).any(|it| !is_near(it)) {
                    return false;
                }
                // A pod that is being deleted does not count any more.
                let counts = |it: Option<&Pod>, selector: &LabelSelector| {
                    it.is_some_and(|it| {
                        let meta = &it.metadata;
                        selector.matches(&meta.labels) && (new.is_none() || !meta.is_terminating())
                    })
                };
                let mut selectors = hard.iter().map(|it| selector_for(it, pod));
                selectors.any(|it| counts(old, &it) != counts(new, &it))
            }
            Subject::Itself { old, new } => {
                let mut hard = hard.into_iter();
                new.has_other_tolerations(old) && hard.clone().any(|it| it.honour_taints)
                    || old.metadata.labels != new.metadata.labels
                        && hard.any(|it| {
                            let selector = selector_for(it, new);
                            selector.matches(&old.metadata.labels)
                                != selector.matches(&new.metadata.labels)
                        })
            }
            Subject::Node { old, new } => {
                let labels =
                    |node: &Node, key: &str| node.metadata.labels.get(key).map(str::to_owned);
                let has_all = |node: &Node| {
                    let mut keys = hard.iter().map(|it| &it.topology_key);
                    keys.all(|key| node.metadata.labels.contains_key(key))
                };
                match (old, new) {
                    (Some(old), Some(new)) => {
                        let moved = || {
                            let mut keys = hard.iter().map(|it| &it.topology_key);
                            keys.any(|key| labels(old, key) != labels(new, key))
                        };
                        has_all(old) != has_all(new)
                            || has_all(new) && (moved() || old.taints != new.taints)
                    }
                    (one, other) => one.or(other).is_some_and(has_all),
                }
            }
            Subject::Object(_) | Subject::Gang { .. } | Subject::Other => true,
        }
    }
}

//! The topology spread constraints of a pod.

use compact_str::CompactString;
use control_client::StringMap;

use super::args::CycleArgs;
use crate::catalog::Catalog;
use crate::groups::PodSelector;
use crate::relations::{CountKey, Eligibility, Relations};
use crate::selector::{LabelSelector, Operator, Requirement};
use crate::snapshot::Snapshot;
use crate::view::{Pod, Spread};

const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

/// The constraints of a pod, and the counts that they refer to.
#[derive(Debug, Default)]
pub struct SpreadState {
    pub(super) hard: Vec<Constraint>,
    pub(super) soft: Vec<Constraint>,
    /// Whether nodes without one of the labels get no score.
    pub(super) requires_all_keys: bool,
}

/// One constraint, and the counts that it refers to.
#[derive(Debug)]
pub(super) struct Constraint {
    pub(super) max_skew: i64,
    pub(super) min_domains: usize,
    pub(super) matches_pod: bool,
    pub(super) is_hostname: bool,
    pub(super) topology: usize,
    pub(super) count: usize,
    pub(super) domains: usize,
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
pub(super) fn default_constraints(
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
pub(super) fn selector_for(spread: &Spread, pod: &Pod) -> LabelSelector {
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

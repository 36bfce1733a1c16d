//! PodTopologySpread: pods like the new one are spread over topology domains, by
//! requirement (`DoNotSchedule`) or by preference (`ScheduleAnyway`).

use super::args::CycleArgs;
use super::spread_state::{default_constraints, selector_for};
use super::{Cycle, Influence, MAX_SCORE, Plugin, RejectedNodes};
use crate::bits::Bits;
use crate::cluster::Cluster;
use crate::event::{Event, Subject};
use crate::relations::NO_DOMAIN;
use crate::selector::LabelSelector;
use crate::snapshot::Wake;
use crate::view::{Node, Pod, Spread};

/// The raw score of a node without one of the labels.
const UNSCORED: i64 = -1;

#[derive(Debug, Default)]
pub(crate) struct PodTopologySpread {
    pub(crate) args: CycleArgs,
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

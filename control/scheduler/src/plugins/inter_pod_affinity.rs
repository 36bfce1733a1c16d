//! InterPodAffinity: pods run near others or away from them, by requirement or by
//! preference; terms of placed pods that match the new one count as well.

use super::affinity_state::DomainTerm;
use super::{Cycle, Influence, MAX_SCORE, Plugin, RejectedNodes};
use crate::bits::Bits;
use crate::cluster::Cluster;
use crate::event::{Event, Subject};
use crate::groups::PodSelector;
use crate::relations::{DomainCounts, NO_DOMAIN, Relations, TermCounts};
use crate::snapshot::Wake;
use crate::view::{Node, Pod, PodTerm};

pub(super) struct InterPodAffinity;

/// Pods in the domain of a node; `None` without the label.
fn pods_near(relations: &Relations, term: DomainTerm, at: usize) -> Option<i64> {
    let domain = relations.get_topology(term.topology)?.domain(at);
    if domain == NO_DOMAIN {
        return None;
    }
    Some(relations.get_domains(term.domains)?.pods(domain))
}

impl Plugin for InterPodAffinity {
    fn name(&self) -> &'static str {
        "InterPodAffinity"
    }

    fn filter_cycle(&self, cycle: &Cycle<'_>, nodes: &mut Bits, rejected: &mut RejectedNodes) {
        let (state, relations) = (&cycle.affinity, cycle.relations);
        if !state.near.is_empty() {
            let total = |term: &DomainTerm| {
                relations
                    .get_domains(term.domains)
                    .map_or(0, DomainCounts::total)
            };
            // The first pod of a group that wants to be together may go anywhere.
            let is_first = state.matches_itself && state.near.iter().all(|term| total(term) == 0);
            let fails = |at: &usize| {
                let mut pods = state
                    .near
                    .iter()
                    .map(|term| pods_near(relations, *term, *at));
                !pods.all(|pods| pods.is_some_and(|pods| pods > 0 || is_first))
            };
            let failing: Bits = nodes.iter().filter(fails).collect();
            nodes.subtract(&failing);
            rejected.add(&failing, "node(s) didn't match pod affinity rules", false);
        }
        if !state.away.is_empty() {
            let fails = |at: &usize| {
                let mut pods = state
                    .away
                    .iter()
                    .map(|term| pods_near(relations, *term, *at));
                pods.any(|pods| pods.is_some_and(|pods| pods > 0))
            };
            let failing: Bits = nodes.iter().filter(fails).collect();
            nodes.subtract(&failing);
            let reason = "node(s) didn't match pod anti-affinity rules";
            rejected.add(&failing, reason, true);
        }
        let placed = state.placed.and_then(|placed| relations.get_terms(placed));
        let mut failing = Bits::new();
        for (topology, domains) in placed.into_iter().flat_map(TermCounts::topologies) {
            let Some(topology) = relations.get_topology(topology) else {
                continue;
            };
            if domains.iter().all(|(excluding, _)| *excluding == 0) {
                continue;
            }
            let excluded = |at: &usize| {
                let domain = domains.get(topology.domain(*at) as usize);
                domain.is_some_and(|(excluding, _)| *excluding > 0)
            };
            failing.union(&nodes.iter().filter(excluded).collect());
        }
        nodes.subtract(&failing);
        let reason = "node(s) didn't satisfy existing pods anti-affinity rules";
        rejected.add(&failing, reason, true);
    }

    fn score_cycle(&self, cycle: &Cycle<'_>, nodes: &Bits, scores: &mut [i64]) -> bool {
        let (state, relations) = (&cycle.affinity, cycle.relations);
        let placed = state.placed.and_then(|placed| relations.get_terms(placed));
        if state.preferred.is_empty() && (placed.is_none() || state.ignores_placed) {
            return false;
        }
        scores.fill(0);
        for (weight, term) in &state.preferred {
            for at in nodes.iter() {
                if let (Some(pods), Some(score)) =
                    (pods_near(relations, *term, at), scores.get_mut(at))
                {
                    *score += weight * pods;
                }
            }
        }
        for (topology, domains) in placed.into_iter().flat_map(TermCounts::topologies) {
            let Some(topology) = relations.get_topology(topology) else {
                continue;
            };
            if domains.iter().all(|(_, weight)| *weight == 0) {
                continue;
            }
            for at in nodes.iter() {
                let domain = domains.get(topology.domain(at) as usize);
                if let (Some((_, weight)), Some(score)) = (domain, scores.get_mut(at)) {
                    *score += weight;
                }
            }
        }
        true
    }

    #[expect(clippy::cast_precision_loss, reason = "as upstream, sums are small")]
    #[expect(clippy::cast_possible_truncation, reason = "at most the best score")]
    fn normalize_cycle(&self, nodes: &Bits, scores: &mut [i64]) {
        let sums = || nodes.iter().filter_map(|at| scores.get(at)).copied();
        let (least, most) = (sums().min().unwrap_or(0), sums().max().unwrap_or(0));
        let range = most - least;
        for at in nodes.iter() {
            if let Some(score) = scores.get_mut(at) {
                *score = if range > 0 {
                    (MAX_SCORE as f64 * ((*score - least) as f64 / range as f64)) as i64
                } else {
                    0
                };
            }
        }
    }

    fn influence(&self, cycle: &Cycle<'_>) -> Influence {
        let (state, relations) = (&cycle.affinity, cycle.relations);
        let placed = state.placed.and_then(|placed| relations.get_terms(placed));
        let mut placed = placed.into_iter().flat_map(TermCounts::topologies);
        let excludes = |domains: &[(i64, i64)]| domains.iter().any(|(excluding, _)| *excluding > 0);
        let has_terms = !state.near.is_empty() || !state.away.is_empty();
        if has_terms || placed.any(|(_, domains)| excludes(domains)) {
            Influence::Any
        } else {
            Influence::None
        }
    }

    fn wakes(&self) -> Wake {
        Wake::NODE_ADDED
            .and(Wake::NODE_LABELS)
            .and(Wake::POD_ADDED)
            .and(Wake::POD_CHANGED)
            .and(Wake::POD_REMOVED)
            .and(Wake::NAMESPACE_LABELS)
            .and(Wake::POD_ITSELF)
    }

    fn hint(&self, cluster: &Cluster, pod: &Pod, event: &Event<'_>) -> bool {
        let shape = &pod.shape;
        let matches_all = |terms: &[PodTerm], owner: &Pod, other: &Pod| {
            let namespaces = cluster.snapshot.namespaces();
            let meta = &other.metadata;
            let matches = |term: &PodTerm| {
                let selector = PodSelector::of_term(term, &owner.metadata.namespace);
                selector.matches(&meta.namespace, &meta.labels, namespaces)
            };
            !terms.is_empty() && terms.iter().all(matches)
        };
        match event.subject {
            Subject::Pod {
                old: Some(old),
                new: Some(new),
            } => {
                let (near, away) = (&shape.affinity, &shape.anti_affinity);
                !matches_all(near, pod, old) && matches_all(near, pod, new)
                    || matches_all(away, pod, old) && !matches_all(away, pod, new)
            }
            Subject::Pod { new: Some(new), .. } => matches_all(&shape.affinity, pod, new),
            Subject::Pod { old: Some(old), .. } => {
                matches_all(&shape.anti_affinity, pod, old)
                    || matches_all(&old.shape.anti_affinity, old, pod)
            }
            Subject::Itself { old, new } => old.metadata.labels != new.metadata.labels,
            Subject::Node {
                old,
                new: Some(new),
            } => {
                let value = |node: &'_ Node, term: &PodTerm| {
                    node.metadata
                        .labels
                        .get(&term.topology_key)
                        .map(str::to_owned)
                };
                let mut near = shape.affinity.iter();
                let mut away = shape.anti_affinity.iter();
                match old {
                    None => near.any(|it| value(new, it).is_some()) || away.next().is_some(),
                    Some(old) => {
                        near.any(|it| value(new, it).is_some() && value(old, it) != value(new, it))
                            || away.any(|it| {
                                value(old, it).is_some() && value(old, it) != value(new, it)
                            })
                    }
                }
            }
            Subject::Pod { .. }
            | Subject::Node { .. }
            | Subject::Object(_)
            | Subject::Gang { .. }
            | Subject::Other => true,
        }
    }
}

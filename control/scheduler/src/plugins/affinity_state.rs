//! The affinity terms of a pod.

use super::args::CycleArgs;
use crate::groups::PodSelector;
use crate::relations::{CountKey, Eligibility, Relations};
use crate::snapshot::Snapshot;
use crate::view::{Pod, PodTerm};

/// The terms of a pod, and the counts that they refer to.
#[derive(Debug, Default)]
pub struct AffinityState {
    /// Pods that match all terms, by the domains of each.
    pub(super) near: Vec<DomainTerm>,
    /// Whether the pod matches all its own affinity terms.
    pub(super) matches_itself: bool,
    pub(super) away: Vec<DomainTerm>,
    pub(super) preferred: Vec<(i64, DomainTerm)>,
    /// Terms of placed pods that select the pod.
    pub(super) placed: Option<usize>,
    /// Whether preferences of placed pods do not count.
    pub(super) ignores_placed: bool,
}

/// A term, by the counts that it refers to.
#[derive(Clone, Copy, Debug)]
pub(super) struct DomainTerm {
    pub(super) topology: usize,
    pub(super) domains: usize,
}

impl AffinityState {
    /// Brings the counts that a pod's terms need up to date.
    pub fn prepare(
        snapshot: &Snapshot,
        pod: &Pod,
        relations: &mut Relations,
        args: &CycleArgs,
        scores: bool,
    ) -> Self {
        let meta = &pod.metadata;
        let shape = &pod.shape;
        let select = |term: &PodTerm| PodSelector::of_term(term, &meta.namespace);
        let mut count = |term: &PodTerm, selectors: Box<[PodSelector]>| {
            let key = CountKey {
                selectors,
                terminating: true,
            };
            let topology = relations.topology(&term.topology_key, snapshot);
            let count = relations.count(key, snapshot);
            let domains = relations.domain_counts(count, topology, Eligibility::All, snapshot);
            DomainTerm { topology, domains }
        };
        let all: Box<[PodSelector]> = shape.affinity.iter().map(select).collect();
        let matches_itself = all
            .iter()
            .all(|it| it.matches(&meta.namespace, &meta.labels, snapshot.namespaces()));
        let near = shape.affinity.iter();
        let near = near.map(|term| count(term, all.clone())).collect();
        let away = shape.anti_affinity.iter();
        let away = away
            .map(|term| count(term, [select(term)].into()))
            .collect();
        let preferred = shape.preferred_pods.iter();
        let preferred = preferred
            .filter(|_| scores)
            .map(|(weight, term)| (i64::from(*weight), count(term, [select(term)].into())))
            .collect();
        let weight = args.hard_pod_affinity_weight;
        let placed = relations.placed_terms(&meta.namespace, &meta.labels, weight, snapshot);
        Self {
            near,
            matches_itself,
            away,
            preferred,
            placed,
            ignores_placed: args.ignore_preferred_terms_of_existing_pods
                && shape.preferred_pods.is_empty(),
        }
    }
}

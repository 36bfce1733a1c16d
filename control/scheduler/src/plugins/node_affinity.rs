//! NodeAffinity: node selectors, required and preferred node affinity.

use super::{Plugin, Rejected, proportional};
use crate::bits::Bits;
use crate::selector::NodeTerm;
use crate::snapshot::{Snapshot, Wake};
use crate::view::Pod;

pub(super) struct NodeAffinity;

impl Plugin for NodeAffinity {
    fn name(&self) -> &'static str {
        "NodeAffinity"
    }

    /// A set of names (a daemon's pod) narrows the search: the other nodes are
    /// not said to fail the affinity.
    fn narrow(&self, snapshot: &Snapshot, pod: &Pod, nodes: &mut Bits, rejected: &mut Rejected) {
        let Some(terms) = &pod.shape.required_nodes else {
            return;
        };
        let names_one = |term: &NodeTerm| term.names.iter().any(|(only, _)| *only);
        if terms.is_empty() || !terms.iter().all(names_one) {
            return;
        }
        let named: Bits = terms
            .iter()
            .flat_map(|term| &term.names)
            .filter_map(|(_, name)| snapshot.place_of(name))
            .collect();
        let others = nodes.retain(&named);
        rejected.add(
            &others,
            "node(s) didn't satisfy plugin(s) [NodeAffinity]",
            false,
        );
    }

    fn filter(&self, snapshot: &Snapshot, pod: &Pod, nodes: &mut Bits, rejected: &mut Rejected) {
        let shape = &pod.shape;
        if shape.node_selector.is_empty() && shape.required_nodes.is_none() {
            return;
        }
        let mut fitting = snapshot.live().clone();
        for (key, value) in &shape.node_selector {
            match snapshot.labelled(key, value) {
                Some(with) => fitting.intersect(with),
                None => fitting = Bits::new(),
            }
        }
        if let Some(terms) = &shape.required_nodes {
            let mut any = Bits::new();
            for term in terms {
                any.union(&snapshot.matching_term(term));
            }
            fitting.intersect(&any);
        }
        let failing = nodes.retain(&fitting);
        rejected.add(
            &failing,
            "node(s) didn't match Pod's node affinity/selector",
            false,
        );
    }

    fn scores(&self, pod: &Pod) -> bool {
        !pod.shape.preferred_nodes.is_empty()
    }

    fn score(&self, snapshot: &Snapshot, pod: &Pod, nodes: &Bits, scores: &mut [i64]) {
        for at in nodes.iter() {
            if let Some(score) = scores.get_mut(at) {
                *score = 0;
            }
        }
        for (weight, term) in &pod.shape.preferred_nodes {
            let mut matching = snapshot.matching_term(term);
            matching.intersect(nodes);
            for at in matching.iter() {
                if let Some(score) = scores.get_mut(at) {
                    *score += i64::from(*weight);
                }
            }
        }
    }

    fn normalize(&self, nodes: &Bits, scores: &mut [i64]) {
        proportional(nodes, scores, false);
    }

    fn wakes(&self) -> Wake {
        Wake::NODE_ADDED.and(Wake::NODE_LABELS)
    }
}

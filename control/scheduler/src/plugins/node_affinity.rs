//! NodeAffinity: node selectors, required and preferred node affinity.

use super::{Cycle, Influence, Plugin, RejectedNodes, proportional};
use crate::bits::Bits;
use crate::cluster::Cluster;
use crate::eligible_nodes::{NODE_AFFINITY, matching_nodes, named_nodes};
use crate::event::{Event, Subject};
use crate::selector::NodeTerm;
use crate::snapshot::{Snapshot, Wake};
use crate::view::{Node, Pod, Shape};

/// With the node affinity that the profile adds to that of all pods.
#[derive(Debug, Default)]
pub(crate) struct NodeAffinity {
    /// One of the terms must match.
    pub(crate) added_required: Option<Box<[NodeTerm]>>,
    pub(crate) added_preferred: Box<[(i32, NodeTerm)]>,
}

/// Whether a node matches the node selector and the required node affinity of a pod.
fn matches(shape: &Shape, node: &Node) -> bool {
    let labels = &node.metadata.labels;
    let mut selector = shape.node_selector.iter();
    selector.all(|(key, value)| labels.get(key) == Some(value))
        && matches_one(shape.required_nodes.as_deref(), node)
}

fn matches_one(terms: Option<&[NodeTerm]>, node: &Node) -> bool {
    let meta = &node.metadata;
    terms.is_none_or(|terms| terms.iter().any(|it| it.matches(&meta.name, &meta.labels)))
}

impl Plugin for NodeAffinity {
    fn name(&self) -> &'static str {
        NODE_AFFINITY
    }

    /// A set of names (a daemon's pod) narrows the search: the other nodes are not
    /// reported as failing the affinity.
    fn narrow(
        &self,
        snapshot: &Snapshot,
        pod: &Pod,
        nodes: &mut Bits,
        rejected: &mut RejectedNodes,
    ) {
        let Some(names) = named_nodes(&pod.shape) else {
            return;
        };
        let named: Bits = names
            .into_iter()
            .filter_map(|name| snapshot.place_of(name))
            .collect();
        let others = nodes.retain(&named);
        rejected.add(
            &others,
            "node(s) didn't satisfy plugin(s) [NodeAffinity]",
            false,
        );
    }

    fn filter(
        &self,
        snapshot: &Snapshot,
        pod: &Pod,
        nodes: &mut Bits,
        rejected: &mut RejectedNodes,
    ) {
        if let Some(terms) = &self.added_required {
            let mut any = Bits::new();
            for term in terms {
                any.union(&snapshot.matching_term(term));
            }
            let failing = nodes.retain(&any);
            let reason = "node(s) didn't match scheduler-enforced node affinity";
            rejected.add(&failing, reason, false);
        }
        let Some(fitting) = matching_nodes(snapshot, &pod.shape) else {
            return;
        };
        let failing = nodes.retain(&fitting);
        rejected.add(
            &failing,
            "node(s) didn't match Pod's node affinity/selector",
            false,
        );
    }

    fn scores(&self, pod: &Pod) -> bool {
        !pod.shape.preferred_nodes.is_empty() || !self.added_preferred.is_empty()
    }

    fn score(&self, snapshot: &Snapshot, pod: &Pod, nodes: &Bits, scores: &mut [i64]) {
        for at in nodes.iter() {
            if let Some(score) = scores.get_mut(at) {
                *score = 0;
            }
        }
        let preferred = pod.shape.preferred_nodes.iter();
        for (weight, term) in preferred.chain(&self.added_preferred) {
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

    fn influence(&self, _: &Cycle<'_>) -> Influence {
        Influence::None
    }

    fn wakes(&self) -> Wake {
        Wake::NODE_ADDED.and(Wake::NODE_LABELS)
    }

    fn hint(&self, _: &Cluster, pod: &Pod, event: &Event<'_>) -> bool {
        match event.subject {
            Subject::Node {
                old,
                new: Some(new),
            } => {
                matches_one(self.added_required.as_deref(), new)
                    && matches(&pod.shape, new)
                    && !old.is_some_and(|old| matches(&pod.shape, old))
            }
            _ => true,
        }
    }
}

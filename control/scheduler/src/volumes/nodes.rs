//! Sets of nodes by the selectors of volumes, classes and capacities.
//!
//! Most selectors name one value of one label: then the set is borrowed from the snapshot.
//! A class of local volumes has a group of volumes, and so such a selector, for each node.

use std::borrow::Cow;

use crate::bits::Bits;
use crate::selector::{LabelSelector, NodeTerm, Operator, Requirement};
use crate::snapshot::Snapshot;
use crate::view::{TopologyLabel, TopologyTerm};

/// Nodes with a label that meets a requirement.
fn meeting_one<'a>(snapshot: &'a Snapshot, requirement: &Requirement) -> Cow<'a, Bits> {
    let known = match &requirement.operator {
        Operator::In(values) => match &**values {
            [value] => snapshot.labelled(&requirement.key, value),
            _ => return Cow::Owned(snapshot.matching(requirement)),
        },
        Operator::Exists => snapshot.with_label_key(&requirement.key),
        _ => return Cow::Owned(snapshot.matching(requirement)),
    };
    known.map_or_else(|| Cow::Owned(Bits::new()), Cow::Borrowed)
}

/// Returns nodes with labels that meet all requirements. It starts with the nodes of the
/// first requirement, which for a host name is one node, not with all nodes.
fn meeting<'a>(snapshot: &'a Snapshot, requirements: &[Requirement]) -> Cow<'a, Bits> {
    let mut requirements = requirements.iter();
    let Some(first) = requirements.next() else {
        return Cow::Borrowed(snapshot.live());
    };
    let mut nodes = meeting_one(snapshot, first);
    for requirement in requirements {
        if nodes.is_empty() {
            break;
        }
        nodes
            .to_mut()
            .intersect(&meeting_one(snapshot, requirement));
    }
    nodes
}

/// Returns nodes that can reach a volume with this node affinity. As in kube-scheduler
/// only labels of nodes count: a field matches as if the node had no name.
pub(super) fn reaching<'a>(snapshot: &'a Snapshot, affinity: Option<&[NodeTerm]>) -> Cow<'a, Bits> {
    let Some(terms) = affinity else {
        return Cow::Borrowed(snapshot.live());
    };
    let mut terms = terms
        .iter()
        .filter(|term| term.valid && term.names.iter().all(|(only, _)| !only));
    let Some(first) = terms.next() else {
        return Cow::Owned(Bits::new());
    };
    let mut nodes = meeting(snapshot, &first.labels);
    for term in terms {
        nodes.to_mut().union(&meeting(snapshot, &term.labels));
    }
    nodes
}

/// Nodes whose labels a selector matches.
pub(super) fn selected<'a>(snapshot: &'a Snapshot, selector: &LabelSelector) -> Cow<'a, Bits> {
    match selector.requirements() {
        Some(requirements) => meeting(snapshot, requirements),
        None => Cow::Owned(Bits::new()),
    }
}

/// Nodes for which volumes of a class with these topologies can be made.
pub(super) fn allowed<'a>(snapshot: &'a Snapshot, topologies: &[TopologyTerm]) -> Cow<'a, Bits> {
    if topologies.is_empty() {
        return Cow::Borrowed(snapshot.live());
    }
    let with = |label: &TopologyLabel| {
        let mut nodes = Bits::new();
        for value in &label.values {
            if let Some(labelled) = snapshot.labelled(&label.key, value) {
                nodes.union(labelled);
            }
        }
        nodes
    };
    let mut nodes = Bits::new();
    for term in topologies {
        let mut labels = term.match_label_expressions.iter();
        // An empty term allows nothing.
        let Some(first) = labels.next() else {
            continue;
        };
        let mut of_term = with(first);
        for label in labels {
            of_term.intersect(&with(label));
        }
        nodes.union(&of_term);
    }
    Cow::Owned(nodes)
}

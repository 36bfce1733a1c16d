//! The nodes that the node affinity and the tolerations of a pod leave it.

use compact_str::CompactString;

use crate::bits::Bits;
use crate::snapshot::{Snapshot, Wake};
use crate::unmet::UnmetReason;
use crate::view::{Pod, Shape, Taint};

/// The plugin of node selectors and node affinity.
pub(crate) const NODE_AFFINITY: &str = "NodeAffinity";

/// The nodes to which required node affinity confines a pod by their names; `None`: a term
/// names none, so that all are eligible.
pub(crate) fn named_nodes(shape: &Shape) -> Option<Vec<&CompactString>> {
    let terms = shape.required_nodes.as_ref()?;
    let mut all = Vec::new();
    for term in terms {
        let mut names = term.names.iter().filter(|(only, _)| *only);
        let (_, first) = names.next()?;
        // All fields of a term must match.
        if names.all(|(_, other)| other == first) {
            all.push(first);
        }
    }
    (!terms.is_empty()).then_some(all)
}

/// Checks that the pod does not demand several names of one node.
///
/// # Errors
/// Terms that no node can match.
pub(crate) fn check_terms(pod: &Pod) -> Result<(), UnmetReason> {
    match named_nodes(&pod.shape) {
        Some(names) if names.is_empty() => Err(UnmetReason {
            plugin: NODE_AFFINITY,
            reason: "pod affinity terms conflict".to_owned(),
            on_each_node: false,
            resolvable: false,
            wake: Wake::POD_ITSELF,
        }),
        _ => Ok(()),
    }
}

/// The nodes that node selector and required node affinity match; `None`: all.
pub(crate) fn matching_nodes(snapshot: &Snapshot, shape: &Shape) -> Option<Bits> {
    if shape.node_selector.is_empty() && shape.required_nodes.is_none() {
        return None;
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
    Some(fitting)
}

/// Whether a pod tolerates a taint.
pub(crate) fn tolerated(shape: &Shape, taint: &Taint) -> bool {
    shape
        .tolerations
        .iter()
        .any(|toleration| toleration.tolerates(taint))
}

/// Nodes with taints (`NoSchedule`, `NoExecute`) that are not tolerated.
pub(crate) fn untolerated_nodes(snapshot: &Snapshot, shape: &Shape) -> Bits {
    let mut untolerated = Bits::new();
    for (taint, with) in snapshot.taints() {
        if taint.effect != "PreferNoSchedule" && !tolerated(shape, taint) {
            untolerated.union(with);
        }
    }
    untolerated
}

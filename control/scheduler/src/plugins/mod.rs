//! What decides: one plugin per file, all of one shape, named and weighted as
//! in kube-scheduler's default profile.
//!
//! A plugin works on a *set* of nodes at once. Filters run in order, each on
//! the nodes that those before it left over, so that a node is reported with
//! the reasons of the first filter that rejects it.

use std::borrow::Cow;

use crate::bits::Bits;
use crate::snapshot::{Snapshot, Wake};
use crate::view::Pod;

mod balanced_allocation;
mod image_locality;
mod node_affinity;
mod node_name;
mod node_ports;
mod node_resources_fit;
mod node_unschedulable;
mod taint_toleration;
mod volume_binding;

/// The best score that a plugin gives a node.
pub const MAX_SCORE: i64 = 100;

/// Filters and scores nodes for a pod.
pub trait Plugin: Send + Sync {
    /// Its name in kube-scheduler.
    fn name(&self) -> &'static str;

    /// Narrows the search to the nodes that can be named beforehand, before
    /// any filter runs.
    fn narrow(&self, _: &Snapshot, _: &Pod, _nodes: &mut Bits, _rejected: &mut Rejected) {}

    /// Takes the nodes out of `nodes` that the pod cannot run on, and tells
    /// `rejected` why.
    fn filter(&self, _: &Snapshot, _: &Pod, _nodes: &mut Bits, _rejected: &mut Rejected) {}

    /// Whether it has an opinion on where this pod is better off.
    fn scores(&self, _: &Pod) -> bool {
        false
    }

    /// Writes the raw score of each of `nodes` to its place in `scores`. Must
    /// depend on nothing but the pod and that node, unless `global`.
    fn score(&self, _: &Snapshot, _: &Pod, _nodes: &Bits, _scores: &mut [i64]) {}

    /// Whether a raw score depends on other nodes, too.
    fn global(&self) -> bool {
        false
    }

    /// Brings raw scores of `nodes` to 0 ..= [`MAX_SCORE`].
    fn normalize(&self, _nodes: &Bits, _scores: &mut [i64]) {}

    /// What may make a node that it rejected fit.
    fn wakes(&self) -> Wake {
        Wake::NONE
    }
}

/// The default profile, in order, with weights.
#[must_use]
pub fn default_profile() -> Vec<(Box<dyn Plugin>, i64)> {
    vec![
        (Box::new(node_unschedulable::NodeUnschedulable), 0),
        (Box::new(node_name::NodeName), 0),
        (Box::new(taint_toleration::TaintToleration), 3),
        (Box::new(node_affinity::NodeAffinity), 2),
        (Box::new(node_ports::NodePorts), 0),
        (Box::new(node_resources_fit::NodeResourcesFit), 1),
        (Box::new(volume_binding::VolumeBinding), 0),
        (Box::new(balanced_allocation::BalancedAllocation), 1),
        (Box::new(image_locality::ImageLocality), 1),
    ]
}

/// Nodes that were rejected, by reason.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rejected {
    pub(crate) rejections: Vec<Rejection>,
}

/// Nodes that one plugin rejected for one reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Rejection {
    /// Index of the plugin in the profile.
    pub(crate) plugin: usize,
    /// As people read it.
    pub(crate) reason: Cow<'static, str>,
    /// Which nodes.
    pub(crate) nodes: Bits,
    /// Whether evicting pods could help.
    pub(crate) resolvable: bool,
}

impl Rejected {
    /// `nodes` are rejected for `reason`. With `resolvable`, evicting other
    /// pods could help.
    pub fn add(&mut self, nodes: &Bits, reason: impl Into<Cow<'static, str>>, resolvable: bool) {
        self.add_for(usize::MAX, nodes, reason.into(), resolvable);
    }

    pub(crate) fn add_for(
        &mut self,
        plugin: usize,
        nodes: &Bits,
        reason: Cow<'static, str>,
        resolvable: bool,
    ) {
        if nodes.is_empty() {
            return;
        }
        let known = self.rejections.iter_mut().find(|known| {
            known.plugin == plugin && known.resolvable == resolvable && known.reason == reason
        });
        match known {
            Some(known) => known.nodes.union(nodes),
            None => {
                self.rejections.push(Rejection {
                    plugin,
                    reason,
                    nodes: nodes.clone(),
                    resolvable,
                });
            }
        }
    }

    /// Takes over what `plugin` told.
    pub(crate) fn absorb(&mut self, plugin: usize, told: Self) {
        for rejection in told.rejections {
            self.add_for(
                plugin,
                &rejection.nodes,
                rejection.reason,
                rejection.resolvable,
            );
        }
    }

    /// Forgets what was said of `nodes`.
    pub(crate) fn forget(&mut self, nodes: &Bits) {
        for rejection in &mut self.rejections {
            rejection.nodes.subtract(nodes);
        }
        self.rejections
            .retain(|rejection| !rejection.nodes.is_empty());
    }
}

/// Scales scores so that the highest is [`MAX_SCORE`]; with `reverse`, so that
/// the highest is 0 and 0 is [`MAX_SCORE`].
fn proportional(nodes: &Bits, scores: &mut [i64], reverse: bool) {
    let highest = nodes
        .iter()
        .filter_map(|at| scores.get(at))
        .copied()
        .max()
        .unwrap_or(0)
        .max(0);
    for at in nodes.iter() {
        if let Some(score) = scores.get_mut(at) {
            let scaled = if highest == 0 {
                0
            } else {
                MAX_SCORE * *score / highest
            };
            *score = if reverse { MAX_SCORE - scaled } else { scaled };
        }
    }
}

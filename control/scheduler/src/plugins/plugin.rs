//! The extension points of a plugin.

use super::cycle::Cycle;
use super::rejected::RejectedNodes;
use crate::bits::Bits;
use crate::cluster::Cluster;
use crate::event::Event;
use crate::snapshot::{Snapshot, Wake};
use crate::unmet::UnmetReason;
use crate::view::Pod;

/// Filters and scores nodes for a pod.
pub trait Plugin: Send + Sync {
    /// Its name in kube-scheduler.
    fn name(&self) -> &'static str;

    /// Whether the pod is to be tried at all (PreEnqueue).
    ///
    /// # Errors
    /// What it lacks. It is not tried before an event that the plugin waits for.
    fn pre_enqueue(&self, _: &Cluster, _: &Pod) -> Result<(), UnmetReason> {
        Ok(())
    }

    /// Decides whether the pod, which is already assumed on its node, may be bound
    /// (Permit). A waiting pod is decided again when another one is permitted.
    fn permit(&self, _: &Cluster, _: &Pod) -> Permission {
        Permission::Allowed
    }

    /// Narrows the search to the nodes that can be named beforehand, before
    /// any filter runs.
    fn narrow(&self, _: &Snapshot, _: &Pod, _nodes: &mut Bits, _rejected: &mut RejectedNodes) {}

    /// Takes the nodes out of `nodes` that the pod cannot run on, and tells
    /// `rejected` why.
    fn filter(&self, _: &Snapshot, _: &Pod, _nodes: &mut Bits, _rejected: &mut RejectedNodes) {}

    /// As [`Plugin::filter`], by more than the pod and single nodes: pods of other nodes,
    /// volumes, devices. Runs after all filters that look at single nodes.
    fn filter_cycle(&self, _: &Cycle<'_>, _nodes: &mut Bits, _rejected: &mut RejectedNodes) {}

    /// Writes the raw score of each of `nodes` by more than the pod and single nodes; whether
    /// it has an opinion.
    fn score_cycle(&self, _: &Cycle<'_>, _nodes: &Bits, _scores: &mut [i64]) -> bool {
        false
    }

    /// Brings raw scores of [`Plugin::score_cycle`] to 0 ..= [`MAX_SCORE`](super::MAX_SCORE).
    fn normalize_cycle(&self, _nodes: &Bits, _scores: &mut [i64]) {}

    /// Whether it has an opinion on where this pod is better off.
    fn scores(&self, _: &Pod) -> bool {
        false
    }

    /// Writes the raw score of each of `nodes` to its place in `scores`. Must
    /// depend on nothing but the pod and that node, unless `global`.
    fn score(&self, _: &Snapshot, _: &Pod, _nodes: &Bits, _scores: &mut [i64]) {}

    /// Returns whether a raw score also depends on other nodes.
    fn global(&self) -> bool {
        false
    }

    /// Brings raw scores of `nodes` to 0 ..= [`MAX_SCORE`](super::MAX_SCORE).
    fn normalize(&self, _nodes: &Bits, _scores: &mut [i64]) {}

    /// How the pods on a node influence whether it rejects the node for the cycle's pod. Must
    /// be overridden by a plugin that looks at pods for anything but volumes and devices.
    fn influence(&self, cycle: &Cycle<'_>) -> Influence {
        if cycle.pod.needs_volumes_or_devices() {
            Influence::Any
        } else {
            Influence::None
        }
    }

    /// Returns the events that may make a rejected node fit.
    fn wakes(&self) -> Wake {
        Wake::NONE
    }

    /// Whether an event of one of these kinds may make the very pod fit (a queueing hint).
    fn hint(&self, _: &Cluster, _: &Pod, _event: &Event<'_>) -> bool {
        true
    }
}

/// Whether a pod that has a node may be bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permission {
    /// It may.
    Allowed,
    /// It keeps its node, and may be bound later.
    Wait {
        /// The plugin.
        plugin: &'static str,
        /// How long. Then it gives the node back.
        within: std::time::Duration,
        /// The human-readable reason for waiting.
        message: &'static str,
    },
    /// It must not be bound, since an object that it refers to is invalid.
    Failed(String),
}

/// How the pods on a node influence a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Influence {
    /// Not at all.
    None,
    /// By their requests: the pod needs these amounts (`pods` for the number of pods),
    /// and the node has what its pods leave free.
    Resources(Vec<(String, i64)>),
    /// In other ways.
    Any,
}

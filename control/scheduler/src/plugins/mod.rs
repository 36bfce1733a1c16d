//! The plugins: one per file, all of one shape, named and weighted as in kube-scheduler's
//! default profile.
//!
//! A plugin works on a *set* of nodes at once. Filters run in order, each on the nodes
//! that its predecessors accepted, so that a node is reported with the reasons of the
//! first filter that rejects it.

use std::borrow::Cow;

use crate::bits::Bits;
use crate::catalog::Cluster;
use crate::event::Event;
use crate::relations::Relations;
use crate::reserve::Reservation;
use crate::snapshot::{Snapshot, Wake};
use crate::unmet::UnmetReason;
use crate::view::Pod;
use crate::{devices, volumes};

pub(crate) mod balanced_allocation;
mod image_locality;
mod inter_pod_affinity;
pub(crate) mod node_affinity;
mod node_declared_features;
mod node_name;
mod node_ports;
pub(crate) mod node_resources_fit;
mod node_unschedulable;
pub(crate) mod pod_topology_spread;
pub(crate) mod profile;
mod taint_toleration;

pub(crate) use self::inter_pod_affinity::AffinityState;
pub(crate) use self::node_affinity::matching_nodes;
pub(crate) use self::pod_topology_spread::SpreadState;
pub use self::profile::Profile;
pub(crate) use self::taint_toleration::untolerated_nodes;

/// The best score that a plugin gives a node.
pub const MAX_SCORE: i64 = 100;

/// Prepared state of plugins that depend on more than the pod and one node, for one
/// decision.
pub struct Cycle<'a> {
    /// The cluster.
    pub snapshot: &'a Snapshot,
    /// The pod that is to be placed.
    pub pod: &'a Pod,
    /// Counts of pods, up to date for the pod.
    pub relations: &'a Relations,
    /// The pod's topology spread constraints.
    pub spread: SpreadState,
    /// The pod's affinity terms, and those of placed pods that match it.
    pub affinity: AffinityState,
    /// The volumes of its claims.
    pub volumes: volumes::VolumeState,
    /// The devices of its claims.
    pub devices: devices::DeviceState<'a>,
}

/// Arguments of plugins that [`Cycle::prepare`] needs.
#[derive(Clone, Debug, PartialEq)]
pub struct CycleArgs {
    /// The weight of a required affinity term of a placed pod.
    pub hard_pod_affinity_weight: i32,
    /// Whether preferences of placed pods do not count for a pod without affinity terms.
    pub ignore_preferred_terms_of_existing_pods: bool,
    /// Topology spread constraints for pods without any; `None`: the built-in ones.
    pub default_constraints: Option<Vec<crate::view::Spread>>,
}

impl Default for CycleArgs {
    fn default() -> Self {
        Self {
            hard_pod_affinity_weight: 1,
            ignore_preferred_terms_of_existing_pods: false,
            default_constraints: None,
        }
    }
}

impl<'a> Cycle<'a> {
    /// Prepares the state of all plugins for a pod: for filters, and with `scores` also
    /// for scores.
    ///
    /// # Errors
    /// The requirement that no node can satisfy.
    pub fn prepare(
        cluster: &'a Cluster,
        pod: &'a Pod,
        relations: &'a mut Relations,
        args: &CycleArgs,
        scores: bool,
    ) -> Result<Self, UnmetReason> {
        let Cluster {
            snapshot,
            catalog,
            assumed,
            ..
        } = cluster;
        node_affinity::check_terms(pod)?;
        let volumes = volumes::VolumeState::prepare(snapshot, pod, catalog, &assumed.volumes)?;
        let devices = devices::DeviceState::prepare(snapshot, pod, catalog, &assumed.devices)?;
        relations.trim(snapshot);
        let spread = SpreadState::prepare(snapshot, pod, catalog, relations, args, scores);
        let affinity = AffinityState::prepare(snapshot, pod, relations, args, scores);
        Ok(Self {
            snapshot,
            pod,
            relations,
            spread,
            affinity,
            volumes,
            devices,
        })
    }

    /// Returns the reservation for the node at `place`.
    #[must_use]
    pub fn reserve(&self, place: usize) -> Reservation {
        Reservation {
            volumes: self.volumes.reserve(self.snapshot, place),
            devices: self.devices.reserve(self.snapshot, place),
        }
    }
}

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

    /// Brings raw scores of [`Plugin::score_cycle`] to 0 ..= [`MAX_SCORE`].
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

    /// Brings raw scores of `nodes` to 0 ..= [`MAX_SCORE`].
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

/// Rejected nodes by reason.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RejectedNodes {
    pub(crate) rejections: Vec<Rejection>,
}

/// Nodes that one plugin rejected for one reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Rejection {
    /// Index of the plugin in the profile.
    pub(crate) plugin: usize,
    /// As people read it.
    pub(crate) reason: Cow<'static, str>,
    /// The rejected nodes.
    pub(crate) nodes: Bits,
    /// Whether evicting pods could help.
    pub(crate) resolvable: bool,
}

impl RejectedNodes {
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

    /// Takes over what all plugins told.
    pub(crate) fn absorb_all(&mut self, told: Self) {
        for rejection in told.rejections {
            let Rejection {
                plugin,
                reason,
                nodes,
                resolvable,
            } = rejection;
            self.add_for(plugin, &nodes, reason, resolvable);
        }
    }

    /// Forgets the reasons of `nodes`.
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
pub(crate) fn proportional(nodes: &Bits, scores: &mut [i64], reverse: bool) {
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

#[cfg(test)]
#[path = "hints_tests.rs"]
mod hints_tests;
#[cfg(test)]
#[path = "pods_tests.rs"]
mod pods_tests;

//! The volumes of a pod in one scheduling cycle. A pod that lacks a volume stays Pending with
//! a message that names it. It is never placed against a constraint.

use std::borrow::Cow;

use super::binding::{BindingInputs, ClaimBindings};
use super::claims::VolumeClaims;
use super::limits::{AttachedVolumes, VolumeCounter};
use super::restrictions::disk_conflicts;
use super::zone::conflicting;
use super::{AssumedVolumes, VolumeIndex, VolumeReservation};
use crate::bits::Bits;
use crate::catalog::Catalog;
use crate::plugins::RejectedNodes;
use crate::snapshot::Snapshot;
use crate::unmet::UnmetReason;
use crate::view::Pod;

/// The volumes of a pod in one scheduling cycle.
#[derive(Debug, Default)]
pub struct VolumeState {
    pub(super) restrictions: Rejections,
    pub(super) limits: Rejections,
    pub(super) binding: Rejections,
    pub(super) zone: Rejections,
    /// Claims that wait for the pod.
    waiting: Option<Box<ClaimBindings>>,
}

/// Nodes that a plugin rejects. A node may be rejected for several reasons.
#[derive(Debug, Default)]
pub(super) struct Rejections {
    /// Nodes with a reason, and whether evicting pods could help.
    pub(super) rejected: Vec<(Bits, Cow<'static, str>, bool)>,
    /// Whether other pods on a node may be why it is rejected.
    pub(super) by_pods: bool,
}

impl VolumeState {
    /// Reads the claims of a pod.
    ///
    /// # Errors
    /// What it lacks.
    pub fn prepare(
        snapshot: &Snapshot,
        pod: &Pod,
        catalog: &Catalog,
        assumed: &AssumedVolumes,
    ) -> Result<Self, UnmetReason> {
        let mut state = Self::default();
        if pod.claims.is_empty() && pod.disks.is_empty() {
            return Ok(state);
        }
        let claims = VolumeClaims::read(snapshot, pod, catalog)?;
        state.restrict(snapshot, pod, &claims);
        // Without events, as offline, there is no index to follow them.
        let (indexed, counted);
        let (index, attached): (&VolumeIndex, &AttachedVolumes) = if assumed.index().is_current() {
            (assumed.index(), &assumed.attached)
        } else {
            indexed = VolumeIndex::from_catalog(catalog);
            counted = AttachedVolumes::default();
            (&indexed, &counted)
        };
        let counter = VolumeCounter {
            snapshot,
            catalog,
            index,
        };
        state.limit(&counter, attached, pod);
        let inputs = BindingInputs {
            snapshot,
            catalog,
            index,
            assumed,
        };
        state.bind(&inputs, &claims);
        if !claims.topologies.is_empty() {
            let nodes = conflicting(snapshot, &claims.topologies);
            state
                .zone
                .add(nodes, "node(s) had no available volume zone", false);
        }
        Ok(state)
    }

    fn restrict(&mut self, snapshot: &Snapshot, pod: &Pod, claims: &VolumeClaims) {
        self.restrictions.by_pods = claims.exclusive || !pod.disks.is_empty();
        let conflicts = disk_conflicts(snapshot, pod);
        if claims.in_use {
            let mut nodes = snapshot.live().clone();
            nodes.subtract(&conflicts);
            let reason = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod";
            self.restrictions.add(nodes, reason, true);
        }
        let reason = "node(s) had no available disk";
        self.restrictions.add(conflicts, reason, true);
    }

    fn limit(&mut self, counter: &VolumeCounter<'_>, attached: &AttachedVolumes, pod: &Pod) {
        let new = match counter.used_by(pod) {
            Ok(new) => new,
            Err(error) => {
                let nodes = counter.index.csi_nodes();
                let nodes = nodes.filter_map(|node| counter.snapshot.place_of(&node.metadata.name));
                self.limits.add(nodes.collect(), error.to_string(), false);
                return;
            }
        };
        let exceeded = attached.exceeded(counter, &new);
        self.limits.by_pods = exceeded.limited;
        let reason = "node(s) exceed max volume count";
        self.limits.add(exceeded.full, reason, true);
        for (why, nodes) in exceeded.unknown {
            self.limits.add(nodes, why, false);
        }
    }

    fn bind(&mut self, inputs: &BindingInputs<'_>, claims: &VolumeClaims) {
        if claims.bound.is_empty() && claims.delayed.is_empty() {
            return;
        }
        let mut binding = ClaimBindings::decide(inputs, claims);
        let mut add = |nodes: &mut Bits, reason: &'static str| {
            self.binding.add(std::mem::take(nodes), reason, false);
        };
        add(
            &mut binding.out_of_reach,
            "node(s) didn't match PersistentVolume's node affinity",
        );
        add(
            &mut binding.no_volume,
            "node(s) didn't find available persistent volumes to bind",
        );
        add(
            &mut binding.no_space,
            "node(s) did not have enough free storage",
        );
        add(
            &mut binding.missing,
            "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
        );
        for (reason, nodes) in std::mem::take(&mut binding.untranslatable) {
            self.binding.add(nodes, String::from(reason), false);
        }
        if !claims.delayed.is_empty() {
            self.waiting = Some(Box::new(binding));
        }
    }

    /// Returns the reservation for the node at `place`.
    #[must_use]
    pub fn reserve(&self, snapshot: &Snapshot, place: usize) -> VolumeReservation {
        let waiting = self.waiting.as_ref();
        waiting.map_or_else(VolumeReservation::default, |binding| {
            binding.reserve(snapshot, place)
        })
    }
}

impl Rejections {
    fn add(&mut self, nodes: Bits, reason: impl Into<Cow<'static, str>>, resolvable: bool) {
        if !nodes.is_empty() {
            self.rejected.push((nodes, reason.into(), resolvable));
        }
    }

    /// Takes the rejected nodes out of `nodes`, and reports why.
    pub(super) fn apply(&self, nodes: &mut Bits, rejected: &mut RejectedNodes) {
        let mut gone = Bits::new();
        for (rejects, reason, resolvable) in &self.rejected {
            let mut hit = nodes.clone();
            hit.intersect(rejects);
            rejected.add(&hit, reason.clone(), *resolvable);
            gone.union(&hit);
        }
        nodes.subtract(&gone);
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;

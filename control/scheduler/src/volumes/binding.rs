//! VolumeBinding: finds nodes from which a pod's volumes can be reached, and volumes for
//! claims that wait for the pod.
//!
//! On each node, a waiting claim takes the volume reserved for it, or else the smallest
//! free one that fits and can be reached from there. If there is none, its volume must be
//! provisioned, if its class can do so there. Claims are served from the smallest to the
//! largest, and no volume serves two.

use std::sync::Arc;

use compact_str::{CompactString, format_compact};
use control_types::quantity::Quantity;
use control_types::volumes::{
    VolumeClaim as _, could_serve, is_bound_to, is_free_for, supports_access_modes,
};
use rustc_hash::FxHashSet;

use super::claims::VolumeClaims;
use super::nodes::{allowed, reaching, selected};
use super::{AssumedVolumes, StaticBinding, VolumeIndex, VolumeReservation};
use crate::bits::Bits;
use crate::catalog::Catalog;
use crate::snapshot::Snapshot;
use crate::view::{CsiNode, PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeSource};

/// A class whose volumes are not made on demand.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// Result of VolumeBinding for all nodes.
#[derive(Debug, Default)]
pub(super) struct ClaimBindings {
    /// Nodes that cannot reach a bound volume.
    pub(super) out_of_reach: Bits,
    /// Nodes on which a volume cannot be translated for its CSI driver, with the reasons.
    pub(super) untranslatable: Vec<(CompactString, Bits)>,
    /// Nodes for which a claim finds no volume, and none can be made.
    pub(super) no_volume: Bits,
    /// Nodes without capacity for a volume that must be provisioned.
    pub(super) no_space: Bits,
    /// Nodes lacking a bound volume that does not exist: all or none.
    pub(super) missing: Bits,
    /// Volumes for claims that wait, in the order in which the claims are served.
    matches: Vec<ClaimMatches>,
    /// Claims for which a node was selected before.
    selected: Vec<Arc<PersistentVolumeClaim>>,
}

/// The volume that a claim takes, by node.
#[derive(Debug)]
struct ClaimMatches {
    claim: Arc<PersistentVolumeClaim>,
    volumes: Vec<Arc<PersistentVolume>>,
    /// By place: an index into `volumes`, or [`NONE`].
    chosen: Vec<u32>,
    /// Nodes with a volume.
    matched: Bits,
}

const NONE: u32 = u32::MAX;

/// Objects that decisions on volumes read.
pub(super) struct BindingInputs<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) catalog: &'a Catalog,
    pub(super) index: &'a VolumeIndex,
    pub(super) assumed: &'a AssumedVolumes,
}

/// Returns the nodes that can reach a volume, and those for which that is not known, with the
/// reason.
pub(super) fn nodes_in_reach(
    snapshot: &Snapshot,
    index: &VolumeIndex,
    volume: &PersistentVolume,
) -> (Bits, Option<(CompactString, Bits)>) {
    let mut nodes = reaching(snapshot, volume.node_affinity.as_deref()).into_owned();
    let VolumeSource::InTree(migrated) = &volume.source else {
        return (nodes, None);
    };
    let migrates = |node: &&Arc<CsiNode>| node.migrates(migrated.volume.plugin());
    let migrating: Bits = index
        .csi_nodes()
        .filter(migrates)
        .filter_map(|node| snapshot.place_of(&node.metadata.name))
        .collect();
    if migrating.is_empty() {
        return (nodes, None);
    }
    if let Err(why) = &migrated.handle {
        let reason = format_compact!("could not translate pv: {why}");
        nodes.subtract(&migrating);
        return (nodes, Some((reason, migrating)));
    }
    let mut by_driver = reaching(snapshot, migrated.node_affinity.as_deref()).into_owned();
    by_driver.intersect(&migrating);
    nodes.subtract(&migrating);
    nodes.union(&by_driver);
    (nodes, None)
}

impl ClaimBindings {
    /// Decides for all nodes.
    pub(super) fn decide(inputs: &BindingInputs<'_>, claims: &VolumeClaims) -> Self {
        let mut binding = Self::default();
        binding.check_bound(inputs, claims);
        if claims.delayed.is_empty() {
            return binding;
        }
        let mut candidates = inputs.snapshot.live().clone();
        let mut free = Vec::new();
        for claim in &claims.delayed {
            match inputs.assumed.selected_node(claim) {
                Some(node) => {
                    let node: Bits = inputs.snapshot.place_of(node).into_iter().collect();
                    binding.no_volume.union(&candidates.retain(&node));
                    binding.selected.push(Arc::clone(claim));
                }
                None => free.push(claim),
            }
        }
        let size = |claim: &PersistentVolumeClaim| claim.request();
        // Stable: of equal claims the pod's first goes first.
        free.sort_by_cached_key(|claim| size(claim));
        for claim in free {
            let found = ClaimMatches::find(inputs, claim, &candidates, &binding.matches);
            binding.matches.push(found);
        }
        binding.check_provisions(inputs, candidates);
        binding
    }

    fn check_bound(&mut self, inputs: &BindingInputs<'_>, claims: &VolumeClaims) {
        let mut rest = inputs.snapshot.live().clone();
        for (_, volume) in &claims.bound {
            let Some(volume) = volume else {
                self.missing = rest;
                return;
            };
            let (nodes, unknown) = nodes_in_reach(inputs.snapshot, inputs.index, volume);
            if let Some((reason, mut unknown)) = unknown {
                unknown.intersect(&rest);
                rest.subtract(&unknown);
                self.untranslatable.push((reason, unknown));
            }
            self.out_of_reach.union(&rest.retain(&nodes));
        }
    }

    /// Rejects those of the `rest` of the nodes for which a volume can neither be found
    /// nor provisioned. The first claim that fails on a node provides the reason.
    fn check_provisions(&mut self, inputs: &BindingInputs<'_>, mut rest: Bits) {
        let nowhere = Bits::new();
        let selected = self.selected.iter().map(|claim| (claim, &nowhere));
        let found = self
            .matches
            .iter()
            .map(|found| (&found.claim, &found.matched));
        for (claim, matched) in selected.chain(found) {
            let mut nodes = rest.clone();
            nodes.subtract(matched);
            if nodes.is_empty() {
                continue;
            }
            let class = inputs.catalog.storage_classes.get("", &claim.class);
            let makes = |class: &Arc<StorageClass>| {
                !class.provisioner.is_empty() && class.provisioner != NO_PROVISIONER
            };
            let mut possible = Bits::new();
            if let Some(class) = class.filter(makes) {
                possible = nodes.clone();
                possible.intersect(&allowed(inputs.snapshot, &class.allowed_topologies));
                if let Some(room) = inputs.room(claim, &class, &possible) {
                    let cramped = possible.retain(&room);
                    nodes.subtract(&cramped);
                    rest.subtract(&cramped);
                    self.no_space.union(&cramped);
                }
            }
            nodes.subtract(&possible);
            rest.subtract(&nodes);
            self.no_volume.union(&nodes);
        }
    }

    /// Returns the writes for the node at `place`.
    pub(super) fn reserve(&self, snapshot: &Snapshot, place: usize) -> VolumeReservation {
        let mut reservation = VolumeReservation {
            node: snapshot.name(place).into(),
            provisions: self.selected.clone(),
            ..VolumeReservation::default()
        };
        for found in &self.matches {
            let claim = Arc::clone(&found.claim);
            match found.at(place) {
                Some(volume) => reservation.static_bindings.push(StaticBinding {
                    claim,
                    volume: Arc::clone(volume),
                }),
                None => reservation.provisions.push(claim),
            }
        }
        reservation
    }
}

impl BindingInputs<'_> {
    /// Returns those of `nodes` that have capacity for a claim's volume; `None` if the
    /// driver does not report capacity.
    fn room(
        &self,
        claim: &PersistentVolumeClaim,
        class: &StorageClass,
        nodes: &Bits,
    ) -> Option<Bits> {
        let size = claim.request.as_ref()?.value();
        let driver = self.catalog.csi_drivers.get("", &class.provisioner)?;
        if !driver.spec.storage_capacity {
            return None;
        }
        let mut rest = nodes.clone();
        let mut room = Bits::new();
        for capacity in self.index.capacities(&class.metadata.name) {
            if rest.is_empty() {
                break;
            }
            if let Some(topology) = &capacity.node_topology
                && capacity.volume_limit.is_some_and(|limit| limit >= size)
            {
                let mut here = selected(self.snapshot, topology).into_owned();
                here.intersect(&rest);
                rest.subtract(&here);
                room.union(&here);
            }
        }
        Some(room)
    }

    /// Returns whether a volume is bound to a claim or reserved for it, or assumed to be.
    fn is_reserved_for(&self, volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
        match self.assumed.claim_of(volume) {
            Some(reference) => reference.uid == claim.metadata.uid,
            None => is_bound_to(volume, claim),
        }
    }

    /// Returns volumes that are bound to a claim or reserved for it, or are assumed to
    /// be, and can serve it; sorted by name.
    fn reserved(&self, claim: &PersistentVolumeClaim) -> Vec<Arc<PersistentVolume>> {
        let assumed = self.assumed.volumes_of(claim);
        let assumed = assumed.filter_map(|name| self.index.volume(name));
        let mut volumes: Vec<Arc<PersistentVolume>> = self
            .index
            .reserved(&claim.key())
            .chain(assumed)
            .filter(|volume| {
                volume.class == claim.class
                    && could_serve(&***volume, claim)
                    && self.is_reserved_for(volume, claim)
            })
            .cloned()
            .collect();
        volumes.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        volumes.dedup_by(|a, b| a.metadata.name == b.metadata.name);
        volumes
    }
}

impl ClaimMatches {
    /// Finds volumes for a claim on `nodes`, without those that one of `earlier` took there.
    fn find(
        inputs: &BindingInputs<'_>,
        claim: &Arc<PersistentVolumeClaim>,
        nodes: &Bits,
        earlier: &[Self],
    ) -> Self {
        let mut found = Self {
            claim: Arc::clone(claim),
            volumes: Vec::new(),
            chosen: vec![NONE; inputs.snapshot.places()],
            matched: Bits::new(),
        };
        let reserved = inputs.reserved(claim);
        if reserved.is_empty() {
            found.find_free(inputs, nodes, earlier);
            return found;
        }
        for volume in reserved {
            let mut here = reaching(inputs.snapshot, volume.node_affinity.as_deref()).into_owned();
            here.intersect(nodes);
            here.subtract(&found.matched);
            found.take(&volume, &here);
        }
        found
    }

    fn find_free(&mut self, inputs: &BindingInputs<'_>, nodes: &Bits, earlier: &[Self]) {
        let claim = Arc::clone(&self.claim);
        let taken: FxHashSet<*const PersistentVolume> = earlier
            .iter()
            .flat_map(|found| found.volumes.iter().map(Arc::as_ptr))
            .collect();
        let smallest = (claim.request(), CompactString::default());
        for (affinity, group) in inputs.index.free(&claim.class) {
            let mut fitting = group.range(&smallest..).filter(|(_, volume)| {
                could_serve(&***volume, &*claim)
                    && is_free_for(&***volume, &*claim)
                    && supports_access_modes(&***volume, &*claim)
                    && inputs.assumed.claim_of(volume).is_none()
            });
            let Some(mut next) = fitting.next() else {
                continue;
            };
            let mut here = reaching(inputs.snapshot, affinity.as_deref()).into_owned();
            here.intersect(nodes);
            while !here.is_empty() {
                let ((size, name), volume) = next;
                let mut occupied = Bits::new();
                if taken.contains(&Arc::as_ptr(volume)) {
                    for found in earlier {
                        occupied.union(&found.with(volume, &here));
                    }
                    here.subtract(&occupied);
                }
                let better: Bits = here
                    .iter()
                    .filter(|place| self.is_better(*place, size, name))
                    .collect();
                self.take(volume, &better);
                here = occupied;
                match fitting.next() {
                    Some(more) => next = more,
                    None => break,
                }
            }
        }
    }

    /// Whether a volume is smaller than the one chosen for a node.
    fn is_better(&self, place: usize, size: &Quantity, name: &CompactString) -> bool {
        self.at(place)
            .is_none_or(|chosen| (size, name) < (&chosen.capacity, &chosen.metadata.name))
    }

    /// Chooses a volume for these nodes.
    fn take(&mut self, volume: &Arc<PersistentVolume>, nodes: &Bits) {
        if nodes.is_empty() {
            return;
        }
        let Ok(index) = u32::try_from(self.volumes.len()) else {
            return;
        };
        self.volumes.push(Arc::clone(volume));
        for place in nodes.iter() {
            if let Some(chosen) = self.chosen.get_mut(place) {
                *chosen = index;
            }
        }
        self.matched.union(nodes);
    }

    /// The volume chosen for a node.
    fn at(&self, place: usize) -> Option<&Arc<PersistentVolume>> {
        let index = *self.chosen.get(place)?;
        self.volumes.get(usize::try_from(index).ok()?)
    }

    /// Returns those of `nodes` for which this volume was chosen.
    fn with(&self, volume: &Arc<PersistentVolume>, nodes: &Bits) -> Bits {
        let is_chosen = |place: &usize| self.at(*place).is_some_and(|at| Arc::ptr_eq(at, volume));
        nodes.iter().filter(is_chosen).collect()
    }
}

//! Decisions about a pod's volumes, and those that the caches do not show yet.

use std::sync::Arc;

use compact_str::CompactString;
use control_client::{Change, Meta, View};
use rustc_hash::FxHashMap;

use super::VolumeIndex;
use super::limits::AttachedVolumes;
use crate::catalog::CatalogEvent;
use crate::view::{ClaimKey, ClaimRef, PersistentVolume, PersistentVolumeClaim, Pod};

/// Decisions on a pod's volumes for its node.
#[derive(Clone, Debug, Default)]
pub struct VolumeReservation {
    /// Claims, with the volumes that they are to be bound to.
    pub static_bindings: Vec<StaticBinding>,
    /// Claims for which volumes are to be made.
    pub provisions: Vec<Arc<PersistentVolumeClaim>>,
    /// The node.
    pub node: CompactString,
}

/// A claim and the volume that it is to be bound to.
#[derive(Clone, Debug)]
pub struct StaticBinding {
    /// The claim.
    pub claim: Arc<PersistentVolumeClaim>,
    /// The volume.
    pub volume: Arc<PersistentVolume>,
}

/// Decisions on volumes that the caches do not show yet, and the index of the caches.
#[derive(Clone, Debug, Default)]
pub struct AssumedVolumes {
    index: Arc<VolumeIndex>,
    /// Assumed claims by volume.
    volumes: FxHashMap<CompactString, AssumedChange<ClaimRef>>,
    /// By claim: the node for which its volume is to be provisioned.
    claims: FxHashMap<ClaimKey, AssumedChange<CompactString>>,
    pub(super) attached: AttachedVolumes,
}

/// A change of an object that was decided and is being written.
#[derive(Clone, Debug)]
struct AssumedChange<T> {
    value: T,
    /// The revision of the object that it was decided on. A later one supersedes it.
    revision: CompactString,
    /// Pods for which it was decided.
    pods: Vec<CompactString>,
}

/// The identity of a pod for which something was decided.
fn uid(pod: &Pod) -> &CompactString {
    &pod.metadata.uid
}

fn identity(object: &impl View) -> (&CompactString, &CompactString) {
    let meta = object.meta();
    (&meta.uid, &meta.resource_version)
}

// === impl Reservation ===

impl VolumeReservation {
    /// Whether nothing has to be written.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.static_bindings.is_empty() && self.provisions.is_empty()
    }
}

impl PartialEq for VolumeReservation {
    /// Objects are equal if they are the same ones at the same revision.
    fn eq(&self, other: &Self) -> bool {
        let bindings = |reservation: &Self| -> Vec<_> {
            let bindings = reservation.static_bindings.iter();
            bindings
                .flat_map(|binding| [identity(&*binding.claim), identity(&*binding.volume)])
                .map(|(uid, revision)| (uid.clone(), revision.clone()))
                .collect()
        };
        let provisions = |reservation: &Self| -> Vec<_> {
            let provisions = reservation.provisions.iter();
            provisions
                .map(|claim| identity(&**claim))
                .map(|(uid, revision)| (uid.clone(), revision.clone()))
                .collect()
        };
        self.node == other.node
            && bindings(self) == bindings(other)
            && provisions(self) == provisions(other)
    }
}

impl Eq for VolumeReservation {}

// === impl Assumption ===

impl<T: PartialEq> AssumedChange<T> {
    fn is_of(&self, meta: &Meta) -> bool {
        self.revision == meta.resource_version
    }
}

/// Adds a decision, or adds the pod to those for which the same was decided.
fn assume<K: std::hash::Hash + Eq, T: PartialEq>(
    assumptions: &mut FxHashMap<K, AssumedChange<T>>,
    key: K,
    value: T,
    meta: &Meta,
    pod: &Pod,
) {
    let revision = &meta.resource_version;
    if let Some(known) = assumptions.get_mut(&key)
        && known.value == value
        && known.revision == *revision
    {
        known.pods.push(uid(pod).clone());
        return;
    }
    let assumption = AssumedChange {
        value,
        revision: revision.clone(),
        pods: vec![uid(pod).clone()],
    };
    assumptions.insert(key, assumption);
}

/// Takes back a decision for a pod, unless other pods share it.
fn withdraw<K: std::hash::Hash + Eq, T>(
    assumptions: &mut FxHashMap<K, AssumedChange<T>>,
    key: &K,
    pod: &Pod,
) {
    if let Some(known) = assumptions.get_mut(key) {
        known.pods.retain(|holder| holder != uid(pod));
        if known.pods.is_empty() {
            assumptions.remove(key);
        }
    }
}

/// Drops an assumption that was decided on an older revision than the caches show.
fn expire<K: std::hash::Hash + Eq, T, V: View>(
    assumptions: &mut FxHashMap<K, AssumedChange<T>>,
    key: &K,
    change: &Change<V>,
) {
    let Some(known) = assumptions.get(key) else {
        return;
    };
    let is_older = |current: &Arc<V>| {
        let meta = current.meta();
        match (known.revision.parse::<u64>(), meta.revision()) {
            // An event may come later than the cache that the decision was made on.
            (Ok(decided_on), Some(seen)) => decided_on < seen,
            _ => known.revision != meta.resource_version,
        }
    };
    if change.current.as_ref().is_none_or(is_older) {
        assumptions.remove(key);
    }
}

// === impl Assumed ===

impl AssumedVolumes {
    /// The volumes of the caches.
    pub(super) fn index(&self) -> &Arc<VolumeIndex> {
        &self.index
    }

    /// The claim that a volume is assumed to be bound to.
    #[must_use]
    pub fn claim_of(&self, volume: &PersistentVolume) -> Option<&ClaimRef> {
        let assumption = self.volumes.get(&volume.metadata.name)?;
        assumption
            .is_of(&volume.metadata)
            .then_some(&assumption.value)
    }

    /// Names of the volumes that are assumed to be bound to a claim.
    pub fn volumes_of<'a>(
        &'a self,
        claim: &'a PersistentVolumeClaim,
    ) -> impl Iterator<Item = &'a CompactString> {
        let assumed = self.volumes.iter();
        assumed
            .filter(|(_, assumption)| assumption.value.uid == claim.metadata.uid)
            .map(|(name, _)| name)
    }

    /// The node for which a claim's volume is made, or is assumed to be.
    #[must_use]
    pub fn selected_node<'a>(&'a self, claim: &'a PersistentVolumeClaim) -> Option<&'a str> {
        let assumption = self.claims.get(&claim.key());
        match assumption.filter(|assumption| assumption.is_of(&claim.metadata)) {
            Some(assumption) => Some(&assumption.value),
            None => claim.selected_node.as_deref(),
        }
    }

    /// Assumes the reservation of a pod.
    pub fn reserve(&mut self, pod: &Pod, reservation: &VolumeReservation) {
        for StaticBinding { claim, volume } in &reservation.static_bindings {
            let reference = ClaimRef {
                namespace: claim.metadata.namespace.clone(),
                name: claim.metadata.name.clone(),
                uid: claim.metadata.uid.clone(),
            };
            if volume.claim_ref.as_deref() != Some(&reference) {
                let name = volume.metadata.name.clone();
                assume(&mut self.volumes, name, reference, &volume.metadata, pod);
            }
        }
        for claim in &reservation.provisions {
            if claim.selected_node.as_ref() != Some(&reservation.node) {
                let node = reservation.node.clone();
                assume(&mut self.claims, claim.key(), node, &claim.metadata, pod);
            }
        }
    }

    /// Reverts what was assumed for a pod.
    pub fn unreserve(&mut self, pod: &Pod, reservation: &VolumeReservation) {
        for binding in &reservation.static_bindings {
            withdraw(&mut self.volumes, &binding.volume.metadata.name, pod);
        }
        for claim in &reservation.provisions {
            withdraw(&mut self.claims, &claim.key(), pod);
        }
    }

    /// Updates the index, and drops assumptions that the caches now show.
    pub fn observe(&mut self, event: &CatalogEvent) {
        match event {
            CatalogEvent::PersistentVolume(change) => {
                if let Some(volume) = change.latest() {
                    expire(&mut self.volumes, &volume.metadata.name, change);
                }
            }
            CatalogEvent::PersistentVolumeClaim(change) => {
                if let Some(claim) = change.latest() {
                    expire(&mut self.claims, &claim.key(), change);
                }
            }
            CatalogEvent::CsiStorageCapacity(_)
            | CatalogEvent::StorageClass(_)
            | CatalogEvent::CsiNode(_)
            | CatalogEvent::VolumeAttachment(_) => {}
            _ => return,
        }
        Arc::make_mut(&mut self.index).observe(event);
        self.attached.observe(event, &self.index);
    }
}

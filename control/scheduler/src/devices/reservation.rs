//! Tracks which devices exist, which are in use, and which decisions the caches do not
//! show yet.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use compact_str::CompactString;
use control_client::Change;
use control_devices::api::{AllocationResult, EXTENDED_RESOURCE_CLAIM_ANNOTATION};
use control_devices::{
    AllocatedDevices, ContainerResourceRequest, ExtendedResourceClasses, Features, Inventory,
    SelectorCache,
};
use rustc_hash::FxHashMap;

use crate::catalog::{Catalog, CatalogEvent};
use crate::view::{DeviceClass, Pod, ResourceClaim, ResourceSlice};

/// The decision about a pod's devices on its node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceReservation {
    pub(super) claims: Vec<ClaimReservation>,
    /// Why devices that were found cannot be allocated after all.
    pub(super) failed: Option<String>,
}

/// The decision about one claim of a pod.
#[derive(Clone, Debug)]
pub(super) struct ClaimReservation {
    /// The claim as it was when that was decided.
    pub claim: Arc<ResourceClaim>,
    /// The new allocation; `None` if the claim is already allocated.
    pub allocation: Option<Arc<AllocationResult>>,
    /// With a claim for extended resources that is to be made: which request serves which
    /// container.
    pub mappings: Option<Vec<ContainerResourceRequest>>,
    write: Arc<Write>,
}

/// The progress of writing the decision about a claim.
#[derive(Debug, Default)]
struct Write {
    /// Whether a write is in flight: it may succeed even if the pod was deleted.
    is_under_way: AtomicBool,
    /// The claim as it was written last.
    written: Mutex<Option<Arc<ResourceClaim>>>,
}

/// Devices, and decisions on them that are not seen in the caches yet.
#[derive(Clone, Debug, Default)]
pub struct AssumedDevices {
    pub(super) features: Features,
    pub(super) inventory: Arc<Inventory>,
    pub(super) classes: ExtendedResourceClasses,
    pub(super) allocated: AllocatedDevices,
    pub(super) selectors: Arc<Mutex<SelectorCache>>,
    /// The counted allocations by the uid of the claim.
    counted: FxHashMap<CompactString, Arc<AllocationResult>>,
    /// Allocations that are being written, by the uid of the claim; of claims that are to be
    /// made, by the uid of the pod.
    pending: FxHashMap<CompactString, PendingAllocation>,
}

/// An allocation that is being written.
#[derive(Clone, Debug)]
struct PendingAllocation {
    write: Arc<Write>,
}

// === impl Reservation ===

impl Eq for DeviceReservation {}

impl DeviceReservation {
    /// Whether nothing has to be written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.failed.is_none()
    }
}

// === impl ClaimReservation ===

impl PartialEq for ClaimReservation {
    fn eq(&self, other: &Self) -> bool {
        self.claim.metadata.uid == other.claim.metadata.uid
            && self.allocation == other.allocation
            && self.mappings == other.mappings
    }
}

impl ClaimReservation {
    pub(super) fn new(
        claim: &Arc<ResourceClaim>,
        allocation: Option<Arc<AllocationResult>>,
    ) -> Self {
        Self {
            claim: Arc::clone(claim),
            allocation,
            mappings: None,
            write: Arc::default(),
        }
    }

    /// The claim as it was written last; `None`: it was not.
    pub(super) fn last_written(&self) -> Option<Arc<ResourceClaim>> {
        self.write.last()
    }

    /// Writing begins, or has failed.
    pub(super) fn set_under_way(&self, is_under_way: bool) {
        let flag = &self.write.is_under_way;
        flag.store(is_under_way, Ordering::Release);
    }

    /// The claim was written.
    pub(super) fn set_written(&self, claim: Arc<ResourceClaim>) {
        let written = self.write.written.lock();
        *written.unwrap_or_else(PoisonError::into_inner) = Some(claim);
    }

    /// Returns the key of the allocation while it is being written.
    fn key<'a>(&'a self, pod: &'a Pod) -> &'a CompactString {
        if self.mappings.is_some() {
            &pod.metadata.uid
        } else {
            &self.claim.metadata.uid
        }
    }
}

// === impl Pending ===

impl PendingAllocation {
    /// Whether the cache shows the claim as the write left it, or later.
    fn is_seen(&self, claim: &ResourceClaim) -> bool {
        if claim.status.allocation.is_some() {
            return true;
        }
        let written = self.write.last();
        written.is_some_and(|written| claim.metadata.revision() >= written.metadata.revision())
    }
}

// === impl Write ===

impl Write {
    fn last(&self) -> Option<Arc<ResourceClaim>> {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.clone()
    }
}

// === impl Assumed ===

impl AssumedDevices {
    /// The books of a catalog that stays as it is.
    #[must_use]
    pub fn from_catalog(catalog: &Catalog) -> Self {
        let mut assumed = Self::default();
        for slice in catalog.resource_slices.snapshot().iter() {
            assumed.slice(None, Some(slice));
        }
        for class in catalog.device_classes.snapshot().iter() {
            assumed.class(None, Some(class));
        }
        for claim in catalog.resource_claims.snapshot().iter() {
            assumed.claim(None, Some(claim));
        }
        assumed
    }

    /// Assumes the decision for a pod.
    pub fn reserve(&mut self, pod: &Pod, reservation: &DeviceReservation) {
        for claim in &reservation.claims {
            let Some(allocation) = &claim.allocation else {
                continue;
            };
            let key = claim.key(pod).clone();
            self.count(&key, Some(allocation));
            self.pending.insert(
                key,
                PendingAllocation {
                    write: Arc::clone(&claim.write),
                },
            );
        }
    }

    /// Reverts what was assumed for a pod. Completed and pending writes stay until the
    /// caches show them or the write fails.
    pub fn unreserve(&mut self, pod: &Pod, reservation: &DeviceReservation) {
        for claim in &reservation.claims {
            let key = claim.key(pod);
            let pending = self.pending.get(key);
            if pending.is_none_or(|pending| !Arc::ptr_eq(&pending.write, &claim.write)) {
                continue;
            }
            let is_under_way = claim.write.is_under_way.load(Ordering::Acquire);
            let is_written = claim.last_written().is_some_and(|written| {
                claim.mappings.is_none() && written.status.allocation.is_some()
            });
            if !is_under_way && !is_written {
                self.pending.remove(key);
                self.count(key, None);
            }
        }
    }

    /// Drops assumptions that the caches now show.
    pub fn observe(&mut self, event: &CatalogEvent) {
        match event {
            CatalogEvent::ResourceSlice(Change {
                previous, current, ..
            }) => self.slice(previous.as_deref(), current.as_deref()),
            CatalogEvent::DeviceClass(Change {
                previous, current, ..
            }) => self.class(previous.as_deref(), current.as_deref()),
            CatalogEvent::ResourceClaim(Change {
                previous, current, ..
            }) => self.claim(previous.as_deref(), current.as_deref()),
            _ => {}
        }
    }

    /// Whether the allocation of a claim is being written.
    pub(super) fn is_pending(&self, uid: &str) -> bool {
        self.pending.contains_key(uid)
    }

    /// Classes by the extended resources that they satisfy.
    #[must_use]
    pub fn extended_resource_classes(&self) -> &ExtendedResourceClasses {
        &self.classes
    }

    fn slice(&mut self, previous: Option<&ResourceSlice>, current: Option<&ResourceSlice>) {
        let inventory = Arc::make_mut(&mut self.inventory);
        match (previous, current) {
            (_, Some(slice)) => {
                inventory.set_slice(&slice.metadata.name, Arc::clone(&slice.spec));
            }
            (Some(gone), None) => inventory.remove_slice(&gone.metadata.name),
            (None, None) => {}
        }
    }

    fn class(&mut self, previous: Option<&DeviceClass>, current: Option<&DeviceClass>) {
        match (previous, current) {
            (_, Some(class)) => {
                let meta = &class.metadata;
                self.classes
                    .set(&meta.name, &class.spec, meta.creation_timestamp);
            }
            (Some(gone), None) => self.classes.remove(&gone.metadata.name),
            (None, None) => {}
        }
    }

    fn claim(&mut self, previous: Option<&ResourceClaim>, current: Option<&ResourceClaim>) {
        if let Some(previous) = previous {
            let uid = &previous.metadata.uid;
            if current.is_none_or(|current| current.metadata.uid != *uid) {
                self.pending.remove(uid);
                self.count(uid, None);
            }
        }
        let Some(claim) = current else { return };
        let uid = &claim.metadata.uid;
        let pending = self.pending.get(uid);
        if pending.is_some_and(|pending| !pending.is_seen(claim)) {
            return;
        }
        self.pending.remove(uid);
        self.count(uid, claim.status.allocation.as_ref());
        if claim.status.allocation.is_some()
            && let Some(pod) = pod_of_extended(claim)
            && self.pending.remove(pod).is_some()
        {
            self.count(pod, None);
        }
    }

    /// Counts the devices of a claim as in use as its allocation says.
    fn count(&mut self, uid: &CompactString, allocation: Option<&Arc<AllocationResult>>) {
        let known = match allocation {
            Some(allocation) => self.counted.insert(uid.clone(), Arc::clone(allocation)),
            None => self.counted.remove(uid),
        };
        // the new first: a device that is in both stays in use
        if let Some(allocation) = allocation {
            self.allocated.add(allocation);
        }
        if let Some(known) = known {
            self.allocated.remove(&known);
        }
    }
}

/// The uid of the pod whose extended resources a claim is for.
pub(super) fn pod_of_extended(claim: &ResourceClaim) -> Option<&CompactString> {
    let annotations = &claim.metadata.annotations;
    if annotations.get(EXTENDED_RESOURCE_CLAIM_ANNOTATION) != Some("true") {
        return None;
    }
    claim.metadata.controller().map(|owner| &owner.uid)
}

#[cfg(test)]
#[path = "reservation_tests.rs"]
mod tests;

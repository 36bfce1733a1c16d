//! The state of a pod's device claims for one decision (the plugin's PreFilter). A pod
//! that lacks a device stays Pending with a message that names its claim. It is never
//! placed against a constraint.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use control_devices::api::{AllocationResult, DeviceRequest};
use control_devices::{BindingState, binding_state};
use jiff::Timestamp;

use super::claims::{claims, unmet};
use super::extended::ExtendedResources;
use super::post_filter::Deallocation;
use super::reservation::{ClaimReservation, pod_of_extended};
use super::search::Searches;
use super::{AssumedDevices, DeviceReservation};
use crate::bits::Bits;
use crate::catalog::Catalog;
use crate::selector::NodeTerm;
use crate::snapshot::Snapshot;
use crate::unmet::UnmetReason;
use crate::view::{Pod, ResourceClaim};

/// How long devices may take to become ready for binding
/// (`DynamicResourcesArgs.bindingTimeout`).
pub(super) const BINDING_TIMEOUT: Duration = Duration::from_secs(600);

/// The devices of a pod in one scheduling cycle.
#[derive(Default)]
pub struct DeviceState<'a> {
    /// `None` for a pod without claims: the plugin has nothing to do.
    pub(super) work: Option<Box<Work<'a>>>,
}

/// The claims of a pod.
pub(super) struct Work<'a> {
    pub assumed: &'a AssumedDevices,
    pub catalog: &'a Catalog,
    pub pod: &'a Pod,
    /// The claims that the pod names.
    pub claims: Vec<PodClaimState>,
    /// The extended resources of the pod that devices satisfy.
    pub extended: Option<ExtendedResources>,
    pub found: RefCell<Searches<'a>>,
}

/// A claim of the pod.
pub(super) struct PodClaimState {
    pub claim: Arc<ResourceClaim>,
    /// The nodes that have the devices of an allocated claim; `None`: all.
    available_on: Option<Bits>,
    /// Whether its devices failed to become ready, or took too long.
    is_stuck: bool,
}

impl<'a> DeviceState<'a> {
    /// Reads the claims of a pod.
    ///
    /// # Errors
    /// What it lacks.
    pub fn prepare(
        snapshot: &Snapshot,
        pod: &'a Pod,
        catalog: &'a Catalog,
        assumed: &'a AssumedDevices,
    ) -> Result<Self, UnmetReason> {
        if pod.claims.is_empty() && pod.containers.is_empty() {
            return Ok(Self::default());
        }
        let named = claims(pod, catalog)?;
        let extended = ExtendedResources::prepare(pod, catalog, assumed);
        if named.is_empty() && extended.is_none() {
            return Ok(Self::default());
        }
        let mut states = Vec::with_capacity(named.len());
        for claim in named {
            states.push(PodClaimState::prepare(claim, snapshot, catalog, assumed)?);
        }
        Ok(Self {
            work: Some(Box::new(Work {
                assumed,
                catalog,
                pod,
                claims: states,
                extended,
                found: RefCell::default(),
            })),
        })
    }

    /// Returns the message for a pod that fits nowhere (the plugin's PostFilter).
    #[must_use]
    pub fn post_filter(&self) -> &'static str {
        match &self.work {
            None => "no new claims to deallocate",
            Some(work) => match work.deallocation() {
                None => "still not schedulable",
                Some(deallocation) => deallocation.message(),
            },
        }
    }

    /// The claim whose devices are given back, so that others can be tried for the pod.
    #[must_use]
    pub fn deallocation(&self) -> Option<Deallocation> {
        self.work.as_ref()?.deallocation()
    }

    /// Returns why the pod cannot be scheduled now regardless of nodes: claims, classes
    /// or pools are invalid.
    #[must_use]
    pub fn error(&self) -> Option<String> {
        self.work.as_ref()?.found.borrow().error.clone()
    }

    /// Returns the reservation for the node at `place`.
    #[must_use]
    pub fn reserve(&self, snapshot: &Snapshot, place: usize) -> DeviceReservation {
        self.work
            .as_ref()
            .map(|work| work.reserve(snapshot, place))
            .unwrap_or_default()
    }
}

impl PodClaimState {
    fn prepare(
        claim: Arc<ResourceClaim>,
        snapshot: &Snapshot,
        catalog: &Catalog,
        assumed: &AssumedDevices,
    ) -> Result<Self, UnmetReason> {
        let Some(allocation) = &claim.status.allocation else {
            let meta = &claim.metadata;
            if assumed.is_pending(&meta.uid) {
                return Err(unmet(format!(
                    "resource claim {}/{} is in the process of being allocated",
                    meta.namespace, meta.name
                )));
            }
            for request in &claim.spec.devices.requests {
                check_request(request, &claim, catalog, assumed)?;
            }
            return Ok(Self {
                claim,
                available_on: None,
                is_stuck: false,
            });
        };
        let available_on = allocation.node_selector.as_ref().map(|selector| {
            let mut nodes = Bits::new();
            for term in &selector.node_selector_terms {
                nodes.union(&snapshot.matching_term(&NodeTerm::from(term)));
            }
            nodes
        });
        let is_stuck = assumed.features.binding_conditions && is_stuck(&claim, allocation);
        Ok(Self {
            available_on,
            is_stuck,
            claim,
        })
    }

    pub(super) fn is_available_on(&self, place: usize) -> bool {
        let is_there = self.available_on.as_ref();
        !self.is_stuck && is_there.is_none_or(|nodes| nodes.contains(place))
    }
}

impl Work<'_> {
    fn reserve(&self, snapshot: &Snapshot, place: usize) -> DeviceReservation {
        let found = self.found.borrow();
        let mut reservation = DeviceReservation::default();
        let mut allocations = match found.allocations(place, snapshot.name(place)) {
            Ok(allocations) => allocations.into_iter(),
            Err(error) => {
                reservation.failed = Some(error.to_string());
                return reservation;
            }
        };
        let uid = &self.pod.metadata.uid;
        for state in &self.claims {
            let claim = &state.claim;
            let allocation = match &claim.status.allocation {
                Some(allocation) if claim.is_reserved_for(uid) => {
                    // devices that are not ready are waited for
                    let binds = |allocation: &Arc<AllocationResult>| {
                        let mut results = allocation.devices.results.iter();
                        results.any(|result| !result.binding_conditions.is_empty())
                    };
                    if !binds(allocation) {
                        continue;
                    }
                    None
                }
                Some(_) => None,
                None => match allocations.next() {
                    Some(allocation) => Some(Arc::new(allocation)),
                    None => {
                        reservation.failed = Some("claim allocation not found for node".to_owned());
                        return reservation;
                    }
                },
            };
            let claim = ClaimReservation::new(claim, allocation);
            reservation.claims.push(claim);
        }
        if let Some(allocation) = allocations.next()
            && let Some((claim, mappings)) = found.extended(place, self)
        {
            let mut claim = ClaimReservation::new(&claim, Some(Arc::new(allocation)));
            claim.mappings = Some(mappings);
            reservation.claims.push(claim);
        }
        reservation
    }

    fn deallocation(&self) -> Option<Deallocation> {
        let found = self.found.borrow();
        let uid = &self.pod.metadata.uid;
        let unavailable = found.unavailable.iter();
        let claim = unavailable
            .filter_map(|index| self.claims.get(*index))
            .map(|state| &state.claim)
            .find(|claim| match claim.status.reserved_for.as_slice() {
                [] => true,
                [only] => only.uid == *uid,
                _ => false,
            });
        if let Some(claim) = claim {
            return Some(Deallocation::Deallocate(Arc::clone(claim)));
        }
        let stale = self.extended.as_ref()?.stale.as_ref()?;
        debug_assert!(pod_of_extended(stale).is_some());
        Some(Deallocation::Delete(Arc::clone(stale)))
    }
}

fn check_request(
    request: &DeviceRequest,
    claim: &ResourceClaim,
    catalog: &Catalog,
    assumed: &AssumedDevices,
) -> Result<(), UnmetReason> {
    let of_claim = |what: &str| {
        let meta = &claim.metadata;
        let (namespace, name) = (&meta.namespace, &meta.name);
        let request = &request.name;
        unmet(format!(
            "resource claim {namespace}/{name}, request {request}: {what}"
        ))
    };
    let check_class = |request: &str, class: &str| {
        if catalog.device_classes.get("", class).is_some() {
            return Ok(());
        }
        Err(unmet(format!(
            "request {request}: device class {class} does not exist"
        )))
    };
    if let Some(exactly) = &request.exactly {
        return check_class(&request.name, &exactly.device_class_name);
    }
    if request.first_available.is_empty() {
        return Err(of_claim("unknown request type"));
    }
    if !assumed.features.prioritized_list {
        return Err(of_claim(
            "has subrequests, but the DRAPrioritizedList feature is disabled",
        ));
    }
    for alternative in &request.first_available {
        let name = format!("{}/{}", request.name, alternative.name);
        check_class(&name, &alternative.device_class_name)?;
    }
    Ok(())
}

/// Whether devices failed to become ready for binding, or took too long.
fn is_stuck(claim: &ResourceClaim, allocation: &AllocationResult) -> bool {
    match binding_state(allocation, &claim.status.devices) {
        BindingState::Ready => false,
        BindingState::Failed { .. } => true,
        BindingState::Pending => is_overdue(allocation, Timestamp::now()),
    }
}

/// Whether devices have had their time to become ready.
pub(super) fn is_overdue(allocation: &AllocationResult, now: Timestamp) -> bool {
    let mut results = allocation.devices.results.iter();
    let binds = results.any(|result| !result.binding_conditions.is_empty());
    let Some(allocated) = allocation.allocation_timestamp.filter(|_| binds) else {
        return false;
    };
    let since = Duration::try_from(now.duration_since(allocated));
    since.is_ok_and(|since| since > BINDING_TIMEOUT)
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;

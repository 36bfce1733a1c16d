//! The requests of claims, with classes looked up and selectors compiled: equal for all
//! nodes.

use std::sync::Arc;

use compact_str::{CompactString, format_compact};

use crate::api::{DeviceClassSpec, DeviceSelector, ExactDeviceRequest, ResourceClaimSpec};
use crate::claim::Claim;
use crate::error::AllocationError;
use crate::features::Features;
use crate::selector::{CompiledSelector, SelectorCache, SelectorError};

/// A claim.
#[derive(Debug)]
pub(crate) struct ClaimPlan {
    pub requests: Vec<RequestPlan>,
    /// The position of a constraint of an unknown kind.
    pub empty_constraint: Option<usize>,
}

/// A request.
#[derive(Debug)]
pub(crate) struct RequestPlan {
    /// Whether one of several alternatives is chosen.
    pub is_list: bool,
    /// Why a list of alternatives is skipped.
    pub error: Option<AllocationError>,
    pub alternatives: Vec<AlternativePlan>,
}

/// The only way to satisfy a request, or one of several.
#[derive(Debug)]
pub(crate) struct AlternativePlan {
    /// `request` or `request/alternative`
    pub name: CompactString,
    /// Why it cannot be satisfied anywhere.
    pub error: Option<AllocationError>,
    pub class_name: CompactString,
    pub class: Option<Arc<DeviceClassSpec>>,
    pub class_selectors: Vec<Result<CompiledSelector, SelectorError>>,
    pub selectors: Vec<Result<CompiledSelector, SelectorError>>,
    /// Devices that it needs; `None`: all.
    pub count: Option<usize>,
    pub is_admin: bool,
}

pub(crate) fn plan(
    claim: &Claim,
    classes: &dyn Fn(&str) -> Option<Arc<DeviceClassSpec>>,
    features: &Features,
    selectors: &mut SelectorCache,
) -> ClaimPlan {
    let devices = &claim.spec.devices;
    let requests = devices.requests.iter().map(|request| {
        let is_list = !request.first_available.is_empty();
        let disabled = |kind, request: &CompactString, what| AllocationError::FeatureDisabled {
            claim: claim.reference(),
            kind,
            request: request.clone(),
            what,
        };
        let mut error = None;
        if is_list && !features.prioritized_list {
            error = Some(disabled(
                "request",
                &request.name,
                "has subrequests, but the DRAPrioritizedList feature is disabled",
            ));
        } else if !features.consumable_capacity {
            const WHY: &str =
                "has capacity requests, but the DRAConsumableCapacity feature is disabled";
            let exactly = request.exactly.iter();
            error = exactly
                .filter(|exactly| exactly.capacity.is_some())
                .map(|_| disabled("request", &request.name, WHY))
                .next()
                .or_else(|| {
                    let mut alternatives = request.first_available.iter();
                    let asking = alternatives.find(|one| one.capacity.is_some())?;
                    Some(disabled("subrequest", &asking.name, WHY))
                });
        }
        let alternatives: Vec<AlternativePlan> = if is_list {
            let alternatives = request.first_available.iter();
            alternatives
                .map(|one| {
                    let name = format_compact!("{}/{}", request.name, one.name);
                    alternative(claim, &one.name, name, one, classes, features, selectors)
                })
                .collect()
        } else {
            let missing = ExactDeviceRequest::default();
            let exactly = request.exactly.as_ref().unwrap_or(&missing);
            let (name, full) = (&request.name, request.name.clone());
            vec![alternative(
                claim, name, full, exactly, classes, features, selectors,
            )]
        };
        RequestPlan {
            is_list,
            error,
            alternatives,
        }
    });
    ClaimPlan {
        requests: requests.collect(),
        empty_constraint: devices.constraints.iter().position(|constraint| {
            constraint.match_attribute.is_none() && constraint.distinct_attribute.is_none()
        }),
    }
}

fn alternative(
    claim: &Claim,
    short: &CompactString,
    name: CompactString,
    request: &ExactDeviceRequest,
    classes: &dyn Fn(&str) -> Option<Arc<DeviceClassSpec>>,
    features: &Features,
    selectors: &mut SelectorCache,
) -> AlternativePlan {
    let class_name = request.device_class_name.clone();
    let class = (!class_name.is_empty())
        .then(|| classes(&class_name))
        .flatten();
    let mut compile = |selectors_of: &[DeviceSelector]| {
        selectors_of
            .iter()
            .filter_map(|selector| Some(selectors.compile(&selector.cel.as_ref()?.expression)))
            .collect()
    };
    let error = error_of(claim, short, request, class.is_some(), features);
    AlternativePlan {
        name,
        error,
        class_selectors: class
            .as_ref()
            .map(|class| compile(&class.selectors))
            .unwrap_or_default(),
        selectors: compile(&request.selectors),
        count: (request.allocation_mode != "All")
            .then(|| usize::try_from(request.count).unwrap_or(0)),
        is_admin: request.is_admin(),
        class_name,
        class,
    }
}

fn error_of(
    claim: &Claim,
    name: &CompactString,
    request: &ExactDeviceRequest,
    class_exists: bool,
    features: &Features,
) -> Option<AllocationError> {
    let (claim, name) = (|| claim.reference(), || name.clone());
    let empty = request
        .selectors
        .iter()
        .position(|selector| selector.cel.is_none());
    if let Some(index) = empty {
        return Some(AllocationError::EmptySelector {
            claim: claim(),
            request: name(),
            index,
        });
    }
    if request.admin_access.is_some() && !features.admin_access {
        return Some(AllocationError::FeatureDisabled {
            claim: claim(),
            kind: "request",
            request: name(),
            what: "admin access is requested, but the feature is disabled",
        });
    }
    if request.device_class_name.is_empty() {
        return Some(AllocationError::MissingClassName {
            claim: claim(),
            request: name(),
        });
    }
    if !class_exists {
        return Some(AllocationError::MissingClass {
            claim: claim(),
            request: name(),
            class: request.device_class_name.clone(),
        });
    }
    if !matches!(request.allocation_mode.as_str(), "ExactCount" | "All") {
        return Some(AllocationError::UnsupportedMode {
            claim: claim(),
            request: name(),
            mode: request.allocation_mode.clone(),
        });
    }
    None
}

/// The request or alternative at these positions of a claim.
pub(crate) fn request_of(
    spec: &ResourceClaimSpec,
    request: usize,
    alternative: usize,
) -> Option<&ExactDeviceRequest> {
    let request = spec.devices.requests.get(request)?;
    match request.first_available.get(alternative) {
        Some(alternative) => Some(alternative),
        None => request.exactly.as_ref(),
    }
}

//! Allocates devices to the claims of a pod on a node.

use std::sync::Arc;

use compact_str::CompactString;
use control_types::quantity::Quantity;
use rustc_hash::FxHashMap;

use crate::Features;
use crate::allocated::{AllocatedDevices, PoolId};
use crate::api::{
    ALLOCATION_RESULTS_MAX_SIZE, AllocationResult, DeviceClassSpec, ExactDeviceRequest,
    FIRST_AVAILABLE_MAX_SIZE, ResourceClaimSpec,
};
use crate::inventory::Inventory;
use crate::plan::{ClaimPlan, plan};
use crate::pools::{Node, Pool, gather, relevant_slices};
use crate::result::FoundClaim;
use crate::search::Search;
use crate::selector::{SelectorCache, SelectorError};

/// A claim that is to be allocated.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Its namespace.
    pub namespace: CompactString,
    /// Its name.
    pub name: CompactString,
    /// The requested devices.
    pub spec: Arc<ResourceClaimSpec>,
}

/// How much may still be done for one pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Devices tried and requests looked at on one node.
    pub steps_per_node: u64,
    /// The same on all nodes together.
    pub steps: u64,
    /// Cost of selectors, as the Common Expression Language counts it.
    pub cost: u64,
}

/// Error of an allocation other than missing devices. The message is kube-scheduler's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AllocationError {
    /// A selector of an unknown kind.
    #[error(
        "claim {claim}, request {request}, selector #{index}: CEL expression empty (unsupported selector type?)"
    )]
    EmptySelector {
        /// The claim.
        claim: String,
        /// The request.
        request: CompactString,
        /// The selector's position.
        index: usize,
    },
    /// A feature is off that a request needs.
    #[error("claim {claim}, {kind} {request}: {what}")]
    FeatureDisabled {
        /// The claim.
        claim: String,
        /// `request` or `subrequest`.
        kind: &'static str,
        /// The request.
        request: CompactString,
        /// The requirement.
        what: &'static str,
    },
    /// A request of an unknown kind.
    #[error(
        "claim {claim}, request {request}: missing device class name (unsupported request type?)"
    )]
    MissingClassName {
        /// The claim.
        claim: String,
        /// The request.
        request: CompactString,
    },
    /// A class does not exist.
    #[error(
        "claim {claim}, request {request}: could not retrieve device class {class}: deviceclass.resource.k8s.io \"{class}\" not found"
    )]
    MissingClass {
        /// The claim.
        claim: String,
        /// The request.
        request: CompactString,
        /// The class.
        class: CompactString,
    },
    /// An allocation mode of an unknown kind.
    #[error("claim {claim}, request {request}: unsupported count mode {mode}")]
    UnsupportedMode {
        /// The claim.
        claim: String,
        /// The request.
        request: CompactString,
        /// The mode.
        mode: CompactString,
    },
    /// All devices are requested, but they are not completely known.
    #[error(
        "claim {claim}, request {request}: asks for all devices, but resource pool {pool} is currently {state}"
    )]
    UnknownDevices {
        /// The claim.
        claim: String,
        /// The request.
        request: CompactString,
        /// The pool, as `driver/pool`.
        pool: String,
        /// `being updated` or `invalid`.
        state: &'static str,
    },
    /// More devices than a claim can have.
    #[error(
        "claim {claim}: number of requested devices {devices} exceeds the claim limit of {ALLOCATION_RESULTS_MAX_SIZE}"
    )]
    TooManyDevices {
        /// The claim.
        claim: String,
        /// How many are needed at least.
        devices: usize,
    },
    /// A constraint of an unknown kind.
    #[error("claim {claim}, constraint #{index}: empty constraint (unsupported constraint type?)")]
    EmptyConstraint {
        /// The claim.
        claim: String,
        /// The constraint's position.
        index: usize,
    },
    /// All devices are requested, and they violate a constraint.
    #[error(
        "claim {claim}, request {request}: cannot add device {device} because a claim constraint would not be satisfied"
    )]
    ConstraintNotSatisfied {
        /// The claim.
        claim: String,
        /// The request.
        request: CompactString,
        /// The device, as `driver/pool/device`.
        device: String,
    },
    /// A selector of a class failed.
    #[error("class {class}: selector #{index}: {error}")]
    ClassSelector {
        /// The class.
        class: CompactString,
        /// The selector's position.
        index: usize,
        /// The reason.
        error: SelectorError,
    },
    /// A selector of a claim failed.
    #[error("claim {claim}: selector #{index}: {error}")]
    ClaimSelector {
        /// The claim.
        claim: String,
        /// The selector's position.
        index: usize,
        /// The reason.
        error: SelectorError,
    },
    /// A pool's devices cannot be used, and no others fit. Concerns this node only.
    #[error("invalid resource pools were encountered")]
    InvalidPools,
    /// The search took too long.
    #[error("node {node}: timed out trying to allocate devices")]
    TimedOut {
        /// The node.
        node: CompactString,
    },
    /// A slice has a node selector that cannot be put into an allocation.
    #[error(
        "create NodeSelector for claim {claim}: unsupported ResourceSlice.NodeSelector with {terms} terms"
    )]
    NodeSelectorTerms {
        /// The claim.
        claim: CompactString,
        /// How many terms it has.
        terms: usize,
    },
}

/// Finds devices for the claims of one pod, node by node.
pub struct Allocator<'a> {
    inventory: &'a Inventory,
    allocated: &'a AllocatedDevices,
    features: Features,
    claims: Vec<Claim>,
    plans: Vec<ClaimPlan>,
    /// Nodes with the same slices get the same devices.
    outcomes: FxHashMap<Vec<u64>, Outcome>,
    counters: FxHashMap<PoolId, Arc<AvailableCounters>>,
}

type Outcome = Result<Option<Arc<FoundAllocation>>, AllocationError>;

/// Devices found for all claims on one node.
#[derive(Clone, Debug)]
pub struct FoundAllocation {
    pub(crate) claims: Vec<FoundClaim>,
}

/// Counters of a pool, less what allocated devices consume.
#[derive(Debug)]
pub(crate) struct AvailableCounters {
    pub values: Vec<Quantity>,
    /// Whether more of a counter is consumed than there is.
    pub is_exceeded: bool,
}

// === impl Effort ===

impl Default for Effort {
    fn default() -> Self {
        Self {
            steps_per_node: 200_000,
            steps: 4_000_000,
            cost: 10_000_000,
        }
    }
}

impl Effort {
    /// Whether nothing more may be done.
    #[must_use]
    pub const fn is_spent(&self) -> bool {
        self.steps == 0 || self.cost == 0
    }
}

// === impl AllocationError ===

impl AllocationError {
    /// Whether other nodes may fit nevertheless.
    #[must_use]
    pub const fn is_of_node(&self) -> bool {
        matches!(self, Self::InvalidPools)
    }
}

// === impl Allocator ===

impl<'a> Allocator<'a> {
    /// Prepares the allocation of claims. `classes` looks a DeviceClass up by its name.
    pub fn new(
        inventory: &'a Inventory,
        allocated: &'a AllocatedDevices,
        features: Features,
        claims: Vec<Claim>,
        classes: &dyn Fn(&str) -> Option<Arc<DeviceClassSpec>>,
        selectors: &mut SelectorCache,
    ) -> Self {
        let plans = claims
            .iter()
            .map(|claim| plan(claim, classes, &features, selectors))
            .collect();
        Self {
            inventory,
            allocated,
            features,
            claims,
            plans,
            outcomes: FxHashMap::default(),
            counters: FxHashMap::default(),
        }
    }

    /// Finds devices for all claims on a node: the first that fit, in the order of
    /// drivers, pools, slices and devices. Returns `None` if there are none.
    ///
    /// # Errors
    /// Invalid claims, classes or pools, or an exhausted effort.
    pub fn allocate(
        &mut self,
        node: &dyn Node,
        selectors: &mut SelectorCache,
        effort: &mut Effort,
    ) -> Outcome {
        let slices = relevant_slices(self.inventory, node, &self.features);
        let is_shareable = !slices.iter().any(|slice| slice.selects_nodes_per_device());
        let key: Vec<u64> = slices.iter().map(|slice| slice.serial).collect();
        if is_shareable && let Some(known) = self.outcomes.get(&key) {
            return match known {
                Err(AllocationError::TimedOut { .. }) => Err(timed_out(node)),
                known => known.clone(),
            };
        }
        let pools = gather(self.inventory, &slices, &self.features);
        let counters = pools
            .iter()
            .map(|pool| self.available_counters(pool))
            .collect();
        let outcome = Search::new(
            &self.claims,
            &self.plans,
            &pools,
            counters,
            self.allocated,
            node,
            self.features,
            selectors,
            effort,
        )
        .run();
        if is_shareable {
            self.outcomes.insert(key, outcome.clone());
        }
        outcome
    }

    /// The allocations to be written for devices found on a node. `share_id` makes
    /// identities of shares.
    ///
    /// # Errors
    /// A slice's node selector cannot be put into an allocation.
    pub fn results(
        &self,
        found: &FoundAllocation,
        node: &str,
        share_id: &mut dyn FnMut() -> CompactString,
    ) -> Result<Vec<AllocationResult>, AllocationError> {
        let claims = self.claims.iter().zip(&self.plans).zip(&found.claims);
        claims
            .map(|((claim, plan), found)| found.result(claim, plan, &self.features, node, share_id))
            .collect()
    }

    /// The claims, in the order in which they are allocated.
    #[must_use]
    pub fn claims(&self) -> &[Claim] {
        &self.claims
    }

    fn available_counters(&mut self, pool: &Pool) -> Option<Arc<AvailableCounters>> {
        let counters = &pool.generation.counters;
        if counters.values.is_empty() || !self.features.partitionable_devices {
            return None;
        }
        if let Some(known) = self.counters.get(&pool.id) {
            return Some(Arc::clone(known));
        }
        let mut values = counters.values.clone();
        if let Some(in_use) = self.allocated.pool(&pool.id) {
            let devices = pool.generation.slices.iter();
            for device in devices.flat_map(|slice| &slice.spec.devices) {
                if device.consumes_counters.is_empty() || !in_use.is_allocated(&device.name) {
                    continue;
                }
                for (counter, amount) in counters.consumed(&device.consumes_counters) {
                    if let Some(value) = values.get_mut(counter) {
                        value.sub(amount);
                    }
                }
            }
        }
        let available = Arc::new(AvailableCounters {
            is_exceeded: values.iter().any(|value| value.signum() < 0),
            values,
        });
        self.counters
            .insert(pool.id.clone(), Arc::clone(&available));
        Some(available)
    }
}

pub(crate) fn timed_out(node: &dyn Node) -> AllocationError {
    AllocationError::TimedOut {
        node: node.name().into(),
    }
}

// === impl Found ===

impl FoundAllocation {
    /// The score of prioritized lists: the more, the better are the alternatives.
    #[must_use]
    pub fn score(&self) -> i64 {
        self.claims.iter().map(FoundClaim::score).sum()
    }
}

// === impl Claim ===

impl Claim {
    /// `namespace/name`
    pub(crate) fn reference(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// The score of an alternative of a prioritized list.
pub(crate) fn alternative_score(position: usize) -> i64 {
    i64::try_from(FIRST_AVAILABLE_MAX_SIZE.saturating_sub(position)).unwrap_or(0)
}

/// The score of prioritized lists in a claim that has its allocation.
#[must_use]
pub fn allocation_score(spec: &ResourceClaimSpec, allocation: &AllocationResult) -> i64 {
    let chosen = |request: &str, alternative: &ExactDeviceRequest| {
        let mut results = allocation.devices.results.iter();
        results.any(|result| {
            result.request.split_once('/') == Some((request, alternative.name.as_str()))
        })
    };
    let lists = spec
        .devices
        .requests
        .iter()
        .filter(|request| request.exactly.is_none());
    lists
        .flat_map(|request| {
            let alternatives = request.first_available.iter().enumerate();
            alternatives.filter(|(_, alternative)| chosen(&request.name, alternative))
        })
        .map(|(position, _)| alternative_score(position))
        .sum()
}

#[cfg(test)]
#[path = "allocator_tests.rs"]
mod tests;

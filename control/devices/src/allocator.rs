//! Allocates devices to the claims of a pod on a node.

use std::sync::Arc;

use compact_str::CompactString;
use rustc_hash::FxHashMap;

use crate::allocated::{AllocatedDevices, PoolId};
use crate::api::{AllocationResult, DeviceClassSpec};
use crate::claim::Claim;
use crate::effort::Effort;
use crate::error::AllocationError;
use crate::features::Features;
use crate::inventory::Inventory;
use crate::plan::{ClaimPlan, plan};
use crate::pools::{AvailableCounters, Node, Pool, gather, relevant_slices};
use crate::result::FoundAllocation;
use crate::search::{Search, timed_out};
use crate::selector::SelectorCache;

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

#[cfg(test)]
#[path = "allocator_tests.rs"]
mod tests;

//! Dynamic resource allocation with structured parameters (KEP 4381): allocates devices
//! to claims, as kube-scheduler 1.36 does. Pure.
//!
//! ```text
//! ResourceSlices ──▶ Inventory ───────┐
//! claims' status ──▶ AllocatedDevices ┼──▶ Allocator ── allocate(node) ──▶ Found ──▶ AllocationResult
//! claims, classes ────────────────────┘
//! ```
//!
//! [`Inventory`] and [`AllocatedDevices`] are updated with each change. For a pod, an
//! [`Allocator`] is built from its unallocated claims, and searches node by node; nodes
//! with the same slices share one search. The search takes the first devices that fit, in
//! upstream's order, so that the same devices are chosen, and stops when it has spent its
//! [`Effort`].

mod allocated;
mod allocator;
pub mod api;
mod binding;
mod capacity;
mod constraint;
mod extended;
mod inventory;
mod plan;
mod pools;
mod result;
mod search;
mod selector;

pub use allocated::{AllocatedDevices, PoolId, PoolUse};
pub use allocator::{AllocationError, Allocator, Claim, Effort, FoundAllocation, allocation_score};
pub use binding::{BindingState, DeviceCondition, DeviceStatus, binding_state};
pub use extended::{
    ContainerRequests, ContainerResourceRequest, ExtendedResourceClasses, extended_requests,
    is_extended_resource,
};
pub use inventory::Inventory;
pub use pools::Node;
pub use selector::{SelectorCache, SelectorError, environment};

#[cfg(test)]
mod property_tests;

/// Optional parts of allocation, by Kubernetes' feature gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// `DRAAdminAccess`
    pub admin_access: bool,
    /// `DRAPrioritizedList`
    pub prioritized_list: bool,
    /// `DRAPartitionableDevices`
    pub partitionable_devices: bool,
    /// `DRAConsumableCapacity`
    pub consumable_capacity: bool,
    /// `DRADeviceTaints`
    pub device_taints: bool,
    /// `DRADeviceTaintRules`
    pub device_taint_rules: bool,
    /// `DRADeviceBindingConditions` with `DRAResourceClaimDeviceStatus`
    pub binding_conditions: bool,
    /// `DRAExtendedResource`
    pub extended_resources: bool,
    /// `DRAListTypeAttributes`
    pub list_type_attributes: bool,
}

impl Default for Features {
    /// The defaults of Kubernetes 1.36.
    fn default() -> Self {
        Self {
            admin_access: true,
            prioritized_list: true,
            partitionable_devices: true,
            consumable_capacity: true,
            device_taints: true,
            device_taint_rules: false,
            binding_conditions: true,
            extended_resources: true,
            list_type_attributes: false,
        }
    }
}

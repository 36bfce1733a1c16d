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
mod claim;
mod constraint;
mod effort;
mod error;
mod extended;
mod features;
mod inventory;
mod plan;
mod pools;
mod result;
mod score;
mod search;
mod selector;

pub use allocated::{AllocatedDevices, PoolId, PoolUse};
pub use allocator::Allocator;
pub use binding::{BindingState, DeviceCondition, DeviceStatus, binding_state};
pub use claim::Claim;
pub use effort::Effort;
pub use error::AllocationError;
pub use extended::{
    ContainerRequests, ContainerResourceRequest, ExtendedResourceClasses, extended_requests,
    is_extended_resource,
};
pub use features::Features;
pub use inventory::Inventory;
pub use pools::Node;
pub use result::FoundAllocation;
pub use score::allocation_score;
pub use selector::{SelectorCache, SelectorError, environment};

#[cfg(test)]
mod property_tests;

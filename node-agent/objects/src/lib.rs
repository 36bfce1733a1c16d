//! Lean views of the API objects that the kubelet's parts read, where they come from
//! ([`source`]), and what their fields mean.

pub mod api;
pub mod argument_expansion;
pub mod claim;
pub mod events;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
pub mod fields;
pub mod follow;
pub mod pod;
pub mod quantity;
pub mod resource_claim;
pub mod source;
pub mod status;
pub mod times;
pub mod volume;

pub use control_types::error_chain;

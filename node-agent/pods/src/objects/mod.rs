//! Lean views of the API objects that the agent reads, and where they come from.

pub mod api;
pub mod claim;
pub mod follow;
pub mod pod;
pub mod resource_claim;
pub mod source;
pub mod status;
pub mod volume;

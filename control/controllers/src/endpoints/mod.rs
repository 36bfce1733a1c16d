//! Service endpoints: slices, the legacy object, and mirrored slices.

mod canonical;
mod legacy;
mod mirror;
mod pods;
mod reconciler;
mod slices;
mod trigger_time;

pub use legacy::CONTROLLER as LEGACY;
pub use mirror::CONTROLLER as MIRROR;
pub use slices::CONTROLLER as SLICES;

//! Service endpoints: slices, the legacy object, and mirrored slices.

mod canonical;
mod keeper;
mod legacy;
mod mirror;
mod pods;
mod slices;
mod trigger_time;

pub use legacy::CONTROLLER as LEGACY;
pub use mirror::CONTROLLER as MIRROR;
pub use slices::CONTROLLER as SLICES;

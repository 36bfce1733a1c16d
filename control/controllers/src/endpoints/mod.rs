//! Service endpoints: slices, the legacy object, and mirrored slices.

mod pods;
mod slices;

pub use slices::CONTROLLER as SLICES;

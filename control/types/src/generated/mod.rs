//! Written by `cargo xtask generate` from the published Kubernetes API; do not edit.

#[rustfmt::skip]
pub mod names;
#[rustfmt::skip]
pub mod resources;
#[rustfmt::skip]
pub mod schema;

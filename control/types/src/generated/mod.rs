//! Written by `cargo xtask generate` from the published Kubernetes API; do not edit.

#[rustfmt::skip]
pub mod internal;
#[rustfmt::skip]
pub mod names;
#[rustfmt::skip]
pub mod resources;
#[rustfmt::skip]
pub mod schema;

/// What the API says in words, as `xtask/src/generate/texts.rs` lays it out.
pub static TEXTS: &[u8] = include_bytes!("texts.z");

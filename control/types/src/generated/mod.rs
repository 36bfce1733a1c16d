//! Tables written by `cargo xtask generate` from the published Kubernetes API.

pub mod names;

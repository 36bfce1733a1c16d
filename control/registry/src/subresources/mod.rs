//! Subresources that have a kind of their own and write objects.

pub mod binding;
pub mod eviction;
pub mod scale;

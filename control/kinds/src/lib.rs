//! Everything particular to a kind: defaults, validation, strategy, printed columns and
//! selectable fields. Pure functions over object trees.
//!
//! The API server handles every kind, built-in or custom, in one way, and calls [`find_kind`]
//! for the few decisions that no table of the registry can express. Each kind is one file
//! under `kinds/` of one shape; rules that several kinds share are under `rules/`.
//!
//! The API server calls for a create: coerce (types) → [`Kind::default`] → admission →
//! allocate (services) → [`Kind::before_create`] → store. For an update: coerce → default
//! → admission → [`Kind::before_update`]. [`Kind::row`] makes table rows.

pub mod admission;
pub mod approval;
pub mod convert;
mod custom;
mod diff;
mod empties;
mod error;
mod generic;
mod kind;
mod kinds;
pub mod local_storage;
pub mod pod_security;
pub mod policies;
pub mod quota;
mod reset;
pub mod reviews;
pub mod rules;
mod scale;
pub mod service;
mod table;
mod tree;

pub use control_types::value::Value;
pub use custom::{CustomKind, compare_versions};
pub use empties::kept_when_empty;
pub use error::{ErrorKind, Errors, FieldError, Path};
pub use generic::GENERIC;
pub use kind::{Field, Kind, Scale, Subresource};
pub use reset::{Reset, reset};
pub use scale::SCALE;
pub use table::{Column, Timestamp};

/// Returns everything particular to `kind` of `group`; [`GENERIC`] for kinds without
/// particularities.
#[must_use]
pub fn find_kind(group: &str, kind: &str) -> &'static Kind {
    kinds::ALL
        .iter()
        .copied()
        .find(|k| k.kind == kind && k.group == group)
        .unwrap_or(&GENERIC)
}

/// Every kind that has something particular.
pub fn all() -> impl Iterator<Item = &'static Kind> {
    kinds::ALL.iter().copied()
}

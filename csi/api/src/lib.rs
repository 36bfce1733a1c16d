//! The messages of the Container Storage Interface 1.13 (`csi.v1`) and of the kubelet's
//! plugin registration, for drivers and for their callers.
//!
//! A `oneof` is one field per member here: the bytes are the same, and a receiver can
//! reject a message that sets two of them. Fields that a caller of an older version does
//! not know are absent from its bytes and have their default.

#![expect(
    missing_docs,
    reason = "each field is documented by the published protocols, whose names these are"
)]

mod common;
mod controller;
mod group;
mod identity;
mod metadata;
mod node;
pub mod registration;

pub use common::*;
pub use controller::*;
pub use group::*;
pub use identity::*;
pub use metadata::*;
pub use node::*;

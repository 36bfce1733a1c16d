//! The messages of the Container Runtime Interface, version `runtime.v1`: only
//! the fields that the agent reads or writes. Field numbers are those of the
//! published protocol; unknown fields are skipped by the decoder, so a newer
//! runtime may send more.
//!
//! Written by hand, so that a build needs no protocol compiler. One file per
//! family of messages; all are used by the protocol's flat names.

#![expect(
    missing_docs,
    reason = "each field is documented by the published CRI protocol, whose names these are"
)]

/// Messages without fields.
macro_rules! empty {
    ($($name:ident),* $(,)?) => {
        $(#[derive(Clone, Copy, PartialEq, ::prost::Message)]
        pub struct $name {})*
    };
}

mod config;
mod container;
mod events;
mod image;
mod sandbox;
mod stats;
mod streams;
mod version;

pub use config::*;
pub use container::*;
pub use events::*;
pub use image::*;
pub use sandbox::*;
pub use stats::*;
pub use streams::*;
pub use version::*;

//! The tree in which an API object is read and changed.
//!
//! Only work that looks inside an object builds a tree: patches, defaults, validation,
//! admission. Everything else moves encoded bytes. A tree keeps field names as numbers
//! and short strings inline, and so is smaller than a `serde_json::Value`.

mod key;
mod macros;
mod map;
mod parse;
mod pick;
mod serde_impl;
mod tree;
mod write;

pub use key::Key;
pub use map::Map;
pub use parse::{Error, MAX_DEPTH, ParsedJson};
pub use pick::Pick;
pub use serde_impl::{ConvertError, from_value, to_value};
pub use tree::Value;
pub(crate) use write::{write_float, write_string};

/// Returns the empty array from which [`value!`](crate::value!) starts.
#[doc(hidden)]
#[must_use]
pub const fn no_items() -> Vec<Value> {
    Vec::new()
}

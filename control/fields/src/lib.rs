//! Field ownership: which manager set which field of an object, and the effects of writes
//! on it.
//!
//! KEP-555 (server-side apply) is the specification; the wire form is
//! `metadata.managedFields`, whose `fieldsV1` is a trie of path elements. This crate is
//! pure: it takes trees and a [`Schema`] view of their type and returns trees, [`Set`]s
//! and errors in Kubernetes' words.
//!
//! From the bottom up: an [`Element`] is one step of a path, a [`Set`] a trie of paths,
//! [`typed`] contains operations on trees that need a type (compare, merge, remove,
//! extract), [`update`] the ownership rules of Update and Apply, [`managed`] the list of
//! managers in an object, and [`manager`] the API server's steps around them on each
//! write.
//!
//! ```
//! use control_fields::{Element, Set};
//!
//! let mut set = Set::new();
//! set.insert(&[Element::field("spec"), Element::field("replicas")]);
//! assert_eq!(set.paths().len(), 1);
//! ```

mod element;
mod encoding;
mod filter;
pub mod managed;
pub mod manager;
mod scale;
mod schema;
mod set;
pub mod typed;
pub mod update;

pub use element::{Element, Path};
pub use encoding::FormatError;
pub use filter::Filter;
pub use scale::Scale;
pub use schema::{Atom, Default, ListAtom, MapAtom, Relation, Scalar, Schema};
pub use set::Set;

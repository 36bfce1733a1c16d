//! Field ownership: who set which field of an object, and what becomes of it
//! when somebody else writes.
//!
//! KEP-555 (server-side apply) is the specification; the wire form is
//! `metadata.managedFields`, whose `fieldsV1` is a trie of path elements. This
//! crate is pure: it takes trees and a [`Schema`] view of their type and answers
//! trees, [`Set`]s and errors worded as Kubernetes words them.
//!
//! From the bottom up: an [`Element`] is one step of a path, a [`Set`] a trie of
//! paths, [`typed`] the operations on trees that need to know a type (compare,
//! merge, remove, extract), [`update`] the ownership rules of Update and Apply,
//! [`managed`] the list of managers as an object carries it, and [`manager`] what
//! the API server does around them on each write.

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

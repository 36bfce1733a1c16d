//! What is particular to the objects of a resource, built-in or custom.
//!
//! Handlers ask a [`ResourceStrategy`] how a kind behaves and an [`ObjectSchema`] what
//! its objects look like, never whether a CustomResourceDefinition stands behind them.
//! With these, request bodies become objects ([`decode`]), and objects become tables
//! ([`table`]), protobuf ([`protobuf`]) and objects of other versions ([`convert`]).

pub mod convert;
mod crd_versions;
pub mod decode;
pub mod invalid;
pub mod names;
mod object_cache;
mod object_schema;
pub mod protobuf;
mod resource_strategy;
mod served_version;
pub mod table;

pub use crd_versions::CrdVersions;
pub use object_cache::{CachedObject, ObjectCache};
pub use object_schema::ObjectSchema;
pub use resource_strategy::ResourceStrategy;
pub use served_version::{ServedVersion, name_of};

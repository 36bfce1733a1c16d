//! Compiled expressions and their evaluation.

mod authorizer;
pub(crate) mod compile;
mod conversions;
mod convert;
pub(crate) mod cost;
pub(crate) mod encoding;
pub(crate) mod error;
pub(crate) mod eval;
mod format;
mod library;
mod lists;
pub(crate) mod meter;
pub(crate) mod moment;
pub(crate) mod native;
pub(crate) mod node;
mod operators;
mod optionals;
pub(crate) mod program;
mod strings;
mod time;
mod tree;
pub(crate) mod value;

pub use error::Error;
pub use moment::Moment;
pub use program::{Bindings, Budget, Program};
pub use value::{ConstructedValue, Entries, Key, Lazy, List, Text, Val};

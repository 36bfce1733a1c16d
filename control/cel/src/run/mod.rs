//! Compiled expressions and their evaluation.

pub(crate) mod authorizer;
pub(crate) mod compile;
pub(crate) mod convert;
pub(crate) mod cost;
pub(crate) mod error;
pub(crate) mod eval;
mod format;
mod lists;
pub(crate) mod native;
pub(crate) mod node;
mod operators;
mod optionals;
pub(crate) mod program;
pub(crate) mod strings;
pub(crate) mod time;
pub(crate) mod value;

pub use authorizer::{Authorizer, Check, Decision, Question};
pub use error::Error;
pub use program::{Bindings, Budget, Program};
pub use value::{ConstructedValue, Entries, Key, Lazy, List, Moment, Text, Val};

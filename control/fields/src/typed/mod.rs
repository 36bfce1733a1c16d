//! Operations on trees that need to know their type.

mod atomics;
mod compare;
mod field_set;
mod items;
mod merge;
mod problem;
mod remove;
mod validate;

pub use atomics::atomics;
pub use compare::{Comparison, compare};
pub use field_set::field_set;
pub(crate) use items::find;
pub use merge::merge;
pub use problem::{Problem, Problems};
pub use remove::{extract, remove};
pub use validate::{Duplicates, validate};

#[cfg(test)]
mod tests;

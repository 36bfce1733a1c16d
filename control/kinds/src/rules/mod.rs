//! Rules that several kinds share, each stated once.

pub(crate) mod labels;
pub(crate) mod meta;
pub mod names;

use control_types::value::Value;

use crate::error::{Errors, Path};
use crate::tree::same;

/// A field that may not change.
pub(crate) fn immutable(new: &Value, old: &Value, at: &Path<'_>, errors: &mut Errors) {
    if !same(new, old) {
        errors.invalid(at, new.clone(), "field is immutable");
    }
}

/// A number that may not be negative.
pub(crate) fn non_negative(number: i64, at: &Path<'_>, errors: &mut Errors) {
    if number < 0 {
        errors.invalid(at, number, "must be greater than or equal to 0");
    }
}

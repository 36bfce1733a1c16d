//! One file per kind, all of one shape: a `static KIND`.

use crate::Kind;

/// Every kind that has something particular.
pub(crate) static ALL: &[&Kind] = &[];

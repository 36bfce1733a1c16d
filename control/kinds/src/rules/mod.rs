//! Rules that several kinds share, each stated once.

pub(crate) mod app_armor;
pub(crate) mod claims;
pub(crate) mod conditions;
pub(crate) mod container;
pub(crate) mod crd_fields;
pub(crate) mod crd_rules;
pub(crate) mod crd_schema;
pub(crate) mod crd_structural;
pub(crate) mod defaults;
pub(crate) mod device_slices;
pub(crate) mod devices;
pub(crate) mod env_files;
pub(crate) mod expressions;
pub(crate) mod gates;
pub(crate) mod ip;
pub(crate) mod labels;
pub(crate) mod matching;
pub(crate) mod meta;
pub mod names;
pub(crate) mod node_labels;
pub(crate) mod pem;
pub(crate) mod placement;
pub(crate) mod pod_status;
pub(crate) mod pod_warnings;
pub(crate) mod ports;
pub(crate) mod profiles;
pub(crate) mod qos;
pub(crate) mod quantity;
pub(crate) mod resources;
pub(crate) mod security;
pub(crate) mod tolerations;
pub(crate) mod validate_batch;
pub(crate) mod validate_job;
pub(crate) mod validate_pod;
pub(crate) mod validate_resize;
pub(crate) mod validate_service;
pub(crate) mod validate_workload;
pub(crate) mod vendor_volumes;
pub(crate) mod volume_spec;
pub(crate) mod volumes;
pub(crate) mod windows;

use control_types::internal;
use control_types::value::Value;

use crate::FieldError;
use crate::diff;
use crate::error::{Errors, Path};
use crate::tree::same;

/// The errors that `check` finds.
pub(crate) fn collect(check: impl FnOnce(&mut Errors)) -> Vec<FieldError> {
    let mut errors = Errors::new();
    check(&mut errors);
    errors.into_vec()
}

/// The annotations and labels of a template's metadata.
pub(crate) fn annotations_and_labels(metadata: &Value, at: &Path<'_>, errors: &mut Errors) {
    use crate::tree::Read;
    meta::annotations(metadata.at("annotations"), &at.child("annotations"), errors);
    labels::labels(metadata.at("labels"), &at.child("labels"), errors);
}

/// A value out of an enumeration (sorted, as the message lists it).
pub(crate) fn one_of(value: &str, of: &[&str], at: &Path<'_>, errors: &mut Errors) {
    if !of.contains(&value) {
        errors.not_supported(at, value, of);
    }
}

/// A field that may not change.
pub(crate) fn immutable(new: &Value, old: &Value, at: &Path<'_>, errors: &mut Errors) {
    if !same(new, old) {
        errors.invalid(at, new.clone(), "field is immutable");
    }
}

/// A text that may not change; none is an empty one.
pub(crate) fn immutable_text(new: &str, old: &str, at: &Path<'_>, errors: &mut Errors) {
    if new != old {
        errors.invalid(at, new, "field is immutable");
    }
}

/// A structure that may not change; messages show it as the type of that name
/// (see [`control_types::internal`]).
pub(crate) fn immutable_as(
    name: &str,
    new: &Value,
    old: &Value,
    at: &Path<'_>,
    errors: &mut Errors,
) {
    if !same(new, old) {
        errors.invalid(at, internal::form(name, new), "field is immutable");
    }
}

/// How two structures differ, as messages show it.
pub(crate) fn difference(name: &str, before: &Value, after: &Value) -> String {
    diff::unified(&internal::form(name, before), &internal::form(name, after))
}

/// Checks that a number is not negative.
pub(crate) fn non_negative(number: i64, at: &Path<'_>, errors: &mut Errors) {
    if number < 0 {
        errors.invalid(at, number, "must be greater than or equal to 0");
    }
}

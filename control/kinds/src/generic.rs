//! The kind of all kinds that have nothing particular: metadata is validated,
//! and where there is a spec, its changes raise the generation.

use control_types::value::Value;

use crate::rules::{collect, meta};
use crate::tree::{Read, Write, same};
use crate::{FieldError, Kind, table};

/// The defaults of every kind.
pub static GENERIC: Kind = DEFAULT;

/// A kind without generations and without status, as a start for `..PLAIN`.
pub(crate) const PLAIN: Kind = Kind {
    prepare_create: nothing,
    prepare_update: keep,
    prepare_status_update: keep,
    ..DEFAULT
};

/// The same as a constant, for `..DEFAULT` in a kind's table.
pub(crate) const DEFAULT: Kind = Kind {
    group: "",
    kind: "",
    namespaced: None,
    template: None,
    default: nothing,
    prepare_create: first_generation,
    prepare_update: update_spec,
    prepare_status_update: update_status,
    validate_create: validate,
    settle: nothing,
    validate_update: meta_update,
    validate_status_update: meta_update,
    subresources: &[],
    warnings: no_warnings,
    selectable: &[],
    selectable_as: &[],
    selectable_from: &[],
    selectable_fields: no_fields,
    field_annotations: &[],
    columns: table::NAME_AGE,
    row: table::name_age,
    row_conditions: no_conditions,
    allow_create_on_update: false,
    allow_unconditional_update: false,
    undeletable: |_| None,
    graceful: None,
    begin_deletion: None,
    scale: None,
};

/// Changes nothing.
pub(crate) fn nothing(_: &mut Value) {}

/// Changes nothing of an update.
pub(crate) fn keep(_: &mut Value, _: &Value) {}

/// An update whose metadata alone is looked at.
pub(crate) fn meta_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| meta::update(new, old, errors))
}

fn no_warnings(_: &Value, _: Option<&Value>) -> Vec<String> {
    Vec::new()
}

fn no_conditions(_: &Value) -> Vec<Value> {
    Vec::new()
}

fn no_fields(_: &Value) -> Vec<crate::Field> {
    Vec::new()
}

/// Generation 1.
pub(crate) fn generation_one(object: &mut Value) {
    object.make("metadata").put("generation", 1_i64);
}

/// A kind without generations: only the status goes.
pub(crate) fn no_status(object: &mut Value) {
    object.drop_field("status");
}

/// A kind without generations: only the status stays.
pub(crate) fn keep_status(new: &mut Value, old: &Value) {
    new.take_from(old, "status");
}

/// Generation 1, and no status yet.
pub(crate) fn first_generation_no_status(object: &mut Value) {
    object.drop_field("status");
    generation_one(object);
}

/// Generation 1 where there is a spec, and no status yet.
pub(crate) fn first_generation(object: &mut Value) {
    object.drop_field("status");
    if object.has("spec") {
        generation_one(object);
    }
}

/// Keeps the status; a changed spec raises the generation.
pub(crate) fn update_spec(new: &mut Value, old: &Value) {
    new.take_from(old, "status");
    raise_generation_on(new, old, &["spec"]);
}

/// Raises the generation when one of `fields` changed.
pub(crate) fn raise_generation_on(new: &mut Value, old: &Value, fields: &[&str]) {
    if fields
        .iter()
        .any(|field| !same(new.at(field), old.at(field)))
    {
        raise_generation(new, old);
    }
}

/// Raises the generation.
pub(crate) fn raise_generation(new: &mut Value, old: &Value) {
    let generation = old.at("metadata").num("generation");
    new.make("metadata")
        .put("generation", generation.saturating_add(1));
}

/// Keeps the spec.
pub(crate) fn update_status(new: &mut Value, old: &Value) {
    new.take_from(old, "spec");
}

/// Keeps the metadata that a status update may not touch, and the spec.
pub(crate) fn update_status_keep_metadata(new: &mut Value, old: &Value) {
    update_status(new, old);
    keep_metadata(new, old);
}

/// Keeps the metadata that a status update may not touch.
pub(crate) fn keep_metadata(new: &mut Value, old: &Value) {
    let metadata = new.make("metadata");
    for field in [
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "annotations",
        "finalizers",
        "ownerReferences",
    ] {
        metadata.take_from(old.at("metadata"), field);
    }
}

/// Keeps the spec and the labels, as most kinds of `apps` and `batch` do.
pub(crate) fn update_status_keep_labels(new: &mut Value, old: &Value) {
    update_status(new, old);
    new.make("metadata").take_from(old.at("metadata"), "labels");
}

fn validate(object: &Value) -> Vec<FieldError> {
    meta::validate_path_segments(object, None)
}

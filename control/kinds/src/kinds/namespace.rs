//! Namespace: a room for names; deleted only when it is empty.

use control_types::value::Value;

use crate::error::{Errors, Path};
use crate::generic::PLAIN;
use crate::rules::{collect, meta, names};
use crate::table::{Timestamp, age, columns, name};
use crate::tree::{Read, Write};
use crate::{Field, FieldError, Kind, Subresource};

pub(crate) static KIND: Kind = Kind {
    group: "",
    kind: "Namespace",
    namespaced: Some(false),
    default,
    prepare_create,
    prepare_update,
    prepare_status_update,
    validate_create,
    validate_update,
    validate_status_update,
    subresources: &[Subresource {
        name: "finalize",
        prepare: prepare_finalize,
        validate: validate_finalize,
    }],
    selectable: &["status.phase"],
    selectable_fields,
    columns: columns::NAMESPACE,
    row,
    allow_unconditional_update: true,
    begin_deletion: Some(|object| object.make("status").put("phase", "Terminating")),
    ..PLAIN
};

fn default(object: &mut Value) {
    let name = object.at("metadata").text("name").to_owned();
    if !name.is_empty() {
        object
            .make("metadata")
            .make("labels")
            .put("kubernetes.io/metadata.name", name);
    }
    object.make("status").blank("phase", "Active");
}

fn prepare_create(object: &mut Value) {
    let mut status = Value::object();
    status.put("phase", "Active");
    object.put("status", status);
    let spec = object.make("spec");
    let mut finalizers = spec.items("finalizers").to_vec();
    if !finalizers.iter().any(|f| f.as_text() == "kubernetes") {
        finalizers.push("kubernetes".into());
    }
    spec.put("finalizers", Value::Array(finalizers));
    // the label must contain generated names, too
    default(object);
}

fn prepare_update(new: &mut Value, old: &Value) {
    let finalizers = old.at("spec").items("finalizers").to_vec();
    new.make("spec").put("finalizers", Value::Array(finalizers));
    new.take_from(old, "status");
}

fn prepare_status_update(new: &mut Value, old: &Value) {
    new.take_from(old, "spec");
}

fn prepare_finalize(new: &mut Value, old: &Value) {
    new.take_from(old, "status");
}

fn check(object: &Value, errors: &mut Errors) {
    meta::validate(object, Some(false), names::label_name, errors);
    check_finalizers(object, false, errors);
}

/// `each`: whether errors name the item rather than the list.
fn check_finalizers(object: &Value, each: bool, errors: &mut Errors) {
    let list = Path::new("spec.finalizers");
    let finalizers = object.at("spec").items("finalizers").iter();
    for (index, finalizer) in finalizers.map(Read::as_text).enumerate() {
        let item = list.index(index);
        let at = if each { item } else { list };
        errors.invalid_each(&at, finalizer, names::qualified(finalizer));
        meta::kube_finalizer(finalizer, &at, errors);
    }
}

fn validate_create(object: &Value) -> Vec<FieldError> {
    collect(|errors| check(object, errors))
}

fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        check(new, errors);
        meta::update(new, old, errors);
    })
}

fn validate_status_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update(new, old, errors);
        let at = Path::new("status.Phase");
        let phase = new.at("status").text("phase");
        let deleting = new.at("metadata").has("deletionTimestamp");
        if deleting && phase != "Terminating" {
            errors.invalid(
                &at,
                phase,
                "may only be 'Terminating' if `deletionTimestamp` is not empty",
            );
        }
        if !deleting && phase != "Active" {
            errors.invalid(
                &at,
                phase,
                "may only be 'Active' if `deletionTimestamp` is empty",
            );
        }
    })
}

fn validate_finalize(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update(new, old, errors);
        check_finalizers(new, true, errors);
    })
}

fn selectable_fields(object: &Value) -> Vec<Field> {
    // the name under its old key as well
    vec![("status.phase", object.at("status").text("phase").to_owned())]
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        object.at("status").text("phase").into(),
        age(object, now),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_namespace_is_active_and_kept_by_a_finalizer() {
        let mut object = Value::from_slice(br#"{"metadata":{"name":"a"}}"#).expect("test object");
        default(&mut object);
        prepare_create(&mut object);
        assert_eq!(object.at("status").text("phase"), "Active");
        assert_eq!(
            object.at("spec").items("finalizers")[0].as_text(),
            "kubernetes"
        );
        assert_eq!(
            object
                .at("metadata")
                .at("labels")
                .text("kubernetes.io/metadata.name"),
            "a"
        );
        assert!(validate_create(&object).is_empty());
    }
}

//! `ControllerRevision`: an immutable state of a workload.

use control_types::value::Value;

use crate::error::{Errors, Path};
use crate::generic::PLAIN;
use crate::rules::{immutable, meta, names};
use crate::table::{Timestamp, age, columns, name};
use crate::tree::Read;
use crate::{FieldError, Kind};

pub(crate) static KIND: Kind = Kind {
    group: "apps",
    kind: "ControllerRevision",
    namespaced: Some(true),
    validate_create,
    validate_update,
    columns: columns::CONTROLLER_REVISION,
    row,
    allow_unconditional_update: true,
    ..PLAIN
};

fn check(object: &Value, errors: &mut Errors) {
    meta::validate(object, Some(true), names::subdomain_name, errors);
    if object.num("revision") < 0 {
        errors.invalid(
            &Path::new("revision"),
            object.num("revision"),
            "must be greater than or equal to 0",
        );
    }
}

fn check_data(object: &Value, errors: &mut Errors) {
    match object.at("data") {
        Value::Object(_) => {}
        Value::Null => errors.required(&Path::new("data"), "data is mandatory"),
        _ => errors.required(&Path::new("data"), "data must be a valid JSON object"),
    }
}

fn validate_create(object: &Value) -> Vec<FieldError> {
    let mut errors = Errors::new();
    check(object, &mut errors);
    check_data(object, &mut errors);
    errors.into_vec()
}

fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Errors::new();
    meta::update(new, old, &mut errors);
    check(new, &mut errors);
    immutable(
        new.at("data"),
        old.at("data"),
        &Path::new("data"),
        &mut errors,
    );
    errors.into_vec()
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let owner = object
        .at("metadata")
        .items("ownerReferences")
        .iter()
        .find(|o| o.flag("controller"));
    let controller = owner.map_or_else(
        || "<none>".to_owned(),
        |o| {
            let group = o.text("apiVersion").split_once('/').map_or("", |(g, _)| g);
            let kind = o.text("kind").to_lowercase();
            if group.is_empty() {
                format!("{kind}/{}", o.text("name"))
            } else {
                format!("{kind}.{group}/{}", o.text("name"))
            }
        },
    );
    vec![
        name(object),
        controller.into(),
        object.num("revision").into(),
        age(object, now),
    ]
}

//! `ServiceAccount`: the identity of a pod.

use control_types::value::Value;

use crate::generic::PLAIN;
use crate::rules::{collect, meta, names};
use crate::table::{Now, age, columns, name};
use crate::{FieldError, Kind};

pub(crate) static KIND: Kind = Kind {
    group: "",
    kind: "ServiceAccount",
    namespaced: Some(true),
    validate_create,
    validate_update,
    columns: columns::SERVICE_ACCOUNT,
    row,
    allow_unconditional_update: true,
    ..PLAIN
};

fn validate_create(object: &Value) -> Vec<FieldError> {
    collect(|errors| meta::validate(object, Some(true), names::subdomain_name, errors))
}

fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update(new, old, errors);
        meta::validate(new, Some(true), names::subdomain_name, errors);
    })
}

fn row(object: &Value, now: Now) -> Vec<Value> {
    vec![name(object), age(object, now)]
}

//! `ServiceAccount`: the identity of a pod.

use control_types::value::Value;

use crate::generic::PLAIN;
use crate::rules::{collect, meta, names};
use crate::table::{Timestamp, age, columns, name};
use crate::tree::{Read, Write};
use crate::{FieldError, Kind};

pub(crate) static KIND: Kind = Kind {
    group: "",
    kind: "ServiceAccount",
    namespaced: Some(true),
    validate_create,
    prepare_create: names_only,
    prepare_update: |new, _| names_only(new),
    validate_update,
    warnings,
    columns: columns::SERVICE_ACCOUNT,
    row,
    allow_unconditional_update: true,
    ..PLAIN
};

/// Keeps only the names of the secrets.
fn names_only(object: &mut Value) {
    for secret in object.items_mut("secrets") {
        let mut named = Value::object();
        named.take_from(secret, "name");
        *secret = named;
    }
}

fn warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    const ENFORCE: &str = "kubernetes.io/enforce-mountable-secrets";
    let has = |object: &Value| object.at("metadata").at("annotations").has(ENFORCE);
    if !has(new) || old.is_some_and(has) {
        return Vec::new();
    }
    vec![format!(
        "metadata.annotations[{ENFORCE}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
    )]
}

fn validate_create(object: &Value) -> Vec<FieldError> {
    collect(|errors| meta::validate(object, Some(true), names::subdomain_name, errors))
}

fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update(new, old, errors);
        meta::validate(new, Some(true), names::subdomain_name, errors);
    })
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), age(object, now)]
}

//! `ConfigMap`: text and bytes by key.

use control_types::value::Value;

use crate::error::{Errors, Path};
use crate::generic::PLAIN;
use crate::rules::{collect, meta, names};
use crate::table::{Timestamp, age, columns, name};
use crate::tree::{Read, same};
use crate::{FieldError, Kind};

pub(crate) static KIND: Kind = Kind {
    group: "",
    kind: "ConfigMap",
    namespaced: Some(true),
    validate_create,
    validate_update,
    columns: columns::CONFIG_MAP,
    row,
    allow_unconditional_update: true,
    ..PLAIN
};

/// The most bytes that a config map's or a secret's values may have together.
pub(crate) const MAX_SIZE: usize = 1024 * 1024;

/// Returns the number of bytes that base64 text decodes to.
pub(crate) fn decoded_len(text: &str) -> usize {
    let padding = text.bytes().rev().take_while(|b| *b == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}

fn check(object: &Value, errors: &mut Errors) {
    meta::validate(object, Some(true), names::subdomain_name, errors);
    let (data, binary) = (Path::new("data"), Path::new("binaryData"));
    let mut total = 0;
    for (key, value) in object.entries("data") {
        errors.invalid_each(&data.key(key), key, names::config_key(key));
        if object.at("binaryData").has(key) {
            errors.invalid(
                &data.key(key),
                key,
                "duplicate of key present in binaryData",
            );
        }
        total += value.as_text().len();
    }
    for (key, value) in object.entries("binaryData") {
        errors.invalid_each(&binary.key(key), key, names::config_key(key));
        total += decoded_len(value.as_text());
    }
    if total > MAX_SIZE {
        // A path without a name, as upstream prints it.
        errors.too_long(&Path::new("[]"), MAX_SIZE);
    }
}

/// Rejects changes that `immutable: true` forbids.
pub(crate) fn check_immutable(
    new: &Value,
    old: &Value,
    fields: &[&'static str],
    errors: &mut Errors,
) {
    let message = "field is immutable when `immutable` is set";
    if !old.flag("immutable") {
        return;
    }
    if !new.flag("immutable") {
        errors.forbidden(&Path::new("immutable"), message);
    }
    for field in fields
        .iter()
        .copied()
        .filter(|field| !same(new.at(field), old.at(field)))
    {
        errors.forbidden(&Path::new(field), message);
    }
}

fn validate_create(object: &Value) -> Vec<FieldError> {
    collect(|errors| check(object, errors))
}

fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update(new, old, errors);
        check_immutable(new, old, &["data", "binaryData"], errors);
        check(new, errors);
    })
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let count = i64::try_from(object.size("data") + object.size("binaryData")).unwrap_or(i64::MAX);
    vec![name(object), count.into(), age(object, now)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_immutable_map_keeps_its_data() {
        let old =
            Value::from_slice(br#"{"immutable":true,"data":{"a":"b"}}"#).expect("test object");
        let new = Value::from_slice(br#"{"data":{"a":"c"}}"#).expect("test object");
        let found = collect(|errors| check_immutable(&new, &old, &["data"], errors));
        let fields: Vec<_> = found.iter().map(|e| e.field.as_str()).collect();
        assert_eq!(fields, ["immutable", "data"]);
    }

    #[test]
    fn a_map_that_is_too_large_is_told_under_a_path_without_a_name() {
        let mut object = Value::object();
        object.insert("metadata", Value::object());
        object.set_path(&["metadata", "name"], "m");
        object.set_path(&["metadata", "namespace"], "n");
        object.set_path(&["data", "a"], "x".repeat(MAX_SIZE + 1));
        let found = collect(|errors| check(&object, errors));
        let fields: Vec<_> = found.iter().map(|e| e.field.as_str()).collect();
        assert_eq!(fields, ["[]"]);
    }

    #[test]
    fn lengths_of_base64_count_what_it_stands_for() {
        assert_eq!(
            (
                decoded_len("YQ=="),
                decoded_len("YWI="),
                decoded_len("YWJj"),
                decoded_len("")
            ),
            (1, 2, 3, 0)
        );
    }
}

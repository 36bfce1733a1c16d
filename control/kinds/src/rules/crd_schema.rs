//! Structural schemas of custom resources: types, lists and defaults.

use control_types::value::Value;

use super::{crd_rules, one_of};
use crate::error::{ErrorKind, Errors, Path, compact_json};
use crate::tree::Read;

const TYPES: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];
/// How deep a schema is looked at.
const DEPTH: usize = 64;

/// The schema of a version. `unchanged`: it was stored before as it is.
pub(crate) fn root(
    schema: &Value,
    has_status: bool,
    unchanged: bool,
    at: &Path<'_>,
    errors: &mut Errors,
) {
    let before = errors.len();
    let of = schema.text("type");
    if has_status && !of.is_empty() && of != "object" {
        errors.invalid(
            &at.child("type"),
            of,
            "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled",
        );
    }
    node(schema, at, 0, errors);
    if of.is_empty() {
        errors.required(&at.child("type"), "must not be empty at the root");
    } else if of != "object" {
        errors.invalid(&at.child("type"), of, "must be object at the root");
    }
    for (field, allowed) in [
        ("x-kubernetes-preserve-unknown-fields", true),
        ("nullable", false),
    ] {
        if !allowed && schema.flag(field) {
            errors.forbidden(&at.child(field), "nullable cannot be true at the root");
        }
    }
    // only of what is a schema is it known what expressions see
    if errors.len() == before {
        crd_rules::expressions(schema, at, unchanged, errors);
    }
}

/// One schema and all below it.
fn node(schema: &Value, at: &Path<'_>, depth: usize, errors: &mut Errors) {
    if depth > DEPTH {
        errors.forbidden(
            at,
            format!("schemas may not be nested more than {DEPTH} deep"),
        );
        return;
    }
    let of = schema.text("type");
    if !of.is_empty() {
        one_of(of, TYPES, &at.child("type"), errors);
    }
    let free = schema.flag("x-kubernetes-int-or-string")
        || schema.flag("x-kubernetes-preserve-unknown-fields");
    if of.is_empty() && !free && depth > 0 {
        let what = if at.to_string().ends_with(".items") {
            "must not be empty for specified array items"
        } else {
            "must not be empty for specified object fields"
        };
        errors.required(&at.child("type"), what);
    }
    if schema.has("default") && !of.is_empty() {
        default(schema, &at.child("default"), errors);
    }
    if schema.has("additionalProperties") && schema.size("properties") > 0 {
        errors.forbidden(
            &at.child("additionalProperties"),
            "additionalProperties and properties are mutual exclusive",
        );
    }
    for field in [
        "$ref",
        "definitions",
        "dependencies",
        "patternProperties",
        "id",
    ] {
        if schema.has(field) {
            errors.forbidden(&at.child(field), format!("{field} is not supported"));
        }
    }
    if schema.flag("uniqueItems") {
        errors.forbidden(
            &at.child("uniqueItems"),
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        );
    }
    list_type(schema, at, errors);
    crd_rules::texts(schema, at, errors);
    let properties = at.child("properties");
    for (name, inner) in schema.entries("properties") {
        node(inner, &properties.key(name), depth + 1, errors);
    }
    let items = schema.at("items");
    match items {
        Value::Object(_) => node(items, &at.child("items"), depth + 1, errors),
        Value::Array(_) => errors.forbidden(
            &at.child("items"),
            "items must be a schema object and not an array",
        ),
        _ if of == "array" => errors.required(&at.child("items"), "must be specified"),
        _ => {}
    }
    if let inner @ Value::Object(_) = schema.at("additionalProperties") {
        node(inner, &at.child("additionalProperties"), depth + 1, errors);
    }
}

fn list_type(schema: &Value, at: &Path<'_>, errors: &mut Errors) {
    let kind_at = at.child("x-kubernetes-list-type");
    let kind = schema.text("x-kubernetes-list-type");
    let keys_at = at.child("x-kubernetes-list-map-keys");
    let keys = schema.items("x-kubernetes-list-map-keys");
    if kind.is_empty() {
        if !keys.is_empty() {
            errors.required(
                &kind_at,
                "must be map if x-kubernetes-list-map-keys is non-empty",
            );
        }
        return;
    }
    one_of(kind, &["atomic", "map", "set"], &kind_at, errors);
    if schema.text("type") != "array" {
        let of = schema.text("type");
        let why = if of.is_empty() {
            errors.required(
                &at.child("type"),
                "must be array if x-kubernetes-list-type is specified",
            );
            return;
        } else {
            "must be array if x-kubernetes-list-type is specified"
        };
        errors.invalid(&at.child("type"), of, why);
        return;
    }
    if kind != "map" {
        return;
    }
    if keys.is_empty() {
        errors.required(
            &keys_at,
            "must not be empty if x-kubernetes-list-type is map",
        );
    }
    let items = schema.at("items");
    for key in keys {
        let property = items.at("properties").get(key.as_text());
        if property.is_none() {
            errors.invalid(
                &keys_at,
                schema.at("x-kubernetes-list-map-keys").clone(),
                "entries must all be names of item properties",
            );
            continue;
        }
        let needed = items.items("required").contains(key)
            || property.is_some_and(|property| property.has("default"));
        if !needed {
            let at = at.child("items").to_string();
            let at = Path::new(&at);
            let all = at.child("properties");
            errors.required(
                &all.key(key.as_text()).child("default"),
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
            );
        }
    }
}

/// What a value is called by its type.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Int(_) => "integer",
        Value::Float(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// A default must be a value of its own schema.
fn default(schema: &Value, at: &Path<'_>, errors: &mut Errors) {
    let value = schema.at("default");
    let (of, given) = (schema.text("type"), type_of(value));
    let fits = of == given
        || (of == "number" && given == "integer")
        || (value.is_null() && schema.flag("nullable"));
    if !fits {
        let shown = crate::error::quoted(given);
        errors.add(
            ErrorKind::TypeInvalid,
            at,
            Some(given.into()),
            format!(" in body must be of type {of}: {shown}"),
        );
    }
    let list = schema.items("enum");
    if !list.is_empty() && !list.contains(value) {
        let texts: Vec<String> = list
            .iter()
            .map(|one| match one {
                Value::String(text) => text.to_string(),
                other => compact_json(other),
            })
            .collect();
        let known: Vec<&str> = texts.iter().map(String::as_str).collect();
        errors.not_supported(at, value.clone(), &known);
    }
}

/// The type at a simple path (`.spec.color`); `None` when it is not there.
pub(crate) fn type_at<'a>(schema: &'a Value, path: &str) -> Option<&'a str> {
    let mut at = schema;
    for part in path.strip_prefix('.')?.split('.') {
        at = at.at("properties").get(part)?;
    }
    Some(at.text("type"))
}

//! Schemas in a definition: which members are allowed, and their consistency.
//! [`super::crd_structural`] checks that they are structural, `custom::defaults` their
//! defaults.

use control_types::value::Value;

use super::{crd_fields, crd_rules, crd_structural, one_of};
use crate::error::{Errors, Path};
use crate::tree::Read;

const TYPES: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];
/// Members that every object has.
const META: [&str; 3] = ["metadata", "kind", "apiVersion"];
/// The depth below which nested schemas are not checked.
const DEPTH: usize = 128;

/// The schema of a version, at its place (`openAPIV3Schema`). `unchanged`: it was
/// stored before as it is.
pub(crate) fn root(
    schema: &Value,
    has_status: bool,
    unchanged: bool,
    at: &Path<'_>,
    errors: &mut Errors,
) {
    let before = errors.len();
    if has_status {
        crd_fields::check_root(schema, at, errors);
    }
    if schema.flag("nullable") {
        errors.forbidden(&at.child("nullable"), "nullable cannot be true at the root");
    }
    let unsupported = crd_structural::unsupported(schema, 0);
    if unsupported.is_none() {
        let wrong = crd_structural::check(schema, at);
        if wrong.is_empty() {
            crate::custom::defaults::check(schema, at, errors);
        }
        errors.extend(wrong);
    }
    node(schema, at, SchemaPlace::default(), 0, errors);
    if errors.len() > before {
        return;
    }
    match unsupported {
        Some(why) => errors.invalid(at, "", why),
        // Expressions have a type only where there is a schema.
        None => crd_rules::expressions(schema, at, unchanged, errors),
    }
}

/// The path of a schema.
#[derive(Clone, Copy, Default)]
struct SchemaPlace<'a> {
    /// Why defaults are forbidden, if they are.
    no_defaults: Option<&'a str>,
    /// Whether this is within members that every object has.
    meta: bool,
}

/// One schema and all below it.
fn node(schema: &Value, at: &Path<'_>, place: SchemaPlace<'_>, depth: usize, errors: &mut Errors) {
    if depth > DEPTH {
        let why = format!("schemas may not be nested more than {DEPTH} deep");
        errors.forbidden(at, why);
        return;
    }
    supported(schema, at, place, errors);
    if schema.flag("uniqueItems") {
        errors.forbidden(
            &at.child("uniqueItems"),
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        );
    }
    below(schema, at, place, depth, errors);
    if schema.truth("x-kubernetes-preserve-unknown-fields") == Some(false) {
        errors.invalid(
            &at.child("x-kubernetes-preserve-unknown-fields"),
            false,
            "must be true or undefined",
        );
    }
    map_type(schema, at, errors);
    list_type(schema, at, errors);
    list_keys(schema, at, errors);
    crd_rules::texts(schema, at, errors);
}

/// Checks the supported members of a schema.
fn supported(schema: &Value, at: &Path<'_>, place: SchemaPlace<'_>, errors: &mut Errors) {
    let of = schema.text("type");
    if !of.is_empty() {
        one_of(of, TYPES, &at.child("type"), errors);
    }
    if schema.has("default")
        && let Some(why) = place.no_defaults
    {
        let why = format!("must not be set {why}");
        errors.forbidden(&at.child("default"), why);
    }
    for field in [
        "id",
        "additionalItems",
        "patternProperties",
        "definitions",
        "dependencies",
        "$ref",
    ] {
        let given = match schema.at(field) {
            Value::String(text) => !text.is_empty() || field == "$ref",
            Value::Object(map) => {
                !map.is_empty() || matches!(field, "dependencies" | "additionalItems")
            }
            other => !other.is_null(),
        };
        if given {
            errors.forbidden(&at.child(field), format!("{field} is not supported"));
        }
    }
    if of == "null" {
        errors.forbidden(
            &at.child("type"),
            "type cannot be set to null, use nullable as an alternative",
        );
    }
    if matches!(schema.at("items"), Value::Array(items) if !items.is_empty()) {
        errors.forbidden(
            &at.child("items"),
            "items must be a schema object and not an array",
        );
    }
    if place.meta && schema.flag("x-kubernetes-embedded-resource") {
        errors.forbidden(
            &at.child("x-kubernetes-embedded-resource"),
            "must not be used inside of resource meta",
        );
    }
}

/// The schemas within a schema.
fn below(schema: &Value, at: &Path<'_>, place: SchemaPlace<'_>, depth: usize, errors: &mut Errors) {
    let mut go = |schema: &Value, at: &Path<'_>, place: SchemaPlace<'_>| {
        if schema.as_object().is_some() {
            node(schema, at, place, depth + 1, errors);
        }
    };
    let additional = schema.at("additionalProperties");
    if !additional.is_null() {
        let more = at.child("additionalProperties");
        let inner = SchemaPlace {
            no_defaults: if place.meta {
                Some("inside additionalProperties applying to object metadata")
            } else {
                place.no_defaults
            },
            ..place
        };
        go(additional, &more, inner);
    }
    let properties = at.child("properties");
    let is_root = depth == 0;
    let embeds = is_root || schema.flag("x-kubernetes-embedded-resource");
    for (name, property) in schema.entries("properties") {
        let why = format!("in top-level {name}");
        let mut inner = place;
        if embeds && META.contains(&name) {
            inner.meta = true;
            if is_root {
                inner.no_defaults = Some(&why);
            }
        }
        go(property, &properties.key(name), inner);
    }
    go(schema.at("not"), &at.child("not"), place);
    for name in ["allOf", "oneOf", "anyOf"] {
        let all = at.child(name);
        for (i, one) in schema.items(name).iter().enumerate() {
            go(one, &all.index(i), place);
        }
    }
    let all = at.child("definitions");
    for (name, one) in schema.entries("definitions") {
        go(one, &all.key(name), place);
    }
    let items = at.child("items");
    match schema.at("items") {
        Value::Array(all) => {
            for (i, one) in all.iter().enumerate() {
                go(one, &items.index(i), place);
            }
        }
        one => go(one, &items, place),
    }
    let all = at.child("dependencies");
    for (name, one) in schema.entries("dependencies") {
        go(one, &all.key(name), place);
    }
    if !additional.is_null() && schema.size("properties") > 0 && additional.as_bool() != Some(true)
    {
        errors.forbidden(
            &at.child("additionalProperties"),
            "additionalProperties and properties are mutual exclusive",
        );
    }
}

fn map_type(schema: &Value, at: &Path<'_>, errors: &mut Errors) {
    const NAME: &str = "x-kubernetes-map-type";
    if !schema.has(NAME) {
        return;
    }
    of_type(
        schema,
        "object",
        "must be object if x-kubernetes-map-type is specified",
        at,
        errors,
    );
    one_of(
        schema.text(NAME),
        &["atomic", "granular"],
        &at.child(NAME),
        errors,
    );
}

/// Tells whether the schema is of a type, and else why it must be.
fn of_type(schema: &Value, wanted: &str, why: &str, at: &Path<'_>, errors: &mut Errors) -> bool {
    match schema.text("type") {
        "" => errors.required(&at.child("type"), why),
        of if of != wanted => errors.invalid(&at.child("type"), of, why),
        _ => return true,
    }
    false
}

fn list_type(schema: &Value, at: &Path<'_>, errors: &mut Errors) {
    const NAME: &str = "x-kubernetes-list-type";
    if !schema.has(NAME) {
        return;
    }
    let kind = schema.text(NAME);
    let items = schema.at("items");
    let is_array = of_type(
        schema,
        "array",
        "must be array if x-kubernetes-list-type is specified",
        at,
        errors,
    );
    if is_array && kind == "set" && items.as_object().is_some() {
        let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let own = items.at(NAME);
        let at = at.child("items");
        match items.text("type") {
            "array" if items.has(NAME) && own.as_text() != "atomic" => {
                errors.invalid(&at.child(NAME), own.clone(), why);
            }
            "object" if items.text("x-kubernetes-map-type") != "atomic" => {
                errors.invalid(&at.child("x-kubernetes-map-type"), own.clone(), why);
            }
            _ => {}
        }
    }
    one_of(kind, &["atomic", "set", "map"], &at.child(NAME), errors);
}

/// The keys of lists that are maps, and what such lists must be.
fn list_keys(schema: &Value, at: &Path<'_>, errors: &mut Errors) {
    let (type_at, keys_at) = (
        at.child("x-kubernetes-list-type"),
        at.child("x-kubernetes-list-map-keys"),
    );
    let kind = schema.text("x-kubernetes-list-type");
    let keys = schema.items("x-kubernetes-list-map-keys");
    if !keys.is_empty() && kind != "map" {
        let why = "must be map if x-kubernetes-list-map-keys is non-empty";
        if schema.has("x-kubernetes-list-type") {
            errors.invalid(&type_at, kind, why);
        } else {
            errors.required(&type_at, why);
        }
    }
    let items = schema.at("items");
    let items_at = at.child("items");
    if kind == "map" {
        if keys.is_empty() {
            errors.required(
                &keys_at,
                "must not be empty if x-kubernetes-list-type is map",
            );
        }
        if items.is_null() {
            let why = "must have a schema if x-kubernetes-list-type is map";
            errors.required(&items_at, why);
        } else if items.as_object().is_none() {
            let why = "must only have a single schema if x-kubernetes-list-type is map";
            errors.invalid(&items_at, items.clone(), why);
        } else if items.text("type") != "object" {
            let why = "must be object if parent array's x-kubernetes-list-type is map";
            errors.invalid(&items_at.child("type"), items.text("type"), why);
        } else {
            known_keys(schema, at, errors);
        }
    }
    if matches!(kind, "set" | "map") && items.as_object().is_some() {
        if items.flag("nullable") {
            let why = format!("cannot be nullable when x-kubernetes-list-type is {kind}");
            errors.forbidden(&items_at.child("nullable"), why);
        }
        if kind == "map" {
            needed_keys(schema, at, errors);
        }
    }
}

/// Keys are names of scalar properties, each once.
fn known_keys(schema: &Value, at: &Path<'_>, errors: &mut Errors) {
    let keys_at = at.child("x-kubernetes-list-map-keys");
    let all = schema.at("x-kubernetes-list-map-keys");
    let keys = schema.items("x-kubernetes-list-map-keys");
    let (items, items_at) = (schema.at("items"), at.child("items"));
    let properties = items_at.child("properties");
    for (i, key) in keys.iter().enumerate() {
        match items.at("properties").get(key.as_text()) {
            Some(property) if matches!(property.text("type"), "array" | "object") => {
                let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                let at = properties.key(key.as_text());
                errors.invalid(&at.child("type"), items.text("type"), why);
            }
            Some(_) => {}
            None => {
                let why = "entries must all be names of item properties";
                errors.invalid(&keys_at, all.clone(), why);
            }
        }
        if keys[..i].contains(key) {
            let why = "must not contain duplicate entries";
            errors.invalid(&keys_at, all.clone(), why);
        }
    }
}

/// Keys are always there.
fn needed_keys(schema: &Value, at: &Path<'_>, errors: &mut Errors) {
    let items = schema.at("items");
    let at = at.child("items");
    let properties = at.child("properties");
    for key in schema.items("x-kubernetes-list-map-keys") {
        let Some(property) = items.at("properties").get(key.as_text()) else {
            continue;
        };
        let at = properties.key(key.as_text());
        if !items.items("required").contains(key) && !property.has("default") {
            errors.required(
                &at.child("default"),
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
            );
        }
        if property.flag("nullable") {
            errors.forbidden(
                &at.child("nullable"),
                "this property is in x-kubernetes-list-map-keys, so it cannot be nullable",
            );
        }
    }
}

/// The formats in a schema that mean nothing, in the order in which they come.
pub(crate) fn unknown_formats(schema: &Value, depth: usize, out: &mut Vec<String>) {
    if schema.as_object().is_none() || depth > DEPTH {
        return;
    }
    let (format, of) = (schema.text("format"), schema.text("type"));
    if !format.is_empty() && !control_types::structural::is_format(format, of) {
        out.push(format.to_owned());
    }
    let mut go = |one: &Value| unknown_formats(one, depth + 1, out);
    match schema.at("items") {
        Value::Array(all) => all.iter().for_each(&mut go),
        one => go(one),
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        schema.items(name).iter().for_each(&mut go);
    }
    go(schema.at("not"));
    schema.entries("properties").for_each(|(_, one)| go(one));
    go(schema.at("additionalProperties"));
}

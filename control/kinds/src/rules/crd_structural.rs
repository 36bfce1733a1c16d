//! Structural schemas (KEP-1027): the type of every value is specified, once and outside
//! of junctors, which only validate.

use control_types::structural::Pattern;
use control_types::value::{Map, Value};

use crate::FieldError;
use crate::error::{Errors, Path};
use crate::tree::Read;

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
/// Deeper schemas are refused elsewhere.
const DEPTH: usize = 128;

/// Returns a member that no structural schema may have; `None` for most.
pub(crate) fn unsupported(schema: &Value, depth: usize) -> Option<String> {
    schema.as_object()?;
    if depth > DEPTH {
        return Some("OpenAPIV3Schema is nested too deep".into());
    }
    for (name, called) in [
        ("id", "id"),
        ("$schema", "schema"),
        ("$ref", "$ref"),
        ("patternProperties", "patternProperties"),
        ("dependencies", "dependencies"),
        ("additionalItems", "additionalItems"),
        ("definitions", "definitions"),
    ] {
        let given = match schema.at(name) {
            Value::String(text) => !text.is_empty(),
            Value::Object(map) => !map.is_empty() || name == "additionalItems",
            other => !other.is_null(),
        };
        if given {
            return Some(format!("OpenAPIV3Schema '{called}' is not supported"));
        }
    }
    let go = |one: &Value| unsupported(one, depth + 1);
    if let Some(why) = go(schema.at("not")) {
        return Some(why);
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        if let Some(why) = schema.items(name).iter().find_map(go) {
            return Some(why);
        }
    }
    if schema.truth(PRESERVE) == Some(false) {
        return Some(format!(
            "internal error: '{PRESERVE}' must be true or undefined"
        ));
    }
    match schema.at("items") {
        Value::Array(all) if !all.is_empty() => {
            return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
        }
        one => {
            if let Some(why) = go(one) {
                return Some(why);
            }
        }
    }
    schema
        .entries("properties")
        .find_map(|(_, one)| go(one))
        .or_else(|| go(schema.at("additionalProperties")))
}

/// Returns why a schema is not structural, in alphabetical order.
pub(crate) fn check(schema: &Value, at: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Errors::new();
    invariants(schema, SchemaLevel::Root, at, &mut errors);
    complete(schema, Some(schema), at, at, &mut errors);
    let mut errors = errors.into_vec();
    errors.sort_by_cached_key(|error| format!("{}: {}", error.field, error.body()));
    errors
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SchemaLevel {
    Root,
    Item,
    Field,
}

fn invariants(schema: &Value, level: SchemaLevel, at: &Path<'_>, errors: &mut Errors) {
    let of = schema.text("type");
    let items = schema.at("items");
    if of == "array" && items.is_null() {
        errors.required(&at.child("items"), "must be specified");
    }
    if items.as_object().is_some() {
        invariants(items, SchemaLevel::Item, &at.child("items"), errors);
    }
    let properties = at.child("properties");
    for (name, property) in schema.entries("properties") {
        invariants(property, SchemaLevel::Field, &properties.key(name), errors);
    }
    let additional = schema.at("additionalProperties");
    let additional_at = at.child("additionalProperties");
    if !additional.is_null() {
        if level == SchemaLevel::Root {
            errors.forbidden(&additional_at, "must not be used at the root");
        }
        if additional.as_object().is_some() {
            invariants(additional, SchemaLevel::Field, &additional_at, errors);
        }
    }
    let (embedded, preserve, either) = (
        schema.flag(EMBEDDED),
        schema.flag(PRESERVE),
        schema.flag(INT_OR_STRING),
    );
    for (given, name) in [(preserve, PRESERVE), (embedded, EMBEDDED)] {
        if either && given {
            let why = "must be false if x-kubernetes-int-or-string is true";
            errors.invalid(&at.child(name), true, why);
        }
    }
    let first_is_either = schema
        .items("allOf")
        .first()
        .is_some_and(|first| is_either(first.at("anyOf")));
    validations(
        schema,
        is_either(schema.at("anyOf")),
        first_is_either,
        at,
        errors,
    );
    let type_at = at.child("type");
    if embedded && of != "object" {
        let why = "must be object if x-kubernetes-embedded-resource is true";
        if of.is_empty() {
            errors.required(&type_at, why);
        } else {
            errors.invalid(&type_at, of, why);
        }
    } else if of.is_empty() && !either && !preserve {
        let why = match level {
            SchemaLevel::Root => "must not be empty at the root",
            SchemaLevel::Item => "must not be empty for specified array items",
            SchemaLevel::Field => "must not be empty for specified object fields",
        };
        errors.required(&type_at, why);
    }
    if embedded && !additional.is_null() {
        let why = "must not be used if x-kubernetes-embedded-resource is set";
        errors.forbidden(&additional_at, why);
    }
    if level == SchemaLevel::Root && !of.is_empty() && of != "object" {
        errors.invalid(&type_at, of, "must be object at the root");
    }
    metadata(schema, level, embedded, at, errors);
    if embedded && !preserve && schema.size("properties") == 0 {
        errors.required(
            &at.child("properties"),
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
        );
    }
}

/// Checks the schema of the members that every object has.
fn metadata(
    schema: &Value,
    level: SchemaLevel,
    embedded: bool,
    at: &Path<'_>,
    errors: &mut Errors,
) {
    let properties = at.child("properties");
    let own = schema.at("properties");
    let whole = level == SchemaLevel::Root || embedded;
    for name in ["kind", "apiVersion"] {
        if let Some(one) = own.get(name).filter(|_| whole)
            && one.text("type") != "string"
        {
            let at = properties.key(name);
            errors.invalid(&at.child("type"), one.text("type"), "must be string");
        }
    }
    let Some(one) = own.get("metadata") else {
        return;
    };
    let at = properties.key("metadata");
    if whole && one.text("type") != "object" {
        errors.invalid(&at.child("type"), one.text("type"), "must be object");
    }
    if level != SchemaLevel::Root {
        return;
    }
    let names: Vec<&str> = one.entries("properties").map(|(name, _)| name).collect();
    let only_names = names
        .iter()
        .all(|name| matches!(*name, "name" | "generateName"));
    let more = one
        .as_object()
        .into_iter()
        .flat_map(Map::iter)
        .any(|(key, value)| {
            let zero = match value {
                Value::Null | Value::Bool(false) => true,
                Value::String(text) => text.is_empty(),
                _ => false,
            };
            !zero && !matches!(key.as_str(), "type" | "default" | "properties")
        });
    if !only_names || more {
        errors.forbidden(
            &at,
            "must not specify anything other than name and generateName, but metadata is implicitly specified",
        );
    }
}

/// Returns whether clauses are exactly integer or string.
fn is_either(any: &Value) -> bool {
    let is = |clause: &Value, kind: &str| {
        clause.as_object().is_some_and(|map| map.len() == 1) && clause.text("type") == kind
    };
    matches!(any, Value::Array(all) if all.len() == 2 && is(&all[0], "integer") && is(&all[1], "string"))
}

/// The junctors of a schema and its pattern.
fn validations(
    schema: &Value,
    skip_any: bool,
    skip_first: bool,
    at: &Path<'_>,
    errors: &mut Errors,
) {
    for name in ["anyOf", "allOf", "oneOf"] {
        if name == "anyOf" && skip_any {
            continue;
        }
        let all = at.child(name);
        for (i, one) in schema.items(name).iter().enumerate() {
            let skip = name == "allOf" && i == 0 && skip_first;
            nested(one, skip, &all.index(i), errors);
        }
    }
    if schema.has("not") {
        nested(schema.at("not"), false, &at.child("not"), errors);
    }
    let pattern = schema.text("pattern");
    if !pattern.is_empty()
        && let Some(why) = bad_pattern(pattern)
    {
        let why = format!("must be a valid regular expression, but isn't: {why}");
        errors.invalid(&at.child("pattern"), pattern, why);
    }
}

/// Checks a schema within a junctor, which must not specify structure.
fn nested(schema: &Value, skip_any: bool, at: &Path<'_>, errors: &mut Errors) {
    validations(schema, skip_any, false, at, errors);
    if schema.at("items").as_object().is_some() {
        nested(schema.at("items"), false, &at.child("items"), errors);
    }
    let properties = at.child("properties");
    for (name, one) in schema.entries("properties") {
        nested(one, false, &properties.key(name), errors);
    }
    let (empty, undefined, no) = (
        "must be empty to be structural",
        "must be undefined to be structural",
        "must be false to be structural",
    );
    for (name, why) in [
        ("type", empty),
        ("additionalProperties", undefined),
        ("default", undefined),
        ("title", empty),
        ("description", empty),
        ("nullable", no),
        (PRESERVE, no),
        (EMBEDDED, no),
        (INT_OR_STRING, no),
        ("x-kubernetes-list-map-keys", empty),
        ("x-kubernetes-list-type", undefined),
        ("x-kubernetes-map-type", undefined),
        ("x-kubernetes-validations", empty),
    ] {
        let given = match schema.at(name) {
            Value::Null | Value::Bool(false) => name == "default" && schema.has(name),
            Value::String(text) => !text.is_empty() || why == undefined,
            Value::Array(items) => !items.is_empty() || name == "default",
            _ => true,
        };
        if given {
            errors.forbidden(&at.child(name), why);
        }
    }
    if schema.at("properties").get("metadata").is_some() {
        let why = "must not be specified in a nested context";
        errors.forbidden(&properties.key("metadata"), why);
    }
}

/// Checks that everything that junctors validate is specified outside of them.
fn complete(
    validation: &Value,
    schema: Option<&Value>,
    schema_at: &Path<'_>,
    at: &Path<'_>,
    errors: &mut Errors,
) {
    if validation.has("not") {
        let not = validation.at("not");
        complete_nested(not, schema, schema_at, &at.child("not"), errors);
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        let all = at.child(name);
        for (i, one) in validation.items(name).iter().enumerate() {
            complete_nested(one, schema, schema_at, &all.index(i), errors);
        }
    }
}

fn complete_nested(
    validation: &Value,
    schema: Option<&Value>,
    schema_at: &Path<'_>,
    at: &Path<'_>,
    errors: &mut Errors,
) {
    let Some(schema) = schema else {
        errors.required(schema_at, format!("because it is defined in {at}"));
        return;
    };
    complete(validation, Some(schema), schema_at, at, errors);
    let object = |value| Some(value).filter(|value: &&Value| value.as_object().is_some());
    if let Some(items) = object(validation.at("items")) {
        complete_nested(
            items,
            object(schema.at("items")),
            &schema_at.child("items"),
            &at.child("items"),
            errors,
        );
    }
    let (own, theirs) = (schema_at.child("properties"), at.child("properties"));
    for (name, one) in validation.entries("properties") {
        let (own, theirs) = (own.key(name), theirs.key(name));
        complete_nested(
            one,
            schema.at("properties").get(name),
            &own,
            &theirs,
            errors,
        );
    }
}

/// Returns why text is not a regular expression of RE2's syntax.
fn bad_pattern(pattern: &str) -> Option<String> {
    const PARSING: &str = "error parsing regexp: ";
    if let Some(count) = repeated_too_often(pattern) {
        return Some(format!("{PARSING}invalid repeat count: `{count}`"));
    }
    if Pattern::new(pattern).matches("").is_some() {
        return None;
    }
    for syntax in ["(?=", "(?!", "(?<=", "(?<!"] {
        if pattern.contains(syntax) {
            let shown = if syntax.len() == 4 { "(?<" } else { syntax };
            return Some(format!(
                "{PARSING}invalid or unsupported Perl syntax: `{shown}`"
            ));
        }
    }
    let (mut open, mut class, mut escaped) = (0_i32, None, false);
    for (at, letter) in pattern.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '[' if class.is_none() => class = Some(at),
            ']' if class.is_some_and(|start| at > start + 1) => class = None,
            '(' if class.is_none() => open += 1,
            ')' if class.is_none() => open -= 1,
            _ => {}
        }
    }
    Some(match class {
        Some(start) => format!("{PARSING}missing closing ]: `{}`", &pattern[start..]),
        None if open > 0 => format!("{PARSING}missing closing ): `{pattern}`"),
        None if open < 0 => format!("{PARSING}unexpected ): `{pattern}`"),
        None if escaped => format!("{PARSING}trailing backslash at end of expression: ``"),
        None if pattern.starts_with(['*', '+', '?']) => {
            let operator = &pattern[..1];
            format!("{PARSING}missing argument to repetition operator: `{operator}`")
        }
        None => format!("{PARSING}invalid escape sequence: `{pattern}`"),
    })
}

/// A repetition above what RE2 allows: `{1001}`.
fn repeated_too_often(pattern: &str) -> Option<&str> {
    const MOST: u32 = 1000;
    let mut rest = pattern;
    while let Some(start) = rest.find('{') {
        let from = &rest[start..];
        let end = from.find('}')?;
        let inner = &from[1..end];
        let counts = inner
            .split(',')
            .all(|n| n.bytes().all(|b| b.is_ascii_digit()));
        let high = inner
            .split(',')
            .any(|n| n.parse::<u64>().is_ok_and(|n| n > u64::from(MOST)) || n.len() > 18);
        let escaped = rest[..start].ends_with('\\');
        if counts && high && !escaped && !inner.starts_with(',') {
            return Some(&from[..=end]);
        }
        rest = &from[1..];
    }
    None
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    fn said(schema: &Value) -> Vec<String> {
        let errors = check(schema, &Path::new("s"));
        errors
            .into_iter()
            .map(|error| format!("{}: {}", error.field, error.detail))
            .collect()
    }

    #[test]
    fn every_value_has_a_type_outside_of_junctors() {
        let of = |property: Value| {
            let mut schema = value!({"type": "object", "properties": {}});
            schema.set_path(&["properties", "a"], property);
            said(&schema)
        };
        let text = "must not be empty for specified object fields";
        assert_eq!(of(value!({})), [format!("s.properties[a].type: {text}")]);
        for well in [
            value!({"type": "string"}),
            value!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
            value!({"x-kubernetes-preserve-unknown-fields": true}),
            value!({"type": "array", "items": {"type": "string"}, "anyOf": [{"minItems": 1}]}),
        ] {
            assert!(of(well.clone()).is_empty(), "{well}");
        }
        let wrong =
            value!({"type": "string", "anyOf": [{"type": "string"}], "not": {"nullable": true}});
        assert_eq!(
            of(wrong),
            [
                "s.properties[a].anyOf[0].type: must be empty to be structural",
                "s.properties[a].not.nullable: must be false to be structural"
            ]
        );
    }

    #[test]
    fn what_a_junctor_of_the_root_validates_is_said_outside() {
        let schema = value!({
            "type": "object", "properties": {"a": {"type": "string"}},
            "anyOf": [{"properties": {"a": {"minLength": 1}, "b": {"minLength": 1}}}]
        });
        assert_eq!(
            said(&schema),
            ["s.properties[b]: because it is defined in s.anyOf[0].properties[b]"]
        );
    }

    #[test]
    fn patterns_are_expressions_of_re2() {
        for (pattern, why) in [
            ("(", "missing closing ): `(`"),
            ("a[", "missing closing ]: `[`"),
            ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("*", "missing argument to repetition operator: `*`"),
        ] {
            let said = bad_pattern(pattern);
            assert_eq!(
                said,
                Some(format!("error parsing regexp: {why}")),
                "{pattern}"
            );
        }
        assert_eq!(bad_pattern("^[a-z]{1,1000}$"), None);
        assert_eq!(bad_pattern("a{x}"), None);
    }
}

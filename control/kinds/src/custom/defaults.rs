//! Validation of defaults in a definition: each must be valid in its own schema.

use control_types::structural::Schema;
use control_types::value;
use control_types::value::Value;

use super::strategy::{embedded, embedded_errors};
use super::{rules, validate};
use crate::error::{Errors, Path};
use crate::tree::Read;

const EMBEDDED: &str = "x-kubernetes-embedded-resource";

/// Checks the defaults in the structural schema of whole objects.
pub(crate) fn check(schema: &Value, at: &Path<'_>, errors: &mut Errors) {
    node(schema, at, None, true, errors);
}

/// The position of a default within an object's metadata, kind or version: the names on
/// the path from the object, the last first.
#[derive(Clone, Copy)]
struct MetadataPath<'a> {
    parent: Option<&'a MetadataPath<'a>>,
    /// Nothing: an item of a list.
    name: Option<&'a str>,
    /// Whether the path leads into metadata.
    meta: bool,
    /// The schema of the object around.
    whole: &'a Value,
}

/// `root`: the schema of whole objects.
fn node(
    schema: &Value,
    at: &Path<'_>,
    inside: Option<&MetadataPath<'_>>,
    root: bool,
    errors: &mut Errors,
) {
    let whole = root || schema.flag(EMBEDDED);
    let start = MetadataPath {
        parent: None,
        name: None,
        meta: false,
        whole: schema,
    };
    let inside = if whole { Some(&start) } else { inside };
    let default = schema.at("default");
    if !default.is_null() {
        let meta = inside.filter(|inside| inside.meta && !whole);
        let wrong = match meta {
            Some(inside) => in_metadata(default, inside).map(|why| {
                let why = format!("must result in valid metadata: {why}");
                errors.invalid(&at.child("default"), default.clone(), why);
            }),
            None => value(schema, default, root, &at.child("default"), errors).then_some(()),
        };
        if wrong.is_none() {
            fits(schema, default, whole, &at.child("default"), errors);
        }
    }
    let below = |name, meta| {
        inside.map(|parent| MetadataPath {
            parent: Some(parent),
            name,
            meta: parent.meta || meta,
            whole: parent.whole,
        })
    };
    if schema.at("items").as_object().is_some() {
        let inner = below(None, false);
        node(
            schema.at("items"),
            &at.child("items"),
            inner.as_ref(),
            false,
            errors,
        );
    }
    let properties = at.child("properties");
    for (name, property) in schema.entries("properties") {
        let meta = whole && matches!(name, "metadata" | "kind" | "apiVersion");
        let inner = below(Some(name), meta);
        node(
            property,
            &properties.key(name),
            inner.as_ref(),
            false,
            errors,
        );
    }
}

/// Whether a default holds what its schema does not know, or objects within it are
/// none; told.
fn value(schema: &Value, default: &Value, root: bool, at: &Path<'_>, errors: &mut Errors) -> bool {
    let compiled = if root {
        // Whole objects are checked as embedded ones are.
        let mut schema = schema.clone();
        schema.insert(EMBEDDED, true);
        Schema::compile(&schema)
    } else {
        Schema::compile_part(schema)
    };
    let mut pruned = default.clone();
    if !compiled.prune(&mut pruned).is_empty() {
        errors.invalid(at, default.clone(), "must not have unknown fields");
    }
    let before = errors.len();
    if let Err(error) = embedded(&compiled, &mut default.clone(), true) {
        let shown = default.at("metadata").clone();
        errors.invalid(&at.child("metadata"), shown, error.to_string());
    } else {
        embedded_errors(&compiled, default, Some(at), errors);
    }
    errors.len() > before
}

/// Returns why metadata with this default is invalid.
fn in_metadata(default: &Value, inside: &MetadataPath<'_>) -> Option<String> {
    let mut object = default.clone();
    let mut step = Some(inside);
    while let Some(one) = step {
        if one.parent.is_some() {
            object = match one.name {
                Some(name) => {
                    let mut around = Value::object();
                    around.insert(name, object);
                    around
                }
                None => Value::Array(vec![object]),
            };
        }
        step = one.parent;
    }
    for (name, value) in [("apiVersion", "validation/v1"), ("kind", "Validation")] {
        if !object.has(name) {
            object.insert(name, value);
        }
    }
    let mut within = value!({"type": "object", "properties": {}});
    within.set_path(&["properties", "x"], inside.whole.clone());
    within.set_path(&["properties", "x", EMBEDDED], true);
    let schema = Schema::compile_part(&within);
    let mut around = Value::object();
    around.insert("x", object);
    if let Err(error) = embedded(&schema, &mut around, false) {
        return Some(error.to_string());
    }
    let mut errors = Errors::new();
    let at = Path::new("");
    embedded_errors(&schema, &around, None, &mut errors);
    let said: Vec<String> = errors
        .iter()
        .map(|error| {
            let field = error.field.strip_prefix("x.").unwrap_or(&error.field);
            format!("{at}{field}: {}", error.body())
        })
        .collect();
    match said.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}

fn strip(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            map.remove("x-kubernetes-int-or-string");
            map.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

/// Checks that it is valid in the schema, including its rules.
fn fits(schema: &Value, default: &Value, whole: bool, at: &Path<'_>, errors: &mut Errors) {
    // A number or a text is anything here, as in Kubernetes.
    let mut stated = schema.clone();
    strip(&mut stated);
    let compiled = Schema::compile_part(&stated);
    let shown = at.to_string();
    let before = errors.len();
    errors.extend(validate::of_no_type(schema, default, &shown));
    validate::check(&compiled, default, None, Some(&shown), errors);
    if errors.len() > before {
        return;
    }
    let Some(rules) = rules::SchemaRules::new(schema, whole) else {
        return;
    };
    // Rules on changes hold for a default that comes in the place of itself, and
    // for one that comes in the place of nothing.
    for old in [Some(default), None] {
        let mut found = Errors::new();
        rules.check(&compiled, default, old, &mut found);
        let found = found.into_vec();
        let failed = !found.is_empty();
        errors.extend(found.into_iter().map(|mut error| {
            error.field = match error.field.as_str() {
                "<nil>" | "" => shown.clone(),
                below if below.starts_with('[') => format!("{shown}{below}"),
                below => format!("{shown}.{below}"),
            };
            error
        }));
        if failed {
            return;
        }
    }
}

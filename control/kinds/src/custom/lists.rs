//! Lists whose items may come once only (`x-kubernetes-list-type` `set` and `map`).

use control_types::structural::{ListType, Schema};
use control_types::value::{Map, Value};

use crate::error::{Errors, Path};

/// Checks the lists of an object.
pub(super) fn check(schema: &Schema, object: &Value, errors: &mut Errors) {
    if schema.has_lists()
        && let Value::Object(map) = object
    {
        for (key, value) in map.iter() {
            let at = Path::new(key);
            if let Some(of) = schema.property(key) {
                below(of, value, &at, errors);
            }
        }
    }
}

fn below(schema: &Schema, value: &Value, at: &Path<'_>, errors: &mut Errors) {
    if !schema.has_lists() {
        return;
    }
    match value {
        Value::Object(map) => {
            if let Some(of) = schema.additional_schema() {
                for (key, value) in map.iter() {
                    below(of, value, &at.key(key), errors);
                }
            }
            for (key, value) in map.iter() {
                if let Some(of) = schema.property(key) {
                    below(of, value, &at.child(key), errors);
                }
            }
        }
        Value::Array(items) => {
            match schema.list_type() {
                ListType::Atomic => {}
                ListType::Set => {
                    for again in duplicates(items.iter()) {
                        errors.duplicate(&at.index(again), &items[again]);
                    }
                }
                ListType::Map(keys) => maps(keys, items, at, errors),
            }
            if let Some(of) = schema.items() {
                for (i, item) in items.iter().enumerate() {
                    below(of, item, &at.index(i), errors);
                }
            }
        }
        _ => {}
    }
}

fn maps(keys: &[&'static str], items: &[Value], at: &Path<'_>, errors: &mut Errors) {
    let wrong = |item: &Value| !matches!(item, Value::Object(_) | Value::Null);
    if let Some(i) = items.iter().position(wrong) {
        errors.invalid(
            &at.index(i),
            &items[i],
            "must be an object for an array of list-type map",
        );
        return;
    }
    let key_of = |item: &Value| -> Map {
        keys.iter()
            .filter_map(|key| Some((*key, item.get(key)?.clone())))
            .collect()
    };
    let all: Vec<Value> = items
        .iter()
        .map(|item| Value::Object(key_of(item)))
        .collect();
    for again in duplicates(all.iter()) {
        errors.duplicate(&at.index(again), &all[again]);
    }
}

/// The places of the second of each values that come more than once.
fn duplicates<'a>(items: impl Iterator<Item = &'a Value>) -> Vec<usize> {
    let mut seen = std::collections::HashMap::<String, usize>::new();
    let mut out = Vec::new();
    for (at, item) in items.enumerate() {
        let times = seen.entry(canonical(item)).or_default();
        *times += 1;
        if *times == 2 {
            out.push(at);
        }
    }
    out
}

/// A value as text that does not depend on the order of members.
fn canonical(value: &Value) -> String {
    let mut sorted = value.clone();
    sort(&mut sorted);
    sorted.to_string()
}

fn sort(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.sort();
            map.values_mut().for_each(sort);
        }
        Value::Array(items) => items.iter_mut().for_each(sort),
        _ => {}
    }
}

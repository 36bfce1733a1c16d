//! Pruning: members that a schema does not know go.

use std::fmt::Write as _;

use super::Schema;
use crate::value::{Map, Value};

/// The position of pruning in the object; read only for messages.
struct PrunePath<'a> {
    parent: Option<&'a PrunePath<'a>>,
    step: PruneStep<'a>,
}

enum PruneStep<'a> {
    Root,
    Member(&'a str),
    Item(usize),
}

/// Members of every object of the API.
const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

impl Schema {
    /// Drops members that the schema does not know, and tells their paths
    /// (`spec.items[0].foo`), in alphabetical order. Kind, version and metadata of
    /// the object and of embedded ones are left alone.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut found = Vec::new();
        let root = PrunePath {
            parent: None,
            step: PruneStep::Root,
        };
        below(Some(self), object, false, &root, &mut found);
        found.sort_unstable();
        found
    }
}

/// `keeps`: a list around the value keeps unknown members of its items.
fn below(
    schema: Option<&Schema>,
    value: &mut Value,
    keeps: bool,
    place: &PrunePath<'_>,
    found: &mut Vec<String>,
) {
    let keeps = keeps || schema.is_some_and(Schema::preserves_unknown);
    match value {
        Value::Object(map) => members(schema, map, keeps, place, found),
        Value::Array(items) => {
            // A schema that keeps all has perhaps no word on items.
            let of = schema.and_then(Schema::items);
            if of.is_none() && keeps {
                return;
            }
            for (at, item) in items.iter_mut().enumerate() {
                let step = PrunePath {
                    parent: Some(place),
                    step: PruneStep::Item(at),
                };
                below(of, item, keeps, &step, found);
            }
        }
        _ => {}
    }
}

fn members(
    schema: Option<&Schema>,
    map: &mut Map,
    keeps: bool,
    place: &PrunePath<'_>,
    found: &mut Vec<String>,
) {
    let Some(schema) = schema else {
        for key in map.keys() {
            found.push(path(place, key));
        }
        map.clear();
        return;
    };
    map.retain(|key, value| {
        if schema.is_resource() && META.contains(&key.as_str()) {
            return true;
        }
        let anything = matches!(schema.additional, super::Additional::Any);
        match schema.member(key) {
            Some(known) => {
                let step = PrunePath {
                    parent: Some(place),
                    step: PruneStep::Member(key),
                };
                below(Some(known), value, false, &step, found);
                true
            }
            None if keeps => true,
            None if anything => {
                let step = PrunePath {
                    parent: Some(place),
                    step: PruneStep::Member(key),
                };
                below(None, value, false, &step, found);
                true
            }
            None => {
                found.push(path(place, key));
                false
            }
        }
    });
}

fn path(place: &PrunePath<'_>, last: &str) -> String {
    let mut out = String::new();
    write_place(place, &mut out);
    if !out.is_empty() {
        out.push('.');
    }
    out.push_str(last);
    out
}

fn write_place(place: &PrunePath<'_>, out: &mut String) {
    if let Some(parent) = place.parent {
        write_place(parent, out);
    }
    match place.step {
        PruneStep::Root => {}
        PruneStep::Member(name) => {
            if !out.is_empty() {
                out.push('.');
            }
            out.push_str(name);
        }
        PruneStep::Item(at) => {
            let _ = write!(out, "[{at}]");
        }
    }
}

//! The parts of a tree that are replaced as a whole.

use control_types::value::Value;

use crate::element::Element;
use crate::schema::{Kind, Relation, Schema};

/// The paths of all atomic lists, maps and structs in a tree, as in
/// `.spec.selector`: to name one member of such is to drop all others.
#[must_use]
pub fn atomics(schema: Schema<'_>, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    walk(schema, value, "", &mut found);
    found
}

fn walk(schema: Schema<'_>, value: &Value, at: &str, found: &mut Vec<String>) {
    match (schema.atom().narrow_to(Some(value)).kind(), value) {
        (Kind::Map(map), Value::Object(members)) => {
            if map.atomic {
                found.push(at.to_owned());
            }
            for (name, member) in members.iter() {
                if let Some(of) = map.field(name) {
                    let below = format!("{at}{}", Element::Field(name.clone()));
                    walk(of, member, &below, found);
                }
            }
        }
        (Kind::List(list), Value::Array(items)) => {
            if list.relation == Relation::Atomic {
                found.push(at.to_owned());
            }
            for (i, item) in items.iter().enumerate() {
                let index = Element::Index(i64::try_from(i).unwrap_or(i64::MAX));
                walk(list.item, item, &format!("{at}{index}"), found);
            }
        }
        _ => {}
    }
}

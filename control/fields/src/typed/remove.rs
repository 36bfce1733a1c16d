//! Removes or extracts items of a tree.

use control_types::value::{Map, Value};

use super::items::element_of;
use crate::element::Element;
use crate::schema::{Kind, ListAtom, MapAtom, Relation, Schema};
use crate::set::Set;

/// Removes the members and items of a set from the tree. Containers that become empty
/// become `null`.
#[must_use]
pub fn remove(schema: Schema<'_>, value: &Value, gone: &Set) -> Value {
    walk(schema, value, gone, false)
}

/// The tree with the members and items of a set only.
#[must_use]
pub fn extract(schema: Schema<'_>, value: &Value, kept: &Set) -> Value {
    walk(schema, value, kept, true)
}

fn walk(schema: Schema<'_>, value: &Value, set: &Set, extract: bool) -> Value {
    let whole = || {
        if extract { value.clone() } else { Value::Null }
    };
    match (schema.atom().narrow_to(Some(value)).kind(), value) {
        (Kind::Scalar(_), _) => value.clone(),
        (Kind::List(list), Value::Array(items)) => {
            if items.is_empty() || list.relation == Relation::Atomic {
                return whole();
            }
            of_list(&list, items, set, extract)
        }
        (Kind::Map(map), Value::Object(members)) => {
            if members.is_empty() || map.atomic {
                return whole();
            }
            of_map(&map, members, set, extract)
        }
        _ => Value::Null,
    }
}

fn of_list(list: &ListAtom<'_>, items: &[Value], set: &Set, extract: bool) -> Value {
    let mut kept = Vec::with_capacity(items.len());
    for item in items {
        let Ok(element) = element_of(list, item) else {
            kept.push(item.clone());
            continue;
        };
        let (exact, below) = (set.member(&element), set.children(&element));
        match (extract, exact, below) {
            (false, true, _) | (true, false, None) => {}
            (_, _, Some(below)) => kept.push(walk(list.item, item, below, extract)),
            (_, _, None) => kept.push(item.clone()),
        }
    }
    if kept.is_empty() {
        Value::Null
    } else {
        Value::Array(kept)
    }
}

fn of_map(map: &MapAtom<'_>, members: &Map, set: &Set, extract: bool) -> Value {
    let mut kept = Map::with_capacity(members.len());
    for (key, value) in members {
        let element = Element::Field(key.clone());
        let schema = map.member(key).unwrap_or(Schema::Deduced);
        if set.member(&element) {
            if extract {
                // As in structured-merge-diff, the whole set is passed down with a member
                // that is in it, not the part below it.
                kept.push_unchecked(key.clone(), walk(schema, value, set, true));
            }
            continue;
        }
        match set.children(&element) {
            Some(below) => kept.push_unchecked(key.clone(), walk(schema, value, below, extract)),
            None if extract => {}
            None => kept.push_unchecked(key.clone(), value.clone()),
        }
    }
    if kept.is_empty() {
        Value::Null
    } else {
        Value::Object(kept)
    }
}

//! The paths that a tree names.

use std::collections::BTreeMap;

use control_types::value::{Map, Value};

use super::items::{element_of, items, members};
use super::problem::Problems;
use crate::element::Element;
use crate::schema::{Kind, ListAtom, MapAtom, Relation, Schema};
use crate::set::Set;

/// Returns the set of all leaves, items and empty or unnamed members of a tree, which its
/// applier owns.
///
/// # Errors
/// When an item of a list map or set has no unique identity.
pub fn field_set(schema: Schema<'_>, value: &Value) -> Result<Set, Problems> {
    Ok(walk(schema, value)?.0)
}

/// The set below a value, and whether its own path is in it.
fn walk(schema: Schema<'_>, value: &Value) -> Result<(Set, bool), Problems> {
    match schema.atom().narrow_to(Some(value)).kind() {
        Kind::Scalar(_) => Ok((Set::new(), true)),
        Kind::List(list) if list.relation == Relation::Atomic => Ok((Set::new(), true)),
        Kind::Map(map) if map.atomic => Ok((Set::new(), true)),
        Kind::List(list) => Ok((of_list(&list, value)?, false)),
        Kind::Map(map) => Ok((of_map(&map, value)?, false)),
    }
}

fn of_list(list: &ListAtom<'_>, value: &Value) -> Result<Set, Problems> {
    let mut problems = Problems::default();
    let mut found: BTreeMap<Element, Option<&Value>> = BTreeMap::new();
    for (at, item) in items(Some(value)).into_iter().flatten().enumerate() {
        match element_of(list, item) {
            // An item that comes twice is owned as a whole.
            Ok(element) => {
                found
                    .entry(element)
                    .and_modify(|item| *item = None)
                    .or_insert(Some(item));
            }
            Err(why) => problems.add(format!("element {at}: {why}")),
        }
    }
    let mut set = Set::new();
    for (element, item) in found {
        let below = match item {
            Some(item) => match walk(list.item, item) {
                Ok((below, _)) => below,
                Err(below) => {
                    problems.below(&element, below);
                    continue;
                }
            },
            None => Set::new(),
        };
        set.push(element, true, below);
    }
    problems.or(set)
}

fn of_map(map: &MapAtom<'_>, value: &Value) -> Result<Set, Problems> {
    let mut problems = Problems::default();
    let mut set = Set::new();
    for (key, value) in members(Some(value)).into_iter().flatten() {
        let field = map.field(key);
        let Some(schema) = field.or(map.element) else {
            continue;
        };
        match walk(schema, value) {
            Ok((below, own)) => {
                let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                let member = own || empty || field.is_none();
                if member || !below.nodes.is_empty() {
                    set.push(Element::Field(key.clone()), member, below);
                }
            }
            Err(below) => problems.below(&Element::Field(key.clone()), below),
        }
    }
    set.sort();
    problems.or(set)
}

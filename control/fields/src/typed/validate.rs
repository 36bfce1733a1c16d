//! Whether a tree is of a type.

use std::collections::BTreeSet;

use control_types::go;
use control_types::value::{Map, Value};

use super::items::element_of;
use super::problem::Problems;
use crate::element::Element;
use crate::schema::{Kind, ListAtom, MapAtom, Relation, Scalar, Schema};

/// Whether lists that are maps or sets may hold the same item twice: an object
/// that was stored may, one that is applied may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    /// They may.
    Allowed,
    /// They may not.
    Refused,
}

/// Checks a tree against its type.
///
/// # Errors
/// All that does not fit.
pub fn validate(schema: Schema<'_>, value: &Value, duplicates: Duplicates) -> Result<(), Problems> {
    let mut problems = Problems::default();
    match schema.atom().narrow_to(Some(value)).kind() {
        Kind::Scalar(scalar) => {
            if let Some(message) = scalar_problem(scalar, Some(value)) {
                problems.add(message);
            }
        }
        Kind::List(list) => match value {
            Value::Null => {}
            Value::Array(items) => all_items(&list, items, duplicates, &mut problems),
            other => problems.add(format!("expected list, got &{{{}}}", go::plain(other))),
        },
        Kind::Map(map) => match value {
            Value::Null => {}
            Value::Object(members) => all_members(&map, members, duplicates, &mut problems),
            other => problems.add(format!("expected map, got &{{{}}}", go::plain(other))),
        },
    }
    problems.or(())
}

fn all_items(
    list: &ListAtom<'_>,
    items: &[Value],
    duplicates: Duplicates,
    problems: &mut Problems,
) {
    let mut seen = BTreeSet::new();
    for (at, item) in items.iter().enumerate() {
        let element = if list.relation == Relation::Atomic {
            Element::Index(i64::try_from(at).unwrap_or(i64::MAX))
        } else {
            match element_of(list, item) {
                Ok(element) => {
                    if seen.contains(&element) {
                        if duplicates == Duplicates::Refused {
                            problems.add(format!("duplicate entries for key {element}"));
                        }
                    } else {
                        seen.insert(element.clone());
                    }
                    element
                }
                Err(why) => {
                    problems.add(format!("element {at}: {why}"));
                    return;
                }
            }
        };
        if let Err(below) = validate(list.item, item, duplicates) {
            problems.below(&element, below);
        }
    }
}

fn all_members(map: &MapAtom<'_>, members: &Map, duplicates: Duplicates, problems: &mut Problems) {
    for (key, value) in members {
        let element = Element::Field(key.clone());
        let Some(schema) = map.member(key) else {
            let mut unknown = Problems::default();
            unknown.add("field not declared in schema");
            problems.below(&element, unknown);
            return;
        };
        if let Err(below) = validate(schema, value, duplicates) {
            problems.below(&element, below);
        }
    }
}

/// Returns the problem of a scalar.
pub(super) fn scalar_problem(scalar: Scalar, value: Option<&Value>) -> Option<String> {
    let value = value.filter(|value| !value.is_null())?;
    // Nearly every value fits: only of one that does not is a text made.
    let fits = match scalar {
        Scalar::Numeric => matches!(value, Value::Int(_) | Value::Float(_)),
        Scalar::String => matches!(value, Value::String(_)),
        Scalar::Boolean => matches!(value, Value::Bool(_)),
        Scalar::Untyped => !matches!(value, Value::Array(_) | Value::Object(_)),
    };
    if fits {
        return None;
    }
    Some(match scalar {
        Scalar::Numeric => format!(
            "expected numeric (int or float), got {}",
            go::type_name(value)
        ),
        Scalar::String => format!(
            "expected string, got &value.valueUnstructured{{Value:{}}}",
            go::syntax(value)
        ),
        Scalar::Boolean => format!("expected boolean, got &{{{}}}", go::plain(value)),
        Scalar::Untyped => format!("expected any scalar, got &{{{}}}", go::plain(value)),
    })
}

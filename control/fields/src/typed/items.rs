//! The items of lists and the members of maps, and what identifies them.

use control_types::value::{Key, Map, Value};

use crate::element::Element;
use crate::schema::{ListAtom, Relation};

/// Error for an item of a list map or set without an identity; the message is that of
/// structured-merge-diff.
#[derive(Debug, thiserror::Error)]
pub(super) enum ElementError {
    #[error("invalid indexing of non-associative list")]
    Atomic,
    #[error("associative list without keys has an element that's a map type")]
    SetOfMaps,
    #[error("not supported: associative list with lists as elements")]
    SetOfLists,
    #[error("associative list without keys has an element that's an explicit null")]
    SetOfNulls,
    #[error("associative list with keys may not have a null element")]
    Null,
    #[error("associative list with keys may not have non-map elements")]
    NoMap,
    #[error("couldn't find default value for {0}: associative list may not have non-map types")]
    NoDefault(String),
    #[error(
        "associative list with keys has an element that omits all key fields [{0}] (and doesn't have default values for any key fields)"
    )]
    NoKeys(String),
}

/// Returns the element that selects an item of a list map or set.
pub(super) fn element_of(list: &ListAtom<'_>, item: &Value) -> Result<Element, ElementError> {
    match list.relation {
        Relation::Atomic => Err(ElementError::Atomic),
        Relation::Set => match item {
            Value::Object(_) => Err(ElementError::SetOfMaps),
            Value::Array(_) => Err(ElementError::SetOfLists),
            Value::Null => Err(ElementError::SetOfNulls),
            scalar => Ok(Element::value(scalar.clone())),
        },
        Relation::Map(names) => {
            let map = match item {
                Value::Object(map) => map,
                Value::Null => return Err(ElementError::Null),
                _ => return Err(ElementError::NoMap),
            };
            let mut fields = Vec::with_capacity(names.len());
            for name in names {
                if let Some(value) = map.get(name) {
                    fields.push((Key::new(name), value.clone()));
                } else if let Some(of) = list.item.atom().map {
                    fields.extend(of.default_of(name).map(|value| (Key::new(name), value)));
                } else {
                    return Err(ElementError::NoDefault((*name).to_owned()));
                }
            }
            if fields.is_empty() && !names.is_empty() {
                let names: Vec<_> = names
                    .iter()
                    .map(|name| control_types::status::quote(name))
                    .collect();
                return Err(ElementError::NoKeys(names.join(" ")));
            }
            Ok(Element::key(fields))
        }
    }
}

/// The member of a key. `hint` is where it probably stands.
pub(crate) fn find<'a>(map: &'a Map, key: &Key, hint: usize) -> Option<&'a Value> {
    let slice = map.as_slice();
    match slice.get(hint) {
        Some((name, value)) if name == key => Some(value),
        _ => slice
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value),
    }
}

/// The items, when this is a list; `null` is a list without any.
pub(super) fn items(value: Option<&Value>) -> Option<&Vec<Value>> {
    value.and_then(Value::as_array)
}

/// The members, when this is a map; `null` is a map without any.
pub(super) fn members(value: Option<&Value>) -> Option<&Map> {
    value.and_then(Value::as_object)
}

//! Operations on trees that need to know their type.

mod atomics;
mod compare;
mod field_set;
mod merge;
mod remove;
mod validate;

use std::fmt;

use control_types::value::{Key, Map, Value};

use crate::element::Element;
use crate::schema::{ListAtom, Relation};

pub use atomics::atomics;
pub use compare::{Comparison, compare};
pub use field_set::field_set;
pub use merge::merge;
pub use remove::{extract, remove};
pub use validate::{Duplicates, validate};

/// A problem of one value of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The path, as in `.spec.containers[name="a"]`.
    pub path: String,
    /// The problem.
    pub message: String,
}

/// All that is wrong with a tree; worded as structured-merge-diff words it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    fn add(&mut self, message: impl Into<String>) {
        self.0.push(Problem {
            path: String::new(),
            message: message.into(),
        });
    }

    /// Takes the problems of a child.
    fn below(&mut self, element: &Element, child: Problems) {
        self.0.extend(child.0.into_iter().map(|problem| Problem {
            path: format!("{element}{}", problem.path),
            message: problem.message,
        }));
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn or<T>(self, value: T) -> Result<T, Self> {
        if self.is_empty() {
            Ok(value)
        } else {
            Err(self)
        }
    }
}

impl std::error::Error for Problems {}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [one] => one.fmt(f),
            all => {
                f.write_str("errors:")?;
                all.iter().try_for_each(|one| write!(f, "\n  {one}"))
            }
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.path, self.message)
        }
    }
}

/// Error for an item of a list map or set without an identity; the message is that of
/// structured-merge-diff.
#[derive(Debug, thiserror::Error)]
enum ElementError {
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
fn element_of(list: &ListAtom<'_>, item: &Value) -> Result<Element, ElementError> {
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
fn items(value: Option<&Value>) -> Option<&Vec<Value>> {
    value.and_then(Value::as_array)
}

/// The members, when this is a map; `null` is a map without any.
fn members(value: Option<&Value>) -> Option<&Map> {
    value.and_then(Value::as_object)
}

#[cfg(test)]
mod tests;

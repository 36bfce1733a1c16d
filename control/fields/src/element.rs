//! One step of a path into an object, and paths.

use std::cmp::Ordering;
use std::fmt;

use control_types::status::quote;
use control_types::value::{Key, Value};

/// How a child is selected within its parent. The order of the variants is the
/// order in which `fieldsV1` lists them.
#[derive(Clone, Debug)]
pub enum Element {
    /// A field of a struct or a key of a map: `f:`.
    Field(Key),
    /// The item of a list map that has these values in its key fields, ordered
    /// by name: `k:`.
    Key(Box<[(Key, Value)]>),
    /// The item of a set: `v:`.
    Value(Box<Value>),
    /// An item by its place: `i:`.
    Index(i64),
}

/// Steps from the root of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(pub Vec<Element>);

impl Element {
    /// The element of a field.
    pub fn field(name: impl Into<Key>) -> Self {
        Self::Field(name.into())
    }

    /// The element of a list map's item.
    pub fn key(fields: impl IntoIterator<Item = (Key, Value)>) -> Self {
        let mut fields: Vec<_> = fields.into_iter().collect();
        fields.sort_by(|(a, _), (b, _)| a.cmp(b));
        Self::Key(fields.into())
    }

    /// The element of a set's item.
    pub fn value(value: impl Into<Value>) -> Self {
        Self::Value(Box::new(value.into()))
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

/// A total order of values: numbers by size whether whole or not, then texts,
/// truths, lists, maps, nothing.
#[must_use]
pub(crate) fn compare(a: &Value, b: &Value) -> Ordering {
    fn rank(value: &Value) -> u8 {
        match value {
            Value::Int(_) | Value::Float(_) => 0,
            Value::String(_) => 1,
            Value::Bool(_) => 2,
            Value::Array(_) => 3,
            Value::Object(_) => 4,
            Value::Null => 5,
        }
    }
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Int(_) | Value::Float(_), Value::Int(_) | Value::Float(_)) => {
            let (a, b) = (
                a.as_f64().unwrap_or_default(),
                b.as_f64().unwrap_or_default(),
            );
            a.total_cmp(&b)
        }
        (Value::String(a), Value::String(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => a
            .iter()
            .zip(b)
            .map(|(a, b)| compare(a, b))
            .find(|order| order.is_ne())
            .unwrap_or_else(|| a.len().cmp(&b.len())),
        (Value::Object(a), Value::Object(b)) => {
            let mut a: Vec<_> = a.iter().collect();
            let mut b: Vec<_> = b.iter().collect();
            a.sort_by_key(|(key, _)| *key);
            b.sort_by_key(|(key, _)| *key);
            a.iter()
                .zip(&b)
                .map(|(a, b)| a.0.cmp(b.0).then_with(|| compare(a.1, b.1)))
                .find(|order| order.is_ne())
                .unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        _ => rank(a).cmp(&rank(b)),
    }
}

/// Whether two values are the same, a whole number also without its type.
#[must_use]
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.as_slice().iter().zip(b.as_slice()).all(|(left, right)| {
                    if left.0 == right.0 {
                        same(&left.1, &right.1)
                    } else {
                        b.get(&left.0).is_some_and(|other| same(&left.1, other))
                    }
                })
        }
        (Value::String(a), Value::String(b)) => a == b,
        _ => compare(a, b).is_eq(),
    }
}

// === impl Element ===

impl Ord for Element {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => a
                .iter()
                .zip(b)
                .map(|(a, b)| a.0.cmp(&b.0).then_with(|| compare(&a.1, &b.1)))
                .find(|order| order.is_ne())
                .unwrap_or_else(|| a.len().cmp(&b.len())),
            (Self::Value(a), Self::Value(b)) => compare(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Element {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Element {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a == b,
            _ => self.cmp(other).is_eq(),
        }
    }
}

impl Eq for Element {}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                f.write_str("[")?;
                for (at, (name, value)) in fields.iter().enumerate() {
                    let comma = if at > 0 { "," } else { "" };
                    write!(f, "{comma}{name}={}", shown(value))?;
                }
                f.write_str("]")
            }
            Self::Value(value) => write!(f, "[={}]", shown(value)),
            Self::Index(at) => write!(f, "[{at}]"),
        }
    }
}

/// A value within a printed path.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(shown).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| format!("{key}={}", shown(value)))
            .collect(),
        other => other.to_string(),
    }
}

// === impl Path ===

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(f))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_ordered_as_fields_v1_lists_them() {
        let mut all = [
            Element::Index(1),
            Element::value(2),
            Element::value("a"),
            Element::key([("name".into(), "b".into())]),
            Element::key([("name".into(), "a".into()), ("x".into(), 1.into())]),
            Element::key([("name".into(), "a".into())]),
            Element::field("b"),
            Element::field("a"),
        ];
        all.sort();
        let shown: Vec<_> = all.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                ".a",
                ".b",
                "[name=\"a\"]",
                "[name=\"a\",x=1]",
                "[name=\"b\"]",
                "[=2]",
                "[=\"a\"]",
                "[1]"
            ]
        );
    }

    #[test]
    fn whole_numbers_equal_themselves_as_floats() {
        assert!(same(&Value::Int(3), &Value::Float(3.0)));
        assert!(!same(&Value::Int(3), &Value::Float(3.5)));
        assert!(!same(&Value::Int(0), &Value::Null));
        assert_eq!(
            Element::value(Value::Int(3)),
            Element::value(Value::Float(3.0))
        );
    }
}

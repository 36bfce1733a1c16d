//! `FieldsV1`: a set as a JSON trie.
//!
//! Each element is a key: `f:` and a field's name, `k:` and a JSON object of key fields,
//! `v:` and a JSON value, `i:` and a number. The value is the trie below it, in which `.`
//! stands for the path that ends here; a path with nothing below it has the empty object.

use control_types::value::{Key, Map, Value};

use crate::element::Element;
use crate::set::{PathNode, Set};
use crate::typed::find;

/// Returns whether a `FieldsV1` contains a path of a set, without parsing all of it.
pub(crate) fn overlaps(fields: &Map, set: &Set) -> bool {
    set.nodes.iter().any(|node| {
        let key = key_of(&node.element);
        match find(fields, &key, usize::MAX) {
            Some(Value::Object(below)) => {
                (node.member && (below.is_empty() || below.contains_key(".")))
                    || overlaps(below, &node.children)
            }
            // A value that is not an object is malformed.
            _ => false,
        }
    })
}

/// Error for a value that is not a `FieldsV1`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// A level of the trie is no object.
    #[error("expected an object, got {0}")]
    NoObject(&'static str),
    /// A key without type.
    #[error("parsing key as path element: {0}")]
    Element(String),
}

impl Set {
    /// The set as `FieldsV1` has it.
    #[must_use]
    pub fn to_fields(&self) -> Value {
        let mut map = Map::with_capacity(self.nodes.len());
        write(self, &mut map);
        Value::Object(map)
    }

    /// Reads a `FieldsV1`. Elements of types that are not known are left out.
    ///
    /// # Errors
    /// When a level is no object or a key is malformed.
    pub fn from_fields(fields: &Value) -> Result<Self, FormatError> {
        Ok(read(fields)?.0)
    }
}

fn write(set: &Set, map: &mut Map) {
    for node in &set.nodes {
        let below = node.children.nodes.len();
        if below == 0 && !node.member {
            continue;
        }
        let mut inner = Map::with_capacity(below + usize::from(node.member && below > 0));
        if node.member && below > 0 {
            inner.push_unchecked(Key::new("."), Value::object());
        }
        write(&node.children, &mut inner);
        map.push_unchecked(key_of(&node.element), Value::Object(inner));
    }
}

fn key_of(element: &Element) -> Key {
    match element {
        Element::Field(name) => name.to_field(),
        Element::Key(fields) => {
            let mut text = b"k:{".to_vec();
            for (at, (name, value)) in fields.iter().enumerate() {
                if at > 0 {
                    text.push(b',');
                }
                Value::from(name).write(&mut text);
                text.push(b':');
                value.write(&mut text);
            }
            text.push(b'}');
            Key::from(String::from_utf8_lossy(&text).into_owned())
        }
        Element::Value(value) => {
            let mut text = b"v:".to_vec();
            value.write(&mut text);
            Key::from(String::from_utf8_lossy(&text).into_owned())
        }
        Element::Index(at) => Key::from(format!("i:{at}")),
    }
}

/// The set of a level, and whether the path that leads to it is in the set.
fn read(fields: &Value) -> Result<(Set, bool), FormatError> {
    let mut set = Set::new();
    let mut member = false;
    let empty = Map::new();
    let map = match fields {
        Value::Object(map) => map,
        Value::Null => &empty,
        other => return Err(FormatError::NoObject(other.type_name())),
    };
    set.nodes.reserve_exact(map.len());
    for (key, below) in map {
        if key.as_str() == "." {
            member = true;
            continue;
        }
        let Some(element) = parse(key)? else { continue };
        let (children, member) = read(below)?;
        set.nodes.push(PathNode {
            element,
            member,
            children,
        });
    }
    set.sort();
    Ok((
        if set.nodes.is_empty() {
            member = true;
            Set::new()
        } else {
            set
        },
        member,
    ))
}

/// The element of a key; nothing for types that are not known.
fn parse(key: &Key) -> Result<Option<Element>, FormatError> {
    if let Some(name) = key.of_field() {
        return Ok(Some(Element::Field(name)));
    }
    let text = key.as_str();
    let error = |why: &str| FormatError::Element(why.to_owned());
    let Some((kind, rest)) = text.split_at_checked(2) else {
        return Err(if text.len() < 2 {
            error("key must be 2 characters long:")
        } else {
            error(&format!("missing colon: {text}"))
        });
    };
    if !kind.ends_with(':') {
        return Err(error(&format!("missing colon: {text}")));
    }
    let json = || Value::from_slice(rest.as_bytes()).map_err(|why| error(&why.to_string()));
    Ok(Some(match kind {
        "v:" => Element::Value(Box::new(json()?)),
        "i:" => Element::Index(
            rest.parse()
                .map_err(|_| error(&format!("strconv.Atoi: parsing \"{rest}\": invalid syntax")))?,
        ),
        "k:" => match json()? {
            Value::Object(map) => Element::key(map),
            other => return Err(FormatError::NoObject(other.type_name())),
        },
        _ => return Ok(None),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use control_types::value;

    fn round(fields: &str) -> String {
        let value = Value::from_slice(fields.as_bytes()).unwrap();
        Set::from_fields(&value).unwrap().to_fields().to_string()
    }

    #[test]
    fn a_set_is_written_as_it_was_read() {
        let text = r#"{"f:metadata":{"f:annotations":{".":{},"f:a.b/c":{}},"f:finalizers":{".":{},"v:\"x\"":{}}},"f:spec":{"f:ports":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}},"i:3":{}}}"#;
        assert_eq!(round(text), text);
    }

    #[test]
    fn order_is_restored_and_unknown_elements_are_left_out() {
        assert_eq!(
            round(
                r#"{"v:1":{},"f:b":{"x:y":{}},"f:a":{"f:c":{},".":{}},"k:{\"b\":1,\"a\":2}":{}}"#
            ),
            r#"{"f:a":{".":{},"f:c":{}},"f:b":{},"k:{\"a\":2,\"b\":1}":{},"v:1":{}}"#
        );
        assert_eq!(round("{}"), "{}");
    }

    #[test]
    fn malformed_tries_are_refused() {
        for bad in [
            value!({"f:a": 1}),
            value!({"x": {}}),
            value!({"fa": {}}),
            value!({"k:1": {}}),
            value!({"v:{": {}}),
            value!({"i:x": {}}),
            value!([]),
            value!({"é": {}}),
        ] {
            assert!(Set::from_fields(&bad).is_err(), "{bad}");
        }
    }
}

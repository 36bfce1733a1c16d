//! What selectors look at, packed: pairs of texts, one after the other, each
//! with its length before it.
//!
//! A cached object carries these at the end of its own bytes: fifty thousand
//! pods would spend more on tables of small strings than on a tenth of their JSON.

use control_types::value::Value;

use control_strategy::ResourceStrategy;

/// Labels, then selectable fields, of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// All pairs.
    pub bytes: Vec<u8>,
    /// Where the fields begin.
    pub fields_at: usize,
}

impl Facts {
    /// The facts of an object.
    pub fn from_object(object: &Value, kind: &ResourceStrategy) -> Self {
        let mut bytes = Vec::with_capacity(256);
        let labels = object
            .path(&["metadata", "labels"])
            .and_then(Value::as_object);
        for (key, value) in labels.into_iter().flatten() {
            if let Some(value) = value.as_str() {
                push(&mut bytes, key);
                push(&mut bytes, value);
            }
        }
        let fields_at = bytes.len();
        for (name, value) in kind.selectable_fields(object) {
            push(&mut bytes, name);
            push(&mut bytes, &value);
        }
        Self { bytes, fields_at }
    }
}

/// The value that goes with `key` in packed pairs.
pub(super) fn find<'a>(mut pairs: &'a [u8], key: &str) -> Option<&'a str> {
    while let Some((name, rest)) = take(pairs) {
        let (value, rest) = take(rest)?;
        if name == key.as_bytes() {
            // They were texts when they were packed.
            return std::str::from_utf8(value).ok();
        }
        pairs = rest;
    }
    None
}

/// Lengths in seven bits a byte, the lowest first.
fn push(bytes: &mut Vec<u8>, text: &str) {
    let mut length = text.len();
    while length >= 0x80 {
        bytes.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    bytes.extend_from_slice(text.as_bytes());
}

fn take(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (mut length, mut shift, mut at) = (0, 0, 0);
    loop {
        let byte = *bytes.get(at)?;
        at += 1;
        length |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
        shift += 7;
    }
    bytes.get(at..)?.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use control_types::schema::{Shape, TypeRef};
    use control_types::{registry, value};

    use super::*;

    #[test]
    fn labels_and_fields_are_found_by_their_whole_names() {
        let long = "x".repeat(70_000);
        let object = value!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "web", "labels": {"a": "1", "long": (long.as_str()), "z": ""}}, "spec": {"nodeName": "n1"}});
        let facts = Facts::from_object(&object, &control_kinds::find_kind("", "Pod").into());
        let (labels, fields) = facts.bytes.split_at(facts.fields_at);
        assert_eq!(find(labels, "a"), Some("1"));
        assert_eq!(find(labels, "long"), Some(long.as_str()));
        assert_eq!(find(labels, "z"), Some(""));
        assert_eq!(find(labels, "1"), None);
        assert_eq!(find(labels, ""), None);
        assert_eq!(find(labels, "spec.nodeName"), None);
        assert_eq!(find(fields, "spec.nodeName"), Some("n1"));
    }

    /// A value of a type, with as much in it as the type has, down to some depth.
    fn filled(of: &TypeRef, depth: usize, number: &mut i64) -> Value {
        *number += 1;
        match of {
            TypeRef::Int32 | TypeRef::Int64 | TypeRef::IntOrString => (*number).into(),
            TypeRef::Bool => true.into(),
            TypeRef::List(inner) => Value::Array(vec![filled(inner, depth, number)]),
            TypeRef::Map(inner) => {
                let mut map = Value::object();
                map.insert("key", filled(inner, depth, number));
                map
            }
            TypeRef::Object(id) if id.get().shape == Shape::Struct && depth > 0 => {
                let mut object = Value::object();
                for field in id.fields() {
                    let value = filled(&field.type_ref(), depth - 1, number);
                    object.insert(field.name(), value);
                }
                object
            }
            TypeRef::Object(_) => Value::object(),
            _ => format!("text-{number}").into(),
        }
    }

    #[test]
    fn the_part_that_is_picked_has_the_facts_of_the_whole() {
        for resource in registry::resources() {
            let kind = control_kinds::find_kind(resource.storage.group, resource.kind);
            let of = TypeRef::Object(resource.schema);
            let whole = filled(&of, 5, &mut 0);
            let part = Value::pick(&whole.to_vec(), &kind.selected()).expect("JSON");
            let facts = Facts::from_object(&whole, &kind.into());
            assert!(facts.fields_at > 0, "{}", resource.kind);
            assert_eq!(
                facts,
                Facts::from_object(&part, &kind.into()),
                "{}",
                resource.kind
            );
        }
    }

    #[test]
    fn an_object_without_labels_has_none() {
        let facts = Facts::from_object(
            &value!({}),
            &control_kinds::find_kind("", "ConfigMap").into(),
        );
        assert_eq!((find(&facts.bytes, "a"), facts.fields_at), (None, 0));
    }
}

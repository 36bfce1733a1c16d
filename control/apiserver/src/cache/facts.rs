//! What selectors look at, packed: pairs of texts, one after the other, each
//! with its length before it.
//!
//! A cached object carries these at the end of its own bytes: fifty thousand
//! pods would spend more on tables of small strings than on a tenth of their JSON.

use control_types::value::Value;

use crate::nature::Nature;

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
    pub fn of(object: &Value, kind: &Nature) -> Self {
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
    use control_types::value;

    use super::*;

    #[test]
    fn labels_and_fields_are_found_by_their_whole_names() {
        let long = "x".repeat(70_000);
        let object = value!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "web", "labels": {"a": "1", "long": (long.as_str()), "z": ""}}, "spec": {"nodeName": "n1"}});
        let facts = Facts::of(&object, &control_kinds::of("", "Pod").into());
        let (labels, fields) = facts.bytes.split_at(facts.fields_at);
        assert_eq!(find(labels, "a"), Some("1"));
        assert_eq!(find(labels, "long"), Some(long.as_str()));
        assert_eq!(find(labels, "z"), Some(""));
        assert_eq!(find(labels, "1"), None);
        assert_eq!(find(labels, ""), None);
        assert_eq!(find(labels, "spec.nodeName"), None);
        assert_eq!(find(fields, "spec.nodeName"), Some("n1"));
    }

    #[test]
    fn an_object_without_labels_has_none() {
        let facts = Facts::of(&value!({}), &control_kinds::of("", "ConfigMap").into());
        assert_eq!((find(&facts.bytes, "a"), facts.fields_at), (None, 0));
    }
}

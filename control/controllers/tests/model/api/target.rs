//! The object or collection that a request to the server in memory names.

use serde_json::Value;

use super::{ObjectKey, ResourceName};

#[derive(Debug, Clone)]
pub(super) struct Kind {
    pub(super) resource: ResourceName,
    pub(super) api_version: String,
    pub(super) kind: String,
}

pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// A request for something below a resource.
pub(super) struct Target {
    pub(super) kind: Kind,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) subresource: String,
}

pub(super) fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        match (first, tail) {
            (b'%', [high, low, tail @ ..]) => {
                let digits = [*high, *low];
                let hex = std::str::from_utf8(&digits).unwrap_or_default();
                bytes.push(u8::from_str_radix(hex, 16).unwrap_or(b'?'));
                rest = tail;
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reviews and events are answered and not stored; only stored writes have faults.
pub(super) fn is_stored(path: &str) -> bool {
    !path.contains("/events") && !path.contains("authorization.k8s.io")
}

impl Target {
    pub(super) fn key(&self) -> ObjectKey {
        ObjectKey {
            resource: self.kind.resource.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }
}

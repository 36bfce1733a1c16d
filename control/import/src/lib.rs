//! Converts other projects' configuration to Orlop's and Kubernetes' own objects.
//!
//! | module | from | to |
//! | --- | --- | --- |
//! | [`calico`] | Calico's policies, tiers and network sets | NetworkPolicy, ClusterNetworkPolicy |
//! | [`cilium`] | Cilium's policies and CIDR groups | the same |
//! | [`metallb`] | MetalLB's pools, advertisements and peers | IPPool, L2Announcement, BGPPeer, BGPAdvertisement |
//!
//! Pure: objects in, a [`Report`] out. Nothing is guessed: what cannot be converted
//! without changing its meaning is listed in [`Report::refused`] by name, with the reason
//! and the way out.
//!
//! Both policy converters read their objects into the tiers and rules of [`policy`],
//! which decides where each rule goes and writes the objects.

use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::Value;

pub mod calico;
pub mod cilium;
pub mod labels;
pub mod metallb;
pub mod net;
pub mod policy;

/// The annotation of an imported object that names the object it was made from.
pub const IMPORTED_FROM: &str = "orlop.dev/imported-from";

/// The kind, namespace and name of an object, for messages.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// The kind.
    pub kind: String,
    /// The namespace; empty for cluster-wide kinds.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl ObjectId {
    /// Reads the identity of an object; fields that are absent are empty.
    #[must_use]
    pub fn from_object(object: &Value) -> Self {
        let text = |pointer: &str| {
            let value = object.pointer(pointer).and_then(Value::as_str);
            value.unwrap_or_default().to_owned()
        };
        Self {
            kind: text("/kind"),
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name"),
        }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{} {}", self.kind, self.name)
        } else {
            write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
        }
    }
}

/// A remark about one object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Remark {
    /// The object.
    pub object: ObjectId,
    /// The field, such as `egress[0].toFQDNs`; empty for the whole object.
    pub place: String,
    /// The problem, and the way out.
    pub text: String,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.object)?;
        if !self.place.is_empty() {
            write!(f, ": {}", self.place)?;
        }
        write!(f, ": {}", self.text)
    }
}

/// The result of a conversion.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// The new objects, in the order in which they should be applied.
    pub objects: Vec<Value>,
    /// Differences that do not change any verdict or address.
    pub notes: Vec<Remark>,
    /// What was not converted, and why.
    pub refused: Vec<Remark>,
}

impl Report {
    /// Whether everything was converted.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.refused.is_empty()
    }
}

/// Error for an object that is not what its kind says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot read {object}: {why}; correct it, or leave it out of the input")]
pub struct MalformedObject {
    /// The object.
    pub object: ObjectId,
    /// The field and why its value cannot be used.
    pub why: String,
}

/// Error for a value that its field may not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidValue(String);

impl From<String> for InvalidValue {
    fn from(text: String) -> Self {
        Self(text)
    }
}

/// Parses the `spec` of an object. Unknown fields are errors where the type denies them:
/// they may restrict what the others allow.
fn read_spec<T: DeserializeOwned>(object: &Value) -> Result<T, MalformedObject> {
    let id = ObjectId::from_object(object);
    if id.name.is_empty() {
        return Err(MalformedObject {
            object: id,
            why: "it has no metadata.name".to_owned(),
        });
    }
    let spec = match object.get("spec") {
        None | Some(Value::Null) => Value::Object(serde_json::Map::new()),
        Some(other) => other.clone(),
    };
    if let Some(why) = misplaced_list(&spec, "spec") {
        return Err(MalformedObject { object: id, why });
    }
    serde_json::from_value(spec).map_err(|error| MalformedObject {
        object: id,
        why: error.to_string(),
    })
}

/// Fields with one object. serde also reads structs from lists, and an empty list would
/// be an object without any field, which matches everything.
const OBJECTS: [&str; 9] = [
    "spec",
    "source",
    "destination",
    "endpointSelector",
    "nodeSelector",
    "enableDefaultDeny",
    "authentication",
    "serviceAllocation",
    "passwordSecret",
];

/// Describes a list where an object belongs.
fn misplaced_list(value: &Value, name: &str) -> Option<String> {
    match value {
        Value::Array(_) if OBJECTS.contains(&name) => Some(format!("{name} is a list")),
        Value::Array(items) => items.iter().find_map(|item| match item {
            Value::Array(_) => Some(format!("{name} holds a list in a list")),
            other => misplaced_list(other, ""),
        }),
        Value::Object(fields) => fields
            .iter()
            .find_map(|(key, value)| misplaced_list(value, key)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// The labels of an object.
fn labels_of(object: &Value) -> std::collections::BTreeMap<String, String> {
    let labels = object
        .pointer("/metadata/labels")
        .and_then(Value::as_object);
    let pairs = labels.into_iter().flatten();
    pairs
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

/// Splits lists (`kind: List`, or any kind with `items`) into their objects.
#[must_use]
pub fn flatten(documents: Vec<Value>) -> Vec<Value> {
    let mut all = Vec::new();
    for mut document in documents {
        let kind = document.get("kind").and_then(Value::as_str).unwrap_or("");
        let is_list = kind.ends_with("List") && document.get("items").is_some_and(Value::is_array);
        if is_list {
            let item_kind = kind.strip_suffix("List").unwrap_or_default().to_owned();
            let api_version = document.get("apiVersion").cloned();
            let items = document["items"].take();
            let items = match items {
                Value::Array(items) => items,
                _ => Vec::new(),
            };
            // Items of typed lists do not repeat kind and version.
            let items = items.into_iter().map(|mut item| {
                if item.get("kind").is_none() && !item_kind.is_empty() && item.is_object() {
                    item["kind"] = item_kind.clone().into();
                    if let Some(version) = &api_version {
                        item["apiVersion"] = version.clone();
                    }
                }
                item
            });
            all.extend(flatten(items.collect()));
        } else if document.is_object() {
            all.push(document);
        }
    }
    all
}

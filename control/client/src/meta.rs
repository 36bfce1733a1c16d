//! The metadata of an object, as lean as its readers need it.

use std::fmt;

use compact_str::CompactString;
use jiff::Timestamp;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

use crate::{
    nulls::{list, null_as_default},
    resource::{Resource, View},
};

/// `metav1.ObjectMeta` without `managedFields`, `generateName` and `selfLink`, which no
/// component of ours reads.
///
/// Short strings are stored inline, maps are sorted slices: a typical pod's metadata is
/// about 600 bytes.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    /// The object's name.
    #[serde(deserialize_with = "null_as_default")]
    pub name: CompactString,
    /// Its namespace; empty for cluster-scoped objects.
    #[serde(
        deserialize_with = "null_as_default",
        skip_serializing_if = "CompactString::is_empty"
    )]
    pub namespace: CompactString,
    /// Its identity in time and space.
    #[serde(
        deserialize_with = "null_as_default",
        skip_serializing_if = "CompactString::is_empty"
    )]
    pub uid: CompactString,
    /// The revision this was read at.
    #[serde(
        deserialize_with = "null_as_default",
        skip_serializing_if = "CompactString::is_empty"
    )]
    pub resource_version: CompactString,
    /// Counts changes of the desired state.
    #[serde(skip_serializing_if = "is_zero")]
    pub generation: i64,
    /// Labels, for selectors.
    #[serde(
        deserialize_with = "null_as_default",
        skip_serializing_if = "StringMap::is_empty"
    )]
    pub labels: StringMap,
    /// Annotations, without `kubectl.kubernetes.io/last-applied-configuration`, which
    /// repeats the whole object for kubectl only.
    #[serde(
        deserialize_with = "annotations",
        skip_serializing_if = "StringMap::is_empty"
    )]
    pub annotations: StringMap,
    /// Objects that this one depends on.
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub owner_references: Vec<OwnerReference>,
    /// The cleanups that must finish before the object is removed.
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<CompactString>,
    /// When it was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Timestamp>,
    /// The time by which it is to be removed; set once deletion was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Timestamp>,
    /// Seconds granted for graceful deletion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_grace_period_seconds: Option<i64>,
}

impl Meta {
    /// The owner that manages this object, if one does.
    #[must_use]
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references
            .iter()
            .find(|owner| owner.is_controller())
    }

    /// Returns whether deletion was requested.
    #[must_use]
    pub const fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// The resource version as a number, for comparing (KEP-5504); `None` when
    /// the server's are not numbers.
    #[must_use]
    pub fn revision(&self) -> Option<u64> {
        self.resource_version.parse().ok()
    }
}

/// `metav1.OwnerReference`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// `apiVersion` of the owner.
    pub api_version: CompactString,
    /// Kind of the owner.
    pub kind: CompactString,
    /// Name of the owner; it lives in the dependent's namespace or in none.
    pub name: CompactString,
    /// Identity of the owner.
    pub uid: CompactString,
    /// Whether the owner manages this object; an explicit `false` is kept, since
    /// controllers write back the references of others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// Whether foreground deletion of the owner waits for this object; likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

impl OwnerReference {
    /// Whether the owner manages this object.
    #[must_use]
    pub fn is_controller(&self) -> bool {
        self.controller == Some(true)
    }

    /// Whether foreground deletion of the owner waits for this object.
    #[must_use]
    pub fn blocks_owner_deletion(&self) -> bool {
        self.block_owner_deletion == Some(true)
    }
}

/// A view of nothing but metadata, for components that follow any resource
/// (garbage collector, namespace deletion). Use it with
/// [`crate::reflect_resource`]; its own `RESOURCE` is a placeholder.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Metadata {
    /// The object's metadata.
    pub metadata: Meta,
}

impl View for Metadata {
    const RESOURCE: Resource = Resource::cluster(
        "meta.k8s.io",
        "v1",
        "partialobjectmetadatas",
        "PartialObjectMetadata",
    );

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// A map from string to string as a sorted slice: for the handful of labels or
/// annotations of an object far smaller than a tree or a table, and no slower.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StringMap(Box<[(CompactString, CompactString)]>);

impl StringMap {
    /// The value of `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        let at = self
            .0
            .binary_search_by(|(candidate, _)| candidate.as_str().cmp(key))
            .ok()?;
        self.0.get(at).map(|(_, value)| value.as_str())
    }

    /// Whether `key` is there.
    #[must_use]
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// All entries, sorted by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> + Clone {
        self.0
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// How many entries there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the map is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for StringMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: Into<CompactString>, V: Into<CompactString>> FromIterator<(K, V)> for StringMap {
    /// The last of several entries with equal keys counts, as in JSON.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut entries: Vec<(CompactString, CompactString)> = entries
            .into_iter()
            .map(|(key, value)| (key.into(), value.into()))
            .collect();
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        entries.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                std::mem::swap(&mut kept.1, &mut later.1);
            }
            same
        });
        Self(entries.into_boxed_slice())
    }
}

impl<'de> Deserialize<'de> for StringMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Entries { leave_out: "" })
    }
}

impl Serialize for StringMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.len()))?;
        for (key, value) in self.iter() {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// Reads a map, leaving out one key.
struct Entries {
    leave_out: &'static str,
}

impl<'de> Visitor<'de> for Entries {
    type Value = StringMap;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<StringMap, A::Error> {
        let mut entries = Vec::with_capacity(map.size_hint().unwrap_or(0).min(64));
        while let Some(key) = map.next_key::<CompactString>()? {
            if !self.leave_out.is_empty() && key == self.leave_out {
                map.next_value::<serde::de::IgnoredAny>()?;
            } else {
                let value: Option<CompactString> = map.next_value()?;
                entries.push((key, value.unwrap_or_default()));
            }
        }
        Ok(entries.into_iter().collect())
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<StringMap, E> {
        Ok(StringMap::default())
    }
}

fn annotations<'de, D: Deserializer<'de>>(deserializer: D) -> Result<StringMap, D::Error> {
    struct OrNull;
    impl<'de> Visitor<'de> for OrNull {
        type Value = StringMap;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map of strings or null")
        }

        fn visit_none<E: serde::de::Error>(self) -> Result<StringMap, E> {
            Ok(StringMap::default())
        }

        fn visit_unit<E: serde::de::Error>(self) -> Result<StringMap, E> {
            Ok(StringMap::default())
        }

        fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<StringMap, D::Error> {
            deserializer.deserialize_map(Entries {
                leave_out: "kubectl.kubernetes.io/last-applied-configuration",
            })
        }
    }
    deserializer.deserialize_option(OrNull)
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that serde calls"
)]
const fn is_zero(number: &i64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_leaves_out_what_nobody_reads_and_takes_nulls() {
        let meta: Meta = serde_json::from_str(
            r#"{"name":"web-0","namespace":"default","creationTimestamp":null,"labels":null,
                "managedFields":[{"manager":"kubectl"}],"generation":3,
                "deletionTimestamp":"2026-01-02T03:04:05Z",
                "annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{…}","b":"2","a":"1"},
                "ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"u","controller":true}]}"#,
        )
        .unwrap();
        assert_eq!(meta.name, "web-0");
        assert_eq!(
            meta.annotations.iter().collect::<Vec<_>>(),
            [("a", "1"), ("b", "2")]
        );
        assert!(meta.labels.is_empty());
        assert!(meta.is_terminating());
        assert_eq!(
            meta.controller().map(|owner| owner.name.as_str()),
            Some("web")
        );
        assert_eq!(meta.creation_timestamp, None);
        assert_eq!(meta.generation, 3);
    }

    #[test]
    fn of_equal_keys_the_last_counts() {
        let map: StringMap = [("b", "1"), ("a", "2"), ("b", "3"), ("b", "4")]
            .into_iter()
            .collect();
        assert_eq!(map.iter().collect::<Vec<_>>(), [("a", "2"), ("b", "4")]);
        assert_eq!(map.get("b"), Some("4"));
        assert_eq!(map.get("c"), None);
    }
}

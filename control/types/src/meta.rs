//! Reading and writing `apiVersion`, `kind` and `metadata` of an object's tree.
//!
//! A reader answers with the empty text or nothing when the field is absent or of
//! another type, as Go's zero values do.

use compact_str::CompactString;
use jiff::Timestamp;

use crate::time;
use crate::value::{Map, Value};

/// The text of one of the metadata fields.
fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object
        .get("metadata")
        .and_then(|meta| meta.get(field))
        .and_then(Value::as_str)
        .unwrap_or("")
}

fn set_text(object: &mut Value, field: &'static str, text: &str) {
    let meta = metadata_mut(object);
    if text.is_empty() {
        meta.remove(field);
    } else {
        meta.insert(field, text);
    }
}

/// `apiVersion`
#[must_use]
pub fn api_version(object: &Value) -> &str {
    object
        .get("apiVersion")
        .and_then(Value::as_str)
        .unwrap_or("")
}

/// `kind`
#[must_use]
pub fn kind(object: &Value) -> &str {
    object.get("kind").and_then(Value::as_str).unwrap_or("")
}

/// Group and version of an `apiVersion`: `apps/v1` is `("apps", "v1")`, `v1` is `("", "v1")`.
#[must_use]
pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// The `apiVersion` of a group and version.
#[must_use]
pub fn join_api_version(group: &str, version: &str) -> CompactString {
    if group.is_empty() {
        CompactString::new(version)
    } else {
        compact_str::format_compact!("{group}/{version}")
    }
}

/// Sets `apiVersion` and `kind`; missing ones are inserted at the front, where people
/// look for them.
pub fn set_type(object: &mut Value, api_version: &str, kind: &str) {
    let map = object.make_object();
    for (at, name, value) in [(0, "apiVersion", api_version), (1, "kind", kind)] {
        match map.get_mut(name) {
            Some(slot) => *slot = value.into(),
            None => {
                let at = at.min(map.len());
                map.entries_mut().insert(at, (name.into(), value.into()));
            }
        }
    }
}

/// `metadata`, when it is an object.
#[must_use]
pub fn metadata(object: &Value) -> Option<&Map> {
    object.get("metadata")?.as_object()
}

/// `metadata`; made when it is absent.
pub fn metadata_mut(object: &mut Value) -> &mut Map {
    object.make_object().object_mut("metadata")
}

/// `metadata.name`
#[must_use]
pub fn name(object: &Value) -> &str {
    text(object, "name")
}

/// Sets `metadata.name`.
pub fn set_name(object: &mut Value, name: &str) {
    set_text(object, "name", name);
}

/// `metadata.generateName`
#[must_use]
pub fn generate_name(object: &Value) -> &str {
    text(object, "generateName")
}

/// `metadata.namespace`
#[must_use]
pub fn namespace(object: &Value) -> &str {
    text(object, "namespace")
}

/// Sets `metadata.namespace`; the empty text removes it.
pub fn set_namespace(object: &mut Value, namespace: &str) {
    set_text(object, "namespace", namespace);
}

/// `metadata.uid`
#[must_use]
pub fn uid(object: &Value) -> &str {
    text(object, "uid")
}

/// Sets `metadata.uid`; the empty text removes it.
pub fn set_uid(object: &mut Value, uid: &str) {
    set_text(object, "uid", uid);
}

/// `metadata.resourceVersion`
#[must_use]
pub fn resource_version(object: &Value) -> &str {
    text(object, "resourceVersion")
}

/// Sets `metadata.resourceVersion`; the empty text removes it.
pub fn set_resource_version(object: &mut Value, version: &str) {
    set_text(object, "resourceVersion", version);
}

/// `metadata.generation`; 0 when absent.
#[must_use]
pub fn generation(object: &Value) -> i64 {
    object.i64_at(&["metadata", "generation"]).unwrap_or(0)
}

/// Sets `metadata.generation`.
pub fn set_generation(object: &mut Value, generation: i64) {
    metadata_mut(object).insert("generation", generation);
}

/// `metadata.creationTimestamp`
#[must_use]
pub fn creation_timestamp(object: &Value) -> Option<Timestamp> {
    time::parse(text(object, "creationTimestamp"))
}

/// Sets `metadata.creationTimestamp`.
pub fn set_creation_timestamp(object: &mut Value, at: Timestamp) {
    metadata_mut(object).insert("creationTimestamp", time::format(at));
}

/// `metadata.deletionTimestamp`
#[must_use]
pub fn deletion_timestamp(object: &Value) -> Option<Timestamp> {
    time::parse(text(object, "deletionTimestamp"))
}

/// Sets `metadata.deletionTimestamp`.
pub fn set_deletion_timestamp(object: &mut Value, at: Timestamp) {
    metadata_mut(object).insert("deletionTimestamp", time::format(at));
}

/// Whether the object is being deleted.
#[must_use]
pub fn is_deleting(object: &Value) -> bool {
    !text(object, "deletionTimestamp").is_empty()
}

/// `metadata.deletionGracePeriodSeconds`
#[must_use]
pub fn deletion_grace_period_seconds(object: &Value) -> Option<i64> {
    object.i64_at(&["metadata", "deletionGracePeriodSeconds"])
}

/// Sets `metadata.deletionGracePeriodSeconds`.
pub fn set_deletion_grace_period_seconds(object: &mut Value, seconds: i64) {
    metadata_mut(object).insert("deletionGracePeriodSeconds", seconds);
}

fn texts<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    metadata(object)
        .and_then(|meta| meta.get(field))
        .and_then(Value::as_object)
        .map(Map::as_slice)
        .unwrap_or_default()
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or("")))
}

/// `metadata.labels`
pub fn labels(object: &Value) -> impl Iterator<Item = (&str, &str)> {
    texts(object, "labels")
}

/// The value of one label.
#[must_use]
pub fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("labels")?.get(key)?.as_str()
}

/// Sets one label.
pub fn set_label(object: &mut Value, key: &str, value: &str) {
    metadata_mut(object).object_mut("labels").insert(key, value);
}

/// `metadata.annotations`
pub fn annotations(object: &Value) -> impl Iterator<Item = (&str, &str)> {
    texts(object, "annotations")
}

/// The value of one annotation.
#[must_use]
pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object
        .get("metadata")?
        .get("annotations")?
        .get(key)?
        .as_str()
}

/// Sets one annotation.
pub fn set_annotation(object: &mut Value, key: &str, value: &str) {
    metadata_mut(object)
        .object_mut("annotations")
        .insert(key, value);
}

/// `metadata.finalizers`
pub fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    object
        .items_at(&["metadata", "finalizers"])
        .iter()
        .filter_map(Value::as_str)
}

/// Whether the object has this finalizer.
#[must_use]
pub fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    finalizers(object).any(|one| one == finalizer)
}

/// Adds a finalizer; tells whether it was new.
pub fn add_finalizer(object: &mut Value, finalizer: &str) -> bool {
    if has_finalizer(object, finalizer) {
        return false;
    }
    metadata_mut(object)
        .get_or_insert_with("finalizers", || Value::Array(Vec::new()))
        .make_array()
        .push(finalizer.into());
    true
}

/// Removes a finalizer, and the list when it is empty; tells whether it was there.
pub fn remove_finalizer(object: &mut Value, finalizer: &str) -> bool {
    let meta = metadata_mut(object);
    let Some(list) = meta.get_mut("finalizers").and_then(Value::as_array_mut) else {
        return false;
    };
    let before = list.len();
    list.retain(|one| *one != finalizer);
    let removed = list.len() < before;
    if list.is_empty() {
        meta.remove("finalizers");
    }
    removed
}

/// `metadata.ownerReferences`
#[must_use]
pub fn owner_references(object: &Value) -> &[Value] {
    object.items_at(&["metadata", "ownerReferences"])
}

/// The owner reference with `controller: true`.
#[must_use]
pub fn controller_of(object: &Value) -> Option<&Value> {
    owner_references(object)
        .iter()
        .find(|owner| owner.bool_at(&["controller"]) == Some(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value;

    #[test]
    fn the_type_goes_to_the_front() {
        let mut object = value!({"metadata": {}});
        set_type(&mut object, "apps/v1", "Deployment");
        assert_eq!(
            object.to_string(),
            r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{}}"#
        );
        let mut object = value!({"metadata": {}, "kind": "X"});
        set_type(&mut object, "v1", "Pod");
        assert_eq!(
            object.to_string(),
            r#"{"apiVersion":"v1","metadata":{},"kind":"Pod"}"#
        );
    }

    #[test]
    fn finalizers_come_and_go() {
        let mut object = value!({});
        assert!(add_finalizer(&mut object, "a"));
        assert!(!add_finalizer(&mut object, "a"));
        assert!(has_finalizer(&object, "a"));
        assert!(remove_finalizer(&mut object, "a"));
        assert!(!remove_finalizer(&mut object, "a"));
        assert_eq!(object, value!({"metadata": {}}));
    }

    #[test]
    fn wrong_types_read_as_absent() {
        let object = value!({"metadata": {"name": 1, "labels": [], "finalizers": "x"}, "kind": {}});
        assert_eq!((name(&object), kind(&object)), ("", ""));
        assert_eq!(labels(&object).count(), 0);
        assert_eq!(finalizers(&object).count(), 0);
    }

    #[test]
    fn the_empty_text_removes() {
        let mut object = value!({});
        set_namespace(&mut object, "a");
        set_resource_version(&mut object, "7");
        assert_eq!((namespace(&object), resource_version(&object)), ("a", "7"));
        set_namespace(&mut object, "");
        assert_eq!(namespace(&object), "");
        assert_eq!(metadata(&object).unwrap().len(), 1);
    }
}

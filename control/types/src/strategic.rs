//! Strategic merge patch.
//!
//! A JSON merge patch that knows lists: where the type says so, items of a patch
//! are matched with those of the object by a merge key instead of replacing the
//! list. Directives (`$patch`, `$retainKeys`, `$setElementOrder/…`,
//! `$deleteFromPrimitiveList/…`) say what such a merge cannot.

use crate::schema::{Merge, Shape, TypeId, TypeRef};
use crate::value::{Map, Value};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ORDER: &str = "$setElementOrder/";
const DELETE: &str = "$deleteFromPrimitiveList/";

/// Why a patch cannot be applied; worded as Kubernetes words it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A list of objects whose items carry no merge key.
    #[error("map: {item} does not contain declared merge key: {key}")]
    NoMergeKey {
        /// The item.
        item: String,
        /// The key that it should have.
        key: String,
    },
    /// A list of objects whose type names no merge key.
    #[error("cannot merge lists without merge key for {0}")]
    NoKeyDeclared(String),
    /// A directive that is none.
    #[error("unknown patch type: {directive} in map: {map}")]
    Directive {
        /// The word.
        directive: String,
        /// Where it stands.
        map: String,
    },
    /// The patch or one of its directives has another shape than it must have.
    #[error("invalid patch format of {0}")]
    Format(String),
}

/// Applies a patch to an object of a type.
///
/// # Errors
/// When the patch is malformed or an item lacks its merge key. The object is then
/// half patched.
pub fn apply(object: &mut Value, patch: &Value, of: TypeId) -> Result<(), Error> {
    match (object, patch) {
        (Value::Object(object), Value::Object(patch)) => merge_map(object, patch, Some(of)),
        _ => Err(Error::Format("patch".into())),
    }
}

/// The type and merge facts of a member.
fn member(of: Option<TypeId>, key: &str) -> (Option<TypeRef>, Option<&'static Merge>) {
    match of
        .filter(|of| of.get().shape == Shape::Struct)
        .and_then(|of| of.field(key))
    {
        Some(field) => (Some(field.type_ref()), Some(field.merge())),
        None => (None, None),
    }
}

/// The struct that a type stands for, when it is one.
fn named(of: Option<TypeRef>) -> Option<TypeId> {
    match of {
        Some(TypeRef::Object(id)) => Some(id),
        _ => None,
    }
}

fn item_of(of: Option<TypeRef>) -> Option<TypeRef> {
    match of {
        Some(TypeRef::List(inner) | TypeRef::Map(inner)) => Some(*inner),
        _ => None,
    }
}

fn merge_map(object: &mut Map, patch: &Map, of: Option<TypeId>) -> Result<(), Error> {
    merge_members(object, patch, &|key| member(of, key))
}

type Lookup<'a> = &'a dyn Fn(&str) -> (Option<TypeRef>, Option<&'static Merge>);

fn merge_members(object: &mut Map, patch: &Map, lookup: Lookup<'_>) -> Result<(), Error> {
    if let Some(directive) = patch.get(PATCH) {
        match directive.as_str() {
            Some("replace") => {
                *object = patch.clone();
                object.remove(PATCH);
                return Ok(());
            }
            Some("delete") => {
                object.clear();
                return Ok(());
            }
            Some("merge") => {}
            _ => return Err(unknown(directive, patch)),
        }
    }
    if let Some(keep) = patch.get(RETAIN_KEYS) {
        let keep = keep
            .as_array()
            .ok_or_else(|| Error::Format("retainKeys list".into()))?;
        object.retain(|key, _| keep.iter().any(|one| one == key.as_str()));
    }
    for (key, value) in patch {
        if key.as_str() == PATCH || key.as_str() == RETAIN_KEYS {
            continue;
        }
        if let Some(name) = key.strip_prefix(DELETE) {
            let gone = value
                .as_array()
                .ok_or_else(|| Error::Format("deleteFromPrimitiveList".into()))?;
            if let Some(Value::Array(items)) = object.get_mut(name) {
                items.retain(|item| !gone.contains(item));
            }
            continue;
        }
        if let Some(name) = key.strip_prefix(ORDER) {
            // With a patch of the same list both are done together below.
            if !patch.contains_key(name)
                && let Some(Value::Array(items)) = object.get_mut(name)
            {
                let merge_key = lookup(name).1.map_or("", |merge| merge.patch_merge_key);
                let before = items.clone();
                order(items, &before, array(value)?, merge_key);
            }
            continue;
        }
        let (of, merge) = lookup(key);
        let strategy = merge.map_or("", |merge| merge.patch_strategy);
        match (object.get_mut(key), value) {
            (_, Value::Null) => {
                object.remove(key);
            }
            (Some(Value::Object(old)), Value::Object(new)) => {
                if strategy.split(',').any(|one| one == "replace") {
                    *old = new.clone();
                } else if let Some(TypeRef::Map(inner)) = of {
                    let inner = *inner;
                    merge_members(old, new, &|_| (Some(inner), None))?;
                } else {
                    merge_map(old, new, named(of))?;
                }
            }
            (Some(Value::Array(old)), Value::Array(new))
                if strategy.split(',').any(|one| one == "merge") =>
            {
                let merge_key = merge.map_or("", |merge| merge.patch_merge_key);
                let wanted = patch.get(&format!("{ORDER}{}", key.as_str()));
                let wanted = wanted.map(array).transpose()?;
                merge_list(old, new, wanted, merge_key, item_of(of), key)?;
            }
            _ => {
                let mut value = value.clone();
                drop_directives(&mut value, of, merge)?;
                object.insert(key.clone(), value);
            }
        }
    }
    Ok(())
}

fn array(value: &Value) -> Result<&[Value], Error> {
    value
        .as_array()
        .map(Vec::as_slice)
        .ok_or_else(|| Error::Format("setElementOrder list".into()))
}

fn unknown(directive: &Value, map: &Map) -> Error {
    Error::Directive {
        directive: directive
            .as_str()
            .map_or_else(|| directive.to_string(), str::to_owned),
        map: Value::Object(map.clone()).to_string(),
    }
}

/// The merge key's value of an item.
fn key_of<'a>(item: &'a Value, merge_key: &str) -> Option<&'a Value> {
    if merge_key.is_empty() {
        Some(item)
    } else {
        item.get(merge_key)
    }
}

fn must_have_key<'a>(item: &'a Value, merge_key: &str) -> Result<&'a Value, Error> {
    key_of(item, merge_key).ok_or_else(|| Error::NoMergeKey {
        item: item.to_string(),
        key: merge_key.to_owned(),
    })
}

fn merge_list(
    old: &mut Vec<Value>,
    new: &[Value],
    wanted: Option<&[Value]>,
    merge_key: &str,
    of: Option<TypeRef>,
    name: &str,
) -> Result<(), Error> {
    let objects = old
        .iter()
        .chain(new)
        .any(|item| matches!(item, Value::Object(_)));
    let before = old.clone();
    if !objects {
        for item in new {
            if !old.contains(item) {
                old.push(item.clone());
            }
        }
        order(old, &before, wanted.unwrap_or(new), "");
        return Ok(());
    }
    if merge_key.is_empty() {
        return Err(Error::NoKeyDeclared(name.to_owned()));
    }
    let directive = |item: &Value| item.get(PATCH).cloned();
    if new
        .iter()
        .any(|item| directive(item).is_some_and(|word| word == "replace"))
    {
        // The directive stands in an item of its own; the rest is the new list.
        *old = new
            .iter()
            .filter(|item| directive(item).is_none())
            .cloned()
            .collect();
        return Ok(());
    }
    let mut present: Vec<Value> = Vec::with_capacity(new.len());
    for item in new {
        match directive(item) {
            Some(word) if word == "delete" => {
                let gone = must_have_key(item, merge_key)?;
                old.retain(|one| one.get(merge_key) != Some(gone));
                continue;
            }
            Some(word) if word != "merge" => {
                return Err(match item {
                    Value::Object(map) => unknown(&word, map),
                    other => Error::Format(other.to_string()),
                });
            }
            _ => {}
        }
        let key = must_have_key(item, merge_key)?;
        let found = old.iter_mut().find(|one| one.get(merge_key) == Some(key));
        match (found, item) {
            (Some(Value::Object(one)), Value::Object(item)) => merge_map(one, item, named(of))?,
            _ => {
                let mut item = item.clone();
                drop_directives(&mut item, of, None)?;
                old.push(item);
            }
        }
        present.push(item.clone());
    }
    order(old, &before, wanted.unwrap_or(&present), merge_key);
    Ok(())
}

/// Orders a merged list: items named in `wanted` as they stand there, the others
/// as they stood before, each before the first wanted one that it preceded.
fn order(items: &mut Vec<Value>, before: &[Value], wanted: &[Value], merge_key: &str) {
    let place = |list: &[Value], item: &Value| {
        let key = key_of(item, merge_key)?;
        list.iter()
            .position(|one| key_of(one, merge_key) == Some(key))
    };
    let (mut named, others): (Vec<_>, Vec<_>) = items
        .drain(..)
        .partition(|item| place(wanted, item).is_some());
    named.sort_by_key(|item| place(wanted, item));
    let mut named = named.into_iter().peekable();
    for other in others {
        // A wanted item goes first unless both stood before and the other was in front.
        while let Some(one) = named.peek() {
            let in_front = match (place(before, &other), place(before, one)) {
                (Some(other), Some(one)) => other < one,
                _ => false,
            };
            if in_front {
                break;
            }
            items.extend(named.next());
        }
        items.push(other);
    }
    items.extend(named);
}

/// What a patch brings anew holds no directives and no nulls.
fn drop_directives(
    value: &mut Value,
    of: Option<TypeRef>,
    merge: Option<&'static Merge>,
) -> Result<(), Error> {
    match value {
        Value::Object(map) => {
            map.retain(|key, value| {
                !value.is_null()
                    && key.as_str() != PATCH
                    && key.as_str() != RETAIN_KEYS
                    && !key.starts_with(ORDER)
                    && !key.starts_with(DELETE)
            });
            let id = named(of);
            for (key, value) in map.entries_mut() {
                let (of, merge) = match of {
                    Some(TypeRef::Map(inner)) => (Some(*inner), None),
                    _ => member(id, key),
                };
                drop_directives(value, of, merge)?;
            }
        }
        Value::Array(items) => {
            let merges = merge.is_some_and(|merge| merge.patch_strategy.contains("merge"));
            if merges {
                items.retain(|item| item.get(PATCH).is_none_or(|word| word == "merge"));
            }
            for item in items {
                drop_directives(item, item_of(of), None)?;
            }
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value;

    fn patched(mut object: Value, patch: &Value) -> Value {
        let pod = TypeId::by_name("io.k8s.api.core.v1.Pod").unwrap();
        apply(&mut object, patch, pod).unwrap();
        object
    }

    fn names(object: &Value, list: &str) -> Vec<String> {
        object
            .items_at(&["spec", list])
            .iter()
            .map(|one| one.str_at(&["name"]).unwrap_or("").to_owned())
            .collect()
    }

    fn pod() -> Value {
        value!({"metadata": {"finalizers": ["a", "b"], "labels": {"x": "1", "y": "2"}},
            "spec": {"containers": [{"name": "a", "image": "1", "args": ["x"]}, {"name": "b", "image": "1"}],
                     "volumes": [{"name": "v", "emptyDir": {}}], "tolerations": [{"key": "k"}]}})
    }

    #[test]
    fn items_are_merged_by_key_and_keep_their_order() {
        let pod = patched(
            pod(),
            &value!({"spec": {"containers": [{"name": "b", "image": "2"}, {"name": "c", "args": null}]}}),
        );
        assert_eq!(names(&pod, "containers"), ["a", "b", "c"]);
        assert_eq!(pod.str_at(&["spec", "containers", "1", "image"]), Some("2"));
        assert_eq!(
            pod.path(&["spec", "containers", "2"]),
            Some(&value!({"name": "c"}))
        );
    }

    #[test]
    fn directives_delete_replace_and_order() {
        let one = patched(
            pod(),
            &value!({"spec": {"containers": [{"$patch": "delete", "name": "a"}]}}),
        );
        assert_eq!(names(&one, "containers"), ["b"]);
        let one = patched(
            pod(),
            &value!({"spec": {"containers": [{"$patch": "replace"}, {"name": "z"}]}}),
        );
        assert_eq!(names(&one, "containers"), ["z"]);
        let one = patched(
            pod(),
            &value!({"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "c"}, {"name": "a"}],
                "containers": [{"name": "c", "image": "3"}]}}),
        );
        assert_eq!(names(&one, "containers"), ["b", "c", "a"]);
        let one = patched(
            pod(),
            &value!({"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}}),
        );
        assert_eq!(names(&one, "containers"), ["b", "a"]);
        let one = patched(
            pod(),
            &value!({"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}}),
        );
        assert_eq!(
            one.path(&["spec", "volumes", "0"]),
            Some(&value!({"name": "v", "hostPath": {"path": "/x"}}))
        );
        let one = patched(
            pod(),
            &value!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}),
        );
        assert_eq!(one.path(&["metadata", "finalizers"]), Some(&value!(["b"])));
        let one = patched(pod(), &value!({"metadata": {"finalizers": ["c", "b"]}}));
        assert_eq!(
            one.path(&["metadata", "finalizers"]),
            Some(&value!(["c", "a", "b"]))
        );
        let one = patched(
            pod(),
            &value!({"spec": {"$patch": "replace", "nodeName": "n"}}),
        );
        assert_eq!(one.path(&["spec"]), Some(&value!({"nodeName": "n"})));
    }

    #[test]
    fn other_lists_are_replaced_and_nulls_delete() {
        let one = patched(
            pod(),
            &value!({"metadata": {"labels": {"x": null, "z": "3", "gone": null}}, "spec": {"tolerations": [{"key": "n"}], "containers": [{"name": "a", "args": ["y"]}]}}),
        );
        assert_eq!(
            one.path(&["metadata", "labels"]),
            Some(&value!({"y": "2", "z": "3"}))
        );
        assert_eq!(
            one.path(&["spec", "tolerations"]),
            Some(&value!([{"key": "n"}]))
        );
        assert_eq!(
            one.path(&["spec", "containers", "0", "args"]),
            Some(&value!(["y"]))
        );
    }

    #[test]
    fn a_malformed_patch_is_refused() {
        let id = TypeId::by_name("io.k8s.api.core.v1.Pod").unwrap();
        let refused = |patch: Value| apply(&mut pod(), &patch, id).unwrap_err();
        assert!(matches!(
            refused(value!({"spec": {"containers": [{"image": "x"}]}})),
            Error::NoMergeKey { .. }
        ));
        assert!(matches!(
            refused(value!({"spec": {"$patch": "nope"}})),
            Error::Directive { .. }
        ));
        assert!(matches!(
            refused(value!({"spec": {"$retainKeys": 1}})),
            Error::Format(_)
        ));
        assert!(matches!(refused(value!([])), Error::Format(_)));
    }
}

//! Strategic merge patch.
//!
//! It extends JSON merge patch with list merging: where the type says so, items of a
//! patch are matched with those of the object by a merge key instead of replacing the
//! list. Directives (`$patch`, `$retainKeys`, `$setElementOrder/…`,
//! `$deleteFromPrimitiveList/…`) express what merging alone cannot.
//!
//! The rules and error texts are those of apimachinery's `strategicpatch`; "Strategic
//! merge patch" of the API conventions describes them. Lists are searched by hashed keys,
//! so that a patch takes about linear time.

use std::borrow::Cow;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::go;
use crate::schema::{Merge, Shape, TypeId, TypeRef};
use crate::value::{Key, Map, Value};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ORDER: &str = "$setElementOrder";
const DELETE: &str = "$deleteFromPrimitiveList";

/// Error for a patch that cannot be applied; the message is Kubernetes' own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A directive has another shape than it must have, or contradicts the patch
    /// around it.
    #[error("invalid patch format of {0}")]
    Format(&'static str),
    /// A list within a list that is to be merged.
    #[error("lists of lists are not supported")]
    ListOfLists,
    /// An item of a list that is merged by key lacks that key.
    #[error("map: {item} does not contain declared merge key: {key}")]
    NoMergeKey {
        /// The item.
        item: String,
        /// The key that it should have.
        key: String,
    },
    /// A list of objects whose type names no merge key.
    #[error("cannot merge lists without merge key for {0}")]
    NoKeyDeclared(&'static str),
    /// An invalid `$patch` directive.
    #[error("unknown patch type: {directive} in map: {map}")]
    Directive {
        /// The word.
        directive: String,
        /// The object that contains it.
        map: String,
    },
    /// `$patch: merge` in an item.
    #[error("merging lists cannot yet be specified in the patch")]
    MergeInItem,
    /// A value of another type than is needed there.
    #[error("expected a {expected}, but received a {received}")]
    Type {
        /// The expected type.
        expected: &'static str,
        /// The type that was received.
        received: &'static str,
    },
    /// An item of a list of objects is none.
    #[error("value for key {0} is not a map")]
    NoMap(usize),
    /// Items of several types.
    #[error("list element types are not identical: [{old} {new}]")]
    Mixed {
        /// The object's items.
        old: String,
        /// The patch's items.
        new: String,
    },
    /// Two empty lists that are to be ordered.
    #[error("no elements in any of the given slices")]
    NoItems,
    /// Items of a patch come in another order than the patch asks for.
    #[error("The order in patch list:\n{patch}\n doesn't match $setElementOrder list:\n{order}\n")]
    Order {
        /// The patch's items.
        patch: String,
        /// The order.
        order: String,
    },
    /// A field that the type does not have.
    #[error("unable to find api field in struct {of} for the json field {field:?}")]
    Field {
        /// The type.
        of: &'static str,
        /// The field.
        field: String,
    },
    /// An object where the type has something else.
    #[error("merging an object in json but data type is not struct, instead is: {0}")]
    NoStruct(&'static str),
    /// A list where the type has something else.
    #[error("expected slice or array type, but got: {0}")]
    NoList(&'static str),
}

/// Applies a patch to an object of a type.
///
/// # Errors
/// When the patch is malformed or an item lacks its merge key. The object is then
/// half patched.
pub fn apply(object: &mut Value, patch: &Value, of: TypeId) -> Result<(), Error> {
    match (object, patch) {
        (Value::Object(object), Value::Object(patch)) => {
            merge_map(object, patch.clone(), GoType::Struct(of))
        }
        (_, other) => Err(wrong_type(MAP, other)),
    }
}

const MAP: &str = "map[string]interface {}";
const LIST: &str = "[]interface {}";

fn wrong_type(expected: &'static str, received: &Value) -> Error {
    Error::Type {
        expected,
        received: match received {
            Value::Null => "%!s(<nil>)",
            other => go::type_name(other),
        },
    }
}

fn shown(map: &Map) -> String {
    go::plain(&Value::Object(map.clone()))
}

/// The Go type of a value.
#[derive(Clone, Copy)]
enum GoType {
    Struct(TypeId),
    Of(&'static TypeRef),
}

impl GoType {
    fn struct_id(self) -> Option<TypeId> {
        let of = match self {
            Self::Struct(of) => of,
            Self::Of(TypeRef::Object(of)) => *of,
            Self::Of(_) => return None,
        };
        (of.get().shape == Shape::Struct).then_some(of)
    }

    /// The kind, as Go's reflection names it.
    fn kind(self) -> &'static str {
        match self {
            Self::Struct(_) => "struct",
            Self::Of(of) => match of {
                TypeRef::String => "string",
                TypeRef::Int32 => "int32",
                TypeRef::Int64 => "int64",
                TypeRef::Bool => "bool",
                TypeRef::Float => "float64",
                TypeRef::Bytes | TypeRef::List(_) => "slice",
                TypeRef::Map(_) => "map",
                TypeRef::Any => "interface",
                TypeRef::Object(of) if of.get().shape == Shape::Texts => "slice",
                _ => "struct",
            },
        }
    }

    /// Type and merge facts of a member.
    fn member(self, key: &Key) -> Result<(GoType, &'static Merge), Error> {
        let Some(of) = self.struct_id() else {
            return Err(match self.kind() {
                "struct" => self.no_field(key),
                kind => Error::NoStruct(kind),
            });
        };
        match of.field_of(key) {
            Some(field) => Ok((Self::Of(field.type_ref_static()), field.merge())),
            None => Err(self.no_field(key)),
        }
    }

    /// Type of the items and merge facts of a member that is a list.
    fn list_member(self, key: &Key) -> Result<(GoType, &'static Merge), Error> {
        let (of, merge) = self.member(key)?;
        match of {
            Self::Of(TypeRef::List(item)) => Ok((Self::Of(item), merge)),
            Self::Of(TypeRef::Bytes) => Ok((Self::Of(&TypeRef::Int32), merge)),
            _ if of.kind() == "slice" => Ok((Self::Of(&TypeRef::String), merge)),
            _ => Err(Error::NoList(self.kind())),
        }
    }

    fn no_field(self, key: &Key) -> Error {
        let of = match self {
            Self::Struct(of) => of.get().go_name(),
            Self::Of(TypeRef::Object(of)) => of.get().go_name(),
            Self::Of(TypeRef::Quantity) => "Quantity",
            Self::Of(TypeRef::IntOrString) => "IntOrString",
            Self::Of(TypeRef::Time) => "Time",
            Self::Of(TypeRef::MicroTime) => "MicroTime",
            Self::Of(_) => "Duration",
        };
        Error::Field {
            of,
            field: key.as_str().to_owned(),
        }
    }
}

/// The strategy besides `retainKeys`.
fn strategy(merge: &Merge) -> &'static str {
    match merge.patch_strategy {
        "merge" | "merge,retainKeys" | "retainKeys,merge" => "merge",
        "replace" | "replace,retainKeys" => "replace",
        _ => "",
    }
}

fn merge_map(object: &mut Map, mut patch: Map, of: GoType) -> Result<(), Error> {
    if let Some(directive) = patch.get(PATCH) {
        match directive.as_str() {
            Some("replace") => {
                // The rest is taken as it stands, whatever is in it.
                patch.remove(PATCH);
                *object = patch;
            }
            Some("delete") => object.clear(),
            _ => {
                return Err(Error::Directive {
                    directive: go::text(directive),
                    map: shown(&patch),
                });
            }
        }
        return Ok(());
    }
    retain_keys(object, &mut patch)?;
    set_orders(object, &mut patch, of)?;
    for (key, value) in patch {
        let deleted = match key.strip_prefix(DELETE) {
            Some(rest) => Some(Key::new(
                rest.strip_prefix('/')
                    .ok_or(Error::Format("primitive list"))?,
            )),
            None => None,
        };
        let name = deleted.as_ref().unwrap_or(&key);
        if value.is_null() {
            object.remove(name);
            continue;
        }
        match (object.get_mut(name), value) {
            (Some(Value::Array(old)), Value::Array(gone)) if deleted.is_some() => {
                let (item, merge) = of.list_member(name)?;
                merge_list(old, gone, item, merge.patch_merge_key, true)?;
            }
            (Some(Value::Object(old)), Value::Object(new)) => {
                let (member, merge) = of.member(name)?;
                if strategy(merge) == "replace" {
                    *old = new;
                } else {
                    merge_map(old, new, member)?;
                }
            }
            (Some(Value::Array(old)), Value::Array(new)) => {
                let (item, merge) = of.list_member(name)?;
                if strategy(merge) == "merge" {
                    merge_list(old, new, item, merge.patch_merge_key, false)?;
                } else {
                    *old = new;
                }
            }
            _ if deleted.is_some() => {}
            (_, mut value) => {
                drop_nulls(&mut value);
                if drop_directives(&mut value) {
                    object.insert(key, value);
                } else {
                    object.remove(&key);
                }
            }
        }
    }
    Ok(())
}

/// `$retainKeys`: fields that are not named go.
fn retain_keys(object: &mut Map, patch: &mut Map) -> Result<(), Error> {
    const FORMAT: Error = Error::Format("retainKeys");
    let Some(kept) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let Value::Array(kept) = kept else {
        return Err(FORMAT);
    };
    let kept: FxHashSet<&str> = kept.iter().filter_map(Value::as_str).collect();
    let strange = patch.iter().any(|(key, value)| {
        !value.is_null()
            && !key.starts_with(DELETE)
            && !key.starts_with(ORDER)
            && !kept.contains(key.as_str())
    });
    if strange {
        return Err(FORMAT);
    }
    object.retain(|key, _| kept.contains(key.as_str()));
    Ok(())
}

/// Applies `$setElementOrder/…`: merges and orders such lists, and removes them from the
/// patch.
fn set_orders(object: &mut Map, patch: &mut Map, of: GoType) -> Result<(), Error> {
    let keys: Vec<Key> = patch
        .keys()
        .filter(|key| key.starts_with(ORDER))
        .cloned()
        .collect();
    for key in keys {
        let Some(order) = patch.remove(&key) else {
            continue;
        };
        let Value::Array(order) = order else {
            return Err(wrong_type(LIST, &order));
        };
        let name = key
            .strip_prefix(ORDER)
            .and_then(|rest| rest.strip_prefix('/'))
            .ok_or(Error::Format("setElementOrder list"))?;
        let name = Key::new(name);
        let old = match object.get(&name) {
            Some(Value::Array(items)) => Some(items),
            Some(other) => return Err(wrong_type(LIST, other)),
            None => None,
        };
        let new = match patch.get(&name) {
            Some(Value::Array(items)) => Some(items),
            Some(other) => return Err(wrong_type(LIST, other)),
            None => None,
        };
        let (item, merge) = of.list_member(&name)?;
        let by = merge.patch_merge_key;
        check_order(new.map_or(&[], Vec::as_slice), &order, by)?;
        let before = old.cloned().unwrap_or_default();
        let (merged, objects) = match (old, new) {
            (None, None) => continue,
            (Some(_), None) => (before.clone(), only_objects(&before, &[])?),
            (None, Some(new)) => {
                let objects = only_objects(&[], new)?;
                let mut new = Value::Array(new.clone());
                drop_directives(&mut new);
                (std::mem::take(new.make_array()), objects)
            }
            (Some(_), Some(new)) => {
                let mut merged = before.clone();
                if strategy(merge) == "merge" {
                    merge_list(&mut merged, new.clone(), item, by, false)?;
                } else {
                    merged.clone_from(new);
                }
                (merged, only_objects(&before, new)?)
            }
        };
        let merged = ordered(merged, &order, &before, by, objects)?;
        object.insert(name.clone(), Value::Array(merged));
        patch.remove(&name);
    }
    Ok(())
}

/// Whether the items of a patch come in the order that the patch asks for.
fn check_order(new: &[Value], order: &[Value], by: &str) -> Result<(), Error> {
    if new.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut named = Vec::with_capacity(new.len());
    for item in new {
        if !by.is_empty()
            && object_of(item)?
                .get(PATCH)
                .is_some_and(|word| word == "delete")
        {
            continue;
        }
        if item.get(PATCH).is_none() {
            named.push(item);
        }
    }
    let mut named = named.into_iter().peekable();
    for wanted in order {
        let Some(item) = named.peek() else {
            return Ok(());
        };
        let equal = if by.is_empty() {
            *item == wanted
        } else {
            must_have(object_of(item)?, by)? == must_have(object_of(wanted)?, by)?
        };
        if equal {
            named.next();
        }
    }
    match named.peek() {
        Some(_) => Err(Error::Order {
            patch: go::list(new),
            order: go::list(order),
        }),
        None => Ok(()),
    }
}

fn object_of(item: &Value) -> Result<&Map, Error> {
    item.as_object().ok_or_else(|| wrong_type(MAP, item))
}

fn must_have<'a>(item: &'a Map, by: &str) -> Result<&'a Value, Error> {
    item.get(by).ok_or_else(|| Error::NoMergeKey {
        item: shown(item),
        key: by.to_owned(),
    })
}

/// Whether two lists hold objects. All items must be of one type.
fn only_objects(old: &[Value], new: &[Value]) -> Result<bool, Error> {
    let mut all = old.iter().chain(new);
    let first = all.next().ok_or(Error::NoItems)?;
    if matches!(first, Value::Array(_)) {
        return Err(Error::ListOfLists);
    }
    let kind = |value| go::type_name(value);
    if all.any(|item| kind(item) != kind(first)) {
        return Err(Error::Mixed {
            old: go::list(old),
            new: go::list(new),
        });
    }
    Ok(matches!(first, Value::Object(_)))
}

/// A value by which items are found.
fn mark(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        // No text of the API begins so.
        other => Cow::Owned(format!("\0{other}")),
    }
}

/// The mark of an item: that of its merge key, or of itself.
fn mark_of<'a>(item: &'a Value, by: &str) -> Cow<'a, str> {
    if by.is_empty() {
        return mark(item);
    }
    mark(item.get(by).unwrap_or(&Value::Null))
}

/// Returns the first position of each mark.
fn places<'a>(items: &'a [Value], by: &str) -> FxHashMap<Cow<'a, str>, usize> {
    let mut places = FxHashMap::default();
    for (at, item) in items.iter().enumerate() {
        places.entry(mark_of(item, by)).or_insert(at);
    }
    places
}

fn merge_list(
    old: &mut Vec<Value>,
    new: Vec<Value>,
    item: GoType,
    by: &str,
    delete: bool,
) -> Result<(), Error> {
    if old.is_empty() && new.is_empty() {
        return Ok(());
    }
    let objects = only_objects(old, &new)?;
    if !objects {
        if delete {
            let gone = places(&new, "");
            old.retain(|item| !gone.contains_key(&mark(item)));
            return Ok(());
        }
        let before = old.clone();
        let mut seen: FxHashSet<Cow<'_, str>> = FxHashSet::default();
        let merged = before
            .iter()
            .chain(&new)
            .filter(|item| seen.insert(mark(item)))
            .cloned()
            .collect();
        *old = ordered(merged, &new, &before, by, false)?;
        return Ok(());
    }
    if by.is_empty() {
        return Err(Error::NoKeyDeclared(item.kind()));
    }
    let new = special_items(old, new, by)?;
    let before = old.clone();
    let mut found: FxHashMap<String, usize> = FxHashMap::default();
    for (at, one) in old.iter().enumerate() {
        object_at(one, at)?;
        if one.get(by).is_some() {
            found.entry(mark_of(one, by).into_owned()).or_insert(at);
        }
    }
    for patch in &new {
        let patch = object_of(patch)?;
        let key = must_have(patch, by)?;
        match found
            .get(mark(key).as_ref())
            .and_then(|at| old.get_mut(*at))
        {
            Some(Value::Object(one)) => merge_map(one, patch.clone(), item)?,
            _ => {
                found.insert(mark(key).into_owned(), old.len());
                old.push(Value::Object(patch.clone()));
            }
        }
    }
    let merged = std::mem::take(old);
    *old = ordered(merged, &new, &before, by, true)?;
    Ok(())
}

fn object_at(item: &Value, at: usize) -> Result<&Map, Error> {
    item.as_object().ok_or(Error::NoMap(at))
}

/// Applies items with `$patch` and returns the other items. When the list is replaced,
/// the others become the list and none is returned.
fn special_items(old: &mut Vec<Value>, new: Vec<Value>, by: &str) -> Result<Vec<Value>, Error> {
    let mut rest = Vec::with_capacity(new.len());
    let mut gone: FxHashSet<String> = FxHashSet::default();
    let mut replace = false;
    for item in new {
        let map = object_of(&item)?;
        match map.get(PATCH).map(|word| (word, word.as_str())) {
            None => rest.push(item),
            Some((_, Some("delete"))) => {
                gone.insert(mark(must_have(map, by)?).into_owned());
            }
            Some((_, Some("replace"))) => replace = true,
            Some((_, Some("merge"))) => return Err(Error::MergeInItem),
            Some((word, _)) => {
                return Err(Error::Directive {
                    directive: go::text(word),
                    map: shown(map),
                });
            }
        }
    }
    if replace {
        *old = rest;
        return Ok(Vec::new());
    }
    if !gone.is_empty() {
        old.retain(|item| {
            item.get(by)
                .is_none_or(|key| !gone.contains(mark(key).as_ref()))
        });
    }
    Ok(rest)
}

/// Orders a merged list: items that `wanted` names in that order, the others in their
/// former order. Of two items that were both present before, the former first stays in
/// front; otherwise a wanted one comes first.
fn ordered(
    items: Vec<Value>,
    wanted: &[Value],
    before: &[Value],
    by: &str,
    objects: bool,
) -> Result<Vec<Value>, Error> {
    let mut named = Vec::new();
    let mut others = Vec::new();
    let key = if objects { by } else { "" };
    let (in_wanted, in_before) = (places(wanted, key), places(before, key));
    if !by.is_empty() && !items.is_empty() {
        wanted
            .iter()
            .enumerate()
            .try_for_each(|(at, one)| object_at(one, at).map(drop))?;
    }
    for item in items {
        if !by.is_empty() {
            must_have(object_of(&item)?, by)?;
        }
        if in_wanted.contains_key(&mark_of(&item, by)) {
            named.push(item);
        } else {
            others.push(item);
        }
    }
    if objects {
        for one in named.iter().chain(wanted).chain(&others).chain(before) {
            must_have(object_of(one)?, by)?;
        }
    }
    let place = |places: &FxHashMap<Cow<'_, str>, usize>, item: &Value| {
        places.get(&mark_of(item, key)).copied()
    };
    named.sort_by_key(|item| place(&in_wanted, item));
    others.sort_by_key(|item| place(&in_before, item));
    let mut out = Vec::with_capacity(named.len() + others.len());
    let mut named = named.into_iter().peekable();
    for other in others {
        while let Some(one) = named.peek() {
            let in_front = match (place(&in_before, &other), place(&in_before, one)) {
                (Some(other), Some(one)) => other < one,
                _ => false,
            };
            if in_front {
                break;
            }
            out.extend(named.next());
        }
        out.push(other);
    }
    out.extend(named);
    Ok(out)
}

/// Drops nulls in objects and keeps those in lists.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Drops objects that are directives; tells whether the value is none itself.
fn drop_directives(value: &mut Value) -> bool {
    match value {
        Value::Object(map) => {
            if map.contains_key(PATCH) {
                return false;
            }
            map.retain(|_, value| drop_directives(value));
        }
        Value::Array(items) => items.retain_mut(drop_directives),
        _ => {}
    }
    true
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
            // A new item is taken as it stands; decoding drops its nulls.
            Some(&value!({"name": "c", "args": null}))
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
        assert!(matches!(
            refused(value!({"spec": {"containers": ["x"]}})),
            Error::Mixed { .. }
        ));
        assert!(matches!(
            refused(value!({"spec": {"$setElementOrder/nope": []}})),
            Error::Field { .. }
        ));
        assert!(matches!(refused(value!([])), Error::Type { .. }));
    }
}

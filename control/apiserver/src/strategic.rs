//! Strategic merge patch: a merge that knows which lists are sets of objects.

use control_types::schema::{Field, TypeId, TypeRef};
use control_types::value::{Map, Value};

/// Why a patch does not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not an object.
    #[error("patch must be an object")]
    NotAnObject,
    /// An item of a merged list without the key by which items are told apart.
    #[error("map: {item} does not contain declared merge key: {key}")]
    NoKey {
        /// The item.
        item: String,
        /// The key.
        key: String,
    },
    /// A directive that does not exist.
    #[error("unknown patch type found: {0}")]
    Directive(String),
}

const PATCH: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const ORDER: &str = "$setElementOrder/";

/// Applies `patch` to an object of a type.
///
/// # Errors
/// When the patch is malformed.
pub fn apply(object: &mut Value, patch: &Value, schema: TypeId) -> Result<(), Error> {
    let patch = patch.as_object().ok_or(Error::NotAnObject)?;
    merge_map(object.make_object(), patch, Some(schema))
}

fn merge_map(target: &mut Map, patch: &Map, schema: Option<TypeId>) -> Result<(), Error> {
    match patch.get(PATCH).and_then(Value::as_str) {
        None | Some("merge") => {}
        Some("replace") => {
            target.clear();
            for (key, value) in patch.iter().filter(|(key, _)| key.as_str() != PATCH) {
                target.insert(key.clone(), without_directives(value));
            }
            return Ok(());
        }
        Some("delete") => {
            target.clear();
            return Ok(());
        }
        Some(other) => return Err(Error::Directive(other.to_owned())),
    }
    if let Some(retained) = patch.get(RETAIN).and_then(Value::as_array) {
        target.retain(|key, _| retained.iter().any(|kept| kept == key.as_str()));
    }
    for (key, value) in patch.iter() {
        let name = key.as_str();
        if name == PATCH || name == RETAIN || name.starts_with(ORDER) {
            continue;
        }
        if let Some(list) = name.strip_prefix(DELETE_FROM) {
            if let Some(items) = target.get_mut(list).and_then(Value::as_array_mut) {
                let gone = value.as_array().map_or(&[][..], Vec::as_slice);
                items.retain(|item| !gone.contains(item));
            }
            continue;
        }
        if value.is_null() {
            target.remove(name);
            continue;
        }
        let field = schema.and_then(|schema| schema.field(name));
        match value {
            Value::Object(inner) => {
                let replace =
                    field.is_some_and(|field| field.merge().patch_strategy.contains("replace"));
                let slot = target.get_or_insert_with(key.clone(), Value::object);
                if slot.as_object().is_none() || replace {
                    *slot = Value::object();
                }
                merge_map(slot.make_object(), inner, field.and_then(object_type))?;
            }
            Value::Array(items) => {
                let slot = target.get_or_insert_with(key.clone(), || Value::Array(Vec::new()));
                merge_list(slot.make_array(), items, field)?;
                let order = format!("{ORDER}{name}");
                if let Some(order) = patch.get(&order).and_then(Value::as_array) {
                    reorder(slot.make_array(), order, field);
                }
            }
            other => {
                target.insert(key.clone(), other.clone());
            }
        }
    }
    // An order may come without any change of the list itself.
    for (key, value) in patch.iter() {
        let Some(name) = key.as_str().strip_prefix(ORDER) else {
            continue;
        };
        let field = schema.and_then(|schema| schema.field(name));
        if !patch.contains_key(name)
            && let (Some(items), Some(order)) = (
                target.get_mut(name).and_then(Value::as_array_mut),
                value.as_array(),
            )
        {
            reorder(items, order, field);
        }
    }
    Ok(())
}

fn merge_list(
    target: &mut Vec<Value>,
    patch: &[Value],
    field: Option<&'static Field>,
) -> Result<(), Error> {
    let merge = field.map(Field::merge);
    let merged = merge.is_some_and(|merge| merge.patch_strategy.contains("merge"));
    let replaced = patch
        .iter()
        .any(|item| item.str_at(&[PATCH]) == Some("replace"));
    if !merged || replaced {
        *target = patch
            .iter()
            .filter(|item| item.get(PATCH).is_none())
            .map(without_directives)
            .collect();
        return Ok(());
    }
    let key = merge.map_or("", |merge| merge.patch_merge_key);
    let schema = field.and_then(item_type);
    for item in patch {
        let Some(inner) = item.as_object().filter(|_| !key.is_empty()) else {
            if !target.contains(item) {
                target.push(item.clone());
            }
            continue;
        };
        let Some(wanted) = inner.get(key) else {
            return Err(Error::NoKey {
                item: item.to_string(),
                key: key.to_owned(),
            });
        };
        let found = target
            .iter()
            .position(|present| present.get(key) == Some(wanted));
        if inner.get(PATCH).and_then(Value::as_str) == Some("delete") {
            target.retain(|present| present.get(key) != Some(wanted));
            continue;
        }
        let at = found.unwrap_or_else(|| {
            target.push(Value::object());
            target.len() - 1
        });
        merge_map(target[at].make_object(), inner, schema)?;
    }
    Ok(())
}

/// Brings the items that `order` names into that order; others keep their
/// place behind the item they followed.
fn reorder(items: &mut Vec<Value>, order: &[Value], field: Option<&'static Field>) {
    let key = field.map_or("", |field| field.merge().patch_merge_key);
    let rank = |item: &Value| {
        order.iter().position(|wanted| match (key, wanted) {
            ("", wanted) => wanted == item,
            (key, wanted) => wanted.get(key).is_some() && wanted.get(key) == item.get(key),
        })
    };
    let mut last = 0;
    let mut ranked: Vec<(usize, Value)> = items
        .drain(..)
        .map(|item| {
            last = rank(&item).map_or(last, |rank| rank + 1);
            (last, item)
        })
        .collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    items.extend(ranked.into_iter().map(|(_, item)| item));
}

fn object_type(field: &'static Field) -> Option<TypeId> {
    match field.type_ref() {
        TypeRef::Object(id) => Some(id),
        _ => None,
    }
}

fn item_type(field: &'static Field) -> Option<TypeId> {
    match field.type_ref() {
        TypeRef::List(TypeRef::Object(id)) => Some(*id),
        _ => None,
    }
}

/// A new value must not carry directives, nor nulls that meant "remove".
fn without_directives(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(key, value)| !key.as_str().starts_with('$') && !value.is_null())
                .map(|(key, value)| (key.clone(), without_directives(value)))
                .collect(),
        ),
        Value::Array(items) => items.iter().map(without_directives).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use control_types::registry;
    use control_types::value;

    use super::*;

    fn patched(mut object: Value, patch: Value) -> Result<Value, Error> {
        let schema = registry::lookup("", "v1", "pods").expect("pods").schema;
        apply(&mut object, &patch, schema).map(|()| object)
    }

    #[test]
    fn containers_are_merged_by_name() {
        let pod = value!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b"}]}});
        let patch = value!({"spec": {"containers": [
            {"name": "a", "image": "2"}, {"name": "b", "$patch": "delete"}, {"name": "c"}
        ]}});
        assert_eq!(
            patched(pod, patch),
            Ok(value!({"spec": {"containers": [{"name": "a", "image": "2"}, {"name": "c"}]}}))
        );
    }

    #[test]
    fn order_primitive_deletion_and_replacement_are_understood() {
        let pod = value!({"metadata": {"finalizers": ["a", "b"]}, "spec": {"containers": [{"name": "a"}, {"name": "b"}], "nodeSelector": {"x": "1"}}});
        let patch = value!({
            "metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]},
            "spec": {
                "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
                "nodeSelector": {"$patch": "replace", "y": "2"}
            }
        });
        assert_eq!(
            patched(pod, patch),
            Ok(
                value!({"metadata": {"finalizers": ["b"]}, "spec": {"containers": [{"name": "b"}, {"name": "a"}], "nodeSelector": {"y": "2"}}})
            )
        );
    }

    #[test]
    fn item_without_its_key_is_refused() {
        let patch = value!({"spec": {"containers": [{"image": "2"}]}});
        assert!(matches!(
            patched(value!({}), patch),
            Err(Error::NoKey { .. })
        ));
    }
}

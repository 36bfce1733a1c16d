//! Patches, as the fake API servers apply them.

use serde_json::Value;

/// RFC 7386.
pub fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = Value::Object(serde_json::Map::new());
    }
    for (key, change) in changes {
        if change.is_null() {
            into.as_object_mut().map(|object| object.remove(key));
        } else {
            merge(&mut into[key], change);
        }
    }
}

/// A strategic merge patch, limited to what controllers use: lists of conditions merge by
/// type, finalizers are a set, `$deleteFromPrimitiveList` removes; everything else as
/// [`merge`].
pub fn strategic(into: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = Value::Object(serde_json::Map::new());
    }
    for (key, change) in changes {
        if let Some(list) = key.strip_prefix("$deleteFromPrimitiveList/") {
            let gone = change.as_array().cloned().unwrap_or_default();
            if let Some(list) = into.get_mut(list).and_then(Value::as_array_mut) {
                list.retain(|one| !gone.contains(one));
            }
        } else if key.starts_with('$') {
            // directives about order
        } else if change.is_null() {
            into.as_object_mut().map(|object| object.remove(key));
        } else if let (Value::Array(new), "conditions" | "finalizers") = (change, key.as_str()) {
            let old = &mut into[key];
            if !old.is_array() {
                *old = Value::Array(Vec::new());
            }
            let Some(old) = old.as_array_mut() else {
                continue;
            };
            for one in new {
                let same = |other: &&mut Value| {
                    **other == *one
                        || one
                            .get("type")
                            .is_some_and(|it| other.get("type") == Some(it))
                };
                match old.iter_mut().find(same) {
                    Some(other) => strategic(other, one),
                    None => old.push(one.clone()),
                }
            }
        } else {
            strategic(&mut into[key], change);
        }
    }
}

/// A server-side apply by a manager that owns all fields of the status that it applies:
/// they are replaced, except for conditions, which merge by type.
pub fn apply(into: &mut Value, patch: &Value) {
    let mut rest = patch.clone();
    let status = rest
        .as_object_mut()
        .and_then(|object| object.remove("status"));
    strategic(into, &rest);
    let Some(Value::Object(status)) = status else {
        return;
    };
    for (field, value) in status {
        if field == "conditions" {
            strategic(&mut into["status"], &serde_json::json!({field: value}));
        } else {
            into["status"][field] = value;
        }
    }
}

/// Error of a patch that does not fit an object.
#[derive(Debug, thiserror::Error)]
pub enum PatchError {
    #[error("test of {path} failed")]
    Test { path: String },
    #[error("no {parent}")]
    NoParent { parent: String },
    #[error("no index {index}")]
    NoIndex { index: String },
    #[error("cannot {op} {path}")]
    Operation { op: String, path: String },
}

/// RFC 6902: `test`, `add`, `replace` and `remove`.
pub fn json(into: &mut Value, patch: &Value) -> Result<(), PatchError> {
    for operation in patch.as_array().into_iter().flatten() {
        let path = operation["path"].as_str().unwrap_or_default();
        let (parent, last) = path.rsplit_once('/').unwrap_or_default();
        let last = last.replace("~1", "/").replace("~0", "~");
        let value = operation["value"].clone();
        if operation["op"] == "test" {
            if into.pointer(path) != Some(&value) {
                let path = path.to_owned();
                return Err(PatchError::Test { path });
            }
            continue;
        }
        let at = into
            .pointer_mut(parent)
            .ok_or_else(|| PatchError::NoParent {
                parent: parent.to_owned(),
            })?;
        let refused = |op: &str| PatchError::Operation {
            op: op.to_owned(),
            path: path.to_owned(),
        };
        match (operation["op"].as_str().unwrap_or_default(), at) {
            ("add", Value::Object(object)) => {
                object.insert(last, value);
            }
            ("replace", Value::Object(object)) if object.contains_key(&last) => {
                object.insert(last, value);
            }
            ("remove", Value::Object(object)) => {
                object.remove(&last);
            }
            ("add", Value::Array(list)) if last == "-" => list.push(value),
            (op, Value::Array(list)) => {
                let Ok(index) = last.parse::<usize>() else {
                    return Err(PatchError::NoIndex { index: last });
                };
                match op {
                    "add" if index <= list.len() => list.insert(index, value),
                    "replace" if index < list.len() => list[index] = value,
                    "remove" if index < list.len() => {
                        list.remove(index);
                    }
                    _ => return Err(refused(op)),
                }
            }
            (op, _) => return Err(refused(op)),
        }
    }
    Ok(())
}

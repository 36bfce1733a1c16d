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

/// RFC 6902: `test`, `add`, `replace` and `remove`.
pub fn json(into: &mut Value, patch: &Value) -> Result<(), String> {
    for operation in patch.as_array().into_iter().flatten() {
        let path = operation["path"].as_str().unwrap_or_default();
        let (parent, last) = path.rsplit_once('/').unwrap_or_default();
        let last = last.replace("~1", "/").replace("~0", "~");
        let value = operation["value"].clone();
        if operation["op"] == "test" {
            if into.pointer(path) != Some(&value) {
                return Err(format!("test of {path} failed"));
            }
            continue;
        }
        let at = into
            .pointer_mut(parent)
            .ok_or_else(|| format!("no {parent}"))?;
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
                let index: usize = last.parse().map_err(|_| format!("no index {last}"))?;
                match op {
                    "add" if index <= list.len() => list.insert(index, value),
                    "replace" if index < list.len() => list[index] = value,
                    "remove" if index < list.len() => {
                        list.remove(index);
                    }
                    _ => return Err(format!("cannot {op} {path}")),
                }
            }
            (op, _) => return Err(format!("cannot {op} {path}")),
        }
    }
    Ok(())
}

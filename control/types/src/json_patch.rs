//! JSON patch (RFC 6902), with the freedoms that the Kubernetes API takes: a
//! member that is replaced need not exist, indices may count from the end, a
//! missing value is `null`.

use std::fmt;

use crate::value::{Map, Value};

/// How many operations one patch may hold.
pub const MAX_OPERATIONS: usize = 10_000;
/// How much JSON the copies of one patch may make, in bytes.
const MAX_COPIED: usize = 3 << 20;

/// A patch, read but not applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Patch(Vec<Operation>);

#[derive(Clone, Debug, PartialEq)]
struct Operation {
    kind: String,
    path: Option<String>,
    from: Option<String>,
    value: Value,
}

/// Error for a patch that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// It is no list of objects whose members have the right types.
    #[error("json: cannot unmarshal {what} into Go {place}")]
    Type {
        /// The type that was found.
        what: &'static str,
        /// The type that is needed, in Go's words.
        place: String,
    },
    /// It has more than [`MAX_OPERATIONS`].
    #[error("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {0}")]
    TooLong(usize),
}

/// Error for a patch that does not fit an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A path leads to nothing.
    #[error("doc is missing path")]
    NoPath,
    /// A member or item that is to be moved or removed does not exist.
    #[error("unable to access nonexistent key or index")]
    NoMember,
    /// A test failed.
    #[error("testing value failed")]
    Test,
    /// An unknown operation.
    #[error("unexpected kind")]
    Kind,
    /// Copies grow too large.
    #[error("copies make more than {MAX_COPIED} bytes")]
    TooLarge,
}

impl Patch {
    /// Reads a patch. [`Patch::unknown_fields`] lists unknown members.
    ///
    /// # Errors
    /// When the value is not a patch.
    pub fn read(patch: &Value) -> Result<Self, ReadError> {
        let wrong = |what: &Value, place: String| ReadError::Type {
            what: what.type_name(),
            place,
        };
        let items = match patch {
            Value::Array(items) => items.as_slice(),
            Value::Null => &[],
            other => {
                return Err(wrong(other, "value of type []handlers.jsonPatchOp".into()));
            }
        };
        if items.len() > MAX_OPERATIONS {
            return Err(ReadError::TooLong(items.len()));
        }
        let read = |item: &Value| -> Result<Operation, ReadError> {
            if !matches!(item, Value::Object(_) | Value::Null) {
                return Err(wrong(item, "value of type handlers.jsonPatchOp".into()));
            }
            let text = |field: &str| match item.get(field) {
                None | Some(Value::Null) => Ok(None),
                Some(Value::String(text)) => Ok(Some(text.to_string())),
                Some(other) => Err(wrong(
                    other,
                    format!("struct field jsonPatchOp.{field} of type string"),
                )),
            };
            Ok(Operation {
                kind: text("op")?.unwrap_or_default(),
                path: text("path")?,
                from: text("from")?,
                value: item.get("value").cloned().unwrap_or_default(),
            })
        };
        items.iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    /// Paths of members of operations that mean nothing: `[0].bogus`.
    #[must_use]
    pub fn unknown_fields(patch: &Value) -> Vec<String> {
        let items = patch.as_array().map_or(&[][..], Vec::as_slice);
        let mut unknown = Vec::new();
        for (at, item) in items.iter().enumerate() {
            let keys = item.as_object().into_iter().flat_map(Map::keys);
            unknown.extend(
                keys.filter(|key| !matches!(key.as_str(), "op" | "path" | "from" | "value"))
                    .map(|key| format!("[{at}].{key}")),
            );
        }
        unknown
    }

    /// Returns the paths that the operations change.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .flat_map(|operation| [operation.path.as_deref(), operation.from.as_deref()])
            .flatten()
    }

    /// Applies the patch.
    ///
    /// # Errors
    /// At the first operation that does not fit; the object is then half patched.
    pub fn apply(&self, object: &mut Value) -> Result<(), Error> {
        let mut copied = 0;
        self.0
            .iter()
            .try_for_each(|operation| operation.apply(object, &mut copied))
    }
}

impl Patch {
    /// Returns why the patch does not fit the object, in the words of the library that
    /// kube-apiserver patches with; `None` if it fits.
    #[must_use]
    pub fn explain(&self, object: &Value) -> Option<String> {
        let (mut object, mut copied) = (object.clone(), 0);
        self.0.iter().find_map(|operation| {
            let before = object.clone();
            let error = operation.apply(&mut object, &mut copied).err()?;
            Some(operation.explain(before, error))
        })
    }
}

impl Operation {
    fn explain(&self, mut object: Value, error: Error) -> String {
        let kind = self.kind.as_str();
        let path = self.path.as_deref().unwrap_or_default();
        let from = self.from.as_deref().unwrap_or_default();
        let moved = matches!(kind, "move" | "copy");
        let here = if moved { from } else { path };
        let last = here.rsplit('/').next().unwrap_or_default();
        let index = || match last.parse::<i64>() {
            Ok(at) => format!("Unable to access invalid index: {at}: invalid index referenced"),
            Err(_) => format!("strconv.Atoi: parsing {last:?}: invalid syntax"),
        };
        match (error, kind) {
            (Error::Kind, _) => format!("Unexpected kind: {kind}"),
            (Error::Test, _) => format!("testing value {path} failed: test failed"),
            (Error::TooLarge, _) => error.to_string(),
            (Error::NoPath, "add" | "remove") => format!(
                "{kind} operation does not apply: doc is missing path: \"{path}\": missing value"
            ),
            (Error::NoPath, "replace") => format!(
                "replace operation does not apply: doc is missing path: {path}: missing value"
            ),
            (Error::NoPath, "test") => {
                format!("test operation does not apply: is missing path: {path}: missing value")
            }
            (Error::NoPath, _) if parent(&mut object, from).is_err() => format!(
                "{kind} operation does not apply: doc is missing from path: {from}: missing value"
            ),
            (Error::NoPath, _) => format!(
                "{kind} operation does not apply: doc is missing destination path: {path}: missing value"
            ),
            (Error::NoMember, "replace") => format!(
                "replace operation does not apply: doc is missing key: {path}: missing value"
            ),
            (Error::NoMember, "remove" | "move")
                if matches!(parent(&mut object, here), Ok((Value::Object(_), _))) =>
            {
                let why = format!("Unable to remove nonexistent key: {last}: missing value");
                let told = if moved { last } else { path };
                format!("error in {kind} for path: '{told}': {why}")
            }
            (Error::NoMember, "copy") => format!("error in copy for from: '{from}': {}", index()),
            (Error::NoMember, _) => format!("error in {kind} for path: '{path}': {}", index()),
        }
    }

    fn apply(&self, object: &mut Value, copied: &mut usize) -> Result<(), Error> {
        let path = || self.path.as_deref().ok_or(Error::NoPath);
        let from = || self.from.as_deref().ok_or(Error::NoPath);
        match self.kind.as_str() {
            "add" => add(object, path()?, self.value.clone()),
            "remove" => remove(object, path()?).map(drop),
            "replace" => replace(object, path()?, &self.value),
            "test" => test(object, path()?, &self.value),
            "move" => {
                let value = remove(object, from()?)?;
                add(object, path()?, value)
            }
            "copy" => {
                let (parent, key) = parent(object, from()?)?;
                let value = get(parent, &key)?.cloned().unwrap_or_default();
                *copied += value.to_vec().len();
                if *copied > MAX_COPIED {
                    return Err(Error::TooLarge);
                }
                add(object, path()?, value)
            }
            _ => Err(Error::Kind),
        }
    }
}

/// The object or array that holds the last step of a path, and that step.
fn parent<'a>(object: &'a mut Value, path: &str) -> Result<(&'a mut Value, String), Error> {
    let mut steps = path.split('/').skip(1).map(unescape);
    let mut key = steps.next().ok_or(Error::NoPath)?;
    let mut at = object;
    for next in steps {
        at = match at {
            Value::Object(map) => map.get_mut(&key).ok_or(Error::NoPath)?,
            Value::Array(items) => {
                let at = index(items.len(), &key).ok_or(Error::NoPath)?;
                items.get_mut(at).ok_or(Error::NoPath)?
            }
            _ => return Err(Error::NoPath),
        };
        key = next;
    }
    match at {
        Value::Object(_) | Value::Array(_) => Ok((at, key)),
        _ => Err(Error::NoPath),
    }
}

fn unescape(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

/// The place that a step names in a list of so many items; a negative one counts
/// from the end.
fn index(length: usize, step: &str) -> Option<usize> {
    let at: i64 = step.parse().ok()?;
    let length = i64::try_from(length).ok()?;
    usize::try_from(if at < 0 { at + length } else { at }).ok()
}

/// The member of an object, which may be none, or the item of an array.
fn get<'a>(parent: &'a Value, key: &str) -> Result<Option<&'a Value>, Error> {
    match parent {
        Value::Object(map) => Ok(map.get(key)),
        Value::Array(items) => index(items.len(), key)
            .and_then(|at| items.get(at))
            .map(Some)
            .ok_or(Error::NoMember),
        _ => Err(Error::NoPath),
    }
}

fn add(object: &mut Value, path: &str, value: Value) -> Result<(), Error> {
    let (parent, key) = parent(object, path)?;
    match parent {
        Value::Object(map) => {
            map.insert(key, value);
        }
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            let at = index(items.len() + 1, &key).ok_or(Error::NoMember)?;
            if at > items.len() {
                return Err(Error::NoMember);
            }
            items.insert(at, value);
        }
        _ => return Err(Error::NoPath),
    }
    Ok(())
}

fn remove(object: &mut Value, path: &str) -> Result<Value, Error> {
    let (parent, key) = parent(object, path)?;
    match parent {
        Value::Object(map) => map.remove(&key).ok_or(Error::NoMember),
        Value::Array(items) => match index(items.len(), &key) {
            Some(at) if at < items.len() => Ok(items.remove(at)),
            _ => Err(Error::NoMember),
        },
        _ => Err(Error::NoPath),
    }
}

fn replace(object: &mut Value, path: &str, value: &Value) -> Result<(), Error> {
    if path.is_empty() {
        if !matches!(value, Value::Object(_) | Value::Array(_)) {
            return Err(Error::NoPath);
        }
        object.clone_from(value);
        return Ok(());
    }
    let (parent, key) = parent(object, path)?;
    get(parent, &key)?;
    match parent {
        Value::Object(map) => {
            map.insert(key, value.clone());
        }
        Value::Array(items) => {
            let at = index(items.len(), &key).ok_or(Error::NoMember)?;
            *items.get_mut(at).ok_or(Error::NoMember)? = value.clone();
        }
        _ => return Err(Error::NoPath),
    }
    Ok(())
}

fn test(object: &mut Value, path: &str, value: &Value) -> Result<(), Error> {
    let found = if path.is_empty() {
        Some(&*object)
    } else {
        let (parent, key) = parent(object, path)?;
        get(parent, &key)?
    };
    // A missing value is `null`.
    if found.unwrap_or(&Value::Null) == value {
        Ok(())
    } else {
        Err(Error::Test)
    }
}

// === impl Patch ===

impl fmt::Display for Patch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} operations", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value;

    fn patched(object: Value, patch: &Value) -> Result<Value, Error> {
        let mut object = object;
        Patch::read(patch).unwrap().apply(&mut object)?;
        Ok(object)
    }

    #[test]
    fn operations_do_as_the_rfc_says() {
        let object = value!({"a": {"b/c": 1, "d~e": [1, 2, 3]}, "f": null});
        let patch = value!([
            {"op": "test", "path": "/a/b~1c", "value": 1},
            {"op": "add", "path": "/a/d~0e/1", "value": 9},
            {"op": "add", "path": "/a/d~0e/-", "value": 4},
            {"op": "remove", "path": "/a/d~0e/0"},
            {"op": "copy", "from": "/a/b~1c", "path": "/g"},
            {"op": "move", "from": "/a/b~1c", "path": "/h"},
            {"op": "replace", "path": "/g", "value": {"x": 1}}
        ]);
        assert_eq!(
            patched(object, &patch),
            Ok(value!({"a": {"d~e": [9, 2, 3, 4]}, "f": null, "g": {"x": 1}, "h": 1}))
        );
    }

    #[test]
    fn what_does_not_fit_is_explained() {
        let object = value!({"a": [1], "b": {}});
        for (operation, why) in [
            (
                value!({"op": "frob", "path": "/a"}),
                "Unexpected kind: frob",
            ),
            (
                value!({"op": "add", "path": "/a/5", "value": 1}),
                "error in add for path: '/a/5': Unable to access invalid index: 5: invalid index referenced",
            ),
            (
                value!({"op": "remove", "path": "/b/c"}),
                "error in remove for path: '/b/c': Unable to remove nonexistent key: c: missing value",
            ),
            (
                value!({"op": "remove", "path": "/c/d"}),
                "remove operation does not apply: doc is missing path: \"/c/d\": missing value",
            ),
            (
                value!({"op": "copy", "from": "/b", "path": "/c/d"}),
                "copy operation does not apply: doc is missing destination path: /c/d: missing value",
            ),
        ] {
            let patch = Patch::read(&value!([(operation)])).unwrap();
            assert_eq!(patch.explain(&object).as_deref(), Some(why));
        }
        let patch = Patch::read(&value!([{"op": "test", "path": "/c"}])).unwrap();
        assert_eq!(patch.explain(&object), None);
    }

    #[test]
    fn freedoms_beyond_the_rfc_are_taken() {
        let object = value!({"a": [1, 2]});
        let patch = value!([
            {"op": "replace", "path": "/new", "value": 1},
            {"op": "test", "path": "/none"},
            {"op": "remove", "path": "/a/-1"},
            {"op": "copy", "from": "/none", "path": "/empty"}
        ]);
        assert_eq!(
            patched(object, &patch),
            Ok(value!({"a": [1], "new": 1, "empty": null}))
        );
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (operation, error) in [
            (value!({"op": "remove", "path": "/none"}), Error::NoMember),
            (
                value!({"op": "add", "path": "/x/y", "value": 1}),
                Error::NoPath,
            ),
            (
                value!({"op": "add", "path": "/a/9", "value": 1}),
                Error::NoMember,
            ),
            (
                value!({"op": "add", "path": "/a/x", "value": 1}),
                Error::NoMember,
            ),
            (
                value!({"op": "replace", "path": "/a/2", "value": 1}),
                Error::NoMember,
            ),
            (
                value!({"op": "test", "path": "/a", "value": []}),
                Error::Test,
            ),
            (value!({"op": "add", "path": "", "value": 1}), Error::NoPath),
            (value!({"op": "add"}), Error::NoPath),
            (value!({"op": "nope", "path": "/a"}), Error::Kind),
            (
                value!({"op": "move", "from": "/none", "path": "/a"}),
                Error::NoMember,
            ),
        ] {
            let patch = value!([(operation.clone())]);
            assert_eq!(
                patched(value!({"a": [1, 2], "x": 1}), &patch),
                Err(error),
                "{operation}"
            );
        }
    }

    #[test]
    fn copies_are_bounded() {
        let patch: Vec<Value> = (0..40)
            .map(|_| value!({"op": "copy", "from": "/a", "path": "/a/-"}))
            .collect();
        let object = value!({"a": ["xxxxxxxx"]});
        assert_eq!(patched(object, &patch.into()), Err(Error::TooLarge));
    }

    #[test]
    fn a_patch_is_a_list_of_operations() {
        assert!(Patch::read(&value!({})).is_err());
        assert!(Patch::read(&value!([1])).is_err());
        assert!(Patch::read(&value!([{"op": 1}])).is_err());
        assert_eq!(
            Patch::unknown_fields(&value!([{"op": "add", "bogus": 1}])),
            ["[0].bogus"]
        );
    }
}

//! The patches that are not applied as configurations: JSON patch, merge patch,
//! strategic merge patch.

use std::borrow::Cow;

use control_types::schema::{Shape, Type};
use control_types::status::{Cause, Details, Status, quote};
use control_types::value::Value;
use control_types::{go, json_patch, strategic};

use crate::verbs::patch::APPLY;
use control_request::options::FieldValidation;
use control_request::plain_error;
use control_strategy::decode::{self, DecodedObject, ExpectedKind};

/// The patches that are read.
const PATCHES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    APPLY,
    "application/strategic-merge-patch+json",
];

/// A patch, read but not applied.
pub struct Patch {
    kind: Kind,
    /// What strict validation refuses of the patch itself.
    complaints: Vec<String>,
}

enum Kind {
    /// RFC 6902.
    Json(json_patch::Patch),
    /// RFC 7396.
    Merge(Value),
    /// Strategic merge patch.
    Strategic(Value),
}

impl Patch {
    /// Reads a patch of a media type.
    ///
    /// # Errors
    /// 415 for other media types, 400 for what cannot be read, 413 for more
    /// operations than there may be.
    pub fn read(media: &str, bytes: &[u8], validation: FieldValidation) -> Result<Self, Status> {
        let strategic = media == "application/strategic-merge-patch+json";
        let unreadable = |error: String| {
            Status::bad_request(if strategic {
                error
            } else {
                format!("error decoding patch: {error}")
            })
        };
        let json = || Value::parse(bytes).map_err(|error| unreadable(error.to_string()));
        let members = |patch: &Value| match patch {
            Value::Object(_) | Value::Null => Ok(()),
            other => Err(unreadable(format!(
                "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                other.type_name()
            ))),
        };
        let duplicate = |field: &String| format!("duplicate field {}", quote(field));
        let mut complaints = Vec::new();
        let kind = match media {
            "application/json-patch+json" => {
                let parsed = json()?;
                let patch = json_patch::Patch::read(&parsed.value).map_err(|error| {
                    if matches!(error, json_patch::ReadError::TooLong(_)) {
                        let mut status = Status::request_entity_too_large(0);
                        status.message = format!("Request entity too large: {error}");
                        return status;
                    }
                    // Unless somebody asked to be told of strange members, another
                    // reader reads it.
                    if validation == FieldValidation::Ignore
                        && !matches!(parsed.value, Value::Array(_))
                    {
                        return Status::bad_request(format!(
                            "json: cannot unmarshal {} into Go value of type jsonpatch.Patch",
                            parsed.value.type_name()
                        ));
                    }
                    unreadable(error.to_string())
                })?;
                complaints.extend(
                    json_patch::Patch::unknown_fields(&parsed.value)
                        .iter()
                        .map(|field| format!("json patch unknown field {}", quote(field))),
                );
                complaints.extend(
                    parsed
                        .duplicates
                        .iter()
                        .map(|field| format!("json patch {}", duplicate(field))),
                );
                Kind::Json(patch)
            }
            "application/merge-patch+json" => {
                let parsed = json()?;
                members(&parsed.value)?;
                if parsed.value.is_null() {
                    return Err(Status::bad_request("Invalid JSON Patch"));
                }
                complaints.extend(parsed.duplicates.iter().map(duplicate));
                Kind::Merge(parsed.value)
            }
            _ if strategic => {
                let parsed = json()?;
                members(&parsed.value)?;
                complaints.extend(parsed.duplicates.iter().map(duplicate));
                Kind::Strategic(match parsed.value {
                    Value::Null => Value::object(),
                    patch => patch,
                })
            }
            _ => return Err(unsupported()),
        };
        if validation == FieldValidation::Ignore {
            complaints.clear();
        }
        Ok(Self { kind, complaints })
    }

    /// What the patch makes of an object, decoded as the expected kind.
    ///
    /// # Errors
    /// 422 and others when it does not fit the object, or what it makes does not
    /// fit the type.
    pub fn apply(
        &self,
        old: &Value,
        expected: ExpectedKind<'_>,
        validation: FieldValidation,
    ) -> Result<DecodedObject, Status> {
        let mut tree = old.clone();
        self.patch(&mut tree, expected)?;
        let strict = |all: &[String]| format!("{STRICT}{}", all.join(", "));
        let nameless = match self.kind {
            Kind::Json(_) | Kind::Merge(_) => nameless(&mut tree),
            Kind::Strategic(_) => Vec::new(),
        };
        let decoded = decode::tree_of(tree, Vec::new(), expected, validation);
        let mut decoded = decoded.map_err(|status| {
            if status.code == 422 {
                return status;
            }
            let why = status
                .message
                .split_once(&format!(" cannot be handled as a {}: ", expected.kind))
                .map_or(status.message.as_str(), |(_, why)| why);
            match why.strip_prefix(STRICT) {
                Some(rest) => {
                    let mut all = self.complaints.clone();
                    all.push(rest.to_owned());
                    self.refused(old, expected, &strict(&all))
                }
                None => self.refused(old, expected, &self.worded(why)),
            }
        })?;
        if !self.complaints.is_empty() {
            if validation == FieldValidation::Strict {
                return Err(self.refused(old, expected, &strict(&self.complaints)));
            }
            decoded
                .warnings
                .splice(0..0, self.complaints.iter().cloned());
        }
        if validation != FieldValidation::Ignore {
            decoded.warnings.extend(nameless);
        }
        Ok(decoded)
    }

    fn patch(&self, object: &mut Value, expected: ExpectedKind<'_>) -> Result<(), Status> {
        match &self.kind {
            Kind::Json(patch) => patch.apply(object).map_err(|error| {
                tracing::debug!(%error, "a JSON patch does not fit");
                unprocessable()
            }),
            Kind::Merge(patch) => {
                merge(object, patch);
                Ok(())
            }
            Kind::Strategic(patch) => {
                let Some(schema) = expected.form.typed() else {
                    return Err(unsupported());
                };
                strategic::apply(object, patch, schema).map_err(|error| match error {
                    strategic::Error::Format(_) => Status::bad_request(error.to_string()),
                    strategic::Error::ListOfLists => unprocessable(),
                    other => plain_error(other.to_string()),
                })
            }
        }
    }

    /// A decoding error in the words of the decoder that follows this patch.
    fn worded<'a>(&self, why: &'a str) -> Cow<'a, str> {
        match self.kind {
            Kind::Strategic(_) => unstructured(why, false),
            _ => why.into(),
        }
    }

    /// What the patch makes is none of the expected kind. A strategic patch knows
    /// the types and is shown itself, of the others what they made is shown.
    fn refused(&self, old: &Value, expected: ExpectedKind<'_>, why: &str) -> Status {
        let shown = match &self.kind {
            Kind::Strategic(patch) => go::plain(patch),
            _ => {
                let mut object = old.clone();
                if expected.form.coerce(&mut object).is_ok() {
                    expected.form.complete(&mut object);
                }
                // It did fit: the same object was patched before.
                let _ = self.patch(&mut object, expected);
                self.sort_touched(&mut object);
                object.to_string()
            }
        };
        let cause = Cause {
            reason: "FieldValueInvalid".into(),
            message: format!("Invalid value: {}: {why}", quote(&shown)),
            field: "patch".into(),
        };
        Status::invalid("", "", "", vec![cause])
    }

    /// Orders the members of the objects that the patch went through, as Go does
    /// who takes these for maps.
    fn sort_touched(&self, object: &mut Value) {
        match &self.kind {
            Kind::Json(patch) => patch.paths().for_each(|path| sort_along(object, path)),
            Kind::Merge(patch) => sort_as(object, patch),
            Kind::Strategic(_) => {}
        }
        if let Value::Object(map) = object {
            map.sort();
        }
    }
}

/// An object whose kind and version are both gone is none that anybody knows:
/// nothing of it is read. Answers what is said of its members.
fn nameless(tree: &mut Value) -> Vec<String> {
    let named = |field| tree.get(field).is_some_and(|name| !name.is_null());
    let Value::Object(map) = &*tree else {
        return Vec::new();
    };
    if named("apiVersion") || named("kind") {
        return Vec::new();
    }
    let mut members: Vec<_> = map.keys().map(|key| quote(key)).collect();
    members.sort();
    *tree = Value::object();
    members
        .into_iter()
        .map(|member| format!("unknown field {member}"))
        .collect()
}

const STRICT: &str = "strict decoding error: ";

fn sort_along(object: &mut Value, path: &str) {
    let mut at = object;
    for step in path.split('/').skip(1) {
        if let Value::Object(map) = at {
            map.sort();
        }
        match at.path_mut(&[step]) {
            Some(next) => at = next,
            None => return,
        }
    }
}

fn sort_as(object: &mut Value, patch: &Value) {
    let (Value::Object(map), Value::Object(patch)) = (object, patch) else {
        return;
    };
    map.sort();
    for (key, below) in patch {
        if let Some(value) = map.get_mut(key) {
            sort_as(value, below);
        }
    }
}

/// A decoding error as the decoder of untyped trees words it. `checked`: scalars
/// were compared with the type before, so that what is left is about types that
/// decode themselves.
pub fn unstructured(error: &str, checked: bool) -> Cow<'_, str> {
    let Some((what, of)) = error
        .rsplit_once("json: cannot unmarshal ")
        .and_then(|(_, rest)| rest.split_once(" into "))
    else {
        return error.into();
    };
    let of = of.rsplit_once(" of type ").map_or(of, |(_, of)| of);
    let (what, number) = what.split_once(' ').unwrap_or((what, ""));
    let kind = match what {
        "object" => "map",
        "array" => "slice",
        "number" if number.contains(['.', 'e', 'E']) => "float64",
        "number" => "int64",
        other => other,
    };
    // Named scalars are texts.
    let text = of == "string" || of.contains('.');
    let known = |known: &&Type| known.go == of && known.shape == Shape::Struct;
    if of.starts_with("[]") {
        format!("cannot restore slice from {kind}")
    } else if of.starts_with("map[") {
        format!("cannot restore map from {kind}")
    } else if kind == "float64" && of.starts_with("int") {
        format!("cannot convert float64 to {of}")
    } else if Type::all().iter().find(known).is_some() {
        format!("cannot restore struct from: {kind}")
    } else if checked {
        format!("json: cannot unmarshal {what} into Go value of type {of}")
    } else if kind == "int64" && text {
        // Go takes a number for a letter's.
        format!("cannot convert int64 to {of}")
    } else {
        format!("unrecognized type: {}", if text { "string" } else { of })
    }
    .into()
}

/// RFC 7396.
fn merge(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    let target = target.make_object();
    for (key, value) in patch.iter() {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(
                target.get_or_insert_with(key.clone(), || Value::Null),
                value,
            );
        }
    }
}

fn unsupported() -> Status {
    let mut status = Status::unsupported_media_type(PATCHES);
    status.message = "415: Unsupported Media Type".into();
    status.details = Some(Details::default());
    status
}

/// What stock says of a patch that does not fit, and no more.
fn unprocessable() -> Status {
    let mut status = Status::invalid("", "", "", Vec::new());
    status.message = "the server rejected our request due to an error in our request".into();
    status.details = Some(Details::default());
    status
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    #[test]
    fn merge_patch_replaces_removes_and_descends() {
        let mut object = value!({"a": {"b": 1, "c": [1, 2]}, "d": 2});
        merge(
            &mut object,
            &value!({"a": {"b": null, "c": [3]}, "e": {"f": null, "g": 1}}),
        );
        assert_eq!(object, value!({"a": {"c": [3]}, "d": 2, "e": {"g": 1}}));
    }

    #[test]
    fn unknown_patches_are_refused() {
        let code = |media: &str, patch: &[u8]| {
            Patch::read(media, patch, FieldValidation::Warn)
                .err()
                .map(|status| status.code)
        };
        assert_eq!(code("application/json", b"{}"), Some(415));
        assert_eq!(code("application/merge-patch+json", b"{"), Some(400));
        assert_eq!(code("application/merge-patch+json", b"null"), Some(400));
        assert_eq!(
            code("application/strategic-merge-patch+json", b"[]"),
            Some(400)
        );
        assert_eq!(code("application/json-patch+json", b"{}"), Some(400));
        assert_eq!(code("application/json-patch+json", b"[]"), None);
    }

    #[test]
    fn errors_are_worded_as_by_the_decoder_of_untyped_trees() {
        for (json, untyped) in [
            (
                "string into Go struct field X.a of type []v1.Container",
                "cannot restore slice from string",
            ),
            (
                "number into Go struct field X.a of type map[string]string",
                "cannot restore map from int64",
            ),
            (
                "array into Go struct field X.a of type v1.PodSpec",
                "cannot restore struct from: slice",
            ),
            (
                "number 1.5 into Go struct field X.a of type int32",
                "cannot convert float64 to int32",
            ),
            (
                "number into Go struct field X.a of type v1.Protocol",
                "cannot convert int64 to v1.Protocol",
            ),
            (
                "string into Go struct field X.a of type int32",
                "unrecognized type: int32",
            ),
        ] {
            assert_eq!(
                unstructured(&format!("json: cannot unmarshal {json}"), false),
                untyped
            );
        }
    }
}

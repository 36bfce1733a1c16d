//! `ConversionReview`: the question that a webhook is asked, and what of its answer is
//! taken. All pure.

use control_types::status::quote;
use control_types::value::{Map, Value};
use control_types::{meta, names};

use super::counts::Failure;

/// Which review a webhook is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// `apiextensions.k8s.io/v1`
    V1,
    /// `apiextensions.k8s.io/v1beta1`
    V1beta1,
}

impl Version {
    /// A version that is known here.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1beta1),
            _ => None,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1beta1 => "v1beta1",
        }
    }
}

/// What an object is, as Go writes it.
pub(super) fn kind_of(object: &Value) -> String {
    format!("{}, Kind={}", meta::api_version(object), meta::kind(object))
}

/// The bytes of a question.
pub(super) fn encode(version: Version, uid: &str, objects: &[&Value], to: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    out.extend_from_slice(b"{\"kind\":\"ConversionReview\",\"apiVersion\":\"apiextensions.k8s.io/");
    out.extend_from_slice(version.as_str().as_bytes());
    out.extend_from_slice(b"\",\"request\":{\"uid\":");
    Value::from(uid).write(&mut out);
    out.extend_from_slice(b",\"desiredAPIVersion\":");
    Value::from(to).write(&mut out);
    out.extend_from_slice(b",\"objects\":[");
    for (at, object) in objects.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        object.write(&mut out);
    }
    out.extend_from_slice(b"]}}");
    out
}

/// Error for an answer with no converted objects, in the words of stock.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum AnswerError {
    /// It is no review.
    #[error(
        "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got {version}, Kind={kind}"
    )]
    Kind { version: String, kind: String },
    /// It answers nothing.
    #[error("no response provided")]
    Absent,
    /// It answers another question.
    #[error("expected response.uid={}, got {}", quote(expected), quote(found))]
    Uid { expected: String, found: String },
    /// The webhook did not convert and does not say why.
    #[error("response.result.status was '{status}', not 'Success'")]
    Status { status: String },
    /// The webhook did not convert, in its words.
    #[error("{message}")]
    Refused { message: String },
}

/// The objects of an answer.
///
/// # Errors
/// What is wrong with it, or why the webhook did not convert, in its words.
pub(super) fn read(version: Version, uid: &str, answer: Value) -> Result<Vec<Value>, AnswerError> {
    let given = answer.str_at(&["apiVersion"]).unwrap_or_default();
    let kind = answer.str_at(&["kind"]).unwrap_or_default();
    if version == Version::V1 && (given, kind) != ("apiextensions.k8s.io/v1", "ConversionReview") {
        let given = if given.is_empty() { "/" } else { given };
        return Err(AnswerError::Kind {
            version: given.to_owned(),
            kind: kind.to_owned(),
        });
    }
    let mut answer = answer;
    let response = answer
        .get_mut("response")
        .filter(|response| response.as_object().is_some())
        .ok_or(AnswerError::Absent)?;
    let text = |path: &[&str]| response.str_at(path).unwrap_or_default();
    if version == Version::V1 && text(&["uid"]) != uid {
        return Err(AnswerError::Uid {
            expected: uid.to_owned(),
            found: text(&["uid"]).to_owned(),
        });
    }
    match (text(&["result", "status"]), text(&["result", "message"])) {
        ("Success", _) => {}
        (status, "") => {
            return Err(AnswerError::Status {
                status: status.to_owned(),
            });
        }
        (_, message) => {
            return Err(AnswerError::Refused {
                message: message.to_owned(),
            });
        }
    }
    match response.remove("convertedObjects") {
        Some(Value::Array(objects)) => Ok(objects),
        _ => Ok(Vec::new()),
    }
}

/// Takes of converted objects what a webhook may change: all but metadata, and of that
/// labels and annotations.
///
/// # Errors
/// When it changed more, or made something else of an object.
pub(super) fn check(
    objects: &[&Value],
    converted: Vec<Value>,
    to: &str,
    kind: &str,
) -> Result<Vec<Value>, (Failure, String)> {
    if converted.len() != objects.len() {
        let why = format!(
            "conversion webhook for {kind} returned {} objects, expected {}",
            converted.len(),
            objects.len()
        );
        return Err((Failure::Partial, why));
    }
    let taken = objects
        .iter()
        .zip(converted)
        .map(|(original, mut converted)| {
            take(original, &mut converted, to)
                .map(|()| converted)
                .map_err(|(what, why)| {
                    let why = format!("conversion webhook for {kind} returned {what}: {why}");
                    (Failure::Invalid, why)
                })
        });
    taken.collect()
}

fn take(original: &Value, converted: &mut Value, to: &str) -> Result<(), (&'static str, String)> {
    const OBJECT: &str = "invalid object at index 0";
    if converted.as_object().is_none() {
        let why = format!(
            "json: cannot unmarshal {} into Go value",
            converted.type_name()
        );
        return Err((OBJECT, why));
    }
    let version = meta::api_version(converted);
    if version != to {
        let why = format!("invalid groupVersion (expected {to}, received {version})");
        return Err((OBJECT, why));
    }
    let (expected, received) = (meta::kind(original), meta::kind(converted));
    if expected != received {
        let why = format!("invalid kind (expected {expected}, received {received})");
        return Err((OBJECT, why));
    }
    for (what, of) in [
        ("name", meta::name as fn(&Value) -> &str),
        ("namespace", meta::namespace),
        ("UID", meta::uid),
    ] {
        let (before, after) = (of(original), of(converted));
        if before != after {
            let why = format!("must have the same {what}: {before} != {after}");
            return Err(("invalid object", why));
        }
    }
    restore(original, converted).map_err(|error| ("invalid metadata", error.to_string()))
}

/// Error for the metadata of a converted object, in the words of stock.
#[derive(Debug, thiserror::Error)]
enum MetadataError {
    #[error("missing metadata in converted object")]
    Missing,
    #[error("invalid metadata of type {found} in converted object")]
    Type { found: &'static str },
    #[error("invalid metadata.{field} of type {found} in converted object")]
    FieldType {
        field: &'static str,
        found: &'static str,
    },
    #[error("metadata.{field}[{key}] must be a string, but is {found} in converted object")]
    EntryType {
        field: &'static str,
        key: String,
        found: &'static str,
    },
    /// Keys or values of labels or annotations, each with what is wrong with it.
    #[error("{}", joined(.0))]
    Entries(Vec<String>),
}

fn joined(errors: &[String]) -> String {
    match errors {
        [one] => one.clone(),
        all => format!("[{}]", all.join(", ")),
    }
}

/// Gives a converted object its metadata back, but for labels and annotations.
fn restore(original: &Value, converted: &mut Value) -> Result<(), MetadataError> {
    let answered = match converted.get_mut("metadata") {
        None => return Err(MetadataError::Missing),
        Some(Value::Object(answered)) => std::mem::take(answered),
        Some(other) => {
            let found = go_type(other);
            return Err(MetadataError::Type { found });
        }
    };
    let mut metadata = meta::metadata(original).cloned().unwrap_or_default();
    for field in ["labels", "annotations"] {
        match answered.get(field) {
            None | Some(Value::Null) => {
                metadata.remove(field);
            }
            Some(Value::Object(map)) => {
                if metadata.get(field).and_then(Value::as_object) != Some(map) {
                    check_map(field, map)?;
                }
                metadata.insert(field, Value::Object(map.clone()));
            }
            Some(other) => {
                let found = go_type(other);
                return Err(MetadataError::FieldType { field, found });
            }
        }
    }
    converted.insert("metadata", Value::Object(metadata));
    Ok(())
}

fn check_map(field: &'static str, map: &Map) -> Result<(), MetadataError> {
    let mut errors = Vec::new();
    let at = if field == "labels" {
        "metadata.labels"
    } else {
        "metadata.annotation"
    };
    for (key, value) in map {
        let Some(text) = value.as_str() else {
            return Err(MetadataError::EntryType {
                field,
                key: key.to_string(),
                found: go_type(value),
            });
        };
        let lower = key.as_str().to_lowercase();
        let key_errors = if field == "labels" {
            names::qualified_name(key.as_str())
        } else {
            names::qualified_name(&lower)
        };
        for why in key_errors {
            errors.push(format!(
                "{at}: Invalid value: {}: {why}",
                quote(key.as_str())
            ));
        }
        if field == "labels" {
            for why in names::label_value(text) {
                errors.push(format!("{at}: Invalid value: {}: {why}", quote(text)));
            }
        }
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(MetadataError::Entries(errors))
    }
}

/// The type that Go's decoder gives a value.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Float(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    const KIND: &str = "example.com/v1, Kind=Gear";

    fn original() -> Value {
        value!({
            "apiVersion": "example.com/v1", "kind": "Gear",
            "metadata": {"name": "a", "namespace": "n", "uid": "u", "generation": 3, "labels": {"a": "b"}},
            "spec": {"host": "h"}
        })
    }

    fn converted(metadata: Value) -> Value {
        value!({
            "apiVersion": "example.com/v2", "kind": "Gear", "metadata": (metadata),
            "spec": {"hosts": ["h"]}
        })
    }

    fn taken(converted: Value) -> Result<Value, String> {
        check(&[&original()], vec![converted], "example.com/v2", KIND)
            .map(|mut all| all.pop().expect("one"))
            .map_err(|(_, why)| why)
    }

    #[test]
    fn metadata_stays_as_it_was_but_for_labels_and_annotations() {
        let answer = converted(value!({
            "name": "a", "namespace": "n", "uid": "u", "generation": 9,
            "finalizers": ["mine"], "labels": {"c": "d"}, "annotations": {"e": "f"}
        }));
        let wanted = converted(value!({
            "name": "a", "namespace": "n", "uid": "u", "generation": 3,
            "labels": {"c": "d"}, "annotations": {"e": "f"}
        }));
        assert_eq!(taken(answer), Ok(wanted));
        // Labels that are not mentioned are gone.
        let bare = converted(value!({"name": "a", "namespace": "n", "uid": "u"}));
        let without = taken(bare).expect("taken");
        assert_eq!(without.path(&["metadata", "labels"]), None);
    }

    #[test]
    fn objects_that_are_others_are_not_taken() {
        let mut kind = converted(value!({"name": "a", "namespace": "n", "uid": "u"}));
        let mut version = kind.clone();
        kind.insert("kind", "Cog");
        version.insert("apiVersion", "example.com/v3");
        let table = [
            (
                kind,
                "invalid object at index 0: invalid kind (expected Gear, received Cog)",
            ),
            (
                version,
                "invalid object at index 0: invalid groupVersion (expected example.com/v2, received example.com/v3)",
            ),
            (
                converted(value!({"name": "b", "namespace": "n", "uid": "u"})),
                "invalid object: must have the same name: a != b",
            ),
            (
                converted(value!({"name": "a", "namespace": "n", "uid": "w"})),
                "invalid object: must have the same UID: u != w",
            ),
            (
                converted(value!({"name": "a", "namespace": "n", "uid": "u", "labels": {"x": 1}})),
                "invalid metadata: metadata.labels[x] must be a string, but is int64 in converted object",
            ),
        ];
        for (answer, why) in table {
            let wanted = format!("conversion webhook for {KIND} returned {why}");
            assert_eq!(taken(answer), Err(wanted));
        }
        let (_, why) = check(&[&original()], vec![], "example.com/v2", KIND).expect_err("none");
        assert_eq!(
            why,
            "conversion webhook for example.com/v1, Kind=Gear returned 0 objects, expected 1"
        );
    }

    #[test]
    fn answers_say_whether_they_are_good() {
        let answer = |response: Value| {
            value!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
                "response": (response)
            })
        };
        let table = [
            (
                value!({"response": {}}),
                "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got /, Kind=",
            ),
            (answer(Value::Null), "no response provided"),
            (
                answer(value!({"uid": "x"})),
                "expected response.uid=\"u\", got \"x\"",
            ),
            (
                answer(value!({"uid": "u"})),
                "response.result.status was '', not 'Success'",
            ),
            (
                answer(value!({"uid": "u", "result": {"status": "Failure", "message": "no"}})),
                "no",
            ),
        ];
        for (answer, wanted) in table {
            let error = read(Version::V1, "u", answer).expect_err(wanted);
            assert_eq!(error.to_string(), wanted);
        }
        let old =
            value!({"response": {"result": {"status": "Success"}, "convertedObjects": [{"a": 1}]}});
        assert_eq!(read(Version::V1beta1, "u", old), Ok(vec![value!({"a": 1})]));
    }
}

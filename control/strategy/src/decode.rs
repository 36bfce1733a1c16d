//! Request bodies: from bytes to an object of the expected kind.

use control_types::coerce;
use control_types::meta;
use control_types::protobuf::{self, Envelope};
use control_types::status::{Cause, Status, quote};
use control_types::value::{Error as ParseError, Value};
use control_types::yaml;
use http::HeaderMap;
use http::header::CONTENT_TYPE;

use crate::ObjectSchema;
use control_request::body::{self, Body, ReadError};
use control_request::negotiate::MEDIA_TYPES;
use control_request::options::FieldValidation;

/// In what custom objects are sent and answered.
pub const CUSTOM_MEDIA_TYPES: &[&str] = &["application/json", "application/yaml"];

/// How much of an unreadable body is shown in the error, in bytes.
const SHOWN: usize = 30;

/// What kind of object a body must hold.
#[derive(Debug, Clone, Copy)]
pub struct ExpectedKind<'a> {
    /// API group; empty for core.
    pub group: &'static str,
    /// Version.
    pub version: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// What its objects look like.
    pub form: ObjectSchema<'a>,
}

/// Decodes options that stand in a body (`DeleteOptions`).
///
/// # Errors
/// 400 and 415.
pub fn options(headers: &HeaderMap, bytes: &[u8], kind: &str) -> Result<Value, Status> {
    let mut tree = match media(headers)? {
        Media::Json => {
            let parsed = Value::from_slice(bytes).map_err(|error| error.to_string());
            let parsed = parsed.and_then(|tree| match tree {
                Value::Object(_) | Value::Null => Ok(tree),
                other => Err(not_an_object(&other)),
            });
            parsed.map_err(|why| {
                let what = "couldn't get version/kind; json parse error";
                Status::bad_request(format!("{what}: {why}"))
            })?
        }
        Media::Yaml => from_yaml(bytes).map_err(|error| {
            Status::bad_request(format!("error converting YAML to JSON: {error}"))
        })?,
        Media::Protobuf => {
            let options = || {
                let envelope = Envelope::open(bytes)?;
                match control_types::registry::schema_of("", "v1", kind) {
                    Some(schema) => protobuf::decode_message(envelope.raw, schema),
                    None => Ok(Value::object()),
                }
            };
            options().map_err(|error| Status::bad_request(error.to_string()))?
        }
    };
    if tree.is_null() {
        return Ok(Value::object());
    }
    let said = meta::kind(&tree);
    if !said.is_empty() && said != kind {
        return Err(Status::bad_request(format!(
            "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
            quote(said),
            quote(meta::api_version(&tree))
        )));
    }
    if let Some(schema) = control_types::registry::schema_of("", "v1", kind) {
        coerce::coerce(&mut tree, schema)
            .map_err(|error| Status::bad_request(error.to_string()))?;
    }
    Ok(tree)
}

/// A decoded object and what to tell the client about it.
#[derive(Debug)]
pub struct DecodedObject {
    /// The object, of the expected kind and version, without unknown fields.
    pub object: Value,
    /// Warnings.
    pub warnings: Vec<String>,
}

/// Reads a whole body.
///
/// # Errors
/// 413 when it is too large, 400 when it breaks off.
pub async fn read(body: Body) -> Result<bytes::Bytes, Status> {
    body::read(body).await.map_err(|error| match error {
        ReadError::TooLarge => Status::request_entity_too_large(body::LIMIT),
        ReadError::Broken(_) => {
            Status::bad_request("unable to read the request body: the connection broke off")
        }
    })
}

/// The media type of a request's body; JSON when it does not say.
///
/// # Errors
/// 415 for types that are not read.
fn media(headers: &HeaderMap) -> Result<Media, Status> {
    let text = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let mut parts = text.split(';').map(str::trim);
    let media = parts.next().unwrap_or_default().to_ascii_lowercase();
    // A parameter has a name and a value; behind the last semicolon may be none.
    let is_whole = parts.all(|part| {
        part.is_empty()
            || part
                .split_once('=')
                .is_some_and(|(name, value)| !name.is_empty() && !value.is_empty())
    });
    match media.as_str() {
        "" if text.is_empty() => Ok(Media::Json),
        "application/json" if is_whole => Ok(Media::Json),
        "application/yaml" if is_whole => Ok(Media::Yaml),
        "application/vnd.kubernetes.protobuf" if is_whole => Ok(Media::Protobuf),
        _ => Err(Status::unsupported_media_type(MEDIA_TYPES)),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Media {
    Json,
    Yaml,
    Protobuf,
}

/// Decodes an object.
///
/// # Errors
/// 400 and 415, worded as Kubernetes does.
pub async fn object(
    headers: &HeaderMap,
    body: Body,
    expected: ExpectedKind<'_>,
    validation: FieldValidation,
) -> Result<DecodedObject, Status> {
    let media = media(headers)?;
    if media == Media::Protobuf && expected.form.typed().is_none() {
        return Err(Status::unsupported_media_type(CUSTOM_MEDIA_TYPES));
    }
    let bytes = read(body).await?;
    let (tree, duplicates) = match media {
        Media::Json => {
            let parsed = Value::parse(&bytes).map_err(|error| match error {
                // Kind and version could be read for all that.
                ParseError::NumberRange(_) => Status::bad_request(coerce::cannot_be_handled(
                    expected.version,
                    expected.kind,
                    expected.kind,
                    &error.to_string(),
                )),
                error => unrecognized(&expected, &error.to_string(), &bytes),
            })?;
            (parsed.value, parsed.duplicates)
        }
        Media::Yaml => {
            let document =
                yaml::read(&bytes).map_err(|error| not_read(&expected, &error, &bytes))?;
            // An array or a text is shown as it was sent.
            if !matches!(document.value, Value::Object(_) | Value::Null) {
                return Err(unrecognized(
                    &expected,
                    &not_an_object(&document.value),
                    &bytes,
                ));
            }
            let findings = document.findings;
            return tree_with(document.value, findings, expected, validation);
        }
        Media::Protobuf => (from_protobuf(&bytes, &expected)?, Vec::new()),
    };
    let decoded = tree_of(tree, duplicates, expected, validation);
    decoded.map_err(|status| as_sent(status, &bytes))
}

/// Shows a number that does not fit as the client wrote it: a tree knows only what
/// it comes to.
fn as_sent(mut status: Status, bytes: &[u8]) -> Status {
    const BEFORE: &str = "cannot unmarshal number ";
    let Some(start) = status.message.find(BEFORE).map(|at| at + BEFORE.len()) else {
        return status;
    };
    let end = status.message[start..].find(' ').map(|end| start + end);
    let Some(end) = end.filter(|end| *end > start) else {
        return status;
    };
    let shown = status.message[start..end].parse::<f64>();
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    let of_number = |letter: char| matches!(letter, '0'..='9' | '-' | '+' | '.' | 'e' | 'E');
    let same = |word: &&str| {
        let number = word.parse::<f64>().ok();
        number.is_some() && number == shown.as_ref().ok().copied()
    };
    if let Some(word) = text.split(|letter| !of_number(letter)).find(same) {
        status.message.replace_range(start..end, word);
    }
    status
}

/// Reads an object in protobuf. One of another kind than expected is not decoded, and
/// is told from its kind and version afterwards.
fn from_protobuf(bytes: &[u8], expected: &ExpectedKind<'_>) -> Result<Value, Status> {
    let envelope = Envelope::open(bytes).map_err(|error| not_read(expected, &error, bytes))?;
    let wanted = meta::join_api_version(expected.group, expected.version);
    let version = match envelope.version {
        "" => wanted.as_str(),
        version => version,
    };
    let kind = match envelope.kind {
        "" => expected.kind,
        kind => kind,
    };
    let mut tree = if (version, kind) == (&*wanted, expected.kind) {
        let ObjectSchema::Typed(schema) = expected.form else {
            return Err(Status::unsupported_media_type(CUSTOM_MEDIA_TYPES));
        };
        protobuf::decode_message(envelope.raw, schema).map_err(|error| {
            Status::bad_request(coerce::cannot_be_handled(
                expected.version,
                kind,
                expected.kind,
                &error.to_string(),
            ))
        })?
    } else {
        Value::object()
    };
    meta::set_type(&mut tree, version, kind);
    Ok(tree)
}

/// 400 for bytes that are not of their media type.
fn not_read(expected: &ExpectedKind<'_>, why: &dyn std::fmt::Display, bytes: &[u8]) -> Status {
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): {why} ({})",
        expected.kind,
        summary(bytes)
    ))
}

/// Parses YAML into a tree.
///
/// # Errors
/// What the parser says.
pub fn from_yaml(bytes: &[u8]) -> Result<Value, yaml::Error> {
    yaml::read(bytes).map(|document| document.value)
}

fn not_an_object(tree: &Value) -> String {
    format!(
        "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
        tree.type_name()
    )
}

fn unrecognized(expected: &ExpectedKind<'_>, why: &str, bytes: &[u8]) -> Status {
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error: {why} ({})",
        expected.kind,
        summary(bytes)
    ))
}

fn summary(bytes: &[u8]) -> String {
    let cut = &bytes[..bytes.len().min(SHOWN)];
    let mut shown = match bytes.first() {
        None => return "<empty>".into(),
        Some(b'{') => String::from_utf8_lossy(cut).into_owned(),
        Some(_) => cut.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    if bytes.len() > SHOWN {
        shown.push_str(" ...");
    }
    shown
}

/// Brings a parsed tree into the form of the expected kind.
///
/// # Errors
/// 400 when it is another kind, or a field has the wrong type; with strict
/// validation also for unknown and duplicate fields.
pub fn tree_of(
    tree: Value,
    duplicates: Vec<String>,
    expected: ExpectedKind<'_>,
    validation: FieldValidation,
) -> Result<DecodedObject, Status> {
    // These come behind unknown fields.
    tree_and(tree, Vec::new(), duplicates, expected, validation)
}

/// Objects of custom kinds state their kind and version themselves.
fn custom_type(
    tree: &Value,
    version: &str,
    kind: &str,
    wanted: &str,
    expected: &ExpectedKind<'_>,
) -> Result<(), Status> {
    if kind.is_empty() {
        let text = tree.to_vec();
        let why = format!(
            "Object 'Kind' is missing in '{}'",
            String::from_utf8_lossy(&text)
        );
        return Err(not_read(expected, &why, &text));
    }
    if version.is_empty() {
        return Err(Status::bad_request(format!(
            "the API version in the data () does not match the expected API version ({wanted})"
        )));
    }
    if version == wanted && kind != expected.kind {
        let cause = Cause {
            reason: "FieldValueInvalid".into(),
            message: format!("Invalid value: {}: must be {}", quote(kind), expected.kind),
            field: "kind".into(),
        };
        let name = meta::name(tree);
        return Err(Status::invalid(expected.group, kind, name, vec![cause]));
    }
    Ok(())
}

/// As [`tree_of`]; `findings` are what reading the text found, before unknown fields.
fn tree_with(
    tree: Value,
    findings: Vec<String>,
    expected: ExpectedKind<'_>,
    validation: FieldValidation,
) -> Result<DecodedObject, Status> {
    tree_and(tree, findings, Vec::new(), expected, validation)
}

fn tree_and(
    mut tree: Value,
    findings: Vec<String>,
    duplicates: Vec<String>,
    expected: ExpectedKind<'_>,
    validation: FieldValidation,
) -> Result<DecodedObject, Status> {
    let wanted = meta::join_api_version(expected.group, expected.version);
    if tree.is_null() {
        // As Go has it, null says nothing about any field.
        tree = Value::object();
    }
    if tree.as_object().is_none() {
        let why = not_an_object(&tree);
        return Err(unrecognized(&expected, &why, &tree.to_vec()));
    }
    for field in ["apiVersion", "kind"] {
        if let Some(other) = tree
            .get(field)
            .filter(|value| !matches!(value, Value::String(_) | Value::Null))
        {
            let why = format!(
                "json: cannot unmarshal {} into Go struct field .{field} of type string",
                other.type_name()
            );
            return Err(unrecognized(&expected, &why, &tree.to_vec()));
        }
    }
    let given_version = meta::api_version(&tree).to_owned();
    let given_kind = meta::kind(&tree).to_owned();
    let version = if given_version.is_empty() {
        wanted.as_str()
    } else {
        given_version.as_str()
    };
    let kind = if given_kind.is_empty() {
        expected.kind
    } else {
        given_kind.as_str()
    };
    let (group, short) = meta::split_api_version(version);
    if let ObjectSchema::Custom(_) = expected.form {
        custom_type(&tree, &given_version, &given_kind, &wanted, &expected)?;
    }
    let cannot = |why: &str| {
        Status::bad_request(format!(
            "{kind} in version {} cannot be handled as a {}: {why}",
            quote(short_version(version)),
            expected.kind
        ))
    };
    if (group, short, kind) != (expected.group, expected.version, expected.kind) {
        let known = control_types::registry::schema_of(group, short, kind).is_some();
        if !known || (kind == expected.kind && group == expected.group) {
            return Err(cannot(&format!(
                "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
                quote(kind),
                quote(version)
            )));
        }
        if kind != expected.kind {
            // It is decoded as what it says it is before anybody looks whether that is
            // wanted.
            if let Some(schema) = control_types::registry::schema_of(group, short, kind) {
                coerce::coerce(&mut tree.clone(), schema)
                    .map_err(|error| cannot(&error.to_string()))?;
            }
            let internal = if expected.group.is_empty() {
                "core"
            } else {
                expected.group.split('.').next().unwrap_or_default()
            };
            return Err(cannot(&format!(
                "converting ({short}.{kind}) to ({internal}.{}): unknown conversion",
                expected.kind
            )));
        }
        return Err(Status::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({wanted})"
        )));
    }
    meta::set_type(&mut tree, &wanted, expected.kind);
    // An empty list of managers says something, other than no list.
    let resets_managers = tree
        .path(&["metadata", "managedFields"])
        .and_then(Value::as_array)
        .is_some_and(Vec::is_empty);
    let empty = |path: &&&[&str]| match tree.path(path) {
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(map)) => map.is_empty(),
        _ => false,
    };
    let kept = control_kinds::kept_when_empty(expected.group, expected.kind);
    let kept: Vec<(&[&str], Value)> = kept
        .iter()
        .filter(empty)
        .map(|path| (*path, tree.path(path).cloned().unwrap_or_default()))
        .collect();
    let report = expected
        .form
        .coerce(&mut tree)
        .map_err(|error| cannot(&error.to_string()))?;
    for (path, empty) in kept {
        tree.set_path(path, empty);
    }
    if resets_managers {
        meta::metadata_mut(&mut tree).insert("managedFields", Value::Array(Vec::new()));
    }
    let mut complaints: Vec<String> = Vec::new();
    if validation != FieldValidation::Ignore {
        complaints.extend(findings);
        complaints.extend(report);
        complaints.extend(
            duplicates
                .into_iter()
                .map(|field| format!("duplicate field {}", quote(&field))),
        );
    }
    if validation == FieldValidation::Strict && !complaints.is_empty() {
        return Err(cannot(&format!(
            "strict decoding error: {}",
            complaints.join(", ")
        )));
    }
    Ok(DecodedObject {
        object: tree,
        warnings: complaints,
    })
}

fn short_version(version: &str) -> &str {
    version.rsplit('/').next().unwrap_or(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_as_they_were_sent() {
        let shown = |said: &str, sent: &[u8]| as_sent(Status::bad_request(said), sent).message;
        let said = "json: cannot unmarshal number 18446744073709551616 into Go struct field A.b of type int32";
        assert_eq!(
            shown(said, br#"{"a":"1e9","b":18446744073709551615}"#),
            "json: cannot unmarshal number 18446744073709551615 into Go struct field A.b of type int32"
        );
        assert_eq!(shown(said, b"{}"), said);
        assert_eq!(shown("other", b"1"), "other");
    }
}

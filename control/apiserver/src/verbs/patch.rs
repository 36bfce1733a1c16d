//! PATCH: an object changed by a description of the change.

use std::borrow::Cow;
use std::sync::Arc;

use control_types::schema::{Shape, Type};
use control_types::status::{Cause, Details, Status, quote};
use control_types::strategic;
use control_types::value::{Value, from_value, to_value};
use control_types::{coerce, go, meta};
use http::header::CONTENT_TYPE;

use crate::api::Served;
use crate::body::Body;
use crate::chain::Context;
use crate::decode::{self, Decoded, Expected};
use crate::managed::{self, Endpoint};
use crate::negotiate::Format;
use crate::options::{FieldValidation, WriteOptions};
use crate::reply::{self, Answer};
use crate::verbs::create;
use crate::verbs::update::Change;

/// The patches that are read.
const PATCHES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    APPLY,
];

/// A configuration that is applied.
pub const APPLY: &str = "application/apply-patch+yaml";

/// A patch, read but not applied.
pub enum Patch {
    /// RFC 6902.
    Json(json_patch::Patch),
    /// RFC 7396.
    Merge(Value),
    /// Strategic merge patch.
    Strategic(Value),
}

/// Answers a patch of the main resource.
///
/// # Errors
/// Whatever forbids the change.
pub async fn patch(context: &Context, served: &Arc<Served>, body: Body) -> Answer {
    through(context, served, "", body).await
}

/// Answers a patch of the main resource or of a subresource that holds the
/// whole object.
///
/// # Errors
/// Whatever forbids the change.
pub async fn through(
    context: &Context,
    served: &Arc<Served>,
    subresource: &str,
    body: Body,
) -> Answer {
    let format = Format::of(&context.parts.headers, context.query())?;
    let media = media(context);
    let options = WriteOptions::parse(context.query(), "PatchOptions", media == APPLY)?;
    let bytes = decode::read(body).await?;
    if media == APPLY {
        return apply(context, served, subresource, &bytes, &options, format).await;
    }
    let patch = Patch::read(&media, &bytes)?;
    let key = served.key(&context.info.namespace, &context.info.name);
    let mut said = Vec::new();
    let change = Change {
        context,
        served,
        subresource,
        dry_run: options.dry_run,
        writer: Some(managed::manager_of(context, &options)),
    };
    let stored = change
        .store(&key, |old| {
            let mut tree = old.clone();
            patch.apply(&mut tree, served)?;
            let decoded = patch.decode(tree, Expected::of(served), options.field_validation)?;
            said = decoded.warnings;
            let mut new = decoded.object;
            check_identity(context, served, &mut new)?;
            (served.kind.default)(&mut new);
            // A patch that says nothing of the version is about whatever
            // version there is.
            if meta::resource_version(&new).is_empty() {
                meta::set_resource_version(&mut new, meta::resource_version(old));
            }
            Ok(new)
        })
        .await;
    context.warnings.extend(said);
    let shaped = reply::shaped(stored?, served.kind, format);
    Ok(reply::value(200, &shaped, format))
}

/// How often an apply starts anew because the object came or went meanwhile.
const ATTEMPTS: usize = 5;

/// Applies a configuration: makes the object where there is none.
async fn apply(
    context: &Context,
    served: &Arc<Served>,
    subresource: &str,
    bytes: &[u8],
    options: &WriteOptions,
    format: Format,
) -> Answer {
    let config = read_config(bytes)?;
    let endpoint = Endpoint::of(&context.api, served, subresource);
    let force = options.force.unwrap_or_default();
    let key = served.key(&context.info.namespace, &context.info.name);
    let applied = |live: Option<&Value>| {
        let tree = endpoint.apply(live, &config, &options.field_manager, force)?;
        let mut new = decode_applied(tree, &config, Expected::of(served))?;
        check_identity(context, served, &mut new)?;
        (served.kind.default)(&mut new);
        Ok(new)
    };
    let mut last = served.not_found(&key);
    for _ in 0..ATTEMPTS {
        if subresource.is_empty() {
            context.api.catch_up().await?;
            if served.cache()?.get(&key).is_none() {
                let new = applied(None)?;
                if !meta::uid(&new).is_empty() {
                    return Err(served.conflict(
                        &key,
                        &format!(
                            "uid mismatch: the provided object specified uid {}, and no existing object was found",
                            meta::uid(&new)
                        ),
                    ));
                }
                match create::store(context, served, new, options, create::Managers::Given).await {
                    Ok(object) => {
                        let shaped = reply::shaped(object, served.kind, format);
                        return Ok(reply::value(201, &shaped, format));
                    }
                    Err(status) if status.reason == "AlreadyExists" => {
                        last = status;
                        continue;
                    }
                    Err(status) => return Err(status),
                }
            }
        }
        let change = Change {
            context,
            served,
            subresource,
            dry_run: options.dry_run,
            writer: None,
        };
        let stored = change
            .store(&key, |old| {
                let mut new = applied(Some(old))?;
                if meta::resource_version(&new).is_empty() {
                    meta::set_resource_version(&mut new, meta::resource_version(old));
                }
                Ok(new)
            })
            .await;
        match stored {
            Ok(object) => {
                let shaped = reply::shaped(object, served.kind, format);
                return Ok(reply::value(200, &shaped, format));
            }
            Err(status) if status.reason == "NotFound" && subresource.is_empty() => last = status,
            Err(status) => return Err(status),
        }
    }
    Err(last)
}

/// Reads the configuration of an apply.
///
/// # Errors
/// 400 when it is no YAML, or no object.
pub fn read_config(bytes: &[u8]) -> Result<Value, Status> {
    let config = decode::from_yaml(bytes)
        .map_err(|error| Status::bad_request(format!("error decoding YAML: {error}")))?;
    match config {
        Value::Object(_) => Ok(config),
        Value::Null => Ok(Value::object()),
        other => Err(Status::bad_request(format!(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            other.type_name()
        ))),
    }
}

/// Decodes what an apply made of an object.
///
/// # Errors
/// 500, as stock has it, when a field has a value that its type does not take.
pub fn decode_applied(
    mut tree: Value,
    config: &Value,
    expected: Expected,
) -> Result<Value, Status> {
    coerce::coerce(&mut tree, expected.schema).map_err(|error| {
        let kind = format!(
            "{}, Kind={}",
            meta::join_api_version(expected.group, expected.version),
            expected.kind
        );
        managed::unexplained(format!(
            "failed to convert new object ({}) to proper version: unable to convert unstructured object to {kind}: {}",
            control_fields::manager::identity(config),
            unstructured(&error.to_string(), true)
        ))
    })?;
    Ok(tree)
}

/// A decoding error as the decoder of untyped trees words it. `checked`: scalars
/// were compared with the type before, so that what is left is about types that
/// decode themselves.
fn unstructured(error: &str, checked: bool) -> Cow<'_, str> {
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
    if of.starts_with("[]") {
        return format!("cannot restore slice from {kind}").into();
    }
    if of.starts_with("map[") {
        return format!("cannot restore map from {kind}").into();
    }
    if kind == "float64" && of.starts_with("int") {
        return format!("cannot convert float64 to {of}").into();
    }
    if Type::all()
        .iter()
        .any(|known| known.go == of && known.shape == Shape::Struct)
    {
        return format!("cannot restore struct from: {kind}").into();
    }
    if checked {
        return format!("json: cannot unmarshal {what} into Go value of type {of}").into();
    }
    // Named scalars are texts.
    let of = if of.contains('.') { "string" } else { of };
    format!("unrecognized type: {of}").into()
}

/// The media type of a patch.
#[must_use]
pub fn media(context: &Context) -> String {
    let given = context
        .parts
        .headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    given
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_owned()
}

fn check_identity(context: &Context, served: &Served, new: &mut Value) -> Result<(), Status> {
    let (namespace, wanted) = (meta::namespace(new), context.info.namespace.as_str());
    if served.resource.namespaced {
        if namespace.is_empty() {
            meta::set_namespace(new, wanted);
        } else if namespace != wanted {
            return Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
    }
    let (name, wanted) = (meta::name(new), context.info.name.as_str());
    if name.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
        )));
    }
    if name != wanted {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({wanted})"
        )));
    }
    Ok(())
}

impl Patch {
    /// Reads a patch of a media type.
    ///
    /// # Errors
    /// 415 for other media types, 400 for what cannot be read.
    pub fn read(media: &str, bytes: &[u8]) -> Result<Self, Status> {
        let tree = |bytes| {
            Value::from_slice(bytes).map_err(|error| Status::bad_request(error.to_string()))
        };
        match media {
            "application/json-patch+json" => {
                let bad = |why: &dyn std::fmt::Display| {
                    Status::bad_request(format!("error decoding patch: {why}"))
                };
                let operations = match Value::from_slice(bytes).map_err(|error| bad(&error))? {
                    Value::Null => return Ok(Self::Json(json_patch::Patch(Vec::new()))),
                    operations @ Value::Array(_) => operations,
                    other => {
                        let what = other.type_name();
                        return Err(bad(&format_args!(
                            "json: cannot unmarshal {what} into Go value of type []handlers.jsonPatchOp"
                        )));
                    }
                };
                // What is no operation is one that cannot be done.
                from_value(&operations).map(Self::Json).map_err(|error| {
                    tracing::debug!(%error, "no JSON patch");
                    unprocessable()
                })
            }
            "application/merge-patch+json" => Ok(Self::Merge(tree(bytes)?)),
            "application/strategic-merge-patch+json" => match tree(bytes)? {
                patch @ Value::Object(_) => Ok(Self::Strategic(patch)),
                Value::Null => Ok(Self::Strategic(Value::object())),
                other => Err(Status::bad_request(format!(
                    "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                    other.type_name()
                ))),
            },
            _ => Err(unsupported()),
        }
    }

    /// Applies the patch to an object.
    ///
    /// # Errors
    /// 422 when it does not fit.
    pub fn apply(&self, object: &mut Value, served: &Served) -> Result<(), Status> {
        self.apply_typed(object, served.resource.schema)
    }

    /// Applies the patch to an object of a type.
    ///
    /// # Errors
    /// 422 when it does not fit.
    pub fn apply_typed(
        &self,
        object: &mut Value,
        schema: control_types::schema::TypeId,
    ) -> Result<(), Status> {
        match self {
            Self::Json(patch) => {
                let mut document: serde_json::Value =
                    from_value(object).map_err(Status::internal)?;
                for operation in &patch.0 {
                    let operation = lenient(operation, &document);
                    json_patch::patch(&mut document, &[operation]).map_err(|error| {
                        tracing::debug!(%error, "a JSON patch does not fit");
                        unprocessable()
                    })?;
                }
                *object = to_value(&document).map_err(Status::internal)?;
            }
            Self::Merge(patch) => {
                if patch.as_object().is_none() {
                    return Err(Status::bad_request("patch must be an object"));
                }
                merge(object, patch);
            }
            Self::Strategic(patch) => {
                strategic::apply(object, patch, schema).map_err(|error| match error {
                    strategic::Error::Format(_) => Status::bad_request(error.to_string()),
                    strategic::Error::ListOfLists => unprocessable(),
                    other => managed::unexplained(other.to_string()),
                })?;
            }
        }
        Ok(())
    }

    /// Decodes what the patch made of an object.
    ///
    /// # Errors
    /// 400 and 422. A strategic patch knows the types: what does not fit them is
    /// the patch's fault, not that of the whole object.
    pub fn decode(
        &self,
        tree: Value,
        expected: Expected,
        validation: FieldValidation,
    ) -> Result<Decoded, Status> {
        let made = match self {
            Self::Strategic(_) => Vec::new(),
            // What is wrong is told with the whole object that was made.
            Self::Json(_) | Self::Merge(_) => tree.to_vec(),
        };
        decode::tree_of(tree, Vec::new(), expected, validation).map_err(|status| match self {
            Self::Json(_) | Self::Merge(_) if status.code == 400 => {
                let why = status.message.split_once(": ").map_or("", |(_, why)| why);
                let made = String::from_utf8_lossy(&made);
                Status::invalid(
                    "",
                    "",
                    "",
                    vec![Cause {
                        reason: "FieldValueInvalid".into(),
                        message: format!("Invalid value: {}: {why}", quote(&made)),
                        field: "patch".into(),
                    }],
                )
            }
            Self::Strategic(patch) if status.code == 400 => {
                let why = match status.message.find("strict decoding error") {
                    Some(at) => status.message[at..].into(),
                    None => unstructured(&status.message, false),
                };
                let message = format!("Invalid value: {}: {why}", quote(&go::plain(patch)));
                Status::invalid(
                    "",
                    "",
                    "",
                    vec![Cause {
                        reason: "FieldValueInvalid".into(),
                        message,
                        field: "patch".into(),
                    }],
                )
            }
            _ => status,
        })
    }
}

/// An operation as it is done: members of objects may be replaced that are not
/// there.
fn lenient(
    operation: &json_patch::PatchOperation,
    document: &serde_json::Value,
) -> json_patch::PatchOperation {
    if let json_patch::PatchOperation::Replace(replace) = operation {
        let path = replace.path.as_str();
        let parent = path.rfind('/').and_then(|at| document.pointer(&path[..at]));
        if parent.is_some_and(serde_json::Value::is_object) {
            return json_patch::PatchOperation::Add(json_patch::AddOperation {
                path: replace.path.clone(),
                value: replace.value.clone(),
            });
        }
    }
    operation.clone()
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

/// What stock says of a JSON patch that does not fit, and no more.
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
        assert_eq!(
            Patch::read("application/json", b"{}")
                .err()
                .map(|status| status.code),
            Some(415)
        );
        assert_eq!(
            Patch::read("application/merge-patch+json", b"{")
                .err()
                .map(|status| status.code),
            Some(400)
        );
    }
}

//! PATCH: an object changed by a description of the change.

use std::sync::Arc;

use control_types::status::Status;
use control_types::value::Value;
use control_types::{meta, yaml};
use http::header::CONTENT_TYPE;

use crate::context::Context;
use crate::managed::{self, Endpoint};
use crate::reply::{self, Answer};
use crate::served_resource::ServedResource;
use crate::verbs::create;
use crate::verbs::patches::{Patch, unstructured};
use crate::verbs::update::Change;
use control_request::body::Body;
use control_request::negotiate::Format;
use control_request::options::{FieldValidation, WriteOptions};
use control_request::plain_error;
use control_strategy::decode::{self, ExpectedKind};

/// A configuration that is applied.
pub const APPLY: &str = "application/apply-patch+yaml";

/// Answers a patch of the main resource.
///
/// # Errors
/// Whatever forbids the change.
pub async fn patch(context: &Context, served: &Arc<ServedResource>, body: Body) -> Answer {
    through(context, served, "", body).await
}

/// Custom kinds say nothing of how lists are merged: strategic patches of them are
/// not taken.
///
/// # Errors
/// 415 for the media type of one.
pub fn no_strategic(media: &str) -> Result<(), Status> {
    const PATCHES: &[&str] = &[
        "application/json-patch+json",
        "application/merge-patch+json",
        APPLY,
    ];
    if media == "application/strategic-merge-patch+json" {
        return Err(Status::unsupported_media_type(PATCHES));
    }
    Ok(())
}

/// Answers a patch of the main resource or of a subresource that holds the
/// whole object.
///
/// # Errors
/// Whatever forbids the change.
pub async fn through(
    context: &Context,
    served: &Arc<ServedResource>,
    subresource: &str,
    body: Body,
) -> Answer {
    let format = Format::negotiate(&context.parts.headers, context.query())?;
    let media = media(context);
    let options = WriteOptions::parse(context.query(), "PatchOptions", media == APPLY)?;
    let bytes = decode::read(body).await?;
    if media == APPLY {
        return apply(context, served, subresource, &bytes, &options, format).await;
    }
    if served.resource.is_custom() {
        no_strategic(&media)?;
    }
    let patch = match Patch::read(&media, &bytes, options.field_validation) {
        Ok(patch) => patch,
        Err(status) if status.code == 415 => return Err(status),
        // A patch is looked at when there is something to be patched.
        Err(status) => {
            let key = served.key(&context.info.namespace, &context.info.name);
            context.registry.get(served, &key).await?;
            return Err(status);
        }
    };
    let key = served.key(&context.info.namespace, &context.info.name);
    let mut said = Vec::new();
    let change = Change {
        context,
        served,
        subresource,
        options: &options,
        writer: Some(managed::manager_of(context, &options)),
        view: None,
    };
    let stored = change
        .store(&key, |old| {
            let decoded = patch.apply(old, served.expected(), options.field_validation)?;
            said = decoded.warnings;
            let mut new = decoded.object;
            check_identity(context, served, &mut new)?;
            served.kind.default(&mut new);
            // A patch that says nothing of the version is about whatever
            // version there is.
            if meta::resource_version(&new).is_empty() {
                meta::set_resource_version(&mut new, meta::resource_version(old));
            }
            Ok(new)
        })
        .await;
    context.warnings.extend(said);
    let stored = stored?;
    reply::acceptable_for_one(served.resource, format)?;
    let shaped = reply::shaped(stored, &served.kind, format);
    Ok(reply::value(200, &shaped, format))
}

/// How often an apply starts anew because the object came or went meanwhile.
const ATTEMPTS: usize = 5;

/// Applies a configuration: makes the object where there is none.
async fn apply(
    context: &Context,
    served: &Arc<ServedResource>,
    subresource: &str,
    bytes: &[u8],
    options: &WriteOptions,
    format: Format,
) -> Answer {
    let config = read_config(bytes)?;
    let endpoint = Endpoint::for_resource(&context.registry, served, subresource);
    let force = options.force.unwrap_or_default();
    let key = served.key(&context.info.namespace, &context.info.name);
    let applied = |live: Option<&Value>| {
        let tree = endpoint.apply(live, &config.tree, &options.field_manager, force)?;
        config.judge(context, options.field_validation)?;
        let mut new = decode_applied(tree, &config.tree, served.expected())?;
        check_identity(context, served, &mut new)?;
        served.kind.default(&mut new);
        Ok(new)
    };
    let mut last = served.not_found(&key);
    for _ in 0..ATTEMPTS {
        if subresource.is_empty() {
            context.registry.catch_up().await?;
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
                        reply::acceptable_for_one(served.resource, format)?;
                        let shaped = reply::shaped(object, &served.kind, format);
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
            options,
            writer: None,
            view: None,
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
                reply::acceptable_for_one(served.resource, format)?;
                let shaped = reply::shaped(object, &served.kind, format);
                return Ok(reply::value(200, &shaped, format));
            }
            Err(status) if status.reason == "NotFound" && subresource.is_empty() => last = status,
            Err(status) => return Err(status),
        }
    }
    Err(last)
}

/// A configuration that is applied.
#[derive(Debug)]
pub struct Config {
    /// The configuration; of a key that came twice, the last value.
    pub tree: Value,
    /// What a strict reader would not take.
    findings: Vec<String>,
}

impl Config {
    /// Refuses or warns of what a strict reader would not take; stock does so when
    /// the configuration has been applied, and what that refuses is told first.
    ///
    /// # Errors
    /// 400 when validation is strict.
    pub fn judge(&self, context: &Context, validation: FieldValidation) -> Result<(), Status> {
        let told = self
            .findings
            .iter()
            .map(|finding| format!("error converting YAML to JSON: {finding}"));
        match validation {
            FieldValidation::Ignore => Ok(()),
            FieldValidation::Warn => {
                context.warnings.extend(told);
                Ok(())
            }
            FieldValidation::Strict => told.take(1).try_for_each(|why| {
                Err(Status::bad_request(format!(
                    "error strict decoding YAML: {why}"
                )))
            }),
        }
    }
}

/// Reads a configuration, which is YAML.
///
/// # Errors
/// 400 when it is none, or no object.
pub fn read_config(bytes: &[u8]) -> Result<Config, Status> {
    let document = yaml::read(bytes).map_err(|error| {
        Status::bad_request(format!(
            "error decoding YAML: error converting YAML to JSON: {error}"
        ))
    })?;
    let findings = document.findings;
    match document.value {
        tree @ Value::Object(_) => Ok(Config { tree, findings }),
        Value::Null => Ok(Config {
            tree: Value::object(),
            findings,
        }),
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
    expected: ExpectedKind<'_>,
) -> Result<Value, Status> {
    expected.form.coerce_applied(&mut tree).map_err(|error| {
        let kind = format!(
            "{}/{}, Kind={}",
            expected.group, expected.version, expected.kind
        );
        plain_error(format!(
            "failed to convert new object ({}) to proper version: unable to convert unstructured object to {kind}: {}",
            control_fields::manager::identity(config),
            unstructured(&error.to_string(), true)
        ))
    })?;
    Ok(tree)
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

fn check_identity(
    context: &Context,
    served: &ServedResource,
    new: &mut Value,
) -> Result<(), Status> {
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

//! One webhook asked about one request.

use std::sync::Arc;

use bytes::Bytes;
use control_types::error_chain;
use control_types::status::Status;
use control_types::value::Value;

use super::failure::WebhookFailure;
use super::hook::Hook;
use super::review::{self, WebhookAnswer};
use crate::attributes::Attributes;
use crate::dynamic::policies;
use control_proxy::webhook;
use control_strategy::ServedVersion;

/// The objects of a request in the version that a webhook is sent.
pub(super) struct VersionedObjects {
    /// The resource in that version.
    pub served: Arc<ServedVersion>,
    /// JSON of the object, or null.
    pub object: Bytes,
    /// JSON of the object as it was, or null.
    pub old: Bytes,
}

/// A tree as JSON, or null.
pub(super) fn json(object: Option<&Value>) -> Bytes {
    match object {
        Some(object) => object.to_vec().into(),
        None => Bytes::from_static(b"null"),
    }
}

/// Brings an object of the request into the version of another resource that is the
/// same. What has a kind of its own is the same for all of them.
///
/// # Errors
/// When it cannot be converted.
pub(super) async fn convert(
    attributes: &Attributes<'_>,
    object: &mut Value,
    from: &Arc<ServedVersion>,
    to: &Arc<ServedVersion>,
) -> Result<(), Status> {
    if attributes.kind.kind == attributes.served.resource.kind {
        attributes.cluster.convert(object, from, to).await?;
    }
    Ok(())
}

/// Asks a webhook; tells audit log and client what it says besides.
///
/// # Errors
/// Whatever does not let the request pass.
pub(super) async fn call_webhook(
    attributes: &Attributes<'_>,
    hook: &Hook,
    versioned: &VersionedObjects,
    mutating: bool,
) -> Result<WebhookAnswer, WebhookFailure> {
    if attributes.dry_run {
        match hook.harmless {
            Some(true) => {}
            Some(false) => {
                let shown = control_types::status::quote(&hook.name);
                let why = format!("admission webhook {shown} does not support dry run");
                return Err(WebhookFailure::Internal(Status::bad_request(why)));
            }
            None => {
                return Err(WebhookFailure::Calling {
                    why: "Webhook SideEffects is nil".to_owned(),
                    code: 400,
                });
            }
        }
    }
    let Some(version) = hook.version else {
        return Err(WebhookFailure::Calling {
            why: "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)".to_owned(),
            code: 400,
        });
    };
    let client = hook
        .client
        .as_ref()
        .map_err(|error| WebhookFailure::Calling {
            why: format!("could not get REST client: {error}"),
            code: 500,
        })?;
    let uid = uuid::Uuid::new_v4().to_string();
    let request = policies::request(attributes, &versioned.served);
    let bytes = review::encode(version, request, &uid, &versioned.object, &versioned.old);
    let resource = versioned.served.resource;
    let span = control_tracing::child(if mutating {
        "Call mutating webhook"
    } else {
        "Call validating webhook"
    });
    let span = span.map(|span| {
        span.with("configuration", hook.configuration.as_str())
            .with("webhook", hook.name.as_str())
            .with("resource", resource.plural)
            .with("subresource", attributes.subresource)
            .with("operation", attributes.operation.as_str())
            .with("UID", uid.as_str())
    });
    let asked = client.post(attributes.cluster, bytes.into(), hook.timeout);
    let answered = control_tracing::under(span.as_ref(), asked).await;
    drop(span);
    let review = answered.map_err(|error| WebhookFailure::Calling {
        why: format!("failed to call webhook: {error}"),
        code: match &error {
            webhook::Error::Refused(status) => status.code,
            _ => 503,
        },
    })?;
    if let Some(why) = review::undecodable(version, &review) {
        return Err(WebhookFailure::Calling {
            why: format!("failed to call webhook: {why}"),
            code: 503,
        });
    }
    let answer = review::read(version, &uid, mutating, &review).map_err(|error| {
        let why = error_chain(&error);
        WebhookFailure::Calling {
            why: format!("received invalid webhook response: {why}"),
            code: 503,
        }
    })?;
    let context = attributes.context;
    for (key, value) in &answer.annotations {
        context.annotate(format!("{}/{key}", hook.name), value.as_str());
    }
    context.warnings.extend(answer.warnings.iter().cloned());
    if !answer.allowed {
        let status = review::refusal(&hook.name, answer.result.as_ref());
        return Err(WebhookFailure::Rejected(status));
    }
    Ok(answer)
}

/// What the client is told when a webhook failed.
pub(super) fn failed(hook: &Hook, why: &str) -> Status {
    let shown = control_types::status::quote(&hook.name);
    Status::internal(format!("failed calling webhook {shown}: {why}"))
}

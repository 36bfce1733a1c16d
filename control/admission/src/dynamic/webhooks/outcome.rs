//! What a webhook's answer, or its failure, means for the request.

use std::time::Duration;

use control_types::status::Status;

use super::call;
use super::failure::WebhookFailure;
use super::hook::Hook;
use crate::attributes::Attributes;

/// One of the two times that webhooks are asked, as metrics and audit annotations
/// name it.
pub(super) struct Phase {
    counted: &'static str,
    annotated: &'static str,
}

/// Mutating webhooks.
pub(super) const ADMIT: Phase = Phase {
    counted: "admit",
    annotated: "mutation",
};

/// Validating webhooks.
pub(super) const VALIDATE: Phase = Phase {
    counted: "validating",
    annotated: "validating",
};

/// Counts and tells what became of asking a webhook. `None` is a failure that the
/// webhook's policy ignores.
///
/// # Errors
/// What the webhook refuses, or a failure that is not to be ignored.
pub(super) fn judge<T>(
    attributes: &Attributes<'_>,
    hook: &Hook,
    phase: &Phase,
    place: &str,
    took: Duration,
    asked: Result<T, WebhookFailure>,
) -> Result<Option<T>, Status> {
    let context = attributes.context;
    let counts = &attributes.metrics.webhooks;
    let operation = attributes.operation;
    let known = asked.as_ref().map(|_| ());
    counts.asked(hook, phase.counted, operation, took, known);
    let webhook = hook.name.as_str();
    match asked {
        Ok(answer) => Ok(Some(answer)),
        Err(WebhookFailure::Calling { why, .. }) if hook.ignores_failures => {
            tracing::warn!(webhook, why, "failed calling webhook, failing open");
            counts.failed_open(hook, phase.counted);
            let kind = phase.annotated;
            context.annotate(
                format!("failed-open.{kind}.webhook.admission.k8s.io/{place}"),
                webhook,
            );
            Ok(None)
        }
        Err(WebhookFailure::Calling { why, .. }) => {
            tracing::warn!(webhook, why, "failed calling webhook, failing closed");
            Err(call::failed(hook, &why))
        }
        Err(WebhookFailure::Rejected(status) | WebhookFailure::Internal(status)) => Err(status),
    }
}

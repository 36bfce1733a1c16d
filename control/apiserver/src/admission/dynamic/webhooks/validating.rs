//! Validating webhooks, all at the same time.

use std::sync::Arc;
use std::time::Instant;

use control_types::status::Status;
use control_types::value::Value;
use futures::future::join_all;

use super::call::{self, Failure, Versioned};
use super::hook::Hook;
use super::{conditions, hooks};
use crate::admission::dynamic::Attributes;

/// Lets all validating webhooks look at a request. Of several that refuse it the
/// first in their order is heard.
///
/// # Errors
/// What one refuses, or a failure that is not to be ignored.
pub async fn validate(
    attributes: &Attributes<'_>,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Result<(), Status> {
    let hooks = hooks(attributes.context.api.dynamic.webhooks.validating.as_ref());
    // The objects are converted and written once for all who want the same version.
    let mut versions: Vec<(Versioned, Option<Value>, Option<Value>)> = Vec::new();
    let mut relevant: Vec<(&Hook, usize)> = Vec::new();
    for hook in &hooks {
        let Some(found) = hook.constraints.find(attributes, object, old)? else {
            continue;
        };
        let known = versions
            .iter()
            .position(|(known, ..)| Arc::ptr_eq(&known.served, &found));
        let at = match known {
            Some(at) => at,
            None => {
                let (mut object, mut old) = (object.cloned(), old.cloned());
                for object in [&mut object, &mut old].into_iter().flatten() {
                    call::convert(attributes, object, attributes.served, &found).await?;
                }
                let versioned = Versioned {
                    served: Arc::clone(&found),
                    object: call::json(object.as_ref()),
                    old: call::json(old.as_ref()),
                };
                versions.push((versioned, object, old));
                versions.len() - 1
            }
        };
        let facts = (versions[at].1.as_ref(), versions[at].2.as_ref());
        if conditions::are_met(attributes, hook, &found, facts, "validate")? {
            relevant.push((hook, at));
        }
    }
    let asked = relevant
        .iter()
        .enumerate()
        .map(|(index, (hook, at))| one(attributes, hook, &versions[*at].0, index));
    join_all(asked).await.into_iter().collect()
}

async fn one(
    attributes: &Attributes<'_>,
    hook: &Hook,
    versioned: &Versioned,
    index: usize,
) -> Result<(), Status> {
    let context = attributes.context;
    let began = Instant::now();
    let asked = call::ask(attributes, hook, versioned, false).await;
    let counts = &context.api.metrics.webhooks;
    let outcome = asked.as_ref().map(|_| ());
    let took = began.elapsed();
    counts.asked(hook, "validating", attributes.operation, took, outcome);
    match asked {
        Ok(_) => Ok(()),
        Err(Failure::Calling { why, .. }) if hook.ignores_failures => {
            tracing::warn!(
                webhook = hook.name,
                why,
                "failed calling webhook, failing open"
            );
            counts.failed_open(hook, "validating");
            context.annotate(
                format!("failed-open.validating.webhook.admission.k8s.io/round_0_index_{index}"),
                hook.name.as_str(),
            );
            Ok(())
        }
        Err(Failure::Calling { why, .. }) => {
            tracing::warn!(
                webhook = hook.name,
                why,
                "failed calling webhook, failing closed"
            );
            Err(call::failed(hook, &why))
        }
        Err(Failure::Rejected(status) | Failure::Internal(status)) => Err(status),
    }
}

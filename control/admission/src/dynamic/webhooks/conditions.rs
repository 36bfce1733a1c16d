//! Match conditions: expressions that keep requests from a webhook.

use std::sync::Arc;

use control_kinds::policies::{Facts, MatchResult};
use control_types::status::Status;
use control_types::value::Value;

use control_strategy::ServedVersion;

use super::hook::Hook;
use crate::attributes::Attributes;
use crate::dynamic::policies::{self, UserAuthorizer};

/// Whether a webhook's conditions are met. `objects` are the new and the old one in
/// the version of `found`; `step` is what is counted.
///
/// # Errors
/// 403 when they cannot be evaluated, unless the webhook's failures are ignored.
pub(super) fn are_met(
    attributes: &Attributes<'_>,
    hook: &Hook,
    found: &Arc<ServedVersion>,
    objects: (Option<&Value>, Option<&Value>),
    step: &'static str,
) -> Result<bool, Status> {
    let Some(conditions) = &hook.conditions else {
        return Ok(true);
    };
    let request = policies::request(attributes, found);
    let asked = UserAuthorizer::new(attributes);
    let question = policies::question(attributes);
    let facts = Facts {
        object: objects.0,
        old: objects.1,
        request: &request,
        namespace: None,
        params: None,
        authorizer: Some((&asked, &question)),
    };
    match conditions.meet(&facts) {
        MatchResult::Yes => Ok(true),
        MatchResult::No => {
            let counts = &attributes.metrics.webhooks;
            counts.excluded(hook, step, attributes.operation);
            Ok(false)
        }
        MatchResult::Failed(why) => {
            tracing::warn!(
                webhook = hook.name,
                why,
                "failed evaluating match conditions, failing closed"
            );
            let resource = attributes.served.resource;
            Err(Status::forbidden(
                resource.group,
                resource.plural,
                attributes.name,
                &why,
            ))
        }
    }
}

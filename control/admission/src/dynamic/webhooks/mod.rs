//! Admission webhooks: users' own servers that are asked about requests
//! (`MutatingWebhookConfiguration`, `ValidatingWebhookConfiguration`).
//!
//! What is configured is read once per change. Mutating webhooks are asked one after
//! the other, by the names of their configurations; validating ones all at the same
//! time. What a webhook answers, and what its failure means, is judged by pure
//! functions in [`review`].

mod call;
mod conditions;
mod counts;
mod failure;
mod hook;
mod mutating;
mod outcome;
mod review;
mod validating;

use std::sync::Arc;

use control_types::status::Status;
use control_types::value::Value;

use control_proxy::egress::Egress;
use control_strategy::ObjectCache;

pub use counts::WebhookCounts;
use hook::{Hook, WebhookConfiguration};

use super::rounds::Rounds;
use super::source::Source;
use crate::attributes::Attributes;

/// All webhooks that are configured.
#[derive(Debug)]
pub struct Webhooks {
    mutating: Option<Source<WebhookConfiguration>>,
    validating: Option<Source<WebhookConfiguration>>,
}

impl Webhooks {
    /// `cache` finds the cache of a resource by its plural.
    /// Webhooks are reached by the ways of `egress`.
    pub(super) fn new(
        cache: impl Fn(&str) -> Option<Arc<dyn ObjectCache>>,
        egress: &Egress,
    ) -> Self {
        let source = |plural| {
            let egress = egress.clone();
            let read = move |object: &Value| WebhookConfiguration::read(object, &egress);
            Some(Source::new(cache(plural)?, read))
        };
        Self {
            mutating: source("mutatingwebhookconfigurations"),
            validating: source("validatingwebhookconfigurations"),
        }
    }

    /// Lets all mutating webhooks change the object.
    ///
    /// # Errors
    /// What one refuses, or a failure that is not to be ignored.
    pub(super) async fn mutate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&mut Value>,
        old: Option<&Value>,
        rounds: &mut Rounds,
    ) -> Result<(), Status> {
        let hooks = hooks(self.mutating.as_ref());
        mutating::run(&hooks, attributes, object, old, rounds).await
    }

    /// Lets all validating webhooks look at a request.
    ///
    /// # Errors
    /// What one refuses, or a failure that is not to be ignored.
    pub(super) async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let hooks = hooks(self.validating.as_ref());
        validating::run(&hooks, attributes, object, old).await
    }
}

/// All webhooks of a source in their order.
fn hooks(source: Option<&Source<WebhookConfiguration>>) -> Vec<Arc<Hook>> {
    let configurations = source.and_then(Source::now);
    configurations
        .iter()
        .flat_map(|configurations| configurations.iter())
        .flat_map(|configuration| configuration.hooks.iter().map(Arc::clone))
        .collect()
}

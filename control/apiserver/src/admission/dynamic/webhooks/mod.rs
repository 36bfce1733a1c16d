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
mod hook;
mod mutating;
mod outcome;
mod review;
mod validating;

use std::sync::Arc;

use control_types::value::Value;

use control_proxy::egress::Egress;
use control_watch_cache::ResourceCache;

pub use counts::Counts;
pub use hook::{Configuration, Hook};
pub(super) use mutating::{Memory, mutate};
pub(super) use validating::validate;

use super::source::Source;

/// All webhooks that are configured.
#[derive(Debug)]
pub struct Webhooks {
    mutating: Option<Source<Configuration>>,
    validating: Option<Source<Configuration>>,
}

impl Webhooks {
    /// `cache` finds the cache of a resource by its plural.
    /// Webhooks are reached by the ways of `egress`.
    pub(super) fn new(cache: impl Fn(&str) -> Option<Arc<ResourceCache>>, egress: &Egress) -> Self {
        let source = |plural| {
            let egress = egress.clone();
            let read = move |object: &Value| Configuration::read(object, &egress);
            Some(Source::new(cache(plural)?, read))
        };
        Self {
            mutating: source("mutatingwebhookconfigurations"),
            validating: source("validatingwebhookconfigurations"),
        }
    }
}

/// All webhooks of a source in their order.
fn hooks(source: Option<&Source<Configuration>>) -> Vec<Arc<Hook>> {
    let configurations = source.and_then(Source::now);
    configurations
        .iter()
        .flat_map(|configurations| configurations.iter())
        .flat_map(|configuration| configuration.hooks.iter().map(Arc::clone))
        .collect()
}

//! Dynamic admission: what users themselves have a say in, by policies and webhooks.
//!
//! Every write passes through `Dynamic::mutate`, behind all built-in steps that may change
//! the object, and through `Dynamic::validate`, behind all that only look; only quotas come
//! later (the order of `AllOrderedPlugins` of kube-apiserver 1.36). Each lets policies
//! speak first, then webhooks. Where nothing is configured this costs a few loads of
//! pointers.

pub mod bypass;
mod managers;
mod matching;
mod policies;
mod rounds;
mod source;
mod webhooks;

use std::sync::Arc;
use std::time::Instant;

use control_proxy::egress::Egress;
use control_strategy::ObjectCache;
use control_types::status::Status;
use control_types::value::Value;

use crate::attributes::Attributes;
use crate::counts::Step;
use crate::plugin::{Plugin, Plugins};
use policies::Policies;
use webhooks::Webhooks;

pub(crate) use rounds::Rounds;
pub(crate) use webhooks::WebhookCounts;

/// The group of policies and webhook configurations.
const GROUP: &str = "admissionregistration.k8s.io";

/// The policies and webhooks that users configured.
#[derive(Debug)]
pub(crate) struct Dynamic {
    plugins: Plugins,
    /// Everything that may be configured, to know quickly that nothing is.
    configured: Box<[Arc<dyn ObjectCache>]>,
    policies: Option<Policies>,
    webhooks: Webhooks,
}

impl Dynamic {
    /// `cache` finds the cache of a resource by its group and plural.
    pub(crate) fn new(
        plugins: Plugins,
        cache: impl Fn(&str, &str) -> Option<Arc<dyn ObjectCache>>,
        egress: &Egress,
    ) -> Self {
        let configured = [
            "mutatingadmissionpolicybindings",
            "mutatingwebhookconfigurations",
            "validatingadmissionpolicybindings",
            "validatingwebhookconfigurations",
        ];
        Self {
            plugins,
            configured: configured
                .into_iter()
                .filter_map(|plural| cache(GROUP, plural))
                .collect(),
            policies: Policies::new(|plural| cache(GROUP, plural)),
            webhooks: Webhooks::new(|plural| cache(GROUP, plural), egress),
        }
    }

    fn is_empty(&self) -> bool {
        self.configured.iter().all(|cache| cache.is_empty())
    }

    /// Whether anybody could have a say.
    pub(crate) fn is_looked_at(&self, attributes: &Attributes<'_>) -> bool {
        (!self.is_empty() && !is_exempt(attributes)) || self.plugins.has(Plugin::AlwaysDeny)
    }

    /// Lets policies and webhooks change a new object (`old` is none), a new state of an
    /// object, or look at what is deleted or connected to. Tells whether all mutating
    /// steps, the built-in ones before this included, are to be gone through once more.
    ///
    /// # Errors
    /// Whatever they refuse.
    pub(crate) async fn mutate(
        &self,
        attributes: &Attributes<'_>,
        mut object: Option<&mut Value>,
        old: Option<&Value>,
        rounds: &mut Rounds,
    ) -> Result<bool, Status> {
        if !self.is_looked_at(attributes) {
            return Ok(false);
        }
        if bypass::is_granted(attributes.context)? {
            bypass::log(attributes.context);
            return Ok(false);
        }
        if let Some(object) = object.as_deref()
            && !rounds.is_reinvocation()
        {
            rounds.managers = object.path(&managers::LIST).cloned();
        }
        let mutated = self.mutate_all(attributes, object.as_deref_mut(), old, rounds);
        Box::pin(mutated).await?;
        if rounds.next() {
            return Ok(true);
        }
        if let Some(object) = object {
            let warning = managers::restore(object, rounds.managers.take());
            attributes.context.warnings.extend(warning);
        }
        Ok(false)
    }

    /// Lets policies and webhooks look at what is to be done.
    ///
    /// # Errors
    /// Whatever they refuse.
    pub(crate) async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        if !self.is_looked_at(attributes) || bypass::is_granted(attributes.context)? {
            return Ok(());
        }
        Box::pin(self.validate_all(attributes, object, old)).await
    }

    /// First policies, then webhooks.
    async fn mutate_all(
        &self,
        attributes: &Attributes<'_>,
        mut object: Option<&mut Value>,
        old: Option<&Value>,
        rounds: &mut Rounds,
    ) -> Result<(), Status> {
        if self.plugins.has(Plugin::MutatingAdmissionPolicy)
            && let Some(policies) = &self.policies
        {
            let began = Instant::now();
            let outcome = policies
                .mutate(attributes, object.as_deref_mut(), old, rounds)
                .await;
            counted(
                attributes,
                Plugin::MutatingAdmissionPolicy,
                Step::Admit,
                began,
                outcome,
            )?;
        }
        if self.plugins.has(Plugin::MutatingAdmissionWebhook) {
            let began = Instant::now();
            let outcome = self.webhooks.mutate(attributes, object, old, rounds).await;
            counted(
                attributes,
                Plugin::MutatingAdmissionWebhook,
                Step::Admit,
                began,
                outcome,
            )?;
        }
        self.deny_always(attributes)
    }

    /// First policies, then webhooks.
    async fn validate_all(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        if self.plugins.has(Plugin::ValidatingAdmissionPolicy)
            && let Some(policies) = &self.policies
        {
            let began = Instant::now();
            let outcome = policies.validate(attributes, object, old).await;
            let plugin = Plugin::ValidatingAdmissionPolicy;
            counted(attributes, plugin, Step::Validate, began, outcome)?;
        }
        if self.plugins.has(Plugin::ValidatingAdmissionWebhook) {
            let began = Instant::now();
            let outcome = self.webhooks.validate(attributes, object, old).await;
            let plugin = Plugin::ValidatingAdmissionWebhook;
            counted(attributes, plugin, Step::Validate, began, outcome)?;
        }
        Ok(())
    }

    /// `AlwaysDeny`: nothing is admitted, last of all.
    fn deny_always(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        if !self.plugins.has(Plugin::AlwaysDeny) {
            return Ok(());
        }
        let resource = attributes.served.resource;
        let why = "admission control is denying all modifications";
        let name = match attributes.name {
            "" => "Unknown",
            name => name,
        };
        Err(Status::forbidden(
            resource.group,
            resource.plural,
            name,
            why,
        ))
    }
}

/// Policies and webhooks have no say about themselves: else one that forbids
/// everything could not be taken away.
fn is_exempt(attributes: &Attributes<'_>) -> bool {
    attributes.kind.group == GROUP
        && matches!(
            attributes.kind.kind,
            "ValidatingWebhookConfiguration"
                | "MutatingWebhookConfiguration"
                | "ValidatingAdmissionPolicy"
                | "ValidatingAdmissionPolicyBinding"
                | "MutatingAdmissionPolicy"
                | "MutatingAdmissionPolicyBinding"
        )
}

/// Counts how long a plugin took since `began`; returns its outcome.
fn counted(
    attributes: &Attributes<'_>,
    plugin: Plugin,
    step: Step,
    began: Instant,
    outcome: Result<(), Status>,
) -> Result<(), Status> {
    let durations = &attributes.metrics.durations;
    durations.ended(plugin, step, attributes.operation, began, outcome)
}

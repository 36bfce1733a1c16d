//! The chain: all plugins that are on, run in their order.

use std::sync::Arc;
use std::time::Instant;

use control_kinds::admission::ReservedAddresses;
use control_proxy::egress::Egress;
use control_strategy::ObjectCache;
use control_types::status::Status;
use control_types::value::Value;

use crate::admission::Change;
use crate::attributes::Attributes;
use crate::counts::Step;
use crate::dynamic::Dynamic;
use crate::operation::Operation;
use crate::plugin::Plugin;
use crate::plugins::resource_quota::ResourceQuota;
use crate::settings::Settings;
use crate::table::{Registration, registrations};

/// All plugins that are on.
#[derive(Debug)]
pub struct AdmissionChain {
    registrations: Vec<Registration>,
    dynamic: Dynamic,
    /// What quotas have to give.
    pub quota: ResourceQuota,
}

impl AdmissionChain {
    /// Creates the chain of the plugins that `settings` turn on. `cache` finds the cache of a
    /// resource by its group and plural; webhooks are reached by the ways of `egress`.
    pub fn new(
        settings: &Settings,
        reserved: ReservedAddresses,
        cache: impl Fn(&str, &str) -> Option<Arc<dyn ObjectCache>>,
        egress: &Egress,
    ) -> Self {
        let plugins = settings.plugins;
        let limits = settings.quota_limits.clone();
        Self {
            registrations: registrations(settings, reserved),
            dynamic: Dynamic::new(plugins, cache, egress),
            quota: ResourceQuota::new(plugins.has(Plugin::ResourceQuota), limits),
        }
    }

    /// Whether policies or webhooks could have a say.
    #[must_use]
    pub fn is_dynamic(&self, attributes: &Attributes<'_>) -> bool {
        self.dynamic.is_looked_at(attributes)
    }

    /// Changes a new object (`old` is none) or a new state of an object: the built-in plugins,
    /// then policies and webhooks, and all once more if those ask for it.
    ///
    /// # Errors
    /// Whatever they refuse.
    pub async fn admit(
        &self,
        attributes: &Attributes<'_>,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let mut rounds = crate::dynamic::Rounds::default();
        let began = Instant::now();
        let admitted = async {
            loop {
                for one in self.handlers(attributes) {
                    one.admission.admit(attributes, object, old).await?;
                }
                let dynamic = &self.dynamic;
                if !dynamic
                    .mutate(attributes, Some(object), old, &mut rounds)
                    .await?
                {
                    return Ok(());
                }
            }
        };
        let admitted = admitted.await;
        self.counted(attributes, Step::Admit, began, admitted)
    }

    /// Lets the built-in plugins validate a change after all mutations; adds warnings for the
    /// client to `warnings`.
    ///
    /// # Errors
    /// Whatever they refuse.
    pub async fn validate(
        &self,
        attributes: &Attributes<'_>,
        change: Change<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        for one in self.handlers(attributes) {
            one.admission.validate(attributes, change, warnings).await?;
        }
        Ok(())
    }

    /// Lets policies and webhooks look at what is to be done.
    ///
    /// # Errors
    /// Whatever they refuse.
    pub async fn validate_dynamic(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        self.dynamic.validate(attributes, object, old).await
    }

    /// Lets policies and webhooks look at a deletion in both phases.
    ///
    /// # Errors
    /// Whatever they refuse.
    pub async fn review_deletion(
        &self,
        attributes: &Attributes<'_>,
        old: &Value,
    ) -> Result<(), Status> {
        debug_assert_eq!(attributes.operation, Operation::Delete);
        let mut rounds = crate::dynamic::Rounds::default();
        let began = Instant::now();
        let mutated = async {
            let dynamic = &self.dynamic;
            while dynamic
                .mutate(attributes, None, Some(old), &mut rounds)
                .await?
            {}
            Ok(())
        };
        let mutated = mutated.await;
        self.counted(attributes, Step::Admit, began, mutated)?;
        let began = Instant::now();
        let seen = self.validate_dynamic(attributes, None, Some(old)).await;
        self.counted(attributes, Step::Validate, began, seen)
    }

    /// Counts how long a phase took since `began`; returns its outcome.
    ///
    /// # Errors
    /// The outcome's.
    pub fn counted(
        &self,
        attributes: &Attributes<'_>,
        step: Step,
        began: Instant,
        outcome: Result<(), Status>,
    ) -> Result<(), Status> {
        let durations = &attributes.metrics.durations;
        durations.ended(None, step, attributes.operation, began, outcome)
    }

    fn handlers(&self, attributes: &Attributes<'_>) -> impl Iterator<Item = &Registration> {
        let all = self.registrations.iter();
        all.filter(|one| one.handles(attributes))
    }
}

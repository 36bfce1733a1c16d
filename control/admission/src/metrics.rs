//! Counters of admission, under the names that dashboards for stock know.

use std::time::Duration;

use control_kinds::pod_security::{Level, LevelVersion, Version};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::counts::AdmissionCounts;
use crate::dynamic::WebhookCounts;

/// The minor version of Kubernetes that is served; later ones are not known.
const NEWEST_MINOR: u64 = 36;

/// What a decision about a pod's security is counted under.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PodSecurityLabels {
    decision: &'static str,
    policy_level: &'static str,
    policy_version: String,
    mode: &'static str,
    request_operation: &'static str,
    resource: &'static str,
    subresource: String,
}

impl PodSecurityLabels {
    /// Labels of a decision (`allow`, `deny`) in a mode (`enforce`, `audit`, `warn`).
    #[must_use]
    pub fn new(
        decision: &'static str,
        mode: &'static str,
        by: LevelVersion,
        request_operation: &'static str,
        resource: &'static str,
        subresource: &str,
    ) -> Self {
        let policy_version = match by.version {
            _ if by.level == Level::Privileged => "latest".to_owned(),
            Version::Minor(minor) if minor > NEWEST_MINOR => "future".to_owned(),
            version => version.to_string(),
        };
        Self {
            decision,
            policy_level: match by.level {
                Level::Privileged => "privileged",
                Level::Baseline => "baseline",
                Level::Restricted => "restricted",
            },
            policy_version,
            mode,
            request_operation,
            resource,
            subresource: subresource.to_owned(),
        }
    }
}

/// What an admission policy's word is counted under.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ValidatingPolicyLabels {
    policy: String,
    policy_binding: String,
    error_type: &'static str,
    enforcement_action: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MutatingPolicyLabels {
    policy: String,
    policy_binding: String,
    error_type: String,
}

/// Counts of admission policies.
#[derive(Debug)]
struct PolicyCounts {
    validating: Family<ValidatingPolicyLabels, Counter>,
    validating_time: Family<ValidatingPolicyLabels, Histogram>,
    mutating: Family<MutatingPolicyLabels, Counter>,
    mutating_time: Family<MutatingPolicyLabels, Histogram>,
}

impl PolicyCounts {
    fn registered(registry: &mut Registry) -> Self {
        let buckets = || Histogram::new([0.000_000_5, 0.001, 0.01, 0.1, 1.0]);
        let all = Self {
            validating: Family::default(),
            validating_time: Family::new_with_constructor(buckets),
            mutating: Family::default(),
            mutating_time: Family::new_with_constructor(buckets),
        };
        registry.register(
            "apiserver_validating_admission_policy_check",
            "What validating admission policies said, by policy, binding and what followed",
            all.validating.clone(),
        );
        registry.register(
            "apiserver_validating_admission_policy_check_duration_seconds",
            "Time that single validations took",
            all.validating_time.clone(),
        );
        registry.register(
            "apiserver_mutating_admission_policy_check",
            "What mutating admission policies did, by policy and binding",
            all.mutating.clone(),
        );
        registry.register(
            "apiserver_mutating_admission_policy_check_duration_seconds",
            "Time that single mutations took",
            all.mutating_time.clone(),
        );
        all
    }
}

/// All counters of admission.
#[derive(Debug)]
pub struct AdmissionMetrics {
    /// How long admission takes.
    pub durations: AdmissionCounts,
    pod_security: Family<PodSecurityLabels, Counter>,
    policies: PolicyCounts,
    /// Of webhooks.
    pub(crate) webhooks: WebhookCounts,
}

impl AdmissionMetrics {
    /// Returns counters that are shown by `registry`.
    #[must_use]
    pub fn registered(registry: &mut Registry) -> Self {
        let pod_security = Family::default();
        registry.register(
            "pod_security_evaluations",
            "Decisions about the security of pods, exemptions not counted",
            pod_security.clone(),
        );
        Self {
            durations: AdmissionCounts::default(),
            pod_security,
            policies: PolicyCounts::registered(registry),
            webhooks: WebhookCounts::registered(registry),
        }
    }

    /// Counts a decision about a pod's security.
    pub fn pod_security(&self, labels: &PodSecurityLabels) {
        self.pod_security.get_or_create(labels).inc();
    }

    /// Counts what a validating policy said, and what followed from it.
    pub fn validating_policy(
        &self,
        policy: &str,
        binding: &str,
        error_type: &'static str,
        enforcement_action: &'static str,
        took: Duration,
    ) {
        let labels = ValidatingPolicyLabels {
            policy: policy.to_owned(),
            policy_binding: binding.to_owned(),
            error_type,
            enforcement_action,
        };
        let time = &self.policies.validating_time;
        time.get_or_create(&labels).observe(took.as_secs_f64());
        self.policies.validating.get_or_create(&labels).inc();
    }

    /// Counts one mutation of a mutating policy.
    pub fn mutating_policy(&self, policy: &str, binding: &str, error_type: &str, took: Duration) {
        let labels = MutatingPolicyLabels {
            policy: policy.to_owned(),
            policy_binding: binding.to_owned(),
            error_type: error_type.to_owned(),
        };
        let time = &self.policies.mutating_time;
        time.get_or_create(&labels).observe(took.as_secs_f64());
        self.policies.mutating.get_or_create(&labels).inc();
    }
}

//! Counters of the server, under the names that dashboards for stock know.

use std::time::Duration;

use control_kinds::pod_security::{Level, LevelVersion, Version};
use control_metrics::{Format, Kind, Page};
use http::header::ACCEPT;
use http::{HeaderMap, Response};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::access_counts::AccessCounts;
use crate::admission::AdmissionCounts;
use crate::api::Api;
use crate::fairness;
use crate::health_counts::HealthCounts;
use crate::reply;
use crate::request_counts::RequestCounts;
use crate::storage_counts;
use control_request::body::Body;
use control_serving::process;

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
struct Policies {
    validating: Family<ValidatingPolicyLabels, Counter>,
    validating_time: Family<ValidatingPolicyLabels, Histogram>,
    mutating: Family<MutatingPolicyLabels, Counter>,
    mutating_time: Family<MutatingPolicyLabels, Histogram>,
}

impl Policies {
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

/// All counters.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    pub(crate) requests: RequestCounts,
    /// Of who asks.
    pub(crate) access: AccessCounts,
    /// Of admission.
    pub(crate) admission: AdmissionCounts,
    /// Of health checks.
    pub(crate) health: HealthCounts,
    pod_security: Family<PodSecurityLabels, Counter>,
    policies: Policies,
    /// Of admission webhooks.
    pub webhooks: crate::admission::dynamic::webhooks::Counts,
    /// Of conversion webhooks.
    pub conversions: crate::custom::conversion::Counts,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let pod_security = Family::default();
        registry.register(
            "pod_security_evaluations",
            "Decisions about the security of pods, exemptions not counted",
            pod_security.clone(),
        );
        let policies = Policies::registered(&mut registry);
        let webhooks = crate::admission::dynamic::webhooks::Counts::registered(&mut registry);
        let conversions = crate::custom::conversion::Counts::registered(&mut registry);
        Self {
            registry,
            requests: RequestCounts::default(),
            access: AccessCounts::default(),
            admission: AdmissionCounts::default(),
            health: HealthCounts::default(),
            pod_security,
            policies,
            webhooks,
            conversions,
        }
    }
}

impl Metrics {
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

    /// What is counted here, in OpenMetrics.
    pub(crate) fn open_metrics(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

impl Api {
    /// The page that Prometheus reads.
    pub(crate) async fn metrics_page(&self, headers: &HeaderMap) -> Response<Body> {
        let size = self.store().size().await;
        let form = form(headers);
        let mut page = Page::new(form);
        match self.metrics.open_metrics() {
            Ok(text) => page.open_metrics(&text),
            Err(_) => return reply::text(500, "metrics cannot be written"),
        }
        if let Some(more) = self.config.chain.more_metrics {
            let mut text = String::new();
            more(&mut text);
            page.open_metrics(&text);
        }
        let mut tasks = String::new();
        self.supervisor.write_metrics(&mut tasks);
        page.open_metrics(&tasks);
        self.metrics.requests.write(&mut page);
        let decided = self.config.access.decided();
        self.metrics.access.write(&decided, &mut page);
        self.metrics.admission.write(&mut page);
        self.config.chain.gates.write(&mut page);
        self.config.egress.write(&mut page);
        if let Some(tracer) = &self.config.chain.tracer {
            tracer.write(&mut page);
        }
        storage_counts::write(self, size, &mut page);
        self.allocators.write(&mut page);
        crate::aggregate::write(self, &mut page);
        process::write(&mut page);
        write_version(&mut page);
        fairness::write(&self.fairness, &mut page);
        if let Some(audit) = &self.config.chain.audit {
            audit.write(&mut page);
        }
        reply::bytes(200, form.media_type(), page.finish())
    }

    /// The page by which it is judged how well the server does.
    pub(crate) fn slis_page(&self, headers: &HeaderMap) -> Response<Body> {
        let form = form(headers);
        let mut page = Page::new(form);
        self.metrics.health.write(&mut page);
        process::write_start(&mut page);
        reply::bytes(200, form.media_type(), page.finish())
    }
}

/// Writes `kubernetes_build_info`, the version of Kubernetes that is spoken.
pub fn write_version(page: &mut Page) {
    let version = crate::health::version();
    let name = "kubernetes_build_info";
    page.family(name, Kind::Gauge, "A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, build date, Go version, and compiler from which Kubernetes was built, and platform on which it is running.");
    let text = |key: &str| version.str_at(&[key]).unwrap_or_default().to_owned();
    let pairs = [
        ("build_date", text("buildDate")),
        ("compiler", text("compiler")),
        ("git_commit", text("gitCommit")),
        ("git_tree_state", text("gitTreeState")),
        ("git_version", text("gitVersion")),
        ("go_version", text("goVersion")),
        ("major", text("major")),
        ("minor", text("minor")),
        ("platform", text("platform")),
    ];
    let labels: Vec<_> = pairs
        .iter()
        .map(|(key, value)| (*key, value.as_str()))
        .collect();
    page.sample(name, &labels, 1.0);
}

/// In which form Prometheus wants a page.
fn form(headers: &HeaderMap) -> Format {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    Format::accepted_by(accept.unwrap_or_default())
}

//! Counters of the server, under the names that dashboards for stock know.

use std::sync::Arc;

use control_admission::AdmissionMetrics;
use control_auth::AccessCounts;
use control_metrics::{Kind, Page};
use control_registry::custom::conversion::ConversionCounts;
use prometheus_client::registry::Registry;

use crate::health_counts::HealthCounts;
use crate::request_counts::RequestCounts;

/// All counters.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    pub(crate) requests: RequestCounts,
    /// Of who asks.
    pub(crate) access: Arc<AccessCounts>,
    /// Of health checks.
    pub(crate) health: HealthCounts,
}

/// Counters that other crates count.
#[derive(Debug)]
pub struct RegistryCounters {
    /// Of admission.
    pub admission: AdmissionMetrics,
    /// Of conversion webhooks.
    pub conversions: ConversionCounts,
}

impl Metrics {
    /// Returns counters, and those that are shown with them and counted in the registry.
    #[must_use]
    pub fn new() -> (Self, RegistryCounters) {
        let mut registry = Registry::default();
        let admission = AdmissionMetrics::registered(&mut registry);
        let conversions = ConversionCounts::registered(&mut registry);
        let metrics = Self {
            registry,
            requests: RequestCounts::default(),
            access: Arc::default(),
            health: HealthCounts::default(),
        };
        let counters = RegistryCounters {
            admission,
            conversions,
        };
        (metrics, counters)
    }

    /// What is counted here, in OpenMetrics.
    pub(crate) fn open_metrics(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
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

//! Counters of the server, under the names that dashboards for stock know.

use control_admission::AdmissionMetrics;
use control_metrics::{Format, Kind, Page};
use control_registry::custom::conversion::ConversionCounts;
use http::header::ACCEPT;
use http::{HeaderMap, Response};
use prometheus_client::registry::Registry;

use crate::access_counts::AccessCounts;
use crate::api::Api;
use crate::fairness;
use crate::health_counts::HealthCounts;
use crate::request_counts::RequestCounts;
use crate::storage_counts;
use control_registry::reply;
use control_request::body::Body;
use control_serving::process;

/// All counters.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    pub(crate) requests: RequestCounts,
    /// Of who asks.
    pub(crate) access: AccessCounts,
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
            access: AccessCounts::default(),
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
        self.metrics.requests.write(&self.counts, &mut page);
        let decided = self.config.access.decided();
        self.metrics.access.write(&decided, &mut page);
        self.admission_metrics.durations.write(&mut page);
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

//! What the agent measures of its own work, under the kubelet's names.

use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use control_metrics::{Conversion, Format, HelpEnd, Page};
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

type PodLabels = Vec<(&'static str, String)>;
type Counters = Family<PodLabels, Counter>;
type PodDurations = Family<PodLabels, Histogram, fn() -> Histogram>;

/// Seconds from which buckets of pods' starts end.
const POD_START: [f64; 25] = [
    0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 20.0, 30.0, 45.0, 60.0, 120.0, 180.0, 240.0,
    300.0, 360.0, 480.0, 600.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0,
];
const IMAGE_PULL: [f64; 14] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 60.0, 180.0, 300.0, 600.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0,
];
const STORAGE: [f64; 12] = [
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0,
];
const USUAL: [f64; 11] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

/// Counters whose names do not end as those of others.
const WITHOUT_TOTAL: [&str; 1] = ["kubelet_evictions"];

/// Metrics of pods and containers since the agent started.
#[derive(Debug)]
pub struct PodMetrics {
    registry: Registry,
    pod_start: Histogram,
    runtime_operations: Counters,
    runtime_errors: Counters,
    runtime_durations: PodDurations,
    image_pulls: PodDurations,
    evictions: Counters,
    http_requests: Counters,
    http_durations: PodDurations,
    http_inflight: Family<PodLabels, Gauge>,
    storage: PodDurations,
    started_pods: Counter,
    started_pods_errors: Counter,
    started_containers: Counters,
    started_containers_errors: Counters,
    relist: Histogram,
    relist_interval: Histogram,
    relist_seen: Gauge<f64, AtomicU64>,
    relisted: std::sync::Mutex<Option<Instant>>,
}

fn usual() -> Histogram {
    Histogram::new(USUAL)
}

impl Default for PodMetrics {
    fn default() -> Self {
        let runtime: fn() -> Histogram = || Histogram::new(exponential_buckets(0.005, 2.5, 14));
        let pulls: fn() -> Histogram = || Histogram::new(IMAGE_PULL);
        let storage: fn() -> Histogram = || Histogram::new(STORAGE);
        let mut all = Self {
            registry: Registry::default(),
            pod_start: Histogram::new(POD_START),
            runtime_operations: Family::default(),
            runtime_errors: Family::default(),
            runtime_durations: Family::new_with_constructor(runtime),
            image_pulls: Family::new_with_constructor(pulls),
            evictions: Family::default(),
            http_requests: Family::default(),
            http_durations: Family::new_with_constructor(usual),
            http_inflight: Family::default(),
            storage: Family::new_with_constructor(storage),
            started_pods: Counter::default(),
            started_pods_errors: Counter::default(),
            started_containers: Family::default(),
            started_containers_errors: Family::default(),
            relist: usual(),
            relist_interval: usual(),
            relist_seen: Gauge::default(),
            relisted: std::sync::Mutex::default(),
        };
        all.register();
        all
    }
}

impl PodMetrics {
    fn register(&mut self) {
        let kubelet = self.registry.sub_registry_with_prefix("kubelet");
        kubelet.register(
            "pod_start_duration_seconds",
            "Duration in seconds from kubelet seeing a pod for the first time to the pod starting to run",
            self.pod_start.clone(),
        );
        kubelet.register(
            "runtime_operations",
            "Cumulative number of runtime operations by operation type",
            self.runtime_operations.clone(),
        );
        kubelet.register(
            "runtime_operations_errors",
            "Cumulative number of runtime operation errors by operation type",
            self.runtime_errors.clone(),
        );
        kubelet.register(
            "runtime_operations_duration_seconds",
            "Duration in seconds of runtime operations. Broken down by operation type",
            self.runtime_durations.clone(),
        );
        kubelet.register(
            "image_pull_duration_seconds",
            "Duration in seconds to pull an image",
            self.image_pulls.clone(),
        );
        kubelet.register(
            "evictions",
            "Cumulative number of pod evictions by eviction signal",
            self.evictions.clone(),
        );
        kubelet.register(
            "http_requests",
            "Number of the http requests received since the server started",
            self.http_requests.clone(),
        );
        kubelet.register(
            "http_requests_duration_seconds",
            "Duration in seconds to serve http requests",
            self.http_durations.clone(),
        );
        kubelet.register(
            "http_inflight_requests",
            "Number of the inflight http requests",
            self.http_inflight.clone(),
        );
        kubelet.register(
            "started_pods",
            "Cumulative number of pods started",
            self.started_pods.clone(),
        );
        kubelet.register(
            "started_pods_errors",
            "Cumulative number of errors when starting pods",
            self.started_pods_errors.clone(),
        );
        kubelet.register(
            "started_containers",
            "Cumulative number of containers started",
            self.started_containers.clone(),
        );
        kubelet.register(
            "started_containers_errors",
            "Cumulative number of errors when starting containers",
            self.started_containers_errors.clone(),
        );
        kubelet.register(
            "pleg_relist_duration_seconds",
            "Duration in seconds for relisting pods in PLEG",
            self.relist.clone(),
        );
        kubelet.register(
            "pleg_relist_interval_seconds",
            "Interval in seconds between relisting in PLEG",
            self.relist_interval.clone(),
        );
        kubelet.register(
            "pleg_last_seen_seconds",
            "Timestamp in seconds when PLEG was last seen active",
            self.relist_seen.clone(),
        );
        self.registry.register(
            "storage_operation_duration_seconds",
            "Storage operation duration",
            self.storage.clone(),
        );
    }

    /// Notes how long a pod took from the agent's first sight of it until it ran.
    pub fn pod_started(&self, took: Duration) {
        self.pod_start.observe(took.as_secs_f64());
    }

    /// Notes a call of the runtime.
    pub fn runtime_operation(&self, method: &str, failed: bool, took: Duration) {
        let labels = vec![("operation_type", operation_type(method))];
        self.runtime_operations.get_or_create(&labels).inc();
        let durations = self.runtime_durations.get_or_create(&labels);
        durations.observe(took.as_secs_f64());
        if failed {
            self.runtime_errors.get_or_create(&labels).inc();
        }
    }

    /// Notes that an image of so many bytes was pulled.
    pub fn image_pulled(&self, bytes: u64, took: Duration) {
        let labels = vec![("image_size_in_bytes", image_size(bytes).to_owned())];
        let durations = self.image_pulls.get_or_create(&labels);
        durations.observe(took.as_secs_f64());
    }

    /// Notes that a pod is evicted for a signal, as `memory.available`.
    pub fn evicted(&self, signal: &str) {
        let labels = vec![("eviction_signal", signal.to_owned())];
        self.evictions.get_or_create(&labels).inc();
    }

    /// Notes that a sandbox was asked for, and whether that failed.
    pub fn pod_sandbox(&self, failed: bool) {
        self.started_pods.inc();
        if failed {
            self.started_pods_errors.inc();
        }
    }

    /// Notes the start of a container of that type, and the reason why it failed.
    pub fn container_start(&self, kind: &'static str, failed: Option<&str>) {
        let mut labels = vec![("container_type", kind.to_owned())];
        self.started_containers.get_or_create(&labels).inc();
        if let Some(code) = failed {
            labels.push(("code", code.to_owned()));
            self.started_containers_errors.get_or_create(&labels).inc();
        }
    }

    /// Notes what making a volume took.
    pub fn volume_mounted(&self, plugin: &str, failed: bool, took: Duration) {
        let status = if failed { "fail-unknown" } else { "success" };
        let labels = vec![
            ("migrated", "false".to_owned()),
            ("operation_name", "volume_mount".to_owned()),
            ("status", status.to_owned()),
            ("volume_plugin", plugin.to_owned()),
        ];
        let durations = self.storage.get_or_create(&labels);
        durations.observe(took.as_secs_f64());
    }

    /// Notes a look at all pods of the runtime.
    pub fn relisted(&self, took: Duration) {
        self.relist.observe(took.as_secs_f64());
        let mut last = self
            .relisted
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(last) = last.replace(Instant::now()) {
            self.relist_interval.observe(last.elapsed().as_secs_f64());
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        self.relist_seen.set(now.unwrap_or_default().as_secs_f64());
    }

    /// Counts a request of the serving API, until what is returned is dropped.
    pub fn http_request(&self, method: &str, path: &str) -> HttpRequest<'_> {
        let (path, long) = path_bucket(path);
        // whatever a client calls its method
        let known = ["GET", "POST", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"];
        let method = known.iter().find(|known| **known == method);
        let labels = vec![
            ("long_running", long.to_string()),
            ("method", (*method.unwrap_or(&"other")).to_owned()),
            ("path", path.to_owned()),
            ("server_type", "readwrite".to_owned()),
        ];
        self.http_requests.get_or_create(&labels).inc();
        self.http_inflight.get_or_create(&labels).inc();
        HttpRequest {
            metrics: self,
            labels,
            begun: Instant::now(),
        }
    }

    /// All of it, as Prometheus reads it.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        // a String takes everything
        let _ = encode_registry(&mut text, &self.registry);
        prometheus_text(&text)
    }
}

/// A request that is being served.
#[derive(Debug)]
pub struct HttpRequest<'a> {
    metrics: &'a PodMetrics,
    labels: PodLabels,
    begun: Instant,
}

impl Drop for HttpRequest<'_> {
    fn drop(&mut self) {
        let metrics = self.metrics;
        metrics.http_inflight.get_or_create(&self.labels).dec();
        let durations = metrics.http_durations.get_or_create(&self.labels);
        durations.observe(self.begun.elapsed().as_secs_f64());
    }
}

/// A method of the CRI as the kubelet's metrics name it: `RunPodSandbox` is
/// `run_podsandbox`.
fn operation_type(method: &str) -> String {
    if method == "UpdateContainerResources" {
        return "update_container".to_owned();
    }
    let mut name = String::with_capacity(method.len() + 4);
    for (index, letter) in method.char_indices() {
        if letter.is_ascii_uppercase() && index > 0 {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name.replace("pod_sandbox", "podsandbox")
}

fn image_size(bytes: u64) -> &'static str {
    const MB: u64 = 1 << 20;
    const GB: u64 = 1 << 30;
    match bytes {
        0 => "N/A",
        n if n <= 10 * MB => "0-10MB",
        n if n <= 100 * MB => "10MB-100MB",
        n if n <= 500 * MB => "100MB-500MB",
        n if n <= GB => "500MB-1GB",
        n if n <= 5 * GB => "1GB-5GB",
        n if n <= 10 * GB => "5GB-10GB",
        n if n <= 20 * GB => "10GB-20GB",
        n if n <= 30 * GB => "20GB-30GB",
        n if n <= 40 * GB => "30GB-40GB",
        n if n <= 60 * GB => "40GB-60GB",
        n if n <= 100 * GB => "60GB-100GB",
        _ => "GT100GB",
    }
}

/// The bucket of a path, and whether its requests last: what clients ask for otherwise
/// makes no labels.
fn path_bucket(path: &str) -> (&str, bool) {
    const KNOWN: [&str; 12] = [
        "attach",
        "checkpoint",
        "configz",
        "containerLogs",
        "exec",
        "healthz",
        "logs",
        "pods",
        "portForward",
        "run",
        "runningpods",
        "stats",
    ];
    let path = path.trim_matches('/');
    if [
        "metrics",
        "metrics/cadvisor",
        "metrics/probes",
        "metrics/resource",
    ]
    .contains(&path)
    {
        return (path, false);
    }
    let first = path.split('/').next().unwrap_or_default();
    let long = matches!(first, "attach" | "exec" | "portForward");
    if KNOWN.contains(&first) {
        (first, long)
    } else {
        ("other", false)
    }
}

/// Converts families in OpenMetrics to the text format, with the names that the kubelet
/// has. Their help texts keep the full stop that OpenMetrics wants.
#[must_use]
pub fn prometheus_text(text: &str) -> String {
    let mut page = Page::new(Format::Text);
    let conversion = Conversion {
        help: HelpEnd::Keep,
        bare_counters: &WITHOUT_TOTAL,
    };
    page.open_metrics_as(text, conversion);
    page.into_families()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_types_and_labels_are_the_kubelets() {
        let metrics = PodMetrics::default();
        metrics.pod_started(Duration::from_secs(2));
        metrics.runtime_operation("RunPodSandbox", true, Duration::from_millis(20));
        metrics.image_pulled(20 << 20, Duration::from_secs(2));
        metrics.evicted("memory.available");
        metrics.pod_sandbox(true);
        metrics.container_start("init_container", Some("ErrImagePull"));
        metrics.volume_mounted("kubernetes.io/secret", false, Duration::from_millis(1));
        metrics.relisted(Duration::from_millis(1));
        metrics.relisted(Duration::from_millis(1));
        drop(metrics.http_request("GET", "/metrics/cadvisor"));
        drop(metrics.http_request("SPY", "/no/such/path"));
        let text = metrics.text();
        let types = [
            ("kubelet_pod_start_duration_seconds", "histogram"),
            ("kubelet_runtime_operations_total", "counter"),
            ("kubelet_runtime_operations_errors_total", "counter"),
            ("kubelet_runtime_operations_duration_seconds", "histogram"),
            ("kubelet_image_pull_duration_seconds", "histogram"),
            ("kubelet_evictions", "counter"),
            ("kubelet_http_requests_total", "counter"),
            ("kubelet_http_requests_duration_seconds", "histogram"),
            ("kubelet_http_inflight_requests", "gauge"),
            ("kubelet_started_pods_total", "counter"),
            ("kubelet_started_pods_errors_total", "counter"),
            ("kubelet_started_containers_total", "counter"),
            ("kubelet_started_containers_errors_total", "counter"),
            ("kubelet_pleg_relist_duration_seconds", "histogram"),
            ("kubelet_pleg_relist_interval_seconds", "histogram"),
            ("kubelet_pleg_last_seen_seconds", "gauge"),
            ("storage_operation_duration_seconds", "histogram"),
        ];
        for (name, kind) in types {
            assert!(
                text.contains(&format!("# TYPE {name} {kind}\n")),
                "{name} in:\n{text}"
            );
            assert!(
                text.contains(&format!("# HELP {name} ")),
                "{name} in:\n{text}"
            );
        }
        for sample in [
            "kubelet_runtime_operations_total{operation_type=\"run_podsandbox\"} 1\n",
            "kubelet_runtime_operations_errors_total{operation_type=\"run_podsandbox\"} 1\n",
            "kubelet_evictions{eviction_signal=\"memory.available\"} 1\n",
            "kubelet_image_pull_duration_seconds_count{image_size_in_bytes=\"10MB-100MB\"} 1\n",
            "kubelet_http_requests_total{long_running=\"false\",method=\"GET\",path=\"metrics/cadvisor\",server_type=\"readwrite\"} 1\n",
            "kubelet_http_requests_total{long_running=\"false\",method=\"other\",path=\"other\",server_type=\"readwrite\"} 1\n",
            "kubelet_started_containers_errors_total{container_type=\"init_container\",code=\"ErrImagePull\"} 1\n",
            "storage_operation_duration_seconds_count{migrated=\"false\",operation_name=\"volume_mount\",status=\"success\",volume_plugin=\"kubernetes.io/secret\"} 1\n",
            "kubelet_pleg_relist_interval_seconds_count 1\n",
        ] {
            assert!(text.contains(sample), "{sample} in:\n{text}");
        }
        assert!(!text.contains("# EOF"));
    }

    #[test]
    fn the_text_format_is_written_byte_by_byte() {
        let open = r#"# HELP kubelet_evictions Evictions by signal.
# TYPE kubelet_evictions counter
kubelet_evictions_total{eviction_signal="memory.available"} 1
# HELP kubelet_started_pods Pods started.
# TYPE kubelet_started_pods counter
kubelet_started_pods_total 2
# TYPE bare gauge
bare 1.5
# HELP h How long.
# TYPE h histogram
h_sum 0.5
h_count 1
h_bucket{le="1.0"} 1
"#;
        assert_eq!(
            prometheus_text(open),
            r#"# HELP kubelet_evictions Evictions by signal.
# TYPE kubelet_evictions counter
kubelet_evictions{eviction_signal="memory.available"} 1
# HELP kubelet_started_pods_total Pods started.
# TYPE kubelet_started_pods_total counter
kubelet_started_pods_total 2
# TYPE bare gauge
bare 1.5
# HELP h How long.
# TYPE h histogram
h_sum 0.5
h_count 1
h_bucket{le="1.0"} 1
"#
        );
    }

    #[test]
    fn operations_are_named_as_by_the_kubelet() {
        for (method, name) in [
            ("Version", "version"),
            ("ListPodSandbox", "list_podsandbox"),
            ("PodSandboxStatus", "podsandbox_status"),
            ("ContainerStatus", "container_status"),
            ("ExecSync", "exec_sync"),
            ("UpdateContainerResources", "update_container"),
            ("ImageFsInfo", "image_fs_info"),
        ] {
            assert_eq!(operation_type(method), name);
        }
    }
}

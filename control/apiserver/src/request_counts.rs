//! What is counted of requests, under kube-apiserver's names. Labels are texts of
//! the tables and of definitions only, so that nobody can fill the memory with
//! paths of their own making, and counting a request allocates nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use control_metrics::{Histogram, Kind, Page};
use control_registry::counts::{CountTable, StorageCounts, entry, sorted};
use control_types::registry::Resource;
use http::header::CONTENT_TYPE;
use http::request::Parts;

use control_registry::Storage;
use control_request::RequestInfo;

const SECONDS: &[f64] = &[
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0,
    10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
];
const SIZES: &[f64] = &[1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];
const BODIES: &[f64] = &bodies();
const ACCESS: &[f64] = &[
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096,
    8.192, 16.384,
];

/// From 50 KB to 3.05 MB in steps of 100 KB.
const fn bodies() -> [f64; 31] {
    let mut out = [50_000.0; 31];
    let mut at = 1;
    while at < out.len() {
        out[at] = out[at - 1] + 100_000.0;
        at += 1;
    }
    out
}

/// Paths that are no resources and are counted by their names.
const PATHS: &[&str] = &[
    "/healthz",
    "/livez",
    "/readyz",
    "/metrics",
    "/metrics/slis",
    "/statusz",
    "/flagz",
    "/version",
    "/api",
    "/apis",
    "/openapi/v2",
    "/openapi/v3",
];

/// What a request is counted under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    verb: &'static str,
    group: &'static str,
    version: &'static str,
    resource: &'static str,
    subresource: &'static str,
    scope: &'static str,
    dry_run: &'static str,
}

/// All counts.
#[derive(Debug, Default)]
pub(crate) struct RequestCounts {
    requests: CountTable<Key, Counts>,
    /// Bytes of what clients send, by group, resource and verb.
    bodies: CountTable<[&'static str; 3], Mutex<Histogram>>,
    reading: Arc<AtomicI64>,
    writing: Arc<AtomicI64>,
    handshakes: AtomicU64,
    /// Old APIs that somebody asked for: group, version, resource, subresource.
    deprecated: RwLock<BTreeSet<[&'static str; 4]>>,
    /// Success, failure, error.
    authentication: [Durations; 3],
    /// Allowed and denied.
    authorization: [Durations; 2],
}

/// Counts of one [`Key`].
#[derive(Debug)]
pub(crate) struct Counts {
    open: AtomicI64,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    codes: Vec<(u16, u64)>,
    /// Of these, those that the server ended to protect itself.
    ended: Vec<(u16, u64)>,
    took: Histogram,
    worked: Histogram,
    sizes: Histogram,
}

#[derive(Debug)]
struct Durations(Mutex<Histogram>);

/// Counts a request as open until dropped.
#[derive(Debug)]
pub(crate) struct RunningRequest {
    all: Arc<AtomicI64>,
    long: Option<Arc<Counts>>,
}

/// What became of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestOutcome {
    pub code: u16,
    /// How long it took in all, and how long of that it waited for a seat.
    pub took: Duration,
    pub waited: Duration,
    /// How large the answer is, if that is known.
    pub size: Option<u64>,
    /// Whether the server refused or ended it to protect itself.
    pub terminated: bool,
}

impl Default for Durations {
    fn default() -> Self {
        Self(Mutex::new(Histogram::new(ACCESS)))
    }
}

impl Durations {
    fn observe(&self, took: Duration) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.observe(took.as_secs_f64());
    }
}

// === impl Key ===

impl Key {
    /// What a request is counted under.
    pub(crate) fn new(storage: &Storage, info: &RequestInfo, parts: &Parts) -> Self {
        let mut key = Self {
            verb: verb(info, parts),
            group: "",
            version: "",
            resource: "",
            subresource: "",
            scope: "",
            dry_run: "",
        };
        if !info.is_resource {
            let known = PATHS.iter().find(|path| **path == info.path);
            key.subresource = known.copied().unwrap_or_default();
            return key;
        }
        let Some(served) = storage.served(&info.group, &info.version, &info.resource) else {
            return key;
        };
        let resource = served.resource;
        key.group = resource.group;
        key.version = resource.version;
        key.resource = resource.plural;
        let subresource = resource.subresource(&info.subresource);
        key.subresource = subresource.map_or("", |known| known.name);
        key.scope = info.scope();
        if !info.is_read_only()
            && parts
                .uri
                .query()
                .is_some_and(|query| query.contains("dryRun=All"))
        {
            key.dry_run = "All";
        }
        key
    }

    /// For logs.
    pub(crate) fn verb(&self) -> &'static str {
        self.verb
    }

    /// For logs.
    pub(crate) fn resource(&self) -> &'static str {
        self.resource
    }

    fn labels(&self) -> [(&'static str, &'static str); 7] {
        [
            (
                "component",
                if self.resource.is_empty() {
                    ""
                } else {
                    "apiserver"
                },
            ),
            ("group", self.group),
            ("resource", self.resource),
            ("scope", self.scope),
            ("subresource", self.subresource),
            ("verb", self.verb),
            ("version", self.version),
        ]
    }
}

fn verb(info: &RequestInfo, parts: &Parts) -> &'static str {
    if matches!(
        info.subresource.as_str(),
        "exec" | "attach" | "portforward" | "proxy"
    ) {
        return "CONNECT";
    }
    match info.verb {
        "get" | "head" => "GET",
        "list" => "LIST",
        "watch" => "WATCH",
        "create" | "post" => "POST",
        "update" | "put" => "PUT",
        "patch" => {
            let media = parts.headers.get(CONTENT_TYPE);
            let media = media
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default();
            if media.starts_with("application/apply-patch") {
                "APPLY"
            } else {
                "PATCH"
            }
        }
        "delete" => "DELETE",
        "deletecollection" => "DELETECOLLECTION",
        "options" => "OPTIONS",
        _ => "OTHER",
    }
}

// === impl RequestCounts ===

impl RequestCounts {
    /// A request begins.
    pub(crate) fn begin(&self, key: Key, info: &RequestInfo) -> RunningRequest {
        let long = info
            .is_long_running()
            .then(|| entry(&self.requests, key, Counts::new));
        let all = match (&long, info.is_read_only()) {
            (Some(long), _) => {
                long.open.fetch_add(1, Ordering::Relaxed);
                return RunningRequest {
                    all: Arc::default(),
                    long: Some(Arc::clone(long)),
                };
            }
            (None, true) => &self.reading,
            (None, false) => &self.writing,
        };
        all.fetch_add(1, Ordering::Relaxed);
        RunningRequest {
            all: Arc::clone(all),
            long: None,
        }
    }

    /// A request was answered.
    #[expect(clippy::cast_precision_loss, reason = "for metrics")]
    pub(crate) fn done(&self, key: Key, done: RequestOutcome) {
        let counts = entry(&self.requests, key, Counts::new);
        let mut inner = counts.inner.lock().unwrap_or_else(PoisonError::into_inner);
        match inner.codes.iter_mut().find(|(code, _)| *code == done.code) {
            Some((_, count)) => *count += 1,
            None => inner.codes.push((done.code, 1)),
        }
        if matches!(key.verb, "WATCH" | "CONNECT") {
            return;
        }
        if done.terminated {
            match inner.ended.iter_mut().find(|(code, _)| *code == done.code) {
                Some((_, count)) => *count += 1,
                None => inner.ended.push((done.code, 1)),
            }
        }
        inner.took.observe(done.took.as_secs_f64());
        let worked = done.took.saturating_sub(done.waited);
        inner.worked.observe(worked.as_secs_f64());
        if let Some(size) = done.size {
            inner.sizes.observe(size as f64);
        }
    }

    /// A client was asked who it is. Who shows nothing and is let in by nobody fails;
    /// who shows something that is wrong makes an error.
    pub(crate) fn authenticated(&self, success: bool, shown: bool, took: Duration) {
        let at = match (success, shown) {
            (true, _) => 0,
            (false, false) => 1,
            (false, true) => 2,
        };
        self.authentication[at].observe(took);
    }

    /// It was decided whether something may be done.
    pub(crate) fn authorized(&self, allowed: bool, took: Duration) {
        self.authorization[usize::from(!allowed)].observe(took);
    }

    /// A client sends so many bytes.
    #[expect(clippy::cast_precision_loss, reason = "for metrics")]
    pub(crate) fn sends(&self, key: Key, verb: &'static str, bytes: u64) {
        let histogram = entry(&self.bodies, [key.group, key.resource, verb], || {
            Mutex::new(Histogram::new(BODIES))
        });
        let mut histogram = histogram.lock().unwrap_or_else(PoisonError::into_inner);
        histogram.observe(bytes as f64);
    }

    /// Somebody asked for an old API.
    pub(crate) fn deprecated(&self, resource: &Resource, subresource: &'static str) {
        let key = [
            resource.group,
            resource.version,
            resource.plural,
            subresource,
        ];
        let known = self.deprecated.read();
        let known = known.unwrap_or_else(PoisonError::into_inner);
        if known.contains(&key) {
            return;
        }
        drop(known);
        let all = self.deprecated.write();
        all.unwrap_or_else(PoisonError::into_inner).insert(key);
    }

    /// A TLS handshake failed.
    pub(crate) fn handshake_failed(&self) {
        self.handshakes.fetch_add(1, Ordering::Relaxed);
    }

    /// Writes all of them, with those of storage among them. Where the dry run value is no label,
    /// requests and their dry runs are one series.
    pub(crate) fn write(&self, storage: &StorageCounts, page: &mut Page) {
        let requests = sorted(&self.requests, Key::labels);
        totals(&requests, page);
        for (name, help, of) in [
            (
                "apiserver_request_duration_seconds",
                "Response latency distribution in seconds for each verb, dry run value, group, version, resource, subresource, scope and component.",
                (|inner: &Inner| inner.took.clone()) as fn(&Inner) -> Histogram,
            ),
            (
                "apiserver_request_sli_duration_seconds",
                "Response latency distribution (not counting webhook duration and priority & fairness queue wait times) in seconds for each verb, group, version, resource, subresource, scope and component.",
                |inner| inner.worked.clone(),
            ),
            (
                "apiserver_response_sizes",
                "Response size distribution in bytes for each group, version, verb, resource, subresource, scope and component.",
                |inner| inner.sizes.clone(),
            ),
        ] {
            page.family(name, Kind::Histogram, help);
            let has_dry_run = name == "apiserver_request_duration_seconds";
            let is_one_series = |(a, _): &(Key, _), (b, _): &(Key, _)| {
                a.labels() == b.labels() && (!has_dry_run || a.dry_run == b.dry_run)
            };
            for series in requests.chunk_by(is_one_series) {
                let histograms = series.iter().map(|(_, counts)| {
                    of(&counts.inner.lock().unwrap_or_else(PoisonError::into_inner))
                });
                let histogram = histograms.reduce(|mut all, one| {
                    all.merge(&one);
                    all
                });
                let (Some((key, _)), Some(histogram)) = (series.first(), histogram) else {
                    continue;
                };
                if histogram.count() == 0 {
                    continue;
                }
                let labels = key.labels();
                if has_dry_run {
                    let [component, rest @ ..] = labels;
                    let mut all = vec![component, ("dry_run", key.dry_run)];
                    all.extend(rest);
                    page.histogram(name, &all, &histogram);
                } else {
                    page.histogram(name, &labels, &histogram);
                }
            }
        }
        terminations(&requests, page);
        self.write_bodies(page);
        self.write_gauges(&requests, page);
        storage.write_watches(page);
        storage.write_store(page);
        self.write_access(page);
        self.write_deprecated(page);
        storage.write_beginnings(page);
    }

    fn write_deprecated(&self, page: &mut Page) {
        let name = "apiserver_requested_deprecated_apis";
        page.family(name, Kind::Gauge, "Gauge of deprecated APIs that have been requested, broken out by API group, version, resource, subresource, and removed_release.");
        let all = self.deprecated.read();
        let all = all.unwrap_or_else(PoisonError::into_inner);
        for [group, version, resource, subresource] in all.iter() {
            let labels = [
                ("group", *group),
                // None of them has an end that is known.
                ("removed_release", ""),
                ("resource", resource),
                ("subresource", subresource),
                ("version", version),
            ];
            page.sample(name, &labels, 1.0);
        }
    }

    fn write_bodies(&self, page: &mut Page) {
        let name = "apiserver_request_body_size_bytes";
        page.family(
            name,
            Kind::Histogram,
            "Apiserver request body size in bytes broken out by resource and verb.",
        );
        for ([group, resource, verb], sizes) in &sorted(&self.bodies, |key| *key) {
            let sizes = sizes.lock().unwrap_or_else(PoisonError::into_inner);
            let labels = [("group", *group), ("resource", resource), ("verb", verb)];
            page.histogram(name, &labels, &sizes);
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "for metrics")]
    fn write_gauges(&self, requests: &[(Key, Arc<Counts>)], page: &mut Page) {
        let name = "apiserver_current_inflight_requests";
        page.family(name, Kind::Gauge, "Maximal number of currently used inflight request limit of this apiserver per request kind in last second.");
        for (kind, count) in [("mutating", &self.writing), ("readOnly", &self.reading)] {
            let count = count.load(Ordering::Relaxed);
            page.sample(name, &[("request_kind", kind)], count as f64);
        }
        let name = "apiserver_longrunning_requests";
        page.family(name, Kind::Gauge, "Gauge of all active long-running apiserver requests broken out by verb, group, version, resource, scope and component. Not all requests are tracked this way.");
        for (key, counts) in requests {
            let open = counts.open.load(Ordering::Relaxed);
            if open > 0 {
                page.sample(name, &key.labels(), open as f64);
            }
        }
        let name = "apiserver_tls_handshake_errors";
        page.family(
            name,
            Kind::Counter,
            "Number of requests dropped with 'TLS handshake error from' error",
        );
        let failed = self.handshakes.load(Ordering::Relaxed);
        page.sample("apiserver_tls_handshake_errors_total", &[], failed as f64);
    }

    #[expect(clippy::cast_precision_loss, reason = "for metrics")]
    fn write_access(&self, page: &mut Page) {
        let tables: [(&str, &[Durations], &[&str]); 2] = [
            (
                "authentication",
                &self.authentication,
                &["success", "failure", "error"],
            ),
            ("authorization", &self.authorization, &["allowed", "denied"]),
        ];
        for (name, timed, results) in tables {
            let attempts = if name == "authentication" {
                let attempts = "authentication_attempts";
                page.bare_counter(attempts, "Counter of authenticated attempts.");
                attempts
            } else {
                let help = "Counter of authorization attempts broken down by result. It can be either 'allowed', 'denied', 'no-opinion' or 'error'.";
                page.family("authorization_attempts", Kind::Counter, help);
                "authorization_attempts_total"
            };
            for (result, timed) in results.iter().zip(timed) {
                let count = timed
                    .0
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .count();
                page.sample(attempts, &[("result", result)], count as f64);
            }
            let duration = format!("{name}_duration_seconds");
            let first = if name == "authentication" {
                "Authentication"
            } else {
                "Authorization"
            };
            page.family(
                &duration,
                Kind::Histogram,
                &format!("{first} duration in seconds broken out by result."),
            );
            for (result, timed) in results.iter().zip(timed) {
                let timed = timed.0.lock().unwrap_or_else(PoisonError::into_inner);
                page.histogram(&duration, &[("result", result)], &timed);
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "for metrics")]
fn terminations(requests: &[(Key, Arc<Counts>)], page: &mut Page) {
    let name = "apiserver_request_terminations";
    page.family(
        name,
        Kind::Counter,
        "Number of requests which apiserver terminated in self-defense.",
    );
    for series in requests.chunk_by(|(a, _), (b, _)| a.labels() == b.labels()) {
        let mut ended: BTreeMap<u16, u64> = BTreeMap::new();
        for (_, counts) in series {
            let inner = counts.inner.lock().unwrap_or_else(PoisonError::into_inner);
            for (code, count) in &inner.ended {
                *ended.entry(*code).or_default() += count;
            }
        }
        let Some((key, _)) = series.first() else {
            continue;
        };
        for (code, count) in ended {
            let code = code.to_string();
            let mut labels = vec![("code", code.as_str())];
            labels.extend(key.labels());
            page.sample(
                "apiserver_request_terminations_total",
                &labels,
                count as f64,
            );
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "for metrics")]
fn totals(requests: &[(Key, Arc<Counts>)], page: &mut Page) {
    let name = "apiserver_request";
    page.family(name, Kind::Counter, "Counter of apiserver requests broken out for each verb, dry run value, group, version, resource, scope, component, and HTTP response code.");
    for (key, counts) in requests {
        let codes = {
            let inner = counts.inner.lock().unwrap_or_else(PoisonError::into_inner);
            inner.codes.clone()
        };
        for (code, count) in codes {
            let code = code.to_string();
            let mut labels = vec![("code", code.as_str()), ("dry_run", key.dry_run)];
            labels.extend(key.labels());
            page.sample("apiserver_request_total", &labels, count as f64);
        }
    }
}

// === impl Counts ===

impl Counts {
    fn new() -> Self {
        Self {
            open: AtomicI64::new(0),
            inner: Mutex::new(Inner {
                codes: Vec::with_capacity(2),
                ended: Vec::new(),
                took: Histogram::new(SECONDS),
                worked: Histogram::new(SECONDS),
                sizes: Histogram::new(SIZES),
            }),
        }
    }
}

// === impl RunningRequest ===

impl Drop for RunningRequest {
    fn drop(&mut self) {
        match &self.long {
            Some(counts) => counts.open.fetch_sub(1, Ordering::Relaxed),
            None => self.all.fetch_sub(1, Ordering::Relaxed),
        };
    }
}

#[cfg(test)]
mod tests {
    use control_metrics::Format;

    use super::*;

    const KEY: Key = Key {
        verb: "GET",
        group: "apps",
        version: "v1",
        resource: "deployments",
        subresource: "",
        scope: "resource",
        dry_run: "",
    };

    fn page(counts: &RequestCounts) -> String {
        let mut page = Page::new(Format::Text);
        counts.write(&StorageCounts::default(), &mut page);
        page.finish()
    }

    #[test]
    fn requests_are_counted_with_kube_apiservers_labels_and_buckets() {
        let counts = RequestCounts::default();
        for code in [200, 200, 404] {
            counts.done(
                KEY,
                RequestOutcome {
                    code,
                    took: Duration::from_millis(30),
                    waited: Duration::from_millis(28),
                    size: Some(1234),
                    terminated: code == 404,
                },
            );
        }
        let page = page(&counts);
        for line in [
            "apiserver_request_total{code=\"200\",dry_run=\"\",component=\"apiserver\",group=\"apps\",resource=\"deployments\",scope=\"resource\",subresource=\"\",verb=\"GET\",version=\"v1\"} 2",
            "apiserver_request_duration_seconds_bucket{component=\"apiserver\",dry_run=\"\",group=\"apps\",resource=\"deployments\",scope=\"resource\",subresource=\"\",verb=\"GET\",version=\"v1\",le=\"0.05\"} 3",
            "apiserver_request_sli_duration_seconds_bucket{component=\"apiserver\",group=\"apps\",resource=\"deployments\",scope=\"resource\",subresource=\"\",verb=\"GET\",version=\"v1\",le=\"0.005\"} 3",
            "apiserver_request_terminations_total{code=\"404\",component=\"apiserver\",group=\"apps\",resource=\"deployments\",scope=\"resource\",subresource=\"\",verb=\"GET\",version=\"v1\"} 1",
            "apiserver_response_sizes_sum{component=\"apiserver\",group=\"apps\",resource=\"deployments\",scope=\"resource\",subresource=\"\",verb=\"GET\",version=\"v1\"} 3702",
        ] {
            assert!(page.contains(line), "no {line} in\n{page}");
        }
    }

    #[test]
    fn a_dry_run_is_a_series_of_its_own_only_where_it_is_a_label() {
        let counts = RequestCounts::default();
        let dry_run = Key {
            dry_run: "All",
            ..KEY
        };
        for key in [KEY, dry_run] {
            counts.done(
                key,
                RequestOutcome {
                    code: 429,
                    took: Duration::from_millis(30),
                    waited: Duration::ZERO,
                    size: Some(1000),
                    terminated: true,
                },
            );
        }
        let page = page(&counts);
        let labels = "component=\"apiserver\",group=\"apps\",resource=\"deployments\",scope=\"resource\",subresource=\"\",verb=\"GET\",version=\"v1\"}";
        for line in [
            format!("apiserver_request_sli_duration_seconds_count{{{labels} 2"),
            format!("apiserver_response_sizes_sum{{{labels} 2000"),
            format!("apiserver_request_terminations_total{{code=\"429\",{labels} 2"),
        ] {
            assert!(page.contains(&line), "no {line} in\n{page}");
        }
        let samples = page.lines().filter(|line| !line.starts_with('#'));
        let mut series: Vec<&str> = samples
            .filter_map(|line| Some(line.rsplit_once(' ')?.0))
            .collect();
        let all = series.len();
        series.sort_unstable();
        series.dedup();
        assert_eq!(series.len(), all, "a series stands twice in\n{page}");
    }

    #[test]
    fn what_clients_send_and_how_they_are_known_is_counted() {
        let counts = RequestCounts::default();
        counts.sends(KEY, "create", 120_000);
        counts.authenticated(true, true, Duration::ZERO);
        counts.authenticated(false, true, Duration::ZERO);
        let page = page(&counts);
        for line in [
            "apiserver_request_body_size_bytes_bucket{group=\"apps\",resource=\"deployments\",verb=\"create\",le=\"50000\"} 0",
            "apiserver_request_body_size_bytes_bucket{group=\"apps\",resource=\"deployments\",verb=\"create\",le=\"150000\"} 1",
            "apiserver_request_body_size_bytes_bucket{group=\"apps\",resource=\"deployments\",verb=\"create\",le=\"3050000\"} 1",
            "# TYPE authentication_attempts counter",
            "authentication_attempts{result=\"success\"} 1",
            "authentication_attempts{result=\"failure\"} 0",
            "authentication_attempts{result=\"error\"} 1",
        ] {
            assert!(page.contains(line), "no {line} in\n{page}");
        }
    }

    #[test]
    fn long_requests_are_open_until_they_end() {
        let counts = RequestCounts::default();
        let info = RequestInfo::parse(
            &http::Method::GET,
            "/apis/apps/v1/deployments",
            Some("watch=1"),
        );
        let key = Key {
            verb: "WATCH",
            ..KEY
        };
        let running = counts.begin(key, &info);
        let line = "apiserver_longrunning_requests{component=\"apiserver\",group=\"apps\"";
        assert!(page(&counts).contains(line));
        drop(running);
        assert!(!page(&counts).contains(line));
        let info = RequestInfo::parse(&http::Method::PUT, "/apis/apps/v1/deployments/x", None);
        let _running = counts.begin(KEY, &info);
        assert!(
            page(&counts)
                .contains("apiserver_current_inflight_requests{request_kind=\"mutating\"} 1")
        );
    }
}

//! Metrics: calls by method and code, and the space of each class.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use control_metrics::{Format, Histogram, Kind, Page};
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::driver::Driver;

/// Upper bounds of the latencies that are counted, in seconds.
const SECONDS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0, 120.0,
];

/// How often a driver that runs measures its classes.
const MEASURE_EVERY: Duration = Duration::from_secs(15);

/// The space of a class when it was measured last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassSpace {
    /// Name of the class.
    pub class: String,
    /// Bytes that its storage has.
    pub total: u64,
    /// Bytes of its storage that are taken.
    pub used: u64,
    /// Bytes that new volumes can have.
    pub available: u64,
    /// Bytes that its volumes were promised.
    pub promised: u64,
    /// How many volumes it has.
    pub volumes: u64,
    /// How many snapshots it has.
    pub snapshots: u64,
}

#[derive(Default)]
struct State {
    calls: BTreeMap<(&'static str, String), u64>,
    seconds: BTreeMap<&'static str, Seconds>,
    spaces: Vec<ClassSpace>,
    unmeasured: BTreeMap<String, u64>,
}

struct Seconds(Histogram);

impl Default for Seconds {
    fn default() -> Self {
        Self(Histogram::new(SECONDS))
    }
}

/// The metrics. Clones share the counts.
#[derive(Clone, Default)]
pub struct Metrics(Arc<Mutex<State>>);

impl fmt::Debug for Metrics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    /// Counts a call.
    pub fn observe(&self, method: &'static str, code: tonic::Code, elapsed: Duration) {
        let mut state = self.state();
        *state
            .calls
            .entry((method, format!("{code:?}")))
            .or_default() += 1;
        let seconds = state.seconds.entry(method).or_default();
        seconds.0.observe(elapsed.as_secs_f64());
    }

    /// Measures the classes of a driver. A class whose storage cannot be read keeps its
    /// last values.
    pub fn measure(&self, driver: &Driver) {
        for store in driver.stores() {
            let name = &store.class.name;
            match store.space() {
                Ok(space) => {
                    let promised = store.promised().iter().map(|it| it.bytes).sum();
                    let entries = store.catalog.entries();
                    let measured = ClassSpace {
                        class: name.clone(),
                        total: space.total,
                        used: space.used,
                        available: space.available,
                        promised,
                        volumes: entries.volumes.len() as u64,
                        snapshots: entries.snapshots.len() as u64,
                    };
                    self.set_space(measured);
                }
                Err(error) => {
                    tracing::debug!(class = name, %error, "failed to measure the class");
                    *self.state().unmeasured.entry(name.clone()).or_default() += 1;
                }
            }
        }
    }

    fn set_space(&self, measured: ClassSpace) {
        let mut state = self.state();
        let mut spaces = state.spaces.iter_mut();
        match spaces.find(|it| it.class == measured.class) {
            Some(space) => *space = measured,
            None => state.spaces.push(measured),
        }
    }

    /// Returns the space of each class when it was measured last.
    #[must_use]
    pub fn spaces(&self) -> Vec<ClassSpace> {
        self.state().spaces.clone()
    }

    /// Appends all families to a page.
    pub fn write(&self, page: &mut Page) {
        let state = self.state();
        let name = "orlop_csi_calls";
        page.family(name, Kind::Counter, "Calls by method and gRPC code.");
        for ((method, code), count) in &state.calls {
            let labels = [("method", *method), ("code", code.as_str())];
            page.sample("orlop_csi_calls_total", &labels, count);
        }
        let name = "orlop_csi_call_duration_seconds";
        page.family(name, Kind::Histogram, "Time that calls took.");
        for (method, seconds) in &state.seconds {
            page.histogram(name, &[("method", method)], &seconds.0);
        }
        let gauges: [(&str, &str, fn(&ClassSpace) -> u64); 6] = [
            (
                "orlop_csi_class_bytes",
                "Bytes that the storage of a class has.",
                |it| it.total,
            ),
            (
                "orlop_csi_class_used_bytes",
                "Bytes of a class's storage that are taken.",
                |it| it.used,
            ),
            (
                "orlop_csi_class_available_bytes",
                "Bytes that new volumes can have.",
                |it| it.available,
            ),
            (
                "orlop_csi_class_promised_bytes",
                "Bytes that a class's volumes were promised.",
                |it| it.promised,
            ),
            ("orlop_csi_class_volumes", "Volumes of a class.", |it| {
                it.volumes
            }),
            ("orlop_csi_class_snapshots", "Snapshots of a class.", |it| {
                it.snapshots
            }),
        ];
        for (name, help, value) in gauges {
            page.family(name, Kind::Gauge, help);
            for space in &state.spaces {
                page.sample(name, &[("class", &space.class)], value(space));
            }
        }
        let name = "orlop_csi_class_errors";
        page.family(
            name,
            Kind::Counter,
            "Times that a class's storage could not be read.",
        );
        for (class, count) in &state.unmeasured {
            page.sample("orlop_csi_class_errors_total", &[("class", class)], count);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Measures the classes again and again until `shutdown`.
pub async fn keep_measured(metrics: Metrics, driver: Arc<Driver>, shutdown: CancellationToken) {
    loop {
        let (metrics, driver) = (metrics.clone(), driver.clone());
        let measured = tokio::task::spawn_blocking(move || metrics.measure(&driver));
        if let Err(error) = measured.await {
            tracing::warn!(%error, "failed to measure the classes");
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(MEASURE_EVERY) => {}
        }
    }
}

/// Serves metrics over HTTP until `shutdown`.
///
/// # Errors
/// When the address cannot be bound.
pub async fn serve(
    address: SocketAddr,
    metrics: Metrics,
    driver: Arc<Driver>,
    shutdown: CancellationToken,
) -> std::io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    tracing::info!(%address, "serving metrics");
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (metrics, driver) = (metrics.clone(), driver.clone());
        let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
            let (metrics, driver) = (metrics.clone(), driver.clone());
            async move {
                let mut response = http::Response::new(Full::<bytes::Bytes>::default());
                if request.uri().path() == "/metrics" {
                    let page = tokio::task::spawn_blocking(move || {
                        metrics.measure(&driver);
                        let mut page = Page::new(Format::OpenMetrics);
                        metrics.write(&mut page);
                        page.finish()
                    });
                    *response.body_mut() = Full::from(page.await.unwrap_or_default());
                    let kind = http::HeaderValue::from_static(Format::OpenMetrics.media_type());
                    response
                        .headers_mut()
                        .insert(http::header::CONTENT_TYPE, kind);
                } else {
                    *response.status_mut() = http::StatusCode::NOT_FOUND;
                }
                Ok::<_, std::convert::Infallible>(response)
            }
        });
        // A scrape: it ends with its connection, which is bounded.
        tokio::spawn(async move {
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service);
            let _ = tokio::time::timeout(Duration::from_secs(30), connection).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_classes_are_on_the_page_in_both_formats() {
        let metrics = Metrics::default();
        let took = Duration::from_millis(3);
        metrics.observe("CreateVolume", tonic::Code::Ok, took);
        metrics.observe("CreateVolume", tonic::Code::ResourceExhausted, took);
        for used in [1, 7] {
            metrics.set_space(ClassSpace {
                class: "fast".to_owned(),
                total: 10,
                used,
                ..ClassSpace::default()
            });
        }
        let mut page = Page::new(Format::Text);
        metrics.write(&mut page);
        let text = page.finish();
        for line in [
            "# TYPE orlop_csi_calls_total counter",
            "orlop_csi_calls_total{method=\"CreateVolume\",code=\"ResourceExhausted\"} 1",
            "orlop_csi_call_duration_seconds_bucket{method=\"CreateVolume\",le=\"0.0025\"} 0",
            "orlop_csi_call_duration_seconds_bucket{method=\"CreateVolume\",le=\"0.005\"} 2",
            "orlop_csi_class_bytes{class=\"fast\"} 10",
            "orlop_csi_class_used_bytes{class=\"fast\"} 7",
        ] {
            assert!(
                text.lines().any(|it| it == line),
                "{line} is not in:\n{text}"
            );
        }
        let mut page = Page::new(Format::OpenMetrics);
        metrics.write(&mut page);
        assert!(page.finish().contains("# TYPE orlop_csi_calls counter\n"));
    }

    /// Each family that is written has a row in the reference.
    #[test]
    fn every_family_is_explained() {
        let mut page = Page::new(Format::Text);
        Metrics::default().write(&mut page);
        let reference = include_str!("../../docs/reference/metrics.md");
        for line in page.finish().lines() {
            let Some(rest) = line.strip_prefix("# TYPE ") else {
                continue;
            };
            let name = rest.split(' ').next().unwrap_or_default();
            assert!(reference.contains(&format!("`{name}`")), "{name}");
        }
    }
}

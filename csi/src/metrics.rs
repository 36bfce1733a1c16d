//! Metrics: calls by method and code, and the space of each class.

use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::driver::Driver;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    method: &'static str,
    code: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MethodLabels {
    method: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClassLabels {
    class: String,
}

/// Upper bounds of the latencies that are counted, in seconds.
const SECONDS: [f64; 12] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0, 120.0,
];

/// What is counted.
pub struct Metrics {
    registry: Registry,
    calls: Family<CallLabels, Counter>,
    seconds: Family<MethodLabels, Histogram>,
    total: Family<ClassLabels, Gauge>,
    used: Family<ClassLabels, Gauge>,
    available: Family<ClassLabels, Gauge>,
    volumes: Family<ClassLabels, Gauge>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("orlop_csi");
        let calls = Family::default();
        registry.register("calls", "Calls by method and gRPC code", calls.clone());
        let seconds: Family<MethodLabels, Histogram> =
            Family::new_with_constructor(|| Histogram::new(SECONDS));
        registry.register_with_unit(
            "call_duration",
            "Time that calls took",
            Unit::Seconds,
            seconds.clone(),
        );
        let mut gauge = |name: &str, help: &str| {
            let family: Family<ClassLabels, Gauge> = Family::default();
            registry.register(name, help, family.clone());
            family
        };
        let total = gauge("class_bytes", "Bytes that the storage of a class has");
        let used = gauge(
            "class_used_bytes",
            "Bytes of a class's storage that are taken",
        );
        let available = gauge("class_available_bytes", "Bytes that new volumes can have");
        let volumes = gauge("class_volumes", "Volumes of a class");
        Self {
            registry,
            calls,
            seconds,
            total,
            used,
            available,
            volumes,
        }
    }
}

impl Metrics {
    /// Counts a call.
    pub fn observe(&self, method: &'static str, code: tonic::Code, elapsed: Duration) {
        let code = format!("{code:?}");
        self.calls.get_or_create(&CallLabels { method, code }).inc();
        let labels = MethodLabels { method };
        self.seconds
            .get_or_create(&labels)
            .observe(elapsed.as_secs_f64());
    }

    /// Measures the classes and returns everything in the text format.
    #[must_use]
    pub fn text(&self, driver: &Driver) -> String {
        let number = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        for store in driver.stores() {
            let labels = ClassLabels {
                class: store.class.name.clone(),
            };
            let count = store.catalog.entries().volumes.len();
            self.volumes
                .get_or_create(&labels)
                .set(number(count as u64));
            if let Ok(space) = store.space() {
                self.total.get_or_create(&labels).set(number(space.total));
                self.used.get_or_create(&labels).set(number(space.used));
                self.available
                    .get_or_create(&labels)
                    .set(number(space.available));
            }
        }
        let mut text = String::new();
        if encode(&mut text, &self.registry).is_err() {
            let _ = writeln!(text, "# not complete");
        }
        text
    }
}

/// Serves metrics over HTTP until `shutdown`.
///
/// # Errors
/// When the address cannot be bound.
pub async fn serve(
    address: SocketAddr,
    metrics: Arc<Metrics>,
    driver: Arc<Driver>,
    shutdown: CancellationToken,
) -> std::io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    tracing::info!(%address, "metrics are served");
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
                    let measured = tokio::task::spawn_blocking(move || metrics.text(&driver)).await;
                    *response.body_mut() = Full::from(measured.unwrap_or_default());
                    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
                    let kind = http::HeaderValue::from_static(kind);
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

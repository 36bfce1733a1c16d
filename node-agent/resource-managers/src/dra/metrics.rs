//! How long drivers and claims take, and how many claims are in use: the kubelet's
//! metrics of the subsystem `dra`.

use std::collections::BTreeMap;
use std::time::Duration;

use prometheus_client::encoding::text::encode_registry;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets_range};
use prometheus_client::registry::Registry;

use super::state::ClaimTable;

type ClaimLabels = Vec<(&'static str, String)>;
type ClaimDurations = Family<ClaimLabels, Histogram, fn() -> Histogram>;

/// In whose place the number of all claims stands, whatever their drivers.
const ANY: &str = "<any>";

/// Metrics of claims since the agent started.
#[derive(Clone, Debug)]
pub struct ClaimMetrics {
    operations: ClaimDurations,
    calls: ClaimDurations,
}

impl Default for ClaimMetrics {
    fn default() -> Self {
        let new: fn() -> Histogram = || Histogram::new(exponential_buckets_range(0.1, 40.0, 15));
        Self {
            operations: Family::new_with_constructor(new),
            calls: Family::new_with_constructor(new),
        }
    }
}

impl ClaimMetrics {
    /// Notes how long all claims of a pod took, to prepare or to take back.
    pub fn operation(&self, name: &str, failed: bool, took: Duration) {
        let labels = vec![
            ("operation_name", name.to_owned()),
            ("is_error", failed.to_string()),
        ];
        let durations = self.operations.get_or_create(&labels);
        durations.observe(took.as_secs_f64());
    }

    /// Notes how long one call of a driver took.
    pub fn call(&self, driver: &str, method: &str, code: tonic::Code, took: Duration) {
        let labels = vec![
            ("driver_name", driver.to_owned()),
            ("method_name", format!("/{method}")),
            ("grpc_status_code", name(code)),
        ];
        let durations = self.calls.get_or_create(&labels);
        durations.observe(took.as_secs_f64());
    }

    /// All of it, with what the table says is in use, as Prometheus reads it.
    #[must_use]
    pub(super) fn text(&self, table: &ClaimTable) -> String {
        let in_use = Family::<ClaimLabels, Gauge>::default();
        for (driver, count) in claims_in_use(table) {
            let labels = vec![("driver_name", driver.to_owned())];
            in_use.get_or_create(&labels).set(count);
        }
        let mut registry = Registry::with_prefix("dra");
        registry.register(
            "operations_duration_seconds",
            "How long it took to prepare all claims of a pod, or to take them back",
            self.operations.clone(),
        );
        registry.register(
            "grpc_operations_duration_seconds",
            "How long calls of drivers took",
            self.calls.clone(),
        );
        registry.register(
            "resource_claims_in_use",
            "Claims that are prepared on the node, by driver; <any> counts each claim once",
            in_use,
        );
        let mut text = String::new();
        // a String takes everything
        let _ = encode_registry(&mut text, &registry);
        text
    }
}

/// By driver: how many claims are prepared.
fn claims_in_use(table: &ClaimTable) -> BTreeMap<&str, i64> {
    let mut counts = BTreeMap::from([(ANY, 0)]);
    for (_, held) in table.iter().filter(|(_, held)| held.prepared) {
        let drivers = held.drivers.keys().map(String::as_str);
        for driver in drivers.chain([ANY]) {
            *counts.entry(driver).or_default() += 1;
        }
    }
    counts
}

/// A code as gRPC's Go library names it.
fn name(code: tonic::Code) -> String {
    match code {
        tonic::Code::Ok => "OK".to_owned(),
        tonic::Code::Cancelled => "Canceled".to_owned(),
        other => format!("{other:?}"),
    }
}

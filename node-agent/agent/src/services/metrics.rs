//! What the datapath tells Prometheus: kube-proxy's names where they mean the
//! same, so that dashboards and alerts go on working, and our own.

use std::sync::{Arc, atomic::AtomicBool};

use control_metrics::{Format, Kind, Page};
use ebpf_abi::Counter as Counted;
use jiff::Timestamp;
use node_agent_datapath::TableLoad;
use prometheus_client::{
    encoding::text::encode,
    metrics::{counter::Counter, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use tokio::sync::watch;

use super::capacity_condition::FilledTable;
use crate::{flows::FlowMetrics, policy::GraceMetrics};

/// Metrics that are counted as events happen.
pub struct ServiceMetrics {
    registry: Registry,
    /// From an event to the maps; seconds.
    pub sync: Histogram,
    /// All maps, compared; seconds.
    pub full_sync: Histogram,
    /// From the change of a pod to the maps; seconds.
    pub programming: Histogram,
    /// Changes of EndpointSlices.
    pub slices: Counter,
    /// Changes of Services.
    pub services: Counter,
    /// When the maps were last written: seconds since 1970.
    pub last: Gauge<f64, std::sync::atomic::AtomicU64>,
    /// When an event last came: seconds since 1970.
    pub queued: Gauge<f64, std::sync::atomic::AtomicU64>,
    /// Times that a map could not be written.
    pub failures: Counter,
    /// UDP sockets whose backend is gone.
    pub moved: Counter,
    connections: TableFill,
    sockets: TableFill,
    clients: TableFill,
}

/// How full a table of the programs is.
#[derive(Default)]
struct TableFill {
    held: Gauge,
    capacity: Gauge,
    /// Is there no room for more: 1, else 0.
    full: Gauge,
    /// What was lost for want of room.
    lost: Gauge,
}

/// Metrics of other parts that this page shows.
#[derive(Clone, Debug, Default)]
pub struct OtherMetrics {
    /// Of what announces addresses.
    pub announced: node_agent_announce::metrics::Metrics,
    /// Of flows.
    pub flows: FlowMetrics,
    /// Of policy.
    pub policy: GraceMetrics,
    /// Whether the maps hold what the API says.
    pub programmed: Arc<AtomicBool>,
    /// Set while the agent keeps off the metrics port, so that kube-proxy, which is to serve next, can
    /// listen there.
    pub lends_metrics_port: watch::Sender<bool>,
}

// === impl Metrics ===

impl ServiceMetrics {
    /// Counters at zero, beside those of other parts.
    pub fn new(others: &OtherMetrics) -> Self {
        let mut registry = Registry::default();
        others.announced.register(&mut registry);
        others.flows.register(&mut registry);
        others.policy.register(&mut registry);
        // kube-proxy's buckets, and below them those in which this works.
        let fast = || Histogram::new((0..20).map(|power| 0.000_05 * f64::from(1_u32 << power)));
        let programming = || {
            let fine = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5];
            let seconds = (1..60).map(f64::from);
            let minute = (0..12).map(|step| 60.0 + 5.0 * f64::from(step));
            let minutes = (0..7).map(|step| 120.0 + 30.0 * f64::from(step));
            Histogram::new(fine.into_iter().chain(seconds).chain(minute).chain(minutes))
        };
        let it = Self {
            sync: fast(),
            full_sync: fast(),
            programming: programming(),
            slices: Counter::default(),
            services: Counter::default(),
            last: Gauge::default(),
            queued: Gauge::default(),
            failures: Counter::default(),
            moved: Counter::default(),
            connections: TableFill::default(),
            sockets: TableFill::default(),
            clients: TableFill::default(),
            registry: Registry::default(),
        };
        registry.register(
            "kubeproxy_sync_proxy_rules_duration_seconds",
            "From a change of an object to the maps",
            it.sync.clone(),
        );
        registry.register(
            "kubeproxy_sync_full_proxy_rules_duration_seconds",
            "Comparing all maps with all objects",
            it.full_sync.clone(),
        );
        registry.register(
            "kubeproxy_network_programming_duration_seconds",
            "From the change of a pod or Service to the maps",
            it.programming.clone(),
        );
        registry.register(
            "kubeproxy_sync_proxy_rules_endpoint_changes",
            "Changes of EndpointSlices",
            it.slices.clone(),
        );
        registry.register(
            "kubeproxy_sync_proxy_rules_service_changes",
            "Changes of Services",
            it.services.clone(),
        );
        registry.register(
            "kubeproxy_sync_proxy_rules_last_timestamp_seconds",
            "When the maps were last written",
            it.last.clone(),
        );
        registry.register(
            "kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds",
            "When a change last came",
            it.queued.clone(),
        );
        registry.register(
            "orlop_datapath_write_failures",
            "Times that maps could not be written",
            it.failures.clone(),
        );
        registry.register(
            "orlop_datapath_udp_sockets_moved",
            "UDP sockets connected to another backend because theirs is gone, or destroyed",
            it.moved.clone(),
        );
        it.connections.register(
            &mut registry,
            "orlop_datapath_connections",
            "Connections that packets made, at most",
            "DatapathConnectionsFull",
        );
        it.sockets.register(
            &mut registry,
            "orlop_datapath_sockets",
            "Datagram sockets that talk to services, at most",
            "DatapathSocketsFull",
        );
        it.clients.register(
            &mut registry,
            "orlop_datapath_clients",
            "Clients that keep their endpoint, at most",
            "DatapathClientsFull",
        );
        Self { registry, ..it }
    }

    /// How full a table is.
    pub fn filled(&self, table: FilledTable, load: &TableLoad, full: bool) {
        let room = match table {
            FilledTable::Connections => &self.connections,
            FilledTable::Sockets => &self.sockets,
            FilledTable::Clients => &self.clients,
        };
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        room.held.set(number(load.held));
        room.capacity.set(number(load.capacity));
        room.full.set(i64::from(full));
        room.lost.set(number(load.lost));
    }

    /// An EndpointSlice is in the maps that follows from what changed then.
    pub fn programmed(&self, triggered: Option<Timestamp>) {
        let Some(time) = triggered else { return };
        let passed = Timestamp::now().duration_since(time).as_secs_f64();
        // Clocks of two machines differ.
        self.programming.observe(passed.max(0.0));
    }

    /// The text that Prometheus reads.
    pub fn text(&self, now: &MetricsSnapshot) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        let mut page = Page::new(Format::OpenMetrics);
        page.open_metrics(&text);
        now.write(&mut page);
        text.clear();
        control_client::metrics::write(&mut text);
        control_supervise::Supervisor::process().write_metrics(&mut text);
        page.open_metrics(&text);
        page.finish()
    }
}

// === impl Room ===

impl TableFill {
    fn register(&self, registry: &mut Registry, name: &str, what: &str, condition: &str) {
        registry.register(name, what, self.held.clone());
        let parts = [
            (
                "capacity",
                "For how many there is room".to_owned(),
                &self.capacity,
            ),
            (
                "full",
                format!("1 while the Node's condition {condition} is True"),
                &self.full,
            ),
            (
                "lost",
                "What is known to have found no room, or to have been lost for want of it"
                    .to_owned(),
                &self.lost,
            ),
        ];
        for (part, help, gauge) in parts {
            registry.register(format!("{name}_{part}"), help, gauge.clone());
        }
    }
}

/// Values that are read when Prometheus scrapes.
#[derive(Clone, Debug, Default)]
pub struct MetricsSnapshot {
    /// What the programs counted.
    pub counters: Vec<(Counted, u64)>,
    /// How full maps are: name, entries, entries that it takes.
    pub fullness: Vec<(&'static str, usize, usize)>,
    /// Hooks of devices at which programs run, by hook.
    pub attached: Vec<(&'static str, usize)>,
    /// Problems of objects, by reason.
    pub problems: Vec<(&'static str, usize)>,
}

impl MetricsSnapshot {
    fn write(&self, page: &mut Page) {
        let counters: [(&str, &str, &str, fn(Counted) -> bool); 3] = [
            (
                "orlop_datapath_drops",
                "Packets that were dropped.",
                "reason",
                Counted::is_drop,
            ),
            (
                "orlop_datapath_refusals",
                "Calls and packets that were refused.",
                "reason",
                Counted::is_refusal,
            ),
            (
                "orlop_datapath_events",
                "What the programs did.",
                "event",
                |counter| !counter.is_drop() && !counter.is_refusal(),
            ),
        ];
        for (name, help, label, is_shown) in counters {
            page.family(name, Kind::Counter, help);
            let name = format!("{name}_total");
            for (counter, value) in &self.counters {
                if is_shown(*counter) {
                    page.sample(&name, &[(label, counter.label())], value);
                }
            }
        }
        let name = "orlop_datapath_map_entries";
        page.family(name, Kind::Gauge, "Entries of maps.");
        for (map, entries, _) in &self.fullness {
            page.sample(name, &[("map", map)], entries);
        }
        let name = "orlop_datapath_map_capacity";
        page.family(name, Kind::Gauge, "Entries that maps take.");
        for (map, _, capacity) in &self.fullness {
            page.sample(name, &[("map", map)], capacity);
        }
        let name = "orlop_datapath_devices";
        page.family(name, Kind::Gauge, "Devices at which programs run.");
        for (hook, count) in &self.attached {
            page.sample(name, &[("hook", hook)], count);
        }
        let name = "orlop_datapath_problems";
        let help = "What objects ask for and do not get.";
        page.family(name, Kind::Gauge, help);
        for (reason, count) in &self.problems {
            page.sample(name, &[("reason", reason)], count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kube_proxy_s_where_they_mean_the_same() {
        let metrics = ServiceMetrics::new(&OtherMetrics::default());
        metrics.slices.inc();
        metrics.sync.observe(0.000_3);
        metrics.programmed(Some(Timestamp::now()));
        metrics.programmed(None);
        let load = TableLoad {
            held: 96,
            capacity: 100,
            lost: 3,
        };
        metrics.filled(FilledTable::Connections, &load, true);
        metrics.filled(FilledTable::Clients, &load, false);
        let now = MetricsSnapshot {
            counters: vec![
                (Counted::DroppedSource, 3),
                (Counted::RefusedBind, 4),
                (Counted::FlowCreated, 5),
            ],
            fullness: vec![("SERVICES", 7, 9)],
            attached: vec![("tc_ingress", 2)],
            problems: vec![("BadPort", 1)],
        };
        let text = metrics.text(&now);
        for line in [
            "kubeproxy_sync_proxy_rules_endpoint_changes_total 1",
            "kubeproxy_sync_proxy_rules_service_changes_total 0",
            "kubeproxy_sync_proxy_rules_duration_seconds_count 1",
            "kubeproxy_network_programming_duration_seconds_count 1",
            "orlop_datapath_drops_total{reason=\"dropped_source_range\"} 3",
            "orlop_datapath_refusals_total{reason=\"refused_bind\"} 4",
            "orlop_datapath_events_total{event=\"flow_created\"} 5",
            "orlop_datapath_map_entries{map=\"SERVICES\"} 7",
            "orlop_datapath_map_capacity{map=\"SERVICES\"} 9",
            "orlop_datapath_devices{hook=\"tc_ingress\"} 2",
            "orlop_datapath_problems{reason=\"BadPort\"} 1",
            "orlop_datapath_connections 96",
            "orlop_datapath_connections_capacity 100",
            "orlop_datapath_connections_full 1",
            "orlop_datapath_connections_lost 3",
            "orlop_datapath_sockets 0",
            "orlop_datapath_clients 96",
            "orlop_datapath_clients_full 0",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}\n{text}");
        }
        // What announces addresses is read here too.
        assert!(text.contains("orlop_announce_"), "{text}");
        assert_eq!(text.matches("# EOF").count(), 1);
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn a_page_is_written_byte_by_byte() {
        let now = MetricsSnapshot {
            counters: vec![
                (Counted::DroppedSource, 3),
                (Counted::RefusedBind, 4),
                (Counted::FlowCreated, 5),
            ],
            fullness: vec![("SERVICES", 7, 9), ("FLOWS", 0, 65_536)],
            attached: vec![("tc_ingress", 2)],
            problems: vec![("BadPort", 1)],
        };
        let mut page = Page::new(Format::OpenMetrics);
        now.write(&mut page);
        assert_eq!(page.into_families(), include_str!("testdata/metrics.txt"));
    }

    /// A reason that nobody can read about, or that Prometheus does not show, is a
    /// packet that vanishes.
    #[test]
    fn every_counter_is_a_metric_and_is_explained() {
        let metrics = ServiceMetrics::new(&OtherMetrics::default());
        let numbered = (1_000_u64..).zip(Counted::ALL);
        let now = MetricsSnapshot {
            counters: numbered
                .map(|(number, counter)| (*counter, number))
                .collect(),
            ..MetricsSnapshot::default()
        };
        let text = metrics.text(&now);
        let page = include_str!("../../../../docs/reference/counters.md");
        for (counter, value) in &now.counters {
            let label = counter.label();
            let (metric, word) = match (counter.is_drop(), counter.is_refusal()) {
                (true, false) => ("drops", "reason"),
                (false, true) => ("refusals", "reason"),
                (false, false) => ("events", "event"),
                (true, true) => panic!("{label} is both"),
            };
            let line = format!("orlop_datapath_{metric}_total{{{word}=\"{label}\"}} {value}");
            assert_eq!(text.lines().filter(|it| **it == line).count(), 1, "{line}");
            let named = format!("\"{label}\"");
            assert_eq!(text.matches(&named).count(), 1, "{label} in two metrics");
            // A row: its name, what it means, what to do.
            let row = format!("| `{label}` | ");
            let rows: Vec<_> = page.lines().filter(|it| it.starts_with(&row)).collect();
            let [row] = rows.as_slice() else {
                panic!(
                    "{label} has {} rows in docs/reference/counters.md",
                    rows.len()
                );
            };
            let cells: Vec<_> = row.trim_matches('|').split(" | ").map(str::trim).collect();
            assert!(
                cells.len() == 3 && cells.iter().all(|it| !it.is_empty()),
                "{row}"
            );
        }
        // And nothing is explained that is not counted.
        let rows = page.lines().filter(|it| it.starts_with("| `")).count();
        assert_eq!(rows, Counted::ALL.len());
        // Its group in the page is that of its metric.
        let groups: [(&str, fn(Counted) -> bool); 2] = [
            ("Drops", Counted::is_drop),
            ("Refusals", Counted::is_refusal),
        ];
        for section in page.split("\n## ") {
            let group = groups
                .iter()
                .find(|(heading, _)| section.starts_with(heading));
            for row in section.lines().filter(|it| it.starts_with("| `")) {
                let label = row.split('`').nth(1).unwrap_or_default();
                let counter = Counted::ALL.iter().find(|it| it.label() == label);
                let counter = *counter.unwrap_or_else(|| panic!("{label} is no counter"));
                let its = groups.iter().find(|(_, is)| is(counter));
                assert_eq!(group.map(|it| it.0), its.map(|it| it.0), "{label}");
            }
        }
    }
}

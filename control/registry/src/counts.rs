//! What is counted of the store and of watches, under kube-apiserver's names. Labels are texts
//! of the tables and of definitions only, so that counting allocates nothing.

use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use control_metrics::{Histogram, Kind, Page};
use control_types::registry::Resource;
use rustc_hash::FxHashMap;

const SECONDS: &[f64] = &[
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0,
    10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
];
const EVENT_SIZES: &[f64] = &[
    1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0, 65536.0, 131_072.0,
];
const BEGINNINGS: &[f64] = &[
    0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
];

/// Counts by their labels.
pub type CountTable<K, V> = RwLock<FxHashMap<K, Arc<V>>>;

/// All counts of storage.
#[derive(Debug, Default)]
pub struct StorageCounts {
    watches: CountTable<[&'static str; 3], WatchEventSizes>,
    store: CountTable<[&'static str; 3], Mutex<Histogram>>,
    /// How long watches took to tell what there was when they began, by group,
    /// resource, scope, version.
    beginnings: CountTable<[&'static str; 4], Mutex<Histogram>>,
}

/// What watches of a resource were sent.
#[derive(Debug)]
pub struct WatchEventSizes(Mutex<Histogram>);

/// Returns what stands in a table, or is put there.
pub fn entry<K: Copy + Eq + Hash, V>(
    table: &CountTable<K, V>,
    key: K,
    make: impl FnOnce() -> V,
) -> Arc<V> {
    let known = table.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = known.get(&key) {
        return Arc::clone(known);
    }
    drop(known);
    let mut table = table.write().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(table.entry(key).or_insert_with(|| Arc::new(make())))
}

/// Returns all that stands in a table, in an order.
pub fn sorted<K: Copy + Eq + Hash, V, O: Ord>(
    table: &CountTable<K, V>,
    by: impl Fn(&K) -> O,
) -> Vec<(K, Arc<V>)> {
    let table = table.read().unwrap_or_else(PoisonError::into_inner);
    let mut all: Vec<_> = table
        .iter()
        .map(|(key, value)| (*key, Arc::clone(value)))
        .collect();
    all.sort_by_key(|(key, _)| by(key));
    all
}

impl StorageCounts {
    /// Where what watches of a resource are sent is counted.
    pub fn watch(
        &self,
        group: &'static str,
        version: &'static str,
        resource: &'static str,
    ) -> Arc<WatchEventSizes> {
        entry(&self.watches, [group, version, resource], || {
            WatchEventSizes(Mutex::new(Histogram::new(EVENT_SIZES)))
        })
    }

    /// The store did something.
    pub fn store(
        &self,
        operation: &'static str,
        group: &'static str,
        resource: &'static str,
        took: Duration,
    ) {
        let histogram = entry(&self.store, [operation, group, resource], || {
            Mutex::new(Histogram::new(SECONDS))
        });
        let mut histogram = histogram.lock().unwrap_or_else(PoisonError::into_inner);
        histogram.observe(took.as_secs_f64());
    }

    /// A watch has told what there was when it began.
    pub fn begun(&self, resource: &Resource, scope: &'static str, took: Duration) {
        let key = [resource.group, resource.plural, scope, resource.version];
        let histogram = entry(&self.beginnings, key, || {
            Mutex::new(Histogram::new(BEGINNINGS))
        });
        let mut histogram = histogram.lock().unwrap_or_else(PoisonError::into_inner);
        histogram.observe(took.as_secs_f64());
    }

    /// Writes them.
    pub fn write_beginnings(&self, page: &mut Page) {
        let name = "apiserver_watch_list_duration_seconds";
        page.family(name, Kind::Histogram, "Response latency distribution in seconds for watch list requests broken by group, version, resource and scope.");
        for ([group, resource, scope, version], took) in &sorted(&self.beginnings, |key| *key) {
            let took = took.lock().unwrap_or_else(PoisonError::into_inner);
            let labels = [
                ("group", *group),
                ("resource", resource),
                ("scope", scope),
                ("version", version),
            ];
            page.histogram(name, &labels, &took);
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "for metrics")]
    /// Writes them.
    pub fn write_watches(&self, page: &mut Page) {
        let watches = sorted(&self.watches, |key| *key);
        let labelled = |[group, version, resource]: [&'static str; 3]| {
            [
                ("group", group),
                ("resource", resource),
                ("version", version),
            ]
        };
        let name = "apiserver_watch_events";
        page.family(
            name,
            Kind::Counter,
            "Number of events sent in watch clients",
        );
        for (key, sent) in &watches {
            let count = sent
                .0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .count();
            page.sample(
                "apiserver_watch_events_total",
                &labelled(*key),
                count as f64,
            );
        }
        let name = "apiserver_watch_events_sizes";
        page.family(
            name,
            Kind::Histogram,
            "Watch event size distribution in bytes",
        );
        for (key, sent) in &watches {
            let histogram = sent.0.lock().unwrap_or_else(PoisonError::into_inner);
            page.histogram(name, &labelled(*key), &histogram);
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "for metrics")]
    /// Writes them.
    pub fn write_store(&self, page: &mut Page) {
        let store = sorted(&self.store, |key| *key);
        let labelled = |[operation, group, resource]: [&'static str; 3]| {
            [
                ("group", group),
                ("operation", operation),
                ("resource", resource),
            ]
        };
        let name = "etcd_requests";
        page.family(
            name,
            Kind::Counter,
            "Etcd request counts for each operation and object type.",
        );
        for (key, took) in &store {
            let count = took.lock().unwrap_or_else(PoisonError::into_inner).count();
            page.sample("etcd_requests_total", &labelled(*key), count as f64);
        }
        let name = "etcd_request_duration_seconds";
        page.family(
            name,
            Kind::Histogram,
            "Etcd request latency in seconds for each operation and object type.",
        );
        for (key, took) in &store {
            let took = took.lock().unwrap_or_else(PoisonError::into_inner);
            page.histogram(name, &labelled(*key), &took);
        }
    }
}

// === impl WatchEventSizes ===

impl WatchEventSizes {
    /// Events of so many bytes each were sent.
    #[expect(clippy::cast_precision_loss, reason = "for metrics")]
    pub fn count(&self, sizes: &[usize]) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for bytes in sizes {
            all.observe(*bytes as f64);
        }
    }
}

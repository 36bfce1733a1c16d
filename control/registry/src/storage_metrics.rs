//! What metrics say of stored objects and of the caches that hold them, under
//! kube-apiserver's names.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use control_metrics::{Kind, Page};
use control_store::Size;

use crate::served_resource::ServedResource;
use crate::storage::Storage;
use control_watch_cache::{Counts, ResourceCache};

/// How many objects of a resource are looked at to guess how large all are.
const SAMPLE: usize = 8;

/// A number of a resource's cache.
type Number = fn(&StoredResource) -> f64;

/// One resource whose objects are stored.
struct StoredResource<'a> {
    group: &'static str,
    resource: &'static str,
    cache: &'a ResourceCache,
    objects: usize,
    /// All of them together, about, in bytes.
    size: usize,
    revision: u64,
}

impl Storage {
    /// Writes metrics of stored objects and of caches; `size`: of the store's file.
    #[expect(clippy::cast_precision_loss, reason = "for metrics")]
    pub fn write_metrics(&self, size: Option<Size>, page: &mut Page) {
        let mut stored: Vec<_> = self.stored().filter_map(StoredResource::of).collect();
        stored.sort_unstable_by_key(|one| (one.group, one.resource));
        let name = "apiserver_storage_objects";
        let help = "Number of stored objects at the time of last check split by kind.";
        page.family(name, Kind::Gauge, help);
        for one in &stored {
            let resource = match one.group {
                "" => one.resource.to_owned(),
                group => format!("{}.{group}", one.resource),
            };
            page.sample(name, &[("resource", &resource)], one.objects as f64);
        }
        if let Some(size) = size {
            let name = "apiserver_storage_size_bytes";
            let help = "Size of the storage database file physically allocated in bytes.";
            page.family(name, Kind::Gauge, help);
            page.sample(name, &[("storage_cluster_id", size.of)], size.bytes as f64);
        }
        gauges(&stored, page);
        counters(&stored, page);
        lists(&stored, page);
        reads(&stored, page);
    }
}

#[expect(clippy::cast_precision_loss, reason = "for metrics")]
fn gauges(stored: &[StoredResource<'_>], page: &mut Page) {
    let gauges: [(&str, &str, Number); 4] = [
        (
            "apiserver_resource_objects",
            "Number of stored objects at the time of last check split by kind.",
            |one| one.objects as f64,
        ),
        (
            "apiserver_resource_size_estimate_bytes",
            "Estimated size of stored objects in database.",
            |one| one.size as f64,
        ),
        (
            "apiserver_watch_cache_resource_version",
            "Current resource version of watch cache broken by resource type.",
            |one| one.revision as f64,
        ),
        (
            "watch_cache_capacity",
            "Total capacity of watch cache broken by resource type.",
            |one| one.cache.capacity() as f64,
        ),
    ];
    for (name, help, of) in gauges {
        page.family(name, Kind::Gauge, help);
        for one in stored {
            page.sample(name, &one.labels(), of(one));
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "for metrics")]
fn counters(stored: &[StoredResource<'_>], page: &mut Page) {
    // Each event is handed on as it comes in; a cache is filled once, and its room for
    // events only grows.
    let counters: [(&str, &str, Number); 8] = [
        (
            "apiserver_storage_events_received",
            "Number of etcd events received split by kind.",
            |one| one.cache.head() as f64,
        ),
        (
            "apiserver_watch_cache_events_received",
            "Counter of events received in watch cache broken by resource type.",
            |one| one.cache.head() as f64,
        ),
        (
            "apiserver_watch_cache_events_dispatched",
            "Counter of events dispatched in watch cache broken by resource type.",
            |one| one.cache.head() as f64,
        ),
        (
            "apiserver_watch_cache_initializations",
            "Counter of watch cache initializations broken by resource type.",
            |_| 1.0,
        ),
        (
            "apiserver_init_events",
            "Counter of init events processed in watch cache broken by resource type.",
            |one| one.count(|counts| &counts.initial),
        ),
        (
            "apiserver_terminated_watchers",
            "Counter of watchers closed due to unresponsiveness broken by resource type.",
            |one| one.count(|counts| &counts.terminated),
        ),
        (
            "watch_cache_capacity_increase",
            "Total number of watch cache capacity increase events broken by resource type.",
            |one| one.count(|counts| &counts.grown),
        ),
        (
            "watch_cache_capacity_decrease",
            "Total number of watch cache capacity decrease events broken by resource type.",
            |_| 0.0,
        ),
    ];
    for (name, help, of) in counters {
        page.family(name, Kind::Counter, help);
        let total = format!("{name}_total");
        for one in stored {
            page.sample(&total, &one.labels(), of(one));
        }
    }
}

/// The lists that caches answered.
fn lists(stored: &[StoredResource<'_>], page: &mut Page) {
    let counters: [(&str, &str, bool, fn(&Counts) -> &AtomicU64); 3] = [
        (
            "apiserver_cache_list",
            "Number of LIST requests served from watch cache",
            true,
            |counts| &counts.lists,
        ),
        (
            "apiserver_cache_list_fetched_objects",
            "Number of objects read from watch cache in the course of serving a LIST request",
            true,
            |counts| &counts.fetched,
        ),
        (
            "apiserver_cache_list_returned_objects",
            "Number of objects returned for a LIST request from watch cache",
            false,
            |counts| &counts.returned,
        ),
    ];
    for (name, help, indexed, of) in counters {
        page.family(name, Kind::Counter, help);
        let total = format!("{name}_total");
        let listed = |one: &&StoredResource<'_>| one.count(|counts| &counts.lists) > 0.0;
        for one in stored.iter().filter(listed) {
            let [group, resource] = one.labels();
            let labels = [group, ("index", ""), resource];
            let plain = [group, resource];
            let labels = if indexed { &labels[..] } else { &plain };
            page.sample(&total, labels, one.count(of));
        }
    }
}

/// How readers found the caches, and what comparisons with the store showed.
fn reads(stored: &[StoredResource<'_>], page: &mut Page) {
    let name = "apiserver_watch_cache_read_wait_seconds";
    let help = "Histogram of time spent waiting for a watch cache to become fresh.";
    page.family(name, Kind::Histogram, help);
    for one in stored {
        let waits = one.cache.counts().waits();
        if waits.count() > 0 {
            page.histogram(name, &one.labels(), &waits);
        }
    }
    let name = "apiserver_watch_cache_consistent_read";
    let help = "Counter for consistent reads from cache.";
    page.family(name, Kind::Counter, help);
    for one in stored {
        for (at, success) in ["true", "false"].into_iter().enumerate() {
            let count = number(&one.cache.counts().consistent[at]);
            if count > 0.0 {
                let [group, resource] = one.labels();
                // There is nowhere else to read from.
                let labels = [("fallback", "false"), group, resource, ("success", success)];
                page.sample(&format!("{name}_total"), &labels, count);
            }
        }
    }
    let name = "apiserver_storage_consistency_checks";
    let help = "Counter for status of consistency checks between etcd and watch cache";
    page.family(name, Kind::Counter, help);
    for one in stored {
        for (at, status) in ["success", "failure", "error"].into_iter().enumerate() {
            let count = number(&one.cache.counts().compared[at]);
            if count > 0.0 {
                let [group, resource] = one.labels();
                let labels = [group, resource, ("status", status)];
                page.sample(&format!("{name}_total"), &labels, count);
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "for metrics")]
fn number(count: &AtomicU64) -> f64 {
    count.load(Ordering::Relaxed) as f64
}

// === impl StoredResource ===

impl<'a> StoredResource<'a> {
    fn of(served: &'a Arc<ServedResource>) -> Option<Self> {
        let cache = served.cache.as_deref()?;
        let state = cache.state();
        let (mut count, mut size) = (0_usize, 0_usize);
        for object in state.objects.iter().take(SAMPLE) {
            count += 1;
            size += object.json().len();
        }
        let objects = state.objects.len();
        Some(Self {
            group: served.resource.group,
            resource: served.resource.plural,
            cache,
            objects,
            size: size / count.max(1) * objects,
            revision: state.revision,
        })
    }

    fn labels(&self) -> [(&'static str, &'static str); 2] {
        [("group", self.group), ("resource", self.resource)]
    }

    fn count(&self, of: fn(&Counts) -> &AtomicU64) -> f64 {
        number(of(self.cache.counts()))
    }
}

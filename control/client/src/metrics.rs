//! Metrics of this process's clients and work queues, under the names of Kubernetes'
//! components (`rest_client_*`, `workqueue_*`), in OpenMetrics.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use control_metrics::{Format, Histogram, Kind, Page};

/// Bounds of queue and work durations in seconds, as in Kubernetes.
static QUEUED: [f64; 12] = [
    1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1000.0,
];
/// Bounds of request durations in seconds, as in Kubernetes.
static REQUESTS: [f64; 12] = [
    0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0,
];

/// Statistics of a queue.
#[derive(Debug, Clone)]
pub(crate) struct QueueStats {
    pub depth: usize,
    pub adds: u64,
    pub retries: u64,
    pub queued: Histogram,
    pub worked: Histogram,
    /// The duration of unfinished work: in total, and the longest.
    pub unfinished: Duration,
    pub longest: Duration,
}

/// Something that can be looked at.
pub(crate) trait Visible: Send + Sync {
    /// As it is now.
    fn look(&self) -> QueueStats;
}

/// Queues that are worked on.
static QUEUES: Mutex<Vec<(&'static str, Weak<dyn Visible>)>> = Mutex::new(Vec::new());
/// Requests by method and code, and by method how long they took.
static REQUESTED: Mutex<RequestLabels> = Mutex::new(RequestLabels {
    codes: BTreeMap::new(),
    took: BTreeMap::new(),
});

#[derive(Debug)]
struct RequestLabels {
    codes: BTreeMap<(Host, String, u16), u64>,
    took: BTreeMap<(Host, String), Histogram>,
}

/// The server, if it is known.
type Host = &'static str;

impl Default for QueueStats {
    fn default() -> Self {
        Self {
            depth: 0,
            adds: 0,
            retries: 0,
            queued: Histogram::new(&QUEUED),
            worked: Histogram::new(&QUEUED),
            unfinished: Duration::ZERO,
            longest: Duration::ZERO,
        }
    }
}

/// A queue is worked on under a name.
pub(crate) fn register(name: &'static str, queue: Weak<dyn Visible>) {
    let mut all = QUEUES.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|(_, known)| known.strong_count() > 0 && !Weak::ptr_eq(known, &queue));
    all.push((name, queue));
}

/// A request was answered.
pub(crate) fn requested(host: Host, method: &http::Method, code: u16, took: Duration) {
    let mut all = REQUESTED.lock().unwrap_or_else(PoisonError::into_inner);
    let method = method.as_str().to_owned();
    let key = (host, method.clone(), code);
    *all.codes.entry(key).or_default() += 1;
    let durations = all.took.entry((host, method));
    let durations = durations.or_insert_with(|| Histogram::new(&REQUESTS));
    durations.observe(took.as_secs_f64());
}

/// Appends all in OpenMetrics, without an end.
pub fn write(out: &mut String) {
    let mut page = Page::new(Format::OpenMetrics);
    write_queues(&look(), &mut page);
    let requested = REQUESTED.lock().unwrap_or_else(PoisonError::into_inner);
    write_requests(&requested, &mut page);
    out.push_str(&page.into_families());
}

/// All queues as they are now, by name.
fn look() -> BTreeMap<&'static str, QueueStats> {
    let queues: Vec<(&'static str, Arc<dyn Visible>)> = {
        let all = QUEUES.lock().unwrap_or_else(PoisonError::into_inner);
        let alive = all
            .iter()
            .filter_map(|(name, queue)| Some((*name, queue.upgrade()?)));
        alive.collect()
    };
    let mut seen: BTreeMap<&'static str, QueueStats> = BTreeMap::new();
    for (name, queue) in queues {
        let now = queue.look();
        let all = seen.entry(name).or_default();
        all.depth += now.depth;
        all.adds += now.adds;
        all.retries += now.retries;
        all.queued.merge(&now.queued);
        all.worked.merge(&now.worked);
        all.unfinished += now.unfinished;
        all.longest = all.longest.max(now.longest);
    }
    seen
}

fn write_queues(seen: &BTreeMap<&'static str, QueueStats>, page: &mut Page) {
    type Number = fn(&QueueStats) -> f64;
    #[expect(clippy::cast_precision_loss, reason = "for metrics")]
    let numbers: [(&str, Kind, &str, Number); 5] = [
        (
            "workqueue_adds",
            Kind::Counter,
            "Total number of adds handled by workqueue.",
            |seen| seen.adds as f64,
        ),
        (
            "workqueue_depth",
            Kind::Gauge,
            "Current depth of workqueue.",
            |seen| seen.depth as f64,
        ),
        (
            "workqueue_retries",
            Kind::Counter,
            "Total number of retries handled by workqueue.",
            |seen| seen.retries as f64,
        ),
        (
            "workqueue_longest_running_processor_seconds",
            Kind::Gauge,
            "How many seconds has the longest running processor for workqueue been running.",
            |seen| seen.longest.as_secs_f64(),
        ),
        (
            "workqueue_unfinished_work_seconds",
            Kind::Gauge,
            "How many seconds of work has done that is in progress and hasn't been observed by work_duration. Large values indicate stuck threads. One can deduce the number of stuck threads by observing the rate at which this increases.",
            |seen| seen.unfinished.as_secs_f64(),
        ),
    ];
    for (name, kind, help, number) in numbers {
        page.family(name, kind, help);
        let total = if kind == Kind::Counter { "_total" } else { "" };
        let name = format!("{name}{total}");
        for (queue, seen) in seen {
            page.sample(&name, &[("name", queue)], number(seen));
        }
    }
    for (name, help, queued) in [
        (
            "workqueue_queue_duration_seconds",
            "How long in seconds an item stays in workqueue before being requested.",
            true,
        ),
        (
            "workqueue_work_duration_seconds",
            "How long in seconds processing an item from workqueue takes.",
            false,
        ),
    ] {
        page.family(name, Kind::Histogram, help);
        for (queue, seen) in seen {
            let durations = if queued { &seen.queued } else { &seen.worked };
            page.histogram(name, &[("name", queue)], durations);
        }
    }
}

fn write_requests(all: &RequestLabels, page: &mut Page) {
    page.family(
        "rest_client_requests",
        Kind::Counter,
        "Number of HTTP requests, partitioned by status code, method, and host.",
    );
    for ((host, method, code), count) in &all.codes {
        let code = code.to_string();
        let labels = [
            ("code", code.as_str()),
            ("host", *host),
            ("method", method.as_str()),
        ];
        page.sample("rest_client_requests_total", &labels, count);
    }
    let name = "rest_client_request_duration_seconds";
    page.family(
        name,
        Kind::Histogram,
        "Request latency in seconds. Broken down by verb, and host.",
    );
    for ((host, method), durations) in &all.took {
        page.histogram(name, &[("host", host), ("verb", method)], durations);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Queue;

    #[tokio::test]
    async fn queues_are_seen_under_kubernetes_names() {
        let queue: Queue<u32> = Queue::new();
        let shutdown = tokio_util::sync::CancellationToken::new();
        let stop = shutdown.clone();
        queue.add(1);
        queue.add(1);
        queue
            .run("a-queue-of-a-test", 1, &shutdown, move |_| {
                let stop = stop.clone();
                async move {
                    stop.cancel();
                    Ok::<_, std::io::Error>(None)
                }
            })
            .await;
        queue.add(2);
        let mut page = String::new();
        write(&mut page);
        for line in [
            "# TYPE workqueue_adds counter\n",
            "workqueue_adds_total{name=\"a-queue-of-a-test\"} 2\n",
            "workqueue_depth{name=\"a-queue-of-a-test\"} 1\n",
            "workqueue_work_duration_seconds_count{name=\"a-queue-of-a-test\"} 1\n",
            "workqueue_queue_duration_seconds_bucket{name=\"a-queue-of-a-test\",le=\"+Inf\"} 1\n",
        ] {
            assert!(page.contains(line), "{line} in {page}");
        }
        drop(queue);
        page.clear();
        write(&mut page);
        assert!(!page.contains("a-queue-of-a-test"));
    }

    #[test]
    fn a_page_is_written_byte_by_byte() {
        let mut queue = QueueStats {
            depth: 2,
            adds: 7,
            retries: 1,
            unfinished: Duration::from_millis(1500),
            longest: Duration::from_secs(1),
            ..QueueStats::default()
        };
        queue.queued.observe(0.000_03);
        queue.queued.observe(2000.0);
        queue.worked.observe(0.25);
        let queues = BTreeMap::from([("other", QueueStats::default()), ("pods", queue)]);
        let mut took = Histogram::new(&REQUESTS);
        took.observe(0.125);
        took.observe(90.0);
        let get = || ("a-host", "GET".to_owned());
        let requested = RequestLabels {
            codes: BTreeMap::from([(("a-host", get().1, 200), 3), (("a-host", get().1, 404), 1)]),
            took: BTreeMap::from([(get(), took)]),
        };
        let mut page = Page::new(Format::OpenMetrics);
        write_queues(&queues, &mut page);
        write_requests(&requested, &mut page);
        let page = page.into_families();
        assert_eq!(page, include_str!("testdata/metrics.txt"));
    }

    #[test]
    fn requests_are_counted_by_method_and_code() {
        let host = "a-host-of-a-test";
        for code in [200, 200, 404] {
            requested(host, &http::Method::GET, code, Duration::from_millis(30));
        }
        let mut page = String::new();
        write(&mut page);
        for line in [
            "rest_client_requests_total{code=\"200\",host=\"a-host-of-a-test\",method=\"GET\"} 2\n",
            "rest_client_request_duration_seconds_bucket{host=\"a-host-of-a-test\",verb=\"GET\",le=\"0.1\"} 3\n",
        ] {
            assert!(page.contains(line), "{line} in {page}");
        }
    }
}

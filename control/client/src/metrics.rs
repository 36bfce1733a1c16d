//! What clients and work queues of this process did, under the names that
//! Kubernetes' components have (`rest_client_*`, `workqueue_*`), in OpenMetrics.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// Bounds of queue and work durations, in seconds: those of Kubernetes.
const QUEUED: [f64; 12] = [
    1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1000.0,
];
/// Bounds of request durations, in seconds: those of Kubernetes.
const REQUESTS: [f64; 12] = [
    0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0,
];

/// Counts by bounds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Histogram {
    counts: [u64; 13],
    sum: f64,
}

/// What is seen of a queue.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    pub depth: usize,
    pub adds: u64,
    pub retries: u64,
    pub queued: Histogram,
    pub worked: Histogram,
    /// How long work goes on that has not ended: in all, and the longest.
    pub unfinished: Duration,
    pub longest: Duration,
}

/// Something that can be looked at.
pub(crate) trait Visible: Send + Sync {
    /// As it is now.
    fn look(&self) -> Seen;
}

/// Queues that are worked on.
static QUEUES: Mutex<Vec<(&'static str, Weak<dyn Visible>)>> = Mutex::new(Vec::new());
/// Requests by method and code, and by method how long they took.
static REQUESTED: Mutex<Requested> = Mutex::new(Requested {
    codes: BTreeMap::new(),
    took: BTreeMap::new(),
});

#[derive(Debug)]
struct Requested {
    codes: BTreeMap<(Host, String, u16), u64>,
    took: BTreeMap<(Host, String), Histogram>,
}

/// Which server, as far as that is told.
type Host = &'static str;

// === impl Histogram ===

impl Histogram {
    fn observe(&mut self, took: Duration, bounds: &[f64; 12]) {
        let took = took.as_secs_f64();
        let at = bounds.iter().position(|bound| took <= *bound);
        self.counts[at.unwrap_or(bounds.len())] += 1;
        self.sum += took;
    }

    /// Notes how long a key waited, or was worked on.
    pub(crate) fn queue(&mut self, took: Duration) {
        self.observe(took, &QUEUED);
    }

    fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts) {
            *mine += theirs;
        }
        self.sum += other.sum;
    }

    fn write(&self, out: &mut String, name: &str, labels: &str, bounds: &[f64; 12]) {
        let mut all = 0;
        for (at, count) in self.counts.iter().enumerate() {
            all += count;
            let bound = bounds
                .get(at)
                .map_or_else(|| "+Inf".to_owned(), f64::to_string);
            let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{bound}\"}} {all}");
        }
        let _ = writeln!(out, "{name}_sum{{{labels}}} {}", self.sum);
        let _ = writeln!(out, "{name}_count{{{labels}}} {all}");
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
    let took_of = all.took.entry((host, method)).or_default();
    took_of.observe(took, &REQUESTS);
}

/// Writes all, without an end.
pub fn write(out: &mut String) {
    write_queues(out);
    write_requests(out);
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}.\n# TYPE {name} {kind}");
}

fn write_queues(out: &mut String) {
    let queues: Vec<(&'static str, Arc<dyn Visible>)> = {
        let all = QUEUES.lock().unwrap_or_else(PoisonError::into_inner);
        let alive = all
            .iter()
            .filter_map(|(name, queue)| Some((*name, queue.upgrade()?)));
        alive.collect()
    };
    let mut seen: BTreeMap<&str, Seen> = BTreeMap::new();
    for (name, queue) in queues {
        let now = queue.look();
        let all = seen.entry(name).or_default();
        all.depth += now.depth;
        all.adds += now.adds;
        all.retries += now.retries;
        all.queued.add(&now.queued);
        all.worked.add(&now.worked);
        all.unfinished += now.unfinished;
        all.longest = all.longest.max(now.longest);
    }
    type Number = fn(&Seen) -> f64;
    #[expect(clippy::cast_precision_loss, reason = "for metrics")]
    let numbers: [(&str, &str, &str, Number); 5] = [
        (
            "workqueue_adds",
            "counter",
            "Total number of adds handled by workqueue",
            |seen| seen.adds as f64,
        ),
        (
            "workqueue_depth",
            "gauge",
            "Current depth of workqueue",
            |seen| seen.depth as f64,
        ),
        (
            "workqueue_retries",
            "counter",
            "Total number of retries handled by workqueue",
            |seen| seen.retries as f64,
        ),
        (
            "workqueue_longest_running_processor_seconds",
            "gauge",
            "How many seconds has the longest running processor for workqueue been running",
            |seen| seen.longest.as_secs_f64(),
        ),
        (
            "workqueue_unfinished_work_seconds",
            "gauge",
            "How many seconds of work has done that is in progress and hasn't been observed by work_duration. Large values indicate stuck threads. One can deduce the number of stuck threads by observing the rate at which this increases",
            |seen| seen.unfinished.as_secs_f64(),
        ),
    ];
    for (name, kind, help, number) in numbers {
        head(out, name, kind, help);
        let total = if kind == "counter" { "_total" } else { "" };
        for (queue, seen) in &seen {
            let _ = writeln!(out, "{name}{total}{{name=\"{queue}\"}} {}", number(seen));
        }
    }
    for (name, help, queued) in [
        (
            "workqueue_queue_duration_seconds",
            "How long in seconds an item stays in workqueue before being requested",
            true,
        ),
        (
            "workqueue_work_duration_seconds",
            "How long in seconds processing an item from workqueue takes",
            false,
        ),
    ] {
        head(out, name, "histogram", help);
        for (queue, seen) in &seen {
            let histogram = if queued { &seen.queued } else { &seen.worked };
            histogram.write(out, name, &format!("name=\"{queue}\""), &QUEUED);
        }
    }
}

fn write_requests(out: &mut String) {
    let all = REQUESTED.lock().unwrap_or_else(PoisonError::into_inner);
    let name = "rest_client_requests";
    head(
        out,
        name,
        "counter",
        "Number of HTTP requests, partitioned by status code, method, and host",
    );
    for ((host, method, code), count) in &all.codes {
        let _ = writeln!(
            out,
            "{name}_total{{code=\"{code}\",host=\"{host}\",method=\"{method}\"}} {count}"
        );
    }
    let name = "rest_client_request_duration_seconds";
    head(
        out,
        name,
        "histogram",
        "Request latency in seconds. Broken down by verb, and host",
    );
    for ((host, method), took) in &all.took {
        took.write(
            out,
            name,
            &format!("host=\"{host}\",verb=\"{method}\""),
            &REQUESTS,
        );
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

//! Metrics of this process's schedulers, under kube-scheduler's names.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use control_metrics::{Format, Histogram, Kind, Page, exponential};

use crate::gangs::Verdict;
use crate::queue::PendingPods;

/// The result of a scheduling attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptResult {
    Scheduled,
    Unschedulable,
    Error,
}

impl AttemptResult {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Unschedulable => "unschedulable",
            Self::Error => "error",
        }
    }
}

/// Exponential bounds; each family has those of kube-scheduler.
static ATTEMPT: [f64; 15] = exponential(0.001, 2.0);
static SLI: [f64; 20] = exponential(0.01, 2.0);
static ATTEMPTS: [f64; 5] = exponential(1.0, 2.0);
static VICTIMS: [f64; 7] = exponential(1.0, 2.0);
static EXTENSION_POINT: [f64; 12] = exponential(0.0001, 2.0);

#[derive(Debug)]
struct Metrics {
    /// Attempts by profile and result.
    attempts: BTreeMap<(String, &'static str), (u64, Histogram)>,
    algorithm: Histogram,
    /// Attempts of PodGroups by profile and result.
    gang_attempts: BTreeMap<(String, &'static str), (u64, Histogram)>,
    /// `None`: no PodGroup was decided about.
    gang_algorithm: Option<Histogram>,
    /// Permit waits by result.
    permit_waits: BTreeMap<&'static str, Histogram>,
    /// Durations by extension point, profile and status.
    points: BTreeMap<(&'static str, String, &'static str), Histogram>,
    /// Scheduling latency by number of attempts.
    sli: BTreeMap<String, Histogram>,
    tries: Histogram,
    victims: Histogram,
    preemptions: u64,
    /// Pods by queue and event.
    incoming: BTreeMap<(&'static str, &'static str), u64>,
    pending: PendingPods,
    /// Unschedulable pods by plugin and profile.
    unschedulable: BTreeMap<(&'static str, String), usize>,
    /// Nodes, pods, assumed pods.
    cache: [usize; 3],
    leads: bool,
}

static METRICS: Mutex<Option<Metrics>> = Mutex::new(None);

fn with(change: impl FnOnce(&mut Metrics)) {
    let mut metrics: MutexGuard<'_, _> = METRICS.lock().unwrap_or_else(PoisonError::into_inner);
    change(metrics.get_or_insert_default());
}

/// An attempt at placing a pod ended.
pub(crate) fn attempt(profile: &str, outcome: AttemptResult, took: Duration) {
    with(|metrics| {
        let key = (profile.to_owned(), outcome.as_str());
        let all = metrics.attempts.entry(key);
        let (count, durations) = all.or_insert_with(|| (0, Histogram::new(&ATTEMPT)));
        *count += 1;
        durations.observe(took.as_secs_f64());
    });
}

/// A decision was made.
pub(crate) fn decided(took: Duration) {
    with(|metrics| metrics.algorithm.observe(took.as_secs_f64()));
}

/// An extension point ran.
pub(crate) fn point(point: &'static str, profile: &str, status: &'static str, took: Duration) {
    with(|metrics| {
        let key = (point, profile.to_owned(), status);
        let durations = metrics.points.entry(key);
        let durations = durations.or_insert_with(|| Histogram::new(&EXTENSION_POINT));
        durations.observe(took.as_secs_f64());
    });
}

/// A pod was placed and bound: after so many attempts, and so long after the first.
pub(crate) fn bound(attempts: u32, took: Duration) {
    with(|metrics| {
        let label = match attempts {
            15.. => "15+".to_owned(),
            _ => attempts.to_string(),
        };
        let durations = metrics.sli.entry(label);
        let durations = durations.or_insert_with(|| Histogram::new(&SLI));
        durations.observe(took.as_secs_f64());
        metrics.tries.observe(f64::from(attempts));
    });
}

/// The wait of a pod for permission to be bound ended.
pub(crate) fn permit_wait(result: &'static str, took: Duration) {
    with(|metrics| {
        let durations = metrics.permit_waits.entry(result);
        let durations = durations.or_insert_with(|| Histogram::new(&ATTEMPT));
        durations.observe(took.as_secs_f64());
    });
}

/// A decision about a PodGroup was made.
pub(crate) fn gang_decided(took: Duration) {
    with(|metrics| {
        let durations = metrics
            .gang_algorithm
            .get_or_insert_with(|| Histogram::new(&ATTEMPT));
        durations.observe(took.as_secs_f64());
    });
}

/// An attempt at placing a PodGroup ended.
pub(crate) fn gang_attempt(profile: &str, verdict: &Verdict, took: Duration) {
    let result = match verdict {
        Verdict::Scheduled => "scheduled",
        Verdict::Unschedulable => "unschedulable",
        Verdict::WaitsForPreemption => "waiting_on_preemption",
        Verdict::Failed(_) => "error",
    };
    with(|metrics| {
        let key = (profile.to_owned(), result);
        let all = metrics.gang_attempts.entry(key);
        let (count, durations) = all.or_insert_with(|| (0, Histogram::new(&ATTEMPT)));
        *count += 1;
        durations.observe(took.as_secs_f64());
    });
}

/// Pods to evict were looked for.
pub(crate) fn preemption() {
    with(|metrics| metrics.preemptions += 1);
}

/// Pods are evicted.
pub(crate) fn victims(count: usize) {
    with(|metrics| {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        metrics.victims.observe(f64::from(count));
    });
}

/// How many pods each plugin rejected at their last attempt.
pub(crate) fn rejected<'a>(all: impl Iterator<Item = (&'static str, &'a str, usize)>) {
    with(|metrics| {
        for (plugin, profile, count) in all {
            let key = (plugin, profile.to_owned());
            metrics.unschedulable.insert(key, count);
        }
    });
}

/// The state of queue and cache.
pub(crate) fn state(
    pending: PendingPods,
    incoming: impl IntoIterator<Item = ((&'static str, &'static str), u64)>,
    cache: [usize; 3],
) {
    with(|metrics| {
        metrics.pending = pending;
        metrics.cache = cache;
        for (key, count) in incoming {
            *metrics.incoming.entry(key).or_default() += count;
        }
    });
}

/// Whether this process places pods now.
pub(crate) fn leads(leads: bool) {
    with(|metrics| {
        metrics.leads = leads;
        if !leads {
            metrics.pending = PendingPods::default();
            metrics.cache = [0; 3];
            metrics.unschedulable.clear();
        }
    });
}

/// Appends all that schedulers of this process did, in OpenMetrics, without an end.
/// Without a scheduler, it appends nothing.
pub fn write(out: &mut String) {
    let metrics = METRICS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(metrics) = &*metrics {
        let mut page = Page::new(Format::OpenMetrics);
        metrics.write(&mut page);
        out.push_str(&page.into_families());
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            attempts: BTreeMap::new(),
            algorithm: Histogram::new(&ATTEMPT),
            gang_attempts: BTreeMap::new(),
            gang_algorithm: None,
            permit_waits: BTreeMap::new(),
            points: BTreeMap::new(),
            sli: BTreeMap::new(),
            tries: Histogram::new(&ATTEMPTS),
            victims: Histogram::new(&VICTIMS),
            preemptions: 0,
            incoming: BTreeMap::new(),
            pending: PendingPods::default(),
            unschedulable: BTreeMap::new(),
            cache: [0; 3],
            leads: false,
        }
    }
}

impl Metrics {
    /// Writes the metrics that exist only where PodGroups are scheduled.
    fn write_gangs(&self, page: &mut Page) {
        let Some(algorithm) = &self.gang_algorithm else {
            return;
        };
        page.family("scheduler_podgroup_schedule_attempts", Kind::Counter, "");
        for ((profile, result), (count, _)) in &self.gang_attempts {
            let labels = [("profile", profile.as_str()), ("result", *result)];
            page.sample("scheduler_podgroup_schedule_attempts_total", &labels, count);
        }
        let name = "scheduler_podgroup_scheduling_attempt_duration_seconds";
        page.family(name, Kind::Histogram, "");
        for ((profile, result), (_, durations)) in &self.gang_attempts {
            let labels = [("profile", profile.as_str()), ("result", *result)];
            page.histogram(name, &labels, durations);
        }
        let name = "scheduler_podgroup_scheduling_algorithm_duration_seconds";
        page.family(name, Kind::Histogram, "");
        page.histogram(name, &[], algorithm);
        let name = "scheduler_permit_wait_duration_seconds";
        page.family(name, Kind::Histogram, "");
        for (result, durations) in &self.permit_waits {
            page.histogram(name, &[("result", result)], durations);
        }
    }

    fn write(&self, page: &mut Page) {
        self.write_gangs(page);
        page.family("scheduler_schedule_attempts", Kind::Counter, "");
        for ((profile, result), (count, _)) in &self.attempts {
            let labels = [("profile", profile.as_str()), ("result", *result)];
            page.sample("scheduler_schedule_attempts_total", &labels, count);
        }
        let name = "scheduler_scheduling_attempt_duration_seconds";
        page.family(name, Kind::Histogram, "");
        for ((profile, result), (_, durations)) in &self.attempts {
            let labels = [("profile", profile.as_str()), ("result", *result)];
            page.histogram(name, &labels, durations);
        }
        let name = "scheduler_scheduling_algorithm_duration_seconds";
        page.family(name, Kind::Histogram, "");
        page.histogram(name, &[], &self.algorithm);
        let name = "scheduler_framework_extension_point_duration_seconds";
        page.family(name, Kind::Histogram, "");
        for ((point, profile, status), durations) in &self.points {
            let labels = [
                ("extension_point", *point),
                ("profile", profile.as_str()),
                ("status", *status),
            ];
            page.histogram(name, &labels, durations);
        }
        let name = "scheduler_pod_scheduling_sli_duration_seconds";
        page.family(name, Kind::Histogram, "");
        for (attempts, durations) in &self.sli {
            page.histogram(name, &[("attempts", attempts)], durations);
        }
        for (name, all) in [
            ("scheduler_pod_scheduling_attempts", &self.tries),
            ("scheduler_preemption_victims", &self.victims),
        ] {
            page.family(name, Kind::Histogram, "");
            page.histogram(name, &[], all);
        }
        page.family("scheduler_preemption_attempts", Kind::Counter, "");
        let name = "scheduler_preemption_attempts_total";
        page.sample(name, &[], self.preemptions);
        page.family("scheduler_queue_incoming_pods", Kind::Counter, "");
        for ((queue, event), count) in &self.incoming {
            let labels = [("event", *event), ("queue", *queue)];
            page.sample("scheduler_queue_incoming_pods_total", &labels, count);
        }
        let name = "scheduler_pending_pods";
        page.family(name, Kind::Gauge, "");
        for (queue, count) in [
            ("active", self.pending.active),
            ("backoff", self.pending.backoff),
            ("gated", self.pending.gated),
            ("unschedulable", self.pending.unschedulable),
        ] {
            page.sample(name, &[("queue", queue)], count);
        }
        let name = "scheduler_unschedulable_pods";
        page.family(name, Kind::Gauge, "");
        for ((plugin, profile), count) in &self.unschedulable {
            let labels = [("plugin", *plugin), ("profile", profile.as_str())];
            page.sample(name, &labels, count);
        }
        let name = "scheduler_cache_size";
        page.family(name, Kind::Gauge, "");
        for (kind, count) in ["nodes", "pods", "assumed_pods"].iter().zip(self.cache) {
            page.sample(name, &[("type", kind)], count);
        }
        let name = "leader_election_master_status";
        page.family(name, Kind::Gauge, "");
        let leads = u8::from(self.leads);
        page.sample(name, &[("name", "kube-scheduler")], leads);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_written_byte_by_byte() {
        let observed = |values: &[f64], bounds: &'static [f64]| {
            let mut histogram = Histogram::new(bounds);
            for value in values {
                histogram.observe(*value);
            }
            histogram
        };
        let profile = || "default-scheduler".to_owned();
        let metrics = Metrics {
            attempts: BTreeMap::from([
                (
                    (profile(), "scheduled"),
                    (2, observed(&[0.0005, 0.25], &ATTEMPT)),
                ),
                (
                    (profile(), "unschedulable"),
                    (1, observed(&[99.0], &ATTEMPT)),
                ),
            ]),
            algorithm: observed(&[0.003], &ATTEMPT),
            gang_attempts: BTreeMap::from([(
                (profile(), "waiting_on_preemption"),
                (1, observed(&[0.02], &ATTEMPT)),
            )]),
            gang_algorithm: Some(observed(&[0.002], &ATTEMPT)),
            permit_waits: BTreeMap::from([("Success", observed(&[0.001], &ATTEMPT))]),
            points: BTreeMap::from([(
                ("Filter", profile(), "Success"),
                observed(&[0.0001, 0.3], &EXTENSION_POINT),
            )]),
            sli: BTreeMap::from([("1".to_owned(), observed(&[0.02, 1e6], &SLI))]),
            tries: observed(&[1.0, 17.0], &ATTEMPTS),
            victims: Histogram::new(&VICTIMS),
            preemptions: 4,
            incoming: BTreeMap::from([(("active", "BackoffComplete"), 2)]),
            pending: PendingPods {
                active: 3,
                backoff: 1,
                gated: 0,
                unschedulable: 5,
            },
            unschedulable: BTreeMap::from([(("NodeAffinity", profile()), 6)]),
            cache: [10, 300, 7],
            leads: true,
        };
        let mut page = Page::new(Format::OpenMetrics);
        metrics.write(&mut page);
        let page = page.into_families();
        assert_eq!(page, include_str!("testdata/metrics.txt"));
    }

    #[test]
    fn figures_stand_under_the_names_of_kube_scheduler() {
        let mut metrics = Metrics {
            pending: PendingPods {
                active: 3,
                ..PendingPods::default()
            },
            ..Metrics::default()
        };
        metrics.algorithm.observe(0.003);
        metrics.algorithm.observe(1e9);
        metrics.incoming.insert(("active", "BackoffComplete"), 2);
        let mut page = Page::new(Format::OpenMetrics);
        metrics.write(&mut page);
        let out = page.into_families();
        for line in [
            "scheduler_scheduling_algorithm_duration_seconds_bucket{le=\"0.002\"} 0",
            "scheduler_scheduling_algorithm_duration_seconds_bucket{le=\"0.004\"} 1",
            "scheduler_scheduling_algorithm_duration_seconds_bucket{le=\"16.384\"} 1",
            "scheduler_scheduling_algorithm_duration_seconds_bucket{le=\"+Inf\"} 2",
            "scheduler_scheduling_algorithm_duration_seconds_count 2",
            "scheduler_queue_incoming_pods_total{event=\"BackoffComplete\",queue=\"active\"} 2",
            "scheduler_pending_pods{queue=\"active\"} 3",
        ] {
            assert!(out.lines().any(|it| it == line), "{line}\n{out}");
        }
    }
}

//! What the schedulers of this process did, under kube-scheduler's names.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::queue::Pending;

/// How an attempt at placing a pod ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Scheduled,
    Unschedulable,
    Error,
}

impl Outcome {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Unschedulable => "unschedulable",
            Self::Error => "error",
        }
    }
}

/// Bounds that double.
#[derive(Clone, Copy)]
struct Buckets {
    first: f64,
    count: u8,
}

const ATTEMPT: Buckets = Buckets {
    first: 0.001,
    count: 15,
};
const SLI: Buckets = Buckets {
    first: 0.01,
    count: 20,
};
const ATTEMPTS: Buckets = Buckets {
    first: 1.0,
    count: 5,
};
const VICTIMS: Buckets = Buckets {
    first: 1.0,
    count: 7,
};
const EXTENSION_POINT: Buckets = Buckets {
    first: 0.0001,
    count: 12,
};

/// Observations by bounds; the last is above all.
#[derive(Debug, Default)]
struct Histogram {
    counts: Vec<u64>,
    sum: f64,
}

#[derive(Debug, Default)]
struct Metrics {
    /// By profile and result.
    attempts: BTreeMap<(String, &'static str), (u64, Histogram)>,
    algorithm: Histogram,
    /// By extension point, profile and status.
    points: BTreeMap<(&'static str, String, &'static str), Histogram>,
    /// By number of attempts.
    sli: BTreeMap<String, Histogram>,
    tries: Histogram,
    victims: Histogram,
    preemptions: u64,
    /// By queue and event.
    incoming: BTreeMap<(&'static str, &'static str), u64>,
    pending: Pending,
    /// By plugin and profile.
    unschedulable: BTreeMap<(&'static str, String), u64>,
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
pub(crate) fn attempt(profile: &str, outcome: Outcome, took: Duration) {
    with(|metrics| {
        let key = (profile.to_owned(), outcome.as_str());
        let (count, durations) = metrics.attempts.entry(key).or_default();
        *count += 1;
        durations.observe(took.as_secs_f64(), ATTEMPT);
    });
}

/// A decision was made.
pub(crate) fn decided(took: Duration) {
    with(|metrics| metrics.algorithm.observe(took.as_secs_f64(), ATTEMPT));
}

/// An extension point ran.
pub(crate) fn point(point: &'static str, profile: &str, status: &'static str, took: Duration) {
    with(|metrics| {
        let key = (point, profile.to_owned(), status);
        let durations = metrics.points.entry(key).or_default();
        durations.observe(took.as_secs_f64(), EXTENSION_POINT);
    });
}

/// A pod was placed and bound: after so many attempts, and so long after the first.
pub(crate) fn bound(attempts: u32, took: Duration) {
    with(|metrics| {
        let label = match attempts {
            15.. => "15+".to_owned(),
            _ => attempts.to_string(),
        };
        let durations = metrics.sli.entry(label).or_default();
        durations.observe(took.as_secs_f64(), SLI);
        metrics.tries.observe(f64::from(attempts), ATTEMPTS);
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
        metrics.victims.observe(f64::from(count), VICTIMS);
    });
}

/// A plugin rejected a pod on all nodes that came to it.
pub(crate) fn rejected(plugin: &'static str, profile: &str) {
    with(|metrics| {
        let key = (plugin, profile.to_owned());
        *metrics.unschedulable.entry(key).or_default() += 1;
    });
}

/// The state of queue and cache.
pub(crate) fn state(
    pending: Pending,
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
            metrics.pending = Pending::default();
            metrics.cache = [0; 3];
        }
    });
}

impl Histogram {
    fn observe(&mut self, value: f64, buckets: Buckets) {
        self.counts.resize(usize::from(buckets.count) + 1, 0);
        let mut bound = buckets.first;
        let mut at = 0;
        while at < usize::from(buckets.count) && value > bound {
            bound *= 2.0;
            at += 1;
        }
        if let Some(count) = self.counts.get_mut(at) {
            *count += 1;
        }
        self.sum += value;
    }

    fn write(&self, out: &mut String, name: &str, labels: &str, buckets: Buckets) {
        let (comma, braces) = match labels {
            "" => ("", String::new()),
            labels => (",", format!("{{{labels}}}")),
        };
        let mut all = 0;
        let mut bound = buckets.first;
        for at in 0..=usize::from(buckets.count) {
            all += self.counts.get(at).copied().unwrap_or(0);
            let le = if at == usize::from(buckets.count) {
                "+Inf".to_owned()
            } else {
                bound.to_string()
            };
            let _ = writeln!(out, "{name}_bucket{{{labels}{comma}le=\"{le}\"}} {all}");
            bound *= 2.0;
        }
        let _ = writeln!(out, "{name}_sum{braces} {}", self.sum);
        let _ = writeln!(out, "{name}_count{braces} {all}");
    }
}

/// Writes all that schedulers of this process did, in OpenMetrics, without an end. Nothing
/// if there was none.
pub fn write(out: &mut String) {
    let metrics = METRICS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(metrics) = &*metrics {
        metrics.write(out);
    }
}

impl Metrics {
    fn write(&self, out: &mut String) {
        fn head(out: &mut String, name: &str, kind: &str) {
            let _ = writeln!(out, "# TYPE {name} {kind}");
        }
        head(out, "scheduler_schedule_attempts", "counter");
        for ((profile, result), (count, _)) in &self.attempts {
            let _ = writeln!(
                out,
                "scheduler_schedule_attempts_total{{profile=\"{profile}\",result=\"{result}\"}} {count}"
            );
        }
        let name = "scheduler_scheduling_attempt_duration_seconds";
        head(out, name, "histogram");
        for ((profile, result), (_, durations)) in &self.attempts {
            let labels = format!("profile=\"{profile}\",result=\"{result}\"");
            durations.write(out, name, &labels, ATTEMPT);
        }
        let name = "scheduler_scheduling_algorithm_duration_seconds";
        head(out, name, "histogram");
        self.algorithm.write(out, name, "", ATTEMPT);
        let name = "scheduler_framework_extension_point_duration_seconds";
        head(out, name, "histogram");
        for ((point, profile, status), durations) in &self.points {
            let labels =
                format!("extension_point=\"{point}\",profile=\"{profile}\",status=\"{status}\"");
            durations.write(out, name, &labels, EXTENSION_POINT);
        }
        let name = "scheduler_pod_scheduling_sli_duration_seconds";
        head(out, name, "histogram");
        for (attempts, durations) in &self.sli {
            durations.write(out, name, &format!("attempts=\"{attempts}\""), SLI);
        }
        let name = "scheduler_pod_scheduling_attempts";
        head(out, name, "histogram");
        self.tries.write(out, name, "", ATTEMPTS);
        let name = "scheduler_preemption_victims";
        head(out, name, "histogram");
        self.victims.write(out, name, "", VICTIMS);
        head(out, "scheduler_preemption_attempts", "counter");
        let _ = writeln!(
            out,
            "scheduler_preemption_attempts_total {}",
            self.preemptions
        );
        head(out, "scheduler_queue_incoming_pods", "counter");
        for ((queue, event), count) in &self.incoming {
            let _ = writeln!(
                out,
                "scheduler_queue_incoming_pods_total{{event=\"{event}\",queue=\"{queue}\"}} {count}"
            );
        }
        head(out, "scheduler_pending_pods", "gauge");
        for (queue, count) in [
            ("active", self.pending.active),
            ("backoff", self.pending.backoff),
            ("gated", self.pending.gated),
            ("unschedulable", self.pending.unschedulable),
        ] {
            let _ = writeln!(out, "scheduler_pending_pods{{queue=\"{queue}\"}} {count}");
        }
        head(out, "scheduler_unschedulable_pods", "gauge");
        for ((plugin, profile), count) in &self.unschedulable {
            let _ = writeln!(
                out,
                "scheduler_unschedulable_pods{{plugin=\"{plugin}\",profile=\"{profile}\"}} {count}"
            );
        }
        head(out, "scheduler_cache_size", "gauge");
        for (kind, count) in ["nodes", "pods", "assumed_pods"].iter().zip(self.cache) {
            let _ = writeln!(out, "scheduler_cache_size{{type=\"{kind}\"}} {count}");
        }
        head(out, "leader_election_master_status", "gauge");
        let leads = u8::from(self.leads);
        let _ = writeln!(
            out,
            "leader_election_master_status{{name=\"kube-scheduler\"}} {leads}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_under_the_names_of_kube_scheduler() {
        let mut metrics = Metrics {
            pending: Pending {
                active: 3,
                ..Pending::default()
            },
            ..Metrics::default()
        };
        metrics.algorithm.observe(0.003, ATTEMPT);
        metrics.algorithm.observe(1e9, ATTEMPT);
        metrics.incoming.insert(("active", "BackoffComplete"), 2);
        let mut out = String::new();
        metrics.write(&mut out);
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

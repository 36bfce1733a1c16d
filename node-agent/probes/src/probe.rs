//! Probes: asked again and again, with a memory for thresholds.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use node_agent_cri::observed::ObservedPod;
use node_agent_cri::{Runtime, observed};
use node_agent_objects::pod::{Container, Pod, Probe};
use node_agent_objects::times::from_nanos;
use rustc_hash::FxHashMap;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::hooks::{self, HookOutcome, HookTarget};

/// The kind of a probe: startup, liveness or readiness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProbeKind {
    /// Whether the container has started; the other two wait for it.
    Startup,
    /// Whether it lives; it is restarted when not.
    Liveness,
    /// Whether it takes requests.
    Readiness,
}

impl ProbeKind {
    /// As events name it.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Liveness => "Liveness",
            Self::Readiness => "Readiness",
        }
    }

    fn of(self, container: &Container) -> Option<&Probe> {
        match self {
            Self::Startup => container.startup_probe.as_ref(),
            Self::Liveness => container.liveness_probe.as_ref(),
            Self::Readiness => container.readiness_probe.as_ref(),
        }
    }
}

/// Counts consecutive equal results of a probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResultCounter {
    last: Option<bool>,
    run: i64,
}

impl ResultCounter {
    /// Notes a result. What it means, once there were enough of its kind in a
    /// row: `successThreshold` good ones, `failureThreshold` bad ones.
    pub fn note(&mut self, good: bool, probe: &Probe) -> Option<bool> {
        if self.last == Some(good) {
            self.run = self.run.saturating_add(1);
        } else {
            self.last = Some(good);
            self.run = 1;
        }
        let needed = if good {
            probe.success_threshold
        } else {
            probe.failure_threshold
        };
        (self.run >= needed.max(1)).then_some(good)
    }
}

/// The result of a probe after its threshold was reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeResult {
    /// The container's id.
    pub id: String,
    /// Which probe.
    pub kind: ProbeKind,
    /// Whether it is well.
    pub good: bool,
}

/// An event about a probe.
#[derive(Clone, Debug)]
pub struct ProbeEvent {
    /// The container's name.
    pub container: String,
    /// The event's reason.
    pub reason: &'static str,
    /// The event's message.
    pub message: String,
}

/// The container and kind of a probe, as metrics label it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProbeSubject {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// The pod's uid.
    pub uid: String,
    /// The container's name.
    pub container: String,
    /// Which probe.
    pub kind: ProbeKind,
}

/// Numbers of probes by result: `successful`, `failed` or `unknown`.
#[derive(Debug, Default)]
pub struct ProbeCounts(Mutex<BTreeMap<(ProbeSubject, &'static str), u64>>);

impl ProbeCounts {
    fn note(&self, probe: &ProbeSubject, result: &'static str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *all.entry((probe.clone(), result)).or_default() += 1;
    }

    /// Forgets a pod that is gone.
    pub fn forget(&self, uid: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(probe, _), _| probe.uid != uid);
    }

    /// All, in order.
    #[must_use]
    pub fn all(&self) -> Vec<(ProbeSubject, &'static str, u64)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter()
            .map(|((probe, result), count)| (probe.clone(), *result, *count))
            .collect()
    }
}

/// A message from a probe's task to its worker.
#[derive(Clone, Debug)]
pub enum ProbeReport {
    /// A result.
    Found(ProbeResult),
    /// An event.
    Note(ProbeEvent),
}

/// The probes of one pod, each in a task of its own.
pub struct Probes {
    runtime: Arc<dyn Runtime>,
    reports: mpsc::UnboundedSender<ProbeReport>,
    counts: Arc<ProbeCounts>,
    running: FxHashMap<(String, ProbeKind), AbortHandle>,
}

impl Probes {
    /// None yet; they will report to `reports` and be counted in `counts`.
    #[must_use]
    pub fn new(
        runtime: Arc<dyn Runtime>,
        reports: mpsc::UnboundedSender<ProbeReport>,
        counts: Arc<ProbeCounts>,
    ) -> Self {
        Self {
            runtime,
            reports,
            counts,
            running: FxHashMap::default(),
        }
    }

    /// Starts the probes that should go on and ends those that should not. `address`: where the
    /// pod's containers are reached.
    pub fn sync(
        &mut self,
        pod: &Arc<Pod>,
        observed: &ObservedPod,
        address: &str,
        started: &FxHashMap<String, bool>,
        live: bool,
    ) {
        let mut wanted = Vec::new();
        for container in pod.spec.all_containers() {
            let Some(record) = observed.latest(&container.name).filter(|r| r.running()) else {
                continue;
            };
            let is_started = started.get(&record.id).copied().unwrap_or(false);
            for kind in [
                ProbeKind::Startup,
                ProbeKind::Liveness,
                ProbeKind::Readiness,
            ] {
                // while a pod ends, only its readiness still matters
                let due = match kind {
                    ProbeKind::Startup => live && !is_started,
                    ProbeKind::Liveness => live && is_started,
                    ProbeKind::Readiness => is_started,
                };
                if due && kind.of(container).is_some() {
                    wanted.push((container, record, kind));
                }
            }
        }
        self.running.retain(|(id, kind), task| {
            let keep = wanted.iter().any(|(_, r, k)| r.id == *id && k == kind);
            if !keep {
                task.abort();
            }
            keep
        });
        for (container, record, kind) in wanted {
            let key = (record.id.clone(), kind);
            if self.running.contains_key(&key) {
                continue;
            }
            let task = ProbeTask {
                runtime: self.runtime.clone(),
                reports: self.reports.clone(),
                counts: self.counts.clone(),
                pod: pod.clone(),
                name: container.name.clone(),
                record: record.clone(),
                kind,
                ip: address.into(),
            };
            let task = control_supervise::task("probe")
                .detail(format!("{}/{}", pod.namespace(), pod.name()))
                .spawn_restarting(move || task.clone().run());
            self.running.insert(key, task.abort_handle());
        }
    }

    /// Ends all.
    pub fn stop(&mut self) {
        for (_, task) in self.running.drain() {
            task.abort();
        }
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        self.stop();
    }
}

#[derive(Clone)]
struct ProbeTask {
    runtime: Arc<dyn Runtime>,
    reports: mpsc::UnboundedSender<ProbeReport>,
    counts: Arc<ProbeCounts>,
    pod: Arc<Pod>,
    name: String,
    record: Arc<observed::ObservedContainer>,
    kind: ProbeKind,
    ip: Arc<str>,
}

impl ProbeTask {
    async fn run(self) {
        let Some(container) = self.pod.spec.container(&self.name) else {
            return;
        };
        let Some(probe) = self.kind.of(container) else {
            return;
        };
        let seconds = |n: i64| Duration::from_secs(u64::try_from(n).unwrap_or(0));
        let delay = seconds(probe.initial_delay_seconds);
        let up = Timestamp::now().duration_since(from_nanos(self.record.started_at));
        let up = Duration::try_from(up).unwrap_or_default();
        tokio::time::sleep(delay.saturating_sub(up)).await;
        let limit = seconds(probe.timeout_seconds.max(1));
        let mut period = tokio::time::interval(seconds(probe.period_seconds.max(1)));
        period.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let counted = ProbeSubject {
            namespace: self.pod.namespace().to_owned(),
            pod: self.pod.name().to_owned(),
            uid: self.pod.uid().to_owned(),
            container: self.name.clone(),
            kind: self.kind,
        };
        let mut tally = ResultCounter::default();
        let mut told = None;
        loop {
            period.tick().await;
            let place = HookTarget {
                runtime: &*self.runtime,
                container,
                id: &self.record.id,
                ip: &self.ip,
            };
            let outcome = hooks::run(&probe.handler, place, limit).await;
            let result = match &outcome {
                HookOutcome::Success | HookOutcome::Warning(_) => "successful",
                HookOutcome::Failure(_) => "failed",
                HookOutcome::Unknown(_) => "unknown",
            };
            self.counts.note(&counted, result);
            let good = match outcome {
                HookOutcome::Success => true,
                HookOutcome::Warning(message) => {
                    let message = format!("{} probe warning: {message}", self.kind.title());
                    self.tell("ProbeWarning", message);
                    true
                }
                HookOutcome::Failure(message) => {
                    let message = format!("{} probe failed: {message}", self.kind.title());
                    self.tell("Unhealthy", message);
                    false
                }
                HookOutcome::Unknown(message) => {
                    let message = format!(
                        "{} probe errored and resulted in unknown state: {message}",
                        self.kind.title()
                    );
                    self.tell("Unhealthy", message);
                    continue;
                }
            };
            let Some(verdict) = tally.note(good, probe) else {
                continue;
            };
            if told != Some(verdict) {
                told = Some(verdict);
                let found = ProbeResult {
                    id: self.record.id.clone(),
                    kind: self.kind,
                    good: verdict,
                };
                if self.reports.send(ProbeReport::Found(found)).is_err() {
                    return;
                }
            }
            // a verdict of these two is final for this container
            let is_final = match self.kind {
                ProbeKind::Startup => true,
                ProbeKind::Liveness => !verdict,
                ProbeKind::Readiness => false,
            };
            if is_final {
                return;
            }
        }
    }

    fn tell(&self, reason: &'static str, message: String) {
        let note = ProbeEvent {
            reason,
            container: self.name.clone(),
            message,
        };
        // nobody listens any more when the pod is gone
        let _ = self.reports.send(ProbeReport::Note(note));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn probe(success: i64, failure: i64) -> Probe {
        Probe {
            success_threshold: success,
            failure_threshold: failure,
            ..Probe::default()
        }
    }

    #[test]
    fn verdicts_need_their_number_of_results_in_a_row() {
        let mut tally = ResultCounter::default();
        let probe = probe(2, 3);
        let results = [
            true, true, false, false, true, false, false, false, false, true, true,
        ];
        let verdicts: Vec<Option<bool>> = results.iter().map(|r| tally.note(*r, &probe)).collect();
        assert_eq!(
            verdicts,
            [
                None,
                Some(true),
                None,
                None,
                None,
                None,
                None,
                Some(false),
                Some(false),
                None,
                Some(true)
            ]
        );
    }

    proptest! {
        #[test]
        fn a_verdict_is_always_backed_by_its_threshold(
            results in proptest::collection::vec(any::<bool>(), 1..50), success in 1_i64..5, failure in 1_i64..5
        ) {
            let probe = probe(success, failure);
            let mut tally = ResultCounter::default();
            for at in 0..results.len() {
                let verdict = tally.note(results[at], &probe);
                let needed = usize::try_from(if results[at] { success } else { failure }).unwrap();
                let run = results[..=at].iter().rev().take_while(|r| **r == results[at]).count();
                prop_assert_eq!(verdict, (run >= needed).then_some(results[at]));
            }
        }
    }
}

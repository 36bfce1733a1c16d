//! All that is known of one pod, and how it is kept up with what happens.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use node_agent_cri::observe;
use node_agent_cri::observed::ObservedPod;
use node_agent_objects::pod::Pod;
use node_agent_pod_registry::TerminationCause;
use node_agent_pod_resources::resize::{PendingResize, ResizeGrant};
use node_agent_pod_resources::{pod_level_resources, resize};
use node_agent_pod_volumes::{PodVolumes, TokenCache};
use node_agent_probes::probe::{ProbeKind, ProbeReport, Probes};
use rustc_hash::FxHashMap;
use tokio::sync::{Notify, mpsc};

use super::allocation::PodAllocation;
use super::backoff::{Backoff, later};
use super::conditions::RESIZE_CONDITIONS;
use super::live_status::{LiveStatus, StatusSnapshot};
use super::next::{self, PlanStep, PodGoal, PodMemory, ProbeVerdict};
use super::report::StatusReporter;
use super::worker::{DesiredPod, end_grace};
use crate::pod::context::PodContext;

/// The state of one pod's worker.
pub(super) struct PodState {
    pub(super) shared: Arc<PodContext>,
    /// The pod with the resources that it was granted.
    pub(super) pod: Arc<Pod>,
    /// The pod as the API has it.
    pub(super) wanted: Arc<Pod>,
    pub(super) grant: ResizeGrant,
    pub(super) pending: Option<PendingResize>,
    pub(super) observed: Arc<ObservedPod>,
    pub(super) memory: PodMemory,
    /// What was written down of it by an agent before this one.
    before: Option<PodAllocation>,
    pub(super) volumes: PodVolumes,
    pub(super) tokens: TokenCache,
    pub(super) volumes_failed: u32,
    /// Since when the volumes cannot be made.
    pub(super) volumes_lack: Option<Instant>,
    pub(super) sandbox_backoff: Backoff,
    pub(super) image_backoff: FxHashMap<String, Backoff>,
    pub(super) gone: bool,
    pub(super) volumes_made: Option<Instant>,
    pub(super) step: PlanStep,
    /// The status, with what readiness probes say.
    pub(super) live: Arc<LiveStatus>,
    pub(super) sentence: Option<TerminationCause>,
    sentence_grace: Option<i64>,
    pub(super) terminal: bool,
    /// None for a pod that the API does not know (yet).
    pub(super) reporter: Option<Arc<StatusReporter>>,
    mirror: Option<Arc<Pod>>,
    pub(super) looked: Instant,
    /// When the grant was last compared with what is wanted.
    pub(super) tried: Instant,
    /// Notified when an object in a volume changed.
    pub(super) stale: Arc<Notify>,
}

impl PodState {
    pub(super) fn new(
        shared: Arc<PodContext>,
        pod: Arc<Pod>,
        reports: mpsc::UnboundedSender<ProbeReport>,
    ) -> Self {
        let reporter = (!pod.is_static())
            .then(|| StatusReporter::new(shared.client.clone(), pod.clone()).into());
        let probes = Probes::new(shared.runtime.clone(), reports, shared.probes.clone());
        let volumes = PodVolumes::new(&shared.node.root, pod.uid());
        let before = shared.allocations.get(pod.uid());
        let written = before.as_ref().map(|held| held.granted.pod.as_ref());
        let grant = ResizeGrant::from_status(&pod.spec, &pod.status, written);
        let wanted = pod;
        let (pod, pending) = if grant.covers(&wanted.spec) {
            (wanted.clone(), None)
        } else {
            let told = wanted.status.condition(RESIZE_CONDITIONS[0]);
            (
                Arc::new(grant.applied(&wanted)),
                told.and_then(PendingResize::from_condition),
            )
        };
        Self {
            wanted,
            grant,
            pending,
            live: Arc::new(LiveStatus::new(shared.clone(), pod.status.clone(), probes)),
            observed: Arc::new(ObservedPod::default()),
            memory: PodMemory::default(),
            before,
            volumes,
            tokens: TokenCache::default(),
            volumes_failed: 0,
            volumes_lack: None,
            sandbox_backoff: Backoff::new(Duration::from_secs(1), Duration::from_secs(30)),
            image_backoff: FxHashMap::default(),
            gone: false,
            volumes_made: None,
            step: PlanStep::default(),
            sentence: None,
            sentence_grace: None,
            terminal: false,
            reporter,
            mirror: None,
            looked: Instant::now(),
            tried: Instant::now(),
            stale: Arc::default(),
            shared,
            pod,
        }
    }

    /// Whether the pod was not granted what it asks for (yet).
    pub(super) fn is_behind(&self) -> bool {
        self.pending.is_some() || !Arc::ptr_eq(&self.pod, &self.wanted)
    }

    /// Has itself told of changes of what is in the volumes.
    pub(super) fn follow(&self) {
        let keys = PodVolumes::objects(&self.pod);
        self.shared
            .objects
            .follow(self.pod.uid(), &keys, &self.stale);
    }

    /// Takes over what an agent before this one left running: what the API
    /// says of those very containers still holds.
    pub(super) async fn adopt(&mut self) {
        self.refresh().await;
        let before = self.before.take();
        if !self.observed.sandboxes.is_empty() {
            let written = before.as_ref().map(|held| held.in_force.pod.clone());
            self.memory.pod_in_force = Some(match written {
                Some(pod) => pod.unwrap_or_default(),
                None => resize::pod_in_force(&self.pod.spec, &self.pod.status),
            });
        }
        let resizing = self.pod.status.condition(RESIZE_CONDITIONS[1]);
        self.memory.resizing = resizing.map(|c| c.observed_generation.unwrap_or_default());
        for record in self.observed.containers.clone() {
            let told = self.pod.status.container(&record.name);
            let same = told.filter(|t| t.container_id.ends_with(&format!("//{}", record.id)));
            if let Some(told) = same.filter(|_| record.running()) {
                if told.started == Some(true) {
                    self.memory.started.insert(record.id.clone(), true);
                }
                if told.ready {
                    self.live.set_ready(record.id.clone(), true);
                }
                let in_force = told.resources.clone().or_else(|| {
                    let container = self.pod.spec.container(&record.name);
                    container.map(|c| c.resources.clone())
                });
                if let Some(in_force) = in_force {
                    // the status says nothing of limits that are the pod's, and who
                    // wrote down what it had may not have known of them
                    let written = before.as_ref();
                    let written = written.and_then(|b| b.in_force.containers.get(&record.name));
                    let held = pod_level_resources::effective(&in_force, written);
                    let held =
                        pod_level_resources::effective(&held, self.memory.pod_in_force.as_ref());
                    self.memory.in_force.insert(record.id.clone(), held);
                }
            }
        }
        self.after_refresh();
    }

    pub(super) fn take_pod(&mut self, wanted: DesiredPod) {
        self.gone |= wanted.gone;
        if !wanted.gone
            && !wanted.pod.is_static()
            && let Some(reporter) = &self.reporter
        {
            reporter.seen(wanted.pod.clone());
        }
        self.take_mirror(wanted.mirror);
        if let Some((sentence, grace)) = wanted.ended
            && !self.terminal
        {
            // the first reason counts, and the shortest time
            self.sentence.get_or_insert(sentence);
            let held = self.sentence_grace.unwrap_or(grace);
            self.sentence_grace = Some(held.min(grace));
        }
        let used = self.pod.spec.used_volumes().count();
        self.wanted = wanted.pod;
        self.allocate();
        if self.pod.spec.used_volumes().count() != used {
            // An ephemeral container has a volume that no other has.
            self.volumes_made = None;
        }
        // labels and annotations may be in a volume
        if PodVolumes::is_live(&self.pod) && self.memory.volumes_ready {
            self.volumes_made = self.volumes_made.filter(|_| {
                !self.pod.spec.volumes.iter().any(|v| {
                    matches!(
                        v.source,
                        node_agent_objects::volume::VolumeSource::DownwardApi(_)
                            | node_agent_objects::volume::VolumeSource::Projected(_)
                    )
                })
            });
        }
    }

    /// Takes over the API's image of a static pod: its status is written there.
    fn take_mirror(&mut self, mirror: Option<Arc<Pod>>) {
        let uid = |pod: &Option<Arc<Pod>>| pod.as_ref().map(|p| p.uid().to_owned());
        match (&mirror, &self.reporter) {
            (None, _) if self.mirror.is_some() => self.reporter = None,
            (None, _) => return,
            (Some(now), Some(reporter)) if uid(&self.mirror) == uid(&mirror) => {
                reporter.seen(now.clone());
            }
            (Some(now), _) => {
                let reporter = StatusReporter::new(self.shared.client.clone(), now.clone());
                reporter.set(self.live.status(), true);
                self.reporter = Some(reporter.into());
            }
        }
        self.mirror = mirror;
    }

    pub(super) fn take_report(&mut self, report: ProbeReport) {
        match report {
            ProbeReport::Note(note) => {
                self.shared.events.warning(
                    &self.pod,
                    Some(&note.container),
                    note.reason,
                    note.message,
                );
            }
            ProbeReport::Found(found) => match (found.kind, found.good) {
                (ProbeKind::Readiness, good) => {
                    self.live.set_ready(found.id, good);
                }
                (ProbeKind::Startup, true) => {
                    self.memory.started.insert(found.id, true);
                    self.after_refresh();
                }
                (ProbeKind::Startup, false) => {
                    self.memory
                        .verdicts
                        .insert(found.id, ProbeVerdict::NeverStarted);
                }
                (ProbeKind::Liveness, true) => {}
                (ProbeKind::Liveness, false) => {
                    self.memory.verdicts.insert(found.id, ProbeVerdict::Dead);
                }
            },
        }
    }

    pub(super) fn aim(&self) -> PodGoal {
        let wanted = DesiredPod {
            pod: self.pod.clone(),
            gone: self.gone,
            ended: self.sentence.clone().zip(self.sentence_grace),
            mirror: None,
        };
        if let Some(grace) = end_grace(&wanted) {
            return PodGoal::End { grace };
        }
        let over = self.live.status().is_terminal() || self.pod.status.is_terminal();
        if self.sentence.is_some() || over {
            return PodGoal::End {
                grace: self.pod.spec.grace_period(),
            };
        }
        PodGoal::Run
    }

    /// Decides what is next.
    pub(super) fn decide(&mut self, aim: PodGoal) {
        self.step = next::next(&next::PlanInput {
            pod: &self.pod,
            aim,
            observed: &self.observed,
            memory: &self.memory,
            now: Timestamp::now(),
        });
        let live = aim == PodGoal::Run;
        for (name, waiting) in &self.step.waiting {
            let status = self.live.status();
            let told = status
                .container(name)
                .and_then(|c| c.state.waiting.as_ref());
            if waiting.reason == "CrashLoopBackOff"
                && told.is_none_or(|t| t.reason != waiting.reason)
            {
                let message = format!(
                    "Back-off restarting failed container {name} in pod {}",
                    next::describe(&self.pod)
                );
                self.shared
                    .events
                    .warning(&self.pod, Some(name), "BackOff", message);
            }
        }
        let started = &self.memory.started;
        self.live
            .sync_probes(&self.pod, &self.observed, started, live);
    }

    /// Whether the pod's time is over now: the sentence is passed once.
    pub(super) fn is_sentenced_now(&mut self, aim: PodGoal) -> bool {
        if aim != PodGoal::Run || self.deadline().is_none_or(|at| at > Timestamp::now()) {
            return false;
        }
        let message = "Pod was active on the node longer than the specified deadline";
        self.shared
            .events
            .normal(&self.pod, None, "DeadlineExceeded", message);
        self.sentence = Some(TerminationCause {
            reason: "DeadlineExceeded".to_owned(),
            message: message.to_owned(),
            disruption: false,
        });
        true
    }

    /// When the pod's `activeDeadlineSeconds` are over.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        if self.sentence.is_some() {
            return None;
        }
        let seconds = u64::try_from(self.pod.spec.active_deadline_seconds?).ok()?;
        let start: Timestamp = self.live.status().start_time.as_ref()?.parse().ok()?;
        Some(later(start, Duration::from_secs(seconds)))
    }

    /// When the next token has to be renewed.
    pub(super) fn token_refresh(&self) -> Option<Timestamp> {
        self.tokens
            .values()
            .map(node_agent_objects::source::ServiceAccountToken::refresh_at)
            .min()
    }

    /// Asks the runtime anew. What cannot be asked stays as it was.
    pub(super) async fn refresh(&mut self) {
        let before = self.observed.clone();
        match observe::pod(&*self.shared.runtime, self.pod.uid(), &before).await {
            Ok(observed) => {
                self.looked = Instant::now();
                self.observed = Arc::new(observed);
            }
            Err(error) => {
                tracing::warn!(pod = self.pod.name(), %error, "failed to query the container runtime");
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        }
        self.after_refresh();
        self.prune().await;
    }

    /// What follows from containers as they are.
    fn after_refresh(&mut self) {
        for record in self.observed.containers.iter().filter(|c| c.running()) {
            let waits = self
                .pod
                .spec
                .container(&record.name)
                .is_some_and(|c| c.startup_probe.is_some());
            if !waits {
                self.memory.started.insert(record.id.clone(), true);
            }
        }
        let lives = |id: &String| self.observed.containers.iter().any(|c| c.id == *id);
        self.memory.started.retain(|id, _| lives(id));
        self.memory.verdicts.retain(|id, _| lives(id));
        self.memory.in_force.retain(|id, _| lives(id));
        self.memory.again.retain(lives);
        self.live.retain(lives);
    }

    /// Makes the status and has it written. What somebody may wait for is
    /// written at once.
    pub(super) fn publish(&mut self, at_once: bool) {
        self.follow_resize();
        let snapshot = StatusSnapshot {
            pod: self.pod.clone(),
            observed: self.observed.clone(),
            memory: self.memory.clone(),
            waiting: self.step.waiting.clone(),
            terminal: self.terminal || self.step.finished,
            sentence: self.sentence.clone(),
            pending: self.pending.clone(),
            gone: self.gone,
            places: self.volumes.places(),
            reporter: self.reporter.clone(),
        };
        self.live.publish(snapshot, at_once);
    }
}

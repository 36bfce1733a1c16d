//! Acts on probes while an action of the pod runs.
//!
//! An action may take long: an image is fetched, a container gets its grace period. What
//! probes find meanwhile must not wait for that: a container that is not ready any more
//! gets no more requests, and one that is dead is ended.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use node_agent_cri::observe;
use node_agent_probes::probe::{ProbeKind, ProbeReport, ProbeResult};
use rustc_hash::FxHashSet;
use tokio::sync::{Notify, mpsc};

use super::kill;
use super::live_status::LiveStatus;
use super::next::{self, PodAction, PodGoal, ProbeVerdict};
use crate::pod::context::PodContext;

/// The containers that an action stops itself.
enum EndedContainers {
    None,
    /// By id.
    One(String),
    All,
}

/// Handles probe reports while an action runs.
pub(super) struct ProbeResponder {
    shared: Arc<PodContext>,
    live: Arc<LiveStatus>,
    runs: bool,
    ends: EndedContainers,
    killed: FxHashSet<String>,
    kills: FuturesUnordered<BoxFuture<'static, ()>>,
}

impl ProbeResponder {
    pub(super) fn new(
        shared: Arc<PodContext>,
        live: Arc<LiveStatus>,
        action: &PodAction,
        aim: PodGoal,
    ) -> Self {
        let ends = match action {
            PodAction::KillPod { .. } | PodAction::Reset { .. } => EndedContainers::All,
            PodAction::Kill { id, .. } => EndedContainers::One(id.clone()),
            _ => EndedContainers::None,
        };
        Self {
            shared,
            live,
            runs: aim == PodGoal::Run,
            ends,
            killed: FxHashSet::default(),
            kills: FuturesUnordered::new(),
        }
    }

    /// Runs the action. Reports that the worker has to know of are added to `late`.
    pub(super) async fn during(
        &mut self,
        action: impl Future<Output = ()>,
        reports: &mut mpsc::UnboundedReceiver<ProbeReport>,
        nudge: &Notify,
        late: &mut Vec<ProbeReport>,
    ) {
        let mut action = std::pin::pin!(action);
        // containers end one after the other while the last may take its whole time
        let watches = !matches!(self.ends, EndedContainers::None);
        let mut looks = FuturesUnordered::new();
        let (mut done, mut nudged, mut again) = (false, false, false);
        while !done || !self.kills.is_empty() {
            tokio::select! {
                biased;
                () = &mut action, if !done => done = true,
                Some(report) = reports.recv() => self.take(report, late),
                Some(()) = self.kills.next(), if !self.kills.is_empty() => again = true,
                Some(()) = looks.next(), if !looks.is_empty() => {}
                () = nudge.notified(), if watches => (nudged, again) = (true, true),
            }
            if again && looks.is_empty() {
                again = false;
                looks.push(look(self.shared.clone(), self.live.clone()));
            }
        }
        if nudged {
            // the worker has not seen it
            nudge.notify_one();
        }
    }

    fn take(&mut self, report: ProbeReport, late: &mut Vec<ProbeReport>) {
        let found = match &report {
            ProbeReport::Note(note) => {
                if let Some((pod, ..)) = self.live.observed() {
                    let (container, message) = (Some(note.container.as_str()), &note.message);
                    self.shared
                        .events
                        .warning(&pod, container, note.reason, message.clone());
                }
                return;
            }
            ProbeReport::Found(found) => found.clone(),
        };
        match (found.kind, found.good) {
            (ProbeKind::Readiness, good) => self.live.publish_ready(found.id, good),
            (ProbeKind::Startup, true) => {
                late.push(report);
                self.live.publish_started(found.id, self.runs);
            }
            (ProbeKind::Startup, false) => {
                late.push(report);
                self.kill(&found, ProbeVerdict::NeverStarted);
            }
            (ProbeKind::Liveness, true) => {}
            (ProbeKind::Liveness, false) => {
                late.push(report);
                self.kill(&found, ProbeVerdict::Dead);
            }
        }
    }

    /// Ends a container that failed a probe, unless the action does so.
    fn kill(&mut self, found: &ProbeResult, verdict: ProbeVerdict) {
        let spared = match &self.ends {
            EndedContainers::None => false,
            EndedContainers::One(id) => *id == found.id,
            EndedContainers::All => true,
        };
        if !self.runs || spared || !self.killed.insert(found.id.clone()) {
            return;
        }
        let Some((pod, observed, _)) = self.live.observed() else {
            return;
        };
        let record = observed.containers.iter().find(|c| c.id == found.id);
        let Some(record) = record.filter(|record| record.running()).cloned() else {
            return;
        };
        let Some(message) = next::probe_kill_message(&pod, &record.name, verdict) else {
            return;
        };
        let grace = kill::grace_of(&pod, &record.name, Some(verdict));
        let shared = self.shared.clone();
        self.kills.push(Box::pin(async move {
            let killed = kill::container(&shared, &pod, &observed, &record, grace, message);
            if let Err(error) = killed.await {
                // the worker does it again
                let (pod, container) = (pod.name(), &record.name);
                tracing::warn!(pod, container, %error, "failed to stop the container");
            }
        }));
    }
}

/// Publishes containers as they are now.
async fn look(shared: Arc<PodContext>, live: Arc<LiveStatus>) {
    let Some((pod, before, number)) = live.observed() else {
        return;
    };
    if let Ok(observed) = observe::pod(&*shared.runtime, pod.uid(), &before).await {
        live.publish_observed(observed, number);
    }
}

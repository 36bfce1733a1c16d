//! The task of one pod: observe, decide, do, report.
//!
//! One task owns all state of its pod. It is woken by changes of the pod in
//! the API, of its containers in the runtime, by probes and by the clock, and
//! each time does the same: it looks at everything and does what
//! [`next`](super::next::next) says.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use node_agent_objects::pod::Pod;
use node_agent_pod_registry::TerminationCause;
use node_agent_probes::probe::ProbeReport;
use tokio::sync::{Notify, mpsc, watch};

use super::next::PodGoal;
use super::probe_responder::ProbeResponder;
use super::state::PodState;
use crate::pod::context::PodContext;

/// How often a resize that was not granted is tried again; and when the first
/// time after a start, when all pods of the node are known again.
const ROOM_EVERY: Duration = Duration::from_secs(10);

/// How often a pod looks at everything though nothing happened.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// The pod's desired state, as the API has it.
#[derive(Clone, Debug)]
pub struct DesiredPod {
    /// The pod as it is, or was last.
    pub pod: Arc<Pod>,
    /// Whether the API has it no more.
    pub gone: bool,
    /// Why the node ends it, and the seconds that it gets, if it does.
    pub ended: Option<(TerminationCause, i64)>,
    /// Of a static pod: its image in the API.
    pub mirror: Option<Arc<Pod>>,
}

/// A handle of a running worker.
#[derive(Clone)]
pub struct WorkerHandle {
    wanted: Arc<watch::Sender<DesiredPod>>,
    nudge: Arc<Notify>,
    stale: Arc<Notify>,
}

impl WorkerHandle {
    /// Tells what the API has now.
    pub fn set(&self, pod: Arc<Pod>) {
        self.wanted.send_modify(|wanted| {
            wanted.pod = pod;
            wanted.gone = false;
        });
    }

    /// Tells that the API has the pod no more.
    pub fn gone(&self) {
        self.wanted.send_modify(|wanted| wanted.gone = true);
    }

    /// Tells what the API has of a static pod.
    pub fn mirror(&self, pod: Option<Arc<Pod>>) {
        self.wanted.send_modify(|wanted| wanted.mirror = pod);
    }

    /// Tells that the node ends the pod; the first reason counts.
    pub fn end(&self, sentence: TerminationCause, grace: i64) {
        self.wanted.send_modify(|wanted| {
            wanted.ended.get_or_insert((sentence, grace));
        });
    }

    /// Tells that something changed in the runtime.
    pub fn nudge(&self) {
        self.nudge.notify_one();
    }

    /// Has the pod's volumes brought up to date at once.
    pub fn refresh_volumes(&self) {
        self.stale.notify_one();
    }
}

/// Starts the task of `pod`; `done` gets its uid when nothing is left of it.
pub fn spawn(
    shared: Arc<PodContext>,
    pod: Arc<Pod>,
    done: mpsc::UnboundedSender<String>,
) -> WorkerHandle {
    let (wanted, changes) = watch::channel(DesiredPod {
        pod: pod.clone(),
        gone: false,
        ended: None,
        mirror: None,
    });
    let (nudge, stale) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let handle = WorkerHandle {
        wanted: Arc::new(wanted),
        nudge: nudge.clone(),
        stale: stale.clone(),
    };
    let detail = format!("{}/{}", pod.namespace(), pod.name());
    let mut runs = 0u32;
    let work = move || {
        let (shared, done) = (shared.clone(), done.clone());
        let (nudge, stale) = (nudge.clone(), stale.clone());
        let mut changes = changes.clone();
        let pod = changes.borrow().pod.clone();
        if runs > 0 {
            // What an earlier run took in, it took with it.
            changes.mark_changed();
            let message = "The node agent failed while it worked on the pod, and starts again.";
            shared.events.warning(&pod, None, "FailedSync", message);
        }
        runs = runs.saturating_add(1);
        async move {
            let uid = pod.uid().to_owned();
            let (reports, probes) = mpsc::unbounded_channel();
            let mut state = PodState::new(shared.clone(), pod, reports);
            state.stale = stale;
            let worker = PodWorker {
                state,
                changes,
                nudge,
                probes,
            };
            Box::pin(worker.run()).await;
            shared.pods.remove(&uid);
            shared.probes.forget(&uid);
            shared.allocations.forget(&uid);
            let _ = done.send(uid);
        }
    };
    control_supervise::task("pod-worker")
        .detail(detail)
        .spawn_restarting(work);
    handle
}

struct PodWorker {
    state: PodState,
    changes: watch::Receiver<DesiredPod>,
    nudge: Arc<Notify>,
    probes: mpsc::UnboundedReceiver<ProbeReport>,
}

impl PodWorker {
    async fn run(mut self) {
        // before volumes are made, so that no change after that is missed
        self.state.follow();
        self.state.adopt().await;
        self.state.admit();
        self.state.take_resources().await;
        loop {
            self.take();
            let aim = self.state.aim();
            // what never answers does not keep the pod from its end
            tokio::select! {
                biased;
                () = self.state.refresh_volumes() => {}
                () = aim_changed(&mut self.changes, aim) => continue,
            }
            self.state.decide(aim);
            self.state.publish(false);
            if self.state.is_sentenced_now(aim) {
                continue;
            }
            if self.state.step.finished {
                if self.state.finish().await {
                    return;
                }
                self.wait().await;
                continue;
            }
            if self.state.step.actions.is_empty() {
                self.wait().await;
                continue;
            }
            let actions = std::mem::take(&mut self.state.step.actions);
            let mut late = Vec::new();
            let (state, probes, nudge) = (&mut self.state, &mut self.probes, &self.nudge);
            let work = async {
                for action in actions {
                    let (shared, live) = (state.shared.clone(), state.live.clone());
                    let mut responder = ProbeResponder::new(shared, live, &action, aim);
                    let act = async {
                        state.perform(action).await;
                        state.refresh().await;
                        state.publish(false);
                    };
                    responder.during(act, probes, nudge, &mut late).await;
                }
            };
            let interrupted = tokio::select! {
                () = work => false,
                () = aim_changed(&mut self.changes, aim) => true,
            };
            for report in late {
                self.state.take_report(report);
            }
            if interrupted {
                self.state.refresh().await;
            }
        }
    }

    /// Takes in all that has arrived.
    fn take(&mut self) {
        if self.changes.has_changed().unwrap_or(false) {
            let wanted = self.changes.borrow_and_update().clone();
            self.state.take_pod(wanted);
        }
        while let Ok(report) = self.probes.try_recv() {
            self.state.take_report(report);
        }
    }

    /// Waits until there is a reason to look again.
    async fn wait(&mut self) {
        let now = Timestamp::now();
        let until = |at: Timestamp| Duration::try_from(at.duration_since(now)).unwrap_or_default();
        let mut pause = LOOK_EVERY;
        let stale = self.state.stale.clone();
        let times = [
            self.state.step.wake,
            self.state.deadline(),
            self.state.token_refresh(),
        ];
        if self.state.is_behind() {
            pause = pause.min(ROOM_EVERY.saturating_sub(self.state.tried.elapsed()));
        }
        for at in times.into_iter().flatten() {
            pause = pause.min(until(at) + Duration::from_millis(5));
        }
        tokio::select! {
            changed = self.changes.changed() => {
                if changed.is_err() {
                    // the agent ends; what runs goes on
                    std::future::pending::<()>().await;
                }
                let wanted = self.changes.borrow_and_update().clone();
                self.state.take_pod(wanted);
            }
            () = self.nudge.notified() => self.state.refresh().await,
            () = stale.notified() => self.state.volumes_made = None,
            report = self.probes.recv() => {
                if let Some(report) = report {
                    self.state.take_report(report);
                }
            }
            () = tokio::time::sleep(pause) => {
                if self.state.looked.elapsed() >= LOOK_EVERY {
                    self.state.refresh().await;
                }
            }
        }
        // whatever it was that happened: much may
        if self.state.is_behind() && self.state.tried.elapsed() >= ROOM_EVERY {
            self.state.allocate();
        }
    }
}

/// Ends when the pod is wanted otherwise than an action was begun for.
async fn aim_changed(changes: &mut watch::Receiver<DesiredPod>, aim: PodGoal) {
    let mut changes = changes.clone();
    loop {
        {
            let wanted = changes.borrow_and_update();
            let now = end_grace(&wanted);
            let differs = match (aim, now) {
                (PodGoal::Run, Some(_)) => true,
                (PodGoal::End { grace }, Some(now)) => now < grace,
                (_, None) => false,
            };
            if differs {
                return;
            }
        }
        if changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Seconds that the pod gets to end, when the API wants it to end.
pub(super) fn end_grace(wanted: &DesiredPod) -> Option<i64> {
    let pod = &wanted.pod;
    let ended = wanted.ended.as_ref().map(|(_, grace)| (*grace).max(1));
    let deleted = (wanted.gone || pod.is_deleting()).then(|| {
        pod.metadata
            .deletion_grace_period_seconds
            .unwrap_or_else(|| pod.spec.grace_period())
            .max(1)
    });
    // the shorter of both
    match (ended, deleted) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
#[path = "worker_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "whole_tests.rs"]
mod whole;

#[cfg(test)]
#[path = "hostile_tests.rs"]
mod hostile;

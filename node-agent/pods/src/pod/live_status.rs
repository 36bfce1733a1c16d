//! A pod's status as it was last told, kept apart from what the worker holds while an
//! action runs: probes change it meanwhile.
//!
//! The status is computed from a [`StatusSnapshot`] of the worker's state and from what readiness
//! probes found. The worker replaces the snapshot each time it publishes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use jiff::Timestamp;
use node_agent_cri::observed::ObservedPod;
use node_agent_objects::pod::Pod;
use node_agent_objects::status::{ContainerWaiting, PodStatus, ResourceStatus};
use node_agent_pod_registry::{PodEntry, TerminationCause};
use node_agent_pod_resources::resize::PendingResize;
use node_agent_probes::probe::Probes;
use rustc_hash::FxHashMap;

use super::conditions::RESETTING;
use super::next::PodMemory;
use super::report::StatusReporter;
use super::status;
use crate::pod::context::PodContext;

/// The part of the worker's state that the status is computed from.
pub(super) struct StatusSnapshot {
    pub(super) pod: Arc<Pod>,
    pub(super) observed: Arc<ObservedPod>,
    pub(super) memory: PodMemory,
    pub(super) waiting: BTreeMap<String, ContainerWaiting>,
    pub(super) terminal: bool,
    pub(super) sentence: Option<TerminationCause>,
    pub(super) pending: Option<PendingResize>,
    pub(super) gone: bool,
    pub(super) places: Arc<BTreeMap<String, PathBuf>>,
    pub(super) reporter: Option<Arc<StatusReporter>>,
}

struct LiveStatusInner {
    status: Arc<PodStatus>,
    /// By container id: what its readiness probe says.
    ready: FxHashMap<String, bool>,
    probes: Probes,
    snapshot: Option<StatusSnapshot>,
    /// Counts snapshots.
    number: u64,
    /// When the pod was first seen, as long as it never ran.
    first_seen: Option<Instant>,
}

/// The status of one pod, and its probes.
pub(super) struct LiveStatus {
    shared: Arc<PodContext>,
    inner: Mutex<LiveStatusInner>,
}

impl LiveStatus {
    pub(super) fn new(shared: Arc<PodContext>, status: PodStatus, probes: Probes) -> Self {
        let first_seen = (status.phase != "Running").then(Instant::now);
        let inner = LiveStatusInner {
            first_seen,
            status: Arc::new(status),
            ready: FxHashMap::default(),
            probes,
            snapshot: None,
            number: 0,
        };
        Self {
            shared,
            inner: Mutex::new(inner),
        }
    }

    fn lock(&self) -> MutexGuard<'_, LiveStatusInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The status last published, or the API's at first.
    pub(super) fn status(&self) -> Arc<PodStatus> {
        self.lock().status.clone()
    }

    /// Publishes the status that follows from `snapshot`.
    pub(super) fn publish(&self, snapshot: StatusSnapshot, at_once: bool) {
        let mut inner = self.lock();
        inner.snapshot = Some(snapshot);
        inner.number += 1;
        inner.publish(&self.shared, at_once);
    }

    /// Notes what a readiness probe found, to be published with the next snapshot.
    pub(super) fn set_ready(&self, id: String, ready: bool) {
        self.lock().ready.insert(id, ready);
    }

    /// Notes what a readiness probe found and publishes it.
    pub(super) fn publish_ready(&self, id: String, ready: bool) {
        let mut inner = self.lock();
        inner.ready.insert(id, ready);
        inner.publish(&self.shared, false);
    }

    /// Publishes that the startup probe of a container succeeded, and begins the probes
    /// that waited for it.
    pub(super) fn publish_started(&self, id: String, live: bool) {
        let mut inner = self.lock();
        let inner = &mut *inner;
        if let Some(snapshot) = &mut inner.snapshot {
            snapshot.memory.started.insert(id, true);
            let started = &snapshot.memory.started;
            let (pod, observed) = (&snapshot.pod, &snapshot.observed);
            let address = self.shared.address_of(pod, observed);
            inner.probes.sync(pod, observed, address, started, live);
        }
        inner.publish(&self.shared, false);
    }

    /// The pod and its containers of the last snapshot, with the snapshot's number.
    pub(super) fn observed(&self) -> Option<(Arc<Pod>, Arc<ObservedPod>, u64)> {
        let inner = self.lock();
        let snapshot = inner.snapshot.as_ref()?;
        Some((
            snapshot.pod.clone(),
            snapshot.observed.clone(),
            inner.number,
        ))
    }

    /// Publishes containers as they are now, unless there is a snapshot after that number.
    pub(super) fn publish_observed(&self, observed: ObservedPod, number: u64) {
        let mut inner = self.lock();
        if inner.number != number {
            return;
        }
        if let Some(snapshot) = &mut inner.snapshot {
            snapshot.observed = Arc::new(observed);
            inner.publish(&self.shared, false);
        }
    }

    /// Forgets what was found of containers that are gone.
    pub(super) fn retain(&self, lives: impl Fn(&String) -> bool) {
        self.lock().ready.retain(|id, _| lives(id));
    }

    /// Starts the probes that should go on and ends those that should not.
    pub(super) fn sync_probes(
        &self,
        pod: &Arc<Pod>,
        observed: &ObservedPod,
        started: &FxHashMap<String, bool>,
        live: bool,
    ) {
        let address = self.shared.address_of(pod, observed);
        let mut inner = self.lock();
        inner.probes.sync(pod, observed, address, started, live);
    }

    /// Ends all probes.
    pub(super) fn stop_probes(&self) {
        self.lock().probes.stop();
    }
}

impl LiveStatusInner {
    /// Computes the status and has it written. What somebody may wait for is written at
    /// once.
    fn publish(&mut self, shared: &PodContext, at_once: bool) {
        let Some(snapshot) = &self.snapshot else {
            return;
        };
        let uid = snapshot.pod.uid();
        let status = status::compute(&status::StatusInput {
            pod: &snapshot.pod,
            old: &self.status,
            observed: &snapshot.observed,
            memory: &snapshot.memory,
            waiting: &snapshot.waiting,
            ready: &self.ready,
            terminal: snapshot.terminal,
            sentence: snapshot.sentence.as_ref(),
            pending: snapshot.pending.as_ref(),
            health: &health(shared, &snapshot.pod),
            held: shared.claims.holds(uid),
            host_ips: &shared.node.host_ips,
            runtime: &shared.node.runtime_name,
            now: Timestamp::now(),
        });
        let is_ready = |s: &PodStatus| s.condition("Ready").map(|c| c.status == "True");
        let is_resetting =
            |s: &PodStatus| s.condition(RESETTING).is_some_and(|c| c.status == "True");
        let urgent = at_once
            || status.is_terminal()
            || is_resetting(&status) != is_resetting(&self.status)
            || (status.phase == "Running" && self.status.phase != "Running")
            || is_ready(&status) != is_ready(&self.status)
                && !self.status.phase.is_empty()
                && status.phase != "Pending";
        if status.phase == "Running"
            && let Some(seen) = self.first_seen.take()
        {
            shared.metrics.pod_started(seen.elapsed());
        }
        if *self.status != status {
            self.status = Arc::new(status);
        }
        if let Some(reporter) = snapshot.reporter.as_ref().filter(|_| !snapshot.gone) {
            reporter.set(self.status.clone(), urgent);
        }
        let (pod, observed) = (&snapshot.pod, &snapshot.observed);
        shared
            .allocations
            .note(uid, &pod.spec, observed, &snapshot.memory);
        shared.pods.put(PodEntry {
            pod: pod.clone(),
            observed: observed.clone(),
            status: self.status.clone(),
            places: snapshot.places.clone(),
        });
    }
}

/// By container: how the devices are that it was given.
fn health(shared: &PodContext, pod: &Pod) -> BTreeMap<String, Vec<ResourceStatus>> {
    let mut all = shared.devices.health(pod.uid());
    for (container, own) in shared.claims.health(pod) {
        all.entry(container).or_default().extend(own);
    }
    all
}

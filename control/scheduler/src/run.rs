//! The loop around placement: one task that owns queue and snapshot.

use std::sync::Arc;
use std::time::{Duration, Instant};

use control_client::events::{Format, ObjectReference, Recorder, Severity};
use control_client::lease::{Election, Led};
use control_client::{
    Change, Changes, Client, Discard, Patch, Reflector, Selection, reflect, resources,
};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use crate::place::{Decision, Diagnosis, Placer};
use crate::prefilter::{Claims, prefilter};
use crate::queue::Queue;
use crate::snapshot::{PodKey, Snapshot, Wake};
use crate::view::{
    Node, PersistentVolume, PersistentVolumeClaim, Pod, ResourceClaim, StorageClass,
};

/// Bindings and status writes under way at once. The server's priority and
/// fairness says when that is too much for it.
const UNDER_WAY: usize = 256;

/// Pods placed before looking for changes again.
const AT_ONCE: usize = 64;

/// How long the first pod waits for claims to be known.
const CLAIMS_WITHIN: Duration = Duration::from_secs(10);

/// How the scheduler is to work.
#[derive(Clone, Debug)]
pub struct Config {
    /// Pods whose `schedulerName` is one of these are placed.
    pub scheduler_names: Vec<String>,
    /// With an identity, the scheduler waits until it holds the lease
    /// `kube-system/kube-scheduler`; without, it is the only one.
    pub elect_as: Option<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            scheduler_names: vec!["default-scheduler".to_owned()],
            elect_as: None,
        }
    }
}

/// Why the scheduler ended before it was told to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another scheduler leads now.
    #[error("lost the lease `kube-system/kube-scheduler`; another scheduler leads")]
    LostLease,
}

/// Places pods until `shutdown`.
///
/// # Errors
/// [`Error::LostLease`], with an election.
pub async fn run(client: Client, config: Config, shutdown: CancellationToken) -> Result<(), Error> {
    let client = client.named("kube-scheduler");
    let Some(identity) = config.elect_as.clone() else {
        schedule(client, config, shutdown).await;
        return Ok(());
    };
    let election = Election::new("kube-system", "kube-scheduler", &identity);
    let led = election
        .lead(&client, &shutdown, |stop| {
            schedule(client.clone(), config, stop)
        })
        .await;
    match led {
        Led::Finished | Led::Shutdown => Ok(()),
        Led::Lost => Err(Error::LostLease),
    }
}

/// Schedules until `shutdown`. What follows a panic reads everything again.
async fn schedule(client: Client, config: Config, shutdown: CancellationToken) {
    let again = shutdown.clone();
    let run = move || schedule_once(client.clone(), config.clone(), again.clone());
    control_supervise::task("scheduler")
        .until(&shutdown)
        .restarting(run)
        .await;
}

async fn schedule_once(client: Client, config: Config, shutdown: CancellationToken) {
    let nodes: Reflector<Node> = reflect(&client, Selection::all());
    let living = "status.phase!=Succeeded,status.phase!=Failed";
    let pods: Reflector<Pod> = reflect(&client, Selection::all().fields(living));
    let persistent: Reflector<PersistentVolumeClaim> = reflect(&client, Selection::all());
    let volumes: Reflector<PersistentVolume> = reflect(&client, Selection::all());
    let classes: Reflector<StorageClass> = reflect(&client, Selection::all());
    let devices: Reflector<ResourceClaim> = reflect(&client, Selection::all());
    // placing before all nodes and pods are known would crowd the known ones
    tokio::select! {
        () = shutdown.cancelled() => return,
        () = async { nodes.synced().await; pods.synced().await; } => {}
    }
    // Claims that are not known yet would be said not to exist. A server without one of
    // these resources must not keep all pods waiting.
    let claims_synced = async {
        persistent.synced().await;
        volumes.synced().await;
        classes.synced().await;
        devices.synced().await;
    };
    tokio::select! {
        () = shutdown.cancelled() => return,
        synced = tokio::time::timeout(CLAIMS_WITHIN, claims_synced) => if synced.is_err() {
            tracing::warn!("claims are not known yet; pods that need one wait");
        }
    }
    let (results, binding_results) = mpsc::unbounded_channel();
    let scheduler = Scheduler {
        recorder: Recorder::new(
            &client,
            "default-scheduler",
            "default-scheduler",
            Format::Events,
        ),
        client,
        config,
        node_changes: nodes.changes(),
        pod_changes: pods.changes(),
        pods,
        claim_changes: ClaimChanges {
            persistent: persistent.changes(),
            volumes: volumes.changes(),
            classes: classes.changes(),
            devices: devices.changes(),
        },
        claims: Claims {
            persistent: persistent.cache(),
            volumes: volumes.cache(),
            classes: classes.cache(),
            devices: devices.cache(),
        },
        snapshot: Snapshot::new(),
        queue: Queue::default(),
        placer: Placer::default(),
        assumed: FxHashMap::default(),
        under_way: Arc::new(Semaphore::new(UNDER_WAY)),
        results,
        binding_results,
    };
    scheduler.run(&shutdown).await;
}

struct Scheduler {
    client: Client,
    config: Config,
    recorder: Recorder,
    node_changes: Changes<Node>,
    pod_changes: Changes<Pod>,
    pods: Reflector<Pod>,
    claim_changes: ClaimChanges,
    claims: Claims,
    snapshot: Snapshot,
    queue: Queue,
    placer: Placer,
    /// Pods that are bound, or being bound, but not yet seen bound.
    assumed: FxHashMap<PodKey, Arc<Pod>>,
    under_way: Arc<Semaphore>,
    results: mpsc::UnboundedSender<Bound>,
    binding_results: mpsc::UnboundedReceiver<Bound>,
}

/// Changes of claims, and of what claims are bound to.
struct ClaimChanges {
    persistent: Changes<PersistentVolumeClaim>,
    volumes: Changes<PersistentVolume>,
    classes: Changes<StorageClass>,
    devices: Changes<ResourceClaim>,
}

/// How a binding ended.
struct Bound {
    pod: Arc<Pod>,
    node: String,
    result: Result<(), control_client::Error>,
    permit: OwnedSemaphorePermit,
}

/// Why [`Scheduler::place_some`] came to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pause {
    /// Others get a turn; there may be more pods that are due.
    Yield,
    /// No pod is due.
    Idle,
    /// As many requests are under way as may be.
    Full,
}

/// The time by the clock that timers go by, so that a timer that went off is due.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

impl ClaimChanges {
    /// Waits for a change; false: there will be none.
    async fn recv(&mut self) -> bool {
        tokio::select! {
            change = self.persistent.recv() => change.is_some(),
            change = self.volumes.recv() => change.is_some(),
            change = self.classes.recv() => change.is_some(),
            change = self.devices.recv() => change.is_some(),
        }
    }

    /// Takes all changes that are there; whether there were any.
    fn drain(&mut self) -> bool {
        fn all<V: control_client::Object>(changes: &mut Changes<V>) -> bool {
            std::iter::from_fn(|| changes.try_recv()).count() > 0
        }
        let persistent = all(&mut self.persistent);
        let volumes = all(&mut self.volumes);
        let classes = all(&mut self.classes);
        let devices = all(&mut self.devices);
        persistent || volumes || classes || devices
    }
}

fn key(pod: &Pod) -> PodKey {
    (pod.metadata.namespace.clone(), pod.metadata.name.clone())
}

impl Scheduler {
    async fn run(mut self, shutdown: &CancellationToken) {
        loop {
            self.take_in();
            let pause = self.place_some();
            if pause == Pause::Yield {
                // let the tasks that write get a turn
                tokio::task::yield_now().await;
                if shutdown.is_cancelled() {
                    return;
                }
                continue;
            }
            let next = self.queue.next_time();
            let under_way = Arc::clone(&self.under_way);
            let timer = async {
                match (pause, next) {
                    // What is due stays due until something may be sent again.
                    (Pause::Full, _) => drop(under_way.acquire().await),
                    (_, Some(at)) => tokio::time::sleep_until(at.into()).await,
                    (_, None) => std::future::pending().await,
                }
            };
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = timer => {}
                more = self.claim_changes.recv() => {
                    if !more {
                        return;
                    }
                    self.queue.wake(Wake::CLAIMS, now());
                }
                change = self.node_changes.recv() => match change {
                    Some(change) => self.node(&change),
                    None => return,
                },
                change = self.pod_changes.recv() => match change {
                    Some(change) => self.pod(&change),
                    None => return,
                },
                bound = self.binding_results.recv() => if let Some(bound) = bound {
                    self.bound(bound);
                },
            }
        }
    }

    /// Takes in everything that happened. Nodes first: a pod that is bound to
    /// a new node is then seen on it.
    fn take_in(&mut self) {
        while let Some(change) = self.node_changes.try_recv() {
            self.node(&change);
        }
        while let Some(change) = self.pod_changes.try_recv() {
            self.pod(&change);
        }
        if self.claim_changes.drain() {
            self.queue.wake(Wake::CLAIMS, now());
        }
        while let Ok(bound) = self.binding_results.try_recv() {
            self.bound(bound);
        }
    }

    fn node(&mut self, change: &Change<Node>) {
        let wake = match (&change.current, &change.previous) {
            (Some(node), _) => self.snapshot.set_node(node),
            (None, Some(gone)) => {
                self.snapshot.remove_node(&gone.metadata.name);
                Wake::NONE
            }
            (None, None) => Wake::NONE,
        };
        self.queue.wake(wake, now());
    }

    fn pod(&mut self, change: &Change<Pod>) {
        let now = now();
        let gone = match (&change.previous, &change.current) {
            (Some(previous), Some(current)) => previous.metadata.uid != current.metadata.uid,
            (Some(_), None) => true,
            (None, _) => false,
        };
        if gone && let Some(previous) = &change.previous {
            self.forget(&key(previous), now);
        }
        let Some(pod) = &change.current else { return };
        let key = key(pod);
        if pod.finished {
            self.forget(&key, now);
        } else if !pod.node_name.is_empty() {
            self.queue.remove(&key);
            self.assumed.remove(&key);
            self.snapshot.put_pod(pod, &pod.node_name);
        } else if self.assumed.contains_key(&key) {
            // an event from before its binding
        } else if self.is_ours(pod) {
            self.queue.put(pod, now);
        } else {
            self.queue.remove(&key);
        }
    }

    fn is_ours(&self, pod: &Pod) -> bool {
        !pod.gated
            && !pod.metadata.is_terminating()
            && self
                .config
                .scheduler_names
                .iter()
                .any(|name| *name == pod.scheduler_name)
    }

    /// A pod neither waits nor runs any more.
    fn forget(&mut self, key: &PodKey, now: Instant) {
        self.queue.remove(key);
        self.assumed.remove(key);
        if self.snapshot.remove_pod(key) {
            self.queue.wake(Wake::POD_REMOVED, now);
        }
    }

    /// Places some of the pods that are due.
    fn place_some(&mut self) -> Pause {
        for _ in 0..AT_ONCE {
            let Ok(permit) = Arc::clone(&self.under_way).try_acquire_owned() else {
                return Pause::Full;
            };
            let Some(pod) = self.queue.pop(now()) else {
                return Pause::Idle;
            };
            let began = Instant::now();
            match self.decide(&pod) {
                Decision::Place { node, score, .. } => {
                    let node = self.snapshot.name(node).to_owned();
                    tracing::debug!(
                        namespace = %pod.metadata.namespace, pod = %pod.metadata.name,
                        node, score, micros = began.elapsed().as_micros(), "placed"
                    );
                    self.bind(pod, node, permit);
                }
                Decision::Unschedulable(diagnosis) => {
                    let message = diagnosis.message(&pod);
                    tracing::debug!(
                        namespace = %pod.metadata.namespace, pod = %pod.metadata.name,
                        message, "fits nowhere"
                    );
                    self.queue.wait(&key(&pod), diagnosis.wake, now());
                    self.tell_failure(&pod, "Unschedulable", message, permit);
                }
            }
        }
        Pause::Yield
    }

    /// What is to become of a pod.
    fn decide(&mut self, pod: &Arc<Pod>) -> Decision {
        let shape = match prefilter(pod, &self.claims) {
            Ok(shape) => shape,
            Err(unmet) => {
                return Decision::Unschedulable(Diagnosis::unmet(&self.snapshot, unmet));
            }
        };
        if Arc::ptr_eq(&shape, &pod.shape) {
            return self.placer.place(&self.snapshot, pod, rand::random());
        }
        let pod = Pod {
            shape,
            ..Pod::clone(pod)
        };
        self.placer.place(&self.snapshot, &pod, rand::random())
    }

    /// Assumes the pod on its node, and binds it in the background.
    fn bind(&mut self, pod: Arc<Pod>, node: String, permit: OwnedSemaphorePermit) {
        let key = key(&pod);
        self.queue.remove(&key);
        self.snapshot.put_pod(&pod, &node);
        self.assumed.insert(key, Arc::clone(&pod));
        let client = self.client.clone();
        let results = self.results.clone();
        tokio::spawn(async move {
            let meta = &pod.metadata;
            let binding = json!({
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
                "target": {"kind": "Node", "name": node},
            });
            let result = client
                .create_subresource::<Discard>(
                    &resources::PODS,
                    &meta.namespace,
                    &meta.name,
                    "binding",
                    &binding,
                )
                .await
                .map(|_| ());
            // at shutdown nobody listens
            let _ = results.send(Bound {
                pod,
                node,
                result,
                permit,
            });
        });
    }

    fn bound(&mut self, bound: Bound) {
        let Bound {
            pod,
            node,
            result,
            permit,
        } = bound;
        let meta = &pod.metadata;
        let regarding = ObjectReference::of(&resources::PODS, meta);
        let Err(error) = result else {
            let message = format!(
                "Successfully assigned {}/{} to {node}",
                meta.namespace, meta.name
            );
            self.recorder.event(
                &regarding,
                Severity::Normal,
                "Scheduled",
                "Binding",
                message,
            );
            return;
        };
        let key = key(&pod);
        // seen bound meanwhile, or gone, or made anew: nothing to take back
        if self
            .assumed
            .get(&key)
            .is_none_or(|assumed| assumed.metadata.uid != meta.uid)
        {
            return;
        }
        self.assumed.remove(&key);
        self.snapshot.remove_pod(&key);
        let now = now();
        self.queue.wake(Wake::POD_REMOVED, now);
        let present = self.pods.cache().get(&key.0, &key.1);
        let Some(present) = present.filter(|present| {
            present.metadata.uid == meta.uid
                && present.node_name.is_empty()
                && self.is_ours(present)
        }) else {
            return;
        };
        tracing::warn!(
            namespace = %meta.namespace, pod = %meta.name, node, error = error.chain(),
            "cannot bind, trying again"
        );
        self.queue.put_failed(&present, now);
        let message = format!("binding rejected: {}", error.chain());
        self.tell_failure(&present, "SchedulerError", message, permit);
    }

    /// Tells people: an event and the condition `PodScheduled`.
    fn tell_failure(
        &self,
        pod: &Arc<Pod>,
        reason: &'static str,
        message: String,
        permit: OwnedSemaphorePermit,
    ) {
        let regarding = ObjectReference::of(&resources::PODS, &pod.metadata);
        self.recorder.event(
            &regarding,
            Severity::Warning,
            "FailedScheduling",
            "Scheduling",
            message.clone(),
        );
        let known = pod.scheduled.as_deref();
        if known.is_some_and(|known| {
            known.status == "False" && known.reason == reason && known.message == message
        }) {
            return;
        }
        let condition = unscheduled(pod, reason, &message, jiff::Timestamp::now());
        let patch = json!({
            "metadata": {"uid": pod.metadata.uid},
            "status": {"conditions": [condition]},
        });
        let client = self.client.clone();
        let pod = Arc::clone(pod);
        tokio::spawn(async move {
            let meta = &pod.metadata;
            let written = client
                .patch_status::<Discard>(
                    &resources::PODS,
                    &meta.namespace,
                    &meta.name,
                    Patch::Strategic(&patch),
                )
                .await;
            drop(permit);
            match written {
                Ok(_) => {}
                Err(error) if error.is_not_found() => {}
                Err(error) => tracing::warn!(
                    namespace = %meta.namespace, pod = %meta.name, error = error.chain(),
                    "cannot write the condition PodScheduled"
                ),
            }
        });
    }
}

/// The condition `PodScheduled` of a pod that was not placed. Its time changes with its
/// status only.
fn unscheduled(pod: &Pod, reason: &str, message: &str, now: jiff::Timestamp) -> Value {
    let mut condition = json!({
        "type": "PodScheduled", "status": "False", "reason": reason, "message": message,
    });
    if pod.metadata.generation > 0 {
        // KEP-5067: what the judgement is about.
        condition["observedGeneration"] = json!(pod.metadata.generation);
    }
    let known = pod.scheduled.as_deref();
    if known.is_none_or(|known| known.status != "False") {
        condition["lastTransitionTime"] = json!(control_client::time::seconds(now));
    }
    condition
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;

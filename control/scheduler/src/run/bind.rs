//! Binding: a pod is assumed on its node immediately and bound in the background.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use control_client::events::{ObjectReference, Severity};
use control_client::{Discard, Patch, resources};
use control_types::error_chain;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::permit::PermitWait;
use super::{Scheduler, now};
use crate::event::Event;
use crate::extender::{self, Extender};
use crate::metrics::{self, AttemptResult};
use crate::prebind::{self, PreBinder};
use crate::queue::Attempts;
use crate::reserve::Reservation;
use crate::view::Pod;

/// The pod's reservations are being written.
const PREPARING: u8 = 0;
/// It is being bound.
const BINDING: u8 = 1;
/// It is not going to be bound: a more important pod needs the room.
const PREEMPTED: u8 = 2;

/// A pod that is bound, or being bound, and not yet seen bound.
pub(super) struct AssumedPod {
    pub(super) pod: Arc<Pod>,
    pub(super) node: String,
    pub(super) reservation: Reservation,
    /// The permission that it waits for before any write.
    permit: Option<PermitWait>,
    attempts: Option<Attempts>,
    /// [`PREPARING`], [`BINDING`] or [`PREEMPTED`].
    stage: AtomicU8,
    /// Ends the preparation of the binding: a more important pod needs the room.
    preempted: CancellationToken,
    /// The extender that binds it, if any.
    extender: Option<Extender>,
    /// When the decision began.
    began: Instant,
}

/// The reason why a pod could not be bound.
#[derive(Debug, thiserror::Error)]
pub(super) enum BindError {
    #[error("0/1 nodes are available: 1 {0}.")]
    Refused(String),
    #[error("preempted by DefaultPreemption")]
    Preempted,
    #[error(transparent)]
    PreBind(prebind::Error),
    #[error("binding rejected")]
    Extender(#[source] extender::Error),
    #[error("binding rejected: running Bind plugin \"DefaultBinder\"")]
    Bind(#[source] control_client::Error),
}

/// The result of a binding.
pub(super) struct BindResult {
    assumption: Arc<AssumedPod>,
    result: Result<(), BindError>,
    permit: Option<OwnedSemaphorePermit>,
}

impl AssumedPod {
    /// Binds the pod. Its reservations are written first, which may take minutes; other
    /// bindings proceed concurrently.
    async fn carry_out(
        &self,
        binder: &PreBinder,
        under_way: &Arc<Semaphore>,
        permit: &mut Option<OwnedSemaphorePermit>,
    ) -> Result<(), BindError> {
        let profile = self.pod.scheduler_name.as_str();
        if let Some(wait) = &self.permit {
            if !wait.is_over() {
                self.nominate(binder).await;
                *permit = None;
            }
            let permitted = tokio::select! {
                () = self.preempted.cancelled() => Err(BindError::Preempted),
                permitted = wait.permitted() => permitted.map_err(|error| BindError::Refused(error.to_string())),
            };
            permitted?;
        }
        if !self.reservation.is_empty() {
            self.nominate(binder).await;
            *permit = None;
            let began = Instant::now();
            let prebound = binder.prebind(&self.pod, &self.node, &self.reservation);
            let prebound = tokio::select! {
                () = self.preempted.cancelled() => Err(BindError::Preempted),
                prebound = prebound => prebound.map_err(BindError::PreBind),
            };
            let status = if prebound.is_ok() { "Success" } else { "Error" };
            metrics::point("PreBind", profile, status, began.elapsed());
            prebound?;
        }
        if permit.is_none() {
            *permit = Arc::clone(under_way).acquire_owned().await.ok();
        }
        if self.may_be_recalled() && !self.begin_binding() {
            return Err(BindError::Preempted);
        }
        let began = Instant::now();
        let bound = match &self.extender {
            None => self.bind(binder).await,
            Some(extender) => match extender.bind(&self.pod, &self.node).await {
                Err(error) if extender.is_ignorable() => {
                    tracing::info!(
                        extender = extender.url(), error = %error,
                        "skipping an extender that failed and may be ignored"
                    );
                    self.bind(binder).await
                }
                bound => bound.map_err(BindError::Extender),
            },
        };
        let status = if bound.is_ok() { "Success" } else { "Error" };
        metrics::point("Bind", profile, status, began.elapsed());
        bound
    }

    /// Whether something precedes its binding, during which preemption may end it.
    fn may_be_recalled(&self) -> bool {
        self.permit.is_some() || !self.reservation.is_empty()
    }

    /// Permits the binding.
    pub(super) fn allow(&self) {
        if let Some(wait) = &self.permit {
            wait.allow();
        }
    }

    /// Ends the wait for permission, if there is one: the pod gives its node back.
    pub(super) fn refuse(&self, why: &str) {
        if let Some(wait) = &self.permit {
            wait.refuse(why);
        }
    }

    /// Whether it waits for permission.
    pub(super) fn waits(&self) -> bool {
        self.permit.as_ref().is_some_and(|wait| !wait.is_over())
    }

    /// Takes the pod out of the reach of preemption; false: it is preempted already.
    fn begin_binding(&self) -> bool {
        let stage =
            self.stage
                .compare_exchange(PREPARING, BINDING, Ordering::AcqRel, Ordering::Acquire);
        stage.is_ok()
    }

    /// Ends the preparation of the binding, if it is not over; whether it did.
    pub(super) fn preempt(&self) -> bool {
        if !self.may_be_recalled() {
            return false;
        }
        let stage =
            self.stage
                .compare_exchange(PREPARING, PREEMPTED, Ordering::AcqRel, Ordering::Acquire);
        if stage.is_ok() {
            self.preempted.cancel();
        }
        stage.is_ok()
    }

    /// Tells others, such as a cluster autoscaler, which node the pod is going to run on,
    /// though it takes a while.
    async fn nominate(&self, binder: &PreBinder) {
        let meta = &self.pod.metadata;
        if self.pod.nominated_node == self.node {
            return;
        }
        let patch = json!({
            "metadata": {"uid": meta.uid},
            "status": {"nominatedNodeName": self.node},
        });
        let (pods, patch) = (&resources::PODS, Patch::Strategic(&patch));
        let client = &binder.client;
        let written = client.patch_status::<Discard>(pods, &meta.namespace, &meta.name, patch);
        if let Err(error) = written.await {
            tracing::warn!(
                namespace = %meta.namespace, pod = %meta.name, error = error.chain(),
                "failed to write nominatedNodeName"
            );
        }
    }

    async fn bind(&self, binder: &PreBinder) -> Result<(), BindError> {
        let meta = &self.pod.metadata;
        let binding = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
            "target": {"kind": "Node", "name": self.node},
        });
        binder
            .client
            .create_subresource::<Discard>(
                &resources::PODS,
                &meta.namespace,
                &meta.name,
                "binding",
                &binding,
            )
            .await
            .map(|_| ())
            .map_err(BindError::Bind)
    }
}

impl Scheduler {
    /// Assumes the pod on its node, and binds it in the background once that is permitted.
    pub(super) fn bind(
        &mut self,
        pod: Arc<Pod>,
        node: String,
        reservation: Reservation,
        began: Instant,
        permit: Option<OwnedSemaphorePermit>,
    ) {
        let key = pod.key();
        let attempts = self.queue.attempts(&key);
        self.cluster.nominations.remove(&key);
        self.cluster.snapshot.put_pod(&pod, &node);
        self.cluster.assumed.reserve(&pod, &reservation);
        self.cluster.gangs.assume(&key);
        let waits = match self.permit(&pod) {
            Ok(waits) => waits,
            Err(error) => {
                self.cluster.gangs.forget(&key);
                self.cluster.assumed.unreserve(&pod, &reservation);
                self.cluster.snapshot.remove_pod(&key);
                self.cannot_decide(&pod, error.to_string(), began, permit);
                return;
            }
        };
        // As upstream: others may wait for a pod to be near.
        self.wake(&Event::pod_added(&pod));
        let mut extenders = self.extenders.iter();
        let extender = extenders.find(|it| it.binds() && it.is_interested(&pod));
        let assumption = Arc::new(AssumedPod {
            stage: AtomicU8::new(PREPARING),
            preempted: CancellationToken::new(),
            permit: waits,
            extender: extender.cloned(),
            pod,
            node,
            reservation,
            attempts,
            began,
        });
        self.assumed.insert(key, Arc::clone(&assumption));
        let placer = self.placers.get(&assumption.pod.scheduler_name);
        let seconds = placer.map_or(0, |it| it.profile().bind_timeout_seconds);
        let binder = PreBinder {
            client: self.client.clone(),
            catalog: Arc::clone(&self.cluster.catalog),
            nodes: self.nodes.cache(),
            pods: self.pods.cache(),
            bind_timeout: Duration::from_secs(seconds),
            recorder: self.recorder.clone(),
        };
        let results = self.results.clone();
        let under_way = Arc::clone(&self.under_way);
        tokio::spawn(async move {
            let mut permit = permit;
            let result = assumption.carry_out(&binder, &under_way, &mut permit).await;
            if result.is_err() {
                binder
                    .unreserve(&assumption.pod, &assumption.reservation)
                    .await;
            }
            // at shutdown the receiver is dropped
            let _ = results.send(BindResult {
                assumption,
                result,
                permit,
            });
        });
    }

    pub(super) fn bound(&mut self, bound: BindResult) {
        let BindResult {
            assumption,
            result,
            permit,
        } = bound;
        let AssumedPod {
            pod,
            node,
            reservation,
            ..
        } = &*assumption;
        let meta = &pod.metadata;
        let regarding = ObjectReference::to_object(&resources::PODS, meta);
        let took = assumption.began.elapsed();
        let Err(error) = result else {
            metrics::attempt(&pod.scheduler_name, AttemptResult::Scheduled, took);
            if let Some(attempts) = assumption.attempts {
                let since = now().saturating_duration_since(attempts.since);
                metrics::bound(attempts.count, since);
            }
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
        let is_refused = matches!(error, BindError::Refused(_));
        let outcome = if is_refused {
            AttemptResult::Unschedulable
        } else {
            AttemptResult::Error
        };
        metrics::attempt(&pod.scheduler_name, outcome, took);
        let key = pod.key();
        // already bound, deleted or recreated: nothing to revert
        if self
            .assumed
            .get(&key)
            .is_none_or(|assumed| !Arc::ptr_eq(assumed, &assumption))
        {
            // except for completed and pending writes
            self.cluster.assumed.unreserve(pod, reservation);
            return;
        }
        self.assumed.remove(&key);
        self.cluster.assumed.unreserve(pod, reservation);
        self.cluster.snapshot.remove_pod(&key);
        self.cluster.gangs.forget(&key);
        self.wake(&Event::pod_removed(pod));
        let present = self.pods.cache().get(&key.0, &key.1);
        let Some(present) = present.filter(|present| {
            present.metadata.uid == meta.uid
                && present.node_name.is_empty()
                && self.is_ours(present)
        }) else {
            self.queue.remove(&key);
            return;
        };
        tracing::warn!(
            namespace = %meta.namespace, pod = %meta.name, node, error = error_chain(&error),
            "failed to bind, retrying"
        );
        self.queue.put(&present, now(), |_, _| false);
        let reason = if is_refused {
            self.queue.back_off(&key, now());
            "Unschedulable"
        } else {
            self.queue.fail(&key, now());
            "SchedulerError"
        };
        let message = error_chain(&error);
        let nomination = Some(String::new());
        self.cluster.nominations.remove(&present.key());
        self.tell_failure(&present, reason, message, nomination, permit);
    }
}

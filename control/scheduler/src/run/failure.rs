//! Handles pods that fit nowhere, or whose binding failed: preemption, events and
//! conditions.

use std::sync::Arc;
use std::time::Instant;

use control_client::events::{ObjectReference, Severity};
use control_client::{Discard, Patch, resources};
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use super::{Scheduler, now};
use crate::devices::Deallocation;
use crate::evict::Evictions;
use crate::metrics::{self, AttemptResult};
use crate::place::Diagnosis;
use crate::preempt::{Preemption, Search};
use crate::view::Pod;

impl Scheduler {
    /// Handles a pod that fits nowhere: it preempts others or waits.
    pub(super) async fn unschedulable(
        &mut self,
        pod: &Arc<Pod>,
        diagnosis: &Diagnosis,
        began: Instant,
        permit: OwnedSemaphorePermit,
    ) {
        let search = self.search(pod, diagnosis).await;
        self.queue.wait(&pod.key(), diagnosis.rejecters, now());
        self.reject(pod, diagnosis, search, began, Some(permit));
    }

    /// Looks for pods that could make room for a pod, if that is due.
    pub(super) async fn search(&mut self, pod: &Arc<Pod>, diagnosis: &Diagnosis) -> Search {
        let placer = self.placers.get(&pod.scheduler_name);
        if !placer.is_some_and(|it| it.must_search(diagnosis)) {
            return Search::none(diagnosis);
        }
        let searched = Instant::now();
        let found = self.preempt(pod, diagnosis).await;
        let status = if found.is_ok() {
            "Success"
        } else {
            "Unschedulable"
        };
        let profile = pod.scheduler_name.as_str();
        metrics::point("PostFilter", profile, status, searched.elapsed());
        metrics::preemption();
        found.into()
    }

    /// Reports a pod that fits nowhere; it already waits or backs off.
    pub(super) fn reject(
        &mut self,
        pod: &Arc<Pod>,
        diagnosis: &Diagnosis,
        search: Search,
        began: Instant,
        permit: Option<OwnedSemaphorePermit>,
    ) {
        let Search {
            preemption,
            message,
            nomination,
        } = search;
        if let Some(preemption) = preemption {
            self.evict(pod, preemption);
        }
        let profile = pod.scheduler_name.as_str();
        if let Some(placer) = self.placers.get(&pod.scheduler_name) {
            let plugins = diagnosis.plugins(placer.profile());
            self.queue.reject(&pod.key(), plugins);
        }
        metrics::attempt(profile, AttemptResult::Unschedulable, began.elapsed());
        if let Some(node) = &nomination {
            self.cluster.nominations.set(pod, node);
        }
        if let Some(deallocation) = &diagnosis.deallocation {
            self.deallocate(pod, deallocation.clone());
        }
        let message = diagnosis.full_message(&message);
        tracing::debug!(
            namespace = %pod.metadata.namespace, pod = %pod.metadata.name,
            message, "fits nowhere"
        );
        self.tell_failure(pod, "Unschedulable", message, nomination, permit);
    }

    /// Handles a pod that cannot be decided for a reason unrelated to nodes: it is tried
    /// again after a back-off.
    pub(super) fn cannot_decide(
        &mut self,
        pod: &Arc<Pod>,
        message: String,
        began: Instant,
        permit: Option<OwnedSemaphorePermit>,
    ) {
        metrics::attempt(&pod.scheduler_name, AttemptResult::Error, began.elapsed());
        let key = pod.key();
        self.queue.fail(&key, now());
        self.cluster.nominations.remove(&key);
        let nomination = Some(String::new());
        self.tell_failure(pod, "SchedulerError", message, nomination, permit);
    }

    /// Gives devices back in the background. When that is seen, the pod is tried again.
    fn deallocate(&self, pod: &Arc<Pod>, deallocation: Deallocation) {
        let client = self.client.clone();
        let pod = Arc::clone(pod);
        tokio::spawn(async move {
            match deallocation.carry_out(&client).await {
                Ok(()) => {}
                Err(error) if error.is_conflict() || error.is_not_found() => {}
                Err(error) => tracing::warn!(
                    namespace = %pod.metadata.namespace, pod = %pod.metadata.name,
                    error = error.chain(), "failed to deallocate a claim"
                ),
            }
        });
    }

    /// Evicts pods in the background. The pod that needs the room is not tried again before
    /// that is done.
    fn evict(&mut self, pod: &Arc<Pod>, mut preemption: Preemption) {
        tracing::info!(
            namespace = %pod.metadata.namespace, pod = %pod.metadata.name,
            node = preemption.node, victims = preemption.victims.len(), "preempting"
        );
        let leaving = |victim: &Arc<Pod>| victim.metadata.is_terminating();
        if preemption.victims.iter().all(leaving) {
            return;
        }
        metrics::victims(preemption.victims.len());
        // Pods that are not bound yet go back to the queue instead.
        preemption.victims.retain(|victim| {
            let assumption = self.assumed.get(&victim.key());
            let is_recalled = assumption.is_some_and(|it| it.preempt());
            if is_recalled {
                self.recorder.event_related(
                    &ObjectReference::to_object(&resources::PODS, &victim.metadata),
                    &ObjectReference::to_object(&resources::PODS, &pod.metadata),
                    Severity::Normal,
                    "Preempted",
                    "Preempting",
                    format!(
                        "Preempted by pod {} on node {} (in kube-scheduler memory).",
                        pod.metadata.uid, preemption.node
                    ),
                );
            }
            !is_recalled
        });
        let on_node = self.cluster.nominations.on(&preemption.node);
        let outdone = on_node.filter(|other| other.priority < pod.priority);
        let outdone: Vec<Arc<Pod>> = outdone.cloned().collect();
        for other in &outdone {
            self.cluster.nominations.remove(&other.key());
        }
        self.queue.hold(&pod.key());
        let evictions = Evictions {
            client: self.client.clone(),
            recorder: self.recorder.clone(),
            preemptor: Arc::clone(pod),
            preemption,
            outdone,
        };
        let results = self.evicted.clone();
        tokio::spawn(async move {
            let result = evictions.carry_out().await;
            if let Err(error) = &result {
                tracing::warn!(
                    namespace = %evictions.preemptor.metadata.namespace,
                    pod = %evictions.preemptor.metadata.name,
                    error = error.chain(), "failed to evict all pods"
                );
            }
            // at shutdown the receiver is dropped
            let _ = results.send((evictions.preemptor.key(), result.is_ok()));
        });
    }

    /// Tells people: an event and the condition `PodScheduled`. Without a permit, it waits for
    /// one.
    pub(super) fn tell_failure(
        &self,
        pod: &Arc<Pod>,
        reason: &'static str,
        message: String,
        nomination: Option<String>,
        permit: Option<OwnedSemaphorePermit>,
    ) {
        let regarding = ObjectReference::to_object(&resources::PODS, &pod.metadata);
        self.recorder.event(
            &regarding,
            Severity::Warning,
            "FailedScheduling",
            "Scheduling",
            message.clone(),
        );
        let known = pod.scheduled.as_deref();
        let is_told = known.is_some_and(|known| {
            known.status == "False" && known.reason == reason && known.message == message
        });
        let nomination = nomination.filter(|node| pod.nominated_node != *node);
        let mut status = serde_json::Map::new();
        if !is_told {
            let condition = unscheduled(pod, reason, &message, jiff::Timestamp::now());
            status.insert("conditions".to_owned(), json!([condition]));
        }
        if let Some(node) = nomination {
            let node = if node.is_empty() {
                Value::Null
            } else {
                json!(node)
            };
            status.insert("nominatedNodeName".to_owned(), node);
        }
        if status.is_empty() {
            return;
        }
        let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": status});
        let client = self.client.clone();
        let pod = Arc::clone(pod);
        let under_way = Arc::clone(&self.under_way);
        tokio::spawn(async move {
            let permit = match permit {
                Some(permit) => Some(permit),
                None => under_way.acquire_owned().await.ok(),
            };
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
                    "failed to write the condition PodScheduled"
                ),
            }
        });
    }
}

/// The condition `PodScheduled` of a pod that was not placed. Its time changes with its
/// status only.
pub(super) fn unscheduled(pod: &Pod, reason: &str, message: &str, now: jiff::Timestamp) -> Value {
    let mut condition = json!({
        "type": "PodScheduled", "status": "False", "reason": reason, "message": message,
    });
    if pod.metadata.generation > 0 {
        // KEP-5067: the generation that the decision is based on.
        condition["observedGeneration"] = json!(pod.metadata.generation);
    }
    let known = pod.scheduled.as_deref();
    if known.is_none_or(|known| known.status != "False") {
        condition["lastTransitionTime"] = json!(control_client::time::seconds(now));
    }
    condition
}

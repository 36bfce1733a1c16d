//! PodGroups: their pods are decided about together, and bound together or not at all.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::{Duration, Instant};

use control_client::{Change, Changes, Client, Discard, Patch, Reflector, Selection, reflect};
use control_client::{View, resources};
use control_types::error_chain;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use super::{Scheduler, now};
use crate::event::Event;
use crate::features::Features;
use crate::gangs::{Attempt, GangDecision, GangKey, Member, Trial, Verdict};
use crate::metrics::{self, AttemptResult};
use crate::place::Decision;
use crate::view::{Pod, PodGroup};

/// Delay before discovery is repeated.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Watches PodGroups if the feature is on and the API server serves them.
pub(super) async fn watch(client: &Client, features: Features) -> Option<Reflector<PodGroup>> {
    if !features.generic_workload {
        return None;
    }
    loop {
        match client.serves(&PodGroup::RESOURCE).await {
            Ok(true) => return Some(reflect(client, Selection::all())),
            Ok(false) => {
                tracing::warn!(
                    resource = %PodGroup::RESOURCE, version = %PodGroup::RESOURCE.api_version(),
                    "feature gate GenericWorkload has no effect: the API server does not serve the resource"
                );
                return None;
            }
            Err(error) => {
                tracing::warn!(error = error.chain(), "failed to discover served resources");
                tokio::time::sleep(ASK_AGAIN).await;
            }
        }
    }
}

/// Returns the next change; never returns if there are no PodGroups.
pub(super) async fn recv(changes: &mut Option<Changes<PodGroup>>) -> Option<Change<PodGroup>> {
    match changes {
        Some(changes) => changes.recv().await,
        None => std::future::pending().await,
    }
}

impl Scheduler {
    pub(super) fn pod_group(&mut self, change: &Change<PodGroup>) {
        match (&change.current, &change.previous) {
            (Some(group), _) => {
                if self.cluster.gangs.set_group(group) {
                    let meta = &group.metadata;
                    let key = (meta.namespace.clone(), meta.name.clone());
                    self.wake(&Event::gang(&key, true));
                }
            }
            (None, Some(gone)) => {
                let meta = &gone.metadata;
                let key = (meta.namespace.clone(), meta.name.clone());
                self.cluster.gangs.remove_group(&key);
            }
            (None, None) => {}
        }
    }

    /// A pod was seen, which may be one of a PodGroup.
    pub(super) fn observe_member(&mut self, pod: &Arc<Pod>) {
        let Some(gang) = pod.gang() else { return };
        let gangs = &mut self.cluster.gangs;
        if !gangs.observe(pod) {
            return;
        }
        let group = gangs.group(&gang);
        let needed = group.and_then(|it| it.min_count).unwrap_or(0);
        if gangs.counts(&gang).all >= needed {
            self.wake(&Event::gang(&gang, false));
        }
    }

    /// Decides about all waiting pods of a PodGroup, one of which is due.
    pub(super) async fn place_gang(
        &mut self,
        gang: &GangKey,
        due: Arc<Pod>,
        began: Instant,
        permit: OwnedSemaphorePermit,
    ) {
        let pods = self.take_members(gang, due);
        if let Some(message) = Self::mixed_profiles(&pods) {
            let mut permit = Some(permit);
            for pod in &pods {
                self.cannot_decide(pod, message.clone(), began, permit.take());
            }
            return;
        }
        let mut trial = Trial::default();
        for pod in &pods {
            let attempt = self.attempt(pod).await;
            let Some(placer) = self.placers.get(&pod.scheduler_name) else {
                break;
            };
            let next = trial.take(placer, &mut self.cluster, pod, attempt);
            if next.is_break() {
                break;
            }
        }
        let decision = trial.finish(&mut self.cluster, &pods);
        metrics::gang_decided(began.elapsed());
        self.carry_out(gang, decision, began, permit);
    }

    /// Takes all pods of a PodGroup out of the queue that may be tried, beside the one that is
    /// due; more important ones first, then those that wait longer.
    fn take_members(&mut self, gang: &GangKey, due: Arc<Pod>) -> Vec<Arc<Pod>> {
        let mut pods = vec![due];
        for pod in self.cluster.gangs.unscheduled(gang) {
            let key = pod.key();
            let placer = self.placers.get(&pod.scheduler_name);
            let is_kept = placer.is_none_or(|it| it.pre_enqueue(&self.cluster, &pod).is_some());
            if !is_kept && let Some(pod) = self.queue.take_now(&key, now()) {
                pods.push(pod);
            }
        }
        let queue = &self.queue;
        let since = |pod: &Pod| queue.attempts(&pod.key()).map(|it| it.since);
        pods.sort_by_cached_key(|pod| (Reverse(pod.priority), since(pod)));
        pods
    }

    /// Returns the message about pods of a PodGroup with different profiles, if there are any.
    fn mixed_profiles(pods: &[Arc<Pod>]) -> Option<String> {
        let mut names = pods.iter().map(|pod| &pod.scheduler_name);
        let first = names.next()?;
        let other = names.find(|name| *name != first)?;
        Some(format!(
            "all pods in a single pod group should have the same .spec.schedulerName set, got: {first:?} and {other:?}"
        ))
    }

    /// Decides one pod of a PodGroup.
    async fn attempt(&mut self, pod: &Arc<Pod>) -> Attempt {
        let began = Instant::now();
        let decision = self.decide(pod).await;
        metrics::decided(began.elapsed());
        match decision {
            Ok(Some(Decision::Place {
                node, reservation, ..
            })) => Attempt::Placed {
                node: self.cluster.snapshot.name(node).to_owned(),
                reservation,
            },
            Ok(Some(Decision::Unschedulable(diagnosis))) => Attempt::Nowhere {
                search: self.search(pod, &diagnosis).await,
                diagnosis: Box::new(diagnosis),
            },
            Ok(Some(Decision::Failed(message))) => Attempt::Failed(message),
            Ok(None) => Attempt::Failed(format!(
                "profile not found for scheduler name {:?}",
                pod.scheduler_name
            )),
            Err(error) => Attempt::Failed(error_chain(&error)),
        }
    }

    /// Binds the pods of a PodGroup, or gives all back; says why, and marks the group.
    fn carry_out(
        &mut self,
        gang: &GangKey,
        decision: GangDecision,
        began: Instant,
        permit: OwnedSemaphorePermit,
    ) {
        let GangDecision {
            verdict,
            mut members,
        } = decision;
        // Pods that wait for permission get it when the last of them is assumed.
        members.sort_by_key(|it| !matches!(it.attempt, Some(Attempt::Placed { .. })));
        let profile = members.first().map(|it| it.pod.scheduler_name.clone());
        let profile = profile.unwrap_or_default();
        tracing::debug!(
            namespace = %gang.0, pod_group = %gang.1, pods = members.len(), ?verdict,
            micros = began.elapsed().as_micros(), "decided about a pod group"
        );
        self.mark(gang, &verdict);
        let mut permit = Some(permit);
        for member in members {
            let permit = permit.take();
            match &verdict {
                Verdict::Failed(message) => {
                    let own = match member.attempt {
                        Some(Attempt::Failed(own)) => own,
                        _ => message.clone(),
                    };
                    self.cannot_decide(&member.pod, own, began, permit);
                }
                _ => self.carry_out_member(member, &verdict, began, permit),
            }
        }
        metrics::gang_attempt(&profile, &verdict, began.elapsed());
    }

    fn carry_out_member(
        &mut self,
        member: Member,
        verdict: &Verdict,
        began: Instant,
        permit: Option<OwnedSemaphorePermit>,
    ) {
        let message = member.group_message(verdict);
        let preempts = member.preempts();
        let pod = member.pod;
        match (member.attempt, verdict) {
            (Some(Attempt::Placed { node, reservation }), Verdict::Scheduled) => {
                self.bind(pod, node, reservation, began, permit);
            }
            (Some(Attempt::Placed { node, .. }), Verdict::WaitsForPreemption) => {
                self.wait_for_group(&pod, message, node, began, permit);
            }
            (Some(Attempt::Nowhere { diagnosis, search }), verdict)
                if !preempts || *verdict == Verdict::WaitsForPreemption =>
            {
                self.queue.back_off(&pod.key(), now());
                self.reject(&pod, &diagnosis, search, began, permit);
            }
            // Pods are evicted only for a group that fits then.
            _ => self.wait_for_group(&pod, message, String::new(), began, permit),
        }
    }

    /// The pod would fit, but its group does not: it is tried again, with the group, after a
    /// back-off.
    fn wait_for_group(
        &mut self,
        pod: &Arc<Pod>,
        message: String,
        nominated: String,
        began: Instant,
        permit: Option<OwnedSemaphorePermit>,
    ) {
        metrics::attempt(
            &pod.scheduler_name,
            AttemptResult::Unschedulable,
            began.elapsed(),
        );
        self.queue.fail(&pod.key(), now());
        self.cluster.nominations.set(pod, &nominated);
        self.tell_failure(pod, "Unschedulable", message, Some(nominated), permit);
    }

    /// Writes the condition `PodGroupScheduled`. A group that was scheduled once stays so.
    fn mark(&self, gang: &GangKey, verdict: &Verdict) {
        let Some(group) = self.cluster.gangs.group(gang) else {
            tracing::debug!(
                namespace = %gang.0, pod_group = %gang.1,
                "pod group not found, skipping its condition"
            );
            return;
        };
        let Some(condition) = condition(group, verdict, Timestamp::now()) else {
            return;
        };
        let meta = &group.metadata;
        let patch = json!({
            "metadata": {"uid": meta.uid},
            "status": {"conditions": [condition]},
        });
        let client = self.client.clone();
        let gang = gang.clone();
        tokio::spawn(async move {
            let written = client
                .patch_status::<Discard>(
                    &resources::POD_GROUPS,
                    &gang.0,
                    &gang.1,
                    Patch::Strategic(&patch),
                )
                .await;
            match written {
                Ok(_) => {}
                Err(error) if error.is_not_found() => {}
                Err(error) => tracing::warn!(
                    namespace = %gang.0, pod_group = %gang.1, error = error.chain(),
                    "failed to write the condition PodGroupScheduled"
                ),
            }
        });
    }
}

/// The condition `PodGroupScheduled` that a group gets; `None`: it stays as it is. Its time
/// changes with its status only.
pub(super) fn condition(group: &PodGroup, verdict: &Verdict, now: Timestamp) -> Option<Value> {
    let (status, reason, message) = verdict.condition();
    let generation = group.metadata.generation;
    let known = group.scheduled.as_ref();
    let is_same = known.is_some_and(|known| {
        known.status == status
            && known.reason == reason
            && known.message == message
            && known.observed_generation == generation
    });
    if is_same || known.is_some_and(|known| known.status == "True" && status != "True") {
        return None;
    }
    let mut condition = json!({
        "type": "PodGroupScheduled", "status": status, "reason": reason, "message": message,
        "observedGeneration": generation,
    });
    if known.is_none_or(|known| known.status != status) {
        condition["lastTransitionTime"] = json!(control_client::time::seconds(now));
    }
    Some(condition)
}

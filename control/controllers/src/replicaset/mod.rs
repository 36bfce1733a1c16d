//! ReplicaSets and ReplicationControllers: so many pods of one kind.

mod decide;
pub(crate) use decide::{ReplicaSetAction, ReplicaSetSnapshot, decide, status};

use std::sync::Arc;

use control_client::events::{ObjectReference, Recorder};
use control_client::{Client, Error, Meta, Metadata, Patch, Queue, Resource, View, resources};
use futures::future::BoxFuture;
use serde_json::json;

use crate::context::Context;

use crate::key::Key;

use crate::expectations::{Expectations, FORGOTTEN_AFTER};
use crate::kind_cache::KindCache;
use crate::views::{Pod, ReplicaSet, ReplicaSetStatus, ReplicationController, seconds_now};
use crate::work::{self, Outcome};
use crate::written::OwnWrites;
use crate::{Controller, ownership, pod_events};

/// Keeps the number of pods of ReplicaSets.
pub const REPLICA_SET: Controller = Controller {
    name: "replicaset-controller",
    service_account: "replicaset-controller",
    start: |ctx| start(ctx, ctx.replica_sets(), "replicaset-controller"),
};

/// Keeps the number of pods of ReplicationControllers.
pub const REPLICATION_CONTROLLER: Controller = Controller {
    name: "replicationcontroller-controller",
    service_account: "replication-controller",
    start: |ctx| start(ctx, ctx.replication_controllers(), "replication-controller"),
};

/// A kind that is one of these sets.
trait ReplicaSetKind: View {
    const REPORTS_TERMINATING: bool;
    fn set(&self) -> &ReplicaSet;
}

impl ReplicaSetKind for ReplicaSet {
    const REPORTS_TERMINATING: bool = true;
    fn set(&self) -> &ReplicaSet {
        self
    }
}

impl ReplicaSetKind for ReplicationController {
    const REPORTS_TERMINATING: bool = false;
    fn set(&self) -> &ReplicaSet {
        &self.0
    }
}

struct Sets<S: ReplicaSetKind> {
    client: Client,
    recorder: Recorder,
    sets: Arc<KindCache<S>>,
    pods: Arc<KindCache<Pod>>,
    expectations: Expectations<Key>,
    written: OwnWrites,
    queue: Queue<Key>,
}

fn start<S: ReplicaSetKind>(
    ctx: &Context,
    sets: Arc<KindCache<S>>,
    component: &str,
) -> BoxFuture<'static, ()> {
    let this = Arc::new(Sets {
        client: ctx.client.clone(),
        recorder: ctx.recorder(component),
        sets,
        pods: ctx.pods(),
        expectations: Expectations::default(),
        written: OwnWrites::default(),
        queue: work::queue(),
    });
    this.sets.queue_changes(&this.queue);
    let weak = Arc::clone(&this);
    this.pods.on_change(move |change| {
        let known = (&weak.expectations, &weak.queue);
        if let Some(orphan) = pod_events::observe(&S::RESOURCE, known, change) {
            weak.orphan_changed(orphan);
        }
    });
    let (workers, shutdown) = (ctx.config.workers, ctx.shutdown.clone());
    Box::pin(async move {
        this.sets.ready().await;
        this.pods.ready().await;
        let work = work::call(&this, |this, key| async move { this.sync(key).await });
        this.queue
            .run(S::RESOURCE.kind_name(), workers, &shutdown, work)
            .await;
    })
}

/// The kind as a static string, for logs.
trait KindName {
    fn kind_name(&self) -> &'static str;
}

impl KindName for Resource {
    fn kind_name(&self) -> &'static str {
        if self.group.is_empty() {
            "replicationcontroller"
        } else {
            "replicaset"
        }
    }
}

impl<S: ReplicaSetKind> Sets<S> {
    /// An orphan that appears or changes its labels may match some set now.
    fn orphan_changed(&self, pod: &Pod) {
        for set in self.sets.namespace(&pod.metadata.namespace) {
            let selector = &set.set().spec.selector;
            if !selector.is_empty() && selector.matches(|key| pod.metadata.labels.get(key)) {
                self.queue.add(Key::from_meta(set.meta()));
            }
        }
    }

    async fn sync(&self, key: Key) -> Outcome {
        let Some(object) = self.sets.by_key(&key) else {
            self.expectations.forget(&key);
            self.written.forget(&key);
            return Ok(None);
        };
        let set = object.set();
        if set.spec.selector.is_empty() {
            return Ok(None);
        }
        // before the pods are read, so that changes in between are not missed
        let settled = self.expectations.settled(&key);
        let leaving = self.expectations.leaving(&key);
        let pods = self.pods.claimable(&set.metadata);
        let related = self.related(&set.metadata, &pods, set.replicas());
        let snapshot = ReplicaSetSnapshot {
            set,
            pods: &pods,
            related: &related,
            leaving: &leaving,
            settled,
            reports_terminating: S::REPORTS_TERMINATING,
            now: seconds_now(),
        };
        let mut wake = None;
        let mut failure: Option<Error> = None;
        let mut wanted_status = None;
        for action in decide(&snapshot) {
            match action {
                ReplicaSetAction::Adopt(pod) => {
                    let owner = (&S::RESOURCE, &set.metadata);
                    work::adopt(&self.client, owner, (&resources::PODS, &pod.metadata), None)
                        .await?;
                }
                ReplicaSetAction::Release(pod) => {
                    let patch = ownership::release_patch(&pod.metadata, &set.metadata.uid, None);
                    work::merge(&self.client, &resources::PODS, &pod.metadata, "", &patch).await?;
                }
                ReplicaSetAction::Create(count) => failure = self.create(&key, set, count).await,
                ReplicaSetAction::Delete(pods) => failure = self.delete(&key, set, pods).await,
                ReplicaSetAction::Status(wanted) => wanted_status = Some(wanted),
                ReplicaSetAction::Wake(after) => wake = Some(after),
            }
        }
        if let Some(error) = &failure {
            let (wanted, _) = status(&snapshot, Some(&error.chain()));
            wanted_status = (wanted != set.status).then_some(wanted);
        }
        // the event of the last write will bring us here again
        let behind = self.written.behind(&key, Some(&set.metadata));
        if let Some(status) = wanted_status.filter(|_| behind.is_none()) {
            self.write_status(&set.metadata, &status).await?;
        }
        match failure {
            Some(error) => Err(error),
            None => {
                // a missed event must not stop the set for ever
                let unsettled = (!settled).then_some(FORGOTTEN_AFTER);
                Ok(wake.into_iter().chain(behind).chain(unsettled).min())
            }
        }
    }

    /// Pods of all sets with the same owner; only needed to choose among pods.
    fn related(&self, set: &Meta, pods: &[Arc<Pod>], replicas: i32) -> Vec<Arc<Pod>> {
        if pods.len() <= usize::try_from(replicas).unwrap_or(0) || replicas == 0 {
            return Vec::new();
        }
        match set.controller() {
            Some(owner) => {
                let siblings = self.sets.owned_by(&set.namespace, &owner.uid);
                let uids = siblings.iter().map(|sibling| sibling.meta().uid.as_str());
                self.pods.owned_by_any(&set.namespace, uids)
            }
            None => self.pods.owned_by(&set.namespace, &set.uid),
        }
    }

    async fn create(&self, key: &Key, set: &ReplicaSet, count: usize) -> Option<Error> {
        let reference = work::reference_to(&S::RESOURCE, &set.metadata);
        let body =
            work::pod_from_template(&set.spec.template.to_value(), &set.metadata, &reference);
        let about = ObjectReference::to_object(&S::RESOURCE, &set.metadata);
        let bodies = std::iter::repeat_n(&body, count);
        let of = (key, &about);
        let (client, recorder, expected) = (&self.client, &self.recorder, &self.expectations);
        let (_, failure) = work::create_pods(client, recorder, expected, of, bodies).await;
        failure
    }

    async fn delete(&self, key: &Key, set: &ReplicaSet, pods: Vec<Arc<Pod>>) -> Option<Error> {
        let about = ObjectReference::to_object(&S::RESOURCE, &set.metadata);
        let (client, recorder, expected) = (&self.client, &self.recorder, &self.expectations);
        work::delete_pods(client, recorder, expected, (key, &about), &pods).await
    }

    async fn write_status(&self, meta: &Meta, status: &ReplicaSetStatus) -> Result<(), Error> {
        // a merge patch takes `null` as "remove"
        let conditions = Some(&status.conditions).filter(|c| !c.is_empty());
        let patch = json!({
            "metadata": work::precondition(meta),
            "status": {
                "observedGeneration": status.observed_generation,
                "replicas": status.replicas,
                "fullyLabeledReplicas": status.fully_labeled_replicas,
                "readyReplicas": status.ready_replicas,
                "availableReplicas": status.available_replicas,
                "terminatingReplicas": status.terminating_replicas,
                "conditions": conditions,
            },
        });
        let result = self
            .client
            .patch_status::<Metadata>(
                &S::RESOURCE,
                &meta.namespace,
                &meta.name,
                Patch::Merge(&patch),
            )
            .await;
        self.written
            .record_answer(result.map(|written| written.metadata))
    }
}

//! DaemonSets: a pod on each node.

mod backoff;
mod decide;
#[cfg(test)]
mod decide_tests;
mod placement;

use std::sync::Arc;

use control_client::events::{ObjectReference, Recorder};
use control_client::{Client, Error, Meta, Metadata, Patch, Queue, resources};
use serde_json::{Value, json};
use tokio::time::Instant;

use self::backoff::FailedPods;
use self::decide::{DaemonSetAction, DaemonSetSnapshot, DeletionReason};
use self::placement::Placement;
use crate::context::Context;
use crate::expectations::{Expectations, FORGOTTEN_AFTER};
use crate::history::{self, History, POD_REVISION_LABEL};
use crate::key::Key;
use crate::kind_cache::KindCache;
use crate::ownership::{self, AdoptionDecision};
use crate::views::{DaemonSet, DaemonSetStatus, Node, Pod, Revision, Text, seconds_now};
use crate::work::{self, Outcome};
use crate::written::OwnWrites;
use crate::{Controller, hash, pod_events};

/// Keeps the pods of DaemonSets.
pub const CONTROLLER: Controller = Controller {
    name: "daemonset-controller",
    service_account: "daemon-set-controller",
    start: |ctx| {
        let this = Arc::new(DaemonSets::new(ctx));
        this.listen();
        let (workers, shutdown) = (ctx.config.workers, ctx.shutdown.clone());
        Box::pin(async move {
            this.sets.ready().await;
            this.pods.ready().await;
            this.nodes.ready().await;
            this.revisions.ready().await;
            let work = work::call(&this, |this, key| async move { this.sync(key).await });
            this.queue.run("daemonset", workers, &shutdown, work).await;
        })
    },
};

struct DaemonSets {
    client: Client,
    recorder: Recorder,
    sets: Arc<KindCache<DaemonSet>>,
    pods: Arc<KindCache<Pod>>,
    nodes: Arc<KindCache<Node>>,
    revisions: Arc<KindCache<Revision>>,
    history: History,
    expectations: Expectations<Key>,
    written: OwnWrites,
    failed: FailedPods,
    queue: Queue<Key>,
}

/// The revision of the template, and all others.
struct DaemonSetRevisions {
    hash: Text,
    old: Vec<Arc<Revision>>,
}

impl DaemonSets {
    fn new(ctx: &Context) -> Self {
        Self {
            client: ctx.client.clone(),
            recorder: ctx.recorder("daemonset-controller"),
            sets: ctx.daemon_sets(),
            pods: ctx.pods(),
            nodes: ctx.nodes(),
            revisions: ctx.revisions(),
            history: History::new(ctx.client.clone(), ctx.revisions(), resources::DAEMON_SETS),
            expectations: Expectations::default(),
            written: OwnWrites::default(),
            failed: FailedPods::default(),
            queue: work::queue(),
        }
    }

    fn listen(self: &Arc<Self>) {
        self.sets.queue_changes(&self.queue);
        let this = Arc::clone(self);
        self.pods.on_change(move |change| {
            let known = (&this.expectations, &this.queue);
            if let Some(orphan) = pod_events::observe(&resources::DAEMON_SETS, known, change) {
                this.queue_selecting(&orphan.metadata);
            }
        });
        let this = Arc::clone(self);
        self.nodes.on_change(move |change| {
            let placed = |node: &Option<Arc<Node>>| {
                let node = node.as_ref()?;
                Some((node.metadata.labels.clone(), node.spec.taints.clone()))
            };
            if placed(&change.previous) != placed(&change.current) {
                for set in this.sets.all() {
                    this.queue.add(Key::from_meta(&set.metadata));
                }
            }
        });
        let this = Arc::clone(self);
        self.revisions.on_change(move |change| {
            for revision in [&change.previous, &change.current].into_iter().flatten() {
                let meta = &revision.metadata;
                if let Some(key) = pod_events::owner_of(&resources::DAEMON_SETS, meta) {
                    this.queue.add(key);
                } else if meta.controller().is_none() {
                    this.queue_selecting(meta);
                }
            }
        });
    }

    fn queue_selecting(&self, meta: &Meta) {
        for set in self.sets.namespace(&meta.namespace) {
            if !set.spec.selector.is_empty()
                && set.spec.selector.matches(|key| meta.labels.get(key))
            {
                self.queue.add(Key::from_meta(&set.metadata));
            }
        }
    }

    async fn sync(&self, key: Key) -> Outcome {
        let Some(set) = self.sets.by_key(&key) else {
            self.expectations.forget(&key);
            self.written.forget(&key);
            return Ok(None);
        };
        let about = ObjectReference::to_object(&resources::DAEMON_SETS, &set.metadata);
        if set.spec.selector.is_empty() {
            let message =
                "This daemon set is selecting all pods. A non-empty selector is required.";
            self.recorder.warning(&about, "SelectingAll", message);
            return Ok(None);
        }
        let behind = self.written.behind(&key, Some(&set.metadata));
        if behind.is_some() {
            return Ok(behind);
        }
        // The history of a set that is being deleted is deleted with it, or is orphaned.
        if set.metadata.is_terminating() {
            return Ok(None);
        }
        // before the pods are read, so that changes in between are not missed
        let settled = self.expectations.settled(&key);
        let (changes, pods) = decide::claim_pods(&set, &self.pods.claimable(&set.metadata));
        for (claim, pod) in changes {
            let (resource, meta) = (&resources::PODS, &pod.metadata);
            if claim == AdoptionDecision::Adopt {
                let owner = (&resources::DAEMON_SETS, &set.metadata);
                work::adopt(&self.client, owner, (resource, meta), None).await?;
            } else {
                let patch = ownership::release_patch(meta, &set.metadata.uid, None);
                work::merge(&self.client, resource, meta, "", &patch).await?;
            }
        }
        let template = set.spec.template.to_value();
        let revisions = self.revisions(&set, &template, &pods).await?;
        let placement = Placement::from_template(&template);
        let owner = (set.metadata.uid.clone(), set.status.observed_generation);
        let now = Instant::now();
        let backoff = |node: &str| self.failed.left(&owner, node, now);
        let generation = placement::template_generation(&set);
        let snapshot = DaemonSetSnapshot {
            set: &set,
            pods: &pods,
            nodes: &self.nodes.all(),
            placement: &placement,
            hash: &revisions.hash,
            generation,
            backoff: &backoff,
            settled,
            now: seconds_now(),
        };
        let mut failure: Option<Error> = None;
        let mut wake = None;
        for action in decide::decide(&snapshot) {
            let failed = match action {
                DaemonSetAction::Report(ended, pod, node) => {
                    if ended == DeletionReason::Failed {
                        self.failed.note(&owner, &node, now);
                    }
                    self.report(&about, ended, &pod.metadata, &node);
                    None
                }
                DaemonSetAction::Create(nodes) => {
                    let template = placement::pod_template(&template, generation, &revisions.hash);
                    self.create(&key, &set.metadata, &template, nodes).await
                }
                DaemonSetAction::Delete(pods) => {
                    let (client, recorder) = (&self.client, &self.recorder);
                    work::delete_pods(client, recorder, &self.expectations, (&key, &about), &pods)
                        .await
                }
                DaemonSetAction::Status(status) => {
                    let written = self.write_status(&set.metadata, &status).await;
                    written.err()
                }
                DaemonSetAction::Wake(after) => {
                    wake = Some(wake.map_or(after, |wake| after.min(wake)));
                    None
                }
            };
            failure = failure.or(failed);
        }
        if let Some(error) = failure {
            return Err(error);
        }
        if !settled {
            // a missed event must not stop the set for ever
            return Ok(Some(
                wake.map_or(FORGOTTEN_AFTER, |wake| wake.min(FORGOTTEN_AFTER)),
            ));
        }
        self.truncate(&set, &pods, revisions.old).await?;
        Ok(wake)
    }

    fn report(&self, about: &ObjectReference, ended: DeletionReason, pod: &Meta, node: &str) {
        let (namespace, name) = (&pod.namespace, &pod.name);
        match ended {
            DeletionReason::Failed => {
                let message = format!(
                    "Found failed daemon pod {namespace}/{name} on node {node}, will try to kill it"
                );
                self.recorder.warning(about, "FailedDaemonPod", message);
            }
            DeletionReason::Succeeded => {
                let message = format!(
                    "Found succeeded daemon pod {namespace}/{name} on node {node}, will try to delete it"
                );
                self.recorder.normal(about, "SucceededDaemonPod", message);
            }
        }
    }

    async fn create(
        &self,
        key: &Key,
        set: &Meta,
        template: &Value,
        nodes: Vec<Text>,
    ) -> Option<Error> {
        let owner = work::reference_to(&resources::DAEMON_SETS, set);
        let about = ObjectReference::to_object(&resources::DAEMON_SETS, set);
        let bodies: Vec<Value> = nodes
            .iter()
            .map(|node| {
                let mut pod = work::pod_from_template(template, set, &owner);
                placement::pin(&mut pod, node);
                pod
            })
            .collect();
        let (client, recorder) = (&self.client, &self.recorder);
        let of = (key, &about);
        let (_, failure) =
            work::create_pods(client, recorder, &self.expectations, of, bodies.iter()).await;
        failure
    }

    // === Revisions ===

    /// Ensures that there is exactly one revision of the template, with the highest
    /// number.
    async fn revisions(
        &self,
        set: &DaemonSet,
        template: &Value,
        pods: &[Arc<Pod>],
    ) -> Result<DaemonSetRevisions, Error> {
        let data = history::patch(template);
        let digest = hash::text_digest(&data);
        let (mut current, mut old) = (Vec::new(), Vec::new());
        for revision in self.history.claimable(&set.metadata) {
            let meta = &revision.metadata;
            let matches = set.spec.selector.matches(|key| meta.labels.get(key));
            match ownership::claim(&set.metadata, meta, matches) {
                AdoptionDecision::Keep => {}
                AdoptionDecision::Adopt => self.history.adopt(&set.metadata, meta).await?,
                AdoptionDecision::Release => {
                    let patch = ownership::release_patch(meta, &set.metadata.uid, None);
                    work::unless_gone(self.history.patch(meta, &patch).await)?;
                    continue;
                }
                AdoptionDecision::Ignore => continue,
            }
            if !meta.labels.contains_key(POD_REVISION_LABEL) {
                let patch = json!({"metadata": {"labels": {POD_REVISION_LABEL: meta.name}}});
                self.history.patch(meta, &patch).await?;
            }
            if revision.data.digest == digest {
                current.push(revision);
            } else {
                old.push(revision);
            }
        }
        let number = old.iter().map(|r| r.revision).max().unwrap_or(0) + 1;
        // sorted: the last has the highest number
        let Some(newest) = current.pop() else {
            let hash = self.snapshot(set, &data, number).await?;
            return Ok(DaemonSetRevisions { hash, old });
        };
        let hash = revision_label(&newest);
        if !current.is_empty() {
            self.merge_duplicates(&hash, &current, pods).await?;
        }
        if newest.revision < number {
            self.history.renumber(&newest, number).await?;
        }
        Ok(DaemonSetRevisions { hash, old })
    }

    /// Moves pods from other revisions of the same template to the one that stays, and
    /// deletes those.
    async fn merge_duplicates(
        &self,
        hash: &str,
        duplicates: &[Arc<Revision>],
        pods: &[Arc<Pod>],
    ) -> Result<(), Error> {
        let patch = json!({"metadata": {"labels": {POD_REVISION_LABEL: hash}}});
        for pod in pods {
            let label = pod.metadata.labels.get(POD_REVISION_LABEL);
            if duplicates
                .iter()
                .any(|r| label == Some(&*revision_label(r)))
            {
                work::merge(&self.client, &resources::PODS, &pod.metadata, "", &patch).await?;
            }
        }
        for duplicate in duplicates {
            self.history.delete(&duplicate.metadata).await?;
        }
        Ok(())
    }

    /// Creates the revision of the template and returns its hash.
    async fn snapshot(&self, set: &DaemonSet, data: &str, number: i64) -> Result<Text, Error> {
        let meta = &set.metadata;
        let collisions = set.status.collision_count;
        let hash = hash::template_hash(&set.spec.template.to_value(), collisions);
        let name = format!("{}-{hash}", meta.name);
        let annotations = self.history.owner_annotations(meta).await?;
        let mut labels = history::labels_of(&set.spec.template);
        labels[POD_REVISION_LABEL] = hash.as_str().into();
        let body = self
            .history
            .body(meta, (&name, &labels, &annotations), data, number);
        let failure = match self.history.create(&meta.namespace, &body).await {
            Ok(_) => return Ok(hash.into()),
            Err(error) if error.is_already_exists() => error,
            Err(error) => return Err(error),
        };
        let existing = self.history.get(&meta.namespace, &name).await?;
        if existing.get("data").map(history::go_json).as_deref() == Some(data) {
            return Ok(revision_hash(&history::metadata(&existing)));
        }
        // Another template has the name: the count is written under the condition that
        // the set is still the one that was read, and the next look takes another name.
        let patch = json!({"metadata": work::precondition(meta),
            "status": {"collisionCount": collisions.unwrap_or(0) + 1}});
        self.patch_status(meta, &patch).await?;
        Err(failure)
    }

    /// Deletes old revisions that no pod has.
    async fn truncate(
        &self,
        set: &DaemonSet,
        pods: &[Arc<Pod>],
        old: Vec<Arc<Revision>>,
    ) -> Result<(), Error> {
        let limit = set.spec.revision_history_limit.unwrap_or(10);
        let limit = usize::try_from(limit).unwrap_or(0);
        let surplus = old.len().saturating_sub(limit);
        let is_live = |revision: &Arc<Revision>| {
            let hash = revision_label(revision);
            pods.iter()
                .any(|pod| pod.metadata.labels.get(POD_REVISION_LABEL) == Some(&*hash))
        };
        for revision in old.iter().filter(|r| !is_live(r)).take(surplus) {
            self.history.delete(&revision.metadata).await?;
        }
        Ok(())
    }

    async fn write_status(&self, meta: &Meta, status: &DaemonSetStatus) -> Result<(), Error> {
        let patch = json!({
            "metadata": work::precondition(meta),
            "status": {
                "observedGeneration": status.observed_generation,
                "currentNumberScheduled": status.current_number_scheduled,
                "numberMisscheduled": status.number_misscheduled,
                "desiredNumberScheduled": status.desired_number_scheduled,
                "numberReady": status.number_ready,
                "updatedNumberScheduled": status.updated_number_scheduled,
                "numberAvailable": status.number_available,
                "numberUnavailable": status.number_unavailable,
            },
        });
        self.patch_status(meta, &patch).await
    }

    async fn patch_status(&self, meta: &Meta, patch: &Value) -> Result<(), Error> {
        let result = self
            .client
            .patch_status::<Metadata>(
                &resources::DAEMON_SETS,
                &meta.namespace,
                &meta.name,
                Patch::Merge(patch),
            )
            .await;
        self.written
            .record_answer(result.map(|written| written.metadata))
    }
}

/// The hash of a revision, by which pods name it.
fn revision_label(revision: &Revision) -> Text {
    revision_hash(&revision.metadata)
}

/// Returns the label of a revision, or its name if it has no label.
fn revision_hash(meta: &Meta) -> Text {
    let label = meta.labels.get(POD_REVISION_LABEL);
    label.map_or_else(|| meta.name.clone(), Text::from)
}

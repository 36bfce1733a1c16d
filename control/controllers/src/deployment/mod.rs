//! Deployments: from one template to the next without a gap.

mod annotations;
mod arithmetic;
mod decide;
#[cfg(test)]
mod simulation;

use std::sync::Arc;

use control_client::events::{ObjectReference, Recorder};
use control_client::{
    Client, DeleteOptions, Error, Metadata, Patch, Propagation, Queue, View, resources,
};
use serde_json::{Value, json};

use self::decide::{DeploymentAction, DeploymentSnapshot, NewSet, SetChange};
use crate::Controller;
use crate::context::Context;
use crate::key::Key;
use crate::kind_cache::KindCache;
use crate::ownership::{self, AdoptionDecision};
use crate::views::{
    Condition, Deployment, DeploymentStatus, Pod, ReplicaSet, Text, seconds_now, upsert,
};
use crate::work::{self, Outcome};
use crate::written::OwnWrites;

/// Rolls Deployments out.
pub const CONTROLLER: Controller = Controller {
    name: "deployment-controller",
    service_account: "deployment-controller",
    start: |ctx| {
        let this = Arc::new(Deployments::new(ctx));
        this.listen();
        let (workers, shutdown) = (ctx.config.workers, ctx.shutdown.clone());
        Box::pin(async move {
            this.deployments.ready().await;
            this.sets.ready().await;
            this.pods.ready().await;
            let work = work::call(&this, |this, key| async move { this.sync(key).await });
            this.queue.run("deployment", workers, &shutdown, work).await;
        })
    },
};

struct Deployments {
    client: Client,
    recorder: Recorder,
    deployments: Arc<KindCache<Deployment>>,
    sets: Arc<KindCache<ReplicaSet>>,
    pods: Arc<KindCache<Pod>>,
    written: OwnWrites,
    written_sets: OwnWrites,
    queue: Queue<Key>,
}

impl Deployments {
    fn new(ctx: &Context) -> Self {
        Self {
            client: ctx.client.clone(),
            recorder: ctx.recorder("deployment-controller"),
            deployments: ctx.deployments(),
            sets: ctx.replica_sets(),
            pods: ctx.pods(),
            written: OwnWrites::default(),
            written_sets: OwnWrites::default(),
            queue: work::queue(),
        }
    }

    fn listen(self: &Arc<Self>) {
        self.deployments.queue_changes(&self.queue);
        let this = Arc::clone(self);
        self.sets.on_change(move |change| {
            let owners = [&change.previous, &change.current]
                .map(|set| set.as_deref().and_then(|set| owner_of(&set.metadata)));
            if owners == [None, None] {
                this.orphan_changed(change.previous.as_deref(), change.current.as_deref());
            }
            for key in owners.into_iter().flatten() {
                this.queue.add(key);
            }
        });
        // a Recreate waits until the last old pod is removed
        let this = Arc::clone(self);
        self.pods.on_change(move |change| {
            let ended = change.current.as_ref().is_none_or(|pod| pod.is_terminal());
            if !ended {
                return;
            }
            let Some(pod) = change.latest() else { return };
            let Some(owner) = pod.metadata.controller().filter(|o| o.kind == "ReplicaSet") else {
                return;
            };
            let set = this.sets.get(&pod.metadata.namespace, &owner.name);
            if let Some(key) = set.and_then(|set| owner_of(&set.metadata))
                && this
                    .deployments
                    .by_key(&key)
                    .is_some_and(|d| d.spec.strategy.r#type == "Recreate")
            {
                this.queue.add(key);
            }
        });
    }

    fn orphan_changed(&self, previous: Option<&ReplicaSet>, current: Option<&ReplicaSet>) {
        let Some(set) = current else { return };
        let same = previous.is_some_and(|p| {
            p.metadata.labels == set.metadata.labels
                && p.metadata.owner_references == set.metadata.owner_references
        });
        if same || set.metadata.controller().is_some() {
            return;
        }
        for deployment in self.deployments.namespace(&set.metadata.namespace) {
            let selector = &deployment.spec.selector;
            if !selector.is_empty() && selector.matches(|key| set.metadata.labels.get(key)) {
                self.queue.add(Key::from_meta(&deployment.metadata));
            }
        }
    }

    async fn sync(&self, key: Key) -> Outcome {
        let Some(deployment) = self.deployments.by_key(&key) else {
            self.written.forget(&key);
            return Ok(None);
        };
        let meta = &deployment.metadata;
        if let Some(wait) = self.written.behind(&key, Some(meta)) {
            return Ok(Some(wait));
        }
        let about = ObjectReference::to_object(&Deployment::RESOURCE, meta);
        if deployment.spec.selector.is_empty() {
            let message =
                "This deployment is selecting all pods. A non-empty selector is required.";
            self.recorder.warning(&about, "SelectingAll", message);
            return Ok(None);
        }
        let mut sets = Vec::new();
        for set in self.sets.claimable(meta) {
            let set_key = Key::from_meta(&set.metadata);
            if let Some(wait) = self.written_sets.behind(&set_key, Some(&set.metadata)) {
                return Ok(Some(wait));
            }
            let matches = deployment
                .spec
                .selector
                .matches(|key| set.metadata.labels.get(key));
            match ownership::claim(meta, &set.metadata, matches) {
                AdoptionDecision::Keep => sets.push(set),
                AdoptionDecision::Adopt => {
                    let object = (&resources::REPLICA_SETS, &set.metadata);
                    work::adopt(&self.client, (&Deployment::RESOURCE, meta), object, None).await?;
                    sets.push(set);
                }
                AdoptionDecision::Release => {
                    let patch = ownership::release_patch(&set.metadata, &meta.uid, None);
                    work::merge(
                        &self.client,
                        &resources::REPLICA_SETS,
                        &set.metadata,
                        "",
                        &patch,
                    )
                    .await?;
                }
                AdoptionDecision::Ignore => {}
            }
        }
        let pods = if deployment.spec.strategy.r#type == "Recreate" {
            let uids = sets.iter().map(|set| set.metadata.uid.as_str());
            self.pods.owned_by_any(&key.namespace, uids)
        } else {
            Vec::new()
        };
        let snapshot = DeploymentSnapshot {
            deployment: &deployment,
            sets: &sets,
            pods: &pods,
            now: seconds_now(),
        };
        let mut wake = None;
        for action in decide::decide(&snapshot) {
            match action {
                DeploymentAction::CreateSet(new) => {
                    let name = Key::new(key.namespace.clone(), new.name.clone());
                    let cached = self.sets.by_key(&name);
                    let shown = cached.as_deref().map(|set| &set.metadata);
                    if let Some(wait) = self.written_sets.behind(&name, shown) {
                        return Ok(Some(wait));
                    }
                    if !self.create_set(&deployment, &new, &about).await? {
                        return Ok(None);
                    }
                }
                DeploymentAction::ChangeSet(change) => {
                    self.change_set(&key, &change, &about).await?;
                }
                DeploymentAction::DeleteSet { name, uid } => {
                    let options =
                        DeleteOptions::of_uid(uid.as_str()).propagation(Propagation::Background);
                    let sets = &resources::REPLICA_SETS;
                    match self
                        .client
                        .delete(sets, &key.namespace, &name, &options)
                        .await
                    {
                        Err(error) if !error.is_not_found() && !error.is_conflict() => {
                            return Err(error);
                        }
                        _ => {}
                    }
                }
                DeploymentAction::Status { status, revision } => {
                    self.write_status(&deployment, &status, revision.as_ref())
                        .await?;
                }
                DeploymentAction::Wake(after) => wake = Some(after),
            }
        }
        Ok(wake)
    }

    /// Creates the ReplicaSet of a new template. Returns false if the namespace is being
    /// deleted, so that there is nothing more to do.
    async fn create_set(
        &self,
        deployment: &Deployment,
        new: &NewSet,
        about: &ObjectReference,
    ) -> Result<bool, Error> {
        let meta = &deployment.metadata;
        let labels = new.template.pointer("/metadata/labels");
        let body = json!({
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": new.name,
                "namespace": meta.namespace,
                "labels": labels,
                "annotations": new.annotations,
                "ownerReferences": [work::reference_to(&Deployment::RESOURCE, meta)],
            },
            "spec": {
                "replicas": new.replicas,
                "minReadySeconds": new.min_ready_seconds,
                "selector": new.selector,
                "template": new.template,
            },
        });
        let created = self
            .client
            .create::<Metadata>(&resources::REPLICA_SETS, &meta.namespace, &body)
            .await;
        match created {
            Ok(set) => {
                self.written_sets.note(&set.metadata);
                if new.replicas > 0 {
                    let message = format!(
                        "Scaled up replica set {} from 0 to {}",
                        new.name, new.replicas
                    );
                    self.recorder.normal(about, "ScalingReplicaSet", message);
                }
                Ok(true)
            }
            Err(error) if error.is_already_exists() => {
                self.resolve_collision(deployment, new).await?;
                // what exists is ours and the cache will show it, or the next
                // attempt has another name
                Err(error)
            }
            Err(error) if error.is_namespace_terminating() => Ok(false),
            Err(error) => {
                let message = format!(
                    "Failed to create new replica set \"{}\": {}",
                    new.name,
                    error.chain()
                );
                self.recorder
                    .warning(about, "ReplicaSetCreateError", message.clone());
                if deployment
                    .spec
                    .progress_deadline_seconds
                    .is_some_and(|s| s != i32::MAX)
                {
                    self.report_failure(deployment, message).await?;
                }
                Err(error)
            }
        }
    }

    /// There is a ReplicaSet of that name. If it is not ours with this very
    /// template, its hash collides: count, so that the next hash differs.
    async fn resolve_collision(&self, deployment: &Deployment, new: &NewSet) -> Result<(), Error> {
        let meta = &deployment.metadata;
        let found: ReplicaSet = self
            .client
            .get(&resources::REPLICA_SETS, &meta.namespace, &new.name)
            .await?;
        let ours = found
            .metadata
            .controller()
            .is_some_and(|owner| owner.uid == meta.uid);
        if ours && found.spec.template.digest == deployment.spec.template.digest {
            self.written_sets.note(&found.metadata);
            return Ok(());
        }
        let mut status = deployment.status.clone();
        let count = status.collision_count.unwrap_or(0) + 1;
        tracing::info!(
            deployment = %Key::from_meta(meta), set = %new.name, count,
            "hash collision of a pod template"
        );
        status.collision_count = Some(count);
        self.write_status(deployment, &status, None).await
    }

    async fn report_failure(&self, deployment: &Deployment, message: String) -> Result<(), Error> {
        let now = seconds_now();
        let mut condition = Condition::new(
            "Progressing",
            "False",
            "ReplicaSetCreateError",
            message,
            now,
        );
        condition.last_update_time = Some(now);
        let mut status = deployment.status.clone();
        upsert(&mut status.conditions, condition);
        if status == deployment.status {
            return Ok(());
        }
        self.write_status(deployment, &status, None).await
    }

    async fn change_set(
        &self,
        key: &Key,
        change: &SetChange,
        about: &ObjectReference,
    ) -> Result<(), Error> {
        let mut spec = serde_json::Map::new();
        if let Some((_, to)) = change.scale {
            spec.insert("replicas".into(), to.into());
        }
        if let Some(seconds) = change.min_ready_seconds {
            spec.insert("minReadySeconds".into(), seconds.into());
        }
        let patch = json!({
            "metadata": {
                "uid": change.uid,
                "resourceVersion": change.resource_version,
                "annotations": change.annotations,
            },
            "spec": spec,
        });
        let changed: Metadata = self
            .client
            .patch(
                &resources::REPLICA_SETS,
                &key.namespace,
                &change.name,
                "",
                Patch::Merge(&patch),
            )
            .await?;
        self.written_sets.note(&changed.metadata);
        if let Some((from, to)) = change.scale {
            let direction = if from < to { "up" } else { "down" };
            let message = format!(
                "Scaled {direction} replica set {} from {from} to {to}",
                change.name
            );
            self.recorder.normal(about, "ScalingReplicaSet", message);
        }
        Ok(())
    }

    async fn write_status(
        &self,
        deployment: &Deployment,
        status: &DeploymentStatus,
        revision: Option<&Text>,
    ) -> Result<(), Error> {
        let meta = &deployment.metadata;
        let mut patch = json!({
            "metadata": work::precondition(meta),
            "status": {
                "observedGeneration": status.observed_generation,
                "replicas": status.replicas,
                "updatedReplicas": status.updated_replicas,
                "readyReplicas": status.ready_replicas,
                "availableReplicas": status.available_replicas,
                "unavailableReplicas": status.unavailable_replicas,
                "terminatingReplicas": status.terminating_replicas,
                "collisionCount": status.collision_count,
                "conditions": status.conditions,
            },
        });
        if let Some(revision) = revision {
            patch["metadata"]["annotations"] =
                Value::from_iter([(annotations::REVISION, revision.as_str())]);
        }
        let written: Metadata = self
            .client
            .patch_status(
                &Deployment::RESOURCE,
                &meta.namespace,
                &meta.name,
                Patch::Merge(&patch),
            )
            .await?;
        self.written.note(&written.metadata);
        Ok(())
    }
}

/// The Deployment that a ReplicaSet names as its controller.
fn owner_of(set: &control_client::Meta) -> Option<Key> {
    let owner = set.controller()?;
    (owner.kind == "Deployment" && owner.api_version == "apps/v1")
        .then(|| Key::new(set.namespace.clone(), owner.name.clone()))
}

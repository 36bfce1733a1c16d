//! StatefulSets: pods with names, claims and an order.

mod decide;
#[cfg(test)]
mod decide_tests;
mod identity;
mod retention;

use std::sync::Arc;

use control_client::events::{ObjectReference, Recorder};
use control_client::{
    Client, DeleteOptions, Discard, Error, Meta, Metadata, OwnerReference, Patch, Queue, resources,
};
use serde_json::{Value, json};

use self::decide::{PodStep, PodWork, StatefulSetAction, StatefulSetSnapshot};
use crate::context::Context;
use crate::expectations::{Expectations, FORGOTTEN_AFTER};
use crate::history::{self, History, UpdateRevision};
use crate::key::Key;
use crate::kind_cache::KindCache;
use crate::ownership::{self, AdoptionDecision};
use crate::views::{self, Pod, Revision, StatefulSet, StatefulSetStatus, Text, seconds_now};
use crate::work::{self, Outcome};
use crate::written::OwnWrites;
use crate::{Controller, pod_events};

/// The limit on pods of a parallel set that are processed concurrently.
const BATCH: usize = 500;

/// Keeps the pods and claims of StatefulSets.
pub const CONTROLLER: Controller = Controller {
    name: "statefulset-controller",
    service_account: "statefulset-controller",
    start: |ctx| {
        let this = Arc::new(StatefulSets::new(ctx));
        this.listen();
        let (workers, shutdown) = (ctx.config.workers, ctx.shutdown.clone());
        Box::pin(async move {
            this.sets.ready().await;
            this.pods.ready().await;
            this.claims.ready().await;
            this.revisions.ready().await;
            let work = work::call(&this, |this, key| async move { this.sync(key).await });
            this.queue
                .run("statefulset", workers, &shutdown, work)
                .await;
        })
    },
};

struct StatefulSets {
    client: Client,
    recorder: Recorder,
    sets: Arc<KindCache<StatefulSet>>,
    pods: Arc<KindCache<Pod>>,
    claims: Arc<KindCache<views::Claim>>,
    revisions: Arc<KindCache<Revision>>,
    history: History,
    expectations: Expectations<Key>,
    written: OwnWrites,
    queue: Queue<Key>,
}

/// The revisions that a set moves between, and all others.
struct SetRevisions {
    all: Vec<Arc<Revision>>,
    current: Text,
    update: Text,
    collisions: i32,
}

/// The reason why work on a pod ended early.
enum Stop {
    /// A claim is being deleted. Its last event brings the set back.
    Waiting,
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl StatefulSets {
    fn new(ctx: &Context) -> Self {
        Self {
            client: ctx.client.clone(),
            recorder: ctx.recorder("statefulset-controller"),
            sets: ctx.stateful_sets(),
            pods: ctx.pods(),
            claims: ctx.claims(),
            revisions: ctx.revisions(),
            history: History::new(
                ctx.client.clone(),
                ctx.revisions(),
                resources::STATEFUL_SETS,
            ),
            expectations: Expectations::default(),
            written: OwnWrites::default(),
            queue: work::queue(),
        }
    }

    fn listen(self: &Arc<Self>) {
        self.sets.queue_changes(&self.queue);
        let this = Arc::clone(self);
        self.pods.on_change(move |change| {
            let known = (&this.expectations, &this.queue);
            if let Some(orphan) = pod_events::observe(&resources::STATEFUL_SETS, known, change) {
                this.orphan_changed(orphan);
            }
        });
        let this = Arc::clone(self);
        self.claims.on_change(move |change| {
            let claims = [&change.previous, &change.current];
            for claim in claims.into_iter().flatten() {
                let meta = &claim.metadata;
                for name in identity::sets_of_claim(&meta.name) {
                    if this.sets.get(&meta.namespace, name).is_some() {
                        this.queue.add(Key::new(meta.namespace.clone(), name));
                    }
                }
            }
        });
        let this = Arc::clone(self);
        self.revisions.on_change(move |change| {
            for revision in [&change.previous, &change.current].into_iter().flatten() {
                let meta = &revision.metadata;
                if let Some(key) = pod_events::owner_of(&resources::STATEFUL_SETS, meta) {
                    this.queue.add(key);
                } else if meta.controller().is_none() {
                    this.queue_selecting(meta);
                }
            }
        });
    }

    fn orphan_changed(&self, pod: &Pod) {
        if let Some((name, _)) = identity::parse(&pod.metadata.name)
            && let Some(set) = self.sets.get(&pod.metadata.namespace, name)
            && set
                .spec
                .selector
                .matches(|key| pod.metadata.labels.get(key))
        {
            self.queue.add(Key::from_meta(&set.metadata));
        }
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
        if set.spec.selector.is_empty() {
            return Ok(None);
        }
        // Decisions depend on the status and on each pod: a cache that does not show the
        // last writes brings the set back when it does.
        if !self.expectations.settled(&key) {
            return Ok(Some(FORGOTTEN_AFTER));
        }
        let behind = self.written.behind(&key, Some(&set.metadata));
        if behind.is_some() {
            return Ok(behind);
        }
        let revisions = self.revisions(&set).await?;
        let (changes, pods) = decide::claim_pods(&set, &self.pods.claimable(&set.metadata));
        for (claim, pod) in changes {
            self.change_owner(&set.metadata, claim, &pod).await?;
        }
        let find = |name: &str| {
            let claim = self.claims.get(&key.namespace, name)?;
            Some(claim.metadata.clone())
        };
        let snapshot = StatefulSetSnapshot {
            set: &set,
            pods: &pods,
            claim: &find,
            current: &revisions.current,
            update: &revisions.update,
            collisions: revisions.collisions,
            now: seconds_now(),
        };
        let mut stop = None;
        let mut wanted = None;
        let mut wake = None;
        for action in decide::decide(&snapshot) {
            match action {
                StatefulSetAction::Work(phase) if stop.is_none() => {
                    stop = self.work(&key, &set, &revisions, phase).await.err();
                }
                StatefulSetAction::Work(_) => {}
                StatefulSetAction::Status(status) => wanted = Some(status),
                StatefulSetAction::Wake(after) => wake = Some(after),
            }
        }
        if stop.is_some() {
            let mut status = decide::status(&snapshot);
            decide::complete_update(&set, &mut status);
            wanted = decide::changed_status(&set, status);
        }
        if let Some(status) = wanted {
            self.write_status(&set.metadata, &status).await?;
        }
        self.truncate(&set, &pods, &revisions).await?;
        match stop {
            Some(Stop::Failed(error)) if !error.is_namespace_terminating() => Err(error),
            _ => Ok(wake),
        }
    }

    async fn change_owner(
        &self,
        set: &Meta,
        claim: AdoptionDecision,
        pod: &Pod,
    ) -> Result<(), Error> {
        let meta = &pod.metadata;
        if claim == AdoptionDecision::Adopt {
            let owner = (&resources::STATEFUL_SETS, set);
            return work::adopt(&self.client, owner, (&resources::PODS, meta), None).await;
        }
        let patch = ownership::release_patch(meta, &set.uid, None);
        work::merge(&self.client, &resources::PODS, meta, "", &patch).await
    }

    // === Revisions ===

    /// Ensures that there is a revision of the template.
    async fn revisions(&self, set: &StatefulSet) -> Result<SetRevisions, Error> {
        let meta = &set.metadata;
        let all = self.history.list(meta, &set.spec.selector);
        if !meta.is_terminating() {
            for orphan in all.iter().filter(|r| r.metadata.controller().is_none()) {
                self.history.adopt(meta, &orphan.metadata).await?;
            }
        }
        let mut collisions = set.status.collision_count.unwrap_or(0);
        let digest = crate::hash::text_digest(&history::patch(&set.spec.template.to_value()));
        let update = match history::update_revision(&all, digest) {
            UpdateRevision::Keep(revision) => revision.metadata.name.clone(),
            UpdateRevision::Renumber(revision, number) => {
                self.history.renumber(&revision, number).await?;
                revision.metadata.name.clone()
            }
            UpdateRevision::Create(number) => {
                let template = &set.spec.template;
                match all.last() {
                    Some(newest)
                        if self
                            .history
                            .restores(meta, template, &newest.metadata)
                            .await? =>
                    {
                        newest.metadata.name.clone()
                    }
                    _ => {
                        self.history
                            .create_hashed(meta, template, number, &mut collisions)
                            .await?
                            .name
                    }
                }
            }
        };
        let is_current = |r: &&Arc<Revision>| r.metadata.name == set.status.current_revision;
        let current = all.iter().find(is_current);
        let current = current.map_or_else(|| update.clone(), |r| r.metadata.name.clone());
        Ok(SetRevisions {
            all,
            current,
            update,
            collisions,
        })
    }

    /// Deletes old revisions that no pod has.
    async fn truncate(
        &self,
        set: &StatefulSet,
        pods: &[Arc<Pod>],
        revisions: &SetRevisions,
    ) -> Result<(), Error> {
        let is_live = |revision: &Revision| {
            let name = &revision.metadata.name;
            let has =
                |pod: &Arc<Pod>| pod.metadata.labels.get(history::POD_REVISION_LABEL) == Some(name);
            *name == revisions.current || *name == revisions.update || pods.iter().any(has)
        };
        let limit = set.spec.revision_history_limit.unwrap_or(10);
        for revision in history::surplus(&revisions.all, is_live, limit) {
            self.history.delete(&revision.metadata).await?;
        }
        Ok(())
    }

    // === Pods and claims ===

    /// Performs one phase of work.
    async fn work(
        &self,
        key: &Key,
        set: &StatefulSet,
        revisions: &SetRevisions,
        phase: Vec<PodWork>,
    ) -> Result<(), Stop> {
        let is_of_old = |step: &PodStep| match step {
            PodStep::CreatePod { revision } => *revision != revisions.update,
            _ => false,
        };
        let new = set.spec.template.to_value();
        let old = if phase.iter().any(|work| work.steps.iter().any(is_of_old)) {
            let name = &revisions.current;
            self.history.template(&key.namespace, name).await?
        } else {
            Value::Null
        };
        let one = |work: PodWork| {
            let template = if work.steps.iter().any(is_of_old) {
                &old
            } else {
                &new
            };
            self.work_on(key, set, template, work)
        };
        if set.spec.pod_management_policy != "Parallel" {
            for work in phase {
                one(work).await?;
            }
            return Ok(());
        }
        let (_, failure) = work::slow_start(phase, BATCH, one).await;
        failure.map_or(Ok(()), Err)
    }

    /// Performs the work on one pod.
    async fn work_on(
        &self,
        key: &Key,
        set: &StatefulSet,
        template: &Value,
        work: PodWork,
    ) -> Result<(), Stop> {
        let about = PodEventReporter {
            recorder: &self.recorder,
            set: ObjectReference::to_object(&resources::STATEFUL_SETS, &set.metadata),
            set_name: &set.metadata.name,
            pod: &work.pod,
        };
        let mut created = false;
        for step in work.steps {
            match step {
                PodStep::CreateClaim(at) => {
                    let result = self.create_claim(set, at, work.ordinal, &about).await;
                    if let Err(error) = result {
                        about.tell("Create", Err(&error));
                        return Err(error.into());
                    }
                }
                PodStep::AwaitClaims { names, creating } => {
                    if creating {
                        about.warn("Create", &leaving(&names));
                    }
                    return Err(Stop::Waiting);
                }
                PodStep::CreatePod { revision } => {
                    let owner = work::reference_to(&resources::STATEFUL_SETS, &set.metadata);
                    let pod = (work.ordinal, revision.as_str());
                    let body = identity::pod_body(set, &owner, template, pod);
                    self.create_pod(key, &body, &about).await?;
                    created = true;
                }
                PodStep::SetClaimOwners { claim, owners } => {
                    if owners.is_conflicting {
                        about.conflicting(&claim.name);
                    }
                    let result = self.set_owners(&claim, &owners.references).await;
                    if let Err(error) = result {
                        about.tell("Update", Err(&error));
                        return Err(error.into());
                    }
                }
                PodStep::ReportUpdate => about.tell("Update", Ok(())),
                PodStep::UpdatePod(pod) => self.update_pod(set, &pod, work.ordinal, &about).await?,
                PodStep::DeletePod(pod) => self.delete_pod(key, &pod.metadata, &about).await?,
            }
        }
        if created {
            about.tell("Create", Ok(()));
        }
        Ok(())
    }

    async fn create_claim(
        &self,
        set: &StatefulSet,
        template: usize,
        ordinal: i32,
        about: &PodEventReporter<'_>,
    ) -> Result<(), Error> {
        let Some(template) = set.spec.volume_claim_templates.get(template) else {
            return Ok(());
        };
        let body = identity::claim_body(set, template, ordinal);
        let resource = &resources::PERSISTENT_VOLUME_CLAIMS;
        let created = self
            .client
            .create::<Discard>(resource, &set.metadata.namespace, &body)
            .await;
        let name = identity::claim_name(template, set, ordinal);
        match created {
            Ok(_) => about.claim(&name, Ok(())),
            // the cache does not show it yet
            Err(error) if error.is_already_exists() => {}
            Err(error) => {
                about.claim(&name, Err(&error));
                return Err(error);
            }
        }
        Ok(())
    }

    async fn create_pod(
        &self,
        key: &Key,
        body: &Value,
        about: &PodEventReporter<'_>,
    ) -> Result<(), Error> {
        self.expectations.expect_creations(key, 1);
        let created = self
            .client
            .create::<Discard>(&resources::PODS, &key.namespace, body)
            .await;
        let Err(error) = created else {
            return Ok(());
        };
        self.expectations.created(key);
        if !error.is_already_exists() && !error.is_namespace_terminating() {
            about.tell("Create", Err(&error));
        }
        Err(error)
    }

    async fn set_owners(&self, claim: &Meta, owners: &[OwnerReference]) -> Result<(), Error> {
        let mut metadata = work::precondition(claim);
        metadata["ownerReferences"] = json!(owners);
        let patch = json!({"metadata": metadata});
        let resource = &resources::PERSISTENT_VOLUME_CLAIMS;
        work::merge(&self.client, resource, claim, "", &patch).await
    }

    /// Updates a pod's labels and volumes. The server rejects changed volumes; an event
    /// reports that.
    async fn update_pod(
        &self,
        set: &StatefulSet,
        pod: &Pod,
        ordinal: i32,
        about: &PodEventReporter<'_>,
    ) -> Result<(), Error> {
        let meta = &pod.metadata;
        let fresh = self
            .client
            .get::<Value>(&resources::PODS, &meta.namespace, &meta.name)
            .await;
        let mut body = match fresh {
            Err(error) if error.is_not_found() => return Ok(()),
            other => other?,
        };
        identity::set_identity(&mut body, &meta.name, ordinal);
        if !identity::storage_matches(set, pod) {
            identity::set_storage(&mut body, set, ordinal);
        }
        let updated = self
            .client
            .update::<Discard>(&resources::PODS, &meta.namespace, &meta.name, &body)
            .await;
        about.tell("Update", updated.as_ref().map(|_| ()));
        updated.map(drop)
    }

    async fn delete_pod(
        &self,
        key: &Key,
        pod: &Meta,
        about: &PodEventReporter<'_>,
    ) -> Result<(), Error> {
        self.expectations.expect_deletions(key, [pod.uid.clone()]);
        let options = DeleteOptions::of_uid(pod.uid.as_str());
        let deleted = self
            .client
            .delete(&resources::PODS, &pod.namespace, &pod.name, &options)
            .await;
        let failure = deleted.err();
        if failure.is_some() {
            self.expectations.deleted(key, &pod.uid);
        }
        match failure.filter(|error| !error.is_not_found()) {
            None => {
                about.tell("Delete", Ok(()));
                Ok(())
            }
            Some(error) => {
                about.tell("Delete", Err(&error));
                Err(error)
            }
        }
    }

    async fn write_status(&self, meta: &Meta, status: &StatefulSetStatus) -> Result<(), Error> {
        let patch = json!({
            "metadata": work::precondition(meta),
            "status": {
                "observedGeneration": status.observed_generation,
                "replicas": status.replicas,
                "readyReplicas": status.ready_replicas,
                "currentReplicas": status.current_replicas,
                "updatedReplicas": status.updated_replicas,
                "availableReplicas": status.available_replicas,
                "currentRevision": status.current_revision,
                "updateRevision": status.update_revision,
                "collisionCount": status.collision_count,
            },
        });
        let result = self
            .client
            .patch_status::<Metadata>(
                &resources::STATEFUL_SETS,
                &meta.namespace,
                &meta.name,
                Patch::Merge(&patch),
            )
            .await;
        self.written
            .record_answer(result.map(|written| written.metadata))
    }
}

fn leaving(claims: &[Text]) -> String {
    let each = |name: &Text| format!("pvc {name} is being deleted");
    match claims {
        [one] => each(one),
        many => {
            let all: Vec<_> = many.iter().map(each).collect();
            format!("[{}]", all.join(", "))
        }
    }
}

/// Emits events about the pods of a set.
struct PodEventReporter<'a> {
    recorder: &'a Recorder,
    set: ObjectReference,
    set_name: &'a str,
    pod: &'a str,
}

impl PodEventReporter<'_> {
    /// The outcome of `Create`, `Update` or `Delete`.
    fn tell(&self, verb: &str, outcome: Result<(), &Error>) {
        match outcome {
            Ok(()) => {
                let (pod, set) = (self.pod, self.set_name);
                let message = format!("{verb} Pod {pod} in StatefulSet {set} successful");
                let reason = format!("Successful{verb}");
                self.recorder.normal(&self.set, &reason, message);
            }
            Err(error) => self.warn(verb, &error.chain()),
        }
    }

    fn warn(&self, verb: &str, error: &str) {
        let (pod, set) = (self.pod, self.set_name);
        let message = format!("{verb} Pod {pod} in StatefulSet {set} failed error: {error}");
        self.recorder
            .warning(&self.set, &format!("Failed{verb}"), message);
    }

    /// The outcome of the creation of a claim.
    fn claim(&self, claim: &str, outcome: Result<(), &Error>) {
        let (pod, set) = (self.pod, self.set_name);
        match outcome {
            Ok(()) => {
                let message =
                    format!("Create Claim {claim} Pod {pod} in StatefulSet {set} success");
                self.recorder.normal(&self.set, "SuccessfulCreate", message);
            }
            Err(error) => {
                let error = error.chain();
                let message = format!(
                    "Create Claim {claim} for Pod {pod} in StatefulSet {set} failed error: {error}"
                );
                self.recorder.warning(&self.set, "FailedCreate", message);
            }
        }
    }

    fn conflicting(&self, claim: &str) {
        let message = format!(
            "PersistentVolumeClaim {claim} has a conflicting OwnerReference that acts as a manging controller, the retention policy is ignored for this claim"
        );
        self.recorder
            .warning(&self.set, "ConflictingController", message);
    }
}

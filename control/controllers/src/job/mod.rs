//! Jobs: run pods until enough of them have succeeded, or too many have failed.

pub mod backoff;
mod decide;
#[cfg(test)]
mod decide_tests;
mod indexes;
mod orphans;
mod pods;
pub mod policy;
mod track;
mod ttl;

pub use ttl::CONTROLLER as TTL;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use control_client::events::{ObjectReference, Recorder};
use control_client::{Client, Error, Meta, Metadata, Patch, Queue, View as _, resources};
use futures::future;

use self::backoff::BackoffRecord;
use self::decide::{JobDecision, JobSnapshot, Work, decide};
use self::track::Count;
use crate::Controller;
use crate::context::Context;
use crate::expectations::{Expectations, FORGOTTEN_AFTER};
use crate::key::Key;
use crate::kind_cache::KindCache;
use crate::ownership::{self, AdoptionDecision};
use crate::views::{Condition, Job, JobStatus, Pod, seconds_now};
use crate::work::{self, Outcome};
use crate::written::OwnWrites;

/// The finalizer that keeps a pod until it is counted.
pub(crate) const FINALIZER: &str = "batch.kubernetes.io/job-tracking";

/// The manager of a Job that does not name one.
const MANAGER: &str = "kubernetes.io/job-controller";

/// Pods that are made, deleted or counted in one go.
pub(crate) const MANY: usize = 500;

/// How long changes of pods are gathered before a Job is looked at.
const GATHER: Duration = Duration::from_millis(200);

/// Runs the pods of Jobs.
pub const CONTROLLER: Controller = Controller {
    name: "job-controller",
    service_account: "job-controller",
    start: |ctx| {
        let this = Jobs::new(ctx);
        let listener = Arc::clone(&this);
        this.jobs.on_change(move |change| {
            listener.job_changed(change.previous.as_deref(), change.current.as_deref());
        });
        let listener = Arc::clone(&this);
        this.pods.on_change(move |change| {
            listener.pod_changed(change.previous.as_deref(), change.current.as_deref());
        });
        let (workers, shutdown) = (ctx.config.workers, ctx.shutdown.clone());
        Box::pin(async move {
            this.jobs.ready().await;
            this.pods.ready().await;
            let work = work::call(&this, |this, key| async move { this.sync(key).await });
            let orphan = work::call(
                &this,
                |this, key| async move { this.release_orphan(key).await },
            );
            future::join(
                this.queue.run("job", workers, &shutdown, work),
                this.orphans.run("job-orphan-pod", 1, &shutdown, orphan),
            )
            .await;
        })
    },
};

struct Jobs {
    client: Client,
    recorder: Recorder,
    jobs: Arc<KindCache<Job>>,
    pods: Arc<KindCache<Pod>>,
    expectations: Expectations<Key>,
    /// Pods whose finalizer was taken away, until the cache shows it.
    releases: Expectations<Key>,
    records: Mutex<HashMap<Key, BackoffRecord>>,
    written: OwnWrites,
    queue: Queue<Key>,
    /// Pods that may have a finalizer without a Job that counts them.
    orphans: Queue<Key>,
}

/// The Job that a pod names as its controller.
fn owner_of(pod: &Pod) -> Option<Key> {
    let owner = pod.metadata.controller()?;
    (owner.kind == "Job" && owner.api_version == Job::RESOURCE.api_version())
        .then(|| Key::new(pod.metadata.namespace.clone(), owner.name.clone()))
}

/// Returns whether another controller manages the Job.
fn is_of_others(job: &Job) -> bool {
    !job.spec.managed_by.is_empty() && job.spec.managed_by != MANAGER
}

impl Jobs {
    fn new(ctx: &Context) -> Arc<Self> {
        Arc::new(Self {
            client: ctx.client.clone(),
            recorder: ctx.recorder("job-controller"),
            jobs: ctx.jobs(),
            pods: ctx.pods(),
            expectations: Expectations::default(),
            releases: Expectations::default(),
            records: Mutex::default(),
            written: OwnWrites::default(),
            queue: work::queue(),
            orphans: work::queue(),
        })
    }

    fn job_changed(&self, previous: Option<&Job>, current: Option<&Job>) {
        let Some(latest) = current.or(previous) else {
            return;
        };
        let generation = |job: Option<&Job>| job.map(|job| job.metadata.generation);
        let key = Key::from_meta(&latest.metadata);
        if generation(previous) == generation(current) {
            self.queue.add_after(key, GATHER);
        } else {
            self.queue.add(key);
        }
    }

    fn pod_changed(&self, previous: Option<&Pod>, current: Option<&Pod>) {
        let before = previous.and_then(owner_of);
        let after = current.and_then(owner_of);
        if let (Some(key), Some(previous)) = (&before, previous) {
            let uid = &previous.metadata.uid;
            let now = current.filter(|pod| pod.metadata.uid == *uid);
            if now.is_none_or(|pod| pod.metadata.is_terminating()) {
                self.expectations.deleted(key, uid);
            }
            if now.is_none_or(|pod| !decide::is_tracked(pod)) {
                self.releases.deleted(key, uid);
            }
        }
        if let (Some(key), Some(current)) = (&after, current)
            && previous.is_none_or(|pod| pod.metadata.uid != current.metadata.uid)
        {
            // One that is already going was seen to come and to go.
            self.expectations.created(key);
            self.expectations.deleted(key, &current.metadata.uid);
        }
        for key in [&before, &after].into_iter().flatten() {
            self.queue.add_after(key.clone(), GATHER);
        }
        if let Some(pod) = current {
            if after.is_none() {
                self.orphan_changed(previous, pod);
            }
            if decide::is_tracked(pod) && (after.is_none() || pod.metadata.is_terminating()) {
                self.orphans.add(Key::from_meta(&pod.metadata));
            }
        }
    }

    /// An orphaned pod that appears or changes its labels may match some Job now.
    fn orphan_changed(&self, previous: Option<&Pod>, pod: &Pod) {
        let same = previous.is_some_and(|before| {
            before.metadata.labels == pod.metadata.labels
                && before.metadata.owner_references == pod.metadata.owner_references
        });
        if same || pod.metadata.labels.is_empty() || pod.metadata.controller().is_some() {
            return;
        }
        for job in self.jobs.namespace(&pod.metadata.namespace) {
            let selector = &job.spec.selector;
            if !selector.is_empty() && selector.matches(|key| pod.metadata.labels.get(key)) {
                self.queue.add_after(Key::from_meta(&job.metadata), GATHER);
            }
        }
    }

    async fn sync(&self, key: Key) -> Outcome {
        let Some(job) = self.jobs.by_key(&key) else {
            self.forget(&key);
            self.look_for_orphans(&key.namespace, None);
            return Ok(None);
        };
        if is_of_others(&job) {
            return Ok(None);
        }
        if let Some(wait) = self.written.behind(&key, Some(&job.metadata)) {
            return Ok(Some(wait));
        }
        if job.finished().is_some() {
            self.forget(&key);
            self.look_for_orphans(&key.namespace, Some(&job));
            return Ok(None);
        }
        let about = ObjectReference::to_object(&Job::RESOURCE, &job.metadata);
        if !matches!(
            job.spec.completion_mode.as_str(),
            "" | "NonIndexed" | "Indexed"
        ) {
            let message = "Skipped Job sync because completion mode is unknown";
            self.recorder
                .warning(&about, "UnknownCompletionMode", message);
            return Ok(None);
        }
        // Before the pods are read, so that changes in between are not missed.
        let settled = self.expectations.settled(&key);
        let released = self.releases.leaving(&key);
        let pods = self.claim(&job).await?;
        let record = self.records().get(&key).copied().unwrap_or_default();
        let snapshot = JobSnapshot {
            job: &job,
            pods: &pods,
            settled,
            released: &released,
            record,
            now: seconds_now(),
        };
        let mut decision = decide(&snapshot);
        // Finished pods may have been counted and deleted already.
        if !matches!(decision.work, Work::Nothing)
            && !work::is_current(&self.client, &Job::RESOURCE, &job.metadata).await?
        {
            return Ok(Some(work::CACHE_BEHIND));
        }
        let (worked, failure) = self.work(&key, &job, &decision).await;
        decision.worked(&snapshot, worked);
        let status = decide::status(&decision, &job, snapshot.now);
        self.tell_suspension(&about, &job, &status);
        let count = track::count(&snapshot, &decision, status);
        self.record(&key, &about, &snapshot, &decision, count)
            .await?;
        match failure {
            Some(error) => Err(error),
            None => {
                // A missed event must not stop the Job for ever.
                let unsettled = (!settled).then_some(FORGOTTEN_AFTER);
                Ok(decision.wake.into_iter().chain(unsettled).min())
            }
        }
    }

    /// Its pods: those it has, and those it takes.
    async fn claim(&self, job: &Job) -> Result<Vec<Arc<Pod>>, Error> {
        let mut out = Vec::new();
        for pod in self.pods.claimable(&job.metadata) {
            let matches = !job.spec.selector.is_empty()
                && job
                    .spec
                    .selector
                    .matches(|key| pod.metadata.labels.get(key));
            match ownership::claim(&job.metadata, &pod.metadata, matches) {
                AdoptionDecision::Keep => out.push(pod),
                AdoptionDecision::Adopt => {
                    let owner = (&Job::RESOURCE, &job.metadata);
                    let object = (&resources::PODS, &pod.metadata);
                    work::adopt(&self.client, owner, object, Some(FINALIZER)).await?;
                    let mut pod = Pod::clone(&pod);
                    if !decide::is_tracked(&pod) {
                        pod.metadata.finalizers.push(FINALIZER.into());
                    }
                    out.push(Arc::new(pod));
                }
                AdoptionDecision::Release => {
                    let uid = &job.metadata.uid;
                    let patch = ownership::release_patch(&pod.metadata, uid, Some(FINALIZER));
                    work::merge(&self.client, &resources::PODS, &pod.metadata, "", &patch).await?;
                }
                AdoptionDecision::Ignore => {}
            }
        }
        Ok(out)
    }

    fn tell_suspension(&self, about: &ObjectReference, job: &Job, status: &JobStatus) {
        let said =
            |list: &[Condition]| Condition::find(list, "Suspended").map(|one| one.status.clone());
        let (before, after) = (said(&job.status.conditions), said(&status.conditions));
        if before != after {
            match after.as_deref() {
                Some("True") => self.recorder.normal(about, "Suspended", "Job suspended"),
                _ => self.recorder.normal(about, "Resumed", "Job resumed"),
            }
        }
    }

    /// Counts pods: writes the status, takes finalizers away, and ends the Job when all
    /// is counted.
    async fn record(
        &self,
        key: &Key,
        about: &ObjectReference,
        snapshot: &JobSnapshot<'_>,
        decision: &JobDecision,
        mut count: Count,
    ) -> Result<(), Error> {
        let job = snapshot.job;
        let mut shown = job.status.clone();
        let mut meta = job.metadata.clone();
        if count.status != shown {
            let Some(written) = self.write_status(&meta, &count.status).await? else {
                return Ok(());
            };
            meta = written;
            self.records().insert(key.clone(), decision.record);
            shown.clone_from(&count.status);
        }
        let failure = self.release(key, &count.release, &mut count.tracked).await;
        track::count_finished_uids(&mut count.status, &count.tracked);
        let ended = failure.is_none() && count.end(snapshot.now);
        if count.status != shown {
            self.write_status(&meta, &count.status).await?;
        }
        if ended {
            self.tell_end(about, job, &count);
        }
        failure.map_or(Ok(()), Err)
    }

    fn tell_end(&self, about: &ObjectReference, job: &Job, count: &Count) {
        let Some(end) = &count.end else {
            return;
        };
        if end.r#type != "Complete" {
            self.recorder
                .warning(about, &end.reason, end.message.clone());
            return;
        }
        if job
            .spec
            .completions
            .is_some_and(|wanted| count.status.succeeded > wanted)
        {
            let message = "Too many succeeded pods running after completion count reached";
            self.recorder
                .warning(about, "TooManySucceededPods", message);
        }
        self.recorder.normal(about, "Completed", "Job completed");
    }

    /// Patches the status of the Job at the revision in `meta`. Returns the new metadata,
    /// or `None` if the Job was deleted.
    async fn write_status(&self, meta: &Meta, status: &JobStatus) -> Result<Option<Meta>, Error> {
        let patch = track::patch(meta, status);
        let written = self
            .client
            .patch_status::<Metadata>(
                &Job::RESOURCE,
                &meta.namespace,
                &meta.name,
                Patch::Merge(&patch),
            )
            .await;
        match written {
            Ok(written) => {
                self.written.note(&written.metadata);
                Ok(Some(written.metadata))
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn forget(&self, key: &Key) {
        self.expectations.forget(key);
        self.releases.forget(key);
        self.written.forget(key);
        self.records().remove(key);
    }

    fn records(&self) -> std::sync::MutexGuard<'_, HashMap<Key, BackoffRecord>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

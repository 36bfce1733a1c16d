//! CronJobs: create Jobs on a schedule.

mod decide;
mod times;

use std::collections::HashSet;
use std::sync::Arc;

use control_client::events::{ObjectReference, Recorder};
use control_client::{
    Client, DeleteOptions, Error, Metadata, Patch, Propagation, Queue, View as _, resources,
};
use control_types::cron;
use jiff::Timestamp;
use jiff::tz::Offset;
use serde_json::{Value, json};

use self::decide::{CronJobDecision, CronJobSnapshot, News, Start, decide, name_of, uid_of};
use crate::Controller;
use crate::key::Key;
use crate::kind_cache::KindCache;
use crate::views::{CronJob, CronJobStatus, Job, Text};
use crate::work::{self, Outcome};
use crate::written::OwnWrites;

/// Starts jobs by schedules.
pub const CONTROLLER: Controller = Controller {
    name: "cronjob-controller",
    service_account: "cronjob-controller",
    start: |ctx| {
        let this = Arc::new(CronJobs {
            client: ctx.client.clone(),
            recorder: ctx.recorder("cronjob-controller"),
            crons: ctx.cron_jobs(),
            jobs: ctx.jobs(),
            written: OwnWrites::default(),
            queue: work::queue(),
        });
        let listener = Arc::clone(&this);
        this.crons.on_change(move |change| {
            listener.cron_changed(change.previous.as_deref(), change.current.as_deref());
        });
        let listener = Arc::clone(&this);
        this.jobs.on_change(move |change| {
            for job in [&change.previous, &change.current].into_iter().flatten() {
                if let Some(key) = owner_of(job) {
                    listener.queue.add(key);
                }
            }
        });
        let (workers, shutdown) = (ctx.config.workers, ctx.shutdown.clone());
        Box::pin(async move {
            this.crons.ready().await;
            this.jobs.ready().await;
            let work = work::call(&this, |this, key| async move { this.sync(key).await });
            this.queue.run("cronjob", workers, &shutdown, work).await;
        })
    },
};

struct CronJobs {
    client: Client,
    recorder: Recorder,
    crons: Arc<KindCache<CronJob>>,
    jobs: Arc<KindCache<Job>>,
    written: OwnWrites,
    queue: Queue<Key>,
}

/// The CronJob that a job names as its controller.
fn owner_of(job: &Job) -> Option<Key> {
    let owner = job.metadata.controller()?;
    (owner.kind == "CronJob" && owner.api_version == CronJob::RESOURCE.api_version())
        .then(|| Key::new(job.metadata.namespace.clone(), owner.name.clone()))
}

impl CronJobs {
    fn cron_changed(&self, previous: Option<&CronJob>, current: Option<&CronJob>) {
        let Some(latest) = current.or(previous) else {
            return;
        };
        let key = Key::from_meta(&latest.metadata);
        if let (Some(previous), Some(current)) = (previous, current) {
            let when = |cron: &CronJob| (cron.spec.schedule.clone(), cron.spec.time_zone.clone());
            if when(previous) != when(current)
                && let Ok((schedule, _)) = decide::schedule(current)
            {
                // A new schedule applies to the future: nobody waits for what it would
                // have started in the past.
                if let Some(wait) = times::wait(current, &schedule, Timestamp::now()) {
                    self.queue.add_after(key, wait);
                }
                return;
            }
        }
        self.queue.add(key);
    }

    async fn sync(&self, key: Key) -> Outcome {
        let Some(cron) = self.crons.by_key(&key) else {
            self.written.forget(&key);
            return Ok(None);
        };
        if let Some(wait) = self.written.behind(&key, Some(&cron.metadata)) {
            return Ok(Some(wait));
        }
        let jobs = self.jobs.owned_by(&key.namespace, &cron.metadata.uid);
        let gone = self.gone(&cron, &jobs).await?;
        let snapshot = CronJobSnapshot {
            cron: &cron,
            jobs: &jobs,
            gone: &gone,
            now: Timestamp::now(),
        };
        let CronJobDecision {
            remove,
            news,
            mut status,
            start,
            wake,
        } = decide(&snapshot);
        let about = ObjectReference::to_object(&CronJob::RESOURCE, &cron.metadata);
        // The Job for this schedule time may already be finished and deleted.
        if start.is_some() && !self.is_current(&cron).await? {
            return Ok(Some(work::CACHE_BEHIND));
        }
        let mut removed = Ok(());
        for job in &remove {
            let (name, uid) = (&job.metadata.name, &job.metadata.uid);
            removed = removed.and(self.delete(&about, name, uid).await);
        }
        for one in news {
            self.tell(&about, one);
        }
        let started = match &start {
            Some(start) => self.start(&cron, &about, start, &mut status).await,
            None => Ok(()),
        };
        if status != cron.status {
            self.write_status(&cron, &status).await?;
        }
        started.and(removed).map(|()| wake)
    }

    async fn is_current(&self, cron: &CronJob) -> Result<bool, Error> {
        work::is_current(&self.client, &CronJob::RESOURCE, &cron.metadata).await
    }

    /// The active jobs that neither the cache nor the server has.
    async fn gone(&self, cron: &CronJob, jobs: &[Arc<Job>]) -> Result<HashSet<Text>, Error> {
        let mut gone = HashSet::new();
        for active in &cron.status.active {
            let uid = uid_of(active);
            if jobs.iter().any(|job| job.metadata.uid == uid) {
                continue;
            }
            match self.job(&cron.metadata.namespace, name_of(active)).await {
                Ok(job) if job.metadata.uid == uid => {}
                // The name was reused by another Job.
                Ok(_) => {
                    gone.insert(uid.into());
                }
                Err(error) if error.is_not_found() => {
                    gone.insert(uid.into());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(gone)
    }

    async fn job(&self, namespace: &str, name: &str) -> Result<Metadata, Error> {
        self.client.get(&resources::JOBS, namespace, name).await
    }

    fn tell(&self, about: &ObjectReference, news: News) {
        if news.warning {
            self.recorder.warning(about, news.reason, news.message);
        } else {
            self.recorder.normal(about, news.reason, news.message);
        }
    }

    /// Deletes a job and records an event. Succeeds if the job no longer exists, or its
    /// name belongs to another one.
    async fn delete(&self, about: &ObjectReference, name: &str, uid: &str) -> Result<(), Error> {
        let options = DeleteOptions::of_uid(uid).propagation(Propagation::Background);
        let deleted = self
            .client
            .delete(&resources::JOBS, &about.namespace, name, &options)
            .await;
        match deleted {
            Ok(()) => {
                let message = format!("Deleted job {name}");
                self.recorder.normal(about, "SuccessfulDelete", message);
                Ok(())
            }
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
            Err(error) => {
                let message = format!("Deleted job: {}", error.chain());
                self.recorder.warning(about, "FailedDelete", message);
                Err(error)
            }
        }
    }

    /// Starts a job and notes it in the status; one that exists already was started
    /// before the status could be written.
    async fn start(
        &self,
        cron: &CronJob,
        about: &ObjectReference,
        start: &Start,
        status: &mut CronJobStatus,
    ) -> Result<(), Error> {
        let namespace = &cron.metadata.namespace;
        if start.replaces {
            let mut replaced = Ok(());
            for active in std::mem::take(&mut status.active) {
                let deleted = self.delete(about, name_of(&active), uid_of(&active)).await;
                if deleted.is_err() {
                    status.active.push(active);
                }
                replaced = replaced.and(deleted);
            }
            // Until all active jobs are deleted, the queue retries with back-off.
            replaced?;
        }
        let created = self
            .client
            .create::<Metadata>(&resources::JOBS, namespace, &job_of(cron, start))
            .await;
        let job = match created {
            Ok(job) => {
                let message = format!("Created job {}", job.metadata.name);
                self.recorder.normal(about, "SuccessfulCreate", message);
                job
            }
            Err(error) if error.is_namespace_terminating() => return Ok(()),
            Err(error) if error.is_already_exists() => {
                let job = self.job(namespace, &start.name).await?;
                let ours = job
                    .metadata
                    .controller()
                    .is_some_and(|owner| owner.uid == cron.metadata.uid);
                let known = status
                    .active
                    .iter()
                    .any(|one| uid_of(one) == job.metadata.uid);
                if !ours || known {
                    return Ok(());
                }
                job
            }
            Err(error) => {
                let message = format!("Error creating job: {}", error.chain());
                self.recorder.warning(about, "FailedCreate", message);
                return Err(error);
            }
        };
        let meta = &job.metadata;
        status.active.push(json!({
            "kind": "Job",
            "namespace": meta.namespace,
            "name": meta.name,
            "uid": meta.uid,
            "apiVersion": Job::RESOURCE.api_version(),
            "resourceVersion": meta.resource_version,
        }));
        status.last_schedule_time = Some(start.due);
        Ok(())
    }

    async fn write_status(&self, cron: &CronJob, status: &CronJobStatus) -> Result<(), Error> {
        let meta = &cron.metadata;
        // A merge patch takes `null` as "remove".
        let patch = json!({
            "metadata": work::precondition(meta),
            "status": {
                "active": Some(&status.active).filter(|active| !active.is_empty()),
                "lastScheduleTime": status.last_schedule_time,
                "lastSuccessfulTime": status.last_successful_time,
            },
        });
        let written = self
            .client
            .patch_status::<Metadata>(
                &CronJob::RESOURCE,
                &meta.namespace,
                &meta.name,
                Patch::Merge(&patch),
            )
            .await;
        self.written
            .record_answer(written.map(|written| written.metadata))
    }
}

/// The job of a time.
fn job_of(cron: &CronJob, start: &Start) -> Value {
    let template = &cron.spec.job_template;
    let part = |name: &str| template.pointer(&format!("/metadata/{name}")).cloned();
    let mut annotations = part("annotations")
        .filter(Value::is_object)
        .unwrap_or_else(|| json!({}));
    let zone = cron::zone(cron.spec.time_zone.as_deref().unwrap_or_default())
        .unwrap_or(jiff::tz::TimeZone::UTC);
    annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"] =
        in_zone(start.due, zone.to_offset(start.due)).into();
    let mut metadata = json!({
        "name": start.name,
        "annotations": annotations,
        "ownerReferences": [work::reference_to(&CronJob::RESOURCE, &cron.metadata)],
    });
    if let Some(labels) = part("labels") {
        metadata["labels"] = labels;
    }
    json!({
        "apiVersion": Job::RESOURCE.api_version(),
        "kind": "Job",
        "metadata": metadata,
        "spec": template.get("spec").cloned().unwrap_or_default(),
    })
}

/// A time as RFC 3339 has it, in a zone.
fn in_zone(time: Timestamp, offset: Offset) -> String {
    if offset == Offset::UTC {
        time.to_string()
    } else {
        time.display_with_offset(offset).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_says_when_it_was_due_in_the_zone_of_its_schedule() {
        let mut cron: CronJob = serde_json::from_value(json!({
            "metadata": {"name": "c", "uid": "u"},
            "spec": {"schedule": "* * * * *", "timeZone": "Asia/Tokyo", "jobTemplate": {
                "metadata": {"labels": {"a": "b"}}, "spec": {"backoffLimit": 1}}},
        }))
        .unwrap();
        let start = Start {
            name: "c-1".into(),
            due: "2026-01-01T12:00:00Z".parse().unwrap(),
            replaces: false,
        };
        let annotation = "/metadata/annotations/batch.kubernetes.io~1cronjob-scheduled-timestamp";
        let job = job_of(&cron, &start);
        assert_eq!(
            job.pointer(annotation),
            Some(&json!("2026-01-01T21:00:00+09:00"))
        );
        assert_eq!(job.pointer("/metadata/labels/a"), Some(&json!("b")));
        assert_eq!(job.pointer("/spec/backoffLimit"), Some(&json!(1)));
        assert_eq!(
            job.pointer("/metadata/ownerReferences/0/kind"),
            Some(&json!("CronJob"))
        );
        cron.spec.time_zone = None;
        let job = job_of(&cron, &start);
        assert_eq!(
            job.pointer(annotation),
            Some(&json!("2026-01-01T12:00:00Z"))
        );
    }
}

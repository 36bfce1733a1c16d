//! Creates, deletes and, after counting, releases a Job's pods.

use std::collections::HashSet;
use std::sync::Arc;

use control_client::events::ObjectReference;
use control_client::{DeleteOptions, Discard, Error, Patch, View as _, resources};
use futures::future;
use serde_json::{Value, json};

use super::decide::{JobDecision, NewIndex, Work, WorkResult};
use super::{FINALIZER, Jobs, orphans};
use crate::key::Key;
use crate::views::{Job, Pod, Text};
use crate::work;

const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// The longest name that gets a random end.
const LONGEST_PREFIX: usize = 58;

impl Jobs {
    /// Creates or deletes pods as decided. Returns the number of successes and the first
    /// failure.
    pub(super) async fn work(
        &self,
        key: &Key,
        job: &Job,
        decision: &JobDecision,
    ) -> (WorkResult, Option<Error>) {
        match &decision.work {
            Work::Nothing => (WorkResult::default(), None),
            Work::End(pods) => self.delete(key, job, pods, false).await,
            Work::Delete(pods) => self.delete(key, job, pods, true).await,
            Work::Create(count) => {
                let body = body(job);
                let bodies = std::iter::repeat_n(&body, *count);
                self.create(key, job, bodies).await
            }
            Work::CreateIndexed(indexes) => {
                let body = body(job);
                let bodies: Vec<Value> = indexes
                    .iter()
                    .map(|index| indexed(body.clone(), job, index))
                    .collect();
                self.create(key, job, bodies.iter()).await
            }
        }
    }

    /// Removes the finalizer from pods that the status has counted; those without it are
    /// no longer tracked.
    pub(super) async fn release(
        &self,
        key: &Key,
        pods: &[Arc<Pod>],
        tracked: &mut HashSet<Text>,
    ) -> Option<Error> {
        let uids = pods.iter().map(|pod| pod.metadata.uid.clone());
        if !pods.is_empty() {
            self.releases.expect_deletions(key, uids);
        }
        let results = future::join_all(pods.iter().map(|pod| self.release_one(pod))).await;
        let mut failure = None;
        for (pod, result) in pods.iter().zip(results) {
            let uid = &pod.metadata.uid;
            match result {
                Ok(there) => {
                    tracked.remove(uid);
                    if !there {
                        self.releases.deleted(key, uid);
                    }
                }
                Err(error) => {
                    self.releases.deleted(key, uid);
                    failure.get_or_insert(error);
                }
            }
        }
        failure
    }

    /// Tells whether the pod was there yet.
    async fn release_one(&self, pod: &Pod) -> Result<bool, Error> {
        let meta = &pod.metadata;
        let patch = orphans::release(pod);
        let done = self
            .client
            .patch::<Discard>(
                &resources::PODS,
                &meta.namespace,
                &meta.name,
                "",
                Patch::Strategic(&patch),
            )
            .await;
        match done {
            Ok(_) => Ok(true),
            // Gone, or another of the same name.
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn delete(
        &self,
        key: &Key,
        job: &Job,
        pods: &[Arc<Pod>],
        released: bool,
    ) -> (WorkResult, Option<Error>) {
        let about = ObjectReference::to_object(&Job::RESOURCE, &job.metadata);
        if released && !pods.is_empty() {
            let uids = pods.iter().map(|pod| pod.metadata.uid.clone());
            self.expectations.expect_deletions(key, uids);
        }
        let results = future::join_all(
            pods.iter()
                .map(|pod| self.delete_one(&about, pod, released)),
        )
        .await;
        let (mut worked, mut failure) = (WorkResult::default(), None);
        for (pod, result) in pods.iter().zip(results) {
            match result {
                Ok(there) => {
                    worked.deleted += 1;
                    worked.deleted_ready += i32::from(pod.is_ready());
                    if !there {
                        self.expectations.deleted(key, &pod.metadata.uid);
                    }
                }
                Err(error) => {
                    self.expectations.deleted(key, &pod.metadata.uid);
                    failure.get_or_insert(error);
                }
            }
        }
        (worked, failure)
    }

    /// Tells whether the pod was there yet.
    async fn delete_one(
        &self,
        about: &ObjectReference,
        pod: &Pod,
        release: bool,
    ) -> Result<bool, Error> {
        let meta = &pod.metadata;
        if release && super::decide::is_tracked(pod) {
            self.release_one(pod).await?;
        }
        let options = DeleteOptions::of_uid(meta.uid.as_str());
        let deleted = self
            .client
            .delete(&resources::PODS, &meta.namespace, &meta.name, &options)
            .await;
        match deleted {
            Ok(()) => {
                let message = format!("Deleted pod: {}", meta.name);
                self.recorder.normal(about, "SuccessfulDelete", message);
                Ok(true)
            }
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(false),
            Err(error) => {
                let message = format!("Error deleting: {}", error.chain());
                self.recorder.warning(about, "FailedDelete", message);
                Err(error)
            }
        }
    }

    async fn create(
        &self,
        key: &Key,
        job: &Job,
        bodies: impl ExactSizeIterator<Item = &Value>,
    ) -> (WorkResult, Option<Error>) {
        if bodies.len() == 0 {
            return (WorkResult::default(), None);
        }
        let about = ObjectReference::to_object(&Job::RESOURCE, &job.metadata);
        let of = (key, &about);
        let (client, recorder, expected) = (&self.client, &self.recorder, &self.expectations);
        let (made, failure) = work::create_pods(client, recorder, expected, of, bodies).await;
        let worked = WorkResult {
            created: i32::try_from(made).unwrap_or(i32::MAX),
            ..WorkResult::default()
        };
        (worked, failure)
    }
}

/// A pod of the Job, without an index.
fn body(job: &Job) -> Value {
    let mut template = job.spec.template.to_value();
    if job.is_indexed() {
        for list in ["initContainers", "containers"] {
            let containers = template.pointer_mut(&format!("/spec/{list}"));
            let containers = containers.and_then(Value::as_array_mut);
            containers.into_iter().flatten().for_each(tell_index);
        }
    }
    let reference = work::reference_to(&Job::RESOURCE, &job.metadata);
    let mut body = work::pod_from_template(&template, &job.metadata, &reference);
    let finalizers = body
        .pointer("/metadata/finalizers")
        .and_then(Value::as_array);
    let mut finalizers = finalizers.cloned().unwrap_or_default();
    if !finalizers.iter().any(|one| one == FINALIZER) {
        finalizers.push(FINALIZER.into());
    }
    body["metadata"]["finalizers"] = finalizers.into();
    body
}

/// Gives a container its index in the environment.
fn tell_index(container: &mut Value) {
    const NAME: &str = "JOB_COMPLETION_INDEX";
    let own = json!({"name": NAME, "valueFrom": {"fieldRef": {
        "fieldPath": format!("metadata.labels['{INDEX}']")
    }}});
    match container.get_mut("env").and_then(Value::as_array_mut) {
        Some(env) if env.iter().any(|one| one["name"] == NAME) => {}
        Some(env) => env.push(own),
        None => container["env"] = json!([own]),
    }
}

/// The pod of an index.
fn indexed(mut body: Value, job: &Job, new: &NewIndex) -> Value {
    let name = &job.metadata.name;
    let index = new.index.to_string();
    let end = format!("-{index}-");
    let mut prefix = name.to_string();
    // Names are ASCII.
    prefix.truncate(LONGEST_PREFIX.saturating_sub(end.len()));
    let metadata = &mut body["metadata"];
    metadata["generateName"] = format!("{prefix}{end}").into();
    metadata["labels"][INDEX] = index.as_str().into();
    metadata["annotations"][INDEX] = index.as_str().into();
    if let Some((failures, ignored)) = new.failures {
        let annotations = &mut metadata["annotations"];
        annotations["batch.kubernetes.io/job-index-failure-count"] = failures.to_string().into();
        if ignored > 0 {
            annotations["batch.kubernetes.io/job-index-ignored-failure-count"] =
                ignored.to_string().into();
        }
    }
    body["spec"]["hostname"] = format!("{name}-{index}").into();
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(mode: &str) -> Job {
        serde_json::from_value(json!({
            "metadata": {"name": "j", "uid": "u", "namespace": "d"},
            "spec": {"completionMode": mode, "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c"}, {"name": "d", "env": [{"name": "JOB_COMPLETION_INDEX", "value": "x"}]}]}
            }},
        }))
        .unwrap()
    }

    #[test]
    fn a_pod_has_the_finalizer_and_its_owner() {
        let body = body(&job("NonIndexed"));
        assert_eq!(body["metadata"]["finalizers"], json!([FINALIZER]));
        assert_eq!(body["metadata"]["generateName"], "j-");
        assert_eq!(body["metadata"]["ownerReferences"][0]["kind"], "Job");
        assert!(body["spec"]["containers"][0].get("env").is_none());
    }

    #[test]
    fn a_pod_of_an_index_is_told_it() {
        let job = job("Indexed");
        let new = NewIndex {
            index: 3,
            failures: Some((2, 1)),
        };
        let pod = indexed(body(&job), &job, &new);
        let metadata = &pod["metadata"];
        assert_eq!(metadata["generateName"], "j-3-");
        assert_eq!(metadata["labels"], json!({"a": "b", INDEX: "3"}));
        assert_eq!(
            metadata["annotations"],
            json!({INDEX: "3", "batch.kubernetes.io/job-index-failure-count": "2",
                "batch.kubernetes.io/job-index-ignored-failure-count": "1"})
        );
        assert_eq!(pod["spec"]["hostname"], "j-3");
        let containers = &pod["spec"]["containers"];
        assert_eq!(containers[0]["env"][0]["name"], "JOB_COMPLETION_INDEX");
        assert_eq!(
            containers[1]["env"].as_array().map(Vec::len),
            Some(1),
            "its own stays"
        );
    }

    #[test]
    fn long_names_leave_room_for_the_index() {
        let mut job = job("Indexed");
        job.metadata.name = "x".repeat(63).into();
        let pod = indexed(
            body(&job),
            &job,
            &NewIndex {
                index: 12,
                failures: None,
            },
        );
        let prefix = pod["metadata"]["generateName"].as_str().unwrap();
        assert_eq!(prefix.len(), LONGEST_PREFIX);
        assert!(prefix.ends_with("x-12-"));
    }
}

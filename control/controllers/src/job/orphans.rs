//! Removes the Job finalizer from pods that no Job counts any more: those of deleted or
//! finished Jobs, and released ones.

use control_client::resources;

use super::{FINALIZER, Jobs, decide, is_of_others, owner_of};
use crate::key::Key;
use crate::views::{Job, Pod};
use crate::work::Outcome;

impl Jobs {
    /// Queues the pods that a Job leaves behind; without a Job, all pods of the namespace
    /// with the finalizer.
    pub(super) fn look_for_orphans(&self, namespace: &str, job: Option<&Job>) {
        let pods = match job {
            Some(job) => self.pods.owned_by(namespace, &job.metadata.uid),
            None => self.pods.namespace(namespace),
        };
        for pod in pods.iter().filter(|pod| decide::is_tracked(pod)) {
            self.orphans.add(Key::from_meta(&pod.metadata));
        }
    }

    /// Takes the finalizer from a pod that no Job counts.
    pub(super) async fn release_orphan(&self, key: Key) -> Outcome {
        let Some(pod) = self.pods.by_key(&key) else {
            return Ok(None);
        };
        if !decide::is_tracked(&pod) || !self.is_orphan(&pod) {
            return Ok(None);
        }
        let patch = release(&pod);
        let patch = control_client::Patch::Strategic(&patch);
        let done = self
            .client
            .patch::<control_client::Discard>(
                &resources::PODS,
                &key.namespace,
                &key.name,
                "",
                patch,
            )
            .await;
        match done {
            Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error),
            _ => Ok(None),
        }
    }

    fn is_orphan(&self, pod: &Pod) -> bool {
        let Some(owner) = pod.metadata.controller() else {
            return true;
        };
        // Pods of other controllers are released by those.
        let Some(key) = owner_of(pod) else {
            return false;
        };
        let job = self
            .jobs
            .by_key(&key)
            .filter(|job| job.metadata.uid == owner.uid);
        job.is_none_or(|job| job.finished().is_some() && !is_of_others(&job))
    }
}

/// A strategic merge patch that takes the finalizer away.
pub(super) fn release(pod: &Pod) -> serde_json::Value {
    serde_json::json!({"metadata": {
        "uid": pod.metadata.uid,
        "$deleteFromPrimitiveList/finalizers": [FINALIZER],
    }})
}

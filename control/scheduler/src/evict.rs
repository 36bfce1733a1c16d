//! Carries a preemption out: victims are marked and deleted, and less important pods lose
//! their nomination of the node.

use std::sync::Arc;

use control_client::events::{ObjectReference, Recorder, Severity};
use control_client::{Client, DeleteOptions, Discard, Error, Patch, resources};
use futures::StreamExt;
use serde_json::{Value, json};

use crate::preempt::Preemption;
use crate::view::Pod;

/// The number of concurrent deletions for one pod.
const AT_ONCE: usize = 16;

/// The input of one preemption.
pub(crate) struct Evictions {
    pub(crate) client: Client,
    pub(crate) recorder: Recorder,
    /// The pod that needs the room.
    pub(crate) preemptor: Arc<Pod>,
    pub(crate) preemption: Preemption,
    /// Less important pods that the node is nominated for.
    pub(crate) outdone: Vec<Arc<Pod>>,
}

impl Evictions {
    /// Evicts the victims. Their nodes end them in their own time.
    ///
    /// # Errors
    /// A victim that stays.
    pub(crate) async fn carry_out(&self) -> Result<(), Error> {
        for pod in &self.outdone {
            if let Err(error) = clear_nomination(&self.client, pod).await {
                tracing::warn!(
                    namespace = %pod.metadata.namespace, pod = %pod.metadata.name,
                    error = error.chain(), "failed to clear nominatedNodeName"
                );
            }
        }
        let victims = self.preemption.victims.iter();
        let victims = victims.filter(|victim| !victim.metadata.is_terminating());
        let deletions: Vec<_> = victims.map(|victim| self.evict(victim)).collect();
        let mut deletions = futures::stream::iter(deletions).buffer_unordered(AT_ONCE);
        let mut result = Ok(());
        while let Some(deleted) = deletions.next().await {
            match deleted {
                Err(error) if !error.is_not_found() => result = Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        result
    }

    async fn evict(&self, victim: &Pod) -> Result<(), Error> {
        let meta = &victim.metadata;
        let pods = &resources::PODS;
        let patch = json!({
            "metadata": {"uid": meta.uid},
            "status": {"conditions": [self.condition(victim)]},
        });
        self.client
            .patch_status::<Discard>(pods, &meta.namespace, &meta.name, Patch::Strategic(&patch))
            .await?;
        let options = DeleteOptions::of_uid(meta.uid.as_str());
        self.client
            .delete(pods, &meta.namespace, &meta.name, &options)
            .await?;
        self.recorder.event_related(
            &ObjectReference::to_object(pods, meta),
            &ObjectReference::to_object(pods, &self.preemptor.metadata),
            Severity::Normal,
            "Preempted",
            "Preempting",
            format!(
                "Preempted by pod {} on node {}",
                self.preemptor.metadata.uid, self.preemption.node
            ),
        );
        Ok(())
    }

    fn condition(&self, victim: &Pod) -> Value {
        let mut condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
            "message": format!(
                "{}: preempting to accommodate a higher priority pod",
                self.preemptor.scheduler_name
            ),
            "lastTransitionTime": control_client::time::seconds(jiff::Timestamp::now()),
        });
        if victim.metadata.generation > 0 {
            condition["observedGeneration"] = json!(victim.metadata.generation);
        }
        condition
    }
}

/// Clears the nominated node of a pod that waits.
pub(crate) async fn clear_nomination(client: &Client, pod: &Pod) -> Result<(), Error> {
    let meta = &pod.metadata;
    let patch = json!({
        "metadata": {"uid": meta.uid},
        "status": {"nominatedNodeName": null},
    });
    let written = client
        .patch_status::<Discard>(
            &resources::PODS,
            &meta.namespace,
            &meta.name,
            Patch::Strategic(&patch),
        )
        .await;
    match written {
        Err(error) if !error.is_not_found() => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

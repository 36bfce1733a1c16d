//! What is left of a pod's containers, and of the pod, is taken away.

use std::time::Duration;

use control_client::{DeleteOptions, View};
use jiff::Timestamp;
use node_agent_cri::api::{ContainerId, SandboxId};
use node_agent_files::{Directory, remove_tree};
use node_agent_objects::error_chain;
use node_agent_objects::pod::Pod;
use node_agent_pod_registry::log_directory;

use super::backoff::later;
use super::state::PodState;

impl PodState {
    /// Removes containers that ended and were replaced: of each name the last
    /// two stay, one for its state and one for its last state.
    pub(super) async fn prune(&mut self) {
        let mut old = Vec::new();
        for (_, records) in self.observed.by_name() {
            old.extend(
                records
                    .iter()
                    .skip(2)
                    .filter(|r| r.exited())
                    .map(|r| r.id.clone()),
            );
        }
        for id in old {
            let removed = self
                .shared
                .runtime
                .remove_container(ContainerId { container_id: id })
                .await;
            if let Err(error) = removed {
                tracing::debug!(pod = self.pod.name(), %error, "failed to remove an old container");
            }
        }
        // sandboxes that were replaced and hold nothing
        let empty: Vec<String> = self
            .observed
            .sandboxes
            .iter()
            .skip(1)
            .filter(|s| !s.ready && !self.observed.containers.iter().any(|c| c.sandbox == s.id))
            .map(|s| s.id.clone())
            .collect();
        for id in empty {
            let _ = self
                .shared
                .runtime
                .remove_pod_sandbox(SandboxId { pod_sandbox_id: id })
                .await;
        }
    }

    /// Nothing runs any more: reports the end, gives everything back, and has
    /// the API forget the pod. Whether nothing is left to do.
    pub(super) async fn finish(&mut self) -> bool {
        let shared = self.shared.clone();
        // before anybody is told that it is over, and gives them to another
        if let Err(error) = shared.claims.unprepare(self.pod.uid()).await {
            let error = error_chain(&error);
            tracing::warn!(
                pod = self.pod.name(),
                error,
                "failed to unprepare resource claims"
            );
            self.step.wake = Some(later(Timestamp::now(), Duration::from_secs(1)));
            return false;
        }
        self.terminal = true;
        shared
            .objects
            .follow(self.pod.uid(), &Default::default(), &self.stale);
        self.live.stop_probes();
        self.publish(true);
        let uid = self.pod.uid().to_owned();
        let released = shared.csi.release(self.volumes.pod_dir()).await;
        let removed = match released {
            Ok(()) => self.volumes.remove().map_err(|e| e.to_string()),
            Err(error) => Err(error_chain(&error)),
        };
        if let Err(error) = removed {
            // a pod is gone only when nothing of it is in use
            tracing::warn!(pod = self.pod.name(), error, "failed to remove the volumes");
            self.step.wake = Some(later(Timestamp::now(), Duration::from_secs(1)));
            return false;
        }
        shared.devices.keep(|kept| kept != uid);
        shared.managers.keep(|kept| kept != uid);
        self.memory.volumes_ready = false;
        if let Some(cgroups) = &self.shared.cgroups
            && !cgroups.remove_pod(&uid).await
        {
            tracing::debug!(pod = self.pod.name(), "control group is still in use");
        }
        if !self.gone {
            if !self.pod.is_deleting() {
                return false;
            }
            if let Some(reporter) = self.reporter.clone() {
                reporter.flush().await;
            }
            let options = DeleteOptions::of_uid(uid).grace(0);
            let deleted = self
                .shared
                .client
                .delete(
                    &Pod::RESOURCE,
                    self.pod.namespace(),
                    self.pod.name(),
                    &options,
                )
                .await;
            match deleted {
                Ok(()) => {}
                Err(error) if error.is_not_found() || error.is_conflict() => {}
                Err(error) => {
                    tracing::warn!(
                        pod = self.pod.name(),
                        error = error.chain(),
                        "failed to delete the pod"
                    );
                    self.step.wake = Some(later(Timestamp::now(), Duration::from_secs(1)));
                    return false;
                }
            }
            if !self.pod.metadata.finalizers.is_empty() {
                // the API keeps it until somebody else is through
                self.step.wake = Some(later(Timestamp::now(), Duration::from_secs(30)));
                return false;
            }
        }
        if !self.forget().await {
            self.step.wake = Some(later(Timestamp::now(), Duration::from_secs(1)));
            return false;
        }
        true
    }

    /// Removes the pod from the runtime, and its logs. Whether nothing is left.
    async fn forget(&mut self) -> bool {
        let mut gone = true;
        for sandbox in &self.observed.sandboxes {
            let removed = self
                .shared
                .runtime
                .remove_pod_sandbox(SandboxId {
                    pod_sandbox_id: sandbox.id.clone(),
                })
                .await;
            if let Err(error) = removed {
                tracing::debug!(pod = self.pod.name(), %error, "failed to remove the sandbox");
                gone = false;
            }
        }
        if !gone {
            return false;
        }
        let logs = log_directory(&self.shared.node.log_root, &self.pod);
        // the folder of one pod, and nothing that a link there leads to
        let removed = Directory::open(&self.shared.node.log_root)
            .and_then(|root| remove_tree(&root, logs.file_name().unwrap_or_default()));
        if let Err(error) = removed {
            tracing::warn!(pod = self.pod.name(), %error, "failed to remove the pod's logs");
        }
        if let Some(cgroups) = &self.shared.cgroups {
            let _ = cgroups.remove_pod(self.pod.uid()).await;
        }
        true
    }
}

//! A pod's volumes are made before it starts, and brought up to date while it
//! runs.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use node_agent_objects::error_chain;
use node_agent_pod_registry::TerminationCause;
use node_agent_pod_volumes::{MountContext, PodVolumes, VolumeFailure};

use super::backoff::Wait;
use super::state::PodState;

/// How often volumes made of API objects are brought up to date.
const VOLUMES_EVERY: Duration = Duration::from_secs(60);

/// How long a volume may find no room on the node before its pod is refused, to be made
/// elsewhere: as long as the kubelet waits for volumes.
const NO_ROOM: Duration = Duration::from_secs(123);

/// Whether a pod whose volumes cannot be made is to end for it: there is no room for them
/// (`VolumeAttachmentLimitExceeded`, KEP-4876). Pure.
fn verdict(failed: &VolumeFailure, waited: Duration) -> Option<TerminationCause> {
    let full = matches!(
        failed.error,
        node_agent_pod_volumes::Error::Driver(node_agent_csi_client::Error::Full(_))
    );
    (full && waited >= NO_ROOM).then(|| TerminationCause {
        reason: "VolumeAttachmentLimitExceeded".to_owned(),
        message: format!(
            "Pod was rejected: Node has reached its volume attachment limit, rejecting pod. \
             {}",
            error_chain(failed)
        ),
        disruption: false,
    })
}

impl PodState {
    async fn bring_volumes(&mut self) -> Result<(), VolumeFailure> {
        let facts = self.facts();
        let objects = self.shared.objects.clone();
        let (shared, pod) = (self.shared.clone(), self.pod.clone());
        self.volumes
            .mount(
                MountContext {
                    pod: &pod,
                    facts: &facts,
                    objects: &*objects,
                    drivers: &shared.csi,
                    warn: &|reason, message| shared.events.warning(&pod, None, reason, message),
                    tell: &|reason, message| shared.events.normal(&pod, None, reason, message),
                    metrics: &shared.metrics,
                },
                &mut self.tokens,
            )
            .await
    }

    /// Makes them before anything of the pod starts.
    pub(super) async fn mount_volumes(&mut self) {
        let mounted = self.bring_volumes().await;
        match mounted {
            Ok(()) => {
                self.memory.volumes_ready = true;
                self.memory.volumes_retry = None;
                self.volumes_failed = 0;
                self.volumes_lack = None;
            }
            Err(error) => {
                self.volumes_failed = self.volumes_failed.saturating_add(1);
                let wait = Duration::from_millis(500) * 2_u32.pow(self.volumes_failed.min(6) - 1);
                self.memory.volumes_retry = Some(Wait::new(Timestamp::now(), wait));
                self.shared
                    .events
                    .warning(&self.pod, None, "FailedMount", error_chain(&error));
                let since = *self.volumes_lack.get_or_insert_with(Instant::now);
                if let Some(sentence) = verdict(&error, since.elapsed()) {
                    let said = sentence.message.trim_start_matches("Pod was rejected: ");
                    self.shared
                        .events
                        .warning(&self.pod, None, &sentence.reason, said);
                    self.sentence.get_or_insert(sentence);
                }
            }
        }
    }

    /// Brings volumes up to date whose time has come.
    pub(super) async fn refresh_volumes(&mut self) {
        if !self.memory.volumes_ready || self.terminal {
            return;
        }
        // Without a time, a container may have volumes that none had before.
        let due = self.volumes_made.is_none_or(|at| {
            let is_token_due = || {
                self.token_refresh()
                    .is_some_and(|at| at <= Timestamp::now())
            };
            PodVolumes::is_live(&self.pod) && (at.elapsed() >= VOLUMES_EVERY || is_token_due())
        });
        if !due {
            return;
        }
        self.volumes_made = Some(Instant::now());
        let made = self.bring_volumes().await;
        if let Err(error) = made {
            let error = error_chain(&error);
            tracing::debug!(pod = self.pod.name(), error, "failed to update volumes");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_refused_for_want_of_room_only_and_not_at_once() {
        let failed = |error: node_agent_csi_client::Error| VolumeFailure {
            volume: "data".to_owned(),
            error: error.into(),
        };
        let full = failed(node_agent_csi_client::Error::Full("no more".to_owned()));
        let waiting = failed(node_agent_csi_client::Error::Waiting(
            "not attached yet".to_owned(),
        ));
        let long = NO_ROOM * 2;
        assert_eq!(verdict(&waiting, long), None);
        assert_eq!(verdict(&full, NO_ROOM / 2), None, "one may be detached");
        let sentence = verdict(&full, long).expect("refused");
        assert_eq!(sentence.reason, "VolumeAttachmentLimitExceeded");
        assert!(sentence.message.starts_with("Pod was rejected: "));
        let cause = "MountVolume.SetUp failed for volume \"data\" : no more";
        assert!(sentence.message.ends_with(cause), "{}", sentence.message);
    }
}

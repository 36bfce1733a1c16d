//! The resizer: grows the volumes of this node whose claims ask for more.

use std::sync::Arc;
use std::time::Duration;

use control_client::events::ObjectReference;
use control_client::{Queue, resources};
use csi_api as api;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::conditions::{self, Condition, RESIZING};
use crate::driver::{CallError, NAME};
use crate::error::Result;
use crate::provision::{quantity, volume_capabilities};
use crate::shared::{Key, LoopContext, REST, queue, queue_latest};
use crate::standby::Duty;
use crate::views::{Claim, Volume};

/// Claims at a time.
const WORKERS: usize = 2;

/// Statuses of `allocatedResourceStatuses`.
const IN_PROGRESS: &str = "ControllerResizeInProgress";
const INFEASIBLE: &str = "ControllerResizeInfeasible";
const NODE_PENDING: &str = "NodeResizePending";

/// The next step for a claim.
#[derive(Debug, PartialEq, Eq)]
enum ResizeDecision {
    /// It has what it asks for.
    Nothing,
    /// Its file system is to take what the volume has become.
    TellNode,
    /// It does not ask for more any longer.
    Withdraw,
    /// Its volume is to have this many bytes.
    Expand {
        /// The driver's identifier.
        handle: String,
        /// The size.
        bytes: i64,
        /// Whether the claim does not say yet that its volume grows to this size.
        is_new: bool,
    },
}

/// Decides whether a volume of `node` grows.
fn decide(claim: &Claim, volume: &Volume, node: &str) -> ResizeDecision {
    let Some(handle) = volume.handle_on(node) else {
        return ResizeDecision::Nothing;
    };
    let is_bound = claim.status.phase == "Bound" && volume.is_of(&claim.metadata);
    let wanted = claim.spec.resources.requests.bytes();
    let (Some(wanted), Some(has), true) = (wanted, claim.status.capacity.bytes(), is_bound) else {
        return ResizeDecision::Nothing;
    };
    let statuses = &claim.status.allocated_resource_statuses;
    let status = statuses.get("storage").map_or("", String::as_str);
    let is_of_node = status.starts_with("NodeResize");
    if wanted <= has {
        return match status {
            IN_PROGRESS | INFEASIBLE => ResizeDecision::Withdraw,
            _ => ResizeDecision::Nothing,
        };
    }
    let present = volume.spec.capacity.bytes().unwrap_or(0);
    if is_of_node && present >= wanted {
        return ResizeDecision::TellNode;
    }
    let allocated = claim.status.allocated_resources.bytes();
    ResizeDecision::Expand {
        handle: handle.to_owned(),
        bytes: wanted,
        // A claim that says that it cannot grow keeps saying so while that is tried again: a write
        // at each attempt would queue the claim at once and defeat the delay between attempts.
        is_new: !matches!(status, IN_PROGRESS | INFEASIBLE) || allocated != Some(wanted),
    }
}

/// Whether a size cannot be had, however often it is tried.
fn is_infeasible(error: &CallError) -> bool {
    use tonic::Code::{InvalidArgument, NotFound, OutOfRange};
    matches!(error.code, InvalidArgument | NotFound | OutOfRange)
}

struct Resizer {
    shared: Arc<LoopContext>,
    queue: Queue<Key>,
}

/// Runs the resizer until `shutdown`.
pub async fn run(shared: Arc<LoopContext>, shutdown: CancellationToken) {
    shared.synced().await;
    let this = Arc::new(Resizer {
        shared,
        queue: queue(),
    });
    let worker = this.clone();
    let work = move |key| {
        let this = worker.clone();
        async move { this.sync(key).await }
    };
    tokio::select! {
        () = this.queue.run("volume-resizer", WORKERS, &shutdown, work) => {}
        () = this.follow() => {}
    }
}

impl Resizer {
    async fn follow(&self) {
        let mut claims = self.shared.claims.changes();
        let mut volumes = self.shared.volumes.changes();
        loop {
            tokio::select! {
                change = claims.recv() => {
                    let Some(change) = change else { return };
                    queue_latest(&self.queue, &change);
                }
                change = volumes.recv() => {
                    let Some(change) = change else { return };
                    let volume = change.current.as_ref();
                    if let Some(claim) = volume.and_then(|it| it.spec.claim_ref.as_ref()) {
                        self.queue.add(Key {
                            namespace: claim.namespace.as_str().into(),
                            name: claim.name.as_str().into(),
                        });
                    }
                }
            }
        }
    }

    async fn sync(&self, key: Key) -> Result<Option<Duration>> {
        let shared = &self.shared;
        let Some(claim) = shared.claims.cache().get(&key.namespace, &key.name) else {
            return Ok(None);
        };
        let Some(volume) = shared.volumes.cache().get("", &claim.spec.volume_name) else {
            return Ok(None);
        };
        let decision = decide(&claim, &volume, &shared.node);
        if let ResizeDecision::TellNode = decision {
            // Whoever grew the storage.
            (shared.grown)(&key.namespace, &key.name);
            return Ok(None);
        }
        if decision != ResizeDecision::Nothing && !shared.standby.is_ours(Duty::Resize) {
            return Ok(Some(REST / 10));
        }
        match decision {
            ResizeDecision::Nothing | ResizeDecision::TellNode => {}
            ResizeDecision::Withdraw => {
                let status = json!({
                    "conditions": conditions::with(&claim, RESIZING, None),
                    "allocatedResourceStatuses": {"storage": null},
                });
                self.report(&claim, status).await?;
            }
            ResizeDecision::Expand {
                handle,
                bytes,
                is_new,
            } => {
                let claim = if is_new {
                    self.begin(&claim, &volume, bytes).await?
                } else {
                    (*claim).clone()
                };
                self.expand(&claim, &volume, &handle, bytes).await?;
            }
        }
        Ok(None)
    }

    async fn begin(&self, claim: &Claim, volume: &Volume, bytes: i64) -> Result<Claim> {
        let condition = Condition {
            kind: "Resizing",
            message: String::new(),
        };
        let status = json!({
            "allocatedResources": {"storage": quantity(bytes)},
            "allocatedResourceStatuses": {"storage": IN_PROGRESS},
            "conditions": conditions::with(claim, RESIZING, Some(&condition)),
        });
        let claim = self.report(claim, status).await?;
        let message = format!(
            "External resizer is resizing volume {}",
            volume.metadata.name
        );
        let about = reference(&claim);
        self.shared.recorder.normal(&about, "Resizing", message);
        Ok(claim)
    }

    async fn expand(&self, claim: &Claim, volume: &Volume, handle: &str, bytes: i64) -> Result<()> {
        let shared = &self.shared;
        let answer = match self.call(volume, handle, bytes).await {
            Ok(answer) => answer,
            Err(error) => {
                let message = format!(
                    "resize volume \"{}\" by resizer \"{NAME}\" failed: {}",
                    volume.metadata.name,
                    error.chain()
                );
                let about = reference(claim);
                let cause = error.cause();
                shared.warn(&about, "VolumeResizeFailed", &cause, message.clone());
                if let crate::error::Error::Call(call) = &error {
                    self.report_failure(claim, call, message).await?;
                }
                return Err(error);
            }
        };
        shared.space_changed.notify_one();
        let size = quantity(answer.capacity_bytes.max(bytes));
        if volume.spec.capacity.bytes() < Some(answer.capacity_bytes.max(bytes)) {
            let patch = json!({"spec": {"capacity": {"storage": size}}});
            shared
                .patch("write the size of the PersistentVolume", volume, "", patch)
                .await?;
        }
        let about = reference(claim);
        if answer.node_expansion_required {
            let message = "Waiting for user to (re-)start a pod to finish file system resize of volume on node.";
            let condition = Condition {
                kind: "FileSystemResizePending",
                message: message.to_owned(),
            };
            let status = json!({
                "allocatedResourceStatuses": {"storage": NODE_PENDING},
                "conditions": conditions::with(claim, RESIZING, Some(&condition)),
            });
            self.report(claim, status).await?;
            let message = "Require file system resize of volume on node";
            shared
                .recorder
                .normal(&about, "FileSystemResizeRequired", message);
        } else {
            let status = json!({
                "capacity": {"storage": size},
                "allocatedResourceStatuses": {"storage": null},
                "conditions": conditions::with(claim, RESIZING, None),
            });
            self.report(claim, status).await?;
            shared
                .recorder
                .normal(&about, "VolumeResizeSuccessful", "Resize volume succeeded");
        }
        Ok(())
    }

    /// Grows the storage, where the driver does that apart from the node's mounts.
    async fn call(
        &self,
        volume: &Volume,
        handle: &str,
        bytes: i64,
    ) -> Result<api::ControllerExpandVolumeResponse> {
        let shared = &self.shared;
        let can = shared.driver.capabilities().await?;
        if !can.contains(&api::ControllerCapability::ExpandVolume) {
            return Ok(api::ControllerExpandVolumeResponse {
                capacity_bytes: bytes,
                node_expansion_required: true,
            });
        }
        let csi = volume.spec.csi.as_ref();
        let secret = csi.and_then(|csi| csi.controller_expand_secret_ref.as_ref());
        let capabilities = volume_capabilities(
            &volume.spec.access_modes,
            volume.spec.volume_mode.as_deref(),
            csi.map_or("", |csi| csi.fs_type.as_str()),
            &volume.spec.mount_options,
            can.contains(&api::ControllerCapability::SingleNodeMultiWriter),
        );
        let request = api::ControllerExpandVolumeRequest {
            volume_id: handle.to_owned(),
            capacity_range: Some(api::CapacityRange {
                required_bytes: bytes,
                limit_bytes: 0,
            }),
            secrets: shared.secret(secret).await?,
            volume_capability: capabilities.into_iter().next(),
        };
        Ok(shared.driver.expand_volume(request).await?)
    }

    async fn report_failure(
        &self,
        claim: &Claim,
        error: &CallError,
        message: String,
    ) -> Result<()> {
        if error.is_pending() {
            return Ok(());
        }
        let condition = Condition {
            kind: "ControllerResizeError",
            message,
        };
        let conditions = conditions::with(claim, RESIZING, Some(&condition));
        let mut status = json!({"conditions": conditions});
        if is_infeasible(error) {
            status["allocatedResourceStatuses"] = json!({"storage": INFEASIBLE});
        }
        self.report(claim, status).await.map(drop)
    }

    async fn report(&self, claim: &Claim, status: Value) -> Result<Claim> {
        let patch = json!({"status": status});
        self.shared
            .patch("write the status of the claim", claim, "status", patch)
            .await
    }
}

fn reference(claim: &Claim) -> ObjectReference {
    ObjectReference::to_object(&resources::PERSISTENT_VOLUME_CLAIMS, &claim.metadata)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn bound(request: &str, status: &str) -> Claim {
        let mut claim = testing::claim();
        claim["spec"]["volumeName"] = json!("pvc-u1");
        claim["spec"]["resources"]["requests"]["storage"] = json!(request);
        claim["status"] = json!({
            "phase": "Bound", "capacity": {"storage": "1Gi"},
            "allocatedResources": {"storage": "2Gi"},
        });
        if !status.is_empty() {
            claim["status"]["allocatedResourceStatuses"] = json!({"storage": status});
        }
        serde_json::from_value(claim).expect("a claim")
    }

    fn volume(node: &str, size: &str) -> Volume {
        let mut volume = testing::volume(node);
        volume["spec"]["capacity"]["storage"] = json!(size);
        serde_json::from_value(volume).expect("a volume")
    }

    fn expand(is_new: bool) -> ResizeDecision {
        ResizeDecision::Expand {
            handle: "pvc-u1".to_owned(),
            bytes: 2 << 30,
            is_new,
        }
    }

    #[test]
    fn a_volume_of_this_node_grows_when_its_claim_asks_for_more_than_it_has() {
        let decided = |claim: &Claim, volume: &Volume| decide(claim, volume, "n1");
        let small = volume("n1", "1Gi");
        assert_eq!(decided(&bound("2Gi", ""), &small), expand(true));
        assert_eq!(decided(&bound("2Gi", IN_PROGRESS), &small), expand(false));
        assert_eq!(decided(&bound("2Gi", INFEASIBLE), &small), expand(false));
        // It asks for another size, which may be feasible.
        let smaller = decided(&bound("1500Mi", INFEASIBLE), &small);
        assert!(matches!(
            smaller,
            ResizeDecision::Expand { is_new: true, .. }
        ));
        // The storage has grown, and the claim does not say so yet.
        let large = volume("n1", "2Gi");
        assert_eq!(decided(&bound("2Gi", IN_PROGRESS), &large), expand(false));
        // The rest is up to the node.
        assert_eq!(
            decided(&bound("2Gi", NODE_PENDING), &large),
            ResizeDecision::TellNode
        );
        // It asks for even more meanwhile.
        let larger = decided(&bound("3Gi", NODE_PENDING), &large);
        assert!(matches!(
            larger,
            ResizeDecision::Expand { is_new: true, .. }
        ));
        assert_eq!(decided(&bound("1Gi", ""), &small), ResizeDecision::Nothing);
        assert_eq!(
            decided(&bound("1Gi", INFEASIBLE), &small),
            ResizeDecision::Withdraw
        );
        assert_eq!(
            decided(&bound("2Gi", ""), &volume("n2", "1Gi")),
            ResizeDecision::Nothing
        );
        let mut other = small.clone();
        other.spec.claim_ref.as_mut().expect("a claim").uid = "u9".to_owned();
        assert_eq!(decided(&bound("2Gi", ""), &other), ResizeDecision::Nothing);
    }
}

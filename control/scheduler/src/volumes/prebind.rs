//! Binds volumes before their pod is bound.
//!
//! The volume is written with its claim, and the claim with the node for which its volume
//! is to be provisioned; the binder and the provisioner do the rest. The pod waits until
//! they are done. A provisioner that cannot create a volume there removes the node from
//! the claim; the pod is then scheduled again.

use std::time::Duration;

use control_client::{Meta, Patch, resources};
use serde_json::json;

use super::{StaticBinding, VolumeReservation};
use crate::pre_binder::PreBinder;
use crate::selector::NodeTerm;
use crate::view::{CsiNode, Node, PersistentVolume, PersistentVolumeClaim, Pod, VolumeSource};

/// The first interval between checks of the caches; doubles up to [`LONGEST_INTERVAL`].
const FIRST_INTERVAL: Duration = Duration::from_millis(20);
/// The longest interval between checks of the caches.
const LONGEST_INTERVAL: Duration = Duration::from_secs(1);

const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Error that prevents the binding of volumes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VolumePreBindError {
    /// A write failed.
    #[error(transparent)]
    Write(control_client::Error),
    /// The writes did not lead to bound volumes.
    #[error("binding volumes")]
    Wait(#[source] BindingFailure),
}

/// The reason why binding and provisioning did not succeed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BindingFailure {
    /// The node was deleted.
    #[error("failed to get node {0:?}: node {0:?} not found")]
    NodeGone(String),
    /// The pod was deleted.
    #[error("pod does not exist any more: pod {0:?} not found")]
    PodGone(String),
    /// A volume was deleted.
    #[error("failed to check binding: persistentvolumes {0:?} not found")]
    VolumeGone(String),
    /// A claim to be bound was deleted.
    #[error("failed to check binding: persistentvolumeclaims {0:?} not found")]
    ClaimGone(String),
    /// A claim whose volume is to be provisioned was deleted.
    #[error("failed to check provisioning pvc: persistentvolumeclaims {0:?} not found")]
    ProvisionedClaimGone(String),
    /// The binder gave the volume back.
    #[error("ClaimRef got reset for pv {0:?}")]
    ClaimRefReset(String),
    /// The provisioner gave up on the node.
    #[error("provisioning failed for PVC {0:?}")]
    ProvisioningFailed(String),
    /// The volume cannot be reached from the node.
    #[error(
        "pv {volume:?} node affinity doesn't match node {node:?}: no matching NodeSelectorTerms"
    )]
    OutOfReach {
        /// The volume.
        volume: String,
        /// The node.
        node: String,
    },
    /// An in-tree volume has no CSI equivalent.
    #[error("failed to translate pv to csi: could not translate pv: {0}")]
    Untranslatable(String),
    /// It took too long.
    #[error("context deadline exceeded")]
    Timeout,
}

/// Writes the reservations, and waits until all claims are bound.
pub(crate) async fn prebind(
    binder: &PreBinder,
    pod: &Pod,
    node: &str,
    reservation: &VolumeReservation,
) -> Result<(), VolumePreBindError> {
    if reservation.is_empty() {
        return Ok(());
    }
    let mut written = WrittenBindings::default();
    for binding in &reservation.static_bindings {
        let volume = bind_volume(binder, binding)
            .await
            .map_err(VolumePreBindError::Write)?;
        written
            .bindings
            .push((volume, binding.claim.metadata.clone()));
    }
    for claim in &reservation.provisions {
        let claim = select_node(binder, claim, node)
            .await
            .map_err(VolumePreBindError::Write)?;
        written.provisions.push(claim);
    }
    tokio::time::timeout(binder.bind_timeout, written.bound(binder, pod, node))
        .await
        .unwrap_or(Err(BindingFailure::Timeout))
        .map_err(VolumePreBindError::Wait)
}

fn precondition(meta: &Meta) -> serde_json::Value {
    json!({"uid": meta.uid, "resourceVersion": meta.resource_version})
}

/// Makes a volume refer to its claim; its metadata then.
async fn bind_volume(
    binder: &PreBinder,
    binding: &StaticBinding,
) -> Result<Meta, control_client::Error> {
    let StaticBinding { claim, volume } = binding;
    let refers = |volume: &PersistentVolume| {
        let reference = volume.claim_ref.as_ref();
        reference.is_some_and(|reference| reference.uid == claim.metadata.uid)
    };
    if refers(volume) {
        return Ok(volume.metadata.clone());
    }
    let (resource, name) = (&resources::PERSISTENT_VOLUMES, &volume.metadata.name);
    let mut patch = json!({
        "metadata": precondition(&volume.metadata),
        "spec": {"claimRef": {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "namespace": claim.metadata.namespace, "name": claim.metadata.name,
            "uid": claim.metadata.uid, "resourceVersion": claim.metadata.resource_version,
        }},
    });
    // If the volume was reserved for the claim by name, a person chose it.
    if volume.claim_ref.is_none() && !volume.bound_by_controller {
        patch["metadata"]["annotations"] = json!({BOUND_BY_CONTROLLER: "yes"});
    }
    let written = binder
        .client
        .patch::<PersistentVolume>(resource, "", name, "", Patch::Merge(&patch))
        .await;
    let conflict = match written {
        Ok(volume) => return Ok(volume.metadata),
        Err(error) if error.is_conflict() => error,
        Err(error) => return Err(error),
    };
    // Another pod with the same claim may have been faster.
    let current: PersistentVolume = binder.client.get(resource, "", name).await?;
    if refers(&current) {
        Ok(current.metadata)
    } else {
        Err(conflict)
    }
}

/// Tells a claim the node for which its volume is to be made; its metadata then.
async fn select_node(
    binder: &PreBinder,
    claim: &PersistentVolumeClaim,
    node: &str,
) -> Result<Meta, control_client::Error> {
    if claim.selected_node.as_deref() == Some(node) {
        return Ok(claim.metadata.clone());
    }
    let resource = &resources::PERSISTENT_VOLUME_CLAIMS;
    let (namespace, name) = (&claim.metadata.namespace, &claim.metadata.name);
    let mut patch = json!({"metadata": precondition(&claim.metadata)});
    patch["metadata"]["annotations"] = json!({SELECTED_NODE: node});
    let written = binder
        .client
        .patch::<PersistentVolumeClaim>(resource, namespace, name, "", Patch::Merge(&patch))
        .await;
    let conflict = match written {
        Ok(claim) => return Ok(claim.metadata),
        Err(error) if error.is_conflict() => error,
        Err(error) => return Err(error),
    };
    let current: PersistentVolumeClaim = binder.client.get(resource, namespace, name).await?;
    let is_same = current.metadata.uid == claim.metadata.uid;
    if is_same && current.selected_node.as_deref() == Some(node) {
        Ok(current.metadata)
    } else {
        Err(conflict)
    }
}

/// The writes, at their resulting revisions.
#[derive(Default)]
struct WrittenBindings {
    /// Volumes, with the claims that they are bound to.
    bindings: Vec<(Meta, Meta)>,
    /// Claims for which volumes are made.
    provisions: Vec<Meta>,
}

/// Whether a cache shows an older object than was written.
fn is_behind(cached: &Meta, written: &Meta) -> bool {
    match (cached.revision(), written.revision()) {
        (Some(cached), Some(written)) => cached < written,
        _ => false,
    }
}

impl WrittenBindings {
    /// Waits until all claims are bound to volumes that the node can reach.
    async fn bound(&self, binder: &PreBinder, pod: &Pod, node: &str) -> Result<(), BindingFailure> {
        let mut interval = FIRST_INTERVAL;
        while !self.is_bound(binder, pod, node)? {
            tokio::time::sleep(interval).await;
            interval = (interval * 2).min(LONGEST_INTERVAL);
        }
        Ok(())
    }

    /// Whether all claims are bound.
    fn is_bound(&self, binder: &PreBinder, pod: &Pod, node: &str) -> Result<bool, BindingFailure> {
        let catalog = &binder.catalog;
        let Some(node) = binder.nodes.get("", node) else {
            return Err(BindingFailure::NodeGone(node.to_owned()));
        };
        let csi_node = catalog.csi_nodes.get("", &node.metadata.name);
        let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
        let present = binder.pods.get(namespace, name);
        if present.is_none_or(|present| present.metadata.uid != pod.metadata.uid) {
            return Err(BindingFailure::PodGone(name.to_string()));
        }
        let claim_of = |meta: &Meta| {
            let claims = &catalog.persistent_volume_claims;
            let claim = claims.get(&meta.namespace, &meta.name);
            claim.filter(|claim| claim.metadata.uid == meta.uid)
        };
        let key = |meta: &Meta| format!("{}/{}", meta.namespace, meta.name);
        for (volume, claim) in &self.bindings {
            let name = &volume.name;
            let Some(seen) = catalog.persistent_volumes.get("", name) else {
                return Err(BindingFailure::VolumeGone(name.to_string()));
            };
            let Some(claim) = claim_of(claim) else {
                return Err(BindingFailure::ClaimGone(key(claim)));
            };
            if is_behind(&seen.metadata, volume) {
                return Ok(false);
            }
            check_reach(&seen, &node, csi_node.as_deref())?;
            let reference = seen.claim_ref.as_ref();
            if reference.is_none_or(|reference| reference.uid.is_empty()) {
                return Err(BindingFailure::ClaimRefReset(name.to_string()));
            }
            if !claim.is_bound() {
                return Ok(false);
            }
            if claim.volume_name != *name {
                // The binder decided otherwise: then that volume has to be in reach.
                let Some(other) = catalog.persistent_volumes.get("", &claim.volume_name) else {
                    return Ok(false);
                };
                check_reach(&other, &node, csi_node.as_deref())?;
            }
        }
        for written in &self.provisions {
            let Some(claim) = claim_of(written) else {
                return Err(BindingFailure::ProvisionedClaimGone(key(written)));
            };
            if is_behind(&claim.metadata, written) {
                return Ok(false);
            }
            if claim.selected_node.as_deref() != Some(node.metadata.name.as_str()) {
                return Err(BindingFailure::ProvisioningFailed(written.name.to_string()));
            }
            if !claim.volume_name.is_empty() {
                let Some(volume) = catalog.persistent_volumes.get("", &claim.volume_name) else {
                    return Ok(false);
                };
                check_reach(&volume, &node, csi_node.as_deref())?;
            }
            if !claim.is_bound() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Checks that a node can reach a volume.
fn check_reach(
    volume: &PersistentVolume,
    node: &Node,
    csi_node: Option<&CsiNode>,
) -> Result<(), BindingFailure> {
    let mut affinity: Option<&[NodeTerm]> = volume.node_affinity.as_deref();
    if let VolumeSource::InTree(migrated) = &volume.source
        && csi_node.is_some_and(|csi_node| csi_node.migrates(migrated.volume.plugin()))
    {
        if let Err(why) = &migrated.handle {
            return Err(BindingFailure::Untranslatable(why.to_string()));
        }
        affinity = migrated.node_affinity.as_deref();
    }
    let labels = &node.metadata.labels;
    let matches = |term: &NodeTerm| {
        let mut requirements = term.labels.iter();
        term.valid
            && term.names.iter().all(|(only, _)| !only)
            && requirements.all(|it| it.operator.matches(labels.get(&it.key)))
    };
    if affinity.is_none_or(|terms| terms.iter().any(matches)) {
        Ok(())
    } else {
        Err(BindingFailure::OutOfReach {
            volume: volume.metadata.name.to_string(),
            node: node.metadata.name.to_string(),
        })
    }
}

//! What a pod must have before any node is looked at (kube-scheduler's PreFilter): the
//! claims that it names, and no constraint that this scheduler cannot keep.
//!
//! A pod that lacks something stays Pending with a message that names it. It is never
//! placed against a constraint.

use std::sync::Arc;

use compact_str::CompactString;
use control_client::Cache;

use crate::selector::NodeTerm;
use crate::snapshot::Wake;
use crate::view::{
    PersistentVolume, PersistentVolumeClaim, Pod, PodClaim, ResourceClaim, Shape, StorageClass,
};

/// Claims and what they are bound to.
pub struct Claims {
    /// Claims to volumes.
    pub persistent: Cache<PersistentVolumeClaim>,
    /// Volumes.
    pub volumes: Cache<PersistentVolume>,
    /// Classes of volumes.
    pub classes: Cache<StorageClass>,
    /// Claims to devices.
    pub devices: Cache<ResourceClaim>,
}

/// Why a pod cannot run on any node for now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmet {
    /// The reason, as people read it.
    pub reason: String,
    /// Whether each node is said to lack it.
    pub on_each_node: bool,
    /// What may change that.
    pub wake: Wake,
}

/// What decides the pod's placement, with what its claims add to it.
///
/// # Errors
/// What it lacks.
pub fn prefilter(pod: &Pod, claims: &Claims) -> Result<Arc<Shape>, Unmet> {
    let mut on_nodes: Vec<Box<[NodeTerm]>> = Vec::new();
    for claim in &pod.claims {
        match claim {
            PodClaim::Volume { name, ephemeral } => {
                on_nodes.extend(volume(pod, name, *ephemeral, claims)?);
            }
            PodClaim::Device { name } => on_nodes.extend(device(pod, name, claims)?),
            PodClaim::DeviceToBeMade { template } => {
                return Err(waits(format!(
                    "waiting for the resource claim controller to create the resourceclaim from template \"{template}\""
                )));
            }
        }
    }
    supported(&pod.shape)?;
    if on_nodes.is_empty() {
        return Ok(Arc::clone(&pod.shape));
    }
    let mut shape = Shape::clone(&pod.shape);
    shape.volume_nodes = on_nodes.into();
    Ok(shape.shared())
}

fn waits(reason: String) -> Unmet {
    Unmet {
        reason,
        on_each_node: false,
        wake: Wake::CLAIMS,
    }
}

/// The nodes that can reach the volume of a claim; nothing: all.
fn volume(
    pod: &Pod,
    name: &str,
    ephemeral: bool,
    claims: &Claims,
) -> Result<Option<Box<[NodeTerm]>>, Unmet> {
    let Some(claim) = claims.persistent.get(&pod.metadata.namespace, name) else {
        return Err(waits(if ephemeral {
            format!(
                "waiting for ephemeral volume controller to create the persistentvolumeclaim \"{name}\""
            )
        } else {
            format!("persistentvolumeclaim \"{name}\" not found")
        }));
    };
    let bound_to = claim.spec.volume_name.as_str();
    if claim.status.phase == "Lost" {
        return Err(waits(format!(
            "persistentvolumeclaim \"{name}\" bound to non-existent persistentvolume \"{bound_to}\""
        )));
    }
    if claim.metadata.is_terminating() {
        return Err(waits(format!(
            "persistentvolumeclaim \"{name}\" is being deleted"
        )));
    }
    let owner = claim.metadata.controller();
    if ephemeral && owner.is_none_or(|owner| owner.uid != pod.metadata.uid) {
        return Err(waits(format!(
            "PVC {}/{name} was not created for pod {}/{} (pod is not owner)",
            pod.metadata.namespace, pod.metadata.namespace, pod.metadata.name
        )));
    }
    if !claim.is_bound() {
        let class = claims.classes.get("", &claim.spec.storage_class_name);
        let is_delayed =
            class.is_some_and(|class| class.volume_binding_mode == "WaitForFirstConsumer");
        return Err(waits(if is_delayed && bound_to.is_empty() {
            format!(
                "persistentvolumeclaim \"{name}\" waits for its first consumer, which this scheduler does not support yet"
            )
        } else {
            "pod has unbound immediate PersistentVolumeClaims".to_owned()
        }));
    }
    match claims.volumes.get("", bound_to) {
        Some(volume) => Ok(volume.node_terms()),
        None => Err(Unmet {
            on_each_node: true,
            ..waits(
                "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
                    .to_owned(),
            )
        }),
    }
}

/// The nodes that have the devices of a claim; nothing: all.
fn device(
    pod: &Pod,
    name: &CompactString,
    claims: &Claims,
) -> Result<Option<Box<[NodeTerm]>>, Unmet> {
    let Some(claim) = claims.devices.get(&pod.metadata.namespace, name) else {
        return Err(waits(format!(
            "resourceclaim.resource.k8s.io \"{name}\" not found"
        )));
    };
    if claim.metadata.is_terminating() {
        return Err(waits(format!("resourceclaim \"{name}\" is being deleted")));
    }
    let Some(allocation) = &claim.status.allocation else {
        return Err(waits(format!(
            "resourceclaim \"{name}\" is not allocated, and this scheduler does not allocate devices yet"
        )));
    };
    let mut users = claim.status.reserved_for.iter();
    if !users.any(|user| user.uid == pod.metadata.uid) {
        return Err(waits(format!(
            "resourceclaim \"{name}\" is not reserved for the pod"
        )));
    }
    Ok(allocation.node_terms())
}

/// Whether all that the shape requires can be kept.
fn supported(shape: &Shape) -> Result<(), Unmet> {
    let mut required = Vec::new();
    if shape.spread.iter().any(|spread| spread.hard) {
        required.push("topologySpreadConstraints with whenUnsatisfiable DoNotSchedule");
    }
    if !shape.affinity.is_empty() {
        required.push("required podAffinity");
    }
    if !shape.anti_affinity.is_empty() {
        required.push("required podAntiAffinity");
    }
    if required.is_empty() {
        return Ok(());
    }
    Err(Unmet {
        reason: format!(
            "this scheduler does not support {} yet",
            required.join(", ")
        ),
        on_each_node: false,
        wake: Wake::NONE,
    })
}

#[cfg(test)]
#[path = "prefilter_tests.rs"]
mod tests;

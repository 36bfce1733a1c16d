//! The claims that a pod names.

use std::sync::Arc;

use crate::catalog::Catalog;
use crate::snapshot::Wake;
use crate::unmet::UnmetReason;
use crate::view::{Pod, PodClaim, ResourceClaim};

/// Changes that may help a pod which the plugin rejected.
pub(super) const WAKES: Wake = Wake::NODE_ADDED
    .and(Wake::NODE_LABELS)
    .and(Wake::NODE_ALLOCATABLE)
    .and(Wake::RESOURCE_CLAIM)
    .and(Wake::DEVICE_CLASS)
    .and(Wake::RESOURCE_SLICE)
    .and(Wake::POD_ITSELF);

/// Checks that the claims of the pod exist (the plugin's PreEnqueue). Otherwise the pod
/// is not tried, and no event is recorded.
///
/// # Errors
/// The first missing claim.
pub(super) fn pre_enqueue(pod: &Pod, catalog: &Catalog) -> Result<(), UnmetReason> {
    each_claim(pod, catalog, |_| {})
}

/// The claims that the pod names, in that order.
pub(super) fn claims(pod: &Pod, catalog: &Catalog) -> Result<Vec<Arc<ResourceClaim>>, UnmetReason> {
    let mut claims = Vec::new();
    each_claim(pod, catalog, |claim| claims.push(claim))?;
    Ok(claims)
}

pub(super) fn unmet(reason: String) -> UnmetReason {
    UnmetReason {
        plugin: "DynamicResources",
        reason,
        on_each_node: false,
        resolvable: false,
        wake: WAKES,
    }
}

fn each_claim(
    pod: &Pod,
    catalog: &Catalog,
    mut found: impl FnMut(Arc<ResourceClaim>),
) -> Result<(), UnmetReason> {
    let (namespace, pod_name) = (&pod.metadata.namespace, &pod.metadata.name);
    for claim in &pod.claims {
        let (name, from_template) = match claim {
            PodClaim::Volume { .. } => continue,
            PodClaim::DeviceToBeMade => {
                return Err(unmet(format!(
                    "pod \"{namespace}/{pod_name}\": ResourceClaim not created yet"
                )));
            }
            PodClaim::Device {
                name,
                from_template,
            } => (name, *from_template),
        };
        let Some(claim) = catalog.resource_claims.get(namespace, name) else {
            return Err(unmet(format!(
                "could not find ResourceClaim \"{namespace}/{name}\""
            )));
        };
        if claim.metadata.is_terminating() {
            return Err(unmet(format!("resourceclaim \"{name}\" is being deleted")));
        }
        let owner = claim.metadata.controller();
        if from_template && owner.is_none_or(|owner| owner.uid != pod.metadata.uid) {
            return Err(unmet(format!(
                "ResourceClaim {namespace}/{name} was not created for Pod {namespace}/{pod_name} (Pod is not owner)"
            )));
        }
        found(claim);
    }
    Ok(())
}

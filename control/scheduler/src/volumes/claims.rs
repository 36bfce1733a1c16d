//! The claims of a pod: which are bound, and which wait for the pod to be placed.

use std::sync::Arc;

use control_types::volumes::AccessModes;

use super::zone::{VolumeTopology, topologies};
use crate::catalog::Catalog;
use crate::snapshot::{Snapshot, Wake};
use crate::unmet::UnmetReason;
use crate::view::{PersistentVolume, PersistentVolumeClaim, Pod, PodClaim};

/// The claims to volumes of a pod, each once.
#[derive(Debug, Default)]
pub(super) struct VolumeClaims {
    /// Claims that are bound, with their volumes; `None` for one that does not exist.
    pub(super) bound: Vec<(Arc<PersistentVolumeClaim>, Option<Arc<PersistentVolume>>)>,
    /// Claims whose class waits for a pod that uses them.
    pub(super) delayed: Vec<Arc<PersistentVolumeClaim>>,
    /// Whether a claim may serve only one pod (`ReadWriteOncePod`).
    pub(super) exclusive: bool,
    /// Whether such a claim serves another pod.
    pub(super) in_use: bool,
    /// Zone and region labels of the volumes.
    pub(super) topologies: Vec<VolumeTopology>,
}

/// Changes that may help a pod which VolumeRestrictions rejected.
pub(super) const RESTRICTIONS_WAKE: Wake = Wake::NODE_ADDED
    .and(Wake::POD_REMOVED)
    .and(Wake::VOLUME_CLAIM);

/// Changes that may help a pod which NodeVolumeLimits rejected.
pub(super) const LIMITS_WAKE: Wake = Wake::NODE_ADDED
    .and(Wake::POD_REMOVED)
    .and(Wake::VOLUME_CLAIM)
    .and(Wake::CSI_NODE)
    .and(Wake::VOLUME_ATTACHMENT);

/// Changes that may help a pod which VolumeBinding rejected.
pub(super) const BINDING_WAKE: Wake = Wake::NODE_ADDED
    .and(Wake::NODE_LABELS)
    .and(Wake::VOLUME_CLAIM)
    .and(Wake::VOLUME)
    .and(Wake::STORAGE_CLASS)
    .and(Wake::CSI_NODE)
    .and(Wake::CSI_DRIVER)
    .and(Wake::CSI_CAPACITY);

/// Changes that may help a pod which VolumeZone rejected.
pub(super) const ZONE_WAKE: Wake = Wake::NODE_ADDED
    .and(Wake::NODE_LABELS)
    .and(Wake::VOLUME_CLAIM)
    .and(Wake::VOLUME)
    .and(Wake::STORAGE_CLASS);

fn unmet(plugin: &'static str, wake: Wake, reason: String) -> UnmetReason {
    UnmetReason {
        plugin,
        reason,
        on_each_node: false,
        resolvable: false,
        wake,
    }
}

/// Whether a claim was made for an ephemeral volume of this pod.
pub(super) fn is_made_for(claim: &PersistentVolumeClaim, pod: &Pod) -> bool {
    let owner = claim.metadata.controller();
    owner.is_some_and(|owner| owner.uid == pod.metadata.uid)
}

/// The complaint about a claim that was not made for this pod.
pub(super) fn not_made_for(claim: &PersistentVolumeClaim, pod: &Pod) -> String {
    let (claim, pod) = (&claim.metadata, &pod.metadata);
    format!(
        "PVC {}/{} was not created for pod {}/{} (pod is not owner)",
        claim.namespace, claim.name, pod.namespace, pod.name
    )
}

impl VolumeClaims {
    /// Reads the claims of a pod, and checks what must hold whatever the node: in the order
    /// in which kube-scheduler's plugins do.
    ///
    /// # Errors
    /// What the pod lacks on all nodes.
    pub(super) fn read(
        snapshot: &Snapshot,
        pod: &Pod,
        catalog: &Catalog,
    ) -> Result<Self, UnmetReason> {
        let namespace = &pod.metadata.namespace;
        let mut found = Vec::new();
        for claim in &pod.claims {
            if let PodClaim::Volume { name, ephemeral } = claim {
                let claims = &catalog.persistent_volume_claims;
                found.push((name, *ephemeral, claims.get(namespace, name)));
            }
        }
        let mut claims = Self::default();
        let not_found = |name: &str| format!("persistentvolumeclaim \"{name}\" not found");
        for (name, ephemeral, claim) in &found {
            match claim {
                _ if *ephemeral => {}
                None => {
                    let reason = not_found(name);
                    return Err(unmet("VolumeRestrictions", RESTRICTIONS_WAKE, reason));
                }
                Some(claim) => {
                    let exclusive = AccessModes::READ_WRITE_ONCE_POD;
                    if claim.access_modes.contains_all(exclusive) {
                        let users = snapshot.volume_usage().of_claim(&claim.key());
                        claims.exclusive = true;
                        claims.in_use |= !users.is_empty();
                    }
                }
            }
        }
        let mut usable: Vec<(bool, Arc<PersistentVolumeClaim>)> = Vec::new();
        for (name, ephemeral, claim) in found {
            let claim = check(pod, name, ephemeral, claim)
                .map_err(|error| unmet("VolumeBinding", BINDING_WAKE, error.to_string()))?;
            let known = usable
                .iter_mut()
                .find(|(_, known)| known.key() == claim.key());
            match known {
                Some((only_ephemeral, _)) => *only_ephemeral &= ephemeral,
                None => usable.push((ephemeral, claim)),
            }
        }
        let mut immediate = false;
        for (_, claim) in &usable {
            if claim.is_bound() {
                let volume = catalog.persistent_volumes.get("", &claim.volume_name);
                claims.bound.push((Arc::clone(claim), volume));
            } else if claim.volume_name.is_empty() && is_delayed(claim, catalog)? {
                claims.delayed.push(Arc::clone(claim));
            } else {
                immediate = true;
            }
        }
        if immediate {
            let reason = "pod has unbound immediate PersistentVolumeClaims".to_owned();
            return Err(unmet("VolumeBinding", BINDING_WAKE, reason));
        }
        for (ephemeral, claim) in &usable {
            if *ephemeral || claim.volume_name.is_empty() {
                continue;
            }
            let Some(volume) = catalog.persistent_volumes.get("", &claim.volume_name) else {
                let reason = format!("persistentvolume \"{}\" not found", claim.volume_name);
                return Err(unmet("VolumeZone", ZONE_WAKE, reason));
            };
            claims.topologies.extend(topologies(&volume));
        }
        Ok(claims)
    }
}

/// Reason why a pod cannot use a claim; the message is kube-scheduler's.
#[derive(Debug, thiserror::Error)]
enum ClaimError {
    #[error("waiting for ephemeral volume controller to create the persistentvolumeclaim \"{0}\"")]
    NotCreated(String),
    #[error("persistentvolumeclaim \"{0}\" not found")]
    NotFound(String),
    #[error(
        "persistentvolumeclaim \"{claim}\" bound to non-existent persistentvolume \"{volume}\""
    )]
    Lost { claim: String, volume: String },
    #[error("persistentvolumeclaim \"{0}\" is being deleted")]
    Terminating(String),
    #[error("{0}")]
    Owner(String),
}

/// Checks that a pod can use a claim at all.
fn check(
    pod: &Pod,
    name: &str,
    ephemeral: bool,
    claim: Option<Arc<PersistentVolumeClaim>>,
) -> Result<Arc<PersistentVolumeClaim>, ClaimError> {
    let owned = || name.to_owned();
    let Some(claim) = claim else {
        return Err(if ephemeral {
            ClaimError::NotCreated(owned())
        } else {
            ClaimError::NotFound(owned())
        });
    };
    if claim.lost {
        return Err(ClaimError::Lost {
            claim: owned(),
            volume: claim.volume_name.to_string(),
        });
    }
    if claim.metadata.is_terminating() {
        return Err(ClaimError::Terminating(owned()));
    }
    if ephemeral && !is_made_for(&claim, pod) {
        return Err(ClaimError::Owner(not_made_for(&claim, pod)));
    }
    Ok(claim)
}

/// Whether a claim waits for a pod that uses it.
fn is_delayed(claim: &PersistentVolumeClaim, catalog: &Catalog) -> Result<bool, UnmetReason> {
    if claim.class.is_empty() {
        return Ok(false);
    }
    let Some(class) = catalog.storage_classes.get("", &claim.class) else {
        return Ok(false);
    };
    if class.volume_binding_mode.is_empty() {
        let reason = format!(
            "VolumeBindingMode not set for StorageClass {:?}",
            claim.class
        );
        return Err(unmet("VolumeBinding", BINDING_WAKE, reason));
    }
    Ok(class.waits_for_consumer())
}

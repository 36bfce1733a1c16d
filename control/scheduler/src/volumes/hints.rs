//! Queueing hints: whether a change may help a pod that a volume plugin rejected.
//!
//! As in kube-scheduler, with two kinds of exceptions. Changes that kube-scheduler misses
//! and that can make a pod fit, such as a raised limit, do wake it; and changes unrelated
//! to the pod, such as those of another pod's claim, do not.

use control_client::Change;

use super::restrictions::pods_conflict;
use super::zone::topologies;
use crate::catalog::CatalogEvent;
use crate::event::{Event, Subject};
use crate::view::{CsiNode, PersistentVolumeClaim, Pod, PodClaim, PodDisk};

/// Whether a change adds or changes a claim that a pod uses.
fn concerns(change: &Change<PersistentVolumeClaim>, pod: &Pod) -> bool {
    let Some(claim) = &change.current else {
        return false;
    };
    claim.metadata.namespace == pod.metadata.namespace
        && pod.claims.iter().any(
            |used| matches!(used, PodClaim::Volume { name, .. } if *name == claim.metadata.name),
        )
}

const fn is_added<V>(change: &Change<V>) -> bool {
    change.previous.is_none() && change.current.is_some()
}

fn uses_claims(pod: &Pod) -> bool {
    let mut claims = pod.claims.iter();
    claims.any(|claim| matches!(claim, PodClaim::Volume { .. }))
}

fn share_a_claim(pod: &Pod, other: &Pod) -> bool {
    pod.metadata.namespace == other.metadata.namespace
        && pod
            .claims
            .iter()
            .any(|claim| matches!(claim, PodClaim::Volume { .. }) && other.claims.contains(claim))
}

/// A hint for VolumeRestrictions.
pub(super) fn restrictions(pod: &Pod, event: &Event<'_>) -> bool {
    match event.subject {
        Subject::Pod {
            old: Some(gone),
            new: None,
        } => pods_conflict(pod, gone) || share_a_claim(pod, gone),
        Subject::Object(CatalogEvent::PersistentVolumeClaim(change)) => {
            is_added(change) && concerns(change, pod)
        }
        _ => true,
    }
}

/// A hint for NodeVolumeLimits.
pub(super) fn limits(pod: &Pod, event: &Event<'_>) -> bool {
    let in_tree = |disk: &PodDisk| matches!(disk, PodDisk::InTree { .. });
    match event.subject {
        Subject::Pod {
            old: Some(gone),
            new: None,
        } => uses_claims(gone) || gone.disks.iter().any(in_tree),
        Subject::Object(CatalogEvent::PersistentVolumeClaim(change)) => {
            is_added(change) && concerns(change, pod)
        }
        Subject::Object(CatalogEvent::CsiNode(change)) => match (&change.previous, &change.current)
        {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(old), Some(new)) => allows_more(old, new),
        },
        Subject::Object(CatalogEvent::VolumeAttachment(change)) => {
            let (Some(gone), None) = (&change.previous, &change.current) else {
                return false;
            };
            let of_driver = |disk: &PodDisk| matches!(disk, PodDisk::InTree { disk, .. } if disk.driver() == gone.attacher);
            uses_claims(pod) || pod.disks.iter().any(of_driver)
        }
        _ => true,
    }
}

/// Whether a driver may have more volumes on a node than before.
fn allows_more(old: &CsiNode, new: &CsiNode) -> bool {
    let before = |name: &str| {
        let mut drivers = old.drivers.iter();
        drivers.find(|(driver, _)| driver == name)
    };
    let raised = new.drivers.iter().any(|(name, limit)| {
        match (limit, before(name).and_then(|(_, limit)| *limit)) {
            (Some(limit), Some(before)) => *limit > before,
            (Some(limit), None) => *limit > 0,
            (None, before) => before.is_some(),
        }
    });
    // Without its driver there is no limit.
    let lifted = old.drivers.iter().any(|(name, limit)| {
        limit.is_some() && new.drivers.iter().all(|(driver, _)| driver != name)
    });
    raised || lifted
}

/// A hint for VolumeBinding.
pub(super) fn binding(pod: &Pod, event: &Event<'_>) -> bool {
    let Subject::Object(object) = event.subject else {
        return true;
    };
    match object {
        CatalogEvent::StorageClass(change) => match (&change.previous, &change.current) {
            (Some(old), Some(new)) => old.allowed_topologies != new.allowed_topologies,
            (_, new) => new.is_some(),
        },
        CatalogEvent::PersistentVolumeClaim(change) => concerns(change, pod),
        CatalogEvent::PersistentVolume(change) => change.current.is_some(),
        CatalogEvent::CsiNode(change) => match (&change.previous, &change.current) {
            (Some(old), Some(new)) => old.migrated_plugins != new.migrated_plugins,
            (_, new) => new.is_some(),
        },
        CatalogEvent::CsiDriver(change) => {
            let tracks = |driver: &crate::view::CsiDriver| driver.spec.storage_capacity;
            change.previous.as_deref().is_some_and(tracks)
                && !change.current.as_deref().is_some_and(tracks)
        }
        CatalogEvent::CsiStorageCapacity(change) => match (&change.previous, &change.current) {
            (Some(old), Some(new)) => new.volume_limit > old.volume_limit,
            (_, new) => new.is_some(),
        },
        _ => true,
    }
}

/// A hint for VolumeZone.
pub(super) fn zone(pod: &Pod, event: &Event<'_>) -> bool {
    let Subject::Object(object) = event.subject else {
        return true;
    };
    match object {
        CatalogEvent::StorageClass(change) => {
            let added = change.current.as_ref().filter(|_| is_added(change));
            added.is_some_and(|class| class.waits_for_consumer())
        }
        CatalogEvent::PersistentVolumeClaim(change) => concerns(change, pod),
        CatalogEvent::PersistentVolume(change) => match (&change.previous, &change.current) {
            (Some(old), Some(new)) => topologies(old) != topologies(new),
            (_, new) => new.is_some(),
        },
        _ => true,
    }
}

#[cfg(test)]
#[path = "hints_tests.rs"]
mod tests;

//! Decides the next step for one content, and from what a claim is restored.

use std::collections::BTreeMap;

use csi_api as api;
use serde_json::{Value, json};

use super::views::{Content, Snapshot, SnapshotClass};
use crate::driver::NAME;
use crate::error::{Error, Result};
use crate::views::Claim;

/// Keeps a content until its storage is deleted.
pub const CONTENT_PROTECTION: &str =
    "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection";
/// Says that the snapshot of a content is being deleted.
const BEING_DELETED: &str = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted";
/// Lets a volume of the other mode be restored.
const MODE_CHANGE: &str = "snapshot.storage.kubernetes.io/allow-volume-mode-change";

/// The next step for a content.
#[derive(Debug, PartialEq, Eq)]
pub enum ContentStep {
    /// It is not for this node, or there is nothing to do.
    Nothing,
    /// It gets the finalizer.
    AddFinalizer,
    /// Its storage is gone or stays: it loses the finalizer.
    RemoveFinalizer,
    /// The driver is to copy the volume.
    Create {
        /// Name of the copy.
        name: String,
        /// The driver's identifier of the volume.
        volume: String,
    },
    /// The driver is to describe a copy that exists.
    Describe {
        /// The driver's identifier of the copy.
        snapshot: String,
    },
    /// The driver is to delete the copy.
    Delete {
        /// The driver's identifier of the copy.
        snapshot: String,
    },
}

/// Returns the next step for a content.
pub fn decide_content(content: &Content, node: &str) -> ContentStep {
    if content.spec.driver != NAME || content.node() != node {
        return ContentStep::Nothing;
    }
    let meta = &content.metadata;
    let has_finalizer = meta.finalizers.iter().any(|it| it == CONTENT_PROTECTION);
    let source = &content.spec.source;
    let handle = content.status.snapshot_handle.as_ref();
    let handle = handle.or(source.snapshot_handle.as_ref());
    if meta.is_terminating() {
        let is_unbound = content.spec.volume_snapshot_ref.uid.is_empty();
        let may_go = is_unbound || meta.annotations.get(BEING_DELETED) == Some("yes");
        return match handle {
            _ if !has_finalizer => ContentStep::Nothing,
            _ if content.spec.deletion_policy != "Delete" => ContentStep::RemoveFinalizer,
            // Somebody deleted it alone, and the snapshot needs it.
            _ if !may_go => ContentStep::Nothing,
            Some(handle) => ContentStep::Delete {
                snapshot: handle.clone(),
            },
            None => ContentStep::RemoveFinalizer,
        };
    }
    if !has_finalizer {
        return ContentStep::AddFinalizer;
    }
    let is_known =
        content.status.snapshot_handle.is_some() && content.status.ready_to_use == Some(true);
    match (&source.volume_handle, &source.snapshot_handle) {
        _ if is_known => ContentStep::Nothing,
        (Some(volume), _) if meta.annotations.get(BEING_DELETED).is_none() => ContentStep::Create {
            name: format!("snapshot-{}", content.spec.volume_snapshot_ref.uid),
            volume: volume.clone(),
        },
        (None, Some(snapshot)) => ContentStep::Describe {
            snapshot: snapshot.clone(),
        },
        _ => ContentStep::Nothing,
    }
}

/// Returns the status of a content whose copy the driver has.
pub fn content_status(snapshot: &api::Snapshot) -> Value {
    let time = snapshot.creation_time.unwrap_or_default();
    let nanos = time.seconds.saturating_mul(1_000_000_000);
    json!({
        "snapshotHandle": snapshot.snapshot_id,
        "creationTime": nanos.saturating_add(i64::from(time.nanos)),
        "readyToUse": snapshot.ready_to_use,
        "restoreSize": snapshot.size_bytes,
        "error": null,
    })
}

/// Returns the driver's source for a volume that is restored from a snapshot.
///
/// # Errors
/// [`Error::SourceElsewhere`], or why it cannot be restored.
pub fn restore_source(
    claim: &Claim,
    snapshot: &Snapshot,
    content: Option<&Content>,
    node: &str,
) -> Result<api::VolumeContentSource> {
    let refuse = |message: String| Err(Error::Refused(message));
    let name = &snapshot.metadata.name;
    if snapshot.metadata.is_terminating() {
        return refuse(format!("snapshot {name} is currently being deleted"));
    }
    if snapshot.status.ready_to_use != Some(true) {
        return refuse(format!("snapshot {name} is not Ready"));
    }
    let Some(content) = content.filter(|content| content.is_of(&snapshot.metadata)) else {
        return refuse(format!(
            "snapshot {name} is not bound to its VolumeSnapshotContent"
        ));
    };
    if content.spec.driver != NAME {
        return refuse(format!(
            "snapshot {name} is of driver {}, which is different from {NAME}",
            content.spec.driver
        ));
    }
    if content.node() != node {
        return Err(Error::SourceElsewhere(format!(
            "snapshot {name} is on node {}: a local volume is restored on the node of its snapshot",
            content.node()
        )));
    }
    let wanted = claim.spec.volume_mode.as_deref().unwrap_or("Filesystem");
    let has = content.spec.source_volume_mode.as_deref();
    let may_change = content.metadata.annotations.get(MODE_CHANGE) == Some("true");
    if has.is_some_and(|has| has != wanted) && !may_change {
        return refuse(format!(
            "requested volume {} modifies the mode of the source volume but does not have permission to do so. {MODE_CHANGE} annotation is not present on snapshotcontent {}",
            claim.metadata.name, content.metadata.name
        ));
    }
    let (asked, least) = (
        claim.spec.resources.requests.bytes(),
        content.status.restore_size,
    );
    if asked < least {
        return refuse(format!(
            "requested volume size {} is less than the size {} for the source snapshot {name}",
            asked.unwrap_or(0),
            least.unwrap_or(0)
        ));
    }
    let Some(handle) = content.status.snapshot_handle.clone() else {
        return refuse(format!("snapshot {name} has no handle yet"));
    };
    Ok(api::VolumeContentSource {
        snapshot: Some(api::SnapshotSource {
            snapshot_id: handle,
        }),
        volume: None,
    })
}

/// Returns the parameters of a class that the driver gets.
pub fn driver_parameters(class: Option<&SnapshotClass>) -> BTreeMap<String, String> {
    class.map_or_else(BTreeMap::new, |class| {
        crate::provision::parameters::of_driver(&class.parameters)
    })
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;

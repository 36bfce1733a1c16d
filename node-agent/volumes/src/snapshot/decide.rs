//! Decides the next step for one snapshot, and for one content.

use std::collections::BTreeMap;
use std::sync::Arc;

use csi_api as api;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::views::{Content, MANAGED_BY, Snapshot, SnapshotClass};
use crate::driver::NAME;
use crate::error::{Error, Result};
use crate::provision::quantity;
use crate::views::{Claim, Volume};

/// Keeps a snapshot until its content is settled.
pub const BOUND_PROTECTION: &str = "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection";
/// Keeps a snapshot that is the source of a volume.
pub const SOURCE_PROTECTION: &str =
    "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection";
/// Keeps a content until its storage is deleted.
pub const CONTENT_PROTECTION: &str =
    "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection";
/// Says that the snapshot of a content is being deleted.
pub const BEING_DELETED: &str = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted";
/// Marks the class of snapshots that name none.
const DEFAULT: &str = "snapshot.storage.kubernetes.io/is-default-class";
/// Lets a volume of the other mode be restored.
const MODE_CHANGE: &str = "snapshot.storage.kubernetes.io/allow-volume-mode-change";

/// The objects that the decision for a snapshot depends on.
pub struct SnapshotState<'a> {
    pub snapshot: &'a Snapshot,
    /// The content that the snapshot names, or that is made for it.
    pub content: Option<&'a Content>,
    /// The claim that it is a snapshot of.
    pub claim: Option<&'a Claim>,
    /// The volume of that claim.
    pub volume: Option<&'a Volume>,
    pub classes: &'a [Arc<SnapshotClass>],
    pub node: &'a str,
}

/// The next step for a snapshot.
#[derive(Debug, PartialEq)]
pub enum SnapshotStep {
    /// It is not for this node, or there is nothing to do.
    Nothing,
    /// The finalizers are to be these.
    SetFinalizers(Vec<String>),
    /// It is of this class from now on.
    SetClass(String),
    /// The content is to be made.
    CreateContent(Value),
    /// The content refers to it by its name and gets its identity.
    BindContent,
    /// The content is to be deleted, after it was marked.
    DeleteContent {
        /// Whether it lacks the mark.
        mark: bool,
        /// Whether its storage goes, too.
        delete: bool,
    },
    /// The status is to be this.
    SetStatus(Value),
}

/// Returns the name of the content that is made for a snapshot.
pub fn content_name(snapshot: &Snapshot) -> String {
    format!("snapcontent-{}", snapshot.metadata.uid)
}

/// Returns the next step for a snapshot.
pub fn decide_snapshot(state: &SnapshotState<'_>) -> SnapshotStep {
    let (snapshot, node) = (state.snapshot, state.node);
    let content = state.content.filter(|content| content.spec.driver == NAME);
    if state.content.is_some() && content.is_none() {
        return SnapshotStep::Nothing;
    }
    let handle = state.volume.and_then(|volume| volume.handle_on(node));
    let is_ours = match content {
        Some(content) => content.node() == node,
        None => handle.is_some(),
    };
    if snapshot.metadata.is_terminating() {
        return decide_deletion(state, content, is_ours);
    }
    if !is_ours {
        return SnapshotStep::Nothing;
    }
    let mut finalizers = finalizers(snapshot);
    let missing = [SOURCE_PROTECTION, BOUND_PROTECTION];
    let missing = missing
        .iter()
        .filter(|it| !finalizers.iter().any(|has| has == *it));
    let missing: Vec<String> = missing.map(|it| (*it).to_owned()).collect();
    if !missing.is_empty() {
        finalizers.extend(missing);
        return SnapshotStep::SetFinalizers(finalizers);
    }
    if let Some(content) = content {
        return decide_bound(snapshot, content);
    }
    if snapshot.status.bound_volume_snapshot_content_name.is_some() {
        // Another copy would be of what the volume holds now, or of another volume.
        let message = "VolumeSnapshotContent is missing";
        return status(snapshot, None, Some(error(snapshot, message)));
    }
    if snapshot.spec.source.volume_snapshot_content_name.is_some() {
        return SnapshotStep::Nothing;
    }
    let class = match class(snapshot, state.classes) {
        Ok(class) => class,
        Err(message) => return status(snapshot, None, Some(error(snapshot, &message))),
    };
    if class.driver != NAME {
        let message = format!(
            "class {} is of driver {}, and the volume is of {NAME}",
            class.metadata.name, class.driver
        );
        return status(snapshot, None, Some(error(snapshot, &message)));
    }
    if snapshot.spec.volume_snapshot_class_name.is_none() {
        return SnapshotStep::SetClass(class.metadata.name.to_string());
    }
    let (Some(handle), Some(claim)) = (handle, state.claim) else {
        return SnapshotStep::Nothing;
    };
    SnapshotStep::CreateContent(content_object(snapshot, class, claim, handle, node))
}

fn finalizers(snapshot: &Snapshot) -> Vec<String> {
    let all = snapshot.metadata.finalizers.iter();
    all.map(ToString::to_string).collect()
}

fn decide_deletion(
    state: &SnapshotState<'_>,
    content: Option<&Content>,
    is_ours: bool,
) -> SnapshotStep {
    let snapshot = state.snapshot;
    let content = content.filter(|content| content.is_of(&snapshot.metadata));
    if let Some(content) = content {
        if !is_ours {
            return SnapshotStep::Nothing;
        }
        let mark = content.metadata.annotations.get(BEING_DELETED) != Some("yes");
        let delete = content.spec.deletion_policy == "Delete";
        if mark || delete && !content.metadata.is_terminating() {
            return SnapshotStep::DeleteContent { mark, delete };
        }
        if delete {
            // Its driver is at work.
            return SnapshotStep::Nothing;
        }
    } else if !is_ours && !is_of_our_class(state) {
        return SnapshotStep::Nothing;
    }
    let mut left = finalizers(snapshot);
    left.retain(|it| it != SOURCE_PROTECTION && it != BOUND_PROTECTION);
    if left.len() == snapshot.metadata.finalizers.len() {
        return SnapshotStep::Nothing;
    }
    SnapshotStep::SetFinalizers(left)
}

/// Whether a snapshot without a content is one of our driver: any node may let it go.
fn is_of_our_class(state: &SnapshotState<'_>) -> bool {
    state.snapshot.spec.volume_snapshot_class_name.is_some()
        && class(state.snapshot, state.classes).is_ok_and(|class| class.driver == NAME)
}

fn decide_bound(snapshot: &Snapshot, content: &Content) -> SnapshotStep {
    let reference = &content.spec.volume_snapshot_ref;
    let names_it = reference.namespace == snapshot.metadata.namespace.as_str()
        && reference.name == snapshot.metadata.name.as_str();
    if names_it && reference.uid.is_empty() {
        return SnapshotStep::BindContent;
    }
    if !content.is_of(&snapshot.metadata) {
        let message = format!(
            "VolumeSnapshotContent [{}] is bound to a different snapshot",
            content.metadata.name
        );
        return status(snapshot, None, Some(error(snapshot, &message)));
    }
    status(snapshot, Some(content), content.status.error.clone())
}

/// Returns the error of a snapshot; one that is the same keeps its time.
fn error(snapshot: &Snapshot, message: &str) -> Value {
    let before = snapshot.status.error.as_ref();
    let same = before.filter(|before| before["message"] == message);
    same.cloned().unwrap_or_else(
        || json!({"time": control_client::time::seconds(Timestamp::now()), "message": message}),
    )
}

fn status(snapshot: &Snapshot, content: Option<&Content>, error: Option<Value>) -> SnapshotStep {
    let before = &snapshot.status;
    let made = content.map(|content| &content.status);
    let name = content.map(|content| content.metadata.name.to_string());
    let name = name.or_else(|| before.bound_volume_snapshot_content_name.clone());
    let created = made.and_then(|made| made.creation_time).and_then(|nanos| {
        let time = Timestamp::from_nanosecond(i128::from(nanos)).ok()?;
        Some(control_client::time::seconds(time))
    });
    let ready = made.is_some_and(|made| made.ready_to_use == Some(true));
    let size = made.and_then(|made| made.restore_size).map(quantity);
    let is_same = before.bound_volume_snapshot_content_name == name
        && before.creation_time == created
        && before.ready_to_use == Some(ready)
        && before.restore_size == size
        && before.error == error;
    if is_same {
        return SnapshotStep::Nothing;
    }
    SnapshotStep::SetStatus(json!({
        "boundVolumeSnapshotContentName": name,
        "creationTime": created,
        "readyToUse": ready,
        "restoreSize": size,
        "error": error,
    }))
}

/// Returns the class of a snapshot: the named one, or the only default of our driver.
fn class<'a>(
    snapshot: &Snapshot,
    classes: &'a [Arc<SnapshotClass>],
) -> Result<&'a SnapshotClass, String> {
    if let Some(name) = &snapshot.spec.volume_snapshot_class_name {
        let mut classes = classes.iter();
        let named = classes.find(|class| class.metadata.name == name.as_str());
        return named.map(AsRef::as_ref).ok_or_else(|| {
            format!("failed to get snapshot class {name}: volumesnapshotclass.snapshot.storage.k8s.io \"{name}\" not found")
        });
    }
    let is_default = |class: &&Arc<SnapshotClass>| {
        class.driver == NAME && class.metadata.annotations.get(DEFAULT) == Some("true")
    };
    let defaults: Vec<&Arc<SnapshotClass>> = classes.iter().filter(is_default).collect();
    match defaults.as_slice() {
        [one] => Ok(one),
        [] => Err("cannot find default snapshot class".to_owned()),
        several => Err(format!(
            "{} default snapshot classes were found",
            several.len()
        )),
    }
}

fn content_object(
    snapshot: &Snapshot,
    class: &SnapshotClass,
    claim: &Claim,
    volume: &str,
    node: &str,
) -> Value {
    let meta = &snapshot.metadata;
    json!({
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshotContent",
        "metadata": {
            "name": content_name(snapshot),
            "labels": {MANAGED_BY: node},
            "finalizers": [CONTENT_PROTECTION],
        },
        "spec": {
            "deletionPolicy": class.deletion_policy,
            "driver": NAME,
            "source": {"volumeHandle": volume},
            "sourceVolumeMode": claim.spec.volume_mode.as_deref().unwrap_or("Filesystem"),
            "volumeSnapshotClassName": class.metadata.name,
            "volumeSnapshotRef": {
                "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
                "namespace": meta.namespace, "name": meta.name, "uid": meta.uid,
                "resourceVersion": meta.resource_version,
            },
        },
    })
}

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

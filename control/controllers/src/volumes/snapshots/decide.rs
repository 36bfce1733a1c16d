//! Decides the next step for one snapshot, and which node has the storage of a content.

use std::sync::Arc;

use control_client::time;
use control_types::quantity::{Format, Quantity};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::views::{MANAGED_BY, SnapshotClass, SnapshotContent, SnapshotView};
use crate::views::{Claim, Text, Volume};
use crate::volumes::local::{DRIVER, node_of};

/// Keeps a snapshot until its content is settled.
const BOUND_PROTECTION: &str = "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection";
/// Keeps a snapshot that is the source of a volume.
const SOURCE_PROTECTION: &str =
    "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection";
/// Keeps a content until its storage is deleted.
const CONTENT_PROTECTION: &str =
    "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection";
/// Says that the snapshot of a content is being deleted.
pub(super) const BEING_DELETED: &str =
    "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted";
/// Marks the class of snapshots that name none.
const DEFAULT: &str = "snapshot.storage.kubernetes.io/is-default-class";
/// Stands between the driver's identifier of a snapshot and the node that has it.
const AT_NODE: char = '@';

/// The objects that the decision for a snapshot depends on.
pub(super) struct SnapshotState<'a> {
    pub snapshot: &'a SnapshotView,
    /// The content that the snapshot names, or that was created for it.
    pub content: Option<&'a SnapshotContent>,
    /// The claim that it is a snapshot of.
    pub claim: Option<&'a Claim>,
    /// The volume of that claim.
    pub volume: Option<&'a Volume>,
    pub classes: &'a [Arc<SnapshotClass>],
}

/// The next step for a snapshot.
#[derive(Debug, PartialEq)]
pub(super) enum SnapshotStep {
    /// It is of another driver, or there is nothing to do.
    Nothing,
    /// The finalizers are to be these.
    SetFinalizers(Vec<String>),
    /// It is of this class from now on.
    SetClass(Text),
    /// The content is to be made.
    CreateContent(Value),
    /// The content refers to it by its name and gets its identity.
    BindContent,
    /// The content is to be deleted, after it was marked.
    DeleteContent {
        /// Whether it lacks the mark.
        mark: bool,
        /// Whether its storage is deleted as well.
        delete: bool,
    },
    /// The status is to be this.
    SetStatus(Value),
}

/// Returns the name of the content that is made for a snapshot.
pub(super) fn content_name(snapshot: &SnapshotView) -> String {
    format!("snapcontent-{}", snapshot.metadata.uid)
}

/// Returns the next step for a snapshot.
pub(super) fn decide_snapshot(state: &SnapshotState<'_>) -> SnapshotStep {
    let snapshot = state.snapshot;
    let content = state
        .content
        .filter(|content| content.spec.driver == DRIVER);
    if state.content.is_some() && content.is_none() {
        return SnapshotStep::Nothing;
    }
    let place = state.volume.and_then(place);
    let is_ours = content.is_some() || place.is_some();
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
        // A new copy would hold the volume's present data, or another volume's.
        let message = "VolumeSnapshotContent is missing";
        return status(snapshot, None, Some(error(snapshot, message)));
    }
    if snapshot.spec.source.volume_snapshot_content_name.is_some() {
        return SnapshotStep::Nothing;
    }
    let class = match class(snapshot, state.classes) {
        Ok(class) => class,
        Err(reason) => {
            return status(snapshot, None, Some(error(snapshot, &reason.to_string())));
        }
    };
    if class.driver != DRIVER {
        let message = format!(
            "class {} is of driver {}, and the volume is of {DRIVER}",
            class.metadata.name, class.driver
        );
        return status(snapshot, None, Some(error(snapshot, &message)));
    }
    if snapshot.spec.volume_snapshot_class_name.is_none() {
        return SnapshotStep::SetClass(class.metadata.name.clone());
    }
    let (Some(place), Some(claim)) = (place, state.claim) else {
        return SnapshotStep::Nothing;
    };
    SnapshotStep::CreateContent(content_object(snapshot, class, claim, place))
}

/// Returns the driver's identifier of a volume, and the node that has it.
fn place(volume: &Volume) -> Option<(&str, &str)> {
    let csi = volume.spec.csi.as_ref()?;
    Some((&csi.volume_handle, node_of(volume)?))
}

/// Returns the node whose driver has the storage of a content that is not labelled: the
/// one that its snapshot's identifier names, or the one that has its volume.
pub(super) fn node_of_content<'a>(
    content: &'a SnapshotContent,
    volumes: &'a [Arc<Volume>],
) -> Option<&'a str> {
    let source = &content.spec.source;
    if let Some(handle) = &source.snapshot_handle {
        let (_, node) = handle.rsplit_once(AT_NODE)?;
        return (!node.is_empty()).then_some(node);
    }
    let handle = source.volume_handle.as_deref()?;
    let mut places = volumes.iter().filter_map(|volume| place(volume));
    places
        .find(|(volume, _)| *volume == handle)
        .map(|(_, node)| node)
}

fn finalizers(snapshot: &SnapshotView) -> Vec<String> {
    let all = snapshot.metadata.finalizers.iter();
    all.map(ToString::to_string).collect()
}

fn decide_deletion(
    state: &SnapshotState<'_>,
    content: Option<&SnapshotContent>,
    is_ours: bool,
) -> SnapshotStep {
    let snapshot = state.snapshot;
    let content = content.filter(|content| content.is_of(&snapshot.metadata));
    if let Some(content) = content {
        let mark = content.metadata.annotations.get(BEING_DELETED) != Some("yes");
        let delete = content.spec.deletion_policy == "Delete";
        if mark || delete && !content.metadata.is_terminating() {
            return SnapshotStep::DeleteContent { mark, delete };
        }
        if delete {
            // Its node is at work.
            return SnapshotStep::Nothing;
        }
    } else if !is_ours && !is_of_our_class(state) && !has_lost_its_content(state) {
        return SnapshotStep::Nothing;
    }
    let mut left = finalizers(snapshot);
    left.retain(|it| it != SOURCE_PROTECTION && it != BOUND_PROTECTION);
    if left.len() == snapshot.metadata.finalizers.len() {
        return SnapshotStep::Nothing;
    }
    SnapshotStep::SetFinalizers(left)
}

/// Whether a snapshot without a content is one of our driver.
fn is_of_our_class(state: &SnapshotState<'_>) -> bool {
    state.snapshot.spec.volume_snapshot_class_name.is_some()
        && class(state.snapshot, state.classes).is_ok_and(|class| class.driver == DRIVER)
}

/// Returns whether the content that a snapshot names was deleted. Its driver is then
/// unknown, and there is nothing left to protect.
fn has_lost_its_content(state: &SnapshotState<'_>) -> bool {
    let names_one = state
        .snapshot
        .spec
        .source
        .volume_snapshot_content_name
        .is_some();
    names_one && state.content.is_none()
}

fn decide_bound(snapshot: &SnapshotView, content: &SnapshotContent) -> SnapshotStep {
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
fn error(snapshot: &SnapshotView, message: &str) -> Value {
    let before = snapshot.status.error.as_ref();
    let same = before.filter(|before| before["message"] == message);
    same.cloned()
        .unwrap_or_else(|| json!({"time": time::seconds(Timestamp::now()), "message": message}))
}

fn status(
    snapshot: &SnapshotView,
    content: Option<&SnapshotContent>,
    error: Option<Value>,
) -> SnapshotStep {
    let before = &snapshot.status;
    let made = content.map(|content| &content.status);
    let name = content.map(|content| content.metadata.name.clone());
    let name = name.or_else(|| before.bound_volume_snapshot_content_name.clone());
    let created = made.and_then(|made| made.creation_time).and_then(|nanos| {
        let created = Timestamp::from_nanosecond(i128::from(nanos)).ok()?;
        Some(Text::from(time::seconds(created)))
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

/// Reason why a snapshot has no class; the message is that of external-snapshotter.
#[derive(Debug, thiserror::Error)]
enum ClassError {
    #[error(
        "failed to get snapshot class {0}: volumesnapshotclass.snapshot.storage.k8s.io \"{0}\" not found"
    )]
    NotFound(String),
    #[error("cannot find default snapshot class")]
    NoDefault,
    #[error("{0} default snapshot classes were found")]
    Defaults(usize),
}

/// Returns the class of a snapshot: the named one, or the only default of our driver.
fn class<'a>(
    snapshot: &SnapshotView,
    classes: &'a [Arc<SnapshotClass>],
) -> Result<&'a SnapshotClass, ClassError> {
    if let Some(name) = &snapshot.spec.volume_snapshot_class_name {
        let mut classes = classes.iter();
        let named = classes.find(|class| class.metadata.name == *name);
        return named
            .map(AsRef::as_ref)
            .ok_or_else(|| ClassError::NotFound(name.to_string()));
    }
    let is_default = |class: &&Arc<SnapshotClass>| {
        class.driver == DRIVER && class.metadata.annotations.get(DEFAULT) == Some("true")
    };
    let defaults: Vec<&Arc<SnapshotClass>> = classes.iter().filter(is_default).collect();
    match defaults.as_slice() {
        [one] => Ok(one),
        [] => Err(ClassError::NoDefault),
        several => Err(ClassError::Defaults(several.len())),
    }
}

fn content_object(
    snapshot: &SnapshotView,
    class: &SnapshotClass,
    claim: &Claim,
    (volume, node): (&str, &str),
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
            "driver": DRIVER,
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

fn quantity(bytes: i64) -> Text {
    Quantity::new(bytes, Format::BinarySI).canonical()
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;

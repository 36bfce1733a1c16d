//! Snapshots, as their controller reads them.

use control_client::{Meta, Resource, View};
use serde::Deserialize;
use serde_json::Value;

use crate::views::Text;

const GROUP: &str = "snapshot.storage.k8s.io";

/// Label of a content: the node whose driver has the snapshot.
pub(in crate::volumes) const MANAGED_BY: &str = "snapshot.storage.kubernetes.io/managed-by";

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(in crate::volumes) struct SnapshotView {
    pub metadata: Meta,
    pub spec: SnapshotSpec,
    pub status: SnapshotStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::volumes) struct SnapshotSpec {
    pub source: SnapshotSource,
    pub volume_snapshot_class_name: Option<Text>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::volumes) struct SnapshotSource {
    pub persistent_volume_claim_name: Option<Text>,
    pub volume_snapshot_content_name: Option<Text>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::volumes) struct SnapshotStatus {
    pub bound_volume_snapshot_content_name: Option<Text>,
    pub creation_time: Option<Text>,
    pub error: Option<Value>,
    pub ready_to_use: Option<bool>,
    pub restore_size: Option<Text>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(in crate::volumes) struct SnapshotContent {
    pub metadata: Meta,
    pub spec: ContentSpec,
    pub status: ContentStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::volumes) struct ContentSpec {
    pub deletion_policy: Text,
    pub driver: Text,
    pub source: ContentSource,
    pub volume_snapshot_ref: SnapshotReference,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::volumes) struct ContentSource {
    pub snapshot_handle: Option<Text>,
    pub volume_handle: Option<Text>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(in crate::volumes) struct SnapshotReference {
    pub name: Text,
    pub namespace: Text,
    pub uid: Text,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::volumes) struct ContentStatus {
    pub creation_time: Option<i64>,
    pub error: Option<Value>,
    pub ready_to_use: Option<bool>,
    pub restore_size: Option<i64>,
}

impl SnapshotContent {
    /// Whether it is the content of a snapshot.
    pub fn is_of(&self, snapshot: &Meta) -> bool {
        let reference = &self.spec.volume_snapshot_ref;
        reference.namespace == snapshot.namespace
            && reference.name == snapshot.name
            && reference.uid == snapshot.uid
    }
}

/// The class of snapshots. Parameters are for the driver alone.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::volumes) struct SnapshotClass {
    pub metadata: Meta,
    pub deletion_policy: Text,
    pub driver: Text,
}

macro_rules! views {
    ($($view:ident: $scope:ident, $plural:literal, $kind:literal;)*) => {
        $(impl View for $view {
            const RESOURCE: Resource = Resource::$scope(GROUP, "v1", $plural, $kind);

            fn meta(&self) -> &Meta {
                &self.metadata
            }
        })*
    };
}

views! {
    SnapshotView: namespaced, "volumesnapshots", "VolumeSnapshot";
    SnapshotContent: cluster, "volumesnapshotcontents", "VolumeSnapshotContent";
    SnapshotClass: cluster, "volumesnapshotclasses", "VolumeSnapshotClass";
}

//! Snapshots, as the loops read them.

use std::collections::BTreeMap;

use control_client::{Meta, Resource, Selection, View};
use node_agent_informers::SharedView;
use serde::Deserialize;
use serde_json::Value;

const GROUP: &str = "snapshot.storage.k8s.io";

/// Names the node whose driver has a snapshot.
pub const MANAGED_BY: &str = "snapshot.storage.kubernetes.io/managed-by";

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    pub metadata: Meta,
    pub status: SnapshotStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SnapshotStatus {
    pub bound_volume_snapshot_content_name: Option<String>,
    pub ready_to_use: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Content {
    pub metadata: Meta,
    pub spec: ContentSpec,
    pub status: ContentStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContentSpec {
    pub deletion_policy: String,
    pub driver: String,
    pub source: ContentSource,
    pub source_volume_mode: Option<String>,
    pub volume_snapshot_class_name: Option<String>,
    pub volume_snapshot_ref: SnapshotReference,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContentSource {
    pub snapshot_handle: Option<String>,
    pub volume_handle: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct SnapshotReference {
    pub name: String,
    pub namespace: String,
    pub uid: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContentStatus {
    pub error: Option<Value>,
    pub ready_to_use: Option<bool>,
    pub restore_size: Option<i64>,
    pub snapshot_handle: Option<String>,
}

impl Content {
    /// Whether it is the content of a snapshot.
    #[must_use]
    pub fn is_of(&self, snapshot: &Meta) -> bool {
        let reference = &self.spec.volume_snapshot_ref;
        reference.namespace == snapshot.namespace.as_str()
            && reference.name == snapshot.name.as_str()
            && reference.uid == snapshot.uid.as_str()
    }

    /// Returns the name of its class.
    #[must_use]
    pub fn class(&self) -> &str {
        let class = self.spec.volume_snapshot_class_name.as_deref();
        class.unwrap_or_default()
    }

    /// Returns the node whose driver has the snapshot.
    #[must_use]
    pub fn node(&self) -> &str {
        self.metadata.labels.get(MANAGED_BY).unwrap_or_default()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SnapshotClass {
    pub metadata: Meta,
    pub parameters: BTreeMap<String, String>,
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
    Snapshot: namespaced, "volumesnapshots", "VolumeSnapshot";
    Content: cluster, "volumesnapshotcontents", "VolumeSnapshotContent";
    SnapshotClass: cluster, "volumesnapshotclasses", "VolumeSnapshotClass";
}

impl SharedView for Content {
    fn selection(node: &str) -> Selection {
        Selection::all().labels(format!("{MANAGED_BY}={node}"))
    }
}

impl SharedView for SnapshotClass {}

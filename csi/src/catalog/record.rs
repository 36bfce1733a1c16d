//! The driver's records of volumes and snapshots.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::filesystem::FsType;

/// The contents of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Content {
    /// Nothing yet: it may be formatted.
    #[default]
    Blank,
    /// A file system of the driver's making.
    Filesystem(FsType),
    /// Whatever its user writes to the device.
    Block,
}

/// The source of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Origin {
    /// A snapshot.
    Snapshot(String),
    /// Another volume.
    Volume(String),
}

/// A volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeRecord {
    /// Identifier, derived from the name.
    pub id: String,
    /// Name in the request that created it.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// The source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// Whether it was requested as a block device.
    #[serde(default)]
    pub block: bool,
    /// File system that was requested; none is the class's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested: Option<FsType>,
    /// The contents.
    #[serde(default)]
    pub content: Content,
    /// Whether its file system still has the identity of the one it is a copy of.
    #[serde(default)]
    pub copied_identity: bool,
    /// Size of the device that the file system was last made to fill, in bytes.
    #[serde(default)]
    pub filled: u64,
    /// IO limits and other parameters that can change.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mutable: BTreeMap<String, String>,
    /// The path at which an inline volume of a pod is published; it ends with its pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ephemeral: Option<PathBuf>,
    /// Device of a `raw` class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<PathBuf>,
    /// When it was created, in seconds since 1970.
    pub created: i64,
}

/// A snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotRecord {
    /// Identifier, derived from the name.
    pub id: String,
    /// Name in the request that created it.
    pub name: String,
    /// Volume that was copied.
    pub source: String,
    /// Size of the volume at that time, in bytes.
    pub bytes: u64,
    /// The contents of the volume.
    #[serde(default)]
    pub content: Content,
    /// Group that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// When it was created, in seconds since 1970.
    pub created: i64,
}

/// Snapshots of several volumes at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupRecord {
    /// Identifier, derived from the name.
    pub id: String,
    /// Name in the request that created it.
    pub name: String,
    /// Identifiers of the snapshots.
    pub snapshots: Vec<String>,
    /// When it was created, in seconds since 1970.
    pub created: i64,
}

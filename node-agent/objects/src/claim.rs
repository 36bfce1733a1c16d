//! Claims and the volumes that they are bound to, as the agent reads them.

#![expect(
    missing_docs,
    reason = "the fields are documented by the published Kubernetes API, whose names these are"
)]

use std::collections::BTreeMap;

use control_client::Meta;
use serde::Deserialize;

use super::volume::HostPath;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct VolumeClaim {
    pub metadata: Meta,
    pub spec: ClaimSpec,
    pub status: ClaimStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSpec {
    pub volume_name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimStatus {
    pub phase: String,
    pub capacity: BTreeMap<String, String>,
    pub conditions: Vec<serde_json::Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PersistentVolume {
    pub metadata: Meta,
    pub spec: PersistentVolumeSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeSpec {
    pub access_modes: Vec<String>,
    pub capacity: BTreeMap<String, String>,
    pub claim_ref: Option<ClaimReference>,
    pub mount_options: Vec<String>,
    pub volume_mode: Option<String>,
    pub host_path: Option<HostPath>,
    pub local: Option<LocalVolume>,
    pub csi: Option<CsiVolume>,
    /// Of other kinds, the field's name among what says how it is used.
    #[serde(flatten)]
    pub rest: BTreeMap<String, serde_json::Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ClaimReference {
    pub uid: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LocalVolume {
    pub path: String,
    pub fs_type: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiVolume {
    pub driver: String,
    pub volume_handle: String,
    pub read_only: bool,
    pub fs_type: String,
    pub volume_attributes: BTreeMap<String, String>,
    pub node_stage_secret_ref: Option<SecretReference>,
    pub node_publish_secret_ref: Option<SecretReference>,
    pub node_expand_secret_ref: Option<SecretReference>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct SecretReference {
    pub namespace: String,
    pub name: String,
}

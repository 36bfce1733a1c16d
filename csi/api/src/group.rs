//! Messages of the GroupController service.

use std::collections::BTreeMap;

use crate::{Snapshot, Timestamp};

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct GroupControllerGetCapabilitiesRequest {}

#[derive(Clone, PartialEq, prost::Message)]
pub struct GroupControllerGetCapabilitiesResponse {
    #[prost(message, repeated, tag = "1")]
    pub capabilities: Vec<GroupControllerServiceCapability>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct GroupControllerServiceCapability {
    #[prost(message, optional, tag = "1")]
    pub rpc: Option<GroupControllerRpc>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct GroupControllerRpc {
    #[prost(enumeration = "GroupControllerCapability", tag = "1")]
    pub r#type: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct CreateVolumeGroupSnapshotRequest {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, repeated, tag = "2")]
    pub source_volume_ids: Vec<String>,
    #[prost(btree_map = "string, string", tag = "3")]
    pub secrets: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "4")]
    pub parameters: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct CreateVolumeGroupSnapshotResponse {
    #[prost(message, optional, tag = "1")]
    pub group_snapshot: Option<VolumeGroupSnapshot>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct VolumeGroupSnapshot {
    #[prost(string, tag = "1")]
    pub group_snapshot_id: String,
    #[prost(message, repeated, tag = "2")]
    pub snapshots: Vec<Snapshot>,
    #[prost(message, optional, tag = "3")]
    pub creation_time: Option<Timestamp>,
    #[prost(bool, tag = "4")]
    pub ready_to_use: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct DeleteVolumeGroupSnapshotRequest {
    #[prost(string, tag = "1")]
    pub group_snapshot_id: String,
    #[prost(string, repeated, tag = "2")]
    pub snapshot_ids: Vec<String>,
    #[prost(btree_map = "string, string", tag = "3")]
    pub secrets: BTreeMap<String, String>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct DeleteVolumeGroupSnapshotResponse {}

#[derive(Clone, PartialEq, prost::Message)]
pub struct GetVolumeGroupSnapshotRequest {
    #[prost(string, tag = "1")]
    pub group_snapshot_id: String,
    #[prost(string, repeated, tag = "2")]
    pub snapshot_ids: Vec<String>,
    #[prost(btree_map = "string, string", tag = "3")]
    pub secrets: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct GetVolumeGroupSnapshotResponse {
    #[prost(message, optional, tag = "1")]
    pub group_snapshot: Option<VolumeGroupSnapshot>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum GroupControllerCapability {
    Unknown = 0,
    CreateDeleteGetVolumeGroupSnapshot = 1,
}

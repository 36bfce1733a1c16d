//! Messages of the Identity service.

use std::collections::BTreeMap;

use crate::BoolValue;

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct GetPluginInfoRequest {}

#[derive(Clone, PartialEq, prost::Message)]
pub struct GetPluginInfoResponse {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub vendor_version: String,
    #[prost(btree_map = "string, string", tag = "3")]
    pub manifest: BTreeMap<String, String>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct GetPluginCapabilitiesRequest {}

#[derive(Clone, PartialEq, prost::Message)]
pub struct GetPluginCapabilitiesResponse {
    #[prost(message, repeated, tag = "1")]
    pub capabilities: Vec<PluginCapability>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct PluginCapability {
    #[prost(message, optional, tag = "1")]
    pub service: Option<PluginService>,
    #[prost(message, optional, tag = "2")]
    pub volume_expansion: Option<PluginVolumeExpansion>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct PluginService {
    #[prost(enumeration = "PluginServiceType", tag = "1")]
    pub r#type: i32,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct PluginVolumeExpansion {
    #[prost(enumeration = "VolumeExpansionType", tag = "1")]
    pub r#type: i32,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct ProbeRequest {}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct ProbeResponse {
    #[prost(message, optional, tag = "1")]
    pub ready: Option<BoolValue>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum PluginServiceType {
    Unknown = 0,
    ControllerService = 1,
    VolumeAccessibilityConstraints = 2,
    GroupControllerService = 3,
    SnapshotMetadataService = 4,
    SnapshotAccessibilityConstraints = 5,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum VolumeExpansionType {
    Unknown = 0,
    Online = 1,
    Offline = 2,
}

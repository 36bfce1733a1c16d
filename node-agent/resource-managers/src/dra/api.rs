//! The messages of drivers of devices (`k8s.io.kubelet.pkg.apis.dra.v1`, of
//! which those of `v1beta1` are a part) and of their health
//! (`v1alpha1.DRAResourceHealth`), written by hand as those of the runtime's
//! protocol.

#![expect(
    missing_docs,
    reason = "each field is documented by the published protocols, whose names these are"
)]

use std::collections::BTreeMap;

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Claim {
    #[prost(string, tag = "1")]
    pub namespace: String,
    #[prost(string, tag = "2")]
    pub uid: String,
    #[prost(string, tag = "3")]
    pub name: String,
}

/// Of both `NodePrepareResources` and `NodeUnprepareResources`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ClaimsRequest {
    #[prost(message, repeated, tag = "1")]
    pub claims: Vec<Claim>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct PrepareResponse {
    /// By the claim's uid.
    #[prost(btree_map = "string, message", tag = "1")]
    pub claims: BTreeMap<String, Prepared>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Prepared {
    #[prost(message, repeated, tag = "1")]
    pub devices: Vec<Device>,
    #[prost(string, tag = "2")]
    pub error: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Device {
    #[prost(string, repeated, tag = "1")]
    pub request_names: Vec<String>,
    #[prost(string, tag = "2")]
    pub pool_name: String,
    #[prost(string, tag = "3")]
    pub device_name: String,
    #[prost(string, repeated, tag = "4")]
    pub cdi_device_ids: Vec<String>,
    #[prost(string, optional, tag = "5")]
    pub share_id: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct UnprepareResponse {
    /// By the claim's uid.
    #[prost(btree_map = "string, message", tag = "1")]
    pub claims: BTreeMap<String, Unprepared>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Unprepared {
    #[prost(string, tag = "1")]
    pub error: String,
}

// --- health

#[derive(Clone, PartialEq, prost::Message)]
pub struct WatchResponse {
    #[prost(message, repeated, tag = "1")]
    pub devices: Vec<DeviceHealth>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct DeviceHealth {
    #[prost(message, optional, tag = "1")]
    pub device: Option<DeviceIdentifier>,
    #[prost(enumeration = "HealthStatus", tag = "2")]
    pub health: i32,
    #[prost(int64, tag = "4")]
    pub health_check_timeout_seconds: i64,
    #[prost(string, tag = "5")]
    pub message: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct DeviceIdentifier {
    #[prost(string, tag = "1")]
    pub pool_name: String,
    #[prost(string, tag = "2")]
    pub device_name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum HealthStatus {
    Unknown = 0,
    Healthy = 1,
    Unhealthy = 2,
}

//! What containers use.

use std::collections::BTreeMap;

use super::config::UInt64Value;
use super::container::ContainerMetadata;
use super::image::FilesystemUsage;

#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerStatsFilter {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(string, tag = "2")]
    pub pod_sandbox_id: String,
    #[prost(btree_map = "string, string", tag = "3")]
    pub label_selector: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ListContainerStatsRequest {
    #[prost(message, optional, tag = "1")]
    pub filter: Option<ContainerStatsFilter>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerAttributes {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(message, optional, tag = "2")]
    pub metadata: Option<ContainerMetadata>,
    #[prost(btree_map = "string, string", tag = "3")]
    pub labels: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct CpuUsage {
    #[prost(int64, tag = "1")]
    pub timestamp: i64,
    #[prost(message, optional, tag = "2")]
    pub usage_core_nano_seconds: Option<UInt64Value>,
    #[prost(message, optional, tag = "3")]
    pub usage_nano_cores: Option<UInt64Value>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct MemoryUsage {
    #[prost(int64, tag = "1")]
    pub timestamp: i64,
    #[prost(message, optional, tag = "2")]
    pub working_set_bytes: Option<UInt64Value>,
    #[prost(message, optional, tag = "4")]
    pub usage_bytes: Option<UInt64Value>,
    #[prost(message, optional, tag = "5")]
    pub rss_bytes: Option<UInt64Value>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerStats {
    #[prost(message, optional, tag = "1")]
    pub attributes: Option<ContainerAttributes>,
    #[prost(message, optional, tag = "2")]
    pub cpu: Option<CpuUsage>,
    #[prost(message, optional, tag = "3")]
    pub memory: Option<MemoryUsage>,
    #[prost(message, optional, tag = "4")]
    pub writable_layer: Option<FilesystemUsage>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ListContainerStatsResponse {
    #[prost(message, repeated, tag = "1")]
    pub stats: Vec<ContainerStats>,
}

//! Messages of the SnapshotMetadata service.

use std::collections::BTreeMap;

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct BlockMetadata {
    #[prost(int64, tag = "1")]
    pub byte_offset: i64,
    #[prost(int64, tag = "2")]
    pub size_bytes: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct GetMetadataAllocatedRequest {
    #[prost(string, tag = "1")]
    pub snapshot_id: String,
    #[prost(int64, tag = "2")]
    pub starting_offset: i64,
    #[prost(int32, tag = "3")]
    pub max_results: i32,
    #[prost(btree_map = "string, string", tag = "4")]
    pub secrets: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct GetMetadataAllocatedResponse {
    #[prost(enumeration = "BlockMetadataType", tag = "1")]
    pub block_metadata_type: i32,
    #[prost(int64, tag = "2")]
    pub volume_capacity_bytes: i64,
    #[prost(message, repeated, tag = "3")]
    pub block_metadata: Vec<BlockMetadata>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct GetMetadataDeltaRequest {
    #[prost(string, tag = "1")]
    pub base_snapshot_id: String,
    #[prost(string, tag = "2")]
    pub target_snapshot_id: String,
    #[prost(int64, tag = "3")]
    pub starting_offset: i64,
    #[prost(int32, tag = "4")]
    pub max_results: i32,
    #[prost(btree_map = "string, string", tag = "5")]
    pub secrets: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct GetMetadataDeltaResponse {
    #[prost(enumeration = "BlockMetadataType", tag = "1")]
    pub block_metadata_type: i32,
    #[prost(int64, tag = "2")]
    pub volume_capacity_bytes: i64,
    #[prost(message, repeated, tag = "3")]
    pub block_metadata: Vec<BlockMetadata>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum BlockMetadataType {
    Unknown = 0,
    FixedLength = 1,
    VariableLength = 2,
}

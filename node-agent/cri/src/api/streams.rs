//! Commands in containers, and streams to them.

#[derive(Clone, PartialEq, prost::Message)]
pub struct ExecSyncRequest {
    #[prost(string, tag = "1")]
    pub container_id: String,
    #[prost(string, repeated, tag = "2")]
    pub cmd: Vec<String>,
    /// Seconds; 0 is no limit.
    #[prost(int64, tag = "3")]
    pub timeout: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ExecSyncResponse {
    #[prost(bytes = "bytes", tag = "1")]
    pub stdout: bytes::Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub stderr: bytes::Bytes,
    #[prost(int32, tag = "3")]
    pub exit_code: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ExecRequest {
    #[prost(string, tag = "1")]
    pub container_id: String,
    #[prost(string, repeated, tag = "2")]
    pub cmd: Vec<String>,
    #[prost(bool, tag = "3")]
    pub tty: bool,
    #[prost(bool, tag = "4")]
    pub stdin: bool,
    #[prost(bool, tag = "5")]
    pub stdout: bool,
    #[prost(bool, tag = "6")]
    pub stderr: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct AttachRequest {
    #[prost(string, tag = "1")]
    pub container_id: String,
    #[prost(bool, tag = "2")]
    pub stdin: bool,
    #[prost(bool, tag = "3")]
    pub tty: bool,
    #[prost(bool, tag = "4")]
    pub stdout: bool,
    #[prost(bool, tag = "5")]
    pub stderr: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct PortForwardRequest {
    #[prost(string, tag = "1")]
    pub pod_sandbox_id: String,
    #[prost(int32, repeated, tag = "2")]
    pub port: Vec<i32>,
}

/// Where the runtime serves a stream that was asked for.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StreamUrl {
    #[prost(string, tag = "1")]
    pub url: String,
}

//! What sandboxes and containers are made of.

use std::collections::BTreeMap;

use super::container::ImageSpec;

#[derive(Clone, PartialEq, prost::Message)]
pub struct DnsConfig {
    #[prost(string, repeated, tag = "1")]
    pub servers: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub searches: Vec<String>,
    #[prost(string, repeated, tag = "3")]
    pub options: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Protocol {
    Tcp = 0,
    Udp = 1,
    Sctp = 2,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct PortMapping {
    #[prost(enumeration = "Protocol", tag = "1")]
    pub protocol: i32,
    #[prost(int32, tag = "2")]
    pub container_port: i32,
    #[prost(int32, tag = "3")]
    pub host_port: i32,
    #[prost(string, tag = "4")]
    pub host_ip: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum MountPropagation {
    Private = 0,
    HostToContainer = 1,
    Bidirectional = 2,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Mount {
    #[prost(string, tag = "1")]
    pub container_path: String,
    #[prost(string, tag = "2")]
    pub host_path: String,
    #[prost(bool, tag = "3")]
    pub readonly: bool,
    #[prost(bool, tag = "4")]
    pub selinux_relabel: bool,
    #[prost(enumeration = "MountPropagation", tag = "5")]
    pub propagation: i32,
    #[prost(message, repeated, tag = "6")]
    pub uid_mappings: Vec<IdMapping>,
    #[prost(message, repeated, tag = "7")]
    pub gid_mappings: Vec<IdMapping>,
    #[prost(bool, tag = "8")]
    pub recursive_read_only: bool,
    #[prost(message, optional, tag = "9")]
    pub image: Option<ImageSpec>,
    #[prost(string, tag = "10")]
    pub image_sub_path: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum NamespaceMode {
    Pod = 0,
    Container = 1,
    Node = 2,
    Target = 3,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct NamespaceOption {
    #[prost(enumeration = "NamespaceMode", tag = "1")]
    pub network: i32,
    #[prost(enumeration = "NamespaceMode", tag = "2")]
    pub pid: i32,
    #[prost(enumeration = "NamespaceMode", tag = "3")]
    pub ipc: i32,
    #[prost(string, tag = "4")]
    pub target_id: String,
    #[prost(message, optional, tag = "5")]
    pub userns_options: Option<UserNamespace>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct UserNamespace {
    #[prost(enumeration = "NamespaceMode", tag = "1")]
    pub mode: i32,
    #[prost(message, repeated, tag = "2")]
    pub uids: Vec<IdMapping>,
    #[prost(message, repeated, tag = "3")]
    pub gids: Vec<IdMapping>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct IdMapping {
    #[prost(uint32, tag = "1")]
    pub host_id: u32,
    #[prost(uint32, tag = "2")]
    pub container_id: u32,
    #[prost(uint32, tag = "3")]
    pub length: u32,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Int64Value {
    #[prost(int64, tag = "1")]
    pub value: i64,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct UInt64Value {
    #[prost(uint64, tag = "1")]
    pub value: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum ProfileType {
    RuntimeDefault = 0,
    Unconfined = 1,
    Localhost = 2,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct SecurityProfile {
    #[prost(enumeration = "ProfileType", tag = "1")]
    pub profile_type: i32,
    #[prost(string, tag = "2")]
    pub localhost_ref: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct SeLinuxOption {
    #[prost(string, tag = "1")]
    pub user: String,
    #[prost(string, tag = "2")]
    pub role: String,
    #[prost(string, tag = "3")]
    pub r#type: String,
    #[prost(string, tag = "4")]
    pub level: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct LinuxSandboxSecurityContext {
    #[prost(message, optional, tag = "1")]
    pub namespace_options: Option<NamespaceOption>,
    #[prost(message, optional, tag = "2")]
    pub selinux_options: Option<SeLinuxOption>,
    #[prost(message, optional, tag = "3")]
    pub run_as_user: Option<Int64Value>,
    #[prost(bool, tag = "4")]
    pub readonly_rootfs: bool,
    #[prost(int64, repeated, tag = "5")]
    pub supplemental_groups: Vec<i64>,
    #[prost(bool, tag = "6")]
    pub privileged: bool,
    #[prost(string, tag = "7")]
    pub seccomp_profile_path: String,
    #[prost(message, optional, tag = "8")]
    pub run_as_group: Option<Int64Value>,
    #[prost(message, optional, tag = "9")]
    pub seccomp: Option<SecurityProfile>,
    #[prost(int32, tag = "11")]
    pub supplemental_groups_policy: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct HugepageLimit {
    #[prost(string, tag = "1")]
    pub page_size: String,
    #[prost(uint64, tag = "2")]
    pub limit: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct LinuxContainerResources {
    #[prost(int64, tag = "1")]
    pub cpu_period: i64,
    #[prost(int64, tag = "2")]
    pub cpu_quota: i64,
    #[prost(int64, tag = "3")]
    pub cpu_shares: i64,
    #[prost(int64, tag = "4")]
    pub memory_limit_in_bytes: i64,
    #[prost(int64, tag = "5")]
    pub oom_score_adj: i64,
    #[prost(string, tag = "6")]
    pub cpuset_cpus: String,
    #[prost(string, tag = "7")]
    pub cpuset_mems: String,
    #[prost(message, repeated, tag = "8")]
    pub hugepage_limits: Vec<HugepageLimit>,
    #[prost(btree_map = "string, string", tag = "9")]
    pub unified: BTreeMap<String, String>,
    #[prost(int64, tag = "10")]
    pub memory_swap_limit_in_bytes: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct LinuxPodSandboxConfig {
    #[prost(string, tag = "1")]
    pub cgroup_parent: String,
    #[prost(message, optional, tag = "2")]
    pub security_context: Option<LinuxSandboxSecurityContext>,
    #[prost(btree_map = "string, string", tag = "3")]
    pub sysctls: BTreeMap<String, String>,
    #[prost(message, optional, tag = "4")]
    pub overhead: Option<LinuxContainerResources>,
    #[prost(message, optional, tag = "5")]
    pub resources: Option<LinuxContainerResources>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct PodSandboxMetadata {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub uid: String,
    #[prost(string, tag = "3")]
    pub namespace: String,
    #[prost(uint32, tag = "4")]
    pub attempt: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct PodSandboxConfig {
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<PodSandboxMetadata>,
    #[prost(string, tag = "2")]
    pub hostname: String,
    #[prost(string, tag = "3")]
    pub log_directory: String,
    #[prost(message, optional, tag = "4")]
    pub dns_config: Option<DnsConfig>,
    #[prost(message, repeated, tag = "5")]
    pub port_mappings: Vec<PortMapping>,
    #[prost(btree_map = "string, string", tag = "6")]
    pub labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "7")]
    pub annotations: BTreeMap<String, String>,
    #[prost(message, optional, tag = "8")]
    pub linux: Option<LinuxPodSandboxConfig>,
}

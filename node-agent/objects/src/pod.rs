//! A pod as the agent reads it: the fields that it acts on, and no others.
//!
//! Names and meanings are those of the published API (`core/v1` Pod).

#![expect(
    missing_docs,
    reason = "the fields are documented by the published Kubernetes API, whose names these are"
)]

use std::collections::BTreeMap;

use control_client::{Meta, Selection};
pub use control_types::label_selector::LabelRequirement as NodeSelectorRequirement;
pub use control_types::qos::QosClass;
use node_agent_informers::SharedView;
use serde::{Deserialize, Serialize};

use super::resource_claim::{ContainerClaim, PodResourceClaim};
use super::status::PodStatus;
use super::volume::Volume;

/// From this priority on pods are the system's own (`system-cluster-critical`).
pub const CRITICAL_PRIORITY: i32 = 2_000_000_000;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pod {
    pub metadata: Meta,
    pub spec: PodSpec,
    pub status: PodStatus,
}

impl SharedView for Pod {
    fn selection(node: &str) -> Selection {
        Selection::all().fields(format!("spec.nodeName={node}"))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    pub node_name: String,
    pub init_containers: Vec<Container>,
    pub containers: Vec<Container>,
    pub ephemeral_containers: Vec<Container>,
    pub volumes: Vec<Volume>,
    pub restart_policy: RestartPolicy,
    pub termination_grace_period_seconds: Option<i64>,
    pub active_deadline_seconds: Option<i64>,
    pub dns_policy: String,
    pub dns_config: Option<PodDnsConfig>,
    pub service_account_name: String,
    pub host_network: bool,
    #[serde(rename = "hostPID")]
    pub host_pid: bool,
    #[serde(rename = "hostIPC")]
    pub host_ipc: bool,
    pub share_process_namespace: Option<bool>,
    pub host_users: Option<bool>,
    pub security_context: Option<PodSecurityContext>,
    pub image_pull_secrets: Vec<LocalReference>,
    pub hostname: String,
    pub hostname_override: Option<String>,
    pub subdomain: String,
    #[serde(rename = "setHostnameAsFQDN")]
    pub set_hostname_as_fqdn: Option<bool>,
    pub host_aliases: Vec<HostAlias>,
    pub runtime_class_name: Option<String>,
    pub enable_service_links: Option<bool>,
    pub readiness_gates: Vec<ReadinessGate>,
    pub overhead: BTreeMap<String, String>,
    pub resources: Option<ResourceRequirements>,
    pub resource_claims: Vec<PodResourceClaim>,
    pub node_selector: BTreeMap<String, String>,
    pub affinity: Option<Affinity>,
    pub os: Option<PodOs>,
    pub priority: Option<i32>,
    pub priority_class_name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PodOs {
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Affinity {
    pub node_affinity: Option<NodeAffinity>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeAffinity {
    pub required_during_scheduling_ignored_during_execution: Option<NodeSelector>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelector {
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelectorTerm {
    pub match_expressions: Vec<NodeSelectorRequirement>,
    pub match_fields: Vec<NodeSelectorRequirement>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RestartPolicy {
    #[default]
    Always,
    OnFailure,
    Never,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReadinessGate {
    pub condition_type: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LocalReference {
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostAlias {
    pub ip: String,
    pub hostnames: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodDnsConfig {
    pub nameservers: Vec<String>,
    pub searches: Vec<String>,
    pub options: Vec<DnsOption>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DnsOption {
    pub name: String,
    pub value: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSecurityContext {
    pub run_as_user: Option<i64>,
    pub run_as_group: Option<i64>,
    pub run_as_non_root: Option<bool>,
    pub supplemental_groups: Vec<i64>,
    pub supplemental_groups_policy: Option<String>,
    pub fs_group: Option<i64>,
    pub fs_group_change_policy: Option<String>,
    pub sysctls: Vec<Sysctl>,
    pub seccomp_profile: Option<PodSecurityProfile>,
    pub app_armor_profile: Option<PodSecurityProfile>,
    pub se_linux_options: Option<SeLinuxOptions>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Sysctl {
    pub name: String,
    pub value: String,
}

/// A seccomp or AppArmor profile.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSecurityProfile {
    pub r#type: String,
    pub localhost_profile: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SeLinuxOptions {
    pub user: String,
    pub role: String,
    pub r#type: String,
    pub level: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    pub name: String,
    pub image: String,
    pub command: Vec<String>,
    pub args: Vec<String>,
    pub working_dir: String,
    pub ports: Vec<ContainerPort>,
    pub env_from: Vec<EnvFrom>,
    pub env: Vec<EnvVar>,
    pub resources: ResourceRequirements,
    pub resize_policy: Vec<ResizePolicy>,
    pub volume_mounts: Vec<VolumeMount>,
    pub volume_devices: Vec<VolumeDevice>,
    pub restart_policy: Option<RestartPolicy>,
    pub restart_policy_rules: Vec<RestartRule>,
    pub liveness_probe: Option<Probe>,
    pub readiness_probe: Option<Probe>,
    pub startup_probe: Option<Probe>,
    pub lifecycle: Option<Lifecycle>,
    pub termination_message_path: String,
    pub termination_message_policy: String,
    pub image_pull_policy: String,
    pub security_context: Option<SecurityContext>,
    pub stdin: bool,
    pub stdin_once: bool,
    pub tty: bool,
    /// Of ephemeral containers: whose process namespace to enter.
    pub target_container_name: String,
}

/// What a change of one resource asks of the container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResizePolicy {
    pub resource_name: String,
    pub restart_policy: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RestartRule {
    pub action: String,
    pub exit_codes: Option<ExitCodes>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExitCodes {
    pub operator: String,
    pub values: Vec<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerPort {
    pub name: String,
    pub host_port: i32,
    pub container_port: i32,
    pub protocol: String,
    #[serde(rename = "hostIP")]
    pub host_ip: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceRequirements {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<String, String>,
    /// A status does not repeat them.
    #[serde(skip_serializing)]
    pub claims: Vec<ContainerClaim>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeMount {
    pub name: String,
    pub read_only: bool,
    pub recursive_read_only: Option<String>,
    pub mount_path: String,
    pub sub_path: String,
    pub sub_path_expr: String,
    pub mount_propagation: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeDevice {
    pub name: String,
    pub device_path: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvVar {
    pub name: String,
    pub value: String,
    pub value_from: Option<EnvSource>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvSource {
    pub field_ref: Option<FieldRef>,
    pub resource_field_ref: Option<ResourceFieldRef>,
    pub config_map_key_ref: Option<KeyRef>,
    pub secret_key_ref: Option<KeyRef>,
    pub file_key_ref: Option<FileKeyRef>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FileKeyRef {
    pub volume_name: String,
    pub path: String,
    pub key: String,
    pub optional: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FieldRef {
    pub field_path: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceFieldRef {
    pub container_name: String,
    pub resource: String,
    pub divisor: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KeyRef {
    pub name: String,
    pub key: String,
    pub optional: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvFrom {
    pub prefix: String,
    pub config_map_ref: Option<OptionalReference>,
    pub secret_ref: Option<OptionalReference>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OptionalReference {
    pub name: String,
    pub optional: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Probe {
    #[serde(flatten)]
    pub handler: LifecycleHandler,
    pub initial_delay_seconds: i64,
    pub timeout_seconds: i64,
    pub period_seconds: i64,
    pub success_threshold: i64,
    pub failure_threshold: i64,
    pub termination_grace_period_seconds: Option<i64>,
}

/// The action of a probe or hook; a valid object sets exactly one field.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LifecycleHandler {
    pub exec: Option<ExecAction>,
    pub http_get: Option<HttpGet>,
    pub tcp_socket: Option<TcpSocket>,
    pub grpc: Option<GrpcAction>,
    pub sleep: Option<Sleep>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ExecAction {
    pub command: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpGet {
    pub path: String,
    pub port: PortReference,
    pub host: String,
    pub scheme: String,
    pub http_headers: Vec<HttpHeader>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct HttpHeader {
    pub name: String,
    pub value: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct TcpSocket {
    pub port: PortReference,
    pub host: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct GrpcAction {
    pub port: u16,
    pub service: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Sleep {
    pub seconds: i64,
}

/// A port by number or by the name of a container port.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum PortReference {
    Number(i64),
    Name(String),
}

impl Default for PortReference {
    fn default() -> Self {
        Self::Number(0)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Lifecycle {
    pub post_start: Option<LifecycleHandler>,
    pub pre_stop: Option<LifecycleHandler>,
    pub stop_signal: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SecurityContext {
    pub capabilities: Option<Capabilities>,
    pub privileged: Option<bool>,
    pub run_as_user: Option<i64>,
    pub run_as_group: Option<i64>,
    pub run_as_non_root: Option<bool>,
    pub read_only_root_filesystem: Option<bool>,
    pub allow_privilege_escalation: Option<bool>,
    pub proc_mount: Option<String>,
    pub seccomp_profile: Option<PodSecurityProfile>,
    pub app_armor_profile: Option<PodSecurityProfile>,
    pub se_linux_options: Option<SeLinuxOptions>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    pub add: Vec<String>,
    pub drop: Vec<String>,
}

impl Container {
    /// Whether this is an init container that keeps running: a sidecar.
    #[must_use]
    pub fn is_sidecar(&self) -> bool {
        self.restart_policy == Some(RestartPolicy::Always)
    }

    /// The port that `port` means in this container.
    #[must_use]
    pub fn resolve_port(&self, port: &PortReference) -> Option<u16> {
        match port {
            PortReference::Number(number) => u16::try_from(*number).ok().filter(|n| *n > 0),
            PortReference::Name(name) => self
                .ports
                .iter()
                .find(|p| p.name == *name)
                .and_then(|p| u16::try_from(p.container_port).ok())
                .or_else(|| name.parse().ok().filter(|n| *n > 0)),
        }
    }
}

impl PodSpec {
    /// All containers: init, regular, ephemeral.
    pub fn all_containers(&self) -> impl Iterator<Item = &Container> {
        self.init_containers
            .iter()
            .chain(&self.containers)
            .chain(&self.ephemeral_containers)
    }

    /// The volumes that a container has, as files or as a device. The kubelet sets up no
    /// others (`desired_state_of_world_populator.go`).
    pub fn used_volumes(&self) -> impl Iterator<Item = &Volume> {
        let has = |container: &Container, name: &str| {
            container.volume_mounts.iter().any(|it| it.name == name)
                || container.volume_devices.iter().any(|it| it.name == name)
        };
        self.volumes
            .iter()
            .filter(move |volume| self.all_containers().any(|it| has(it, &volume.name)))
    }

    /// Whether the pod itself says what it may have, beside its containers.
    #[must_use]
    pub fn has_own_resources(&self) -> bool {
        let own = self.resources.as_ref();
        own.is_some_and(|r| !r.limits.is_empty() || !r.requests.is_empty())
    }

    /// The container of that name, of either kind.
    #[must_use]
    pub fn container(&self, name: &str) -> Option<&Container> {
        self.all_containers().find(|c| c.name == name)
    }

    /// Seconds that a pod gets to end by itself.
    #[must_use]
    pub fn grace_period(&self) -> i64 {
        self.termination_grace_period_seconds.unwrap_or(30)
    }
}

impl Pod {
    /// Its namespace; never empty for a pod that came from the API.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.metadata.namespace
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// Its unique id.
    #[must_use]
    pub fn uid(&self) -> &str {
        &self.metadata.uid
    }

    /// Whether it comes from a manifest of the node, not from the API.
    #[must_use]
    pub fn is_static(&self) -> bool {
        let source = self.metadata.annotations.get("kubernetes.io/config.source");
        source.is_some_and(|source| source != "api")
    }

    /// Whether it is the API's image of a pod from a manifest.
    #[must_use]
    pub fn is_mirror(&self) -> bool {
        let mirror = self.metadata.annotations.get("kubernetes.io/config.mirror");
        mirror.is_some()
    }

    /// Whether the cluster or the node needs it: of a manifest of the node, or
    /// of the system's priority classes.
    #[must_use]
    pub fn is_critical(&self) -> bool {
        self.is_static() || self.is_mirror() || self.spec.priority >= Some(CRITICAL_PRIORITY)
    }

    /// Whether it is being deleted.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

impl control_client::View for Pod {
    const RESOURCE: control_client::Resource = control_client::resources::PODS;

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

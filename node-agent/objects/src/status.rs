//! A pod's status, as the agent reads and writes it.

#![expect(
    missing_docs,
    reason = "the fields are documented by the published Kubernetes API, whose names these are"
)]

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::pod::ResourceRequirements;
use super::resource_claim::{ExtendedResourceClaimStatus, PodResourceClaimStatus};

fn is_false(value: &bool) -> bool {
    !*value
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<PodCondition>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(rename = "hostIP", skip_serializing_if = "String::is_empty")]
    pub host_ip: String,
    #[serde(rename = "hostIPs", skip_serializing_if = "Vec::is_empty")]
    pub host_ips: Vec<PodIp>,
    #[serde(rename = "podIP", skip_serializing_if = "String::is_empty")]
    pub pod_ip: String,
    #[serde(rename = "podIPs", skip_serializing_if = "Vec::is_empty")]
    pub pod_ips: Vec<PodIp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub init_container_statuses: Vec<ContainerStatus>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub container_statuses: Vec<ContainerStatus>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ephemeral_container_statuses: Vec<ContainerStatus>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub qos_class: String,
    /// What the pod as a whole was granted (KEP-5419).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub allocated_resources: BTreeMap<String, String>,
    /// What of it is in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Written by the controller of claims.
    #[serde(skip_serializing)]
    pub resource_claim_statuses: Vec<PodResourceClaimStatus>,
    /// Written by the scheduler.
    #[serde(skip_serializing)]
    pub extended_resource_claim_status: Option<ExtendedResourceClaimStatus>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PodIp {
    pub ip: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodCondition {
    pub r#type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    pub status: String,
    pub last_probe_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    pub name: String,
    pub state: ContainerStateFields,
    pub last_state: ContainerStateFields,
    pub ready: bool,
    pub restart_count: i32,
    pub image: String,
    #[serde(rename = "imageID")]
    pub image_id: String,
    #[serde(rename = "containerID", skip_serializing_if = "String::is_empty")]
    pub container_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated_resources: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volume_mounts: Vec<MountStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<ContainerUserStatus>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allocated_resources_status: Vec<ResourceStatus>,
}

/// How devices are that a container was given: of a device plugin's resource,
/// or of a claim (`claim:NAME` or `claim:NAME/REQUEST`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceStatus {
    pub name: String,
    pub resources: Vec<ResourceHealth>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceHealth {
    #[serde(rename = "resourceID")]
    pub resource_id: String,
    pub health: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MountStatus {
    pub name: String,
    pub mount_path: String,
    #[serde(skip_serializing_if = "is_false")]
    pub read_only: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recursive_read_only: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerUserStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub linux: Option<LinuxUserStatus>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LinuxUserStatus {
    pub uid: i64,
    pub gid: i64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub supplemental_groups: Vec<i64>,
}

/// `ContainerState`: at most one field is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerStateFields {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<ContainerWaiting>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<ContainerRunning>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminated: Option<ContainerTerminated>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerWaiting {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerRunning {
    pub started_at: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerTerminated {
    pub exit_code: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub signal: i32,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    pub started_at: Option<String>,
    pub finished_at: Option<String>,
    #[serde(rename = "containerID", skip_serializing_if = "String::is_empty")]
    pub container_id: String,
}

fn is_zero(value: &i32) -> bool {
    *value == 0
}

impl ContainerStateFields {
    /// Waiting, for `reason`.
    #[must_use]
    pub fn waiting(reason: &str, message: &str) -> Self {
        Self {
            waiting: Some(ContainerWaiting {
                reason: reason.to_owned(),
                message: message.to_owned(),
            }),
            ..Self::default()
        }
    }

    /// Whether none of the three is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_none() && self.running.is_none() && self.terminated.is_none()
    }
}

impl PodStatus {
    /// The condition of that type.
    #[must_use]
    pub fn condition(&self, r#type: &str) -> Option<&PodCondition> {
        self.conditions.iter().find(|c| c.r#type == r#type)
    }

    /// The status of the container of that name, of either kind.
    #[must_use]
    pub fn container(&self, name: &str) -> Option<&ContainerStatus> {
        self.init_container_statuses
            .iter()
            .chain(&self.container_statuses)
            .chain(&self.ephemeral_container_statuses)
            .find(|c| c.name == name)
    }

    /// Whether the pod has ended for good.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        self.phase == "Succeeded" || self.phase == "Failed"
    }
}

//! Nodes and their leases.

use control_client::Meta;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::common::{Condition, Text, list};

/// A node as the controllers see it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Node {
    /// Name and labels.
    pub metadata: Meta,
    /// Taints and pod ranges.
    pub spec: NodeSpec,
    /// Conditions and addresses.
    pub status: NodeStatus,
}

/// The part of a node's spec that controllers read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSpec {
    /// Closed to new pods.
    pub unschedulable: bool,
    /// The first pod range.
    #[serde(rename = "podCIDR")]
    pub pod_cidr: Text,
    /// All pod ranges, at most one of each family.
    #[serde(rename = "podCIDRs", deserialize_with = "list")]
    pub pod_cidrs: Vec<Text>,
    /// Taints, which repel pods.
    #[serde(deserialize_with = "list")]
    pub taints: Vec<Taint>,
}

/// The part of a node's status that controllers read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    /// Ready, pressure and so on.
    #[serde(deserialize_with = "list")]
    pub conditions: Vec<Condition>,
    /// The addresses of the node.
    #[serde(deserialize_with = "list")]
    pub addresses: Vec<NodeAddress>,
    /// Volumes that its kubelet mounts, or is about to.
    #[serde(deserialize_with = "list")]
    pub volumes_in_use: Vec<Text>,
    /// Volumes that it may mount.
    #[serde(deserialize_with = "list")]
    pub volumes_attached: Vec<AttachedVolume>,
}

/// A volume that is attached to a node (`v1.AttachedVolume`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct AttachedVolume {
    /// The driver's name and the driver's name of the node.
    pub name: Text,
}

/// An address or a name of a node (`v1.NodeAddress`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeAddress {
    /// `InternalIP`, `Hostname` and so on.
    #[serde(rename = "type")]
    pub kind: Text,
    /// The address or name.
    pub address: Text,
}

/// A taint (`v1.Taint`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Taint {
    /// Its key.
    pub key: Text,
    /// Its value, often empty.
    #[serde(skip_serializing_if = "Text::is_empty")]
    pub value: Text,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: Text,
    /// When it was put there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_added: Option<Timestamp>,
}

/// A lease (`coordination.k8s.io/v1`), of which only the renewal is read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Lease {
    /// Named like its node, in `kube-node-lease`.
    pub metadata: Meta,
    /// When it was renewed.
    pub spec: LeaseSpec,
}

/// The part of a lease that is read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaseSpec {
    /// The node's own clock at the last renewal: compared for change only.
    pub renew_time: Option<Timestamp>,
}

//! The view of Nodes.

use std::net::IpAddr;

use compact_str::CompactString;
use control_client::{Meta, Resource, View, resources};
use ipnet::IpNet;
use serde::Deserialize;

use crate::SharedView;

/// A Node: its metadata, and of spec and status the few fields that parts of the agent
/// read.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "ReadNode")]
pub struct Node {
    metadata: Meta,
    pod_cidrs: Box<[CompactString]>,
    taints: Box<[CompactString]>,
    addresses: Box<[NodeAddress]>,
    is_ready: bool,
    is_network_unavailable: bool,
}

/// One of a Node's `addresses`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeAddress {
    /// `InternalIP`, `ExternalIP`, `Hostname` or another.
    pub r#type: CompactString,
    /// The address, or a name.
    pub address: CompactString,
}

/// A Node as the API has it.
#[derive(Deserialize)]
struct ReadNode {
    metadata: Meta,
    #[serde(default)]
    spec: Option<ReadSpec>,
    #[serde(default)]
    status: Option<ReadStatus>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ReadSpec {
    #[serde(rename = "podCIDR")]
    pod_cidr: Option<CompactString>,
    #[serde(rename = "podCIDRs")]
    pod_cidrs: Option<Vec<CompactString>>,
    taints: Option<Vec<Taint>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Taint {
    key: CompactString,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ReadStatus {
    conditions: Option<Vec<Condition>>,
    addresses: Option<Vec<NodeAddress>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Condition {
    r#type: CompactString,
    status: CompactString,
}

impl View for Node {
    const RESOURCE: Resource = resources::NODES;

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl SharedView for Node {}

impl Node {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// The value of one of its labels.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        self.metadata.labels.get(name)
    }

    /// The value of one of its annotations.
    #[must_use]
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.metadata.annotations.get(name)
    }

    /// Its zone, if it is told.
    #[must_use]
    pub fn zone(&self) -> Option<&str> {
        self.label("topology.kubernetes.io/zone")
    }

    /// Whether it has a taint of this key.
    #[must_use]
    pub fn is_tainted(&self, key: &str) -> bool {
        self.taints.iter().any(|taint| taint == key)
    }

    /// Whether the control plane considers it healthy.
    #[must_use]
    pub const fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Whether its condition says that its network does not work.
    #[must_use]
    pub const fn is_network_unavailable(&self) -> bool {
        self.is_network_unavailable
    }

    /// `spec.podCIDRs`, then `spec.podCIDR`, as they are written; the first may be there
    /// twice.
    pub fn pod_cidr_texts(&self) -> impl Iterator<Item = &str> {
        self.pod_cidrs.iter().map(CompactString::as_str)
    }

    /// The same, without what is no range.
    pub fn pod_cidrs(&self) -> impl Iterator<Item = IpNet> + '_ {
        self.pod_cidr_texts().filter_map(|text| text.parse().ok())
    }

    /// Its addresses and names.
    #[must_use]
    pub const fn addresses(&self) -> &[NodeAddress] {
        &self.addresses
    }

    /// Its internal addresses.
    pub fn internal_addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let internal = self.addresses.iter().filter(|it| it.r#type == "InternalIP");
        internal.filter_map(|it| it.address.parse().ok())
    }
}

impl From<ReadNode> for Node {
    fn from(read: ReadNode) -> Self {
        let spec = read.spec.unwrap_or_default();
        let status = read.status.unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default();
        let is_true = |name: &str| {
            let condition = conditions.iter().find(|it| it.r#type == name);
            condition.is_some_and(|it| it.status == "True")
        };
        let pod_cidrs = spec.pod_cidrs.unwrap_or_default().into_iter();
        let taints = spec.taints.unwrap_or_default().into_iter();
        Self {
            metadata: read.metadata,
            pod_cidrs: pod_cidrs.chain(spec.pod_cidr).collect(),
            taints: taints.map(|taint| taint.key).collect(),
            addresses: status.addresses.unwrap_or_default().into(),
            is_ready: is_true("Ready"),
            is_network_unavailable: is_true("NetworkUnavailable"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_what_is_written_and_nothing_else() {
        let node: Node = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "a", "labels": {"topology.kubernetes.io/zone": "z"}},
            "spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24", "fd00::/64", "x"],
                "taints": [{"key": "t", "effect": "NoSchedule"}, {}]},
            "status": {
                "conditions": [{"type": "Ready", "status": "True"},
                    {"type": "NetworkUnavailable", "status": "Unknown"}],
                "addresses": [
                    {"type": "Hostname", "address": "a"},
                    {"type": "InternalIP", "address": "192.0.2.1"},
                    {"type": "ExternalIP", "address": "198.51.100.1"},
                ],
            },
        }))
        .expect("a node");
        let texts: Vec<_> = node.pod_cidr_texts().collect();
        assert_eq!(texts, ["10.0.0.0/24", "fd00::/64", "x", "10.0.0.0/24"]);
        assert_eq!(node.pod_cidrs().count(), 3);
        let internal: Vec<_> = node.internal_addresses().collect();
        assert_eq!(internal, [IpAddr::from([192, 0, 2, 1])]);
        assert_eq!(node.addresses().len(), 3);
        assert!(node.is_ready() && !node.is_network_unavailable());
        assert!(node.is_tainted("t") && !node.is_tainted("u"));
        assert_eq!(node.zone(), Some("z"));
    }

    #[test]
    fn a_node_without_anything_is_a_node() {
        for written in [
            r#"{"metadata": {"name": "a"}}"#,
            r#"{"metadata": {"name": "a"}, "spec": null, "status": null}"#,
            r#"{"metadata": {"name": "a"}, "spec": {}, "status": {"addresses": null}}"#,
        ] {
            let node: Node = serde_json::from_str(written).expect("a node");
            assert_eq!(node.pod_cidrs().count(), 0);
            assert!(node.addresses().is_empty() && !node.is_ready());
        }
    }
}

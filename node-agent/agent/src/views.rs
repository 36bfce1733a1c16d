//! What the agent reads of the API's objects.

use std::net::IpAddr;

use control_client::{Meta, Resource, View, resources};
use ipnet::IpNet;
use node_agent_plan as plan;
use serde::Deserialize;

use crate::routes::NodeNetwork;

/// A Service, as far as the datapath is concerned.
#[derive(Debug, Deserialize)]
pub struct Service {
    metadata: Meta,
    #[serde(default)]
    spec: plan::ServiceSpec,
    #[serde(default)]
    status: plan::ServiceStatus,
}

impl View for Service {
    const RESOURCE: Resource = resources::SERVICES;

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl Service {
    /// The plan's form of it.
    pub fn planned(&self) -> plan::Service {
        plan::Service {
            metadata: metadata(&self.metadata),
            spec: self.spec.clone(),
            status: self.status.clone(),
        }
    }
}

/// An EndpointSlice, likewise.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointSlice {
    metadata: Meta,
    #[serde(default)]
    address_type: String,
    #[serde(default)]
    endpoints: Option<Vec<plan::Endpoint>>,
    #[serde(default)]
    ports: Option<Vec<plan::EndpointPort>>,
}

impl View for EndpointSlice {
    const RESOURCE: Resource = resources::ENDPOINT_SLICES;

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl EndpointSlice {
    /// The plan's form of it.
    pub fn planned(&self) -> plan::EndpointSlice {
        plan::EndpointSlice {
            metadata: metadata(&self.metadata),
            address_type: self.address_type.clone(),
            endpoints: self.endpoints.clone().unwrap_or_default(),
            ports: self.ports.clone().unwrap_or_default(),
        }
    }
}

/// A Pod, as far as its host ports are concerned.
#[derive(Debug, Deserialize)]
pub struct Pod {
    metadata: Meta,
    #[serde(default)]
    spec: plan::PodSpec,
    #[serde(default)]
    status: plan::PodStatus,
}

impl View for Pod {
    const RESOURCE: Resource = resources::PODS;

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl Pod {
    /// The plan's form of it.
    pub fn planned(&self) -> plan::Pod {
        plan::Pod {
            metadata: metadata(&self.metadata),
            spec: self.spec.clone(),
            status: self.status.clone(),
        }
    }
}

/// A Node, as far as routes and services are concerned.
#[derive(Debug, Deserialize)]
pub struct Node {
    metadata: Meta,
    #[serde(default)]
    spec: NodeSpec,
    #[serde(default)]
    status: NodeStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeSpec {
    #[serde(rename = "podCIDR")]
    pod_cidr: Option<String>,
    #[serde(rename = "podCIDRs")]
    pod_cidrs: Option<Vec<String>>,
    taints: Option<Vec<Taint>>,
}

#[derive(Debug, Deserialize)]
struct Taint {
    #[serde(default)]
    key: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeStatus {
    addresses: Option<Vec<NodeAddress>>,
}

#[derive(Debug, Deserialize)]
struct NodeAddress {
    #[serde(default)]
    r#type: String,
    #[serde(default)]
    address: String,
}

impl View for Node {
    const RESOURCE: Resource = resources::NODES;

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl Node {
    /// Its pods' ranges, at most one of each IP version; what is no range is
    /// left out.
    pub fn pod_ranges(&self) -> Vec<IpNet> {
        let all = self.spec.pod_cidrs.as_deref().unwrap_or_default();
        let listed = all.iter().chain(&self.spec.pod_cidr);
        let mut ranges: Vec<IpNet> = Vec::new();
        for range in listed.filter_map(|text| text.parse::<IpNet>().ok()) {
            let known = |known: &IpNet| known.addr().is_ipv4() == range.addr().is_ipv4();
            if !ranges.iter().any(known) {
                ranges.push(range);
            }
        }
        ranges
    }

    /// Has it a taint of this key?
    pub fn is_tainted(&self, key: &str) -> bool {
        let mut taints = self.spec.taints.iter().flatten();
        taints.any(|taint| taint.key == key)
    }

    /// Its zone, if it is told.
    pub fn zone(&self) -> Option<&str> {
        self.metadata.labels.get("topology.kubernetes.io/zone")
    }

    /// What routes follow from.
    pub fn network(&self) -> NodeNetwork {
        let addresses = self.status.addresses.as_deref().unwrap_or_default();
        NodeNetwork {
            name: self.metadata.name.to_string(),
            addresses: addresses
                .iter()
                .filter(|address| address.r#type == "InternalIP")
                .filter_map(|address| address.address.parse::<IpAddr>().ok())
                .collect(),
            pod_ranges: self.pod_ranges(),
        }
    }
}

fn metadata(meta: &Meta) -> plan::Metadata {
    plan::Metadata {
        name: meta.name.to_string(),
        namespace: meta.namespace.to_string(),
        labels: meta
            .labels
            .iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect(),
        annotations: meta
            .annotations
            .iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect(),
        creation_timestamp: meta.creation_timestamp.as_ref().map(ToString::to_string),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_says_its_ranges_and_internal_addresses() {
        let node: Node = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "a"},
            "spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24", "fd00::/64", "x"]},
            "status": {"addresses": [
                {"type": "Hostname", "address": "a"},
                {"type": "InternalIP", "address": "192.0.2.1"},
                {"type": "ExternalIP", "address": "198.51.100.1"},
            ]},
        }))
        .expect("a node");
        let network = node.network();
        assert_eq!(network.name, "a");
        assert_eq!(
            network.addresses,
            ["192.0.2.1".parse::<IpAddr>().expect("address")]
        );
        let ranges: Vec<String> = network.pod_ranges.iter().map(IpNet::to_string).collect();
        assert_eq!(ranges, ["10.0.0.0/24", "fd00::/64"]);
    }

    #[test]
    fn a_node_without_anything_is_a_node() {
        let node: Node = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "a"}, "spec": {}, "status": {"addresses": null},
        }))
        .expect("a node");
        assert!(node.pod_ranges().is_empty() && node.network().addresses.is_empty());
    }
}

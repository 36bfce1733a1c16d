//! What the agent reads of the API's objects.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use cni_addresses::Pool;
use compact_str::CompactString;
use control_client::{Identity, Meta, Object, Resource, Uid, View, resources};
use ipnet::IpNet;
use jiff::Timestamp;
use node_agent_plan as plan;
use serde::Deserialize;

use crate::routes::{NodeNetwork, claims::RangeClaim};

/// Of these there are tens of thousands: of their metadata only the identity is kept.
macro_rules! objects {
    ($view:ident of $resource:expr) => {
        impl Object for $view {
            const RESOURCE: Resource = $resource;

            fn namespace(&self) -> &str {
                &self.identity.namespace
            }

            fn name(&self) -> &str {
                &self.identity.name
            }

            fn resource_version(&self) -> &str {
                &self.identity.resource_version
            }

            fn has_uid_of(&self, other: &Self) -> bool {
                self.identity.uid == other.identity.uid
            }
        }
    };
}

/// A Service: its identity and the fields that the plan reads, stored once for cache and plan.
#[derive(Debug, Deserialize)]
#[serde(from = "ReadService")]
pub struct ServiceView {
    identity: Identity,
    state: Arc<plan::ServiceState>,
}

/// A Service as the API has it.
#[derive(Deserialize)]
struct ReadService {
    metadata: Meta,
    #[serde(default)]
    spec: plan::ServiceSpec,
    #[serde(default)]
    status: plan::ServiceStatus,
}

impl From<ReadService> for ServiceView {
    fn from(read: ReadService) -> Self {
        let service = plan::Service {
            metadata: metadata(&read.metadata),
            spec: read.spec,
            status: read.status,
        };
        Self {
            identity: read.metadata.into(),
            state: Arc::new((&service).into()),
        }
    }
}

objects!(ServiceView of resources::SERVICES);

impl ServiceView {
    /// Which one it is of those that had its name.
    pub const fn uid(&self) -> &Uid {
        &self.identity.uid
    }

    /// The plan's form of it.
    pub const fn state(&self) -> &Arc<plan::ServiceState> {
        &self.state
    }
}

/// An EndpointSlice, likewise. A cluster's endpoints are most of what the agent
/// reads and keeps.
#[derive(Debug, Deserialize)]
#[serde(from = "ReadSlice")]
pub struct EndpointSlice {
    identity: Identity,
    triggered: Option<Timestamp>,
    state: Arc<plan::SliceState>,
}

/// An EndpointSlice as the API has it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadSlice {
    metadata: Meta,
    #[serde(default)]
    address_type: CompactString,
    #[serde(default)]
    endpoints: plan::Endpoints,
    #[serde(default)]
    ports: Option<Vec<plan::EndpointPort>>,
}

/// When the objects behind an EndpointSlice changed (the endpoints controllers
/// write it).
const TRIGGER: &str = "endpoints.kubernetes.io/last-change-trigger-time";

impl From<ReadSlice> for EndpointSlice {
    fn from(read: ReadSlice) -> Self {
        let label = |label: &str| read.metadata.labels.get(label);
        let ports = read.ports.unwrap_or_default();
        let state = plan::SliceState::new(label, &read.address_type, &read.endpoints, &ports);
        let triggered = read.metadata.annotations.get(TRIGGER);
        Self {
            triggered: triggered.and_then(|text| text.parse().ok()),
            identity: read.metadata.into(),
            state: Arc::new(state),
        }
    }
}

objects!(EndpointSlice of resources::ENDPOINT_SLICES);

impl EndpointSlice {
    /// The plan's form of it.
    pub const fn state(&self) -> &Arc<plan::SliceState> {
        &self.state
    }

    /// When what it follows from changed, if its controller says so.
    pub const fn triggered(&self) -> Option<Timestamp> {
        self.triggered
    }
}

/// A Pod, as far as its host ports are concerned.
#[derive(Debug, Deserialize)]
pub struct PodView {
    metadata: Meta,
    #[serde(default)]
    spec: plan::PodSpec,
    #[serde(default)]
    status: plan::PodStatus,
}

impl View for PodView {
    const RESOURCE: Resource = resources::PODS;

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl PodView {
    /// The plan's form of it.
    pub fn planned(&self) -> plan::Pod {
        plan::Pod {
            metadata: metadata(&self.metadata),
            spec: self.spec.clone(),
            status: self.status.clone(),
        }
    }
}

/// The annotation of a Node with pools of addresses for its pods, beside or beyond
/// those of `spec.podCIDRs`: `{"default": ["10.8.0.0/24"], "db": ["10.9.0.0/28"]}`.
pub const POOLS: &str = "orlop.dev/ip-pools";
/// The pool of pods that ask for none.
pub const DEFAULT_POOL: &str = "default";

/// A Node, as far as routes and services are concerned.
#[derive(Debug, Deserialize)]
pub struct NodeView {
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

impl View for NodeView {
    const RESOURCE: Resource = resources::NODES;

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl NodeView {
    /// What one of its labels says.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.metadata.labels.get(name)
    }

    /// What one of its annotations says.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.metadata.annotations.get(name)
    }

    /// Its pods' ranges; what is no range is left out.
    pub fn pod_ranges(&self) -> Vec<IpNet> {
        let mut ranges: Vec<IpNet> = Vec::new();
        for range in self.pools().into_iter().flat_map(|pool| pool.ranges) {
            if !ranges.contains(&range) {
                ranges.push(range);
            }
        }
        ranges
    }

    /// From which its pods get addresses: `spec.podCIDRs`, at most one of each IP
    /// version, is the pool `default`; others, and more ranges for it, are in the
    /// annotation.
    pub fn pools(&self) -> Vec<Pool> {
        let all = self.spec.pod_cidrs.as_deref().unwrap_or_default();
        let listed = all.iter().chain(&self.spec.pod_cidr);
        let mut ranges: Vec<IpNet> = Vec::new();
        for range in listed.filter_map(|text| text.parse::<IpNet>().ok()) {
            let known = |known: &IpNet| known.addr().is_ipv4() == range.addr().is_ipv4();
            if !ranges.iter().any(known) {
                ranges.push(range);
            }
        }
        let mut pools = vec![Pool {
            name: DEFAULT_POOL.to_owned(),
            ranges,
        }];
        for (name, texts) in self.annotated_pools() {
            let ranges = texts.iter().filter_map(|text| text.parse::<IpNet>().ok());
            let ranges = ranges.map(|range| range.trunc());
            match pools.iter_mut().find(|pool| pool.name == name) {
                Some(pool) => pool.ranges.extend(ranges),
                None => pools.push(Pool {
                    name,
                    ranges: ranges.collect(),
                }),
            }
        }
        pools
    }

    /// Name to ranges, as somebody wrote it: what is not understood is none.
    fn annotated_pools(&self) -> BTreeMap<String, Vec<String>> {
        let text = self.metadata.annotations.get(POOLS);
        text.and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default()
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

    /// The ranges that it claims.
    pub fn claim(&self) -> RangeClaim {
        let NodeNetwork {
            name,
            addresses,
            pod_ranges,
        } = self.network();
        let listed = self.spec.pod_cidrs.iter().flatten();
        let pod_cidrs: Vec<IpNet> = listed
            .chain(&self.spec.pod_cidr)
            .filter_map(|text| text.parse::<IpNet>().ok())
            .map(|range| range.trunc())
            .collect();
        let (pod_cidrs, pools) = pod_ranges
            .into_iter()
            .partition(|range| pod_cidrs.contains(&range.trunc()));
        RangeClaim {
            name,
            created: self.metadata.creation_timestamp,
            addresses,
            pod_cidrs,
            pools,
        }
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
    fn a_slice_is_read_without_its_texts_and_planned_as_it_was_written() {
        let written = serde_json::json!({
            "metadata": {
                "name": "web-4", "namespace": "ns", "resourceVersion": "7",
                "labels": {"app": "web", "kubernetes.io/service-name": "web"},
                "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "web", "uid": "u"}],
            },
            "addressType": "IPv4",
            "endpoints": [
                {"addresses": ["10.0.0.1", "10.0.0.2"], "conditions": {"ready": false, "serving": true},
                    "nodeName": "a", "zone": "z", "hints": {"forZones": [{"name": "z"}]}},
                {"addresses": [], "conditions": null},
                {"addresses": null},
                {"addresses": ["10.0.0.3"], "hints": null, "nodeName": null},
                {"addresses": ["10.0.0.4"], "hints": {"forZones": null, "forNodes": [{"name": "b"}]}},
                {"addresses": ["fd00::1"]},
                {"addresses": ["10.0.0"]},
            ],
            "ports": [{"name": "http", "protocol": "TCP", "port": 8080}, {"name": "x", "port": 0}],
        });
        for headless in [false, true] {
            let mut written = written.clone();
            if headless {
                written["metadata"]["labels"]["service.kubernetes.io/headless"] = "".into();
            }
            let slice: EndpointSlice = serde_json::from_value(written.clone()).expect("a slice");
            let of_text: EndpointSlice =
                serde_json::from_str(&written.to_string()).expect("a slice");
            let whole: plan::EndpointSlice = serde_json::from_value(written).expect("a slice");
            assert_eq!(**slice.state(), plan::SliceState::from(&whole));
            assert_eq!(slice.state(), of_text.state());
            assert_eq!(slice.state().service(), (!headless).then_some("web"));
            assert_eq!(slice.resource_version(), "7");
            let triggered = slice.triggered().map(|it| it.to_string());
            assert_eq!(triggered.as_deref(), Some("2026-01-01T00:00:00Z"));
        }
        for bare in [
            r#"{"metadata": {}}"#,
            r#"{"metadata": {}, "endpoints": null, "ports": null}"#,
        ] {
            let bare: EndpointSlice = serde_json::from_str(bare).expect("a slice");
            assert_eq!(**bare.state(), plan::SliceState::default());
        }
    }

    #[test]
    fn a_node_says_its_ranges_and_internal_addresses() {
        let node: NodeView = serde_json::from_value(serde_json::json!({
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
    fn an_annotation_gives_a_node_more_pools() {
        let node = |text: &str| -> NodeView {
            serde_json::from_value(serde_json::json!({
                "metadata": {"name": "a", "annotations": {POOLS: text}},
                "spec": {"podCIDRs": ["10.0.0.0/24"]},
            }))
            .expect("a node")
        };
        let with = node(r#"{"default": ["10.8.0.0/24"], "db": ["10.9.0.9/28", "x"]}"#);
        let pools: Vec<_> = with
            .pools()
            .into_iter()
            .map(|it| (it.name, it.ranges))
            .collect();
        let range = |text: &str| text.parse::<IpNet>().expect("range");
        assert_eq!(
            pools,
            [
                (
                    "default".to_owned(),
                    vec![range("10.0.0.0/24"), range("10.8.0.0/24")]
                ),
                ("db".to_owned(), vec![range("10.9.0.0/28")]),
            ]
        );
        assert_eq!(with.network().pod_ranges.len(), 3);
        assert_eq!(node("{").network().pod_ranges.len(), 1);
    }

    #[test]
    fn a_node_without_anything_is_a_node() {
        let node: NodeView = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "a"}, "spec": {}, "status": {"addresses": null},
        }))
        .expect("a node");
        assert!(node.pod_ranges().is_empty() && node.network().addresses.is_empty());
    }
}

//! The address ranges of a node's pods: what its Node object gives out, and what the other
//! parts of the network derive from it.

use std::collections::BTreeMap;

use cni_addresses::Pool;
use control_client::View;
use ipnet::IpNet;
use node_agent_informers::Node;

use crate::routes::{NodeNetwork, claims::RangeClaim};

/// The annotation of a Node with pools of addresses for its pods, beside or beyond
/// those of `spec.podCIDRs`: `{"default": ["10.8.0.0/24"], "db": ["10.9.0.0/28"]}`.
pub const POOLS: &str = "orlop.dev/ip-pools";
/// The pool of pods that ask for none.
pub const DEFAULT_POOL: &str = "default";

/// Returns the pools from which a node's pods get addresses: `spec.podCIDRs`, at most one of
/// each IP version, is the pool `default`; others, and more ranges for it, are in the
/// annotation.
pub fn pools(node: &Node) -> Vec<Pool> {
    let mut ranges: Vec<IpNet> = Vec::new();
    for range in node.pod_cidrs() {
        let known = |known: &IpNet| known.addr().is_ipv4() == range.addr().is_ipv4();
        if !ranges.iter().any(known) {
            ranges.push(range);
        }
    }
    let mut pools = vec![Pool {
        name: DEFAULT_POOL.to_owned(),
        ranges,
    }];
    for (name, texts) in annotated(node) {
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

/// Returns the ranges of a node's pods; what is no range is left out.
pub fn pod_ranges(node: &Node) -> Vec<IpNet> {
    let mut ranges: Vec<IpNet> = Vec::new();
    for range in pools(node).into_iter().flat_map(|pool| pool.ranges) {
        if !ranges.contains(&range) {
            ranges.push(range);
        }
    }
    ranges
}

/// Name to ranges, as somebody wrote it: what is not understood is none.
fn annotated(node: &Node) -> BTreeMap<String, Vec<String>> {
    let text = node.annotation(POOLS);
    text.and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

impl From<&Node> for NodeNetwork {
    fn from(node: &Node) -> Self {
        Self {
            name: node.name().to_owned(),
            addresses: node.internal_addresses().collect(),
            pod_ranges: pod_ranges(node),
        }
    }
}

impl From<&Node> for RangeClaim {
    fn from(node: &Node) -> Self {
        let NodeNetwork {
            name,
            addresses,
            pod_ranges,
        } = node.into();
        let pod_cidrs: Vec<IpNet> = node.pod_cidrs().map(|range| range.trunc()).collect();
        let (pod_cidrs, pools) = pod_ranges
            .into_iter()
            .partition(|range| pod_cidrs.contains(&range.trunc()));
        Self {
            name,
            created: node.meta().creation_timestamp,
            addresses,
            pod_cidrs,
            pools,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

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
        let network = NodeNetwork::from(&node);
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
        let node = |text: &str| -> Node {
            serde_json::from_value(serde_json::json!({
                "metadata": {"name": "a", "annotations": {POOLS: text}},
                "spec": {"podCIDRs": ["10.0.0.0/24"]},
            }))
            .expect("a node")
        };
        let with = node(r#"{"default": ["10.8.0.0/24"], "db": ["10.9.0.9/28", "x"]}"#);
        let pools: Vec<_> = pools(&with)
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
        assert_eq!(pod_ranges(&with).len(), 3);
        assert_eq!(pod_ranges(&node("{")).len(), 1);
    }

    #[test]
    fn a_node_without_anything_has_no_ranges_and_no_addresses() {
        let node: Node = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "a"}, "spec": {}, "status": {"addresses": null},
        }))
        .expect("a node");
        assert!(pod_ranges(&node).is_empty());
        assert!(NodeNetwork::from(&node).addresses.is_empty());
    }
}

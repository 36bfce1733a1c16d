//! What the node is to the packet programs. Pure.

use std::net::IpAddr;

use ebpf_abi::{Address, Config, ConfigFlags, DirectReturn, Protocol};
use ipnet::IpNet;
use node_agent_plan::{NodeFacts, NodePortAddresses};

use super::options::ServiceOptions;
use crate::views::Node;

/// The packet programs' configuration, from the Node object and the addresses
/// of this machine.
pub fn configuration(
    options: &ServiceOptions,
    node: Option<&Node>,
    addresses: &[IpAddr],
) -> Config {
    let named = node
        .map(|node| node.network().addresses)
        .unwrap_or_default();
    let mut flags = ConfigFlags::NONE;
    if options.masquerade_all {
        flags = flags.with(ConfigFlags::MASQUERADE_ALL);
    }
    if options.host_sockets_only {
        flags = flags.with(ConfigFlags::HOST_SOCKETS_ONLY);
    }
    let primary =
        |v4: bool| primary(v4, &named, addresses).map_or(Address::UNSPECIFIED, Address::from);
    Config {
        node_v4: primary(true),
        node_v6: primary(false),
        flags,
        direct_return: options.direct_return,
        first_port: options.client_ports.0,
        last_port: options.client_ports.1,
        timeouts: options.timeouts,
        ..Config::DEFAULT
    }
}

/// As which address clients are shown: the first that the Node object names
/// and this machine has; a machine behind a translation of addresses has none
/// of them, and takes its first that others can answer.
fn primary(v4: bool, named: &[IpAddr], addresses: &[IpAddr]) -> Option<IpAddr> {
    let of_family = |address: &&IpAddr| address.is_ipv4() == v4;
    let own = named
        .iter()
        .filter(of_family)
        .find(|address| addresses.contains(address));
    own.or_else(|| {
        addresses
            .iter()
            .filter(of_family)
            .find(|address| is_answered(**address))
    })
    .copied()
}

fn is_answered(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(ip) => !ip.is_loopback() && !ip.is_link_local(),
        IpAddr::V6(ip) => !ip.is_loopback() && !ip.is_unicast_link_local(),
    }
}

/// Whose clients are inside the cluster.
fn inside(options: &ServiceOptions, node: Option<&Node>) -> Vec<IpNet> {
    if options.cluster_cidrs.is_empty() {
        node.map(Node::pod_ranges).unwrap_or_default()
    } else {
        options.cluster_cidrs.clone()
    }
}

/// Where the node itself listens for those who keep it in order: no Service may
/// take these ports of its addresses away, whatever its external IPs.
const RESERVED: [(u16, Protocol); 2] = [(22, Protocol::TCP), (10_250, Protocol::TCP)];

/// What the plan depends on.
pub fn facts(
    options: &ServiceOptions,
    node_ports: &NodePortAddresses,
    node: Option<&Node>,
    addresses: &[IpAddr],
) -> NodeFacts {
    let named = node
        .map(|node| node.network().addresses)
        .unwrap_or_default();
    NodeFacts {
        zone: node.and_then(Node::zone).map(str::to_owned),
        addresses: node_ports.of(addresses.iter().copied(), &named),
        inside: inside(options, node),
        reserved: RESERVED.to_vec(),
        direct_return: options.direct_return != DirectReturn::NONE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> Node {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": "a"},
            "spec": {"podCIDRs": ["10.0.0.0/24"]},
            "status": {"addresses": [
                {"type": "ExternalIP", "address": "198.51.100.1"},
                {"type": "InternalIP", "address": "192.0.2.1"},
            ]},
        }))
        .expect("a node")
    }

    fn ips(texts: &[&str]) -> Vec<IpAddr> {
        texts
            .iter()
            .map(|text| text.parse().expect("address"))
            .collect()
    }

    #[test]
    fn clients_are_shown_as_the_node_s_own_internal_address() {
        let own = ips(&[
            "10.9.0.1",
            "127.0.0.1",
            "192.0.2.1",
            "::1",
            "fe80::1",
            "fd00::1",
        ]);
        let config = configuration(&ServiceOptions::default(), Some(&node()), &own);
        assert_eq!(config.node_v4, Address::from(IpAddr::from([192, 0, 2, 1])));
        assert_eq!(
            config.node_v6,
            Address::from(own[5]),
            "the first that is answered"
        );
        let behind = ips(&["127.0.0.1", "10.9.0.1"]);
        let config = configuration(&ServiceOptions::default(), Some(&node()), &behind);
        assert_eq!(config.node_v4, Address::from(behind[1]));
        assert_eq!(config.node_v6, Address::UNSPECIFIED);
        let config = configuration(&ServiceOptions::default(), None, &[]);
        assert_eq!(config.node_v4, Address::UNSPECIFIED);
    }

    #[test]
    fn options_become_switches() {
        let options = ServiceOptions {
            masquerade_all: true,
            host_sockets_only: true,
            client_ports: (50_000, 50_999),
            ..ServiceOptions::default()
        };
        let config = configuration(&options, None, &[]);
        assert!(
            config
                .flags
                .contains(ConfigFlags::MASQUERADE_ALL.with(ConfigFlags::HOST_SOCKETS_ONLY))
        );
        assert_eq!((config.first_port, config.last_port), (50_000, 50_999));
    }

    #[test]
    fn the_cluster_s_ranges_go_before_the_node_s() {
        let own = inside(&ServiceOptions::default(), Some(&node()));
        assert_eq!(own, ["10.0.0.0/24".parse::<IpNet>().expect("range")]);
        let all: IpNet = "10.0.0.0/8".parse().expect("range");
        let options = ServiceOptions {
            cluster_cidrs: vec![all],
            ..ServiceOptions::default()
        };
        assert_eq!(inside(&options, Some(&node())), [all]);
    }
}

//! What the node is to the packet programs. Pure.

use std::{net::IpAddr, sync::Arc};

use control_client::View;
use ebpf_abi::{Address, Config, ConfigFlags, DirectReturn, Protocol};
use ipnet::IpNet;
use node_agent_informers::Node;
use node_agent_plan::{NodeFacts, NodePortAddresses};

use super::options::ServiceOptions;
use crate::pools::pod_ranges;

/// The Node object as far as it is known.
///
/// Until it was listed nothing is made of the machine's addresses alone: at a
/// restart the programs work already, and whoever they show under the address
/// that the Node object names would be shown under another one for a moment.
#[derive(Debug, Default)]
pub struct OwnNode {
    node: Option<Arc<Node>>,
    listed: bool,
    gone: bool,
}

/// The update about the own Node that programs and plan may be given.
#[derive(Clone, Copy, Debug)]
pub enum NodeUpdate<'a> {
    /// Nothing: what they know from earlier stays.
    Nothing,
    /// That there is no such Node object.
    Missing,
    /// The Node.
    Node(&'a Node),
}

impl OwnNode {
    /// The object appeared, changed or (`None`) went.
    pub fn changed(&mut self, current: Option<Arc<Node>>) {
        self.gone = current.is_none();
        // Services go on as they were on a node whose object was removed.
        if current.is_some() {
            self.node = current;
        }
    }

    /// All that there is has been told.
    pub const fn listed(&mut self) {
        self.listed = true;
    }

    /// What is known well enough to be acted upon.
    pub fn update(&self) -> NodeUpdate<'_> {
        match self.node.as_deref() {
            Some(node) => NodeUpdate::Node(node),
            None if self.listed => NodeUpdate::Missing,
            None => NodeUpdate::Nothing,
        }
    }

    /// May the node be sent traffic, as far as its object says?
    pub fn is_eligible(&self, to_be_deleted: &str) -> bool {
        let leaves = |node: &Node| {
            node.meta().deletion_timestamp.is_some() || node.is_tainted(to_be_deleted)
        };
        !self.gone && self.node.as_deref().is_some_and(|node| !leaves(node))
    }
}

impl<'a> NodeUpdate<'a> {
    const fn node(self) -> Option<&'a Node> {
        match self {
            Self::Node(node) => Some(node),
            Self::Missing | Self::Nothing => None,
        }
    }
}

/// The packet programs' configuration; none while the one `in_force` is the
/// better one, or where nothing can be said yet.
pub fn configuration(
    options: &ServiceOptions,
    told: NodeUpdate<'_>,
    addresses: &[IpAddr],
    in_force: Option<&Config>,
) -> Option<Config> {
    let node = match (told, in_force) {
        (NodeUpdate::Nothing, _) | (NodeUpdate::Missing, Some(_)) => return None,
        (told, _) => told.node(),
    };
    Some(configured(options, node, addresses, in_force))
}

fn configured(
    options: &ServiceOptions,
    node: Option<&Node>,
    addresses: &[IpAddr],
    in_force: Option<&Config>,
) -> Config {
    let named: Vec<IpAddr> = node
        .map(|node| node.internal_addresses().collect())
        .unwrap_or_default();
    let mut flags = ConfigFlags::NONE;
    if options.masquerade_all {
        flags = flags.with(ConfigFlags::MASQUERADE_ALL);
    }
    if options.host_sockets_only {
        flags = flags.with(ConfigFlags::HOST_SOCKETS_ONLY);
    }
    if options.keep_established {
        flags = flags.with(ConfigFlags::KEEP_ESTABLISHED);
    }
    let primary = |v4: bool| {
        let former = in_force.map(|it| if v4 { it.node_v4 } else { it.node_v6 });
        primary(v4, &named, addresses, former).map_or(Address::UNSPECIFIED, Address::from)
    };
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
/// of them, and keeps the one it had, or takes its first that others can
/// answer.
fn primary(
    v4: bool,
    named: &[IpAddr],
    addresses: &[IpAddr],
    former: Option<Address>,
) -> Option<IpAddr> {
    let of_family = |address: &&IpAddr| address.is_ipv4() == v4;
    let own = named
        .iter()
        .filter(of_family)
        .find(|address| addresses.contains(address));
    let mut others = addresses
        .iter()
        .filter(of_family)
        .filter(|address| is_answered(**address));
    own.or_else(|| {
        let is_former = |address: &&IpAddr| Some(Address::from(**address)) == former;
        others.clone().find(is_former)
    })
    .or_else(|| others.next())
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
        node.map(pod_ranges).unwrap_or_default()
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
    told: NodeUpdate<'_>,
    addresses: &[IpAddr],
) -> NodeFacts {
    let node = told.node();
    let named: Vec<IpAddr> = node
        .map(|node| node.internal_addresses().collect())
        .unwrap_or_default();
    NodeFacts {
        zone: node.and_then(Node::zone).map(str::to_owned),
        addresses: node_ports.from_node(addresses.iter().copied(), &named),
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

    fn config(node: Option<&Node>, addresses: &[IpAddr], in_force: Option<&Config>) -> Config {
        configured(&ServiceOptions::default(), node, addresses, in_force)
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
        let first = config(Some(&node()), &own, None);
        assert_eq!(first.node_v4, Address::from(IpAddr::from([192, 0, 2, 1])));
        assert_eq!(
            first.node_v6,
            Address::from(own[5]),
            "the first that is answered"
        );
        let behind = ips(&["127.0.0.1", "10.9.0.1"]);
        let second = config(Some(&node()), &behind, None);
        assert_eq!(second.node_v4, Address::from(behind[1]));
        assert_eq!(second.node_v6, Address::UNSPECIFIED);
        let none = config(None, &[], None);
        assert_eq!(none.node_v4, Address::UNSPECIFIED);
    }

    #[test]
    fn an_address_that_nothing_names_stays_while_the_machine_has_it() {
        let before = config(Some(&node()), &ips(&["10.9.0.7"]), None);
        let more = ips(&["10.9.0.1", "10.9.0.7"]);
        let after = config(Some(&node()), &more, Some(&before));
        assert_eq!(after.node_v4, Address::from(more[1]));
        let without = ips(&["10.9.0.1"]);
        let after = config(Some(&node()), &without, Some(&before));
        assert_eq!(after.node_v4, Address::from(without[0]));
    }

    #[test]
    fn what_programs_know_of_the_node_stays_until_it_is_listed() {
        let options = ServiceOptions::default();
        let own = ips(&["10.9.0.1", "192.0.2.1"]);
        let others = ips(&["10.9.0.1", "10.9.0.2", "192.0.2.1"]);
        let in_force = config(Some(&node()), &own, None);
        let due = |known: &OwnNode, addresses: &[IpAddr], in_force: Option<&Config>| {
            configuration(&options, known.update(), addresses, in_force)
        };
        let mut known = OwnNode::default();
        for force in [None, Some(&in_force)] {
            assert_eq!(due(&known, &own, force), None, "not listed yet");
            assert_eq!(due(&known, &others, force), None, "nor when devices change");
        }
        known.changed(Some(Arc::new(node())));
        let same = Some(in_force);
        assert_eq!(due(&known, &own, Some(&in_force)), same);
        assert_eq!(due(&known, &others, Some(&in_force)), same);
        assert_eq!(due(&known, &own, None), same, "nothing in force");
        // An address that went meanwhile: one change, to what is right now.
        let moved = due(&known, &own[..1], Some(&in_force)).expect("known");
        assert_eq!(moved.node_v4, Address::from(own[0]));
        known.changed(None);
        assert_eq!(due(&known, &own, Some(&in_force)), same, "removed");
        assert!(!known.is_eligible("x"));
    }

    #[test]
    fn a_node_that_is_not_there_is_served_by_the_machine_s_addresses() {
        let options = ServiceOptions::default();
        let own = ips(&["10.9.0.1"]);
        let mut known = OwnNode::default();
        known.listed();
        let first = configuration(&options, known.update(), &own, None).expect("none in force");
        assert_eq!(first.node_v4, Address::from(own[0]));
        let in_force = config(Some(&node()), &ips(&["192.0.2.1"]), None);
        let due = configuration(&options, known.update(), &own, Some(&in_force));
        assert_eq!(due, None, "what an earlier process knew is better");
    }

    #[test]
    fn options_become_switches() {
        let options = ServiceOptions {
            masquerade_all: true,
            host_sockets_only: true,
            client_ports: (50_000, 50_999),
            ..ServiceOptions::default()
        };
        let config = configured(&options, None, &[], None);
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

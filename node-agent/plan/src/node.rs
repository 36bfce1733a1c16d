//! The node itself: its addresses, who is inside, where it listens.

use std::net::IpAddr;

use ebpf_abi::{Address, NodeFlags, Port, Protocol, ServiceKey};
use ipnet::IpNet;
use rustc_hash::{FxHashMap, FxHashSet};

/// The plan's inputs besides API objects, which may change while the agent runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// The node's `topology.kubernetes.io/zone`.
    pub zone: Option<String>,
    /// The addresses of its interfaces.
    pub addresses: Vec<NodeAddress>,
    /// Ranges of pods, of the whole cluster: clients there are inside.
    pub inside: Vec<IpNet>,
    /// Ports of the node's processes that no Service may hide: SSH, the kubelet, the API
    /// server. They apply to each of the node's addresses.
    pub reserved: Vec<(u16, Protocol)>,
    /// Remote backends answer clients directly, where a Service does not say
    /// otherwise.
    pub direct_return: bool,
}

/// An address of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeAddress {
    /// The address.
    pub address: IpAddr,
    /// Node ports answer here.
    pub ports: bool,
}

/// The node's addresses that serve node ports: kube-proxy's `--nodeport-addresses`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NodePortAddresses {
    /// Every one: what kube-proxy does without the option in its mode iptables.
    #[default]
    All,
    /// The addresses in the Node object (`primary`), as in kube-proxy's mode nftables.
    Primary,
    /// Those in these ranges. A family without any range is served at all its
    /// addresses.
    Ranges(Vec<IpNet>),
}

/// An option that is no list of ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadNodePortAddresses {
    /// The given text.
    pub text: String,
}

/// The node's entries of maps, and the objects that want them.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) addresses: FxHashMap<Address, NodeFlags>,
    pub(crate) inside: FxHashSet<IpNet>,
    pub(crate) reserved: FxHashSet<(Port, Protocol)>,
}

// === impl NodePortAddresses ===

impl NodePortAddresses {
    /// Parses the option's value: ranges, or `primary` alone.
    ///
    /// # Errors
    ///
    /// [`BadNodePortAddresses`].
    pub fn parse<T: AsRef<str>>(texts: &[T]) -> Result<Self, BadNodePortAddresses> {
        let texts: Vec<&str> = texts.iter().map(|text| text.as_ref().trim()).collect();
        match texts.as_slice() {
            [] => Ok(Self::All),
            ["primary"] => Ok(Self::Primary),
            _ => texts
                .iter()
                .map(|text| {
                    text.parse::<IpNet>().map_err(|_| BadNodePortAddresses {
                        text: (*text).to_owned(),
                    })
                })
                .collect::<Result<_, _>>()
                .map(Self::Ranges),
        }
    }

    /// Returns whether an address serves node ports. `primary` are the addresses in the
    /// Node object.
    #[must_use]
    pub fn serve(&self, address: IpAddr, primary: &[IpAddr]) -> bool {
        match self {
            Self::All => true,
            Self::Primary => primary.contains(&address),
            Self::Ranges(ranges) => {
                let mut family = ranges
                    .iter()
                    .filter(|range| range.addr().is_ipv4() == address.is_ipv4())
                    .peekable();
                family.peek().is_none() || family.any(|range| range.contains(&address))
            }
        }
    }

    /// The node's addresses as the plan wants them. Link-local ones serve no
    /// node ports; the loopback address of IPv6 does neither, as kube-proxy has
    /// it, since a packet with it never leaves the interface.
    #[must_use]
    pub fn from_node(
        &self,
        interfaces: impl IntoIterator<Item = IpAddr>,
        primary: &[IpAddr],
    ) -> Vec<NodeAddress> {
        let mut found: Vec<_> = interfaces
            .into_iter()
            .map(|address| NodeAddress {
                address,
                ports: self.serve(address, primary) && may_serve(address),
            })
            .collect();
        found.sort_unstable();
        // An address at two interfaces.
        found.dedup_by(|later, kept| {
            let same = later.address == kept.address;
            kept.ports |= same && later.ports;
            same
        });
        found
    }
}

fn may_serve(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(ip) => !ip.is_link_local(),
        IpAddr::V6(ip) => !ip.is_unicast_link_local() && !ip.is_loopback(),
    }
}

impl std::fmt::Display for BadNodePortAddresses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = &self.text;
        write!(
            f,
            "`{text}` is no range of addresses; write ranges like 192.0.2.0/24, or `primary` alone"
        )
    }
}

impl std::error::Error for BadNodePortAddresses {}

// === impl Node ===

impl Node {
    pub(crate) fn from_facts(facts: &NodeFacts) -> Self {
        let flags = |it: &NodeAddress| {
            let mut flags = NodeFlags::NONE;
            if it.ports {
                flags = flags.with(NodeFlags::PORTS);
            }
            if it.address.is_loopback() {
                flags = flags.with(NodeFlags::LOOPBACK);
            }
            flags
        };
        let mut addresses: FxHashMap<Address, NodeFlags> = FxHashMap::default();
        for it in &facts.addresses {
            let entry = addresses
                .entry(Address::from(it.address))
                .or_insert(NodeFlags::NONE);
            *entry = entry.with(flags(it));
        }
        Self {
            addresses,
            inside: facts.inside.iter().map(IpNet::trunc).collect(),
            reserved: facts
                .reserved
                .iter()
                .map(|(port, protocol)| (Port::new(*port), *protocol))
                .collect(),
        }
    }

    /// Would an entry under this key hide a process of the node?
    pub(crate) fn reserves(&self, key: &ServiceKey) -> bool {
        self.reserved.contains(&(key.port, key.protocol))
            && (key.address == key.address.wildcard() || self.addresses.contains_key(&key.address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn served(option: &[&str]) -> Vec<String> {
        let interfaces = [
            "127.0.0.1",
            "192.0.2.7",
            "198.51.100.7",
            "169.254.3.3",
            "::1",
            "2001:db8::7",
            "fe80::7",
        ]
        .map(ip);
        NodePortAddresses::parse(option)
            .unwrap()
            .from_node(interfaces, &[ip("192.0.2.7"), ip("2001:db8::7")])
            .into_iter()
            .filter(|it| it.ports)
            .map(|it| it.address.to_string())
            .collect()
    }

    #[test]
    fn node_ports_answer_where_the_option_says() {
        let v4 = ["127.0.0.1", "192.0.2.7", "198.51.100.7"];
        assert_eq!(served(&[]), [v4.as_slice(), &["2001:db8::7"]].concat());
        assert_eq!(served(&["primary"]), ["192.0.2.7", "2001:db8::7"]);
        assert_eq!(
            served(&["192.0.2.0/24"]),
            ["192.0.2.7", "2001:db8::7"],
            "a family without a range is served whole"
        );
        assert_eq!(served(&["192.0.2.0/24", "2001:db8:1::/48"]), ["192.0.2.7"]);
        assert_eq!(
            served(&["0.0.0.0/0", "::/0"]),
            [v4.as_slice(), &["2001:db8::7"]].concat()
        );
    }

    #[test]
    fn option_that_is_no_range_is_named() {
        let error = NodePortAddresses::parse(&["192.0.2.0/24", "primary"]).unwrap_err();
        assert_eq!(error.text, "primary");
    }
}

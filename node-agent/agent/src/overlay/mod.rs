//! The VXLAN that carries packets to pods of nodes on other links.
//!
//! ```text
//! Nodes, their reach ──► desired ──► Tunnel ─┐
//!                        the kernel's ───────┴► diff ──► actions ──► netlink
//! ```
//!
//! The device is the kernel's own (RFC 7348), and so is all that passes it: a
//! route leads a range to a gateway on the device, a neighbour entry gives the
//! gateway the hardware address of its node, a forwarding entry gives that the
//! node's address. Nothing is learned and nothing is asked for on the wire. Inner
//! addresses are those of the pods, so policy at either end sees who speaks.
//!
//! Hardware addresses follow from the nodes' names: no node has to publish
//! anything. The device has the first address of each of the node's ranges, which
//! no pod gets: from it the node speaks to pods behind the tunnel, so that their
//! answers take the tunnel too.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv6Addr},
};

use ipnet::IpNet;

use crate::routes::{NodeNetwork, RouteMap, RouteTarget};

pub mod netlink;

/// The device's name: none that patterns take for a pod's.
pub const DEVICE: &str = "vxlan.orlop";
/// The network's number on the wire.
pub const VNI: u32 = 111;
/// UDP port, as Linux had it before the standard's 4789, and other pod networks.
pub const PORT: u16 = 8472;

/// Whether pods of other nodes are reached through a VXLAN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overlay {
    /// Those of nodes that are not on a link of this one's.
    #[default]
    Auto,
    /// All.
    Always,
    /// None: whoever routes between the nodes' links knows the pods' ranges.
    Never,
}

/// How another node's address is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeReachability {
    /// Without a router between.
    pub on_link: bool,
    /// Bytes of the largest packet that the way takes, as far as the kernel knows.
    pub mtu: u32,
}

/// The hardware address of a VXLAN device.
pub type VtepMac = [u8; 6];

/// The desired VXLAN device with its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// Its hardware address.
    pub mac: VtepMac,
    /// The node's address: the outer source.
    pub local: IpAddr,
    /// Bytes of the largest inner packet.
    pub mtu: u32,
    /// The node's own addresses on it.
    pub addresses: BTreeSet<IpAddr>,
    /// Which node has a hardware address: the outer destination.
    pub nodes: BTreeMap<VtepMac, IpAddr>,
    /// Which hardware address a gateway has.
    pub gateways: BTreeMap<IpAddr, VtepMac>,
}

/// The overlay computed from the Nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OverlayNetwork {
    /// The node's routes.
    pub routes: RouteMap,
    /// The device; none where nothing leads through it.
    pub tunnel: Option<Tunnel>,
    /// Bytes of the largest packet that pods send and receive: the least that the
    /// ways to other nodes take.
    pub mtu: u32,
    /// Nodes to which the way takes less than the node's own link, with what it
    /// takes.
    pub narrow: BTreeMap<String, u32>,
    /// Addresses of nodes that answer pods through the tunnel, and that are reached
    /// beside it: pods reach them as the node.
    pub behind: BTreeSet<IpAddr>,
}

/// The machine's addresses and routes, as far as the overlay needs them.
#[derive(Clone, Debug)]
pub struct OverlayHost {
    /// The node's primary address.
    pub address: IpAddr,
    /// The MTU of the interface that has it.
    pub mtu: u32,
    /// How other nodes' addresses are reached; those that are not reached at all
    /// are missing.
    pub reach: BTreeMap<IpAddr, NodeReachability>,
}

/// What the node `own` needs to reach all others' pods.
pub fn desired(
    nodes: &[NodeNetwork],
    own: &str,
    overlay: Overlay,
    machine: &OverlayHost,
) -> OverlayNetwork {
    let mut network = OverlayNetwork {
        mtu: machine.mtu,
        ..OverlayNetwork::default()
    };
    let mut tunnel = Tunnel {
        mac: mac(own),
        local: machine.address,
        mtu: machine.mtu,
        addresses: BTreeSet::new(),
        nodes: BTreeMap::new(),
        gateways: BTreeMap::new(),
    };
    // Two nodes with one range is a fault of whoever gives ranges out; the own
    // range wins, so that local pods stay reachable.
    for range in nodes.iter().filter(|it| it.name == own).flat_map(ranges) {
        network.routes.insert(range, RouteTarget::Unreachable);
        let known = |it: &IpAddr| it.is_ipv4() == range.addr().is_ipv4();
        if !tunnel.addresses.iter().any(known) {
            tunnel.addresses.insert(range.network());
        }
    }
    for node in nodes.iter().filter(|node| node.name != own) {
        let ways = ways(node, overlay, machine);
        for (range, way) in ways {
            network.routes.entry(range).or_insert(way);
            if let RouteTarget::Tunnel(gateway) = way {
                tunnel.gateways.insert(gateway, mac(&node.name));
            }
        }
        let far = |it: &&IpAddr| match overlay {
            Overlay::Never => false,
            Overlay::Always => true,
            Overlay::Auto => machine.reach.get(*it).is_some_and(|it| !it.on_link),
        };
        network.behind.extend(node.addresses.iter().filter(far));
        let Some(to) = endpoint(node, machine) else {
            continue;
        };
        if tunnel.gateways.values().any(|it| *it == mac(&node.name)) {
            tunnel.nodes.insert(mac(&node.name), to);
        }
        let reach = machine.reach.get(&to);
        if let Some(reach) = reach.filter(|it| it.mtu < machine.mtu) {
            network.narrow.insert(node.name.clone(), reach.mtu);
            network.mtu = network.mtu.min(reach.mtu);
        }
    }
    if !tunnel.nodes.is_empty() {
        network.mtu = network.mtu.saturating_sub(overhead(machine.address));
        tunnel.mtu = network.mtu;
        network.tunnel = Some(tunnel);
    }
    network
}

/// The ways to a node's ranges.
fn ways(node: &NodeNetwork, overlay: Overlay, machine: &OverlayHost) -> Vec<(IpNet, RouteTarget)> {
    let reached = |it: &IpAddr| machine.reach.contains_key(it) || overlay == Overlay::Always;
    let through = match overlay {
        Overlay::Never => false,
        // Where nothing is known of the way, nothing is made of it.
        _ => endpoint(node, machine).is_some_and(|it| reached(&it)),
    };
    let way = |range: IpNet| {
        let v4 = range.addr().is_ipv4();
        let direct = node.addresses.iter().find(|it| it.is_ipv4() == v4);
        let on_link = |it: &&IpAddr| machine.reach.get(*it).is_some_and(|it| it.on_link);
        let on_link = overlay != Overlay::Always && direct.as_ref().is_some_and(on_link);
        if on_link || !through {
            direct.map(|direct| RouteTarget::Via(*direct))
        } else if v4 {
            Some(RouteTarget::Tunnel(range.network()))
        } else {
            Some(RouteTarget::Tunnel(link_local(mac(&node.name)).into()))
        }
    };
    ranges(node)
        .filter_map(|range| Some((range, way(range)?)))
        .collect()
}

fn ranges(node: &NodeNetwork) -> impl Iterator<Item = IpNet> + '_ {
    node.pod_ranges.iter().map(IpNet::trunc)
}

/// A node's address for outer packets: of the version that this node's has, since
/// the device speaks one.
fn endpoint(node: &NodeNetwork, machine: &OverlayHost) -> Option<IpAddr> {
    let v4 = machine.address.is_ipv4();
    let mut addresses = node.addresses.iter();
    addresses.find(|it| it.is_ipv4() == v4).copied()
}

/// Bytes of the headers around an inner packet: IP, UDP, VXLAN, Ethernet.
pub const fn overhead(outer: IpAddr) -> u32 {
    if outer.is_ipv4() { 50 } else { 70 }
}

/// A node's hardware address on the network: locally administered, of one host;
/// FNV-1a over the name, 40 bits.
pub fn mac(node: &str) -> VtepMac {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in node.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    // The high bits of the product depend on all bytes.
    let [a, b, c, d, e, ..] = (hash ^ hash << 24).to_be_bytes();
    [0x02, a, b, c, d, e]
}

/// The link-local address that goes with a hardware address (RFC 4291, appendix
/// A).
fn link_local([a, b, c, d, e, f]: VtepMac) -> Ipv6Addr {
    let word = |high: u8, low: u8| u16::from_be_bytes([high, low]);
    Ipv6Addr::new(
        0xfe80,
        0,
        0,
        0,
        word(a ^ 2, b),
        word(c, 0xff),
        word(0xfe, d),
        word(e, f),
    )
}

/// One change of a VXLAN device's entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverlayAction {
    /// The hardware address is this node's.
    SetNode(VtepMac, IpAddr),
    /// It is no node's.
    RemoveNode(VtepMac, IpAddr),
    /// The gateway has this hardware address.
    SetGateway(IpAddr, VtepMac),
    /// There is no such gateway.
    RemoveGateway(IpAddr, VtepMac),
    /// The address is the node's own.
    AddAddress(IpAddr),
    /// It is not.
    RemoveAddress(IpAddr),
}

/// The entries of a VXLAN device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceEntries {
    pub addresses: BTreeSet<IpAddr>,
    pub nodes: BTreeMap<VtepMac, IpAddr>,
    pub gateways: BTreeMap<IpAddr, VtepMac>,
}

/// The changes from what is there to what shall be; what is new comes first.
pub fn diff(present: &DeviceEntries, tunnel: &Tunnel) -> Vec<OverlayAction> {
    let mut actions = Vec::new();
    for (mac, node) in &tunnel.nodes {
        if present.nodes.get(mac) != Some(node) {
            actions.push(OverlayAction::SetNode(*mac, *node));
        }
    }
    for (gateway, mac) in &tunnel.gateways {
        if present.gateways.get(gateway) != Some(mac) {
            actions.push(OverlayAction::SetGateway(*gateway, *mac));
        }
    }
    let added = tunnel.addresses.difference(&present.addresses);
    actions.extend(added.copied().map(OverlayAction::AddAddress));
    for (mac, node) in &present.nodes {
        if !tunnel.nodes.contains_key(mac) {
            actions.push(OverlayAction::RemoveNode(*mac, *node));
        }
    }
    for (gateway, mac) in &present.gateways {
        if !tunnel.gateways.contains_key(gateway) {
            actions.push(OverlayAction::RemoveGateway(*gateway, *mac));
        }
    }
    let removed = present.addresses.difference(&tunnel.addresses);
    actions.extend(removed.copied().map(OverlayAction::RemoveAddress));
    actions
}

#[cfg(test)]
mod tests;

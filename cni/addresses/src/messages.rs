//! The rtnetlink(7) messages for a pod's interface: the plugin sends them one by one, the
//! agent in batches.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    os::fd::{AsRawFd, BorrowedFd},
};

use netlink_packet_route::{
    AddressFamily,
    address::{AddressAttribute, AddressFlags, AddressMessage},
    link::{InfoData, InfoVeth, LinkMessage},
    neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState},
    route::{RouteMessage, RouteScope},
};
use rtnetlink::{
    AddressMessageBuilder, LinkMessageBuilder, LinkUnspec, LinkVeth, RouteMessageBuilder,
};

use crate::host_prefix;

/// A veth pair in the making: the node's end here, the pod's in another namespace.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    /// The name of the node's end.
    pub host: &'a str,
    /// The name of the pod's end.
    pub pod: &'a str,
    /// The pod's network namespace.
    pub netns: BorrowedFd<'a>,
    /// In bytes; 0 leaves the kernel's default.
    pub mtu: u32,
    /// The hardware address of the node's end, if it shall be a certain one.
    pub host_mac: Option<[u8; 6]>,
    /// The hardware address of the pod's end, if it shall be a certain one.
    pub pod_mac: Option<[u8; 6]>,
    /// Whether the node's end is up immediately.
    pub up: bool,
}

/// The pair. Its namespace must stay open until the message is sent.
#[must_use]
pub fn pair(wanted: &Pair<'_>) -> LinkMessage {
    let mut peer = LinkMessageBuilder::<LinkUnspec>::new()
        .name(wanted.pod)
        .setns_by_fd(wanted.netns.as_raw_fd());
    let mut host = LinkVeth::new(wanted.host, wanted.pod);
    if let Some(mac) = wanted.pod_mac {
        peer = peer.address(mac.to_vec());
    }
    if let Some(mac) = wanted.host_mac {
        host = host.address(mac.to_vec());
    }
    if wanted.up {
        host = host.up();
    }
    if wanted.mtu > 0 {
        peer = peer.mtu(wanted.mtu);
        host = host.mtu(wanted.mtu);
    }
    host.set_info_data(InfoData::Veth(InfoVeth::Peer(peer.build())))
        .build()
}

/// An interface that is to be up.
#[must_use]
pub fn up(index: u32) -> LinkMessage {
    LinkUnspec::new_with_index(index).up().build()
}

/// An interface's own address, without the seconds of duplicate address detection: the
/// node knows that the address is unique.
#[must_use]
pub fn own_address(index: u32, address: IpAddr) -> AddressMessage {
    let bits = host_prefix(&address);
    match address {
        IpAddr::V4(address) => AddressMessageBuilder::<Ipv4Addr>::new()
            .index(index)
            .address(address, bits)
            .build(),
        IpAddr::V6(address) => {
            let mut message = AddressMessageBuilder::<Ipv6Addr>::new()
                .index(index)
                .address(address, bits)
                .build();
            let once = AddressAttribute::Flags(AddressFlags::Nodad);
            message.attributes.push(once);
            message
        }
    }
}

/// A neighbour that needs no asking.
#[must_use]
pub fn neighbour(index: u32, address: IpAddr, mac: &[u8]) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    message.header.ifindex = index;
    message.header.state = NeighbourState::Permanent;
    let (family, destination) = match address {
        IpAddr::V4(v4) => (AddressFamily::Inet, NeighbourAddress::Inet(v4)),
        IpAddr::V6(v6) => (AddressFamily::Inet6, NeighbourAddress::Inet6(v6)),
    };
    message.header.family = family;
    message.attributes = vec![
        NeighbourAttribute::Destination(destination),
        NeighbourAttribute::LinkLayerAddress(mac.to_vec()),
    ];
    message
}

/// The default route by the gateway on an interface.
#[must_use]
pub fn default_route(index: u32, gateway: IpAddr) -> RouteMessage {
    match gateway {
        IpAddr::V4(gateway) => RouteMessageBuilder::<Ipv4Addr>::new()
            .gateway(gateway)
            .output_interface(index)
            .onlink()
            .build(),
        IpAddr::V6(gateway) => RouteMessageBuilder::<Ipv6Addr>::new()
            .gateway(gateway)
            .output_interface(index)
            .onlink()
            .build(),
    }
}

/// The route to one pod's address on the node's end of its pair.
#[must_use]
pub fn pod_route(index: u32, address: IpAddr) -> RouteMessage {
    let bits = host_prefix(&address);
    match address {
        IpAddr::V4(address) => RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(address, bits)
            .output_interface(index)
            .scope(RouteScope::Link)
            .build(),
        IpAddr::V6(address) => RouteMessageBuilder::<Ipv6Addr>::new()
            .destination_prefix(address, bits)
            .output_interface(index)
            .build(),
    }
}

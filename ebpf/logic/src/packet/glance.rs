//! Fast recognition of foreign packets.
//!
//! Most packets at a node's devices belong to the node's own connections or are
//! forwarded, and concern no service: the time spent on them is the datapath's cost for
//! everyone.

use ebpf_abi::{Address, Port, Protocol, ServiceEntryKinds, Tuple};

use super::Glance;
use super::headers::{FRAGMENTED, V4};
use crate::maps::Flows;

/// Returns whether a packet is certainly foreign: IPv4 without options, not a fragment,
/// of a protocol that services know, under no service's port and of no flow. If it is
/// invalid otherwise, all other steps would pass it as well, except those for packets of
/// pods ([`Origin::Pod`](super::Origin::Pod)), which may leave the cluster.
#[inline(always)]
pub fn is_foreign<M: Flows>(maps: &M, glance: &Glance) -> bool {
    let [w0, w1, w2, source, destination, ports] = glance.words;
    let [first, _, _, _] = w0.to_ne_bytes();
    let [_, _, c0, c1] = w1.to_ne_bytes();
    let [_, protocol, _, _] = w2.to_ne_bytes();
    let protocol = Protocol(protocol);
    if glance.link != V4.to_be()
        || first != 0x45
        || u16::from_be_bytes([c0, c1]) & FRAGMENTED != 0
        || !matches!(protocol, Protocol::TCP | Protocol::UDP | Protocol::SCTP)
    {
        return false;
    }
    let [s0, s1, d0, d1] = ports.to_ne_bytes();
    let tuple = Tuple::new(
        Address::v4(source.to_ne_bytes()),
        Port(u16::from_ne_bytes([s0, s1])),
        Address::v4(destination.to_ne_bytes()),
        Port(u16::from_ne_bytes([d0, d1])),
        protocol,
    );
    is_strange(maps, &tuple)
}

/// Returns whether a packet is under no service's port, and of no flow.
#[inline(always)]
pub fn is_strange<M: Flows>(maps: &M, tuple: &Tuple) -> bool {
    maps.served(tuple.protocol, tuple.destination_port) == ServiceEntryKinds::NONE
        && !maps.may_be_flow(tuple)
}

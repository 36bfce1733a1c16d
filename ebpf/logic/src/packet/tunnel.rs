//! Direct return by an outer header (RFC 2003, RFC 2473): the backend's node
//! finds the backend by the outer destination and the service by the inner one.

use ebpf_abi::Address;

use super::headers::LINK;
use super::refuse::{header_v4, header_v6};
use super::{OuterHeader, Packet, Work};

/// Adds an outer header with the backend's address as its destination; returns false if
/// it could not be written, or this node has no source address.
#[inline(always)]
pub fn encapsulate<P: Packet>(packet: P, work: &Work) -> bool {
    let to = work.to.destination;
    let from = work.config().node(to);
    if from == Address::UNSPECIFIED {
        return false;
    }
    let content = work.headers.length;
    if work.headers.v4 {
        packet.grow(20, OuterHeader::V4)
            && packet.store(LINK, &header_v4(from, to, content, 4), false)
    } else {
        packet.grow(40, OuterHeader::V6)
            && packet.store(LINK, &header_v6(content, 41), true)
            && packet.store(LINK + 8, &from.octets(), true)
            && packet.store(LINK + 24, &to.octets(), true)
    }
}

/// Takes the outer header off; false if the kernel could not.
#[inline(always)]
pub fn decapsulate<P: Packet>(packet: P, work: &mut Work) -> bool {
    let outer = work.tunnel;
    if !packet.shrink(outer) {
        return false;
    }
    work.headers.network -= outer;
    work.headers.transport -= outer;
    work.tunnel = 0;
    true
}

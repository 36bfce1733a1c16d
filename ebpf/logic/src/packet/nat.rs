//! Rewriting of addresses and ports, with checksums brought up to date.

use ebpf_abi::{Address, Port, Protocol, Tuple};

use super::checksum::{add, difference, replace};
use super::headers::{ICMP, ICMPV6, IDENTIFIER};
use super::{Fragment, Packet, Work};

/// Gives a packet the addresses and ports of `work.to`; false if it could not
/// be written. `forward`: the packet takes a hop here.
#[inline(always)]
pub fn rewrite<P: Packet>(packet: P, work: &Work, forward: bool) -> bool {
    let headers = &work.headers;
    let (old, new) = (&headers.tuple, &work.to);
    let at = headers.network;
    let moved = addresses(old, new);
    if headers.fragment != Fragment::LATER {
        let field = match old.protocol {
            Protocol::TCP => 16,
            Protocol::UDP => 6,
            Protocol(ICMP | ICMPV6) => {
                if !change_echo(packet, work, moved) {
                    return false;
                }
                0
            }
            // SCTP's checksum is not over addresses.
            Protocol::SCTP => {
                if !change_sctp(packet, work) {
                    return false;
                }
                0
            }
            _ => 0,
        };
        if field != 0 {
            let optional = old.protocol == Protocol::UDP;
            let at = headers.transport + field;
            let ports = difference(&[ports(old)], &[ports(new)]);
            if !packet.fix_transport(at, moved, true, optional)
                || !packet.fix_transport(at, ports, false, optional)
                || !packet.store(headers.transport, &ports_bytes(new), false)
            {
                return false;
            }
        }
    }
    if headers.v4 {
        packet.store(at + 8, &end_v4(work, moved, forward), false)
    } else {
        (!forward || hop(packet, work))
            && packet.store(at + 8, &new.source.octets(), true)
            && packet.store(at + 24, &new.destination.octets(), true)
    }
}

/// Returns an IPv4 header from its hop count to its addresses: its changed fields are
/// contiguous, and written at once.
#[inline(always)]
fn end_v4(work: &Work, moved: u32, forward: bool) -> [u8; 12] {
    let headers = &work.headers;
    let mut hops = headers.hops;
    let mut change = moved;
    if forward {
        hops = hops.wrapping_sub(1);
        change = add(change, hop_v4(headers.hops, hops));
    }
    let [x, y] = replace(headers.sum, change).to_ne_bytes();
    let [a, b, c, d, e, f, g, h] = pair_v4(work.to.source, work.to.destination);
    let Protocol(protocol) = headers.tuple.protocol;
    [hops, protocol, x, y, a, b, c, d, e, f, g, h]
}

/// Returns the change of an IPv4 header's sum for another hop count. The word contains
/// the hop count and the protocol, as in memory: the first byte is the low one.
#[inline(always)]
fn hop_v4(old: u8, new: u8) -> u32 {
    difference(&[u32::from(old)], &[u32::from(new)])
}

/// Changes an echo's identifier and its checksum, which is over addresses in IPv6
/// alone.
#[inline(always)]
fn change_echo<P: Packet>(packet: P, work: &Work, moved: u32) -> bool {
    let headers = &work.headers;
    let (old, new) = (identifier(&headers.tuple), identifier(&work.to));
    let sum = headers.transport + 2;
    let changed = difference(&[u32::from(old)], &[u32::from(new)]);
    // The farthest first: nothing is written if it is not there.
    packet.store(headers.transport + IDENTIFIER, &new.to_ne_bytes(), false)
        && packet.fix_transport(sum, changed, false, false)
        && (headers.v4 || packet.fix_transport(sum, moved, true, false))
}

/// Returns the identifier of an echo's tuple, as in memory: the one port that it has.
#[inline(always)]
pub(super) const fn identifier(tuple: &Tuple) -> u16 {
    tuple.source_port.0 | tuple.destination_port.0
}

/// Changes an SCTP packet's ports and, with them, its checksum, which covers the whole
/// packet and so cannot be updated for a fragment.
#[inline(always)]
fn change_sctp<P: Packet>(packet: P, work: &Work) -> bool {
    let headers = &work.headers;
    let (old, new) = (ports(&headers.tuple), ports(&work.to));
    if old == new {
        return true;
    }
    if headers.fragment != Fragment::WHOLE {
        return false;
    }
    let at = headers.transport;
    let Some(sum) = packet.load::<4>(at + 8) else {
        return false;
    };
    let length = headers.network + headers.length - at;
    // The ports as in memory, lowest byte first.
    let change = packet.sctp_change((old ^ new).to_le(), length);
    let sum = u32::from_le_bytes(sum) ^ change;
    packet.store(at + 8, &sum.to_le_bytes(), false)
        && packet.store(at, &ports_bytes(&work.to), false)
}

/// Decrements the hop count of a packet that is forwarded unchanged; returns false if it
/// could not be written.
#[inline(always)]
pub fn relay<P: Packet>(packet: P, work: &Work) -> bool {
    hop(packet, work)
}

/// Decrements the hop count. The caller has checked that it is not exhausted.
#[inline(always)]
pub(super) fn hop<P: Packet>(packet: P, work: &Work) -> bool {
    let headers = &work.headers;
    let left = headers.hops.wrapping_sub(1);
    if headers.v4 {
        packet.store(headers.network + 8, &[left], false)
            && packet.fix_header(headers.network + 10, hop_v4(headers.hops, left))
    } else {
        packet.store(headers.network + 7, &[left], true)
    }
}

/// Returns the change of a sum for changed addresses.
#[inline(always)]
pub(super) fn addresses(old: &Tuple, new: &Tuple) -> u32 {
    let (a, b) = (old.source.to_words(), old.destination.to_words());
    let (c, d) = (new.source.to_words(), new.destination.to_words());
    // The mark of mapped addresses cancels itself out.
    difference(
        &[a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]],
        &[c[0], c[1], c[2], c[3], d[0], d[1], d[2], d[3]],
    )
}

#[inline(always)]
pub(super) const fn ports(tuple: &Tuple) -> u32 {
    u32::from_ne_bytes(ports_bytes(tuple))
}

#[inline(always)]
pub(super) const fn ports_bytes(tuple: &Tuple) -> [u8; 4] {
    let Port(source) = tuple.source_port;
    let Port(destination) = tuple.destination_port;
    let (s, d) = (source.to_ne_bytes(), destination.to_ne_bytes());
    [s[0], s[1], d[0], d[1]]
}

#[inline(always)]
pub(super) const fn pair_v4(a: Address, b: Address) -> [u8; 8] {
    let (a, b) = (a.last_word().to_ne_bytes(), b.last_word().to_ne_bytes());
    [a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]]
}

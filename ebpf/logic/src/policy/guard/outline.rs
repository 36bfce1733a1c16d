//! Determines the flow of a packet at a pod's interface.

use ebpf_abi::policy::Direction;
use ebpf_abi::{Counter, Port, Protocol, Tuple};

use super::flows::PolicyFlows;
use super::report::VerdictReason;
use super::state::{DeviceFacts, Guard, Ruling};
use crate::packet::headers::{Fragment, Headers, ICMP, ICMPV6, LINK, TcpFlags, V4, V6};
use crate::packet::parse::{network_v4, network_v6};
use crate::packet::{Kind, Packet, PacketVerdict, Work};

/// Returns whether an ICMPv6 message is link-local (RFC 4861, RFC 2710, RFC 3810):
/// listeners and neighbours.
const fn is_link_local(kind: u8) -> bool {
    matches!(kind, 130..=137 | 143)
}

/// Determines the flow of a packet. `kind` is the result of [`parse`], `verdict` that of
/// services.
///
/// [`parse`]: crate::packet::parse
#[inline(always)]
pub fn outline<M: PolicyFlows, P: Packet>(
    maps: &M,
    packet: P,
    work: &Work,
    kind: Kind,
    verdict: PacketVerdict,
    told: &DeviceFacts,
    guard: &mut Guard,
) -> Ruling {
    let ingress = told.direction == Direction::INGRESS;
    guard.opens = 0;
    guard.about = 0;
    guard.host = 0;
    guard.itself = u32::from(ingress && told.from == told.device);
    guard.place(told);
    if kind != Kind::Transport || verdict != PacketVerdict::Pass || work.tunnel != 0 {
        // The table of recent packets was not checked.
        guard.recent.root.epoch = 0;
    }
    let mut seen = work.headers.tuple;
    let mut far = seen;
    if kind == Kind::Transport && work.tunnel == 0 {
        let translated = matches!(verdict, PacketVerdict::Translate | PacketVerdict::Forward);
        if translated && ingress {
            seen = work.to;
        } else if translated {
            far = work.to;
        }
        let flags = work.headers.flags;
        guard.opens = u32::from(
            seen.protocol == Protocol::TCP && flags.has(TcpFlags::SYN) && !flags.has(TcpFlags::ACK),
        );
    } else {
        match outer(packet, guard) {
            // Sent or forwarded by the node itself.
            TunnelHeader::NotIp | TunnelHeader::LinkLocal if ingress => return Ruling::Pass,
            TunnelHeader::NotIp | TunnelHeader::LinkLocal => return Ruling::Link,
            TunnelHeader::Unreadable => {
                let far = guard.headers.tuple;
                guard.name(&far, &far);
                return unreadable(maps, guard);
            }
            TunnelHeader::Readable => {}
        }
        far = guard.headers.tuple;
        if kind == Kind::Error && work.tunnel == 0 {
            guard.about = 1;
            unnumbered(&mut seen);
        } else {
            seen = far;
        }
    }
    guard.name(&seen, &far);
    Ruling::Ask
}

/// Removes the identifiers of echoes, which policy does not distinguish.
#[inline(always)]
pub(super) fn unnumbered(tuple: &mut Tuple) {
    if matches!(tuple.protocol, Protocol(ICMP | ICMPV6)) {
        (tuple.source_port, tuple.destination_port) = (Port(0), Port(0));
    }
}

/// Drops what nothing can be decided on.
#[inline(always)]
pub fn unreadable<M: PolicyFlows>(maps: &M, guard: &Guard) -> Ruling {
    maps.tally(Counter::DroppedUnreadable);
    maps.report(
        guard,
        &VerdictReason::not_policy(Counter::DroppedUnreadable),
    );
    Ruling::Drop
}

pub(super) enum TunnelHeader {
    NotIp,
    LinkLocal,
    Unreadable,
    Readable,
}

/// Parses the outermost addresses. Protocols that services do not support are
/// distinguished by their numbers alone.
#[inline(always)]
pub(super) fn outer<P: Packet>(packet: P, guard: &mut Guard) -> TunnelHeader {
    let Some(link) = packet.load::<2>(12) else {
        return TunnelHeader::NotIp;
    };
    let headers = &mut guard.headers;
    headers.network = LINK;
    headers.tuple = Headers::NOTHING.tuple;
    let protocol = match u16::from_be_bytes(link) {
        V4 => network_v4(packet, headers),
        V6 => network_v6(packet, headers),
        _ => return TunnelHeader::NotIp,
    };
    let Some(protocol) = protocol else {
        return TunnelHeader::Unreadable;
    };
    headers.tuple.protocol = Protocol(protocol);
    headers.tuple.source_port = Port(0);
    headers.tuple.destination_port = Port(0);
    // For those, services would have parsed the ports if they were valid.
    if matches!(
        headers.tuple.protocol,
        Protocol::TCP | Protocol::UDP | Protocol::SCTP
    ) {
        return TunnelHeader::Unreadable;
    }
    let icmp = protocol == if headers.v4 { ICMP } else { ICMPV6 };
    if icmp && headers.fragment != Fragment::LATER {
        let Some([kind]) = packet.load::<1>(headers.transport) else {
            return TunnelHeader::Unreadable;
        };
        if !headers.v4 && is_link_local(kind) {
            return TunnelHeader::LinkLocal;
        }
        // Requests; all else answers something.
        guard.opens = u32::from(kind == if headers.v4 { 8 } else { 128 });
    }
    TunnelHeader::Readable
}

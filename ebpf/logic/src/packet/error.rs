//! ICMP errors about packets of flows (RFC 792, RFC 4443, RFC 5508).
//!
//! An error travels against the packet that it is about, so it belongs to the flow's
//! other direction: the error's own addresses are translated as that direction's, and its
//! quote gets the addresses that its receiver knows. So a client learns the path MTU
//! beyond the translation.

use ebpf_abi::{Address, Counter, FlowFlags, Port, Protocol, Tuple};

use super::checksum::{add, difference, replace};
use super::headers::{IDENTIFIER, answers, echo_ports, is_icmp};
use super::nat::{addresses, hop, identifier, pair_v4, ports, ports_bytes};
use super::{Origin, Packet, PacketVerdict, Work};
use crate::maps::Flows;

/// The number of bytes before the quoted packet.
const QUOTE: u32 = 8;

/// Finds the flow of the packet that an error is about.
#[inline(always)]
pub(super) fn find<M: Flows>(maps: &M, origin: Origin, work: &mut Work) -> PacketVerdict {
    let receiver = work.headers.tuple.destination;
    if maps.flow(&work.headers.tuple, &mut work.entry).is_none() {
        return PacketVerdict::Pass;
    }
    let Some(flow) = work.entry.flow.open(&work.headers.tuple) else {
        return PacketVerdict::Pass;
    };
    if flow.flags.contains(FlowFlags::DIRECT) || flow.flags.contains(FlowFlags::KERNEL) {
        return PacketVerdict::Pass;
    }
    work.to = flow.to;
    work.counter = Counter::ErrorTranslated;
    work.quote.forward = u32::from(!origin.is_routed() || flow.to.destination != receiver);
    // A router on the way to a backend does not know the client: its message
    // keeps its own address. One on the way to the client does not know the
    // backend, and its message must come from where the backend's peer is.
    work.quote.whole = u32::from(
        work.quote.sender == work.headers.tuple.source
            || (!flow.flags.contains(FlowFlags::REPLY)
                && flow.flags.contains(FlowFlags::MASQUERADED)),
    );
    PacketVerdict::TranslateError
}

/// Parses the quoted packet, if the receiver of that packet sent the error. Extension
/// headers are not followed.
#[inline(always)]
pub(super) fn quoted<P: Packet>(packet: P, work: &mut Work) -> Option<()> {
    let headers = &mut work.headers;
    let at = headers.transport + QUOTE;
    let (sender, receiver, protocol, transport);
    if headers.v4 {
        let h = packet.load::<20>(at)?;
        let words = u32::from(h[0] & 0xf);
        if h[0] >> 4 != 4 || words < 5 || u16::from_be_bytes([h[6], h[7]]) & 0x1fff != 0 {
            return None;
        }
        sender = Address::v4([h[12], h[13], h[14], h[15]]);
        receiver = Address::v4([h[16], h[17], h[18], h[19]]);
        protocol = Protocol(h[9]);
        transport = at + words * 4;
    } else {
        let h = packet.load::<8>(at)?;
        if h[0] >> 4 != 6 {
            return None;
        }
        sender = Address::v6(packet.load::<16>(at + 8)?);
        receiver = Address::v6(packet.load::<16>(at + 24)?);
        if sender.is_v4() || receiver.is_v4() {
            return None;
        }
        protocol = Protocol(h[6]);
        transport = at + 40;
    }
    let echo = is_icmp(protocol.0, headers.v4);
    if !(echo || matches!(protocol, Protocol::TCP | Protocol::UDP | Protocol::SCTP))
        || transport + 8 > headers.network + headers.length
    {
        return None;
    }
    if sender != headers.tuple.destination {
        return None;
    }
    let (source_port, destination_port) = if echo {
        let [kind] = packet.load::<1>(transport)?;
        let answers = answers(kind, headers.v4)?;
        echo_ports(answers, packet.load::<2>(transport + IDENTIFIER)?)
    } else {
        let p = packet.load::<4>(transport)?;
        let port = |a, b| Port(u16::from_ne_bytes([a, b]));
        (port(p[0], p[1]), port(p[2], p[3]))
    };
    work.quote.network = at;
    work.quote.transport = transport;
    work.quote.sender = headers.tuple.source;
    headers.tuple = Tuple::new(receiver, destination_port, sender, source_port, protocol);
    Some(())
}

/// Translates an error and its quote; returns false if it could not be written.
#[inline(always)]
pub fn rewrite_error<P: Packet>(packet: P, work: &mut Work) -> bool {
    rewrite_parts(packet, work).is_some()
}

#[inline(always)]
fn rewrite_parts<P: Packet>(packet: P, work: &mut Work) -> Option<()> {
    let headers = &work.headers;
    let quote = &work.quote;
    let (old, new) = (headers.tuple.reversed(), work.to.reversed());
    let moved = addresses(&old, &new);
    let ported = difference(&[ports(&old)], &[ports(&new)]);
    let mut total = add(moved, ported);
    // The quoted packet's own checksums.
    let echo = is_icmp(old.protocol.0, headers.v4);
    let sum = match old.protocol {
        Protocol::TCP => 16,
        Protocol::UDP => 6,
        _ if echo => 2,
        _ => 0,
    };
    let inner = if echo && headers.v4 { ported } else { total };
    if sum != 0 && quote.transport + sum + 2 <= headers.network + headers.length {
        let before = packet.load::<2>(quote.transport + sum)?;
        let before = u16::from_ne_bytes(before);
        // For UDP, zero means that there is no checksum.
        if before != 0 || echo {
            let after = replace(before, inner);
            yes(packet.store(quote.transport + sum, &after.to_ne_bytes(), false))?;
            total = add(total, difference(&[u32::from(before)], &[u32::from(after)]));
        }
    }
    yes(if echo {
        let identifier = identifier(&new).to_ne_bytes();
        packet.store(quote.transport + IDENTIFIER, &identifier, false)
    } else {
        packet.store(quote.transport, &ports_bytes(&new), false)
    })?;
    if headers.v4 {
        let before = u16::from_ne_bytes(packet.load::<2>(quote.network + 10)?);
        let after = replace(before, moved);
        total = add(total, difference(&[u32::from(before)], &[u32::from(after)]));
        yes(packet.store(quote.network + 10, &after.to_ne_bytes(), false))?;
        let both = pair_v4(new.source, new.destination);
        yes(packet.store(quote.network + 12, &both, false))?;
    } else {
        yes(packet.store(quote.network + 8, &new.source.octets(), false))?;
        yes(packet.store(quote.network + 24, &new.destination.octets(), false))?;
    }
    // The error itself.
    let from = Tuple::new(
        quote.sender,
        Port(0),
        headers.tuple.destination,
        Port(0),
        old.protocol,
    );
    let source = if quote.whole != 0 {
        work.to.source
    } else {
        quote.sender
    };
    let to = Tuple::new(source, Port(0), work.to.destination, Port(0), old.protocol);
    let outer = addresses(&from, &to);
    yes(packet.fix_transport(headers.transport + 2, total, false, false))?;
    if quote.forward != 0 {
        yes(hop(packet, work))?;
    }
    if headers.v4 {
        yes(packet.fix_header(headers.network + 10, outer))?;
        let both = pair_v4(to.source, to.destination);
        yes(packet.store(headers.network + 12, &both, false))
    } else {
        yes(packet.fix_transport(headers.transport + 2, outer, true, false))?;
        yes(packet.store(headers.network + 8, &to.source.octets(), true))?;
        yes(packet.store(headers.network + 24, &to.destination.octets(), true))
    }
}

#[inline(always)]
const fn yes(done: bool) -> Option<()> {
    if done { Some(()) } else { None }
}

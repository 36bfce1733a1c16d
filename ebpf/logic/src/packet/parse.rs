//! Reads the headers of packets.
//!
//! A truncated or inconsistent packet is foreign: the kernel drops it where it parses it.

use ebpf_abi::{Address, Port, Protocol, Tuple};

use super::bytes::{Front, FrontV6, Packet};
use super::error::quoted;
use super::headers::{
    FRAGMENTED, Fragment, Headers, IDENTIFIER, Kind, LINK, TcpFlags, V4, V6, answers, echo_ports,
    is_icmp,
};
use super::work::Work;

const IPIP: u8 = 4;
const IPV6: u8 = 41;
/// Extension headers that are walked through.
const EXTENSIONS: u32 = 6;

/// Reads the headers of a packet whose first bytes lie in a row, and which is as
/// most are: [`Kind::Transport`], or [`Kind::Other`] if [`parse`] is to say.
#[inline(always)]
pub fn parse_front<P: Packet>(packet: P, work: &mut Work) -> Kind {
    match packet.front() {
        Some(front) if is_plain(packet.len(), &front, &mut work.headers) => {
            work.tunnel = 0;
            Kind::Transport
        }
        _ => Kind::Other,
    }
}

/// Reads the headers of a packet that is as most are, of either family. False if
/// [`parse`] is to say; then nothing is known.
#[inline(always)]
pub fn parse_plain<P: Packet>(packet: P, headers: &mut Headers) -> bool {
    if packet.link() == Some(V6) {
        let front = packet.front_v6();
        return front.is_some_and(|front| is_plain_v6(packet.len(), &front, headers));
    }
    let front = packet.front();
    front.is_some_and(|front| is_plain(packet.len(), &front, headers))
}

/// Reads a packet's headers.
#[inline(always)]
pub fn parse<P: Packet>(packet: P, work: &mut Work) -> Kind {
    let Some(link) = packet.link() else {
        return Kind::Other;
    };
    if link == V6
        && let Some(front) = packet.front_v6()
        && is_plain_v6(packet.len(), &front, &mut work.headers)
    {
        work.tunnel = 0;
        return Kind::Transport;
    }
    let headers = &mut work.headers;
    headers.network = LINK;
    work.tunnel = 0;
    let mut pass = 0;
    let protocol = loop {
        let protocol = match link {
            V4 => network_v4(packet, headers),
            V6 => network_v6(packet, headers),
            _ => None,
        };
        let Some(protocol) = protocol else {
            return Kind::Other;
        };
        let inner = if headers.v4 { IPIP } else { IPV6 };
        if pass == 1 || protocol != inner || headers.fragment != Fragment::WHOLE {
            break protocol;
        }
        // A packet encapsulated in its own family.
        pass = 1;
        work.tunnel = headers.transport - headers.network;
        work.outer = headers.tuple.destination;
        headers.network = headers.transport;
    };
    if headers.fragment == Fragment::LATER {
        headers.tuple.protocol = Protocol(protocol);
        headers.flags = TcpFlags(0);
        headers.answers = true;
        return match Protocol(protocol) {
            Protocol::TCP | Protocol::UDP | Protocol::SCTP => Kind::Transport,
            Protocol(number) if is_icmp(number, headers.v4) => Kind::Echo,
            _ => Kind::Other,
        };
    }
    let kind = transport(packet, headers, protocol);
    if kind == Kind::Error && (work.tunnel != 0 || quoted(packet, work).is_none()) {
        return Kind::Other;
    }
    kind
}

/// Reads what most packets are: IPv4 without options, whole, with a transport
/// header that services know. False, and nothing is known, if it is anything
/// else or anything is wrong with it.
#[inline(always)]
fn is_plain(total: u32, front: &Front, headers: &mut Headers) -> bool {
    const NETWORK: u32 = 20;
    const WHOLE: u16 = 0x4000;
    let [w0, w1, w2, source, destination, ports, w6, _, w8, _] = front.words;
    let [first, _, l0, l1] = w0.to_ne_bytes();
    let [i0, i1, c0, c1] = w1.to_ne_bytes();
    let [hops, protocol, x0, x1] = w2.to_ne_bytes();
    let length = u32::from(u16::from_be_bytes([l0, l1]));
    let cut = u16::from_be_bytes([c0, c1]);
    if front.link != V4.to_be() || first != 0x45 || cut & FRAGMENTED != 0 || LINK + length > total {
        return false;
    }
    let content = length.wrapping_sub(NETWORK);
    let mut flags = TcpFlags(0);
    match Protocol(protocol) {
        Protocol::TCP => {
            let [words, seen, _, _] = w8.to_ne_bytes();
            let words = u32::from(words >> 4);
            if length < NETWORK + 20 || words < 5 || words * 4 > content {
                return false;
            }
            flags = TcpFlags(seen);
        }
        Protocol::UDP => {
            let [u0, u1, _, _] = w6.to_ne_bytes();
            let said = u32::from(u16::from_be_bytes([u0, u1]));
            if length < NETWORK + 8 || said < 8 || said > content {
                return false;
            }
        }
        Protocol::SCTP if length >= NETWORK + 12 => {}
        _ => return false,
    }
    let [s0, s1, d0, d1] = ports.to_ne_bytes();
    headers.tuple = Tuple::new(
        Address::v4(source.to_ne_bytes()),
        Port(u16::from_ne_bytes([s0, s1])),
        Address::v4(destination.to_ne_bytes()),
        Port(u16::from_ne_bytes([d0, d1])),
        Protocol(protocol),
    );
    headers.network = LINK;
    headers.transport = LINK + NETWORK;
    headers.length = length;
    headers.identification = u32::from(u16::from_ne_bytes([i0, i1]));
    headers.v4 = true;
    headers.fragment = Fragment::WHOLE;
    headers.flags = flags;
    headers.hops = hops;
    headers.sum = u16::from_ne_bytes([x0, x1]);
    headers.whole = cut & WHOLE != 0;
    true
}

/// The same of IPv6 without extension headers.
#[inline(always)]
fn is_plain_v6(total: u32, front: &FrontV6, headers: &mut Headers) -> bool {
    const NETWORK: u32 = 40;
    let [w0, w1, s0, s1, s2, s3, d0, d1, d2, d3, ports, w11, _, w13] = *front;
    let [first, _, _, _] = w0.to_ne_bytes();
    let [l0, l1, protocol, hops] = w1.to_ne_bytes();
    let content = u32::from(u16::from_be_bytes([l0, l1]));
    if first >> 4 != 6 || LINK + NETWORK + content > total {
        return false;
    }
    let mut flags = TcpFlags(0);
    match Protocol(protocol) {
        Protocol::TCP => {
            let [words, seen, _, _] = w13.to_ne_bytes();
            let words = u32::from(words >> 4);
            if content < 20 || words < 5 || words * 4 > content {
                return false;
            }
            flags = TcpFlags(seen);
        }
        Protocol::UDP => {
            let [u0, u1, _, _] = w11.to_ne_bytes();
            let said = u32::from(u16::from_be_bytes([u0, u1]));
            if said < 8 || said > content {
                return false;
            }
        }
        Protocol::SCTP if content >= 12 => {}
        _ => return false,
    }
    let source = Address::from_words([s0, s1, s2, s3]);
    let destination = Address::from_words([d0, d1, d2, d3]);
    if source.is_v4() || destination.is_v4() {
        return false;
    }
    let [p0, p1, p2, p3] = ports.to_ne_bytes();
    headers.tuple = Tuple::new(
        source,
        Port(u16::from_ne_bytes([p0, p1])),
        destination,
        Port(u16::from_ne_bytes([p2, p3])),
        Protocol(protocol),
    );
    headers.network = LINK;
    headers.transport = LINK + NETWORK;
    headers.length = NETWORK + content;
    headers.identification = 0;
    headers.v4 = false;
    headers.fragment = Fragment::WHOLE;
    headers.flags = flags;
    headers.hops = hops;
    headers.whole = true;
    true
}

#[inline(always)]
pub(crate) fn network_v4<P: Packet>(packet: P, headers: &mut Headers) -> Option<u8> {
    let at = headers.network;
    let h = packet.load::<20>(at)?;
    let words = u32::from(h[0] & 0xf);
    let length = u32::from(u16::from_be_bytes([h[2], h[3]]));
    if h[0] >> 4 != 4 || words < 5 || length < words * 4 || at + length > packet.len() {
        return None;
    }
    let cut = u16::from_be_bytes([h[6], h[7]]);
    headers.fragment = if cut & 0x1fff != 0 {
        Fragment::LATER
    } else if cut & 0x2000 != 0 {
        Fragment::FIRST
    } else {
        Fragment::WHOLE
    };
    headers.whole = cut & 0x4000 != 0;
    headers.identification = u32::from(u16::from_ne_bytes([h[4], h[5]]));
    headers.v4 = true;
    headers.length = length;
    headers.hops = h[8];
    headers.sum = u16::from_ne_bytes([h[10], h[11]]);
    headers.transport = at + words * 4;
    headers.tuple.source = Address::v4([h[12], h[13], h[14], h[15]]);
    headers.tuple.destination = Address::v4([h[16], h[17], h[18], h[19]]);
    Some(h[9])
}

#[inline(always)]
pub(crate) fn network_v6<P: Packet>(packet: P, headers: &mut Headers) -> Option<u8> {
    let start = headers.network;
    let h = packet.load::<8>(start)?;
    let length = 40 + u32::from(u16::from_be_bytes([h[4], h[5]]));
    if h[0] >> 4 != 6 || start + length > packet.len() {
        return None;
    }
    headers.tuple.source = Address::v6(packet.load::<16>(start + 8)?);
    headers.tuple.destination = Address::v6(packet.load::<16>(start + 24)?);
    // A mapped address never stands on a wire (RFC 4291), and would be taken
    // for IPv4.
    if headers.tuple.source.is_v4() || headers.tuple.destination.is_v4() {
        return None;
    }
    headers.v4 = false;
    headers.whole = true;
    headers.length = length;
    headers.hops = h[7];
    headers.fragment = Fragment::WHOLE;
    headers.identification = 0;
    let mut next = h[6];
    let mut at = start + 40;
    let mut step = 0;
    while step < EXTENSIONS {
        match next {
            // Hop-by-hop and destination options. A routing header names
            // another destination: such packets are not for services.
            0 | 60 => {
                let e = packet.load::<2>(at)?;
                next = e[0];
                at += (u32::from(e[1]) + 1) * 8;
            }
            44 => {
                let e = packet.load::<8>(at)?;
                next = e[0];
                at += 8;
                let cut = u16::from_be_bytes([e[2], e[3]]);
                headers.identification = u32::from_ne_bytes([e[4], e[5], e[6], e[7]]);
                if cut >> 3 != 0 {
                    headers.fragment = Fragment::LATER;
                    break;
                }
                if cut & 1 != 0 {
                    headers.fragment = Fragment::FIRST;
                }
            }
            _ => break,
        }
        step += 1;
    }
    headers.transport = at;
    Some(next)
}

#[inline(always)]
fn transport<P: Packet>(packet: P, headers: &mut Headers, protocol: u8) -> Kind {
    let at = headers.transport;
    let end = headers.network + headers.length;
    headers.flags = TcpFlags(0);
    headers.tuple.protocol = Protocol(protocol);
    let least = match Protocol(protocol) {
        Protocol::TCP => 20,
        Protocol::UDP => 8,
        Protocol::SCTP => 12,
        Protocol(number) if is_icmp(number, headers.v4) => return message(packet, headers),
        _ => return Kind::Other,
    };
    if at + least > end {
        return Kind::Other;
    }
    let Some(t) = packet.load::<8>(at) else {
        return Kind::Other;
    };
    headers.tuple.source_port = Port(u16::from_ne_bytes([t[0], t[1]]));
    headers.tuple.destination_port = Port(u16::from_ne_bytes([t[2], t[3]]));
    if Protocol(protocol) == Protocol::TCP {
        let Some(more) = packet.load::<2>(at + 12) else {
            return Kind::Other;
        };
        let words = u32::from(more[0] >> 4);
        if words < 5 || at + words * 4 > end {
            return Kind::Other;
        }
        headers.flags = TcpFlags(more[1]);
    }
    if Protocol(protocol) == Protocol::UDP && headers.fragment == Fragment::WHOLE {
        let length = u32::from(u16::from_be_bytes([t[4], t[5]]));
        if length < 8 || at + length > end {
            return Kind::Other;
        }
    }
    Kind::Transport
}

/// Classifies an ICMP message: an error, or an echo.
#[inline(always)]
fn message<P: Packet>(packet: P, headers: &mut Headers) -> Kind {
    if headers.transport + 8 > headers.network + headers.length {
        return Kind::Other;
    }
    let Some([kind, code]) = packet.load::<2>(headers.transport) else {
        return Kind::Other;
    };
    let error = if headers.v4 {
        matches!(kind, 3 | 11 | 12)
    } else {
        matches!(kind, 1..=4)
    };
    if error && headers.fragment == Fragment::WHOLE {
        return Kind::Error;
    }
    let Some(answers) = answers(kind, headers.v4) else {
        return Kind::Other;
    };
    let Some([a, b]) = packet.load::<2>(headers.transport + IDENTIFIER) else {
        return Kind::Other;
    };
    if code != 0 {
        return Kind::Other;
    }
    headers.answers = answers;
    (headers.tuple.source_port, headers.tuple.destination_port) = echo_ports(answers, [a, b]);
    Kind::Echo
}

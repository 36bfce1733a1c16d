//! Answers of the programs themselves: TCP reset (RFC 9293 section 3.5.2), ICMP port
//! unreachable and too big (RFC 792, 1191, 4443, 8201).
//!
//! The packet is rewritten to its own answer. This is the slow path; it keeps no state
//! between packets.

use ebpf_abi::{Address, Protocol};

use super::checksum::{fold, narrow};
use super::headers::{LINK, TcpFlags};
use super::{OuterHeader, Packet, Work};

/// Bytes that a message quotes at most: all headers that are known here, and
/// what anyone needs to find the connection.
const QUOTED: u32 = 72;
const TTL: u8 = 64;

/// Makes a packet the answer that its sender gets: the refusal, or with an
/// `mtu` the message that it is larger than that; false if it could not be
/// written.
#[inline(always)]
pub fn answer<P: Packet>(packet: P, work: &Work, mtu: u32) -> bool {
    let v4 = work.headers.v4;
    if mtu == 0 && work.headers.tuple.protocol == Protocol::TCP {
        return reset(packet, work).is_some();
    }
    let kind = match (v4, mtu) {
        (true, 0) => [3, 3],
        (false, 0) => [1, 4],
        (true, _) => [3, 4],
        (false, _) => [2, 0],
    };
    message(packet, work, kind, mtu).is_some()
}

/// The refusal alone.
#[inline(always)]
pub fn refuse<P: Packet>(packet: P, work: &Work) -> bool {
    answer(packet, work, 0)
}

#[inline(always)]
fn reset<P: Packet>(packet: P, work: &Work) -> Option<()> {
    let headers = &work.headers;
    let at = headers.transport;
    let t = packet.load::<14>(at)?;
    let flags = headers.flags;
    let sum_before = packet.load::<2>(at + 16)?;
    let header = u32::from(t[12] >> 4) * 4;
    let total = headers.network + headers.length;
    let content = total.checked_sub(at + header)?;
    let (sequence, acknowledged, answer) = if flags.has(TcpFlags::ACK) {
        ([t[8], t[9], t[10], t[11]], [0; 4], TcpFlags::RST)
    } else {
        let sequence = u32::from_be_bytes([t[4], t[5], t[6], t[7]]);
        let extra = u32::from(flags.has(TcpFlags::SYN)) + u32::from(flags.has(TcpFlags::FIN));
        let next = sequence.wrapping_add(content).wrapping_add(extra);
        ([0; 4], next.to_be_bytes(), TcpFlags::RST | TcpFlags::ACK)
    };
    // A packet of this machine whose checksum its device was to complete: it
    // holds the pseudo header's sum only, and so must the answer's.
    let pseudo_before = pseudo(work, total - at, 6);
    let partial = u16::from_ne_bytes(sum_before) == !fold(narrow(pseudo_before));

    turn_link(packet)?;
    network(packet, work, 20, 6)?;
    let network = if headers.v4 { 20 } else { 40 };
    let mut segment = [
        t[2],
        t[3],
        t[0],
        t[1], // ports, turned round
        sequence[0],
        sequence[1],
        sequence[2],
        sequence[3],
        acknowledged[0],
        acknowledged[1],
        acknowledged[2],
        acknowledged[3],
        5 << 4,
        answer,
        0,
        0,
        0,
        0,
        0,
        0,
    ];
    let mut sum = pseudo(work, 20, 6);
    if partial {
        let whole = !fold(narrow(sum));
        [segment[16], segment[17]] = whole.to_ne_bytes();
    } else {
        let mut i = 0;
        while i < 20 {
            sum += u64::from(u16::from_ne_bytes([segment[i], segment[i + 1]]));
            i += 2;
        }
        [segment[16], segment[17]] = fold(narrow(sum)).to_ne_bytes();
    }
    let at = LINK + network;
    if packet.store(at, &segment, false) && packet.truncate(at + 20) {
        Some(())
    } else {
        None
    }
}

#[inline(always)]
fn message<P: Packet>(packet: P, work: &Work, kind: [u8; 2], rest: u32) -> Option<()> {
    let headers = &work.headers;
    let (network_bytes, protocol, outer) = if headers.v4 {
        (20, 1, OuterHeader::Message)
    } else {
        (40, 58, OuterHeader::Message)
    };
    let quoted = headers.length.min(QUOTED) & !3;
    let room = network_bytes + 8;
    if !packet.truncate(LINK + quoted) || !packet.grow(room, outer) {
        return None;
    }
    turn_link(packet)?;
    network(packet, work, 8 + quoted, protocol)?;
    let rest = rest.to_be_bytes();
    let mut header = [kind[0], kind[1], 0, 0, rest[0], rest[1], rest[2], rest[3]];
    let mut sum = u64::from(u32::from_ne_bytes([kind[0], kind[1], 0, 0]))
        + u64::from(u32::from_ne_bytes(rest));
    if !headers.v4 {
        sum += pseudo(work, 8 + quoted, protocol);
    }
    let content = LINK + room;
    let mut at = 0;
    while at < QUOTED {
        if at >= quoted {
            break;
        }
        sum += u64::from(u32::from_ne_bytes(packet.load::<4>(content + at)?));
        at += 4;
    }
    [header[2], header[3]] = fold(narrow(sum)).to_ne_bytes();
    if packet.store(LINK + network_bytes, &header, false) {
        Some(())
    } else {
        None
    }
}

/// Returns the frame to its sender.
#[inline(always)]
fn turn_link<P: Packet>(packet: P) -> Option<()> {
    let m = packet.load::<12>(0)?;
    let turned = [
        m[6], m[7], m[8], m[9], m[10], m[11], m[0], m[1], m[2], m[3], m[4], m[5],
    ];
    if packet.store(0, &turned, false) {
        Some(())
    } else {
        None
    }
}

/// Writes a header with the source and destination swapped.
#[inline(always)]
fn network<P: Packet>(packet: P, work: &Work, content: u32, protocol: u8) -> Option<()> {
    let (from, to) = (work.headers.tuple.destination, work.headers.tuple.source);
    let done = if work.headers.v4 {
        packet.store(LINK, &header_v4(from, to, content, protocol), false)
    } else {
        packet.store(LINK, &header_v6(content, protocol), true)
            && packet.store(LINK + 8, &from.octets(), true)
            && packet.store(LINK + 24, &to.octets(), true)
    };
    if done { Some(()) } else { None }
}

/// Returns an IPv4 header without options that forbids fragmentation.
#[inline(always)]
pub(super) fn header_v4(from: Address, to: Address, content: u32, protocol: u8) -> [u8; 20] {
    let length = ((20 + content) as u16).to_be_bytes();
    let (s, d) = (from.last_word().to_ne_bytes(), to.last_word().to_ne_bytes());
    let mut sum = u64::from(from.last_word()) + u64::from(to.last_word());
    sum += u64::from(u32::from_ne_bytes([0x45, 0, length[0], length[1]]));
    sum += u64::from(u32::from_ne_bytes([0, 0, 0x40, 0]));
    sum += u64::from(u32::from_ne_bytes([TTL, protocol, 0, 0]));
    let c = fold(narrow(sum)).to_ne_bytes();
    [
        0x45, 0, length[0], length[1], 0, 0, 0x40, 0, TTL, protocol, c[0], c[1], s[0], s[1], s[2],
        s[3], d[0], d[1], d[2], d[3],
    ]
}

/// An IPv6 header, up to its addresses.
#[inline(always)]
pub(super) const fn header_v6(content: u32, protocol: u8) -> [u8; 8] {
    let length = (content as u16).to_be_bytes();
    [0x60, 0, 0, 0, length[0], length[1], protocol, TTL]
}

/// The pseudo header's sum, of the packet's addresses in any order.
#[inline(always)]
fn pseudo(work: &Work, content: u32, protocol: u8) -> u64 {
    let tuple = &work.headers.tuple;
    let (s, d) = (tuple.source.to_words(), tuple.destination.to_words());
    let mut sum = u64::from(content.to_be()) + u64::from(u32::from(protocol).to_be());
    let mut i = if work.headers.v4 { 3 } else { 0 };
    while i < 4 {
        sum += u64::from(s[i]) + u64::from(d[i]);
        i += 1;
    }
    sum
}

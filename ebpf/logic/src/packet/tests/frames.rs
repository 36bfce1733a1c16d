//! Builds and parses frames.

use std::vec;
use std::vec::Vec;

use core::net::IpAddr;

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const ACK: u8 = 16;

/// Sums 16-bit words, the last padded.
fn sum(parts: &[&[u8]]) -> u16 {
    let mut total = 0_u32;
    for part in parts {
        for pair in part.chunks(2) {
            total += u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
        }
    }
    while total >> 16 != 0 {
        total = (total & 0xffff) + (total >> 16);
    }
    !(total as u16)
}

/// The checksum of an IPv4 header whose own is zero.
pub fn header_sum(header: &[u8]) -> u16 {
    sum(&[header])
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(it) => it.octets().to_vec(),
        IpAddr::V6(it) => it.octets().to_vec(),
    }
}

fn pseudo(from: IpAddr, to: IpAddr, protocol: u8, length: usize) -> Vec<u8> {
    let mut bytes = octets(from);
    bytes.extend(octets(to));
    bytes.extend(u32::try_from(length).unwrap().to_be_bytes());
    bytes.extend([0, 0, 0, protocol]);
    bytes
}

/// An IP packet without a frame.
pub fn ip(from: &str, to: &str, protocol: u8, content: &[u8]) -> Vec<u8> {
    let (from, to): (IpAddr, IpAddr) = (from.parse().unwrap(), to.parse().unwrap());
    let length = u16::try_from(content.len()).unwrap();
    let mut header = if from.is_ipv4() {
        let mut header = vec![0x45, 0];
        header.extend((20 + length).to_be_bytes());
        header.extend([0x12, 0x34, 0x40, 0, 64, protocol, 0, 0]);
        header
    } else {
        let mut header = vec![0x60, 0, 0, 0];
        header.extend(length.to_be_bytes());
        header.extend([protocol, 64]);
        header
    };
    header.extend(octets(from));
    header.extend(octets(to));
    if from.is_ipv4() {
        let check = sum(&[&header]).to_be_bytes();
        header[10..12].copy_from_slice(&check);
    }
    header.extend(content);
    header
}

pub fn frame(packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    frame.extend(if packet[0] >> 4 == 4 {
        [8, 0]
    } else {
        [0x86, 0xdd]
    });
    frame.extend(packet);
    frame
}

pub fn tcp(from: (&str, u16), to: (&str, u16), flags: u8, content: &[u8]) -> Vec<u8> {
    let mut segment = Vec::new();
    segment.extend(from.1.to_be_bytes());
    segment.extend(to.1.to_be_bytes());
    segment.extend([
        0,
        0,
        3,
        0xe8,
        0,
        0,
        7,
        0xd0,
        5 << 4,
        flags,
        0xff,
        0xff,
        0,
        0,
        0,
        0,
    ]);
    segment.extend(content);
    summed(from.0, to.0, 6, segment, 16)
}

pub fn udp(from: (&str, u16), to: (&str, u16), content: &[u8]) -> Vec<u8> {
    let mut datagram = Vec::new();
    datagram.extend(from.1.to_be_bytes());
    datagram.extend(to.1.to_be_bytes());
    datagram.extend(u16::try_from(8 + content.len()).unwrap().to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(content);
    summed(from.0, to.0, 17, datagram, 6)
}

pub fn sctp(from: (&str, u16), to: (&str, u16)) -> Vec<u8> {
    let mut packet = Vec::new();
    packet.extend(from.1.to_be_bytes());
    packet.extend(to.1.to_be_bytes());
    packet.extend([1, 2, 3, 4, 0, 0, 0, 0, 1, 0, 0, 4]);
    let sum = crc32c(&packet).to_le_bytes();
    packet[8..12].copy_from_slice(&sum);
    frame(&ip(from.0, to.0, 132, &packet))
}

/// CRC-32C, bit by bit (RFC 9260 appendix A).
pub fn crc32c(bytes: &[u8]) -> u32 {
    let mut state = u32::MAX;
    for byte in bytes {
        state ^= u32::from(*byte);
        for _ in 0..8 {
            state = if state & 1 == 1 {
                state >> 1 ^ 0x82f6_3b78
            } else {
                state >> 1
            };
        }
    }
    !state
}

fn summed(from: &str, to: &str, protocol: u8, mut content: Vec<u8>, field: usize) -> Vec<u8> {
    let head = pseudo(
        from.parse().unwrap(),
        to.parse().unwrap(),
        protocol,
        content.len(),
    );
    let check = sum(&[&head, &content]).to_be_bytes();
    content[field..field + 2].copy_from_slice(&check);
    frame(&ip(from, to, protocol, &content))
}

/// An ICMP error from `from` to `to` that quotes an IP packet.
pub fn icmp(from: &str, to: &str, kind: u8, code: u8, rest: u32, quoted: &[u8]) -> Vec<u8> {
    let mut message = vec![kind, code, 0, 0];
    message.extend(rest.to_be_bytes());
    message.extend(quoted);
    if from.contains(':') {
        return summed(from, to, 58, message, 2);
    }
    let check = sum(&[&message]).to_be_bytes();
    message[2..4].copy_from_slice(&check);
    frame(&ip(from, to, 1, &message))
}

/// An echo, or the answer to one.
pub fn echo(from: &str, to: &str, answers: bool, identifier: u16, content: &[u8]) -> Vec<u8> {
    let kind = match (from.contains(':'), answers) {
        (false, false) => 8,
        (false, true) => 0,
        (true, false) => 128,
        (true, true) => 129,
    };
    icmp(from, to, kind, 0, u32::from(identifier) << 16 | 1, content)
}

/// A frame as it is read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Read {
    pub from: IpAddr,
    pub to: IpAddr,
    pub protocol: u8,
    pub hops: u8,
    pub ports: (u16, u16),
    pub content: Vec<u8>,
}

/// Reads a frame without options or extension headers, and sums up every
/// checksum.
pub fn read(frame: &[u8]) -> Read {
    let packet = &frame[14..];
    let (from, to, protocol, hops, content): (IpAddr, IpAddr, u8, u8, &[u8]) =
        if frame[12..14] == [8, 0] {
            assert_eq!(packet[0], 0x45);
            assert_eq!(sum(&[&packet[..20]]), 0, "header checksum");
            let length = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
            let four = |at: usize| <[u8; 4]>::try_from(&packet[at..at + 4]).unwrap();
            (
                four(12).into(),
                four(16).into(),
                packet[9],
                packet[8],
                &packet[20..length],
            )
        } else {
            let length = 40 + usize::from(u16::from_be_bytes([packet[4], packet[5]]));
            let sixteen = |at: usize| <[u8; 16]>::try_from(&packet[at..at + 16]).unwrap();
            (
                sixteen(8).into(),
                sixteen(24).into(),
                packet[6],
                packet[7],
                &packet[40..length],
            )
        };
    let whole = match protocol {
        1 => sum(&[content]),
        6 | 17 | 58 => sum(&[&pseudo(from, to, protocol, content.len()), content]),
        _ => 0,
    };
    let none = protocol == 17 && from.is_ipv4() && content[6..8] == [0, 0];
    assert!(whole == 0 || none, "checksum of protocol {protocol}");
    let ports = match protocol {
        6 | 17 | 132 => (
            u16::from_be_bytes([content[0], content[1]]),
            u16::from_be_bytes([content[2], content[3]]),
        ),
        _ => (0, 0),
    };
    Read {
        from,
        to,
        protocol,
        hops,
        ports,
        content: content.to_vec(),
    }
}

impl Read {
    /// `from:port > to:port`.
    pub fn way(&self) -> std::string::String {
        std::format!(
            "{}:{} > {}:{}",
            self.from,
            self.ports.0,
            self.to,
            self.ports.1
        )
    }
}

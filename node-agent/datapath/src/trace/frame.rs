//! The first packet of a connection, as a frame (RFC 791, 8200, 9293, 768, 9260).

use ebpf_abi::Protocol;
use std::net::{IpAddr, SocketAddr};

const ETHERNET: usize = 14;

/// A SYN, a datagram of no bytes, or an INIT chunk. Sums are left out: no decision
/// looks at them. None where the two are of different families.
pub(super) fn opening(from: SocketAddr, to: SocketAddr, protocol: Protocol) -> Option<Vec<u8>> {
    let transport = transport(from.port(), to.port(), protocol);
    let length = u16::try_from(transport.len()).ok()?;
    let mut frame = vec![0_u8; ETHERNET - 2];
    match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            frame.extend(0x0800_u16.to_be_bytes());
            frame.extend([0x45, 0]);
            frame.extend((20 + length).to_be_bytes());
            // May not be fragmented; 64 hops.
            frame.extend([0, 0, 0x40, 0, 64, protocol.0, 0, 0]);
            frame.extend(from.octets());
            frame.extend(to.octets());
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            frame.extend(0x86dd_u16.to_be_bytes());
            frame.extend([0x60, 0, 0, 0]);
            frame.extend(length.to_be_bytes());
            frame.extend([protocol.0, 64]);
            frame.extend(from.octets());
            frame.extend(to.octets());
        }
        _ => return None,
    }
    frame.extend(transport);
    Some(frame)
}

fn transport(from: u16, to: u16, protocol: Protocol) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(32);
    bytes.extend(from.to_be_bytes());
    bytes.extend(to.to_be_bytes());
    match protocol {
        Protocol::UDP => bytes.extend([0, 8, 0, 0]),
        Protocol::SCTP => {
            // Tag and sum, then INIT with its fixed fields.
            bytes.extend([0; 8]);
            bytes.extend([1, 0, 0, 20]);
            bytes.extend([0; 16]);
        }
        _ => {
            bytes.extend([0; 8]);
            bytes.extend([5 << 4, 2, 0xff, 0xff, 0, 0, 0, 0]);
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use ebpf_logic::model::Frame;
    use ebpf_logic::packet::{Kind, Work, parse};

    use super::*;

    #[test]
    fn decisions_read_what_was_written() {
        for protocol in [Protocol::TCP, Protocol::UDP, Protocol::SCTP] {
            for (from, to) in [
                ("198.51.100.9:4000", "192.0.2.1:30080"),
                ("[2001:db8::9]:4000", "[2001:db8::1]:80"),
            ] {
                let (from, to): (SocketAddr, SocketAddr) =
                    (from.parse().unwrap(), to.parse().unwrap());
                let frame = RefCell::new(opening(from, to, protocol).unwrap());
                let mut work = Work::new();
                assert_eq!(parse(Frame(&frame), &mut work), Kind::Transport);
                let tuple = work.headers.tuple;
                assert_eq!(
                    (tuple.source.into(), tuple.source_port.get()),
                    (from.ip(), from.port())
                );
                assert_eq!(
                    (tuple.destination.into(), tuple.destination_port.get()),
                    (to.ip(), to.port())
                );
                assert_eq!(tuple.protocol, protocol);
            }
        }
    }

    #[test]
    fn families_do_not_mix() {
        let (v4, v6) = ("192.0.2.1:1".parse().unwrap(), "[::1]:1".parse().unwrap());
        assert_eq!(opening(v4, v6, Protocol::TCP), None);
    }
}

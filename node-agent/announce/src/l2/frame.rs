//! Frames of ARP (RFC 826, RFC 5227) and of neighbour discovery (RFC 4861), as far as a
//! responder needs them. Ethernet II without VLAN tag: the kernel strips tags.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A hardware address.
pub type Mac = [u8; 6];

/// All stations.
const BROADCAST: Mac = [0xff; 6];
/// All nodes of the link.
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ETHERTYPE_ARP: [u8; 2] = [0x08, 0x06];
const ETHERTYPE_IPV6: [u8; 2] = [0x86, 0xdd];
const ICMPV6: u8 = 58;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;

/// The content of a received frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceivedFrame {
    /// A host asks which host has an address.
    Asked {
        /// The address asked for.
        target: IpAddr,
        /// The asking host; unspecified if it only probes whether the address is free.
        from: IpAddr,
        /// The destination of the answer.
        mac: Mac,
    },
    /// A host announces that it has an address.
    Claimed {
        /// The address.
        address: IpAddr,
        /// The announcing host.
        mac: Mac,
    },
}

/// Parses a frame; returns `None` if it is none of these, or damaged.
#[must_use]
pub fn parse(frame: &[u8]) -> Option<ReceivedFrame> {
    let ethertype: [u8; 2] = array(frame, 12)?;
    match ethertype {
        ETHERTYPE_ARP => parse_arp(frame.get(14..)?),
        ETHERTYPE_IPV6 => parse_neighbour(frame),
        _ => None,
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn parse_arp(packet: &[u8]) -> Option<ReceivedFrame> {
    // Ethernet and IPv4, with addresses of 6 and 4 bytes.
    if array(packet, 0)? != [0, 1, 8, 0, 6, 4] {
        return None;
    }
    let operation = u16::from_be_bytes(array(packet, 6)?);
    let mac: Mac = array(packet, 8)?;
    let sender = Ipv4Addr::from(array::<4>(packet, 14)?);
    let target = Ipv4Addr::from(array::<4>(packet, 24)?);
    match operation {
        1 if sender != target => Some(ReceivedFrame::Asked {
            target: target.into(),
            from: sender.into(),
            mac,
        }),
        // A reply, or a request for oneself, which announces.
        1 | 2 if !sender.is_unspecified() => Some(ReceivedFrame::Claimed {
            address: sender.into(),
            mac,
        }),
        _ => None,
    }
}

fn parse_neighbour(frame: &[u8]) -> Option<ReceivedFrame> {
    let packet = frame.get(14..)?;
    // Version 6, next header ICMPv6, and a hop limit that proves the sender near.
    if packet.first()? >> 4 != 6 || *packet.get(6)? != ICMPV6 || *packet.get(7)? != 255 {
        return None;
    }
    let length = usize::from(u16::from_be_bytes(array(packet, 4)?));
    let source = Ipv6Addr::from(array::<16>(packet, 8)?);
    let destination = Ipv6Addr::from(array::<16>(packet, 24)?);
    let message = packet.get(40..40_usize.checked_add(length)?)?;
    if checksum(source, destination, message) != 0 || *message.get(1)? != 0 {
        return None;
    }
    let target = Ipv6Addr::from(array::<16>(message, 8)?);
    if target.is_multicast() {
        return None;
    }
    let link_layer = |kind: u8| option(message.get(24..)?, kind);
    let sender: Mac = array(frame, 6)?;
    match *message.first()? {
        SOLICITATION => Some(ReceivedFrame::Asked {
            target: target.into(),
            from: source.into(),
            mac: link_layer(1).unwrap_or(sender),
        }),
        ADVERTISEMENT => Some(ReceivedFrame::Claimed {
            address: target.into(),
            mac: link_layer(2).unwrap_or(sender),
        }),
        _ => None,
    }
}

/// The link-layer address in an option of this type.
fn option(mut options: &[u8], kind: u8) -> Option<Mac> {
    // An option of length 0 would be without end (RFC 4861, 4.6).
    while let [found, units, ..] = options {
        let size = usize::from(*units) * 8;
        if size == 0 {
            return None;
        }
        if *found == kind {
            return array(options.get(..size)?, 2);
        }
        options = options.get(size..)?;
    }
    None
}

/// The answer to who asked for `target`.
#[must_use]
pub fn answer(
    own: Mac,
    own_link_local: Option<Ipv6Addr>,
    target: IpAddr,
    from: IpAddr,
    to: Mac,
) -> Vec<u8> {
    match (target, from) {
        (IpAddr::V4(target), IpAddr::V4(from)) => arp(2, own, target, to, to, from),
        (IpAddr::V6(target), IpAddr::V6(from)) => {
            // A probing host has no address to answer to (RFC 4861, 7.2.4).
            let probe = from.is_unspecified();
            let destination = if probe { ALL_NODES } else { from };
            let mac = if probe { multicast_mac(ALL_NODES) } else { to };
            advertisement(
                own,
                own_link_local.unwrap_or(target),
                target,
                destination,
                mac,
                !probe,
            )
        }
        _ => Vec::new(),
    }
}

/// Returns the frames that announce an address: for ARP a request and a reply, since some
/// hosts understand only one of them (RFC 5227, 3).
#[must_use]
pub fn announcement(own: Mac, own_link_local: Option<Ipv6Addr>, address: IpAddr) -> Vec<Vec<u8>> {
    match address {
        IpAddr::V4(it) => vec![
            arp(1, own, it, BROADCAST, [0; 6], it),
            arp(2, own, it, BROADCAST, BROADCAST, it),
        ],
        IpAddr::V6(it) => {
            let source = own_link_local.unwrap_or(it);
            vec![advertisement(
                own,
                source,
                it,
                ALL_NODES,
                multicast_mac(ALL_NODES),
                false,
            )]
        }
    }
}

fn arp(
    operation: u16,
    own: Mac,
    sender: Ipv4Addr,
    to: Mac,
    target_mac: Mac,
    target: Ipv4Addr,
) -> Vec<u8> {
    let mut frame = Vec::with_capacity(60);
    frame.extend(to);
    frame.extend(own);
    frame.extend(ETHERTYPE_ARP);
    frame.extend([0, 1, 8, 0, 6, 4]);
    frame.extend(operation.to_be_bytes());
    frame.extend(own);
    frame.extend(sender.octets());
    frame.extend(target_mac);
    frame.extend(target.octets());
    // The least that Ethernet carries, so that no driver sends what lies behind.
    frame.resize(60, 0);
    frame
}

fn advertisement(
    own: Mac,
    source: Ipv6Addr,
    target: Ipv6Addr,
    destination: Ipv6Addr,
    to: Mac,
    solicited: bool,
) -> Vec<u8> {
    const OVERRIDE: u8 = 0x20;
    const SOLICITED: u8 = 0x40;
    let mut message = Vec::with_capacity(32);
    let flags = OVERRIDE | if solicited { SOLICITED } else { 0 };
    message.extend([ADVERTISEMENT, 0, 0, 0, flags, 0, 0, 0]);
    message.extend(target.octets());
    message.extend([2, 1]);
    message.extend(own);
    let sum = checksum(source, destination, &message).to_be_bytes();
    message[2..4].copy_from_slice(&sum);
    let mut frame = Vec::with_capacity(86);
    frame.extend(to);
    frame.extend(own);
    frame.extend(ETHERTYPE_IPV6);
    frame.extend([0x60, 0, 0, 0, 0, 32, ICMPV6, 255]);
    frame.extend(source.octets());
    frame.extend(destination.octets());
    frame.extend(message);
    frame
}

/// The checksum of a message with its pseudo header; 0 over one that is whole.
fn checksum(source: Ipv6Addr, destination: Ipv6Addr, message: &[u8]) -> u16 {
    let mut sum = u64::from(ICMPV6) + message.len() as u64;
    let mut add = |bytes: &[u8]| {
        for pair in bytes.chunks(2) {
            let low = pair.get(1).copied().unwrap_or(0);
            sum += u64::from(u16::from_be_bytes([pair[0], low]));
        }
    };
    add(&source.octets());
    add(&destination.octets());
    add(message);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or(u16::MAX)
}

/// The group to which solicitations for an address go (RFC 4291, 2.7.1).
#[must_use]
pub const fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., high, low] = address.segments();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | (high & 0xff), low)
}

/// The hardware address of a group (RFC 2464, 7).
const fn multicast_mac(group: Ipv6Addr) -> Mac {
    let [.., a, b, c, d] = group.octets();
    [0x33, 0x33, a, b, c, d]
}

#[cfg(test)]
mod tests {
    use etherparse::{NetSlice, SlicedPacket, TransportSlice};
    use proptest::prelude::*;

    use super::*;

    const OWN: Mac = [2, 0, 0, 0, 0, 1];
    const PEER: Mac = [2, 0, 0, 0, 0, 2];

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn v6(text: &str) -> Ipv6Addr {
        text.parse().unwrap()
    }

    /// A request as a host sends it.
    fn arp_request(sender: &str, target: &str) -> Vec<u8> {
        arp(
            1,
            PEER,
            sender.parse().unwrap(),
            BROADCAST,
            [0; 6],
            target.parse().unwrap(),
        )
    }

    #[test]
    fn arp_requests_are_answered_to_who_asked() {
        let asked = parse(&arp_request("10.0.0.2", "10.0.0.1"));
        let expected = ReceivedFrame::Asked {
            target: ip("10.0.0.1"),
            from: ip("10.0.0.2"),
            mac: PEER,
        };
        assert_eq!(asked, Some(expected));
        let frame = answer(OWN, None, ip("10.0.0.1"), ip("10.0.0.2"), PEER);
        assert_eq!(frame[..6], PEER);
        // A parser that is not ours reads the same.
        let sliced = SlicedPacket::from_ethernet(&frame).unwrap();
        let Some(NetSlice::Arp(packet)) = sliced.net else {
            panic!("no ARP: {sliced:?}")
        };
        assert_eq!(packet.operation(), etherparse::ArpOperation::REPLY);
        assert_eq!(packet.sender_hw_addr(), OWN);
        assert_eq!(packet.sender_protocol_addr(), [10, 0, 0, 1]);
        assert_eq!(packet.target_hw_addr(), PEER);
        assert_eq!(packet.target_protocol_addr(), [10, 0, 0, 2]);
        // Who probes whether the address is free is told that it is not.
        let probe = parse(&arp_request("0.0.0.0", "10.0.0.1"));
        assert!(matches!(probe, Some(ReceivedFrame::Asked { .. })));
    }

    #[test]
    fn announcements_are_heard_as_claims() {
        for address in ["10.0.0.1", "fd00::1"] {
            for frame in announcement(OWN, Some(v6("fe80::1")), ip(address)) {
                let claimed = ReceivedFrame::Claimed {
                    address: ip(address),
                    mac: OWN,
                };
                assert_eq!(parse(&frame), Some(claimed));
                assert!(frame.len() >= 60);
            }
        }
    }

    fn solicitation(source: &str, target: &str, with_option: bool) -> Vec<u8> {
        let (source, target) = (v6(source), v6(target));
        let group = solicited_node(target);
        let mut message = vec![SOLICITATION, 0, 0, 0, 0, 0, 0, 0];
        message.extend(target.octets());
        if with_option {
            message.extend([1, 1]);
            message.extend(PEER);
        }
        let sum = checksum(source, group, &message).to_be_bytes();
        message[2..4].copy_from_slice(&sum);
        let mut frame = Vec::new();
        frame.extend(multicast_mac(group));
        frame.extend(PEER);
        frame.extend(ETHERTYPE_IPV6);
        frame.extend([
            0x60,
            0,
            0,
            0,
            0,
            u8::try_from(message.len()).unwrap(),
            ICMPV6,
            255,
        ]);
        frame.extend(source.octets());
        frame.extend(group.octets());
        frame.extend(message);
        frame
    }

    #[test]
    fn solicitations_are_answered_and_probes_are_answered_to_all() {
        for with_option in [true, false] {
            let asked = parse(&solicitation("fe80::2", "fd00::1", with_option));
            let expected = ReceivedFrame::Asked {
                target: ip("fd00::1"),
                from: ip("fe80::2"),
                mac: PEER,
            };
            assert_eq!(asked, Some(expected));
        }
        let frame = answer(OWN, Some(v6("fe80::1")), ip("fd00::1"), ip("fe80::2"), PEER);
        let sliced = SlicedPacket::from_ethernet(&frame).unwrap();
        let Some(TransportSlice::Icmpv6(message)) = &sliced.transport else {
            panic!("{sliced:?}")
        };
        assert!(message.is_checksum_valid(v6("fe80::1").octets(), v6("fe80::2").octets()));
        assert_eq!(message.type_u8(), 136);
        assert_eq!(frame[14 + 40 + 4], 0x60, "solicited, and overrides");
        let probe = answer(OWN, Some(v6("fe80::1")), ip("fd00::1"), ip("::"), PEER);
        assert_eq!(probe[..6], [0x33, 0x33, 0, 0, 0, 1]);
        assert_eq!(probe[14 + 40 + 4], 0x20, "not solicited");
        assert_eq!(solicited_node(v6("fd00::12:3456")), v6("ff02::1:ff12:3456"));
    }

    #[test]
    fn forged_and_damaged_frames_are_not_heard() {
        let good = solicitation("fe80::2", "fd00::1", true);
        let broken = |at: usize, value: u8| {
            let mut frame = good.clone();
            frame[at] = value;
            parse(&frame)
        };
        assert_eq!(broken(21, 254), None, "it was routed");
        assert_eq!(broken(56, 1), None, "checksum");
        assert_eq!(broken(55, 1), None, "code");
        assert_eq!(broken(20, 6), None, "not ICMPv6");
        for end in 0..good.len() {
            assert_eq!(parse(&good[..end]), None, "{end} bytes");
        }
        let request = arp_request("10.0.0.2", "10.0.0.1");
        for end in 0..42 {
            assert_eq!(parse(&request[..end]), None, "{end} bytes");
        }
    }

    proptest! {
        #[test]
        fn no_frame_is_too_strange(
            mut frame in prop::collection::vec(any::<u8>(), 0..128), kind in 0..3_u8,
        ) {
            if frame.len() > 56 && kind > 0 {
                frame[12..14].copy_from_slice(if kind == 1 { &ETHERTYPE_ARP } else { &ETHERTYPE_IPV6 });
                if kind == 2 {
                    frame[14] = 0x60;
                    (frame[20], frame[21], frame[54]) = (ICMPV6, 255, SOLICITATION);
                }
            }
            let _ = parse(&frame);
        }
    }
}

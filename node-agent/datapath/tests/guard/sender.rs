//! Pods that send what is not theirs: frames as no kernel would make them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::time::{Duration, Instant};

use ebpf_abi::{Counter, FlowRecord};
use node_agent_datapath::Records;
use serde_json::json;

use super::wire::Wire;
use super::world::{PATIENCE, Place, World, ip, mac_of, shown};

type Hardware = [u8; 6];

const STRANGER: Hardware = [2, 0, 0, 9, 9, 9];

fn own(place: &Place) -> Hardware {
    let text = place.within(|| mac_of("eth0"));
    let mut parts = text
        .split(':')
        .map(|it| u8::from_str_radix(it, 16).expect("hex"));
    std::array::from_fn(|_| parts.next().expect("six"))
}

/// The hardware address of the node's end.
fn gateway(place: &Place) -> Hardware {
    let text = place.within(|| shown("neigh show 169.254.1.1 dev eth0"));
    let mut words = text.split_whitespace().skip_while(|it| *it != "lladdr");
    let mut parts = words.nth(1).expect("an address").split(':');
    std::array::from_fn(|_| u8::from_str_radix(parts.next().expect("six"), 16).expect("hex"))
}

fn v4(place: &Place) -> Ipv4Addr {
    match place.v4 {
        IpAddr::V4(it) => it,
        IpAddr::V6(_) => panic!("IPv4"),
    }
}

fn v6(place: &Place) -> Ipv6Addr {
    match place.v6 {
        IpAddr::V6(it) => it,
        IpAddr::V4(_) => panic!("IPv6"),
    }
}

fn frame(to: Hardware, from: Hardware, protocol: u16, content: &[u8]) -> Vec<u8> {
    [&to[..], &from, &protocol.to_be_bytes(), content].concat()
}

/// RFC 1071.
fn sum(parts: &[&[u8]]) -> [u8; 2] {
    let mut total = 0_u32;
    for pair in parts.concat().chunks(2) {
        total += u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
    }
    while total >> 16 != 0 {
        total = (total & 0xffff) + (total >> 16);
    }
    (!(total as u16)).to_be_bytes()
}

/// A datagram without a checksum.
fn udp(from: (Ipv4Addr, u16), to: (Ipv4Addr, u16), content: &[u8]) -> Vec<u8> {
    let length = 28 + content.len() as u16;
    let mut packet = vec![0x45, 0];
    packet.extend(length.to_be_bytes());
    packet.extend([0, 0, 0, 0, 64, 17, 0, 0]);
    packet.extend(from.0.octets());
    packet.extend(to.0.octets());
    let check = sum(&[&packet]);
    packet[10..12].copy_from_slice(&check);
    packet.extend(from.1.to_be_bytes());
    packet.extend(to.1.to_be_bytes());
    packet.extend((length - 20).to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(content);
    packet
}

/// An ARP message of `sender` about itself.
fn arp(operation: u8, hardware: Hardware, sender: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    let mut message = vec![0, 1, 8, 0, 6, 4, 0, operation];
    message.extend(hardware);
    message.extend(sender.octets());
    message.extend([0; 6]);
    message.extend(target.octets());
    message
}

/// A packet of IPv6 whose content has its checksum at `at`.
fn ipv6(from: Ipv6Addr, to: Ipv6Addr, next: u8, mut content: Vec<u8>, at: usize) -> Vec<u8> {
    let length = content.len() as u16;
    let pseudo = [
        &from.octets()[..],
        &to.octets(),
        &[0, 0],
        &length.to_be_bytes(),
        &[0, 0, 0, next],
    ];
    let check = sum(&[&pseudo.concat(), &content]);
    content[at..at + 2].copy_from_slice(&check);
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(length.to_be_bytes());
    packet.extend([next, 255]);
    packet.extend(from.octets());
    packet.extend(to.octets());
    packet.extend(content);
    packet
}

/// A message of neighbour discovery to all nodes of the link.
fn discovery(source: Ipv6Addr, message: Vec<u8>) -> Vec<u8> {
    let all = "ff02::1".parse().expect("an address");
    ipv6(source, all, 58, message, 2)
}

/// The address of the link that the kernel makes of a hardware address.
fn of_link([a, b, c, d, e, f]: Hardware) -> Ipv6Addr {
    let eui = [a ^ 2, b, c, 0xff, 0xfe, d, e, f];
    let mut octets = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    octets[8..].copy_from_slice(&eui);
    octets.into()
}

/// An announcement that `target` has a hardware address.
fn announcement(target: Ipv6Addr, hardware: Hardware) -> Vec<u8> {
    let mut message = vec![136, 0, 0, 0, 0x20, 0, 0, 0];
    message.extend(target.octets());
    message.extend([2, 1]);
    message.extend(hardware);
    message
}

/// Waits until so much is counted, and says that it is not more.
#[track_caller]
fn counted(world: &World, why: Counter, expected: u64) {
    let until = Instant::now() + PATIENCE;
    while world.counted(why) < expected {
        assert!(Instant::now() < until, "no {why:?}: {:?}", world.drops());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(world.counted(why), expected, "{why:?}");
}

#[test]
fn a_pod_sends_from_its_own_addresses_and_its_own_hardware_address() {
    let Some(mut world) = World::new() else {
        return;
    };
    let a = world.pod("x", "a", &json!({"app": "a"}));
    let b = world.pod("x", "b", &json!({"app": "b"}));
    world.sync();
    let (mac, node) = (own(&a), gateway(&a));
    let wire = Wire::open(&a);
    let receiver = b.within(|| UdpSocket::bind((b.v4, 7_000)).expect("bind"));
    receiver.set_read_timeout(Some(PATIENCE)).expect("timeout");
    let at = (v4(&b), 7_000);
    let say = |from: Hardware, source: Ipv4Addr, word: &[u8]| {
        wire.send(&frame(node, from, 0x0800, &udp((source, 9_000), at, word)));
    };
    // A flow that others' hardware addresses do not join, nor begin.
    say(STRANGER, v4(&a), b"early");
    counted(&world, Counter::DroppedHardware, 1);
    say(mac, v4(&a), b"first");
    say(STRANGER, v4(&a), b"stranger");
    counted(&world, Counter::DroppedHardware, 2);
    say(mac, v4(&b), b"spoofed");
    counted(&world, Counter::DroppedSpoofed, 1);
    say(mac, v4(&a), b"last");
    let mut bytes = [0; 16];
    for word in [&b"first"[..], b"last"] {
        let length = receiver.recv(&mut bytes).expect("a datagram");
        assert_eq!(&bytes[..length], word);
    }
    // Answers of the one who was asked, too.
    let answer = |from| {
        let packet = udp(at, (v4(&a), 9_000), b"answer");
        Wire::open(&b).send(&frame(gateway(&b), from, 0x0800, &packet));
    };
    answer(STRANGER);
    counted(&world, Counter::DroppedHardware, 3);
    answer(own(&b));
    // A pod that gives itself another does not speak any more.
    a.within(|| ip("link set eth0 address 02:00:00:07:07:07"));
    wire.send(&frame(
        node,
        own(&a),
        0x0800,
        &udp((v4(&a), 9_000), at, b"changed"),
    ));
    counted(&world, Counter::DroppedHardware, 4);
    // What is neither IP nor ARP is nobody's.
    wire.send(&frame(node, mac, 0x88cc, &[0; 46]));
    counted(&world, Counter::DroppedUnreadable, 1);
}

#[test]
fn a_pod_says_by_arp_and_neighbour_discovery_what_is_its_own_alone() {
    let Some(mut world) = World::new() else {
        return;
    };
    let a = world.pod("x", "a", &json!({"app": "a"}));
    let b = world.pod("x", "b", &json!({"app": "b"}));
    world.sync();
    let mut records = Records::open(world.pin_dir()).expect("the ring");
    let (mac, node, all) = (own(&a), gateway(&a), [0xff; 6]);
    let wire = Wire::open(&a);
    let none = Ipv4Addr::UNSPECIFIED;
    let link = of_link(mac);
    assert!(
        a.within(|| shown("-6 addr show dev eth0"))
            .contains(&link.to_string())
    );
    let other_link: Ipv6Addr = "fe80::aa".parse().expect("an address");
    let router = [&[134, 0, 0, 0, 64, 0, 7, 8], &[0; 8][..], &[1, 1], &mac].concat();
    let arps = |sender, target| arp(1, mac, sender, target);
    let before = world.counted(Counter::DroppedNeighbour);
    // In order: what is dropped last was looked at last.
    for message in [
        arps(v4(&a), v4(&a)),
        arps(v4(&a), v4(&b)),
        arps(none, v4(&a)),
    ] {
        wire.send(&frame(all, mac, 0x0806, &message));
    }
    for (source, message) in [
        (v6(&a), announcement(v6(&a), mac)),
        (link, announcement(link, mac)),
        (link, vec![143, 0, 0, 0, 0, 0, 0, 0]),
    ] {
        wire.send(&frame(all, mac, 0x86dd, &discovery(source, message)));
    }
    let lies = [
        (0x0806, arps(v4(&b), v4(&b))),
        (0x0806, arp(2, STRANGER, v4(&a), v4(&b))),
        (0x86dd, discovery(link, announcement(v6(&b), mac))),
        (0x86dd, discovery(v6(&a), announcement(v6(&a), STRANGER))),
        (0x86dd, discovery(link, router)),
        (0x86dd, discovery(other_link, announcement(other_link, mac))),
        (0x86dd, discovery(link, announcement(other_link, mac))),
        (
            0x86dd,
            discovery(other_link, vec![143, 0, 0, 0, 0, 0, 0, 0]),
        ),
    ];
    for (number, (protocol, message)) in lies.iter().enumerate() {
        wire.send(&frame(all, mac, *protocol, message));
        counted(
            &world,
            Counter::DroppedNeighbour,
            before + 1 + number as u64,
        );
    }
    // The node believed nothing of it.
    for family in ["-4", "-6"] {
        let known = shown(&format!("{family} neigh show dev orl1"));
        for lie in [
            b.v4.to_string(),
            b.v6.to_string(),
            other_link.to_string(),
            "02:00:00:09:09:09".to_owned(),
        ] {
            assert!(!known.contains(&lie), "{known}");
        }
    }
    assert!(!shown("-6 route show").contains("proto ra"));
    // Of the link, nothing else is sent: to nobody else, and not to the node.
    let spoofed = world.counted(Counter::DroppedSpoofed);
    let word = [
        7_000_u16.to_be_bytes(),
        7_000_u16.to_be_bytes(),
        [0, 12],
        [0, 0],
        [1, 2],
        [3, 4],
    ];
    for (number, (from, to)) in [(link, v6(&b)), (other_link, v6(&b)), (link, of_link(node))]
        .into_iter()
        .enumerate()
    {
        let packet = ipv6(from, to, 17, word.concat(), 6);
        wire.send(&frame(node, mac, 0x86dd, &packet));
        counted(&world, Counter::DroppedSpoofed, spoofed + 1 + number as u64);
    }
    // Each is told of.
    let until = Instant::now() + PATIENCE;
    let mut seen = Vec::new();
    while seen.len() < lies.len() {
        assert!(Instant::now() < until, "{seen:?}");
        let is = |it: &FlowRecord| it.reason == Counter::DroppedNeighbour.index();
        seen.extend(std::iter::from_fn(|| records.take()).filter(is));
    }
    assert!(seen.iter().all(|it| it.has(FlowRecord::EGRESS)));
    assert!(seen.iter().any(|it| IpAddr::from(it.tuple.source) == b.v4));
}

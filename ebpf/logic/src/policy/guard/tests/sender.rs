//! Tests the ownership of a pod's packets and of its neighbour messages.

use std::vec;

use super::*;
use crate::model::Frame;

const POD_V6: Address = Address::v6([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
const PEER_V6: Address = Address::v6([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
/// Derived from [`OWN`], 02:02:03:04:05:06.
const LINK_V6: Address = Address::v6([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 2, 3, 0xff, 0xfe, 4, 5, 6]);
/// The node's, perhaps.
const OTHER_LINK_V6: Address = Address::v6([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
const GROUP: Address = Address::v6([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 1]);
const NOBODY: Address = Address::UNSPECIFIED;

fn dropped(world: &World) -> Vec<Counter> {
    let counted = world.counted.take().into_iter();
    counted.filter(|it| it.is_drop()).collect()
}

#[test]
fn a_flow_begins_from_the_pods_own_addresses_alone() {
    for (way, hardware, why) in [
        (ReturnPath::To(OWN), OWN, None),
        (ReturnPath::Behind, OWN, None),
        (ReturnPath::To(OWN), OTHER, Some(Counter::DroppedHardware)),
        (ReturnPath::Elsewhere, OWN, Some(Counter::DroppedSpoofed)),
    ] {
        let world = World::new(true, true);
        world.ways.replace(vec![(POD, way)]);
        let first = Seen {
            hardware,
            ..sent(Protocol::TCP, SYN)
        };
        assert_eq!(world.asked(first), why.is_none());
        assert_eq!(dropped(&world), why.into_iter().collect::<Vec<_>>());
        assert_eq!(world.flows.borrow().is_empty(), why.is_some());
        assert_eq!(world.records.borrow().len(), 1, "it is told of");
    }
}

#[test]
fn each_packet_of_a_flow_is_from_the_hardware_address_that_it_began_with() {
    for began in [
        sent(Protocol::TCP, SYN),
        answer(sent(Protocol::TCP, SYN), SYN),
    ] {
        let world = World::new(true, true);
        assert!(world.asked(began));
        let packet = if began.out { began } else { answer(began, ACK) };
        let own = Seen {
            flags: ACK,
            ..packet
        };
        let other = Seen {
            hardware: OTHER,
            ..own
        };
        assert!(world.asked(own));
        assert_eq!(dropped(&world), []);
        assert!(!world.asked(other));
        assert_eq!(dropped(&world), [Counter::DroppedHardware]);
        assert!(world.asked(own), "the flow goes on");
        // The node knows another hardware address of it since.
        world.ways.replace(vec![(POD, ReturnPath::To(OTHER))]);
        assert!(world.asked(other));
        assert!(!world.asked(own));
        assert_eq!(dropped(&world), [Counter::DroppedHardware]);
    }
}

#[test]
fn a_flow_that_tells_no_hardware_address_learns_it() {
    let world = World::new(true, true);
    let first = sent(Protocol::UDP, 0);
    assert!(world.asked(first));
    // As an agent of before left it.
    for entry in world.flows.borrow_mut().values_mut() {
        entry.used = u64::from(entry.ticks());
    }
    assert!(world.asked(first));
    let marks: Vec<_> = world
        .flows
        .borrow()
        .values()
        .map(PolicyFlowEntry::mark)
        .collect();
    assert_eq!(marks, [hardware_mark(OWN)]);
    // Answers keep it, and say when the flow was used.
    world.now.set(1_001);
    assert!(world.asked(answer(first, 0)));
    let flows = world.flows.borrow();
    let kept: Vec<_> = flows.values().map(|it| (it.ticks(), it.mark())).collect();
    assert_eq!(kept, [(1_001, hardware_mark(OWN))]);
}

#[test]
fn marks_tell_hardware_addresses_apart() {
    let marks: std::collections::BTreeSet<_> = (1..20_000_u64)
        .map(|it| hardware_mark((it.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16) | 2))
        .collect();
    assert!(
        marks.len() > 19_900 && !marks.contains(&0),
        "{}",
        marks.len()
    );
    assert_eq!(hardware_mark(0), 0);
}

/// A frame of a pod that has `hardware`.
fn framed(hardware: u64, protocol: u16, content: &[u8]) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend(&hardware.to_le_bytes()[..6]);
    frame.extend(protocol.to_be_bytes());
    frame.extend(content);
    frame
}

/// Returns the ruling on a link-local frame.
fn said(world: &World, frame: &[u8]) -> (Ruling, Vec<Counter>) {
    let bytes = RefCell::new(frame.to_vec());
    let packet = Frame(&bytes);
    let told = DeviceFacts {
        direction: Direction::EGRESS,
        device: DEVICE,
        from: DEVICE,
        hardware: packet.hardware(crate::packet::Front::FROM),
    };
    let mut work = Work::new();
    let kind = crate::packet::parse(packet, &mut work);
    let mut it = Guard::new();
    let ruling = outline(
        world,
        packet,
        &work,
        kind,
        PacketVerdict::Pass,
        &told,
        &mut it,
    );
    assert_eq!(ruling, Ruling::Link);
    let mut ruling = neighbour(world, packet, &mut it);
    if ruling == Ruling::Prove {
        ruling = world.proven(&mut it, true);
    }
    // The other way round it is the node's word.
    let told = DeviceFacts {
        direction: Direction::INGRESS,
        ..told
    };
    let to_pod = outline(
        world,
        packet,
        &work,
        kind,
        PacketVerdict::Pass,
        &told,
        &mut it,
    );
    assert_eq!(to_pod, Ruling::Pass);
    (ruling, dropped(world))
}

fn passes(world: &World, frame: &[u8]) {
    assert_eq!(said(world, frame), (Ruling::Pass, vec![]), "{frame:02x?}");
}

fn is_dropped(world: &World, frame: &[u8]) {
    let dropped = (Ruling::Drop, vec![Counter::DroppedNeighbour]);
    assert_eq!(said(world, frame), dropped, "{frame:02x?}");
}

fn arp(operation: u8, hardware: u64, sender: Address, target: Address) -> Vec<u8> {
    let mut message = vec![0, 1, 8, 0, 6, 4, 0, operation];
    message.extend(&hardware.to_le_bytes()[..6]);
    message.extend(&sender.octets()[12..]);
    message.extend([0; 6]);
    message.extend(&target.octets()[12..]);
    message
}

#[test]
fn arp_names_the_pods_own_addresses_alone() {
    let world = World::new(false, false);
    let none = Address::UNSPECIFIED_V4;
    for operation in [1, 2] {
        let frame = |message: Vec<u8>| framed(OWN, 0x0806, &message);
        // A question or answer, the announcement of itself, a question before that.
        for (sender, target) in [(POD, PEER), (POD, POD), (none, POD)] {
            passes(&world, &frame(arp(operation, OWN, sender, target)));
        }
        // Another's address, announced or probed as if it was its own.
        for (sender, target) in [(PEER, POD), (PEER, PEER), (none, PEER), (none, none)] {
            is_dropped(&world, &frame(arp(operation, OWN, sender, target)));
        }
        // Another's hardware address, inside, outside, or both.
        is_dropped(&world, &frame(arp(operation, OTHER, POD, PEER)));
        is_dropped(
            &world,
            &framed(OTHER, 0x0806, &arp(operation, OWN, POD, PEER)),
        );
        is_dropped(
            &world,
            &framed(OTHER, 0x0806, &arp(operation, OTHER, POD, PEER)),
        );
    }
    let told = world.records.borrow();
    assert!(
        told.iter()
            .all(|it| it.device == DEVICE && it.has(FlowRecord::EGRESS))
    );
    assert!(told.iter().any(|it| it.tuple.source == PEER));
}

#[test]
fn what_is_no_arp_of_ipv4_and_no_ip_is_not_sent() {
    let world = World::new(true, true);
    let mut odd = arp(1, OWN, POD, PEER);
    odd[1] = 6;
    let short = arp(1, OWN, POD, PEER)[..20].to_vec();
    for (protocol, content) in [(0x0806, odd), (0x0806, short), (0x88cc, vec![0; 40])] {
        let said = said(&world, &framed(OWN, protocol, &content));
        assert_eq!(said, (Ruling::Drop, vec![Counter::DroppedUnreadable]));
    }
}

/// A message of neighbour discovery; checksums are the kernel's affair.
fn discovery(source: Address, kind: u8, target: Option<Address>, options: &[u8]) -> Vec<u8> {
    let mut message = vec![kind, 0, 0, 0, 0, 0, 0, 0];
    message.extend(target.iter().flat_map(|it| it.octets()));
    message.extend(options);
    let mut packet = vec![0x60, 0, 0, 0, 0, message.len() as u8, 58, 255];
    packet.extend(source.octets());
    packet.extend(GROUP.octets());
    packet.extend(message);
    framed(OWN, 0x86dd, &packet)
}

fn option(kind: u8, hardware: u64) -> Vec<u8> {
    let mut option = vec![kind, 1];
    option.extend(&hardware.to_le_bytes()[..6]);
    option
}

#[test]
fn neighbour_discovery_names_the_pods_own_addresses_alone() {
    let world = World::new(false, false);
    world.ways.replace(vec![(POD_V6, ReturnPath::To(OWN))]);
    let own = option(1, OWN);
    // Questions: of itself, of its link, before it has the address.
    for (source, target) in [
        (POD_V6, PEER_V6),
        (LINK_V6, PEER_V6),
        (NOBODY, POD_V6),
        (NOBODY, LINK_V6),
    ] {
        passes(&world, &discovery(source, 135, Some(target), &own));
    }
    passes(
        &world,
        &discovery(NOBODY, 135, Some(POD_V6), &[14, 1, 1, 2, 3, 4, 5, 6]),
    );
    for (source, target) in [
        (PEER_V6, POD_V6),
        (NOBODY, PEER_V6),
        (OTHER_LINK_V6, PEER_V6),
        (NOBODY, OTHER_LINK_V6),
    ] {
        is_dropped(&world, &discovery(source, 135, Some(target), &own));
    }
    // Answers and announcements.
    let own = option(2, OWN);
    for (source, target) in [(POD_V6, POD_V6), (LINK_V6, POD_V6), (LINK_V6, LINK_V6)] {
        passes(&world, &discovery(source, 136, Some(target), &own));
        passes(&world, &discovery(source, 136, Some(target), &[]));
    }
    for (source, target) in [
        (POD_V6, PEER_V6),
        (LINK_V6, PEER_V6),
        (PEER_V6, POD_V6),
        (LINK_V6, OTHER_LINK_V6),
        (OTHER_LINK_V6, OTHER_LINK_V6),
        (OTHER_LINK_V6, POD_V6),
    ] {
        is_dropped(&world, &discovery(source, 136, Some(target), &own));
    }
    // Another's hardware address, also behind others' options.
    let hidden = [option(14, OWN), option(14, OWN), option(2, OTHER)].concat();
    let many = option(14, OWN).repeat(5);
    for options in [
        option(2, OTHER),
        option(1, OTHER),
        hidden,
        vec![2, 0, 0, 0, 0, 0, 0, 0],
        many,
    ] {
        is_dropped(&world, &discovery(POD_V6, 136, Some(POD_V6), &options));
    }
    let mut frame = discovery(POD_V6, 136, Some(POD_V6), &[]);
    frame[6..12].copy_from_slice(&OTHER.to_le_bytes()[..6]);
    is_dropped(&world, &frame);
}

#[test]
fn a_pod_is_no_router_but_may_look_for_one() {
    let world = World::new(true, true);
    world.ways.replace(vec![(POD_V6, ReturnPath::To(OWN))]);
    for source in [LINK_V6, POD_V6] {
        is_dropped(&world, &discovery(source, 134, None, &option(1, OWN)));
        is_dropped(&world, &discovery(source, 137, Some(PEER_V6), &[]));
        passes(&world, &discovery(source, 133, None, &option(1, OWN)));
        passes(&world, &discovery(source, 143, None, &[]));
    }
    passes(&world, &discovery(NOBODY, 133, None, &[]));
    passes(&world, &discovery(NOBODY, 143, None, &[]));
    is_dropped(&world, &discovery(LINK_V6, 133, None, &option(1, OTHER)));
    for kind in [133, 143] {
        is_dropped(&world, &discovery(OTHER_LINK_V6, kind, None, &[]));
    }
    // Neither does another's hardware address make its address the pod's.
    let mut frame = discovery(LINK_V6, 143, None, &[]);
    frame[6..12].copy_from_slice(&OTHER.to_le_bytes()[..6]);
    is_dropped(&world, &frame);
    is_dropped(&world, &discovery(PEER_V6, 133, None, &[]));
    is_dropped(&world, &discovery(PEER_V6, 143, None, &[]));
}

#[test]
fn an_error_is_from_the_pods_own_addresses_too() {
    let second = Address::v4([10, 0, 0, 9]);
    let world = World::new(true, true);
    world.ways.borrow_mut().push((second, ReturnPath::To(OWN)));
    let first = answer(sent(Protocol::UDP, 0), 0);
    assert!(world.asked(first));
    let error = |source: Address| {
        let mut it = Guard::new();
        let told = DeviceFacts {
            direction: Direction::EGRESS,
            device: DEVICE,
            from: DEVICE,
            hardware: OWN,
        };
        it.unknown(&told);
        it.name(&answer(first, 0).tuple, &answer(first, 0).tuple);
        it.about = 1;
        it.headers.tuple = tuple(source, PEER, Protocol(ICMP));
        world.decided(&mut it)
    };
    assert_eq!(error(POD), Ruling::Pass);
    assert_eq!(error(second), Ruling::Pass);
    assert_eq!(error(PEER), Ruling::Drop);
    assert_eq!(dropped(&world), [Counter::DroppedSpoofed]);
}

#[test]
fn nothing_but_neighbour_discovery_is_sent_from_an_address_of_the_link() {
    let world = World::new(true, true);
    for own in [LINK_V6, OTHER_LINK_V6] {
        // Even where the node's way to it leads to the pod.
        world.ways.borrow_mut().push((own, ReturnPath::To(OWN)));
        let first = Seen {
            tuple: tuple(own, PEER_V6, Protocol::UDP),
            ..sent(Protocol::UDP, 0)
        };
        assert!(!world.asked(first));
        assert_eq!(dropped(&world), [Counter::DroppedSpoofed]);
    }
}

#[test]
fn a_fragment_without_its_first_is_from_the_pods_own_addresses_too() {
    let world = World::new(true, true);
    let free = EndpointPolicy {
        ruleset: 0,
        reserved: 0,
    };
    for policy in world.model.borrow_mut().endpoints.values_mut() {
        *policy = free;
    }
    let told = |direction| DeviceFacts {
        direction,
        device: DEVICE,
        from: UPLINK,
        hardware: OWN,
    };
    let mut it = Guard::new();
    let sent = tuple(POD, PEER, Protocol::UDP);
    let ruling = portless(&world, &sent, &told(Direction::EGRESS), &mut it);
    assert_eq!(ruling, Ruling::Prove);
    assert_eq!(world.proven(&mut it, false), Ruling::Pass);
    world.ways.take();
    assert_eq!(world.proven(&mut it, false), Ruling::Drop);
    let ruling = portless(&world, &sent.reversed(), &told(Direction::INGRESS), &mut it);
    assert_eq!(ruling, Ruling::Pass);
}

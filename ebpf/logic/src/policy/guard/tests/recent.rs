//! Tests packets that follow an accepted packet: after any change, their verdict is the same as
//! without the table of recent packets.

use core::net::IpAddr;

use proptest::prelude::*;

use super::*;
use crate::model::Frame;
use crate::packet::tests::frames::{frame, ip, tcp, udp};
use crate::packet::{Front, parse};

const PODS: [&str; 2] = ["10.0.0.1", "fd00::1"];
const PEERS: [&str; 2] = ["10.0.0.2", "fd00::2"];

/// A packet between the pod and its peer.
#[derive(Clone, Copy, Debug)]
struct Sent {
    v6: bool,
    /// Whether it is sent by the pod.
    out: bool,
    /// TCP's flags; else a datagram.
    flags: Option<u8>,
    /// The port of the flow.
    port: u16,
    device: u32,
    /// The device that received it, if it goes to the pod.
    from: u32,
    hardware: u64,
}

const FIRST: Sent = Sent {
    v6: false,
    out: true,
    flags: Some(SYN),
    port: 80,
    device: DEVICE,
    from: UPLINK,
    hardware: OWN,
};

impl Sent {
    fn frame(&self) -> Vec<u8> {
        let family = usize::from(self.v6);
        let (pod, peer) = ((PODS[family], 1_000), (PEERS[family], self.port));
        let (from, to) = if self.out { (pod, peer) } else { (peer, pod) };
        let mut bytes = match self.flags {
            Some(flags) => tcp(from, to, flags, &[]),
            None => udp(from, to, &[0; 24]),
        };
        let at = if self.out { 6 } else { 0 };
        bytes[at..at + 6].copy_from_slice(&self.hardware.to_le_bytes()[..6]);
        bytes
    }

    fn told(&self, packet: Frame<'_>) -> DeviceFacts {
        DeviceFacts {
            direction: if self.out {
                Direction::EGRESS
            } else {
                Direction::INGRESS
            },
            device: self.device,
            from: if self.out { self.device } else { self.from },
            hardware: packet.hardware(if self.out { Front::FROM } else { Front::TO }),
        }
    }

    /// Returns a later packet of the same flow.
    const fn later(self) -> Self {
        let flags = match self.flags {
            Some(_) => Some(ACK),
            None => None,
        };
        Self { flags, ..self }
    }

    const fn back(self) -> Self {
        let later = self.later();
        Self {
            out: !self.out,
            ..later
        }
    }
}

impl World {
    fn of_two_families() -> Self {
        let world = Self::new(false, true);
        let v6: IpAddr = PODS[1].parse().expect("an address");
        {
            let mut model = world.model.borrow_mut();
            let endpoints: Vec<_> = model.endpoints.iter().map(|(k, v)| (*k, *v)).collect();
            for (key, value) in endpoints {
                let address = v6.into();
                model
                    .endpoints
                    .insert(EndpointKey { address, ..key }, value);
            }
            world
                .ways
                .borrow_mut()
                .push((v6.into(), ReturnPath::To(OWN)));
        }
        world
    }

    /// Returns whether a frame passes, as in the programs, with or without the table of
    /// recent packets.
    fn frame_passes(&self, sent: &Sent, remembers: bool) -> bool {
        let bytes = RefCell::new(sent.frame());
        let packet = Frame(&bytes);
        let told = sent.told(packet);
        let mut it = Guard::new();
        // As at the pod's device, which serves what the pod sends.
        if remembers
            && (is_recent(self, packet, &told, sent.out, &mut it)
                || (sent.out && is_recent_still(self, &it)))
        {
            return true;
        }
        let mut work = Work::new();
        let kind = parse(packet, &mut work);
        assert!(kind == Kind::Transport);
        let ruling = outline(
            self,
            packet,
            &work,
            kind,
            PacketVerdict::Pass,
            &told,
            &mut it,
        );
        assert!(ruling == Ruling::Ask);
        self.decided(&mut it) == Ruling::Pass
    }

    fn passes_on(&self, sent: Sent) -> bool {
        self.frame_passes(&sent, true)
    }

    /// How often the table of all flows is looked into while these pass.
    fn looks(&self, sent: &[Sent]) -> u32 {
        let before = self.looked.get();
        for it in sent {
            assert!(self.passes_on(*it), "{it:?}");
        }
        self.looked.get() - before
    }
}

#[test]
fn packets_that_follow_each_other_are_not_looked_up() {
    for v6 in [false, true] {
        for flags in [Some(SYN), None] {
            let world = World::of_two_families();
            let first = Sent { v6, flags, ..FIRST };
            assert!(world.passes_on(first));
            let both = [first.later(), first.back()];
            world.looks(&both);
            assert_eq!(world.looks(&both), 0, "{first:?}");
            // Another flow is another matter.
            let other = Sent { port: 81, ..first };
            assert!(world.looks(&[other, other.later()]) > 0);
        }
    }
}

#[test]
fn services_are_asked_first_where_they_may_have_a_say() {
    let world = World::of_two_families();
    let later = FIRST.later();
    assert!(world.passes_on(FIRST));
    world.looks(&[later]);
    let bytes = RefCell::new(later.frame());
    let packet = Frame(&bytes);
    let told = later.told(packet);
    let mut it = Guard::new();
    let mut asked = |serve| is_recent(&world, packet, &told, serve, &mut it);
    assert!(asked(true) && asked(false));
    // A service comes to the port.
    world.served.set(true);
    assert!(!asked(true) && asked(false));
    assert!(!asked(true) && is_recent_still(&world, &it));
    it.recent.root.epoch = 0;
    assert!(!is_recent_still(&world, &it), "it was not asked about");
}

#[test]
fn in_a_new_moment_a_flow_learns_that_it_is_used() {
    let world = World::of_two_families();
    let first = Sent {
        flags: None,
        ..FIRST
    };
    assert!(world.looks(&[first, first.back()]) > 0);
    world.now.set(1_090);
    world.moment.set(8);
    assert_eq!(world.looks(&[first.back(), first.back()]), 1);
    let used: Vec<_> = world
        .flows
        .borrow()
        .values()
        .map(PolicyFlowEntry::ticks)
        .collect();
    assert_eq!(used, [1_090]);
}

#[test]
fn a_flow_ends_with_its_next_packet_when_policy_forbids_it() {
    for v6 in [false, true] {
        let world = World::of_two_families();
        let first = Sent { v6, ..FIRST };
        let both = [first.later(), first.back()];
        assert!(world.passes_on(first));
        world.looks(&both);
        assert_eq!(world.looks(&both), 0);
        world.say(true, false);
        for it in both {
            assert!(!world.passes_on(it), "{it:?}");
        }
    }
}

#[test]
fn what_differs_from_what_passed_is_looked_up() {
    let world = World::of_two_families();
    let own = FIRST.later();
    let back = FIRST.back();
    assert!(world.passes_on(FIRST));
    world.looks(&[own, back]);
    // Another's hardware address, even while the flow speaks.
    let other = Sent {
        hardware: OTHER,
        ..own
    };
    assert!(!world.passes_on(other));
    // The same addresses at another pod's device.
    let elsewhere = Sent { device: 9, ..own };
    world.ways.borrow_mut().clear();
    assert!(!world.passes_on(elsewhere));
    // The peer opens a connection that was not allowed.
    let opens = Sent {
        flags: Some(SYN),
        ..back
    };
    assert!(!world.passes_on(opens));
    // Sent by the node itself instead of forwarded: looked up, and known.
    assert_eq!(world.looks(&[Sent { from: 0, ..back }]), 1);
    assert_eq!(world.looks(&[own, own]), 0);
}

#[test]
fn what_is_not_asked_for_in_the_table_does_not_get_into_it() {
    let world = World::of_two_families();
    let mut it = Guard::new();
    let later = FIRST.later();
    let bytes = RefCell::new(later.frame());
    let packet = Frame(&bytes);
    let told = later.told(packet);
    assert!(world.passes_on(FIRST));
    assert!(!is_recent(&world, packet, &told, false, &mut it));
    // Services have another word than this packet's: it is translated.
    let mut work = Work::new();
    let kind = parse(packet, &mut work);
    work.to = work.headers.tuple;
    let ruling = outline(
        &world,
        packet,
        &work,
        kind,
        PacketVerdict::Translate,
        &told,
        &mut it,
    );
    assert!(ruling == Ruling::Ask && world.decided(&mut it) == Ruling::Pass);
    assert!(world.recent.borrow().is_empty());
    // And a packet without a flow.
    let ping = frame(&ip(PODS[0], PEERS[0], 1, &[8, 0, 0, 0, 0, 0, 0, 1]));
    let short = frame(&ip(PODS[0], PEERS[0], 17, &[0; 8]))[..40].to_vec();
    let mut cut = later.frame();
    cut[20] = 0x20;
    for odd in [ping, short, cut] {
        it.recent.root.epoch = 1;
        let bytes = RefCell::new(odd);
        assert!(!is_recent(&world, Frame(&bytes), &told, false, &mut it));
        assert_eq!(it.recent.root.epoch, 0);
    }
}

#[test]
fn flows_spread_over_the_table() {
    let places = |of: &dyn Fn(u16) -> Tuple| {
        let places: std::collections::BTreeSet<u32> = (0..Recent::PLACES as u16)
            .map(|number| {
                let tuple = of(number);
                Recent {
                    tuple,
                    ..Recent::NOTHING
                }
                .place()
            })
            .collect();
        places.len() as u32
    };
    // Random placement would keep 0.63 of as many flows as there are places.
    let least = Recent::PLACES / 2;
    let v6 = |last: u16| {
        let [a, b] = last.to_be_bytes();
        Address::v6([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, a, b])
    };
    let v4 = |last: u16| {
        let [a, b] = last.to_be_bytes();
        Address::v4([10, 0, a, b])
    };
    let port = Port::new(80);
    let tcp = Protocol::TCP;
    assert!(places(&|it| Tuple::new(POD, Port::new(32_768 + it), PEER, port, tcp)) > least);
    assert!(places(&|it| Tuple::new(PEER, port, POD, Port::new(32_768 + it), tcp)) > least);
    assert!(places(&|it| Tuple::new(v4(it), port, POD, port, tcp)) > least);
    assert!(places(&|it| Tuple::new(POD, port, v4(it), port, tcp)) > least);
    assert!(places(&|it| Tuple::new(v6(it), port, v6(0), port, tcp)) > least);
    assert!(places(&|it| Tuple::new(v6(0), port, v6(it), port, tcp)) > least);
}

/// A possible event.
#[derive(Clone, Copy, Debug)]
enum Event {
    Packet(Sent),
    Say(bool, bool),
    Moment,
    /// Long enough for a flow of datagrams to be over.
    Silence,
}

fn packets() -> impl Strategy<Value = Sent> {
    (
        any::<(bool, bool)>(),
        prop_oneof![
            Just(None),
            Just(Some(SYN)),
            Just(Some(ACK)),
            Just(Some(SYN | ACK))
        ],
        80..82_u16,
        prop_oneof![4 => Just(UPLINK), 1 => Just(0)],
        prop_oneof![6 => Just(OWN), 1 => Just(OTHER)],
    )
        .prop_map(|((v6, out), flags, port, from, hardware)| Sent {
            v6,
            out,
            flags,
            port,
            device: DEVICE,
            from,
            // The node sends to the one that it knows.
            hardware: if out { hardware } else { OWN },
        })
}

fn events() -> impl Strategy<Value = Event> {
    prop_oneof![
        30 => packets().prop_map(Event::Packet),
        2 => any::<(bool, bool)>().prop_map(|(a, b)| Event::Say(a, b)),
        3 => Just(Event::Moment),
        1 => Just(Event::Silence),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn packets_pass_as_if_nothing_was_remembered(
        events in prop::collection::vec(events(), 1..120),
    ) {
        let worlds = [World::of_two_families(), World::of_two_families()];
        for event in events {
            match event {
                Event::Packet(sent) => {
                    let [remembers, does_not] = &worlds;
                    prop_assert_eq!(
                        remembers.frame_passes(&sent, true),
                        does_not.frame_passes(&sent, false),
                        "{:?}", sent
                    );
                }
                Event::Say(ingress, egress) => {
                    worlds.iter().for_each(|it| it.say(ingress, egress));
                }
                Event::Moment => for world in &worlds {
                    world.moment.set(world.moment.get() + 1);
                },
                Event::Silence => for world in &worlds {
                    world.now.set(world.now.get() + 500);
                    world.moment.set(world.moment.get() + 1_000);
                },
            }
        }
    }
}

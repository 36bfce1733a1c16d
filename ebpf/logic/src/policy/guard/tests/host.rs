//! Tests packets at the node's own devices that follow an accepted packet.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::model::Frame;
use crate::packet::parse;
use crate::packet::tests::frames::{tcp, udp};

const NODES: &str = "172.16.0.1";
const ANOTHER: &str = "10.0.0.9";
const OUTSIDE: &str = "192.0.2.9";

/// A packet between a local and a remote end.
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// The node's, or on its way to or from a pod.
    own: bool,
    out: bool,
    /// TCP's flags; else a datagram.
    flags: Option<u8>,
    port: u16,
}

impl Sent {
    fn frame(&self) -> Vec<u8> {
        let here = (if self.own { NODES } else { ANOTHER }, 1_000);
        let there = (OUTSIDE, self.port);
        let (from, to) = if self.out {
            (here, there)
        } else {
            (there, here)
        };
        match self.flags {
            Some(flags) => tcp(from, to, flags, &[]),
            None => udp(from, to, &[0; 24]),
        }
    }
}

impl World {
    /// The pod's rules are the node's here, and who has this address is not.
    fn of_node(ingress: bool, egress: bool) -> Self {
        let world = Self::new(ingress, egress);
        let mut model = world.model.borrow_mut();
        model.endpoints = std::mem::take(&mut model.endpoints)
            .into_iter()
            .map(|(key, value)| {
                let address = NODE;
                (EndpointKey { address, ..key }, value)
            })
            .collect();
        drop(model);
        world
    }

    fn host_passes(&self, sent: &Sent, remembers: bool) -> bool {
        let bytes = RefCell::new(sent.frame());
        let packet = Frame(&bytes);
        let direction = if sent.out {
            Direction::EGRESS
        } else {
            Direction::INGRESS
        };
        let mut it = Guard::new();
        if remembers && is_recent(self, packet, &host_told(direction), false, &mut it) {
            return true;
        }
        let mut work = Work::new();
        let kind = parse(packet, &mut work);
        let mut ruling = host_outline(self, packet, &work, kind, direction, &mut it);
        assert!(ruling == Ruling::Ask);
        ruling = guard(self, &mut it);
        if ruling == Ruling::Begin {
            ruling = host_begin(self, &mut it);
        }
        ruling == Ruling::Pass
    }
}

#[test]
fn packets_that_follow_each_other_are_not_looked_up() {
    for own in [true, false] {
        let world = World::of_node(false, true);
        let first = Sent {
            own,
            out: true,
            flags: Some(SYN),
            port: 80,
        };
        let later = Sent {
            flags: Some(ACK),
            ..first
        };
        let back = Sent {
            out: false,
            ..later
        };
        for it in [first, later, back] {
            assert!(world.host_passes(&it, true), "{it:?}");
        }
        let looked = world.looked.get();
        for it in [later, back] {
            assert!(world.host_passes(&it, true), "{it:?}");
        }
        assert_eq!(world.looked.get(), looked, "{first:?}");
        // Policy drops the node's own flow with the next packet, and no other flow.
        world.say(true, false);
        for it in [later, back] {
            assert_eq!(world.host_passes(&it, true), !own, "{it:?}");
        }
    }
}

/// A pod's packet is met at its own device, too, by the same processor.
#[test]
fn what_passes_through_does_not_take_the_place_at_the_pods_device() {
    let tuple = tuple(PEER, POD, Protocol::TCP);
    let at = |device| Recent {
        tuple,
        device,
        ..Recent::NOTHING
    };
    let places: BTreeSet<_> = (0..64).map(|device| at(device).place()).collect();
    assert!(places.len() > 48, "{}", places.len());
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

fn events() -> impl Strategy<Value = Event> {
    let flags = prop_oneof![
        Just(None),
        Just(Some(SYN)),
        Just(Some(ACK)),
        Just(Some(SYN | ACK))
    ];
    let packets =
        (any::<(bool, bool)>(), flags, 80..82_u16).prop_map(|((own, out), flags, port)| Sent {
            own,
            out,
            flags,
            port,
        });
    prop_oneof![
        30 => packets.prop_map(Event::Packet),
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
        let worlds = [World::of_node(false, true), World::of_node(false, true)];
        for event in events {
            match event {
                Event::Packet(sent) => {
                    let [remembers, does_not] = &worlds;
                    prop_assert_eq!(
                        remembers.host_passes(&sent, true),
                        does_not.host_passes(&sent, false),
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

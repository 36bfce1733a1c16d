use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::vec::Vec;

use ebpf_abi::policy::{
    Direction, EndpointKey, EndpointPolicy, PeerEntry, PolicyFlow, PolicyFlowEntry, PolicyRoot,
    PolicyVerdict, PortClasses, VerdictKey, cookies, hardware_mark,
};
use ebpf_abi::{
    Address, ChecksummedValue, Config, ConfigFlags, Counter, FlowRecord, Life, Port, Protocol,
    Range, Timeouts, Tuple,
};

use super::*;
use crate::packet::headers::{Fragment, ICMP, TcpFlags};
use crate::packet::{Kind, Packet, PacketVerdict, Work};
use crate::policy::PolicyMaps;
use crate::policy::model::PolicyModel;

const POD: Address = Address::v4([10, 0, 0, 1]);
const PEER: Address = Address::v4([10, 0, 0, 2]);
const NODE: Address = Address::v4([172, 16, 0, 1]);
const VIP: Address = Address::v4([10, 96, 0, 7]);
const DEVICE: u32 = 7;
/// The device through which peers' packets come.
const UPLINK: u32 = 2;

/// A pod whose ingress and egress each have a ruleset that says the same of
/// everybody.
struct World {
    model: RefCell<PolicyModel>,
    flows: RefCell<BTreeMap<Tuple, PolicyFlowEntry>>,
    counted: RefCell<Vec<Counter>>,
    records: RefCell<Vec<FlowRecord>>,
    config: Cell<Config>,
    now: Cell<u32>,
    moment: Cell<u32>,
    recent: RefCell<BTreeMap<u32, Recent>>,
    /// Whether services may be concerned by all packets.
    served: Cell<bool>,
    /// Lookups in the table of flows.
    looked: Cell<u32>,
    /// The node's routes to addresses; other addresses are elsewhere.
    ways: RefCell<Vec<(Address, ReturnPath)>>,
}

impl PolicyMaps for World {
    fn policy_root(&self) -> PolicyRoot {
        self.model.borrow().root
    }
    fn peer(&self, range: &Range) -> Option<PeerEntry> {
        self.model.borrow().peer(range)
    }
    fn endpoint(&self, key: &EndpointKey) -> Option<ChecksummedValue<EndpointPolicy>> {
        self.model.borrow().endpoint(key)
    }
    fn ports(&self, element: u32) -> Option<PortClasses> {
        self.model.borrow().ports(element)
    }
    fn verdict(&self, key: &VerdictKey) -> Option<ChecksummedValue<PolicyVerdict>> {
        self.model.borrow().verdict(key)
    }
}

impl PolicyFlows for World {
    type Place = Tuple;

    fn policy_flow(&self, key: &Tuple, into: &mut PolicyFlowEntry) -> Option<Tuple> {
        self.looked.set(self.looked.get() + 1);
        *into = *self.flows.borrow().get(key)?;
        Some(*key)
    }
    fn touch(&self, place: Tuple, used: u64) {
        if let Some(entry) = self.flows.borrow_mut().get_mut(&place) {
            entry.used = used;
        }
    }
    fn put_policy_flow(&self, key: &Tuple, entry: &PolicyFlowEntry) -> bool {
        self.flows.borrow_mut().insert(*key, *entry);
        true
    }
    fn read_node(&self, into: &mut ChecksummedValue<Config>) -> bool {
        *into = ChecksummedValue::new(&ebpf_abi::CONFIG_KEY, self.config.get());
        true
    }
    fn clock(&self) -> u32 {
        self.now.get()
    }
    fn moment(&self) -> u32 {
        self.moment.get()
    }
    fn is_strange(&self, _: &Tuple) -> bool {
        !self.served.get()
    }
    fn is_recent(&self, place: u32, recent: &Recent) -> bool {
        assert!(place < Recent::PLACES);
        self.recent.borrow().get(&place) == Some(recent)
    }
    fn keep_recent(&self, place: u32, recent: &Recent) {
        self.recent.borrow_mut().insert(place, *recent);
    }
    fn tally(&self, counter: Counter) {
        self.counted.borrow_mut().push(counter);
    }
    fn report(&self, guard: &Guard, why: &VerdictReason) {
        let mut record = FlowRecord::NOTHING;
        describe(guard, why, &mut record);
        self.records.borrow_mut().push(record);
    }
}

/// A packet, as the pod's device sees it.
#[derive(Clone, Copy)]
struct Seen {
    out: bool,
    tuple: Tuple,
    to: Option<Tuple>,
    flags: u8,
    from: u32,
    hardware: u64,
}

/// The hardware address of the pod, and another.
const OWN: u64 = 0x0605_0403_0202;
const OTHER: u64 = 0x0605_0403_0204;

mod host;
mod recent;
mod sender;

impl World {
    fn new(ingress: bool, egress: bool) -> Self {
        let world = Self {
            model: RefCell::default(),
            flows: RefCell::default(),
            counted: RefCell::default(),
            records: RefCell::default(),
            config: Cell::new(Config::DEFAULT),
            now: Cell::new(1_000),
            moment: Cell::new(7),
            recent: RefCell::default(),
            served: Cell::new(false),
            looked: Cell::new(0),
            ways: RefCell::new(std::vec![(POD, ReturnPath::To(OWN))]),
        };
        let node = PeerEntry {
            peer: 0,
            flags: PeerEntry::NODE | PeerEntry::LOCAL,
        };
        world.model.borrow_mut().root.epoch = 1;
        world.model.borrow_mut().peers.insert((1, 128, NODE), node);
        world.say(ingress, egress);
        world
    }

    /// Changes the rulesets.
    fn say(&self, ingress: bool, egress: bool) {
        let mut model = self.model.borrow_mut();
        model.root.generation += 1;
        let sides = [
            (Direction::INGRESS, 1, ingress),
            (Direction::EGRESS, 2, egress),
        ];
        for (direction, ruleset, allow) in sides {
            let key = EndpointKey {
                epoch: 1,
                direction,
                address: POD,
            };
            model.endpoints.insert(
                key,
                EndpointPolicy {
                    ruleset,
                    reserved: 0,
                },
            );
            for peer in 0..PeerEntry::FIRST {
                let key = VerdictKey {
                    epoch: 1,
                    ruleset,
                    peer,
                    class: 0,
                };
                let said = PolicyVerdict {
                    cookie: cookies::FIRST,
                    flags: u32::from(allow),
                };
                model.verdicts.insert(key, said);
            }
        }
    }

    fn asked(&self, seen: Seen) -> bool {
        let mut work = Work::new();
        work.headers.tuple = seen.tuple;
        work.headers.fragment = Fragment::WHOLE;
        work.headers.flags = TcpFlags(seen.flags);
        let mut verdict = PacketVerdict::Pass;
        if let Some(to) = seen.to {
            work.to = to;
            verdict = PacketVerdict::Translate;
        }
        let told = DeviceFacts {
            direction: if seen.out {
                Direction::EGRESS
            } else {
                Direction::INGRESS
            },
            device: DEVICE,
            from: seen.from,
            hardware: seen.hardware,
        };
        let mut it = Guard::new();
        let packet = Nothing;
        let ruling = outline(
            self,
            packet,
            &work,
            Kind::Transport,
            verdict,
            &told,
            &mut it,
        );
        assert!(ruling == Ruling::Ask);
        self.decided(&mut it) == Ruling::Pass
    }

    /// Returns the programs' ruling on a packet of a determined flow.
    fn decided(&self, it: &mut Guard) -> Ruling {
        let mut ruling = guard(self, it);
        if ruling == Ruling::Prove {
            ruling = self.proven(it, false);
            if ruling == Ruling::Pass {
                ruling = guard(self, it);
            }
        }
        if ruling == Ruling::Begin {
            if !it.is_ingress() && it.proven == 0 && self.proven(it, false) != Ruling::Pass {
                return Ruling::Drop;
            }
            ruling = begin(self, it);
        }
        ruling
    }

    fn proven(&self, it: &mut Guard, link: bool) -> Ruling {
        let asked = way_back(it).destination;
        let ways = self.ways.borrow();
        let way = ways.iter().find(|(address, _)| *address == asked);
        prove(self, way.map_or(ReturnPath::Elsewhere, |it| it.1), link, it)
    }
}

/// No bytes: the headers are known.
#[derive(Clone, Copy)]
struct Nothing;

impl Packet for Nothing {
    fn len(self) -> u32 {
        0
    }
    fn front(self) -> Option<crate::packet::Front> {
        None
    }

    fn front_v6(self) -> Option<crate::packet::FrontV6> {
        None
    }
    fn load<const N: usize>(self, _: u32) -> Option<[u8; N]> {
        None
    }
    fn store<const N: usize>(self, _: u32, _: &[u8; N], _: bool) -> bool {
        false
    }
    fn truncate(self, _: u32) -> bool {
        false
    }
    fn grow(self, _: u32, _: crate::packet::OuterHeader) -> bool {
        false
    }
    fn shrink(self, _: u32) -> bool {
        false
    }
}

fn tuple(from: Address, to: Address, protocol: Protocol) -> Tuple {
    Tuple::new(from, Port::new(1_000), to, Port::new(80), protocol)
}

fn sent(protocol: Protocol, flags: u8) -> Seen {
    Seen {
        out: true,
        tuple: tuple(POD, PEER, protocol),
        to: None,
        flags,
        from: DEVICE,
        hardware: OWN,
    }
}

fn answer(seen: Seen, flags: u8) -> Seen {
    Seen {
        out: !seen.out,
        tuple: seen.to.unwrap_or(seen.tuple).reversed(),
        to: None,
        flags,
        from: UPLINK,
        hardware: OWN,
    }
}

const SYN: u8 = TcpFlags::SYN;
const ACK: u8 = TcpFlags::ACK;

#[test]
fn answers_of_what_is_allowed_pass_and_nothing_else_comes_in() {
    for protocol in [Protocol::TCP, Protocol::UDP, Protocol::SCTP] {
        let world = World::new(false, true);
        let first = sent(protocol, SYN);
        assert!(!world.asked(answer(first, SYN | ACK)), "nothing was asked");
        assert!(world.asked(first));
        assert!(world.asked(answer(first, SYN | ACK)));
        assert!(world.asked(sent(protocol, ACK)));
        let other = Seen {
            tuple: Tuple::new(PEER, Port::new(81), POD, Port::new(1_000), protocol),
            ..answer(first, ACK)
        };
        assert!(!world.asked(other));
    }
}

#[test]
fn a_segment_that_opens_is_no_answer() {
    let world = World::new(false, true);
    let first = sent(Protocol::TCP, SYN);
    assert!(world.asked(first));
    assert!(!world.asked(answer(first, SYN)));
    // An attempt by the peer does not end what was allowed.
    assert!(world.asked(answer(first, ACK)));
}

#[test]
fn an_answer_without_a_connection_comes_in_time_or_not_at_all() {
    let world = World::new(false, true);
    let first = sent(Protocol::UDP, 0);
    assert!(world.asked(first));
    let limit = (u64::from(Timeouts::DEFAULT.udp_replied) * 1_000_000_000) >> Life::TICK;
    world.now.set(1_000 + limit as u32);
    assert!(world.asked(answer(first, 0)), "and it keeps the flow fresh");
    world.now.set(1_000 + 2 * limit as u32 + 1);
    assert!(!world.asked(answer(first, 0)));
    assert!(world.asked(first));
    assert!(world.asked(answer(first, 0)));
}

#[test]
fn what_is_forbidden_ends_for_both_sides_until_it_is_allowed() {
    for protocol in [Protocol::TCP, Protocol::UDP] {
        // The server may answer: its answers open no new flow.
        let world = World::new(true, true);
        let first = sent(protocol, SYN);
        assert!(world.asked(first));
        world.say(true, false);
        assert!(!world.asked(answer(first, ACK)));
        assert!(!world.asked(sent(protocol, ACK)));
        assert!(!world.asked(answer(first, ACK)));
        world.say(true, false);
        assert!(!world.asked(answer(first, ACK)), "as before");
        let counted = world.counted.borrow().clone();
        let ended = counted.iter().filter(|it| **it == Counter::PolicyEnded);
        assert_eq!(ended.count(), 1);
        world.say(true, true);
        assert!(world.asked(answer(first, ACK)));
        assert!(world.asked(sent(protocol, ACK)));
    }
}

#[test]
fn what_was_allowed_goes_on_if_that_is_wanted() {
    let world = World::new(false, true);
    world.config.set(Config {
        flags: ConfigFlags::KEEP_ESTABLISHED,
        ..Config::DEFAULT
    });
    let first = sent(Protocol::TCP, SYN);
    assert!(world.asked(first));
    world.say(false, false);
    assert!(world.asked(sent(Protocol::TCP, ACK)));
    assert!(world.asked(answer(first, ACK)));
}

#[test]
fn kept_flow_is_refreshed_by_its_packets_in_both_directions() {
    let world = World::new(false, true);
    world.config.set(Config {
        flags: ConfigFlags::KEEP_ESTABLISHED,
        ..Config::DEFAULT
    });
    let first = sent(Protocol::UDP, 0);
    assert!(world.asked(first));
    world.say(false, false);
    // Ten minutes in steps of half of the timeout of an answered flow.
    let step = Timeouts::DEFAULT.udp_replied / 2;
    for _ in 0..10 {
        world.now.set(world.now.get() + step);
        world.moment.set(world.moment.get() + step);
        assert!(world.asked(first));
        assert!(world.asked(answer(first, 0)), "tick {}", world.now.get());
    }
    // Without traffic it expires as others do, and is then decided again.
    world.now.set(world.now.get() + 3 * step);
    world.moment.set(world.moment.get() + 3 * step);
    assert!(!world.asked(answer(first, 0)));
}

#[test]
fn a_flow_to_a_service_is_decided_by_who_serves() {
    let world = World::new(false, true);
    // Everybody outside is denied, the pod that serves is not.
    let first = Seen {
        tuple: tuple(POD, VIP, Protocol::TCP),
        to: Some(tuple(POD, PEER, Protocol::TCP)),
        ..sent(Protocol::TCP, SYN)
    };
    let class = PeerEntry {
        peer: 9,
        flags: PeerEntry::POD,
    };
    {
        let mut model = world.model.borrow_mut();
        model.peers.insert((1, 128, PEER), class);
        for (peer, flags) in [(0, 0), (9, PolicyVerdict::ALLOW)] {
            let key = VerdictKey {
                epoch: 1,
                ruleset: 2,
                peer,
                class: 0,
            };
            let cookie = cookies::FIRST;
            model.verdicts.insert(key, PolicyVerdict { cookie, flags });
        }
    }
    assert!(world.asked(first));
    let back = Seen {
        tuple: first.tuple.reversed(),
        ..answer(first, ACK)
    };
    assert!(world.asked(back));
    // Decided again by an answer, which does not show the service.
    world.model.borrow_mut().root.generation += 1;
    assert!(world.asked(back));
    // Served by another from now on: decided again.
    let elsewhere = Seen {
        to: Some(tuple(POD, Address::v4([10, 0, 0, 3]), Protocol::TCP)),
        flags: ACK,
        ..first
    };
    assert!(!world.asked(elsewhere));
}

#[test]
fn the_node_reaches_its_pods_and_who_is_only_shown_as_it_does_not() {
    let world = World::new(false, false);
    let probe = Seen {
        out: false,
        tuple: tuple(NODE, POD, Protocol::TCP),
        to: None,
        flags: SYN,
        from: 0,
        hardware: OWN,
    };
    assert!(world.asked(probe));
    assert!(world.asked(answer(probe, SYN | ACK)));
    let relayed = |from| Seen {
        tuple: Tuple::new(NODE, Port::new(61_000), POD, Port::new(80), Protocol::TCP),
        from,
        ..probe
    };
    assert!(!world.asked(relayed(UPLINK)));
    // What the pod sent to a service that it serves itself.
    assert!(world.asked(relayed(DEVICE)));
    assert!(world.asked(answer(relayed(DEVICE), ACK)));
}

/// Returns the records: the reason, the rule, and the deciding side.
fn told(world: &World) -> Vec<(Counter, u32, u16)> {
    let taken = world.records.take().into_iter();
    taken
        .map(|it| {
            let reason = Counter::of_index(it.reason).expect("a counter");
            assert_eq!(it.device, DEVICE);
            (reason, it.cookie, it.flags)
        })
        .collect()
}

#[test]
fn a_flow_is_told_of_when_it_begins_and_each_drop_and_nothing_in_between() {
    let world = World::new(false, true);
    let first = sent(Protocol::TCP, SYN);
    assert!(world.asked(first));
    let begun = (Counter::PolicyAllowed, cookies::FIRST, FlowRecord::EGRESS);
    assert_eq!(told(&world), [begun]);
    for _ in 0..3 {
        assert!(world.asked(answer(first, ACK)));
        assert!(world.asked(sent(Protocol::TCP, ACK)));
    }
    // Decided again under a new generation, and still allowed.
    world.say(false, true);
    assert!(world.asked(sent(Protocol::TCP, ACK)));
    assert_eq!(told(&world), []);
    // Each packet of a flow that ended, from its opening side, whichever side sends.
    world.say(false, false);
    assert!(!world.asked(answer(first, ACK)));
    let record = world.records.borrow()[0];
    assert_eq!((record.tuple, record.peer), (first.tuple, PEER));
    assert!(!world.asked(sent(Protocol::TCP, ACK)));
    let ended = (Counter::DroppedEnded, cookies::FIRST, FlowRecord::EGRESS);
    assert_eq!(told(&world), [ended, ended]);
    // A client that is not admitted.
    let came = Seen {
        out: false,
        tuple: tuple(PEER, POD, Protocol::UDP),
        to: None,
        flags: 0,
        from: UPLINK,
        hardware: OWN,
    };
    assert!(!world.asked(came));
    let record = world.records.borrow()[0];
    assert_eq!((record.tuple, record.peer), (came.tuple, PEER));
    assert_eq!(record.epoch, 1);
    let denied = (Counter::DroppedIngress, cookies::FIRST, FlowRecord::INGRESS);
    assert_eq!(told(&world), [denied]);
}

#[test]
fn a_service_is_told_as_the_pod_sees_it_and_who_serves_behind_it() {
    let world = World::new(false, false);
    let first = Seen {
        tuple: tuple(POD, VIP, Protocol::TCP),
        to: Some(tuple(POD, PEER, Protocol::TCP)),
        ..sent(Protocol::TCP, SYN)
    };
    assert!(!world.asked(first));
    let record = world.records.borrow()[0];
    assert_eq!(record.tuple, first.tuple);
    assert_eq!((record.peer, record.peer_port), (PEER, Port::new(80)));
}

#[test]
fn another_device_does_not_take_a_flow_up() {
    let world = World::new(false, true);
    let first = sent(Protocol::UDP, 0);
    assert!(world.asked(first));
    let key = first.tuple;
    let mut entry = world.flows.borrow()[&key];
    let other = PolicyFlow {
        device: DEVICE + 1,
        ..entry.flow.unchecked()
    };
    entry.flow = ChecksummedValue::new(&key, other);
    world.flows.borrow_mut().insert(key, entry);
    assert!(!world.asked(answer(first, 0)));
}

#[test]
fn before_anybody_spoke_of_policy_everything_passes_and_is_not_kept() {
    let world = World::new(false, false);
    world.model.borrow_mut().root.epoch = 0;
    assert!(world.asked(sent(Protocol::TCP, SYN)));
    assert!(world.flows.borrow().is_empty());
}

//! Runs random histories of flows over hours, through all kinds of services and with tables that
//! are too small: established connections keep their backend, none starts at a removed backend,
//! answers reach their client, and afterwards the tables drain.
//!
//! `ORLOP_SOAK_CASES` sets the number of histories (default 150).

use std::collections::{BTreeMap, BTreeSet};
use std::format;
use std::vec;

use ebpf_abi::{DirectReturn, FlowFlags, Tuple};
use proptest::prelude::*;
use proptest::sample::Index;

use super::frames::*;
use super::*;
use crate::maps::Entropy as _;
use crate::packet::lifetime::{UNANSWERED, is_pair};

#[derive(Clone, Debug)]
enum Event {
    /// A client sends to a service.
    Send(u16, Index, u8),
    /// The backend answers what the client sent last.
    Answer(u16, Index, u8),
    /// A service has these backends, of those that it may have: a seed, and one in how many
    /// is missing.
    Endpoints(Index, u64, u64),
    /// Ticks pass.
    Wait(u64),
    /// So many clients that are never seen again open connections to a service.
    Flood(u16, Index),
}

struct ServiceUnderTest {
    key: ServiceKey,
    asked: (&'static str, u16),
    flags: ServiceFlags,
    origin: Origin,
    /// All backends that it may have.
    all: Vec<Backend>,
}

impl ServiceUnderTest {
    fn client(&self) -> &'static str {
        if self.origin == Origin::Pod {
            LOCAL[0]
        } else {
            CLIENT[0]
        }
    }

    fn packet(&self, port: u16, flags: u8) -> Vec<u8> {
        let from = (self.client(), port);
        if self.is_datagrams() {
            udp(from, self.asked, b"x")
        } else {
            tcp(from, self.asked, flags, b"")
        }
    }

    fn is_datagrams(&self) -> bool {
        self.key.protocol == Protocol::UDP
    }
}

fn services() -> Vec<ServiceUnderTest> {
    let vip = |port, protocol, flags, origin, count: u16| ServiceUnderTest {
        key: at(VIP[0], port, protocol),
        asked: (VIP[0], port),
        flags,
        origin,
        all: backends(count),
    };
    let (tcp, udp) = (Protocol::TCP, Protocol::UDP);
    let direct = ServiceFlags::DIRECT_RETURN;
    let none = ServiceFlags::NONE;
    let mut all = vec![
        vip(80, tcp, direct, Origin::Device, 40),
        vip(81, udp, direct, Origin::Device, 40),
        vip(82, udp, none, Origin::Pod, 40),
        vip(83, udp, ServiceFlags::AFFINITY, Origin::Pod, 4),
        vip(84, tcp, ServiceFlags::AFFINITY, Origin::Pod, 36),
        vip(85, tcp, direct, Origin::Device, 3),
    ];
    all.push(ServiceUnderTest {
        key: node_port(0, tcp),
        asked: (NODE[0], NODE_PORT),
        flags: none,
        origin: Origin::Device,
        all: backends(2),
    });
    all
}

fn backends(count: u16) -> Vec<Backend> {
    (1..=count)
        .map(|n| backend(&format!("10.244.2.{n}")))
        .collect()
}

/// How many entries and keys there may be.
const CAPACITY: usize = 48;
const PORTS: u16 = 12;

struct World {
    model: Model,
    services: Vec<ServiceUnderTest>,
    /// What each service has.
    current: Vec<Vec<Backend>>,
    /// The last packet of a client that left: what its backend saw.
    seen: BTreeMap<(usize, u16), Read>,
    /// Connections that both sides have established: their backend, and when a packet was
    /// seen last.
    open: BTreeMap<(usize, u16), (Address, u32)>,
    /// The same of handshakes that the client's next ACK completes.
    answered: BTreeMap<(usize, u16), (Address, u32)>,
    /// Clients that have sent a FIN and no SYN since. Answers to them open no connection.
    finished: BTreeSet<(usize, u16)>,
    fresh: u16,
}

impl World {
    fn new() -> Self {
        let mut model = node();
        let config = model.config.as_mut().unwrap();
        config.direct_return = DirectReturn::IPIP;
        (config.first_port, config.last_port) = (61_000, 61_000 + PORTS - 1);
        (model.flows_capacity, model.log_capacity) = (Some(CAPACITY), Some(CAPACITY));
        let services = services();
        let mut world = Self {
            model,
            current: vec![Vec::new(); services.len()],
            services,
            seen: BTreeMap::new(),
            open: BTreeMap::new(),
            answered: BTreeMap::new(),
            finished: BTreeSet::new(),
            fresh: 0,
        };
        for number in 0..world.services.len() {
            world.endpoints(number, 0, u64::MAX);
        }
        world
    }

    /// Writes a service's next generation, and removes the former.
    fn endpoints(&mut self, number: usize, seed: u64, one_in: u64) {
        let service = &self.services[number];
        let mut random = seed;
        let mut there = |_: &&Backend| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            !(random >> 33).is_multiple_of(one_in)
        };
        let backends: Vec<_> = service.all.iter().filter(&mut there).copied().collect();
        let set = u32::try_from(number).unwrap() + 1;
        let former = self.model.services.get(&service.key);
        let generation = former.map_or(0, |it| it.unchecked().generation) + 1;
        self.model.slots.retain(|key, _| key.set != set);
        self.model.members.retain(|key, _| key.set != set);
        let entry = Service {
            set,
            generation,
            count: u32::try_from(backends.len()).unwrap(),
            flags: service.flags,
            affinity_seconds: 300,
            table: 0,
        };
        self.model.put(service.key, entry, &backends);
        self.current[number] = backends;
    }

    fn is_current(&self, number: usize, backend: Address) -> bool {
        self.current[number].iter().any(|it| it.address == backend)
    }

    fn send(&mut self, number: usize, port: u16, flags: u8) {
        let service = &self.services[number];
        let what = (number, port);
        let opens = !service.is_datagrams() && flags == SYN;
        let established = self.is_established(number, port);
        if flags & FIN != 0 {
            self.finished.insert(what);
        } else if flags == SYN {
            self.finished.remove(&what);
        }
        let (verdict, out, _) = run(&self.model, service.origin, &service.packet(port, flags));
        self.seen.remove(&what);
        let left = match verdict {
            PacketVerdict::Drop | PacketVerdict::Pass | PacketVerdict::Refuse => {
                assert!(
                    !self.open.contains_key(&what) || opens,
                    "an open connection is cut: {what:?} {verdict:?}"
                );
                self.open.remove(&what);
                return;
            }
            _ => read(&out),
        };
        let backend = Address::from(left.to);
        let direct = verdict == PacketVerdict::Encapsulate;
        if service.is_datagrams() || (opens && (direct || !established)) {
            assert!(
                self.is_current(number, backend),
                "{what:?} begins at a backend that left"
            );
        }
        let now = self.model.ticks();
        if let Some((theirs, used)) = self.open.get_mut(&what) {
            assert!(
                *theirs == backend || opens,
                "{what:?} is sent to another backend"
            );
            *used = now;
        }
        match (flags, direct) {
            _ if service.is_datagrams() => {}
            (SYN | RST, _) => {
                self.open.remove(&what);
                self.answered.remove(&what);
                if flags == SYN && direct {
                    self.answered.insert(what, (backend, now));
                }
            }
            (ACK, _) => {
                if self
                    .answered
                    .remove(&what)
                    .is_some_and(|it| it.0 == backend)
                {
                    self.open.insert(what, (backend, now));
                }
            }
            _ => {
                self.open.remove(&what);
                self.answered.remove(&what);
            }
        }
        if !direct {
            self.seen.insert(what, left);
        }
    }

    /// Does the table hold a connection of both directions that drains?
    fn is_established(&self, number: usize, port: u16) -> bool {
        let service = &self.services[number];
        let key = Tuple::new(
            address(service.client()),
            Port::new(port),
            address(service.asked.0),
            Port::new(service.asked.1),
            service.key.protocol,
        );
        let flows = self.model.flows.borrow();
        flows
            .get(&key)
            .is_some_and(|it| it.life.seen() & Life::ESTABLISHED != 0)
    }

    fn answer(&mut self, number: usize, port: u16, flags: u8) {
        let what = (number, port);
        let Some(seen) = self.seen.get(&what) else {
            return;
        };
        let service = &self.services[number];
        let (from, to) = (format!("{}", seen.to), format!("{}", seen.from));
        let (from, to) = ((&*from, seen.ports.1), (&*to, seen.ports.0));
        let packet = if service.is_datagrams() {
            udp(from, to, b"y")
        } else {
            tcp(from, to, flags, b"")
        };
        let (verdict, out, _) = run(&self.model, Origin::Device, &packet);
        if verdict == PacketVerdict::Pass {
            assert!(!self.open.contains_key(&what), "{what:?} is not answered");
            return;
        }
        assert!(matches!(
            verdict,
            PacketVerdict::Translate | PacketVerdict::Forward
        ));
        let back = read(&out).way();
        let (asked, client) = (service.asked, service.client());
        let expected = format!("{}:{} > {client}:{port}", address(asked.0), asked.1);
        // Its port may be another client's since, if the flow was over.
        if self.open.contains_key(&what) {
            assert_eq!(back, expected);
        }
        if service.is_datagrams() || back != expected {
            return;
        }
        match flags {
            FIN | RST => {
                self.open.remove(&what);
                self.answered.remove(&what);
            }
            _ => {
                let answered = (Address::from(seen.to), self.model.ticks());
                if let Some(open) = self.open.get_mut(&what) {
                    *open = answered;
                } else if !self.finished.contains(&what) {
                    self.answered.insert(what, answered);
                }
            }
        }
    }

    fn wait(&mut self, ticks: u64) {
        let now = self.model.now.get();
        self.model.now.set(now + (ticks << Life::TICK));
        // Connections may expire shortly before their timeout. A full table also evicts half open
        // ones, after `UNANSWERED` idle ticks.
        let now = self.model.ticks();
        self.answered
            .retain(|_, (_, used)| now - *used <= UNANSWERED);
        self.open.retain(|_, (_, used)| now - *used < 80_000);
    }

    /// What is true at all times.
    fn check(&self) {
        let (flows, log) = (self.model.flows.borrow(), self.model.log.borrow());
        assert!(flows.len() <= CAPACITY && log.len() <= CAPACITY);
        for (key, entry) in flows.iter() {
            let flow = entry.flow.open(key).expect("sealed");
            if flow.flags.contains(FlowFlags::REPLY) {
                let client = flows.get(&flow.to.reversed());
                assert!(
                    client.is_some_and(|it| is_pair(key, it)),
                    "an answer without its question"
                );
            } else {
                let queued = log.iter().any(|it| it.key() == *key);
                assert!(queued, "a flow that nobody will collect");
            }
        }
    }

    fn flood(&mut self, count: u16, number: usize) {
        for _ in 0..count {
            self.fresh += 1;
            let port = 10_000 + self.fresh;
            self.send(number, port, SYN);
        }
    }

    /// After silence, new connections find only what is new.
    fn drain(&mut self) {
        self.wait(90_000);
        let since = self.model.now.get();
        for round in 0..3 * CAPACITY {
            self.flood(1, round % 2 * 5);
            self.wait(70);
            self.check();
        }
        let flows = self.model.flows.borrow();
        let since = (since >> Life::TICK) as u32;
        assert!(flows.values().all(|it| it.life.used() >= since));
        assert!(flows.len() <= 8, "{} flows are left", flows.len());
        let left = self.model.log.borrow().len();
        assert!(left <= 8, "{left} keys are left");
    }
}

fn events() -> impl Strategy<Value = Event> {
    let flags = prop::sample::select(vec![SYN, ACK, ACK, FIN | ACK, RST, ACK]);
    let answers = prop::sample::select(vec![SYN | ACK, SYN | ACK, ACK, FIN, RST]);
    let ticks = prop::sample::select(vec![0, 1, 5, 12, 40, 70, 130, 700, 4_000, 90_000]);
    prop_oneof![
        8 => (0..12_u16, any::<Index>(), flags).prop_map(|(a, b, c)| Event::Send(a, b, c)),
        6 => (0..12_u16, any::<Index>(), answers).prop_map(|(a, b, c)| Event::Answer(a, b, c)),
        1 => (any::<Index>(), any::<u64>(), 2..20_u64)
            .prop_map(|(a, b, c)| Event::Endpoints(a, b, c)),
        2 => ticks.prop_map(Event::Wait),
        1 => (1..30_u16, any::<Index>()).prop_map(|(a, b)| Event::Flood(a, b)),
    ]
}

fn cases() -> u32 {
    let wanted = std::env::var("ORLOP_SOAK_CASES").ok();
    wanted.and_then(|it| it.parse().ok()).unwrap_or(150)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn tables_drain_and_nothing_begins_at_a_backend_that_left(
        events in prop::collection::vec(events(), 1..250),
    ) {
        let mut world = World::new();
        let count = world.services.len();
        for event in events {
            match event {
                Event::Send(client, to, flags) => {
                    world.send(to.index(count), 4000 + client, flags);
                }
                Event::Answer(client, to, flags) => {
                    world.answer(to.index(count), 4000 + client, flags);
                }
                Event::Endpoints(of, seed, one_in) => {
                    world.endpoints(of.index(count), seed, one_in);
                }
                Event::Wait(ticks) => world.wait(ticks),
                Event::Flood(clients, to) => world.flood(clients, to.index(count)),
            }
            world.check();
        }
        world.drain();
    }
}

/// A FIN followed by a stray SYN-ACK and ACK does not make an established connection.
#[test]
fn nothing_opens_after_a_fin() {
    let mut world = World::new();
    world.send(4, 4000, FIN | ACK);
    world.answer(4, 4000, SYN | ACK);
    world.send(4, 4000, ACK);
    assert!(world.open.is_empty());
    world.wait(4_000);
    world.answer(4, 4000, SYN | ACK);
    world.check();
}

/// A client that comes back to a half closed connection's port has a whole connection.
#[test]
fn a_syn_after_a_fin_opens_anew() {
    let mut world = World::new();
    world.send(4, 4000, FIN | ACK);
    world.send(4, 4000, SYN);
    world.answer(4, 4000, SYN | ACK);
    world.send(4, 4000, ACK);
    world.wait(4_000);
    world.answer(4, 4000, ACK);
    world.check();
}

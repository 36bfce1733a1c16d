//! The maps as ordinary collections, for tests and for tools that run the decisions on a
//! copy of the kernel's maps.
//!
//! They cannot show values overwritten while they are read, eviction from full maps, or
//! the verifier's judgement.

use core::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::vec::Vec;

use ebpf_abi::{
    Address, Affinity, AffinityKey, Backend, BackendFlags, CONFIG_KEY, ChecksummedValue, Config,
    Counter, FlowEntry, FlowLogKey, FragmentKey, FragmentPorts, Life, MaglevChunk, MaglevKey,
    MemberKey, NodeFlags, Original, OriginalKey, Port, Protocol, Range, Service, ServiceEntryKinds,
    ServiceKey, SlotKey, Tuple,
};

use crate::maps::{Entropy, FlowBeginner, Flows, InsertOutcome, Maps};
use crate::packet::{Front, FrontV6, Origin, OuterHeader, Packet, PacketVerdict, Step, Work, take};
use crate::socket::{Family, Peer, Socket};

/// Maps in memory; all public, so that tests may write anything.
#[derive(Default, Debug)]
pub struct Model {
    /// `SERVICES`.
    pub services: BTreeMap<ServiceKey, ChecksummedValue<Service>>,
    /// `SLOTS`.
    pub slots: BTreeMap<SlotKey, ChecksummedValue<Backend>>,
    /// `MEMBERS`.
    pub members: BTreeMap<MemberKey, u32>,
    /// `ORIGINALS`.
    pub originals: RefCell<BTreeMap<OriginalKey, ChecksummedValue<Original>>>,
    /// `AFFINITY`.
    pub affinity: RefCell<BTreeMap<AffinityKey, ChecksummedValue<Affinity>>>,
    /// `MAGLEV`.
    pub maglev: BTreeMap<MaglevKey, ChecksummedValue<MaglevChunk>>,
    /// `NODES`.
    pub nodes: BTreeMap<Address, NodeFlags>,
    /// `INSIDE`: prefix and range.
    pub inside: BTreeSet<(u32, Range)>,
    /// `EGRESS`, of those that pods reach with the node's address.
    pub leaving: BTreeSet<(u32, Range)>,
    /// Who began flows of pods, of `POLICY_FLOWS`.
    pub beginners: BTreeMap<Tuple, FlowBeginner>,
    /// `SOURCES`: prefix and range.
    pub sources: BTreeSet<(u32, Range)>,
    /// `CONFIG`.
    pub config: Option<Config>,
    /// `FLOWS`.
    pub flows: RefCell<BTreeMap<Tuple, FlowEntry>>,
    /// `FLOW_LOG`.
    pub log: RefCell<VecDeque<FlowLogKey>>,
    /// `FRAGMENTS`.
    pub fragments: RefCell<BTreeMap<FragmentKey, ChecksummedValue<FragmentPorts>>>,
    /// How many entries `FLOWS` takes; none: any number.
    pub flows_capacity: Option<usize>,
    /// How many keys `FLOW_LOG` takes; none: any number.
    pub log_capacity: Option<usize>,
    /// `COUNTERS`.
    pub counters: RefCell<BTreeMap<Counter, u64>>,
    /// The logged events.
    pub told: RefCell<Vec<(Counter, ServiceKey)>>,
    /// How many entries `ORIGINALS` takes; none: any number.
    pub originals_capacity: Option<usize>,
    /// The next random number.
    pub random: Cell<u32>,
    /// The time.
    pub now: Cell<u64>,
}

/// A socket in a hook.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModelSocket {
    /// Family of the address.
    pub family: Family,
    /// Protocol.
    pub protocol: Protocol,
    /// The address.
    pub peer: Peer,
    /// The socket's cookie.
    pub cookie: u64,
    /// Its namespace's cookie.
    pub namespace: u64,
}

// === impl Model ===

impl Model {
    /// Writes a service with its backends, as user space does.
    pub fn put(&mut self, key: ServiceKey, service: Service, backends: &[Backend]) {
        for (number, backend) in backends.iter().enumerate() {
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            let slot = SlotKey::new(service.set, service.generation, number);
            self.slots
                .insert(slot, ChecksummedValue::new(&slot, *backend));
            let member = MemberKey::new(
                service.set,
                service.generation,
                backend.address,
                backend.port,
            );
            self.members.insert(member, number);
            if service.is_large() && backend.flags.contains(BackendFlags::LOCAL) {
                let key = MemberKey::of_address(service.set, service.generation, backend.address);
                self.members.entry(key).or_insert(number);
            }
        }
        self.services
            .insert(key, ChecksummedValue::new(&key, service));
    }

    /// How often something was counted.
    #[must_use]
    pub fn counted(&self, counter: Counter) -> u64 {
        self.counters
            .borrow()
            .get(&counter)
            .copied()
            .unwrap_or_default()
    }
}

impl Maps for Model {
    fn served(&self, protocol: Protocol, port: Port) -> ServiceEntryKinds {
        if ServiceEntryKinds::place(protocol, port).is_none() {
            return ServiceEntryKinds::NONE;
        }
        let keys = self.services.keys();
        keys.filter(|key| (key.protocol, key.port) == (protocol, port))
            .fold(ServiceEntryKinds::NONE, |all, key| {
                all.with(ServiceEntryKinds::from_key(key))
            })
    }

    fn service(&self, key: &ServiceKey) -> Option<ChecksummedValue<Service>> {
        self.services.get(key).copied()
    }

    fn slot(&self, key: &SlotKey) -> Option<ChecksummedValue<Backend>> {
        self.slots.get(key).copied()
    }

    fn member(&self, key: &MemberKey) -> Option<u32> {
        self.members.get(key).copied()
    }

    fn place(&self, key: &MaglevKey, place: u32) -> Option<u16> {
        let chunk = self.maglev.get(key)?.open(key)?;
        chunk.0.get(place as usize).copied()
    }

    fn node(&self, address: &Address) -> Option<NodeFlags> {
        self.nodes.get(address).copied()
    }

    fn config(&self) -> Option<Config> {
        self.config
    }

    fn original(&self, key: &OriginalKey) -> Option<ChecksummedValue<Original>> {
        self.originals.borrow().get(key).copied()
    }

    fn remember(&self, key: &OriginalKey, value: &ChecksummedValue<Original>) -> bool {
        let mut originals = self.originals.borrow_mut();
        if self
            .originals_capacity
            .is_some_and(|most| originals.len() >= most)
            && !originals.contains_key(key)
        {
            return false;
        }
        originals.insert(*key, *value);
        true
    }

    fn forget(&self, key: &OriginalKey) {
        self.originals.borrow_mut().remove(key);
    }

    fn affinity(&self, key: &AffinityKey) -> Option<ChecksummedValue<Affinity>> {
        self.affinity.borrow().get(key).copied()
    }

    fn keep(&self, key: &AffinityKey, value: &ChecksummedValue<Affinity>) {
        self.affinity.borrow_mut().insert(*key, *value);
    }

    fn count(&self, counter: Counter) {
        *self.counters.borrow_mut().entry(counter).or_default() += 1;
    }

    fn tell(&self, what: Counter, asked: &ServiceKey) {
        self.told.borrow_mut().push((what, *asked));
    }
}

impl Entropy for Model {
    fn random(&self) -> u32 {
        // A Weyl sequence: reproducible, and every value comes up.
        let next = self.random.get().wrapping_add(0x9e37_79b9);
        self.random.set(next);
        next
    }

    fn now(&self) -> u64 {
        self.now.get()
    }

    fn ticks(&self) -> u32 {
        (self.now.get() >> Life::TICK) as u32
    }
}

impl Flows for Model {
    type Place = Tuple;

    fn read_config(&self, into: &mut ChecksummedValue<Config>) -> bool {
        match self.config {
            Some(config) => {
                *into = ChecksummedValue::new(&CONFIG_KEY, config);
                true
            }
            None => false,
        }
    }

    fn is_inside(&self, address: Address) -> bool {
        holds(&self.inside, 0, address)
    }

    fn leaves(&self, address: Address) -> bool {
        holds(&self.leaving, 0, address)
    }

    fn beginner(&self, of: &Tuple) -> Option<FlowBeginner> {
        self.beginners.get(of).copied()
    }

    fn is_source(&self, set: u32, address: Address) -> bool {
        holds(&self.sources, set, address)
    }

    fn may_be_flow(&self, key: &Tuple) -> bool {
        self.flows.borrow().contains_key(key)
    }

    fn flow(&self, key: &Tuple, into: &mut FlowEntry) -> Option<Tuple> {
        *into = *self.flows.borrow().get(key)?;
        Some(*key)
    }

    fn set_life(&self, place: Tuple, life: Life) {
        if let Some(entry) = self.flows.borrow_mut().get_mut(&place) {
            entry.life = life;
        }
    }

    fn add_flow(&self, key: &Tuple, entry: &FlowEntry) -> InsertOutcome {
        let mut flows = self.flows.borrow_mut();
        if flows.contains_key(key) {
            return InsertOutcome::Taken;
        }
        if self.flows_capacity.is_some_and(|most| flows.len() >= most) {
            return InsertOutcome::Full;
        }
        flows.insert(*key, *entry);
        InsertOutcome::Yes
    }

    fn replace_flow(&self, key: &Tuple, entry: &FlowEntry) -> bool {
        let mut flows = self.flows.borrow_mut();
        let Some(former) = flows.get_mut(key) else {
            return false;
        };
        *former = *entry;
        true
    }

    fn remove_flow(&self, key: &Tuple) {
        self.flows.borrow_mut().remove(key);
    }

    fn log(&self, key: &FlowLogKey) -> bool {
        let mut log = self.log.borrow_mut();
        if self.log_capacity.is_some_and(|most| log.len() >= most) {
            return false;
        }
        log.push_back(*key);
        true
    }

    fn first_logged(&self, into: &mut FlowLogKey) -> bool {
        let first = self.log.borrow().front().copied();
        *into = first.unwrap_or(*into);
        first.is_some()
    }

    fn unlog(&self, into: &mut FlowLogKey) -> bool {
        let first = self.log.borrow_mut().pop_front();
        *into = first.unwrap_or(*into);
        first.is_some()
    }

    fn step(&self, step: Step, origin: Origin, work: &mut Work) -> PacketVerdict {
        take(self, step, origin, work)
    }

    fn fragment(&self, key: &FragmentKey) -> Option<ChecksummedValue<FragmentPorts>> {
        self.fragments.borrow().get(key).copied()
    }

    fn keep_fragment(&self, key: &FragmentKey, value: &ChecksummedValue<FragmentPorts>) {
        self.fragments.borrow_mut().insert(*key, *value);
    }
}

/// Returns whether the address is in one of the ranges under a number.
fn holds(ranges: &BTreeSet<(u32, Range)>, number: u32, address: Address) -> bool {
    let asked = Range::new(number, address);
    let bit = |range: &Range, at: u32| {
        let octets = Address::from_words(range.address).octets();
        octets[(at / 8) as usize] >> (7 - at % 8) & 1
    };
    ranges.iter().any(|(prefix, range)| {
        range.number == number
            && (0..prefix.saturating_sub(32)).all(|at| bit(range, at) == bit(&asked, at))
    })
}

/// A frame in memory.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a>(pub &'a RefCell<Vec<u8>>);

impl Packet for Frame<'_> {
    fn len(self) -> u32 {
        u32::try_from(self.0.borrow().len()).unwrap_or(u32::MAX)
    }

    fn front(self) -> Option<Front> {
        let link = self.load::<2>(Front::LINK as u32)?;
        let bytes = self.load::<{ Front::WORDS * 4 }>(Front::START as u32)?;
        let mut words = [0; Front::WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = u32::from_ne_bytes(bytes.try_into().unwrap_or_default());
        }
        Some(Front {
            link: u16::from_ne_bytes(link),
            words,
        })
    }

    fn front_v6(self) -> Option<FrontV6> {
        let bytes = self.load::<{ Front::WORDS_V6 * 4 }>(Front::START as u32)?;
        let mut words = [0; Front::WORDS_V6];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = u32::from_ne_bytes(bytes.try_into().unwrap_or_default());
        }
        Some(words)
    }

    fn load<const N: usize>(self, at: u32) -> Option<[u8; N]> {
        let bytes = self.0.borrow();
        let at = at as usize;
        bytes.get(at..at.checked_add(N)?)?.try_into().ok()
    }

    fn store<const N: usize>(self, at: u32, bytes: &[u8; N], _summed: bool) -> bool {
        let mut all = self.0.borrow_mut();
        let at = at as usize;
        match all.get_mut(at..at + N) {
            Some(part) => {
                part.copy_from_slice(bytes);
                true
            }
            None => false,
        }
    }

    fn truncate(self, length: u32) -> bool {
        self.0.borrow_mut().truncate(length as usize);
        true
    }

    fn grow(self, bytes: u32, _outer: OuterHeader) -> bool {
        let mut all = self.0.borrow_mut();
        if all.len() < LINK {
            return false;
        }
        all.splice(LINK..LINK, std::iter::repeat_n(0, bytes as usize));
        true
    }

    fn shrink(self, bytes: u32) -> bool {
        let mut all = self.0.borrow_mut();
        let end = LINK + bytes as usize;
        if all.len() < end {
            return false;
        }
        all.drain(LINK..end);
        true
    }
}

/// Bytes of an Ethernet header.
const LINK: usize = 14;

// === impl ModelSocket ===

impl ModelSocket {
    /// A socket that names a peer.
    #[must_use]
    pub fn new(family: Family, protocol: Protocol, address: Address, port: Port) -> Self {
        Self {
            family,
            protocol,
            peer: Peer { address, port },
            cookie: 1,
            namespace: 1,
        }
    }
}

impl Socket for ModelSocket {
    fn family(&self) -> Family {
        self.family
    }

    fn protocol(&self) -> Protocol {
        self.protocol
    }

    fn peer(&self) -> Peer {
        self.peer
    }

    fn set_peer(&mut self, peer: Peer) {
        // The part that an `AF_INET` address cannot hold is lost, as in the kernel.
        self.peer = match self.family {
            Family::V4 => Peer {
                address: Address::v4(peer.address.last_word().to_ne_bytes()),
                port: peer.port,
            },
            Family::V6 => peer,
        };
    }

    fn cookie(&self) -> u64 {
        self.cookie
    }

    fn namespace(&self) -> u64 {
        self.namespace
    }
}

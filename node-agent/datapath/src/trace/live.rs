//! The pinned maps as the decisions read them, with a note of every look.
//!
//! What a decision writes goes to a layer above the maps, from which it is read
//! back: the maps stay as they are.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use ebpf_abi::policy::PolicyFlowEntry;
use ebpf_abi::{
    AS_NODE, Address, Affinity, AffinityKey, Backend, BackendFlags, CONFIG_KEY, ChecksummedValue,
    Config, Counter, Flow, FlowEntry, FlowFlags, FlowLogKey, FragmentKey, FragmentPorts, Life,
    MaglevChunk, MaglevKey, MemberKey, NodeFlags, Original, OriginalKey, Plain, Port, Prefix,
    Protocol, Scope, Service, ServiceEntryKinds, ServiceFlags, ServiceKey, SetName, SlotKey, Tuple,
    maps,
};
use ebpf_logic::packet::{Origin, PacketVerdict, Step, Work, take};
use ebpf_logic::{Entropy, FlowBeginner, Flows, InsertOutcome, Maps};

use super::{EndpointChoice, MapRead};
use crate::configuration::Configuration;
use crate::error::Error;
use crate::sys;
use crate::table::Table;

/// The pinned maps, with a record of lookups.
pub(super) struct Live {
    services: Table<ServiceKey, ChecksummedValue<Service>>,
    slots: Table<SlotKey, ChecksummedValue<Backend>>,
    members: Table<MemberKey, u32>,
    maglev: Table<MaglevKey, ChecksummedValue<MaglevChunk>>,
    nodes: Table<Address, NodeFlags>,
    sources: Table<Prefix, u32>,
    inside: Table<Prefix, u32>,
    served: Table<u32, u64>,
    egress: Table<Prefix, u32>,
    policy_flows: Table<Tuple, PolicyFlowEntry>,
    names: Table<u32, SetName>,
    affinity: Table<AffinityKey, ChecksummedValue<Affinity>>,
    config: Configuration,
    flows: Table<Tuple, FlowEntry>,
    fragments: Table<FragmentKey, ChecksummedValue<FragmentPorts>>,
    /// Flows that the decision made or, with none, removed.
    made: RefCell<BTreeMap<Tuple, Option<FlowEntry>>>,
    full: OnceCell<bool>,
    pub(super) looks: RefCell<Vec<MapRead>>,
    pub(super) counted: RefCell<Vec<Counter>>,
    pub(super) how: Cell<Option<EndpointChoice>>,
    /// The service that decided.
    pub(super) set: Cell<Option<u32>>,
    failed: RefCell<Option<Error>>,
}

// === impl Live ===

impl Live {
    pub(super) fn open(directory: &Path) -> Result<Self, Error> {
        Ok(Self {
            services: Table::open(directory, maps::SERVICES)?,
            slots: Table::open(directory, maps::SLOTS)?,
            members: Table::open(directory, maps::MEMBERS)?,
            maglev: Table::open(directory, maps::MAGLEV)?,
            nodes: Table::open(directory, maps::NODES)?,
            sources: Table::open(directory, maps::SOURCES)?,
            inside: Table::open(directory, maps::INSIDE)?,
            served: Table::open(directory, maps::SERVED)?,
            egress: Table::open(directory, maps::EGRESS)?,
            policy_flows: Table::open(directory, maps::POLICY_FLOWS)?,
            names: Table::open(directory, maps::NAMES)?,
            affinity: Table::open(directory, maps::AFFINITY)?,
            config: Configuration::open(directory)?,
            flows: Table::open(directory, maps::FLOWS)?,
            fragments: Table::open(directory, maps::FRAGMENTS)?,
            made: RefCell::default(),
            full: OnceCell::new(),
            looks: RefCell::default(),
            counted: RefCell::default(),
            how: Cell::new(None),
            set: Cell::new(None),
            failed: RefCell::default(),
        })
    }

    /// Forgets what was noted, for the next walk.
    pub(super) fn begin(&self) {
        self.looks.borrow_mut().clear();
        self.counted.borrow_mut().clear();
        self.made.borrow_mut().clear();
        self.how.set(None);
        self.set.set(None);
    }

    /// A map that could not be read made a decision worthless.
    pub(super) fn end(&self) -> Result<(), Error> {
        self.failed.borrow_mut().take().map_or(Ok(()), Err)
    }

    /// The node, without a note.
    pub(super) fn node_config(&self) -> Option<Config> {
        self.noted(self.config.get())
    }

    /// Is it one of the node's addresses? Without a note.
    pub(super) fn is_own(&self, address: Address) -> bool {
        self.read(&self.nodes, &address).is_some()
    }

    /// Is it in a range of pods? Without a note.
    pub(super) fn is_of_pods(&self, address: Address) -> bool {
        self.read(&self.inside, &whole(0, address)).is_some()
    }

    /// A set's name.
    pub(super) fn name(&self, set: u32) -> String {
        self.read(&self.names, &set)
            .map_or_else(|| format!("set {set}"), |name| name.to_string())
    }

    fn read<K: Plain, V: Plain>(&self, table: &Table<K, V>, key: &K) -> Option<V> {
        self.noted(table.get(key))
    }

    /// What was read; an error is for the [end](Self::end).
    fn noted<V>(&self, read: Result<Option<V>, Error>) -> Option<V> {
        match read {
            Ok(value) => value,
            Err(error) => {
                self.failed.borrow_mut().get_or_insert(error);
                None
            }
        }
    }

    fn note(&self, map: &'static str, key: impl Into<String>, found: Option<String>) {
        let look = MapRead {
            map,
            key: key.into(),
            found,
        };
        let mut looks = self.looks.borrow_mut();
        // A decision reads what it needs again rather than carry it along.
        if !looks.contains(&look) {
            looks.push(look);
        }
    }

    fn is_full(&self) -> bool {
        *self.full.get_or_init(|| match self.flows.entries() {
            Ok(all) => all.len() >= self.flows.capacity() as usize,
            Err(error) => {
                self.failed.borrow_mut().get_or_insert(error);
                false
            }
        })
    }

    fn ways(&self, key: &Tuple) -> Option<FlowEntry> {
        match self.made.borrow().get(key) {
            Some(made) => *made,
            None => self.read(&self.flows, key),
        }
    }
}

impl Maps for Live {
    fn served(&self, protocol: Protocol, port: Port) -> ServiceEntryKinds {
        let place = ServiceEntryKinds::place(protocol, port);
        let found = place.map_or(ServiceEntryKinds::NONE, |place| {
            let word = self.read(&self.served, &place.word);
            place.read(word.unwrap_or_default())
        });
        if found == ServiceEntryKinds::NONE {
            let asked = format!("{protocol} port {}", port.get());
            self.note(maps::SERVED, asked, None);
        }
        found
    }

    fn service(&self, key: &ServiceKey) -> Option<ChecksummedValue<Service>> {
        let found = self.read(&self.services, key);
        let service = found.and_then(|sealed| sealed.open(key));
        let told = service.map(|it| {
            self.set.set(Some(it.set));
            self.tell_service(&it)
        });
        self.note(maps::SERVICES, tell_key(key), told);
        found
    }

    fn slot(&self, key: &SlotKey) -> Option<ChecksummedValue<Backend>> {
        let found = self.read(&self.slots, key);
        let told = found.and_then(|sealed| sealed.open(key)).map(|it| {
            let on = if it.flags.contains(BackendFlags::LOCAL) {
                " on this node"
            } else {
                ""
            };
            format!("{}{on}", place(it.address, it.port))
        });
        let asked = format!(
            "slot {} of set {}, generation {}",
            key.slot, key.set, key.generation
        );
        self.note(maps::SLOTS, asked, told);
        found
    }

    fn member(&self, key: &MemberKey) -> Option<u32> {
        let found = self.read(&self.members, key);
        let asked = format!(
            "{} in set {}, generation {}",
            place(key.address, key.port),
            key.set,
            key.generation
        );
        self.note(
            maps::MEMBERS,
            asked,
            found.map(|slot| format!("slot {slot}")),
        );
        found
    }

    fn place(&self, key: &MaglevKey, place: u32) -> Option<u16> {
        let chunk = self.read(&self.maglev, key);
        let found = chunk
            .and_then(|sealed| sealed.open(key))
            .and_then(|chunk| chunk.0.get(place as usize).copied());
        let asked = format!(
            "place {} of the table of set {}, generation {}",
            key.chunk * ebpf_abi::MAGLEV_CHUNK + place,
            key.set,
            key.generation
        );
        self.how.set(Some(EndpointChoice::Maglev));
        self.note(
            maps::MAGLEV,
            asked,
            found.map(|slot| format!("slot {slot}")),
        );
        found
    }

    fn node(&self, address: &Address) -> Option<NodeFlags> {
        let found = self.read(&self.nodes, address);
        let told = found.map(|flags| {
            let serves = flags.contains(NodeFlags::PORTS);
            let here = flags.contains(NodeFlags::LOOPBACK);
            match (serves, here) {
                (true, true) => "this node's, serves node ports to its own processes",
                (true, false) => "this node's, serves node ports",
                _ => "this node's, serves no node ports",
            }
            .to_owned()
        });
        self.note(maps::NODES, IpAddr::from(*address).to_string(), told);
        found
    }

    fn config(&self) -> Option<Config> {
        self.node_config()
    }

    fn original(&self, _key: &OriginalKey) -> Option<ChecksummedValue<Original>> {
        // Of answers only.
        None
    }

    fn remember(&self, _key: &OriginalKey, _value: &ChecksummedValue<Original>) -> bool {
        // The least recently used one goes where there is no room.
        true
    }

    fn forget(&self, _key: &OriginalKey) {}

    fn affinity(&self, key: &AffinityKey) -> Option<ChecksummedValue<Affinity>> {
        let found = self.read(&self.affinity, key);
        let client = key.namespace().map_or_else(
            || IpAddr::from(key.client).to_string(),
            |cookie| format!("the network namespace {cookie}"),
        );
        let told = found.and_then(|sealed| sealed.open(key)).map(|it| {
            let idle = self.now().saturating_sub(it.used) / 1_000_000_000;
            format!("{}, used {idle} s ago", place(it.address, it.port))
        });
        self.note(maps::AFFINITY, format!("{client} in set {}", key.set), told);
        found
    }

    fn keep(&self, _key: &AffinityKey, _value: &ChecksummedValue<Affinity>) {}

    fn count(&self, counter: Counter) {
        if counter == Counter::AffinityKept {
            self.how.set(Some(EndpointChoice::Affinity));
        }
        self.counted.borrow_mut().push(counter);
    }

    fn tell(&self, _what: Counter, _asked: &ServiceKey) {}
}

impl Entropy for Live {
    fn random(&self) -> u32 {
        self.how.set(Some(EndpointChoice::Random));
        // Any: the next one of a real call is another.
        (sys::monotonic() as u32).wrapping_mul(0x9e37_79b9)
    }

    fn now(&self) -> u64 {
        sys::monotonic()
    }

    fn ticks(&self) -> u32 {
        (sys::monotonic() >> Life::TICK) as u32
    }
}

impl Flows for Live {
    type Place = Tuple;

    fn read_config(&self, into: &mut ChecksummedValue<Config>) -> bool {
        let Some(config) = self.node_config() else {
            self.note(maps::CONFIG, "the node", None);
            return false;
        };
        *into = ChecksummedValue::new(&CONFIG_KEY, config);
        true
    }

    fn is_inside(&self, address: Address) -> bool {
        let inside = self.is_of_pods(address);
        let told = inside.then(|| "in a range of pods".to_owned());
        self.note(maps::INSIDE, IpAddr::from(address).to_string(), told);
        inside
    }

    fn leaves(&self, address: Address) -> bool {
        let leaves = self.read(&self.egress, &whole(0, address)) == Some(AS_NODE);
        let told = leaves.then(|| "pods reach it as the node".to_owned());
        self.note(maps::EGRESS, IpAddr::from(address).to_string(), told);
        leaves
    }

    fn beginner(&self, of: &Tuple) -> Option<FlowBeginner> {
        let entry = self.read(&self.policy_flows, of);
        let beginner = entry.and_then(|it| FlowBeginner::from_flow(it.flow.as_unchecked()));
        let told = beginner.map(|it| match it {
            FlowBeginner::Pod => "the pod began it".to_owned(),
            FlowBeginner::Peer => "its peer began it".to_owned(),
        });
        self.note(maps::POLICY_FLOWS, tell_tuple(of), told);
        beginner
    }

    fn is_source(&self, set: u32, address: Address) -> bool {
        let found = self.read(&self.sources, &whole(set, address)).is_some();
        let told = found.then(|| "in one of its source ranges".to_owned());
        let asked = format!("{} in set {set}", IpAddr::from(address));
        self.note(maps::SOURCES, asked, told);
        found
    }

    fn flow(&self, key: &Tuple, into: &mut FlowEntry) -> Option<Tuple> {
        let found = self.ways(key);
        let told = found.map(|entry| match entry.flow.open(key) {
            Some(flow) => tell_flow(&flow, entry.life),
            None => "an entry that is just being replaced".to_owned(),
        });
        self.note(maps::FLOWS, tell_tuple(key), told);
        *into = found?;
        Some(*key)
    }

    fn set_life(&self, _place: Tuple, _life: Life) {}

    fn add_flow(&self, key: &Tuple, entry: &FlowEntry) -> InsertOutcome {
        if let Some(theirs) = self.ways(key) {
            let told = theirs
                .flow
                .open(key)
                .map(|flow| tell_flow(&flow, theirs.life));
            self.note(maps::FLOWS, format!("{} is free?", tell_tuple(key)), told);
            return InsertOutcome::Taken;
        }
        if self.is_full() {
            self.note(maps::FLOWS, "room", None);
            return InsertOutcome::Full;
        }
        self.made.borrow_mut().insert(*key, Some(*entry));
        InsertOutcome::Yes
    }

    fn replace_flow(&self, key: &Tuple, entry: &FlowEntry) -> bool {
        if self.ways(key).is_none() {
            return false;
        }
        self.made.borrow_mut().insert(*key, Some(*entry));
        true
    }

    fn remove_flow(&self, key: &Tuple) {
        self.made.borrow_mut().insert(*key, None);
    }

    fn log(&self, _key: &FlowLogKey) -> bool {
        true
    }

    fn first_logged(&self, _into: &mut FlowLogKey) -> bool {
        false
    }

    fn unlog(&self, _into: &mut FlowLogKey) -> bool {
        // The log cannot be read without taking from it. What is over counts as
        // absent anyhow; only room is not found here where a packet would make it.
        false
    }

    fn fragment(&self, key: &FragmentKey) -> Option<ChecksummedValue<FragmentPorts>> {
        self.read(&self.fragments, key)
    }

    fn step(&self, step: Step, origin: Origin, work: &mut Work) -> PacketVerdict {
        if step == Step::Select {
            // What follows is chosen by the packet, if nothing else decides.
            self.how.set(Some(EndpointChoice::Hash));
        }
        let verdict = take(self, step, origin, work);
        if step == Step::Track && verdict != PacketVerdict::Unknown {
            self.how.set(Some(EndpointChoice::Flow));
        }
        verdict
    }

    fn keep_fragment(&self, _key: &FragmentKey, _value: &ChecksummedValue<FragmentPorts>) {}
}

impl Live {
    fn tell_service(&self, it: &Service) -> String {
        let mut text = format!(
            "set {} ({}), generation {}, endpoints: {}",
            it.set,
            self.name(it.set),
            it.generation,
            it.count
        );
        let words = [
            (ServiceFlags::AFFINITY, "clients keep theirs"),
            (ServiceFlags::LOCAL_ONLY, "those of this node only"),
            (ServiceFlags::SCOPED, "clients outside have another entry"),
            (ServiceFlags::SOURCES, "some clients only"),
            (ServiceFlags::MAGLEV, "consistent hashing"),
            (ServiceFlags::DIRECT_RETURN, "answered directly"),
            (ServiceFlags::DROP_EMPTY, "silent without endpoint"),
        ];
        for (_, word) in words.iter().filter(|(flag, _)| it.flags.contains(*flag)) {
            text.push_str(", ");
            text.push_str(word);
        }
        text
    }
}

/// The key with which tries are asked for the range of an address.
fn whole(number: u32, address: Address) -> Prefix {
    let bits = if address.is_v4() { 32 } else { 128 };
    Prefix::new(number, address, bits)
}

fn place(address: Address, port: Port) -> SocketAddr {
    SocketAddr::new(address.into(), port.get())
}

fn tell_key(key: &ServiceKey) -> String {
    let from = if key.scope == Scope::EXTERNAL {
        ", from outside"
    } else {
        ""
    };
    let protocol: Protocol = key.protocol;
    if key.address == key.address.wildcard() {
        let family = if key.address.is_v4() { "IPv4" } else { "IPv6" };
        format!(
            "port {} of the node, {family} {protocol}{from}",
            key.port.get()
        )
    } else {
        format!("{} {protocol}{from}", place(key.address, key.port))
    }
}

fn tell_tuple(it: &Tuple) -> String {
    format!(
        "{} to {}",
        place(it.source, it.source_port),
        place(it.destination, it.destination_port)
    )
}

fn tell_flow(flow: &Flow, life: Life) -> String {
    let now = (sys::monotonic() >> Life::TICK) as u32;
    let idle = (u64::from(now.saturating_sub(life.used())) << Life::TICK) / 1_000_000_000;
    let what = if flow.flags.contains(FlowFlags::REPLY) {
        "answers become"
    } else {
        "packets become"
    };
    format!("a flow, idle for {idle} s: {what} {}", tell_tuple(&flow.to))
}

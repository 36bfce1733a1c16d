//! The kernel's maps.

use core::mem::MaybeUninit;

use aya_ebpf::bindings::{BPF_EXIST, BPF_F_NO_PREALLOC, BPF_NOEXIST};
use aya_ebpf::helpers::{
    bpf_get_prandom_u32, bpf_jiffies64, bpf_ktime_get_coarse_ns, bpf_ktime_get_ns,
    bpf_map_peek_elem, bpf_map_pop_elem,
};
use aya_ebpf::macros::map;
use aya_ebpf::maps::lpm_trie::Key;
use aya_ebpf::maps::{Array, HashMap, LpmTrie, LruHashMap, PerCpuArray, Queue};
use ebpf_abi::policy::{
    EndpointKey, EndpointPolicy, PeerEntry, PolicyFlowEntry, PolicyRoot, PolicyVerdict,
    PortClasses, RuleName, VerdictKey,
};
use ebpf_abi::{
    AS_NODE, Address, Affinity, AffinityKey, Backend, Bandwidth, BandwidthKey, CONFIG_KEY,
    ChecksummedValue, Config, ConfigFlags, Counter, FlowEntry, FlowFlags, FlowLogKey, FlowPort,
    FlowPorts, FragmentKey, FragmentPorts, Life, MAGLEV_CHUNK, MaglevChunk, MaglevKey, MemberKey,
    NodeFlags, Original, OriginalKey, Plain, Port, Protocol, Range, STREAMS, Service,
    ServiceEntryKinds, ServiceKey, SetName, SlotKey, Tuple,
};
use ebpf_logic::packet::{Origin, PacketVerdict, Step, Work, is_strange};
use ebpf_logic::policy::{Guard, PolicyFlows, PolicyMaps, Recent, VerdictReason};
use ebpf_logic::{Entropy, FlowBeginner, Flows, InsertOutcome, Maps};

const WORD: usize = size_of::<u64>();
const EEXIST: i32 = 17;

// Sizes are defaults: user space sets them when it makes the maps.

#[map]
static SERVICES: HashMap<ServiceKey, ChecksummedValue<Service>> =
    HashMap::with_max_entries(65_536, BPF_F_NO_PREALLOC);
#[map]
static SLOTS: HashMap<SlotKey, ChecksummedValue<Backend>> =
    HashMap::with_max_entries(524_288, BPF_F_NO_PREALLOC);
#[map]
static MEMBERS: HashMap<MemberKey, u32> = HashMap::with_max_entries(131_072, BPF_F_NO_PREALLOC);
#[map]
static MAGLEV: HashMap<MaglevKey, ChecksummedValue<MaglevChunk>> =
    HashMap::with_max_entries(65_536, BPF_F_NO_PREALLOC);
#[map]
static SOURCES: LpmTrie<Range, u32> = LpmTrie::with_max_entries(65_536, 0);
#[map]
static NODES: HashMap<Address, NodeFlags> = HashMap::with_max_entries(1_024, BPF_F_NO_PREALLOC);
#[map]
static INSIDE: LpmTrie<Range, u32> = LpmTrie::with_max_entries(1_024, 0);
#[map]
static SERVED: Array<u64> = Array::with_max_entries(ServiceEntryKinds::WORDS, 0);
#[map]
static EGRESS: LpmTrie<Range, u32> = LpmTrie::with_max_entries(4_096, 0);
#[map]
static NAMES: HashMap<u32, SetName> = HashMap::with_max_entries(65_536, BPF_F_NO_PREALLOC);
#[map]
static ORIGINALS: LruHashMap<OriginalKey, ChecksummedValue<Original>> =
    LruHashMap::with_max_entries(65_536, 0);
#[map]
static STREAM_ORIGINALS: Array<ChecksummedValue<Original>> = Array::with_max_entries(STREAMS, 0);
#[map]
static AFFINITY: LruHashMap<AffinityKey, ChecksummedValue<Affinity>> =
    LruHashMap::with_max_entries(65_536, 0);
#[map]
pub(crate) static CONFIG: Array<ChecksummedValue<Config>> = Array::with_max_entries(1, 0);
#[map]
static CONFIG_AHEAD: Array<ChecksummedValue<Config>> = Array::with_max_entries(1, 0);
// Preallocated, so that a flow never fails for lack of memory, only for lack of room.
#[map]
static FLOWS: HashMap<Tuple, FlowEntry> = HashMap::with_max_entries(131_072, 0);
#[map]
static FLOW_PORTS: Array<FlowPorts> = Array::with_max_entries(FlowPorts::ELEMENTS, 0);
// A place for each entry of FLOWS: a flow that is answered directly has one, others two.
#[map]
static FLOW_LOG: Queue<FlowLogKey> = Queue::with_max_entries(131_072, 0);
#[map]
static FRAGMENTS: LruHashMap<FragmentKey, ChecksummedValue<FragmentPorts>> =
    LruHashMap::with_max_entries(8_192, 0);
#[map]
static COUNTERS: PerCpuArray<u64> = PerCpuArray::with_max_entries(Counter::CAPACITY, 0);

// Policy. `PORTS` is read for every port: an array.
#[map]
static POLICY_ROOT: Array<PolicyRoot> = Array::with_max_entries(1, 0);
#[map]
static PEERS: LpmTrie<Range, PeerEntry> = LpmTrie::with_max_entries(65_536, 0);
#[map]
static ENDPOINTS: HashMap<EndpointKey, ChecksummedValue<EndpointPolicy>> =
    HashMap::with_max_entries(8_192, BPF_F_NO_PREALLOC);
#[map]
static PORTS: Array<PortClasses> = Array::with_max_entries(PortClasses::ENTRIES, 0);
#[map]
static VERDICTS: HashMap<VerdictKey, ChecksummedValue<PolicyVerdict>> =
    HashMap::with_max_entries(262_144, BPF_F_NO_PREALLOC);
#[map]
static RULES: HashMap<u32, RuleName> = HashMap::with_max_entries(65_536, BPF_F_NO_PREALLOC);
// An evicted flow is decided again at its next packet.
#[map]
static POLICY_FLOWS: LruHashMap<Tuple, PolicyFlowEntry> = LruHashMap::with_max_entries(131_072, 0);
#[map]
pub(crate) static BANDWIDTH: HashMap<BandwidthKey, Bandwidth> =
    HashMap::with_max_entries(8_192, BPF_F_NO_PREALLOC);
/// Packets that this processor passed a moment ago: only it reads or writes them.
#[map]
static RECENT: PerCpuArray<Recent> = PerCpuArray::with_max_entries(Recent::PLACES, 0);
/// The duration of a moment, in the kernel's own ticks (`HZ`), as a power of two: 32 to
/// 320 ms.
const MOMENT: u32 = 5;

/// The kernel's maps, clock and random numbers.
pub(crate) struct Kernel;

impl Maps for Kernel {
    #[inline(always)]
    fn served(&self, protocol: Protocol, port: Port) -> ServiceEntryKinds {
        let Some(place) = ServiceEntryKinds::place(protocol, port) else {
            return ServiceEntryKinds::NONE;
        };
        // SAFETY: as for `copy`; a single word is read at once.
        SERVED
            .get_ptr(place.word)
            .map_or(ServiceEntryKinds::NONE, |word| {
                place.read(unsafe { word.read_volatile() })
            })
    }

    #[inline(always)]
    fn service(&self, key: &ServiceKey) -> Option<ChecksummedValue<Service>> {
        SERVICES.get_ptr(key).map(copy)
    }

    #[inline(always)]
    fn is_service(&self, key: &ServiceKey) -> bool {
        SERVICES.get_ptr(key).is_some()
    }

    #[inline(always)]
    fn slot(&self, key: &SlotKey) -> Option<ChecksummedValue<Backend>> {
        SLOTS.get_ptr(key).map(copy)
    }

    #[inline(always)]
    fn member(&self, key: &MemberKey) -> Option<u32> {
        // SAFETY: as for `copy`; a single word is read at once.
        MEMBERS
            .get_ptr(key)
            .map(|slot| unsafe { slot.read_volatile() })
    }

    #[inline(always)]
    fn place(&self, key: &MaglevKey, place: u32) -> Option<u16> {
        let chunk = MAGLEV.get_ptr(key).map(copy)?.open(key)?;
        // In range for certain, which the verifier cannot know.
        Some(chunk.0[(place % MAGLEV_CHUNK) as usize])
    }

    #[inline(always)]
    fn node(&self, address: &Address) -> Option<NodeFlags> {
        // SAFETY: as for `copy`; a single word is read at once.
        NODES
            .get_ptr(address)
            .map(|flags| unsafe { flags.read_volatile() })
    }

    #[inline(always)]
    fn config(&self) -> Option<Config> {
        let whole =
            |map: &Array<ChecksummedValue<Config>>| map.get_ptr(0).map(copy)?.open(&CONFIG_KEY);
        whole(&CONFIG).or_else(|| whole(&CONFIG_AHEAD))
    }

    #[inline(always)]
    fn switches(&self) -> ConfigFlags {
        let Some(config) = CONFIG.get_ptr(0) else {
            return ConfigFlags::NONE;
        };
        // SAFETY: as for `copy`; a single word is read at once.
        unsafe { core::ptr::addr_of!((*ChecksummedValue::value_at(config)).flags).read_volatile() }
    }

    #[inline(always)]
    fn original(&self, key: &OriginalKey) -> Option<ChecksummedValue<Original>> {
        if key.protocol != Protocol::UDP
            && let Some(place) = STREAM_ORIGINALS.get_ptr(key.place())
        {
            let found = copy(place);
            if found.is_whole(key) {
                return Some(found);
            }
        }
        ORIGINALS.get_ptr(key).map(copy)
    }

    // A stream socket has one peer, so that its cookie determines a place. A
    // least-recently-used hash table instead would take three quarters of the cost of a
    // call to a service.
    #[inline(always)]
    fn remember(&self, key: &OriginalKey, value: &ChecksummedValue<Original>) -> bool {
        if key.protocol == Protocol::UDP {
            return ORIGINALS.insert(key, value, 0).is_ok();
        }
        let Some(place) = STREAM_ORIGINALS.get_ptr_mut(key.place()) else {
            return false;
        };
        // SAFETY: the pointer is to a value of this map, which programs alone
        // write: half written, no key opens it.
        unsafe { place.write_volatile(*value) };
        true
    }

    #[inline(always)]
    fn forget(&self, key: &OriginalKey) {
        // Usually there is none, and the lookup takes no lock.
        if ORIGINALS.get_ptr(key).is_some() {
            let _ = ORIGINALS.remove(key);
        }
    }

    #[inline(always)]
    fn affinity(&self, key: &AffinityKey) -> Option<ChecksummedValue<Affinity>> {
        AFFINITY.get_ptr(key).map(copy)
    }

    #[inline(always)]
    fn keep(&self, key: &AffinityKey, value: &ChecksummedValue<Affinity>) {
        // Least recently used entries make room; a lost one costs a client
        // its backend, no more.
        let _ = AFFINITY.insert(key, value, 0);
    }

    #[inline(always)]
    fn count(&self, counter: Counter) {
        if let Some(value) = COUNTERS.get_ptr_mut(counter.index()) {
            // SAFETY: the pointer is to this processor's value. A program
            // that is preempted by another may lose a count.
            unsafe { *value = (*value).wrapping_add(1) };
        }
    }

    #[inline(always)]
    fn tell(&self, what: Counter, asked: &ServiceKey) {
        crate::log::log_event(what, asked);
    }
}

impl Entropy for Kernel {
    #[inline(always)]
    fn random(&self) -> u32 {
        // SAFETY: the helper takes nothing.
        unsafe { bpf_get_prandom_u32() }
    }

    #[inline(always)]
    fn now(&self) -> u64 {
        // SAFETY: the helper takes nothing.
        unsafe { bpf_ktime_get_ns() }
    }

    #[inline(always)]
    fn ticks(&self) -> u32 {
        // SAFETY: the helper takes nothing.
        (unsafe { bpf_ktime_get_coarse_ns() } >> Life::TICK) as u32
    }
}

impl Flows for Kernel {
    type Place = *mut FlowEntry;

    #[inline(always)]
    fn read_config(&self, into: &mut ChecksummedValue<Config>) -> bool {
        let mut whole = |map: &Array<ChecksummedValue<Config>>| {
            let Some(config) = map.get_ptr(0) else {
                return false;
            };
            copy_to(config, into);
            into.is_whole(&CONFIG_KEY)
        };
        whole(&CONFIG) || whole(&CONFIG_AHEAD)
    }

    #[inline(always)]
    fn is_inside(&self, address: Address) -> bool {
        INSIDE
            .get(&Key::new(Range::WHOLE, Range::new(0, address)))
            .is_some()
    }

    #[inline(always)]
    fn leaves(&self, address: Address) -> bool {
        EGRESS
            .get(&Key::new(Range::WHOLE, Range::new(0, address)))
            .is_some_and(|way| *way == AS_NODE)
    }

    #[inline(always)]
    fn beginner(&self, of: &Tuple) -> Option<FlowBeginner> {
        let entry = POLICY_FLOWS.get_ptr(of).map(copy)?;
        FlowBeginner::from_flow(entry.flow.as_unchecked())
    }

    #[inline(always)]
    fn is_source(&self, set: u32, address: Address) -> bool {
        SOURCES
            .get(&Key::new(Range::WHOLE, Range::new(set, address)))
            .is_some()
    }

    #[inline(always)]
    fn may_be_flow(&self, key: &Tuple) -> bool {
        let (from, to) = (key.source_port, key.destination_port);
        may_be(FlowPort::Asked, key.protocol, to)
            || (may_be(FlowPort::Answering, key.protocol, from)
                && may_be(FlowPort::Answered, key.protocol, to))
    }

    #[inline(always)]
    fn flow(&self, key: &Tuple, into: &mut FlowEntry) -> Option<*mut FlowEntry> {
        let place = FLOWS.get_ptr_mut(key)?;
        copy_to(place, into);
        Some(place)
    }

    #[inline(always)]
    fn set_life(&self, place: *mut FlowEntry, life: Life) {
        // SAFETY: the map returned the pointer to this very run, so that its memory stays
        // a value of this map; a single word is written at once.
        unsafe { core::ptr::addr_of_mut!((*place).life).write_volatile(life) };
    }

    #[inline(always)]
    fn add_flow(&self, key: &Tuple, entry: &FlowEntry) -> InsertOutcome {
        take_ports(key, entry);
        match FLOWS.insert(key, entry, u64::from(BPF_NOEXIST)) {
            Ok(()) => InsertOutcome::Yes,
            Err(error) if error == -EEXIST => InsertOutcome::Taken,
            Err(_) => InsertOutcome::Full,
        }
    }

    #[inline(always)]
    fn replace_flow(&self, key: &Tuple, entry: &FlowEntry) -> bool {
        // Its ports were taken when it was added.
        FLOWS.insert(key, entry, u64::from(BPF_EXIST)).is_ok()
    }

    #[inline(always)]
    fn remove_flow(&self, key: &Tuple) {
        // It is fine if there was none.
        let _ = FLOWS.remove(key);
    }

    #[inline(always)]
    fn log(&self, key: &FlowLogKey) -> bool {
        FLOW_LOG.push(key, 0).is_ok()
    }

    // Copied into place directly: functions that create flows have no stack to spare.
    #[inline(always)]
    fn first_logged(&self, into: &mut FlowLogKey) -> bool {
        // SAFETY: the map's values are as long as their destination.
        unsafe { bpf_map_peek_elem(flow_log(), core::ptr::from_mut(into).cast()) == 0 }
    }

    #[inline(always)]
    fn unlog(&self, into: &mut FlowLogKey) -> bool {
        // SAFETY: as above.
        unsafe { bpf_map_pop_elem(flow_log(), core::ptr::from_mut(into).cast()) == 0 }
    }

    #[inline(always)]
    fn step(&self, step: Step, origin: Origin, work: &mut Work) -> PacketVerdict {
        crate::steps::take(step, origin, work)
    }

    #[inline(always)]
    fn fragment(&self, key: &FragmentKey) -> Option<ChecksummedValue<FragmentPorts>> {
        FRAGMENTS.get_ptr(key).map(copy)
    }

    #[inline(always)]
    fn keep_fragment(&self, key: &FragmentKey, value: &ChecksummedValue<FragmentPorts>) {
        // Least recently used entries make room.
        let _ = FRAGMENTS.insert(key, value, 0);
    }
}

impl PolicyMaps for Kernel {
    #[inline(always)]
    fn policy_root(&self) -> PolicyRoot {
        POLICY_ROOT.get_ptr(0).map(copy).unwrap_or_default()
    }

    #[inline(always)]
    fn peer(&self, range: &Range) -> Option<PeerEntry> {
        // Nodes of a trie are replaced, never written.
        PEERS.get(&Key::new(Range::WHOLE, *range)).copied()
    }

    #[inline(always)]
    fn endpoint(&self, key: &EndpointKey) -> Option<ChecksummedValue<EndpointPolicy>> {
        ENDPOINTS.get_ptr(key).map(copy)
    }

    #[inline(always)]
    fn ports(&self, element: u32) -> Option<PortClasses> {
        PORTS.get_ptr(element).map(copy)
    }

    #[inline(always)]
    fn verdict(&self, key: &VerdictKey) -> Option<ChecksummedValue<PolicyVerdict>> {
        VERDICTS.get_ptr(key).map(copy)
    }
}

impl PolicyFlows for Kernel {
    type Place = *mut PolicyFlowEntry;

    #[inline(always)]
    fn policy_flow(&self, key: &Tuple, into: &mut PolicyFlowEntry) -> Option<*mut PolicyFlowEntry> {
        let place = POLICY_FLOWS.get_ptr_mut(key)?;
        copy_to(place, into);
        Some(place)
    }

    #[inline(always)]
    fn touch(&self, place: *mut PolicyFlowEntry, used: u64) {
        // SAFETY: as for `set_life`.
        unsafe { core::ptr::addr_of_mut!((*place).used).write_volatile(used) };
    }

    #[inline(always)]
    fn put_policy_flow(&self, key: &Tuple, entry: &PolicyFlowEntry) -> bool {
        POLICY_FLOWS.insert(key, entry, 0).is_ok()
    }

    #[inline(always)]
    fn read_node(&self, into: &mut ChecksummedValue<Config>) -> bool {
        self.read_config(into)
    }

    #[inline(always)]
    fn clock(&self) -> u32 {
        self.ticks()
    }

    // A load from memory, where a clock is a call.
    #[inline(always)]
    fn moment(&self) -> u32 {
        // SAFETY: the helper takes nothing.
        (unsafe { bpf_jiffies64() } >> MOMENT) as u32
    }

    #[inline(always)]
    fn is_strange(&self, tuple: &Tuple) -> bool {
        is_strange(self, tuple)
    }

    #[inline(always)]
    fn is_recent(&self, place: u32, recent: &Recent) -> bool {
        let Some(kept) = RECENT.get_ptr(place) else {
            return false;
        };
        let asked = core::ptr::from_ref(recent).cast::<u64>();
        let mut word = 0;
        while word < size_of::<Recent>() / WORD {
            // SAFETY: this processor's value, which is as long and as aligned.
            if unsafe { kept.cast::<u64>().add(word).read() != asked.add(word).read() } {
                return false;
            }
            word += 1;
        }
        true
    }

    #[inline(always)]
    fn keep_recent(&self, place: u32, recent: &Recent) {
        if let Some(kept) = RECENT.get_ptr_mut(place) {
            // SAFETY: this processor's value; programs at devices do not interrupt one
            // another.
            unsafe { kept.write(*recent) };
        }
    }

    #[inline(always)]
    fn tally(&self, counter: Counter) {
        self.count(counter);
    }

    #[inline(always)]
    fn report(&self, guard: &Guard, why: &VerdictReason) {
        crate::record::verdict(guard, why);
    }
}

/// `FLOW_LOG` as helpers take it.
#[inline(always)]
fn flow_log() -> *mut core::ffi::c_void {
    core::ptr::addr_of!(FLOW_LOG).cast_mut().cast()
}

/// Returns whether there may be flows under a port.
#[inline(always)]
fn may_be(which: FlowPort, protocol: Protocol, port: Port) -> bool {
    let Some(place) = FlowPorts::place(which, protocol, port) else {
        return true;
    };
    // SAFETY: as for `copy`; a single byte of the element is read.
    FLOW_PORTS
        .get_ptr(place.element)
        .is_none_or(|element| unsafe {
            element
                .cast::<u8>()
                .add(place.byte as usize)
                .read_volatile()
                != 1
        })
}

/// Says that there may be flows under the ports of a key, before there is one.
#[inline(always)]
fn take_ports(key: &Tuple, entry: &FlowEntry) {
    let reply = entry.flow.as_unchecked().flags.contains(FlowFlags::REPLY);
    for place in FlowPorts::for_flow(key, reply).into_iter().flatten() {
        orlop_take_port(place.element, place.byte);
    }
}

/// A separate function for its stack: functions that create flows have none to spare.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn orlop_take_port(element: u32, byte: u32) -> u32 {
    if let Some(ports) = FLOW_PORTS.get_ptr_mut(element) {
        // SAFETY: as for `copy`; programs write no other values, and a single byte at
        // once. It is read first, so that a shared byte is not rewritten for each flow.
        unsafe {
            let byte = ports.cast::<u8>().add((byte % 8) as usize);
            if byte.read_volatile() != 0 {
                byte.write_volatile(0);
            }
        }
    }
    0
}

/// Copies a value of a map to memory of this processor, word by word.
#[inline(always)]
fn copy_to<T: Plain>(value: *const T, into: &mut T) {
    let to = core::ptr::from_mut(into).cast::<u64>();
    let mut word = 0;
    while word < size_of::<T>() / WORD {
        // SAFETY: as for `copy`; `into` is as long and as aligned.
        unsafe {
            to.add(word)
                .write(value.cast::<u64>().add(word).read_volatile());
        }
        word += 1;
    }
}

/// Copies a value out of its map, once: checks apply to the copy. Word by word, so that
/// the copy may live in registers: the stack is 512 bytes for a program and everything
/// that it calls.
#[inline(always)]
fn copy<T: Plain>(value: *const T) -> T {
    let mut copied = MaybeUninit::<T>::uninit();
    let mut word = 0;
    while word < size_of::<T>() / WORD {
        // SAFETY: the map returned the pointer, and BPF programs run inside an RCU read
        // section, so that its memory stays a value of this map, aligned to eight bytes.
        // It may be overwritten concurrently: `T` is plain data, and its readers check
        // it. The copy is as long.
        unsafe {
            let from = value.cast::<u64>().add(word);
            copied
                .as_mut_ptr()
                .cast::<u64>()
                .add(word)
                .write(from.read_volatile());
        }
        word += 1;
    }
    // SAFETY: plain data whose words, of which it is made (`fold` in
    // `ebpf_abi` asserts it for all that is sealed), are all written.
    unsafe { copied.assume_init() }
}

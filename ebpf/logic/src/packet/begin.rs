//! Packets that begin a flow.

use ebpf_abi::{
    Address, AffinityKey, Backend, BackendFlags, ChecksummedValue, Config, ConfigFlags, Counter,
    DirectReturn, Flow, FlowEntry, FlowFlags, Life, Port, Protocol, Service, ServiceEntryKinds,
    ServiceFlags, ServiceKey, Tuple,
};

use super::headers::TcpFlags;
use super::lifetime::{FRESH, idle, is_over, is_pair, log, together, yields_port};
use super::track::{direct_return, first_seen, way};
use super::{Fragment, Origin, PacketVerdict, Search, Step, Work};
use crate::found_backend::FoundBackend;
use crate::lookup::{Admission, Choice, LookupClient, addressed, choose_at, scale};
use crate::maps::{Flows, InsertOutcome};

/// Entries that lead to the one that decides: the address's own, the node
/// ports', and the one for clients outside.
const ENTRIES: u32 = 3;
/// The number of lookups for a service that changes concurrently.
const AGAIN: u32 = 4;
/// How often the entry for replies is tried to be added.
const REPLIES: u32 = 8;
/// Ports that are tried at random for a client before the others are.
const RANDOM_PORTS: u32 = 16;
/// Ports that a run of the search tries, and runs: together more than the default range.
const RUN: u32 = 64;
const RUNS: u32 = 128;

/// Begins a flow, if the packet addresses a service.
#[inline(always)]
pub fn begin<M: Flows>(maps: &M, origin: Origin, work: &mut Work) -> PacketVerdict {
    let verdict = attempt(maps, origin, work);
    // The connection is served elsewhere; its next packets do not belong to the former
    // flow.
    if verdict == PacketVerdict::Pass && work.stale != 0 {
        maps.step(Step::Forget, origin, work);
    }
    verdict
}

#[inline(always)]
fn attempt<M: Flows>(maps: &M, origin: Origin, work: &mut Work) -> PacketVerdict {
    // Most packets address none, and little else matters to them.
    let asked = &work.headers.tuple;
    let serves = maps.served(asked.protocol, asked.destination_port) != ServiceEntryKinds::NONE
        && maps.step(Step::Ask, origin, work) == PacketVerdict::Unknown;
    if !serves && origin != Origin::Pod {
        return PacketVerdict::Pass;
    }
    if serves {
        if is_left_to_kernel(maps, work) {
            return PacketVerdict::Pass;
        }
        let mut attempt = 0;
        loop {
            let verdict = maps.step(Step::Select, origin, work);
            attempt += 1;
            if verdict == PacketVerdict::Unknown {
                break;
            }
            let unstable =
                verdict == PacketVerdict::Drop && work.counter == Counter::DroppedUnstable;
            if !unstable || attempt == AGAIN {
                return verdict;
            }
        }
    }
    if origin == Origin::Pod {
        let leaves = if serves { Step::Hide } else { Step::Leave };
        let verdict = maps.step(leaves, origin, work);
        if verdict != PacketVerdict::Unknown {
            return verdict;
        }
    }
    let made = maps.step(Step::Add, origin, work);
    if made != PacketVerdict::Unknown {
        return made;
    }
    work.counter = Counter::PacketTranslated;
    way(origin, work)
}

/// Whether a packet that addresses a service may belong to a connection that the kernel's
/// connection tracking translates ([`ConfigFlags::LEAVE_UNKNOWN_STREAMS`]).
#[inline(always)]
fn is_left_to_kernel<M: Flows>(maps: &M, work: &Work) -> bool {
    work.headers.tuple.protocol == Protocol::TCP
        && !work.headers.flags.has(TcpFlags::SYN)
        && maps.switches().contains(ConfigFlags::LEAVE_UNKNOWN_STREAMS)
}

/// Returns whether the packet addresses a service, as far as that is known without its
/// client. The destination of `work.to` is then the address of the entry.
#[inline(always)]
pub(super) fn addresses_service<M: Flows>(maps: &M, work: &mut Work) -> bool {
    let asked = &work.headers.tuple;
    let mut key = ServiceKey::internal(asked.destination, asked.destination_port, asked.protocol);
    let found = addressed(maps, &mut key);
    work.to.destination = key.address;
    found
}

/// Chooses a backend of the service that [`asks`] found and says in `work.to`,
/// `work.other.flow` and `work.entry` what becomes of the flow; [`PacketVerdict::Unknown`] if
/// all is well. Else the destination of `work.to` is as it was.
#[inline(always)]
pub(super) fn select<M: Flows>(maps: &M, origin: Origin, work: &mut Work) -> PacketVerdict {
    let asked = work.headers.tuple;
    let mut key = ServiceKey::internal(work.to.destination, asked.destination_port, asked.protocol);
    let served = ServiceEntryKinds::ADDRESS.with(ServiceEntryKinds::NODE);
    if !maps.read_config(&mut work.config) {
        return PacketVerdict::Pass;
    }
    let client = Client {
        maps,
        asked: &work.headers.tuple,
        origin,
        seed: work.config().seed,
        chosen: if work.tunnel == 0 {
            None
        } else {
            Some(work.outer)
        },
    };
    let mut found = FoundBackend::NOTHING;
    let choice = choose_at::<ENTRIES, _, _>(maps, &mut key, served, &client, &mut found);
    work.found = found;
    match choice {
        Choice::NoService | Choice::Undecided => return PacketVerdict::Pass,
        _ if work.headers.fragment == Fragment::LATER => {
            return work.drop(Counter::DroppedFragment);
        }
        Choice::Backend => {}
        Choice::NotAdmitted => return work.drop(Counter::DroppedSource),
        Choice::Silent => return work.drop(Counter::DroppedEmpty),
        Choice::Unstable => return work.drop(Counter::DroppedUnstable),
        Choice::NoEndpoint | Choice::NoLocalEndpoint => {
            work.counter = Counter::PacketRefused;
            return PacketVerdict::Refuse;
        }
    }
    let FoundBackend { service, backend } = work.found;
    if work.headers.flags.has(TcpFlags::RST) {
        // A FIN or RST of an unknown flow.
        return PacketVerdict::Pass;
    }
    if asked.destination.is_v4() != backend.address.is_v4() {
        return work.drop(Counter::DroppedFamily);
    }
    let flags = flags(maps, origin, &asked, &service, &backend, work);
    let mut source = asked.source;
    if flags.contains(FlowFlags::MASQUERADED) {
        source = work.config().node(asked.destination);
        if source == Address::UNSPECIFIED {
            return work.drop(Counter::DroppedNoAddress);
        }
    }
    if asked.protocol == Protocol::SCTP
        && work.headers.fragment != Fragment::WHOLE
        && backend.port != asked.destination_port
        && !flags.contains(FlowFlags::DIRECT)
    {
        return work.drop(Counter::DroppedSctpPort);
    }
    work.now = maps.ticks();
    work.to = Tuple::new(
        source,
        asked.source_port,
        backend.address,
        backend.port,
        asked.protocol,
    );
    // The seal comes with the ports.
    work.other.flow = ChecksummedValue::broken(Flow {
        to: work.to,
        set: service.set,
        generation: service.generation,
        flags,
        reserved: 0,
    });
    PacketVerdict::Unknown
}

#[inline(always)]
fn flags<M: Flows>(
    maps: &M,
    origin: Origin,
    asked: &Tuple,
    service: &Service,
    backend: &Backend,
    work: &Work,
) -> FlowFlags {
    let config = work.config();
    let local = backend.flags.contains(BackendFlags::LOCAL);
    let outside = is_outside(maps, origin, asked.source);
    let mut flags = FlowFlags::NONE;
    if local {
        flags = flags.with(FlowFlags::LOCAL);
    }
    if outside {
        flags = flags.with(FlowFlags::OUTSIDE);
    }
    let direct = match config.direct_return {
        DirectReturn::NONE => false,
        // The other node chooses independently, and must choose the same backend.
        DirectReturn::LINK => service.flags.contains(ServiceFlags::MAGLEV),
        _ => true,
    };
    if !local
        && origin == Origin::Device
        && work.tunnel == 0
        && service.flags.contains(ServiceFlags::DIRECT_RETURN)
        && direct
    {
        return flags.with(FlowFlags::DIRECT);
    }
    let all = config.flags.contains(ConfigFlags::MASQUERADE_ALL);
    if backend.address == asked.source
        || (origin == Origin::Device && !local)
        || (service.flags.contains(ServiceFlags::CLUSTER_IP)
            && (outside || (all && origin != Origin::Host)))
    {
        return flags.with(FlowFlags::MASQUERADED);
    }
    // A pod of another node, whose other connections that node translates: two
    // from one port to two addresses of a backend would look alike to it.
    if origin == Origin::Device && maps.is_inside(asked.source) {
        flags = flags.with(FlowFlags::RENUMBERED);
    }
    flags
}

/// Makes both entries of a flow; [`PacketVerdict::Unknown`] if all is well.
#[inline(always)]
pub(super) fn add<M: Flows>(maps: &M, work: &mut Work) -> PacketVerdict {
    let mut flow = work.other.flow.unchecked();
    // A former flow of the same client makes room.
    if work.stale != 0 {
        remove_other(maps, work);
    }
    // A process of the node answers through the node anyhow, and the kernel takes
    // no packet from a device that the node sent itself.
    if flow.flags.contains(FlowFlags::MASQUERADED) && maps.node(&work.to.destination).is_some() {
        flow.flags = FlowFlags(flow.flags.0 & !FlowFlags::MASQUERADED.0);
        work.to.source = work.headers.tuple.source;
    }
    if !flow.flags.contains(FlowFlags::DIRECT) {
        let verdict = add_reply(maps, &flow, work);
        if verdict != PacketVerdict::Unknown {
            return verdict;
        }
    }
    work.flow = Flow {
        to: work.to,
        ..flow
    };
    let mut made = maps.step(Step::Forward, Origin::Device, work);
    if made == PacketVerdict::Drop {
        make_room(maps, work);
        made = maps.step(Step::Forward, Origin::Device, work);
    }
    match made {
        PacketVerdict::Unknown => {}
        PacketVerdict::Pass => {
            // Another processor was faster with the same client's packet.
            full(maps, work);
            if maps.flow(&work.headers.tuple, &mut work.entry).is_none() {
                return work.drop(Counter::DroppedUnstable);
            }
            let Some(theirs) = work.entry.flow.open(&work.headers.tuple) else {
                return work.drop(Counter::DroppedUnstable);
            };
            work.to = theirs.to;
            return PacketVerdict::Unknown;
        }
        _ => return full(maps, work),
    }
    maps.count(Counter::FlowCreated);
    let to = work.to;
    maps.step(Step::Collect, Origin::Device, work);
    work.to = to;
    if flow.flags.contains(FlowFlags::DIRECT) {
        return direct_return(work, maps);
    }
    PacketVerdict::Unknown
}

/// Removes both entries of the expired flow in `work.entry`. Its key in the log then
/// finds nothing and is dropped.
#[inline(always)]
pub(super) fn forget<M: Flows>(maps: &M, work: &mut Work) -> PacketVerdict {
    remove_other(maps, work);
    maps.remove_flow(&work.headers.tuple);
    maps.count(Counter::FlowCollected);
    PacketVerdict::Pass
}

/// Removes the entry of the other direction of the flow in `work.entry`.
#[inline(always)]
fn remove_other<M: Flows>(maps: &M, work: &mut Work) {
    let Some(flow) = work.entry.flow.open(&work.headers.tuple) else {
        return;
    };
    if flow.flags.contains(FlowFlags::DIRECT) {
        return;
    }
    work.key = flow.to.reversed();
    if maps.flow(&work.key, &mut work.other).is_some() && is_pair(&work.headers.tuple, &work.other)
    {
        maps.remove_flow(&work.key);
    }
}

/// Adds the entry for replies, under a port that is free.
#[inline(always)]
fn add_reply<M: Flows>(maps: &M, flow: &Flow, work: &mut Work) -> PacketVerdict {
    let given =
        flow.flags.contains(FlowFlags::MASQUERADED) || flow.flags.contains(FlowFlags::RENUMBERED);
    let sctp = work.headers.tuple.protocol == Protocol::SCTP;
    let keeps = !given || sctp;
    // SCTP's sum is over all of a packet: its ports change where they must.
    if !keeps {
        let first = u32::from(work.config().first_port);
        let hash = hash(&work.headers.tuple, work.config().seed) >> 32;
        let next = scale(hash as u32, span(work.config()));
        work.to.source_port = Port::new((first + next) as u16);
    }
    work.flow = *flow;
    // The first port is taken from a flow that has expired only.
    work.search.left = 0;
    let mut full = false;
    let mut searched = false;
    let mut attempt = 0;
    while attempt < REPLIES {
        match maps.step(Step::Reply, Origin::Device, work) {
            PacketVerdict::Unknown => {
                if searched && keeps {
                    maps.count(Counter::PortReplaced);
                }
                return PacketVerdict::Unknown;
            }
            PacketVerdict::Pass => {
                // Another processor may take the port first.
                if maps.step(Step::TakeOver, Origin::Device, work) != PacketVerdict::Unknown {
                    if !searched {
                        begin_search(work);
                    }
                    searched = true;
                    if maps.step(Step::Search, Origin::Device, work) != PacketVerdict::Unknown {
                        return work.drop(Counter::DroppedNoPort);
                    }
                }
            }
            _ => {
                if full {
                    return work.drop(Counter::DroppedFlowsFull);
                }
                full = true;
                make_room(maps, work);
            }
        }
        attempt += 1;
    }
    work.drop(Counter::DroppedNoPort)
}

/// How many ports translated clients get.
#[inline(always)]
fn span(config: &Config) -> u32 {
    u32::from(config.last_port).saturating_sub(u32::from(config.first_port)) + 1
}

/// Begins the search for a port. Where it begins changes with each tick, so that a client
/// that tries again does not meet the same ports.
#[inline(always)]
fn begin_search(work: &mut Work) {
    let seed = work.config().seed.wrapping_add(work.now).wrapping_add(1);
    work.search = Search {
        state: hash(&work.headers.tuple, seed) as u32,
        random: RANDOM_PORTS,
        left: span(work.config()),
        next: 0,
    };
}

/// Looks for a port that is free, or of a flow that is over: first some at random, which
/// nearly always finds one and keeps those in use spread evenly, then each of the range. Of
/// these, one of a connection that is closed will do as well ([`yields_port`]): a range of a few
/// thousand ports would otherwise allow a backend a few dozen connections a second.
/// [`PacketVerdict::Unknown`] if there is one, which `work.to` has then. In two functions, since
/// the verifier walks through each round of a loop.
#[inline(always)]
pub(super) fn search<M: Flows>(maps: &M, work: &mut Work) -> PacketVerdict {
    let mut run = 0;
    while run < RUNS {
        let found = maps.step(Step::SearchRun, Origin::Device, work);
        if found != PacketVerdict::Pass {
            return found;
        }
        run += 1;
    }
    PacketVerdict::Drop
}

/// Looks at the next ports of a [`search`]: [`PacketVerdict::Pass`] if none of these is free,
/// [`PacketVerdict::Drop`] if none is at all.
#[inline(always)]
pub(super) fn search_run<M: Flows>(maps: &M, work: &mut Work) -> PacketVerdict {
    let first = u32::from(work.config().first_port);
    let span = span(work.config());
    let mut step = 0;
    while step < RUN {
        let search = &mut work.search;
        if search.random != 0 {
            search.random -= 1;
            search.state = search
                .state
                .wrapping_mul(0x9e37_79b1)
                .wrapping_add(0x7f4a_7c15);
            search.next = scale(search.state, span);
        } else if search.left != 0 {
            search.left -= 1;
            search.next = if search.next + 1 < span {
                search.next + 1
            } else {
                0
            };
        } else {
            return PacketVerdict::Drop;
        }
        work.to.source_port = Port::new((first + work.search.next) as u16);
        work.key = work.to.reversed();
        if maps.step(Step::TakeOver, Origin::Device, work) == PacketVerdict::Unknown {
            return PacketVerdict::Unknown;
        }
        step += 1;
    }
    PacketVerdict::Pass
}

/// Adds the client's entry of `work.flow` and its key to the log: returns
/// [`PacketVerdict::Unknown`] if it exists, [`PacketVerdict::Pass`] if another one does,
/// [`PacketVerdict::Drop`] if there is no room.
#[inline(always)]
pub(super) fn add_forward<M: Flows>(maps: &M, work: &mut Work) -> PacketVerdict {
    let forward = work.flow;
    let seen = first_seen(forward.flags, work);
    work.key = work.headers.tuple;
    work.entry = FlowEntry {
        flow: ChecksummedValue::new(&work.key, forward),
        life: Life::new(work.now, seen),
    };
    // The log already has the key of a former flow, unless it was collected in between.
    if work.stale != 0 && maps.replace_flow(&work.key, &work.entry) {
        maps.count(Counter::FlowCollected);
        return PacketVerdict::Unknown;
    }
    match maps.add_flow(&work.key, &work.entry) {
        InsertOutcome::Yes if log(maps, work) => PacketVerdict::Unknown,
        InsertOutcome::Yes => {
            maps.remove_flow(&work.key);
            PacketVerdict::Drop
        }
        InsertOutcome::Taken => PacketVerdict::Pass,
        InsertOutcome::Full => PacketVerdict::Drop,
    }
}

/// Collects what may be removed from a full table.
#[inline(always)]
fn make_room<M: Flows>(maps: &M, work: &mut Work) {
    let to = work.to;
    maps.step(Step::MakeRoom, Origin::Device, work);
    work.to = to;
}

/// Adds the entry for replies of `work.flow` to `work.to`:
/// [`PacketVerdict::Unknown`] if it is there, [`PacketVerdict::Pass`] if another is.
#[inline(always)]
pub(super) fn try_reply<M: Flows>(maps: &M, work: &mut Work) -> PacketVerdict {
    work.key = work.to.reversed();
    let reply = Flow {
        to: work.headers.tuple.reversed(),
        flags: work.flow.flags.with(FlowFlags::REPLY),
        ..work.flow
    };
    work.other = FlowEntry {
        flow: ChecksummedValue::new(&work.key, reply),
        life: Life::new(work.now, 0),
    };
    match maps.add_flow(&work.key, &work.other) {
        InsertOutcome::Yes => PacketVerdict::Unknown,
        InsertOutcome::Taken => PacketVerdict::Pass,
        InsertOutcome::Full => PacketVerdict::Drop,
    }
}

/// Removes the flow of a reply's key that is in the way, if it is over.
#[inline(always)]
pub(super) fn take_over<M: Flows>(maps: &M, work: &mut Work) -> bool {
    if maps.flow(&work.key, &mut work.entry).is_none() {
        return true;
    }
    // Most ports of a busy range are in use: that is known without another lookup.
    if idle(work.entry.life, work.now) <= FRESH {
        return false;
    }
    let Some(theirs) = work.entry.flow.open(&work.key) else {
        return false;
    };
    let client = theirs.to.reversed();
    let mut life = work.entry.life;
    let paired = maps.flow(&client, &mut work.other).is_some() && is_pair(&work.key, &work.other);
    if paired {
        life = together(work.other.life, life);
    }
    let is_last_resort = work.search.random == 0 && work.search.left != 0;
    let is_free = is_over(&work.config().timeouts, client.protocol, life, work.now)
        || (is_last_resort && yields_port(theirs.flags, client.protocol, life, work.now));
    if !is_free {
        return false;
    }
    // Its key in the log finds nothing and is dropped then.
    if paired {
        maps.remove_flow(&client);
    }
    maps.remove_flow(&work.key);
    maps.count(Counter::FlowCollected);
    true
}

/// Removes the entry for replies of a flow that cannot be added.
#[inline(always)]
fn full<M: Flows>(maps: &M, work: &mut Work) -> PacketVerdict {
    if !work.flow.flags.contains(FlowFlags::DIRECT) {
        work.key = work.to.reversed();
        maps.remove_flow(&work.key);
    }
    work.drop(Counter::DroppedFlowsFull)
}

#[inline(always)]
fn is_outside<M: Flows>(maps: &M, origin: Origin, source: Address) -> bool {
    origin == Origin::Device && !maps.is_inside(source) && maps.node(&source).is_none()
}

/// The sender of the packet.
struct Client<'a, M> {
    maps: &'a M,
    asked: &'a Tuple,
    origin: Origin,
    seed: u32,
    chosen: Option<Address>,
}

impl<M: Flows> LookupClient for Client<'_, M> {
    #[inline(always)]
    fn spread(&self) -> u32 {
        hash(self.asked, self.seed) as u32
    }

    #[inline(always)]
    fn client(&self, set: u32) -> AffinityKey {
        AffinityKey::of_address(self.asked.source, set)
    }

    #[inline(always)]
    fn admission(&self, set: u32) -> Admission {
        if self.maps.is_source(set, self.asked.source) {
            Admission::Yes
        } else {
            Admission::No
        }
    }

    #[inline(always)]
    fn is_outside(&self) -> bool {
        is_outside(self.maps, self.origin, self.asked.source)
    }

    #[inline(always)]
    fn is_host(&self) -> bool {
        // A packet received by a device was not sent to a loopback address.
        false
    }

    #[inline(always)]
    fn hash(&self, client_alone: bool) -> Option<u32> {
        // Without the seed: all nodes are to agree.
        Some(if client_alone {
            let nobody = Tuple::new(
                self.asked.source,
                Port(0),
                self.asked.destination,
                Port(0),
                self.asked.protocol,
            );
            hash(&nobody, 0) as u32
        } else {
            hash(self.asked, 0) as u32
        })
    }

    #[inline(always)]
    fn chosen(&self) -> Option<Address> {
        self.chosen
    }
}

/// Mixes a tuple: multiply and fold, a round a word.
#[inline(always)]
pub(crate) fn hash(tuple: &Tuple, seed: u32) -> u64 {
    const PRIME: u64 = 0x9e37_79b9_7f4a_7c15;
    let (s, d) = (tuple.source.to_words(), tuple.destination.to_words());
    let pair = |a: u32, b: u32| u64::from(a) << 32 | u64::from(b);
    let ports = u32::from(tuple.source_port.0) << 16 | u32::from(tuple.destination_port.0);
    let words = [
        pair(s[0], s[1]),
        pair(s[2], s[3]),
        pair(d[0], d[1]),
        pair(d[2], d[3]),
        pair(ports, u32::from(tuple.protocol.0)),
    ];
    let mut state = u64::from(seed).wrapping_mul(PRIME) ^ 0x6f72_6c6f_7002_0002;
    let mut i = 0;
    while i < 5 {
        state = (state ^ words[i]).wrapping_mul(PRIME);
        state ^= state >> 32;
        i += 1;
    }
    state = state.wrapping_mul(0xd6e8_feb8_6659_fd93);
    state ^ state >> 32
}

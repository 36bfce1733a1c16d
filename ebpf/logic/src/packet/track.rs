//! Packets of flows that are known.

use ebpf_abi::{
    Address, Backend, ChecksummedValue, Counter, DirectReturn, FlowFlags, Life, MemberKey, Port,
    Protocol, Scope, Service, ServiceFlags, ServiceKey, SlotKey,
};

use super::headers::TcpFlags;
use super::lifetime::{FRESH, idle, is_closed, is_over, is_pair, together};
use super::{Fragment, Origin, PacketVerdict, Step, Work};
use crate::maps::Flows;

/// Finds a packet's flow and returns the verdict; [`PacketVerdict::Unknown`] if it has
/// none.
#[inline(always)]
pub fn track<M: Flows>(maps: &M, origin: Origin, work: &mut Work) -> PacketVerdict {
    work.stale = 0;
    if !maps.may_be_flow(&work.headers.tuple) {
        return PacketVerdict::Unknown;
    }
    let Some(place) = maps.flow(&work.headers.tuple, &mut work.entry) else {
        return PacketVerdict::Unknown;
    };
    let Some(flow) = work.entry.flow.open(&work.headers.tuple) else {
        return PacketVerdict::Unknown;
    };
    let reply = flow.flags.contains(FlowFlags::REPLY);
    let tcp = work.headers.tuple.protocol == Protocol::TCP;
    let flags = work.headers.flags;
    let synchronizes = tcp && flags.has(TcpFlags::SYN);
    let opens = synchronizes && !reply && !flags.has(TcpFlags::ACK);
    // The backend answers an opening packet; if the flow is closed, the answer belongs to
    // another connection: the kernel translates for kube-proxy, and takes any port.
    let accepts = synchronizes && reply && flags.has(TcpFlags::ACK);
    if work.tunnel != 0
        && (flow.to.destination != work.outer || !flow.flags.contains(FlowFlags::LOCAL))
    {
        // The encapsulating node has chosen another backend since.
        let begins = opens || (!reply && work.headers.tuple.protocol == Protocol::UDP);
        if begins && work.headers.fragment != Fragment::LATER {
            work.stale = 1;
            return PacketVerdict::Unknown;
        }
        return PacketVerdict::Pass;
    }
    work.to = flow.to;
    work.now = maps.ticks();
    let direct = flow.flags.contains(FlowFlags::DIRECT);
    let begins = opens || accepts;
    if (idle(work.entry.life, work.now) > FRESH || begins) && over(maps, flow.flags, begins, work) {
        // The client's entry was replaced by its next flow; a late answer belongs to no
        // flow.
        work.stale = u32::from(!reply);
        if accepts {
            maps.step(Step::Forget, origin, work);
        }
        return PacketVerdict::Unknown;
    }
    let mut before = work.entry.life.seen();
    if direct {
        before |= Life::ONE_WAY;
    }
    let life = Life::new(work.now, seen(before, reply, tcp, flags, work));
    // A stream drains, except if it is only being opened, or may have ended unseen.
    let choosing = opens && (direct || before & Life::ESTABLISHED == 0);
    if !reply
        && (choosing || work.headers.tuple.protocol == Protocol::UDP)
        && work.headers.fragment != Fragment::LATER
        && !flow.flags.contains(FlowFlags::EGRESS)
        && moved(maps, choosing, life, work)
    {
        work.stale = 1;
        maps.count(Counter::FlowMoved);
        return PacketVerdict::Unknown;
    }
    if life != work.entry.life {
        maps.set_life(place, life);
    }
    if tcp && flags.has(TcpFlags::RST) && work.headers.fragment != Fragment::LATER && !direct {
        mark_reset(maps, work);
    }
    if flow.flags.contains(FlowFlags::KERNEL) {
        return PacketVerdict::Pass;
    }
    if direct {
        return direct_return(&mut *work, maps);
    }
    work.counter = if reply {
        Counter::ReplyTranslated
    } else {
        Counter::PacketTranslated
    };
    way(origin, work)
}

/// Returns the verdict on a packet whose backend answers its client directly.
#[inline(always)]
pub(super) fn direct_return<M: Flows>(work: &mut Work, maps: &M) -> PacketVerdict {
    if !maps.read_config(&mut work.config) {
        return PacketVerdict::Pass;
    }
    if work.config().direct_return == DirectReturn::LINK {
        work.counter = Counter::PacketTranslated;
        PacketVerdict::Link
    } else {
        work.counter = Counter::PacketEncapsulated;
        PacketVerdict::Encapsulate
    }
}

#[inline(always)]
fn backend_fits(backend: &Backend, address: Address, port: Port) -> bool {
    backend.address == address && backend.port == port
}

/// Returns who forwards a packet.
#[inline(always)]
pub(super) fn way(origin: Origin, work: &Work) -> PacketVerdict {
    let (from, to) = (&work.headers.tuple, &work.to);
    let forward = if origin.is_routed() {
        from.destination != to.destination
    } else {
        from.source != to.source
    };
    if forward {
        PacketVerdict::Forward
    } else {
        PacketVerdict::Translate
    }
}

/// Tells the entry of the other direction of an RST, which counts until a packet of that
/// direction follows.
#[inline(always)]
fn mark_reset<M: Flows>(maps: &M, work: &mut Work) {
    work.key = work.to.reversed();
    let Some(place) = maps.flow(&work.key, &mut work.other) else {
        return;
    };
    if !is_pair(&work.headers.tuple, &work.other) {
        return;
    }
    let Life(life) = work.other.life;
    let marked = Life(life | u64::from(Life::PEER_RESET));
    if marked != work.other.life {
        maps.set_life(place, marked);
    }
}

/// Returns the state after the first packet of a flow. It alone does not establish a
/// one-way flow.
#[inline(always)]
pub(super) fn first_seen(flow: FlowFlags, work: &Work) -> u32 {
    let tcp = work.headers.tuple.protocol == Protocol::TCP;
    if flow.contains(FlowFlags::DIRECT) {
        let first = seen(0, false, tcp, work.headers.flags, work);
        return Life::ONE_WAY | first & !Life::ESTABLISHED;
    }
    seen(0, false, tcp, work.headers.flags, work)
}

#[inline(always)]
fn seen(before: u32, reply: bool, tcp: bool, flags: TcpFlags, work: &Work) -> u32 {
    let mut seen = before;
    if reply {
        seen |= Life::REPLIED;
    }
    if !tcp && seen & Life::ONE_WAY != 0 {
        seen |= Life::ESTABLISHED;
    }
    if !tcp || work.headers.fragment == Fragment::LATER {
        return seen;
    }
    seen &= !(Life::RESET | Life::PEER_RESET);
    if flags.has(TcpFlags::RST) {
        seen |= Life::RESET;
    }
    let finished = if reply {
        Life::BACKEND_FINISHED
    } else {
        Life::CLIENT_FINISHED
    };
    // A FIN before a SYN belongs to another connection.
    if flags.has(TcpFlags::SYN) {
        seen &= !finished;
    }
    if flags.has(TcpFlags::FIN) {
        seen |= finished;
    }
    if !reply && flags.has(TcpFlags::ACK) && !flags.has(TcpFlags::SYN) {
        seen |= Life::ESTABLISHED;
    }
    seen
}

/// Returns whether the flow is over. `begins`: the packet opens a connection or accepts
/// one, for which a closed flow makes room immediately.
#[inline(always)]
fn over<M: Flows>(maps: &M, flags: FlowFlags, begins: bool, work: &mut Work) -> bool {
    let mut life = work.entry.life;
    if !flags.contains(FlowFlags::DIRECT) {
        work.key = work.to.reversed();
        if maps.flow(&work.key, &mut work.other).is_none()
            || !is_pair(&work.headers.tuple, &work.other)
        {
            return true;
        }
        life = if flags.contains(FlowFlags::REPLY) {
            together(work.other.life, life)
        } else {
            together(life, work.other.life)
        };
    }
    if begins && is_closed(life) {
        return true;
    }
    if !maps.read_config(&mut work.config) {
        return false;
    }
    is_over(
        &work.config().timeouts,
        work.headers.tuple.protocol,
        life,
        work.now,
    )
}

/// Whether the backend of a flow has left its service. `choosing`: the packet opens a
/// connection, of which backends may have left within a generation. `life`: the flow's,
/// with this packet.
#[inline(always)]
fn moved<M: Flows>(maps: &M, choosing: bool, life: Life, work: &mut Work) -> bool {
    let Some(flow) = work.entry.flow.open(&work.headers.tuple) else {
        return false;
    };
    let asked = &work.headers.tuple;
    let scope = |scope| {
        let key = ServiceKey::new(
            asked.destination,
            asked.destination_port,
            asked.protocol,
            scope,
        );
        maps.service(&key).and_then(|sealed| sealed.open(&key))
    };
    let mut found = scope(Scope::INTERNAL);
    if found.is_none() {
        let wildcard = |scope| {
            let key = ServiceKey::new(
                asked.destination.wildcard(),
                asked.destination_port,
                asked.protocol,
                scope,
            );
            maps.service(&key).and_then(|sealed| sealed.open(&key))
        };
        found = wildcard(Scope::INTERNAL);
        if let Some(service) = found
            && service.flags.contains(ServiceFlags::SCOPED)
            && service.set != flow.set
        {
            found = wildcard(Scope::EXTERNAL);
        }
    } else if let Some(service) = found
        && service.flags.contains(ServiceFlags::SCOPED)
        && service.set != flow.set
    {
        found = scope(Scope::EXTERNAL);
    }
    let Some(service) = found else {
        // The service was removed, or its address is no longer this node's: its next
        // packet is foreign.
        return true;
    };
    let same = service.set == flow.set && service.generation == flow.generation;
    if same && !choosing {
        return false;
    }
    let (address, port) = (flow.to.destination, flow.to.destination_port);
    if service.has_members() {
        let key = MemberKey::new(service.set, service.generation, address, port);
        if maps.member(&key).is_none() {
            return true;
        }
    } else {
        let mut slot = 0;
        let mut there = false;
        while slot < Service::WALKED {
            if slot >= service.count || there {
                break;
            }
            let key = SlotKey::new(service.set, service.generation, slot);
            if let Some(backend) = maps.slot(&key).and_then(|sealed| sealed.open(&key)) {
                there = backend_fits(&backend, address, port);
            }
            slot += 1;
        }
        if !there {
            return true;
        }
    }
    if same {
        return false;
    }
    // Still there: the next packet need not ask.
    let mut current = flow;
    current.set = service.set;
    current.generation = service.generation;
    work.entry.flow = ChecksummedValue::new(&work.headers.tuple, current);
    work.entry.life = life;
    maps.replace_flow(&work.headers.tuple, &work.entry);
    false
}

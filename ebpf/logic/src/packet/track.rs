//! Packets of flows that are known.

use ebpf_abi::{
    Counter, FlowFlags, Life, MemberKey, Protocol, Scope, Sealed, ServiceFlags, ServiceKey, SlotKey,
};

use super::begin::backend_fits;
use super::headers::TcpFlags;
use super::lifetime::{FRESH, idle, is_over, together};
use super::{Fragment, Origin, Verdict, Work};
use crate::maps::Flows;

/// Slots that are walked through to find whether a backend is still there.
const WALKED: u32 = 32;

/// Finds a packet's flow and what becomes of the packet;
/// [`Verdict::Unknown`] if it has none.
#[inline(always)]
pub fn track<M: Flows>(maps: &M, origin: Origin, work: &mut Work) -> Verdict {
    work.stale = 0;
    if !maps.may_be_flow(&work.headers.tuple) {
        return Verdict::Unknown;
    }
    let Some(place) = maps.flow(&work.headers.tuple, &mut work.entry) else {
        return Verdict::Unknown;
    };
    let Some(flow) = work.entry.flow.open(&work.headers.tuple) else {
        return Verdict::Unknown;
    };
    if work.tunnel != 0
        && (flow.to.destination != work.outer || !flow.flags.contains(FlowFlags::LOCAL))
    {
        return Verdict::Pass;
    }
    work.to = flow.to;
    work.now = maps.ticks();
    let reply = flow.flags.contains(FlowFlags::REPLY);
    let tcp = work.headers.tuple.protocol == Protocol::TCP;
    let flags = work.headers.flags;
    let opens = tcp && !reply && flags.has(TcpFlags::SYN) && !flags.has(TcpFlags::ACK);
    if (idle(work.entry.life, work.now) > FRESH || opens) && over(maps, flow.flags, opens, work) {
        // The client's entry is replaced by its next flow; an answer that
        // comes too late belongs to nobody.
        work.stale = u32::from(!reply);
        return Verdict::Unknown;
    }
    if !reply
        && work.headers.tuple.protocol == Protocol::UDP
        && work.headers.fragment != Fragment::LATER
        && !flow.flags.contains(FlowFlags::EGRESS)
        && moved(maps, work)
    {
        work.stale = 1;
        maps.count(Counter::FlowMoved);
        return Verdict::Unknown;
    }
    let life = Life::new(
        work.now,
        seen(work.entry.life.seen(), reply, tcp, flags, work),
    );
    if life != work.entry.life {
        maps.set_life(place, life);
    }
    if flow.flags.contains(FlowFlags::DIRECT) {
        return super::begin::direct(&mut *work, maps);
    }
    work.counter = if reply {
        Counter::ReplyTranslated
    } else {
        Counter::PacketTranslated
    };
    way(origin, work)
}

/// Who sends a packet on.
#[inline(always)]
pub(super) fn way(origin: Origin, work: &Work) -> Verdict {
    let (from, to) = (&work.headers.tuple, &work.to);
    let forward = if origin.is_routed() {
        from.destination != to.destination
    } else {
        from.source != to.source
    };
    if forward {
        Verdict::Forward
    } else {
        Verdict::Translate
    }
}

/// What the first packet of a flow shows.
#[inline(always)]
pub(super) fn first_seen(work: &Work) -> u32 {
    let tcp = work.headers.tuple.protocol == Protocol::TCP;
    seen(0, false, tcp, work.headers.flags, work)
}

#[inline(always)]
fn seen(before: u32, reply: bool, tcp: bool, flags: TcpFlags, work: &Work) -> u32 {
    let mut seen = before;
    if reply {
        seen |= Life::REPLIED;
    }
    if !tcp || work.headers.fragment == Fragment::LATER {
        return seen;
    }
    seen &= !Life::RESET;
    if flags.has(TcpFlags::RST) {
        seen |= Life::RESET;
    }
    if flags.has(TcpFlags::FIN) {
        seen |= if reply {
            Life::BACKEND_FINISHED
        } else {
            Life::CLIENT_FINISHED
        };
    }
    if !reply && flags.has(TcpFlags::ACK) && !flags.has(TcpFlags::SYN) {
        seen |= Life::ESTABLISHED;
    }
    seen
}

/// Is the flow over? `opens`: the packet opens a connection, for which one that
/// is closed makes room at once.
#[inline(always)]
fn over<M: Flows>(maps: &M, flags: FlowFlags, opens: bool, work: &mut Work) -> bool {
    let mut life = work.entry.life;
    if !flags.contains(FlowFlags::DIRECT) {
        work.key = work.to.reversed();
        if maps.flow(&work.key, &mut work.other).is_none() {
            return true;
        }
        life = if flags.contains(FlowFlags::REPLY) {
            together(work.other.life, life)
        } else {
            together(life, work.other.life)
        };
    }
    if opens && (life.seen() & Life::CLOSED == Life::CLOSED || life.seen() & Life::RESET != 0) {
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

/// Has a datagram flow's backend left its service? Streams are left to drain.
#[inline(always)]
fn moved<M: Flows>(maps: &M, work: &mut Work) -> bool {
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
        // The service is gone, or its address is not this node's any more:
        // its next packet is nobody's.
        return true;
    };
    if service.set == flow.set && service.generation == flow.generation {
        return false;
    }
    let (address, port) = (flow.to.destination, flow.to.destination_port);
    if service.flags.contains(ServiceFlags::AFFINITY) {
        let key = MemberKey::new(service.set, service.generation, address, port);
        if maps.member(&key).is_none() {
            return true;
        }
    } else {
        let mut slot = 0;
        let mut there = service.count > WALKED;
        while slot < WALKED {
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
    // Still there: the next packet need not ask.
    let mut same = flow;
    same.set = service.set;
    same.generation = service.generation;
    work.entry.flow = Sealed::new(&work.headers.tuple, same);
    maps.put_flow(&work.headers.tuple, &work.entry);
    false
}

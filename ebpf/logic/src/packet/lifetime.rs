//! Lifetime of flows, and collection of their entries.
//!
//! Each direction writes only its own entry, and the state of the flow is read from both.
//! An expired entry counts as absent, so that nothing depends on its removal.
//!
//! RST is the exception: it also marks the entry of the other direction
//! ([`Life::PEER_RESET`]), whose next packet removes the mark. So an answer to an RST
//! that the receiver did not accept (a challenge ACK, RFC 5961 section 3.2) is known to
//! follow it, even in the same tick.
//!
//! # One-way flows
//!
//! If a connection is answered directly, only the client's packets are seen. It has
//! separate timeouts, as in IPVS for its direct routing: it is established by the
//! client's second packet, and closed by the client's FIN or RST, since the backend's are
//! never seen. Later packets of a half closed or reset connection refresh it. A single
//! packet never establishes a flow, so that a flood from forged addresses leaves nothing
//! that lives long.
//!
//! # Collection
//!
//! The key of each new flow is appended to a queue, and each new flow takes up to two
//! keys from the queue's other end: expired flows are removed, others are appended again.
//! So the clock hand advances up to twice as fast as flows are created, without any
//! process: an expired flow occupies its entry for at most as many new flows as there are
//! live ones. Keys carry the time at which they were appended, and recently examined ones
//! are skipped ([`REST`]): examining a flow means an access to cold memory, and most
//! flows of a burst would be examined in vain. A queue (not a list per processor, nor a
//! walk through the map) keeps each key exactly once, without atomics that older kernels
//! or compilers lack.
//!
//! The queue has a place for each entry of the table. A flow whose key cannot be queued
//! is removed, because nothing else would ever collect it.
//!
//! When the table is full, more keys are examined, and idle flows that are not
//! established, or closed, are removed before their timeout ([`UNANSWERED`]).

use ebpf_abi::{Counter, FlowEntry, FlowFlags, FlowLogKey, Life, Protocol, Timeouts, Tuple};

use super::Work;
use crate::maps::Flows;

/// Keys that a new flow takes from the queue.
pub(super) const EXAMINED: u32 = 2;
/// The number of keys that it takes when there is no room.
pub(super) const EXAMINED_WHEN_FULL: u32 = 8;
/// The number of ticks for which a key rests in the queue, unless there is no room: the
/// shortest timeout of [`Timeouts::DEFAULT`], so that reset flows are examined as soon as
/// they expire.
pub(super) const REST: u32 = 10;
/// After so many idle ticks a flow that is not established, or closed, makes room for
/// another when the table is full.
pub(super) const UNANSWERED: u32 = 10;
/// Below this idle time, in ticks, no flow is over, whatever its state.
pub(super) const FRESH: u32 = 4;

/// Both directions' lives as one.
#[inline(always)]
#[must_use]
pub fn together(client: Life, backend: Life) -> Life {
    let later = if (client.used().wrapping_sub(backend.used()) as i32) > 0 {
        client.used()
    } else {
        backend.used()
    };
    // RST counts while the other side sends nothing after it.
    let last = |life: Life, other: Life| {
        let unanswered = other.seen() & Life::PEER_RESET != 0
            || (life.used().wrapping_sub(other.used()) as i32) > 0;
        let reset = if unanswered { 0 } else { Life::RESET };
        life.seen() & !(reset | Life::PEER_RESET)
    };
    Life::new(later, last(client, backend) | last(backend, client))
}

/// Returns whether a flow is closed, so that it immediately makes room for the next
/// connection of the same client and port.
#[inline(always)]
pub(super) fn is_closed(life: Life) -> bool {
    let seen = life.seen();
    let one_way = seen & Life::ONE_WAY != 0 && seen & Life::CLIENT_FINISHED != 0;
    seen & Life::RESET != 0 || seen & Life::CLOSED == Life::CLOSED || one_way
}

/// Returns whether both sides take part in a flow, as far as its packets pass here.
#[inline(always)]
fn is_established(protocol: Protocol, seen: u32) -> bool {
    let needed = if seen & Life::ONE_WAY != 0 {
        Life::ESTABLISHED
    } else if protocol == Protocol::TCP {
        Life::ESTABLISHED | Life::REPLIED
    } else {
        Life::REPLIED
    };
    seen & needed == needed
}

/// Whether a flow makes room for another when the table is full: it is not established,
/// or closed, and idle.
#[inline(always)]
fn makes_room(protocol: Protocol, life: Life, now: u32) -> bool {
    (!is_established(protocol, life.seen()) || is_closed(life)) && idle(life, now) > UNANSWERED
}

/// After how many seconds of silence it is over.
#[inline(always)]
fn timeout(timeouts: &Timeouts, protocol: Protocol, seen: u32) -> u32 {
    let has = |bits: u32| seen & bits == bits;
    match protocol {
        Protocol::TCP if has(Life::ONE_WAY) => {
            if seen & (Life::RESET | Life::CLIENT_FINISHED) != 0 {
                timeouts.tcp_time_wait
            } else if is_established(protocol, seen) {
                timeouts.tcp_established
            } else {
                timeouts.tcp_opening
            }
        }
        Protocol::TCP if has(Life::RESET) => timeouts.tcp_reset,
        Protocol::TCP if has(Life::CLOSED) => timeouts.tcp_time_wait,
        Protocol::TCP if seen & Life::CLOSED != 0 => timeouts.tcp_half_closed,
        Protocol::TCP if is_established(protocol, seen) => timeouts.tcp_established,
        Protocol::TCP => timeouts.tcp_opening,
        Protocol::SCTP => timeouts.sctp,
        // UDP, and echoes.
        _ if is_established(protocol, seen) => timeouts.udp_replied,
        _ => timeouts.udp_unreplied,
    }
}

/// Returns whether a flow has expired.
#[inline(always)]
#[must_use]
pub fn is_over(timeouts: &Timeouts, protocol: Protocol, life: Life, now: u32) -> bool {
    let idle = idle(life, now);
    let limit = u64::from(timeout(timeouts, protocol, life.seen())) * 1_000_000_000;
    u64::from(idle) > limit >> Life::TICK
}

/// Whether a flow gives its port to another one where all are in use: it is closed, and has been
/// quiet for longer than the last segments of a connection take. A backend that closed the
/// connection may still wait for late segments; it accepts the next connection of the port all the
/// same, at the latest when its SYN is repeated (RFC 6191). The kernel's own flows are in its tables,
/// too.
#[inline(always)]
pub(super) fn yields_port(flags: FlowFlags, protocol: Protocol, life: Life, now: u32) -> bool {
    protocol == Protocol::TCP
        && is_closed(life)
        && idle(life, now) > FRESH
        && !flags.contains(FlowFlags::KERNEL)
}

/// Ticks since it was used. Processors' clocks may differ by one.
#[inline(always)]
pub(super) fn idle(life: Life, now: u32) -> u32 {
    let idle = now.wrapping_sub(life.used());
    if (idle as i32) < 0 { 0 } else { idle }
}

/// Evicts expired flows, advancing the clock hand; keys queued for fewer than `rest`
/// ticks are kept. `work.key`, `work.logged`, `work.entry`, `work.other` and `work.to`
/// are overwritten.
#[inline(always)]
pub fn collect<M: Flows>(maps: &M, work: &mut Work, steps: u32, rest: u32) {
    let mut step = 0;
    while step < steps {
        // Another processor may take this one and leave the next, which is then looked
        // at too soon: once more than is needed.
        if rest != 0 && (!maps.first_logged(&mut work.logged) || work.logged.age(work.now) < rest) {
            return;
        }
        if !maps.unlog(&mut work.logged) {
            return;
        }
        work.key = work.logged.key();
        examine(maps, work, rest == 0);
        step += 1;
    }
}

/// Appends `work.key` to the queue; false if it is full.
#[inline(always)]
pub(super) fn log<M: Flows>(maps: &M, work: &mut Work) -> bool {
    work.logged = FlowLogKey::new(&work.key, work.now);
    maps.log(&work.logged)
}

/// Appends a logged key to the queue again if its flow is alive, or else removes the flow.
/// `full`: the table is.
#[inline(always)]
fn examine<M: Flows>(maps: &M, work: &mut Work, full: bool) {
    if maps.flow(&work.key, &mut work.entry).is_none() {
        return;
    }
    let Some(flow) = work.entry.flow.open(&work.key) else {
        // It is just being replaced. Without a place in the queue it stays until its
        // client comes again.
        log(maps, work);
        return;
    };
    let mut life = work.entry.life;
    work.to = flow.to.reversed();
    let paired = !flow.flags.contains(FlowFlags::DIRECT)
        && maps.flow(&work.to, &mut work.other).is_some()
        && is_pair(&work.key, &work.other);
    if paired {
        life = together(life, work.other.life);
    }
    let over = is_over(&work.config().timeouts, work.key.protocol, life, work.now)
        || (full && makes_room(work.key.protocol, life, work.now));
    if !over && log(maps, work) {
        return;
    }
    maps.remove_flow(&work.key);
    if paired {
        maps.remove_flow(&work.to);
    }
    maps.count(Counter::FlowCollected);
}

/// Whether an entry is the other direction's of the flow whose key this is: a former flow
/// may have had its port.
#[inline(always)]
pub(super) fn is_pair(key: &Tuple, other: &FlowEntry) -> bool {
    other.flow.as_unchecked().to == key.reversed()
}

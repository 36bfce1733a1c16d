//! How long flows live, and how their entries are collected.
//!
//! Each direction writes its own entry only, and what became of the flow is
//! read from both. An entry that is over counts as absent, so that nothing
//! depends on its being removed.
//!
//! # Collection
//!
//! The key of each new flow is appended to a queue, and each new flow takes up to two
//! keys from the queue's other end: flows that are over are removed, others
//! are appended again. So the hand goes round as fast as flows come, twice
//! over, without any process: a flow that is over occupies its room for at
//! most as many new flows as there are live ones. Keys carry the time at which they
//! were appended, and what was looked at a moment ago is left alone ([`REST`]): to
//! look at a flow is to wait for memory that nobody else has used lately, and most
//! flows of a burst would be looked at for nothing. A queue (not a list per
//! processor, nor a walk through the map) keeps each key exactly once, with no
//! atomics that older kernels or compilers lack.

use ebpf_abi::{Counter, FlowFlags, Life, Logged, Protocol, Timeouts};

use super::Work;
use crate::maps::Flows;

/// Keys that a new flow takes from the queue.
pub(super) const EXAMINED: u32 = 2;
/// Keys that it takes when there is no room.
pub(super) const EXAMINED_WHEN_FULL: u32 = 8;
/// For so many ticks a key rests in the queue, unless there is no room: the shortest
/// timeout of [`Timeouts::DEFAULT`], so that flows that are reset are looked at once.
pub(super) const REST: u32 = 10;
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
    // RST counts while nothing came after it.
    let last = |life: Life| {
        if life.used() == later {
            life.seen()
        } else {
            life.seen() & !Life::RESET
        }
    };
    Life::new(later, last(client) | last(backend))
}

/// After how many seconds of silence it is over.
#[inline(always)]
fn timeout(timeouts: &Timeouts, protocol: Protocol, seen: u32) -> u32 {
    let has = |bits: u32| seen & bits == bits;
    match protocol {
        Protocol::TCP if has(Life::RESET) => timeouts.tcp_reset,
        Protocol::TCP if has(Life::CLOSED) => timeouts.tcp_time_wait,
        Protocol::TCP if seen & Life::CLOSED != 0 => timeouts.tcp_half_closed,
        Protocol::TCP if has(Life::ESTABLISHED | Life::REPLIED) => timeouts.tcp_established,
        Protocol::TCP => timeouts.tcp_opening,
        Protocol::SCTP => timeouts.sctp,
        // UDP, and echoes.
        _ if has(Life::REPLIED) => timeouts.udp_replied,
        _ => timeouts.udp_unreplied,
    }
}

/// Is a flow over?
#[inline(always)]
#[must_use]
pub fn is_over(timeouts: &Timeouts, protocol: Protocol, life: Life, now: u32) -> bool {
    let idle = idle(life, now);
    let limit = u64::from(timeout(timeouts, protocol, life.seen())) * 1_000_000_000;
    u64::from(idle) > limit >> Life::TICK
}

/// Ticks since it was used. Processors' clocks may differ by one.
#[inline(always)]
pub(super) fn idle(life: Life, now: u32) -> u32 {
    let idle = now.wrapping_sub(life.used());
    if (idle as i32) < 0 { 0 } else { idle }
}

/// Removes flows that are over, as far as the hand gets, but for those whose keys rest
/// for fewer ticks than `rest`. `work.key`, `work.logged`, `work.entry`, `work.other` and
/// `work.to` are overwritten.
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
        if examine(maps, work) {
            log(maps, work);
        }
        step += 1;
    }
}

/// Appends `work.key` to the queue.
#[inline(always)]
pub(super) fn log<M: Flows>(maps: &M, work: &mut Work) {
    work.logged = Logged::new(&work.key, work.now);
    maps.log(&work.logged);
}

/// Is the flow of a logged key alive? If not, it is gone.
#[inline(always)]
fn examine<M: Flows>(maps: &M, work: &mut Work) -> bool {
    if maps.flow(&work.key, &mut work.entry).is_none() {
        return false;
    }
    let Some(flow) = work.entry.flow.open(&work.key) else {
        // It is just being replaced.
        return true;
    };
    let mut life = work.entry.life;
    work.to = flow.to.reversed();
    if !flow.flags.contains(FlowFlags::DIRECT) && maps.flow(&work.to, &mut work.other).is_some() {
        life = together(life, work.other.life);
    }
    if !is_over(&work.config().timeouts, work.key.protocol, life, work.now) {
        return true;
    }
    maps.remove_flow(&work.key);
    if !flow.flags.contains(FlowFlags::DIRECT) {
        maps.remove_flow(&work.to);
    }
    maps.count(Counter::FlowCollected);
    false
}

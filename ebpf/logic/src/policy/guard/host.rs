//! Packets at the node's own devices: the host firewall.
//!
//! Only packets that the node itself sends and receives are decided on: its addresses are
//! known as a node's here. Packets forwarded to or from pods, or others, are decided
//! elsewhere, or not at all. Packets that services translate are seen after translation.
//!
//! A mid-stream segment of an unknown flow may belong to a connection from before the
//! first policy for the node, which was not recorded. It is taken for either direction's,
//! if that direction's rules allow the connection: so a policy that allows existing
//! connections does not end them.
//!
//! Packets that passed a moment ago are [recent](super::recent) here as well, including
//! those that are not the node's: the root changes with the owners of addresses.

use ebpf_abi::policy::{Direction, PeerEntry, PolicyFlow};
use ebpf_abi::{Address, Counter, Protocol, Range, Tuple};

use super::flows::PolicyFlows;
use super::outline::{TunnelHeader, outer, unnumbered, unreadable};
use super::portless::is_free;
use super::recent;
use super::report::VerdictReason;
use super::state::{DeviceFacts, Guard, Ruling};
use super::verdict::{asked, denied, keep};
use crate::packet::headers::{Kind, TcpFlags};
use crate::packet::{Packet, Work};
use crate::policy::decision::{HookPlace, policy};

/// Returns the facts that a device of the node provides about a packet; the devices need
/// not be distinguished.
#[inline(always)]
#[must_use]
pub const fn host_told(direction: Direction) -> DeviceFacts {
    DeviceFacts {
        direction,
        device: 0,
        from: 0,
        hardware: 0,
    }
}

/// Determines the flow of a packet at a device of the node, after the check whether it is
/// [recent](super::is_recent). `kind` is the result of parsing.
#[inline(always)]
pub fn host_outline<M: PolicyFlows, P: Packet>(
    maps: &M,
    packet: P,
    work: &Work,
    kind: Kind,
    direction: Direction,
    guard: &mut Guard,
) -> Ruling {
    guard.opens = 0;
    guard.about = 0;
    guard.itself = 0;
    guard.host = 1;
    guard.place(&host_told(direction));
    let mut seen = work.headers.tuple;
    let mut far = seen;
    if kind == Kind::Transport && work.tunnel == 0 {
        let flags = work.headers.flags;
        guard.opens = u32::from(
            seen.protocol == Protocol::TCP && flags.has(TcpFlags::SYN) && !flags.has(TcpFlags::ACK),
        );
    } else {
        match outer(packet, guard) {
            TunnelHeader::NotIp | TunnelHeader::LinkLocal => return Ruling::Pass,
            TunnelHeader::Unreadable => {
                let far = guard.headers.tuple;
                guard.name(&far, &far);
                return unknown(maps, guard);
            }
            TunnelHeader::Readable => {}
        }
        far = guard.headers.tuple;
        if kind == Kind::Error && work.tunnel == 0 {
            guard.about = 1;
            unnumbered(&mut seen);
        } else {
            seen = far;
        }
    }
    guard.name(&seen, &far);
    Ruling::Ask
}

/// Decides on a flow of the node that begins.
#[inline(always)]
pub fn host_begin<M: PolicyFlows>(maps: &M, guard: &mut Guard) -> Ruling {
    let root = maps.policy_root();
    if !is_own(maps, root.epoch, guard.key.source) {
        recent::keep(maps, root, guard);
        return Ruling::Pass;
    }
    let mut flow = guard.flow;
    let mut key = guard.key;
    if guard.about != 0 {
        key.protocol = guard.headers.tuple.protocol;
    }
    let midst = guard.about == 0 && guard.opens == 0 && key.protocol == Protocol::TCP;
    let mut turn = 0;
    let mut decision = policy(maps, &asked(&key, &flow, HookPlace::Host));
    let first = decision;
    while turn < 1 && midst && !decision.allow {
        flow.flags ^= PolicyFlow::INGRESS;
        decision = policy(maps, &asked(&key, &flow, HookPlace::Host));
        turn += 1;
    }
    if !decision.allow {
        return denied(maps, guard, &first);
    }
    if guard.about != 0 {
        return Ruling::Pass;
    }
    flow.cookie = decision.cookie;
    flow.generation = decision.root.generation;
    maps.tally(Counter::PolicyAllowed);
    guard.flow.flags = flow.flags;
    let why = VerdictReason::policy(Counter::PolicyAllowed, decision.cookie, decision.root.epoch);
    maps.report(guard, &why);
    keep(maps, guard, flow)
}

/// Decides on a fragment whose first part, with the ports, was not seen.
#[inline(always)]
pub fn host_portless<M: PolicyFlows>(
    maps: &M,
    tuple: &Tuple,
    direction: Direction,
    guard: &mut Guard,
) -> Ruling {
    guard.unknown(&host_told(direction));
    guard.name(tuple, tuple);
    unknown(maps, guard)
}

/// Drops a packet that cannot be decided if policy selects the node.
#[inline(always)]
fn unknown<M: PolicyFlows>(maps: &M, guard: &Guard) -> Ruling {
    let own = guard.key.source;
    let is_free = is_free(maps, own, Direction::INGRESS) && is_free(maps, own, Direction::EGRESS);
    if is_free || !is_own(maps, maps.policy_root().epoch, own) {
        return Ruling::Pass;
    }
    unreadable(maps, guard)
}

/// Returns whether the address is this node's.
#[inline(always)]
fn is_own<M: PolicyFlows>(maps: &M, epoch: u32, address: Address) -> bool {
    maps.peer(&Range::new(epoch, address))
        .is_some_and(|entry| entry.has(PeerEntry::NODE | PeerEntry::LOCAL))
}

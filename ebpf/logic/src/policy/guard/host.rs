//! Packets at the node's own devices: the host firewall.
//!
//! Only what the node itself sends and gets is decided on: its addresses are
//! known as a node's here. What is on its way to or from pods, or others, is
//! decided on elsewhere, or not at all. What services translate is seen behind
//! translation, since it comes here afterwards.
//!
//! A segment in the midst of a connection that is not known may belong to one
//! from before the first policy for the node, of which nobody took note. It is
//! taken for either direction's, if that one's rules allow the connection: so
//! a policy that allows what there is does not end it.
//!
//! What passed a moment ago is [recent](super::recent) here, too, also what is not the
//! node's: the root moves with whose an address is.

use ebpf_abi::policy::{PeerEntry, PolicyFlow};
use ebpf_abi::{Address, Counter, Protocol, Range, Tuple};

use super::{
    DeviceFacts, Guard, HookPlace, Kind, Packet, PolicyFlows, Ruling, TcpFlags, TunnelHeader,
    VerdictReason, Work, asked, denied, keep, outer, policy, portless::is_free, recent, unnumbered,
    unreadable,
};
use ebpf_abi::policy::Direction;

/// What a device of the node says of a packet: which one it is does not matter.
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

/// Says which flow a packet at a device of the node belongs to, of which it was asked
/// whether it is [recent](super::is_recent). `kind` is what was made of it when it was
/// read.
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

/// What cannot be decided on is dropped if policy selects the node.
#[inline(always)]
fn unknown<M: PolicyFlows>(maps: &M, guard: &Guard) -> Ruling {
    let own = guard.key.source;
    let is_free = is_free(maps, own, Direction::INGRESS) && is_free(maps, own, Direction::EGRESS);
    if is_free || !is_own(maps, maps.policy_root().epoch, own) {
        return Ruling::Pass;
    }
    unreadable(maps, guard)
}

/// Is it an address of this node's?
#[inline(always)]
fn is_own<M: PolicyFlows>(maps: &M, epoch: u32, address: Address) -> bool {
    maps.peer(&Range::new(epoch, address))
        .is_some_and(|entry| entry.has(PeerEntry::NODE | PeerEntry::LOCAL))
}

//! Decides on packets of flows at a pod's interface.

use ebpf_abi::policy::{Direction, PolicyFlow, PolicyFlowEntry, cookies, hardware_mark};
use ebpf_abi::{ChecksummedValue, ConfigFlags, Counter, Protocol, Timeouts, Tuple};

use super::flows::PolicyFlows;
use super::recent;
use super::report::VerdictReason;
use super::state::{Guard, Ruling};
use crate::policy::decision::{Flow, HookPlace, PolicyDecision, policy};

/// Decides on a packet of the flow that [`outline`](super::outline) named.
#[inline(always)]
pub fn guard<M: PolicyFlows>(maps: &M, guard: &mut Guard) -> Ruling {
    let root = maps.policy_root();
    if root.epoch == 0 {
        // Policy was never written since this machine started. A pod that starts waits
        // for it.
        return Ruling::Pass;
    }
    guard.now = maps.clock();
    let Some(place) = maps.policy_flow(&guard.key, &mut guard.entry) else {
        return Ruling::Begin;
    };
    let known = guard.entry.flow.as_unchecked();
    if known.device != guard.flow.device {
        return Ruling::Begin;
    }
    let current = known.generation == root.generation;
    let mark = guard.entry.mark();
    if guard.about == 0 {
        let forward = known.has(PolicyFlow::INGRESS) == guard.is_ingress();
        let other = if forward {
            // The service sends it elsewhere since, or it is sent to another.
            known.peer != guard.flow.peer
                || known.peer_port != guard.flow.peer_port
                || known.has(PolicyFlow::RELAYED) != guard.flow.has(PolicyFlow::RELAYED)
        } else {
            guard.opens != 0
        };
        if other || (known.has(PolicyFlow::ENDED) && guard.opens != 0) {
            return Ruling::Begin;
        }
        if (!forward || known.has(PolicyFlow::ENDED)) && is_stale(maps, guard) {
            return Ruling::Begin;
        }
    }
    if !is_from_pod(guard, mark) {
        return Ruling::Prove;
    }
    if !current && !is_kept(maps, guard) {
        return again(maps, guard);
    }
    if guard.entry.flow.as_unchecked().has(PolicyFlow::ENDED) {
        return over(maps, guard, root.epoch);
    }
    let mark = if guard.proven == 0 {
        mark
    } else {
        hardware_mark(guard.hardware)
    };
    let used = PolicyFlowEntry::used(guard.now, mark);
    if guard.entry.used != used {
        maps.touch(place, used);
    }
    recent::keep(maps, root, guard);
    Ruling::Pass
}

/// Returns whether a packet of a known flow comes from the pod's own addresses, as far as
/// the flow tells. `mark` is that of its hardware address. An error may come from another
/// of its addresses.
#[inline(always)]
fn is_from_pod(guard: &Guard, mark: u32) -> bool {
    guard.is_ingress()
        || guard.host != 0
        || guard.proven != 0
        || (hardware_mark(guard.hardware) == mark
            && (guard.about == 0 || guard.headers.tuple.source == guard.key.source))
}

/// Returns whether the flow is too old for an answer.
#[inline(always)]
fn is_stale<M: PolicyFlows>(maps: &M, guard: &mut Guard) -> bool {
    /// In ticks; no timeout is shorter.
    const FRESH: u32 = 4;
    let idle = guard.now.wrapping_sub(guard.entry.ticks());
    // Processors' clocks may differ by one tick.
    if idle <= FRESH || (idle as i32) < 0 {
        return false;
    }
    let timeouts = if maps.read_node(&mut guard.config) {
        guard.config.as_unchecked().timeouts
    } else {
        Timeouts::DEFAULT
    };
    let seconds = match guard.key.protocol {
        Protocol::TCP => timeouts.tcp_established,
        Protocol::SCTP => timeouts.sctp,
        _ => timeouts.udp_replied,
    };
    u64::from(idle) > (u64::from(seconds) * 1_000_000_000) >> ebpf_abi::Life::TICK
}

/// Decides on a flow that begins; that a pod sends from its own addresses is
/// [proven](super::prove).
#[inline(always)]
pub fn begin<M: PolicyFlows>(maps: &M, guard: &mut Guard) -> Ruling {
    let mut flow = guard.flow;
    if guard.itself != 0 {
        flow.cookie = cookies::ITSELF;
        flow.generation = maps.policy_root().generation;
        return keep(maps, guard, flow);
    }
    let mut key = guard.key;
    if guard.about != 0 {
        // In an unknown flow it is a message like others.
        key.protocol = guard.headers.tuple.protocol;
    }
    let decision = policy(maps, &asked(&key, &flow, HookPlace::Pod));
    if !decision.allow {
        return denied(maps, guard, &decision);
    }
    if guard.about != 0 {
        return Ruling::Pass;
    }
    flow.cookie = decision.cookie;
    flow.generation = decision.root.generation;
    maps.tally(Counter::PolicyAllowed);
    let why = VerdictReason::policy(Counter::PolicyAllowed, decision.cookie, decision.root.epoch);
    maps.report(guard, &why);
    keep(maps, guard, flow)
}

/// Returns whether a flow that an older generation allowed continues, whatever policies
/// say since ([`ConfigFlags::KEEP_ESTABLISHED`]).
#[inline(always)]
fn is_kept<M: PolicyFlows>(maps: &M, guard: &mut Guard) -> bool {
    maps.read_node(&mut guard.config)
        && guard
            .config
            .as_unchecked()
            .flags
            .contains(ConfigFlags::KEEP_ESTABLISHED)
        && !guard.entry.flow.as_unchecked().has(PolicyFlow::ENDED)
        && guard.entry.flow.is_whole(&guard.key)
}

/// Decides again on a flow that an older generation allowed or ended.
#[inline(always)]
fn again<M: PolicyFlows>(maps: &M, guard: &mut Guard) -> Ruling {
    let Some(mut flow) = guard.entry.flow.open(&guard.key) else {
        return Ruling::Begin;
    };
    let ended = flow.has(PolicyFlow::ENDED);
    flow.flags &= !PolicyFlow::ENDED;
    if flow.cookie == cookies::ITSELF && flow.has(PolicyFlow::INGRESS) {
        flow.generation = maps.policy_root().generation;
        return keep(maps, guard, flow);
    }
    let place = if guard.host != 0 {
        HookPlace::Host
    } else {
        HookPlace::Pod
    };
    let decision = policy(maps, &asked(&guard.key, &flow, place));
    flow.cookie = decision.cookie;
    flow.generation = decision.root.generation;
    if decision.allow {
        return keep(maps, guard, flow);
    }
    flow.flags |= PolicyFlow::ENDED;
    if ended {
        // The entry expires by silence, not by dropped packets.
        guard.now = guard.entry.ticks();
    } else {
        maps.tally(Counter::PolicyEnded);
    }
    keep(maps, guard, flow);
    over(maps, guard, decision.root.epoch)
}

/// Drops a packet of a flow that ended.
#[inline(always)]
fn over<M: PolicyFlows>(maps: &M, guard: &Guard, epoch: u32) -> Ruling {
    maps.tally(Counter::DroppedEnded);
    let cookie = guard.entry.flow.as_unchecked().cookie;
    maps.report(
        guard,
        &VerdictReason::policy(Counter::DroppedEnded, cookie, epoch),
    );
    Ruling::Drop
}

/// Keeps a flow; its packet passes.
#[inline(always)]
pub(super) fn keep<M: PolicyFlows>(maps: &M, guard: &mut Guard, flow: PolicyFlow) -> Ruling {
    guard.entry = PolicyFlowEntry {
        flow: ChecksummedValue::new(&guard.key, flow),
        used: PolicyFlowEntry::used(guard.now, hardware_mark(guard.hardware)),
    };
    if !maps.put_policy_flow(&guard.key, &guard.entry) {
        maps.tally(Counter::PolicyNotKept);
    }
    Ruling::Pass
}

#[inline(always)]
pub(super) fn denied<M: PolicyFlows>(maps: &M, guard: &Guard, decision: &PolicyDecision) -> Ruling {
    let reason = match decision.cookie {
        cookies::CLOSED => Counter::DroppedClosed,
        cookies::BROKEN => Counter::DroppedBroken,
        _ if guard.is_ingress() => Counter::DroppedIngress,
        _ => Counter::DroppedEgress,
    };
    maps.tally(reason);
    let why = VerdictReason::policy(reason, decision.cookie, decision.root.epoch);
    maps.report(guard, &why);
    Ruling::Drop
}

/// The question about a flow.
#[inline(always)]
pub(super) fn asked(key: &Tuple, flow: &PolicyFlow, place: HookPlace) -> Flow {
    let ingress = flow.has(PolicyFlow::INGRESS);
    Flow {
        place,
        direction: if ingress {
            Direction::INGRESS
        } else {
            Direction::EGRESS
        },
        own: key.source,
        peer: flow.peer,
        protocol: key.protocol,
        port: if ingress {
            key.source_port.get()
        } else {
            flow.peer_port.get()
        },
        relayed: flow.has(PolicyFlow::RELAYED),
    }
}

//! Pods that leave the cluster: the node's address represents them where there is no
//! route back to pods.

use ebpf_abi::{Address, ChecksummedValue, Counter, Flow, FlowFlags, Protocol};

use super::headers::{ICMP, ICMPV6, TcpFlags};
use super::{PacketVerdict, Work};
use crate::maps::{FlowBeginner, Flows};

/// Returns whether a packet from `source` to `destination` leaves with the node's
/// address.
///
/// Only pods' addresses are translated: other packets through a pod's device (of another
/// network on this machine) are foreign. The destination is checked first, since most
/// packets of pods stay in the cluster.
#[inline(always)]
pub(super) fn leaves<M: Flows>(maps: &M, source: Address, destination: Address) -> bool {
    maps.leaves(destination) && maps.is_inside(source) && maps.node(&destination).is_none()
}

/// Says in `work.to` and `work.other.flow` as whom a pod's packet that addresses no
/// service leaves; [`PacketVerdict::Unknown`] if it leaves as the node.
#[inline(always)]
pub(super) fn leave<M: Flows>(maps: &M, work: &mut Work) -> PacketVerdict {
    let asked = work.headers.tuple;
    if !leaves(maps, asked.source, asked.destination) || !maps.read_config(&mut work.config) {
        return PacketVerdict::Pass;
    }
    let echo = matches!(asked.protocol, Protocol(ICMP | ICMPV6));
    if work.headers.flags.has(TcpFlags::RST) || (echo && work.headers.answers) {
        // A FIN or RST of an unknown flow, or an answer to it.
        return PacketVerdict::Pass;
    }
    if !echo && !begins(maps, work) {
        return PacketVerdict::Pass;
    }
    work.now = maps.ticks();
    work.to = asked;
    as_node(maps, work, 0, 0, FlowFlags::EGRESS)
}

/// Returns whether a pod's packet begins a flow, and does not answer a machine outside that
/// addressed the pod itself: that machine knows the pod's address, and no other.
#[inline(always)]
fn begins<M: Flows>(maps: &M, work: &Work) -> bool {
    let tcp = work.headers.tuple.protocol == Protocol::TCP;
    if tcp && work.headers.flags.has(TcpFlags::SYN) {
        return !work.headers.flags.has(TcpFlags::ACK);
    }
    match maps.beginner(&work.headers.tuple) {
        // Its entry is gone. Under another port its peer ends it; unchanged it would hang.
        Some(FlowBeginner::Pod) => true,
        Some(FlowBeginner::Peer) => false,
        // A stream opens visibly.
        None => !tcp,
    }
}

/// The same of a pod's packet to a service, whose backend is chosen.
#[inline(always)]
pub(super) fn hide<M: Flows>(maps: &M, work: &mut Work) -> PacketVerdict {
    let flow = work.other.flow.unchecked();
    if flow.flags.contains(FlowFlags::MASQUERADED)
        || !leaves(maps, work.to.source, work.to.destination)
    {
        return PacketVerdict::Unknown;
    }
    as_node(maps, work, flow.set, flow.generation, flow.flags)
}

#[inline(always)]
fn as_node<M: Flows>(
    maps: &M,
    work: &mut Work,
    set: u32,
    generation: u32,
    flags: FlowFlags,
) -> PacketVerdict {
    let source = work.config().node(work.to.destination);
    if source == Address::UNSPECIFIED {
        return work.drop(Counter::DroppedNoAddress);
    }
    work.to.source = source;
    // The seal comes with the ports.
    work.other.flow = ChecksummedValue::broken(Flow {
        to: work.to,
        set,
        generation,
        flags: flags.with(FlowFlags::MASQUERADED),
        reserved: 0,
    });
    maps.count(Counter::Masqueraded);
    PacketVerdict::Unknown
}

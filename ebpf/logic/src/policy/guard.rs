//! Packets at a pod's interface: which flow they belong to, and whether policy
//! lets it be.
//!
//! ```text
//! parse, translate ──► outline ──► guard ──► known flow, decided under this generation: pass
//!                          │             ├─► known flow, older: decide again, or end it
//!                          │             └─► none ──► begin: decide, and keep what is allowed
//!                          └─► of the link alone ──► neighbour: is it the pod's to say?
//! ```
//!
//! A flow is known by what the pod sees, and decided by what is behind
//! translation: a packet to a service is decided by the pod that serves it.
//! What is denied is not kept, so that nobody fills the table with it.
//!
//! # Who began a flow
//!
//! The first packet that is seen, but TCP says so itself: a segment that opens
//! a connection never belongs to one of the other direction. Without a
//! connection an answer is one while the flow is fresh ([`Timeouts`]). A flow
//! that policy ended is remembered, else its own next segment, from the other
//! side, would begin it anew.
//!
//! [`Timeouts`]: ebpf_abi::Timeouts

use ebpf_abi::policy::{Direction, PolicyFlow, PolicyFlowEntry, cookies, hardware_mark};
use ebpf_abi::{ChecksummedValue, Config, ConfigFlags, Counter, Port, Protocol, Timeouts, Tuple};

use super::{Flow, HookPlace, PolicyDecision, PolicyMaps, policy};
use crate::packet::headers::{
    Fragment, Headers, ICMP, ICMPV6, LINK, TcpFlags, V4, V6, network_v4, network_v6,
};
use crate::packet::{Kind, Packet, PacketVerdict, Work};

mod host;
mod portless;
mod recent;
mod report;
mod sender;

pub use host::{host_begin, host_outline, host_portless, host_told};
pub use portless::portless;
pub use recent::{Recent, is_recent, is_recent_still};
pub use report::{VerdictReason, describe};
pub use sender::{ReturnPath, neighbour, prove, way_back};

/// The maps for flows at pods' interfaces besides those of policy.
pub trait PolicyFlows: PolicyMaps {
    /// A flow's entry in its map, for [`touch`](Self::touch).
    type Place: Copy;

    /// Copies a flow's entry to `into`.
    fn policy_flow(&self, key: &Tuple, into: &mut PolicyFlowEntry) -> Option<Self::Place>;
    /// Says when an entry was last used.
    fn touch(&self, place: Self::Place, used: u64);
    /// Adds or replaces an entry; returns false if there is no room.
    fn put_policy_flow(&self, key: &Tuple, entry: &PolicyFlowEntry) -> bool;
    /// Copies the node's configuration to `into`; returns false if there is none.
    fn read_node(&self, into: &mut ChecksummedValue<Config>) -> bool;
    /// Monotonic time in ticks of [`Life`](ebpf_abi::Life).
    fn clock(&self) -> u32;
    /// Returns a number that changes a few times per tick, and is cheaper than the clock.
    fn moment(&self) -> u32;
    /// Returns whether a packet certainly belongs to no service and to no flow of one.
    fn is_strange(&self, tuple: &Tuple) -> bool;
    /// Returns whether this processor's table of [recent](Recent) packets contains it.
    fn is_recent(&self, place: u32, recent: &Recent) -> bool;
    /// Puts it there.
    fn keep_recent(&self, place: u32, recent: &Recent);
    /// Counts.
    fn tally(&self, counter: Counter);
    /// Records a verdict for people, if enabled; never for packets of a continuing flow.
    fn report(&self, guard: &Guard, why: &VerdictReason);
}

/// The state of a packet at a pod's interface.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub struct Guard {
    /// The flow as the pod sees it, the pod first.
    pub key: Tuple,
    /// The flow, if this packet began it.
    pub flow: PolicyFlow,
    /// Its entry.
    pub entry: PolicyFlowEntry,
    /// The headers that decide, where those of services do not apply: of another
    /// protocol, of an outer packet, of an error.
    pub headers: Headers,
    /// The entry for the table of [recent](is_recent) packets if it passes.
    pub recent: Recent,
    /// The node.
    pub config: ChecksummedValue<Config>,
    /// Now, in ticks.
    pub now: u32,
    /// Whether it opens a connection.
    pub opens: u32,
    /// Whether it is an error about the flow.
    pub about: u32,
    /// Did the pod send it to itself?
    pub itself: u32,
    /// Whether it belongs to the node itself, not to a pod.
    pub host: u32,
    /// Whether it is proven to come from the pod's own addresses.
    pub proven: u32,
    /// The pod's claimed hardware address: the source of what it sends, the destination
    /// of what it receives. As [`Packet::hardware`].
    pub hardware: u64,
}

impl Guard {
    /// Returns the empty state.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            key: Headers::NOTHING.tuple,
            flow: PolicyFlow::NOTHING,
            entry: PolicyFlowEntry {
                flow: ChecksummedValue::broken(PolicyFlow::NOTHING),
                used: 0,
            },
            headers: Headers::NOTHING,
            recent: Recent::NOTHING,
            config: ChecksummedValue::broken(Config::DEFAULT),
            now: 0,
            opens: 0,
            about: 0,
            itself: 0,
            host: 0,
            proven: 0,
            hardware: 0,
        }
    }

    /// Returns whether it goes to the pod.
    #[inline(always)]
    #[must_use]
    pub const fn is_ingress(&self) -> bool {
        self.flow.has(PolicyFlow::INGRESS)
    }

    /// The device, and which way.
    #[inline(always)]
    fn place(&mut self, told: &DeviceFacts) {
        self.flow.device = told.device;
        self.flow.flags = 0;
        self.proven = 0;
        self.hardware = told.hardware;
        if told.direction == Direction::INGRESS {
            self.flow.flags = PolicyFlow::INGRESS;
            if told.from != 0 {
                self.flow.flags |= PolicyFlow::RELAYED;
            }
        }
    }

    /// Sets the flow: the addresses that the pod sees, and those behind translation.
    #[inline(always)]
    fn name(&mut self, seen: &Tuple, far: &Tuple) {
        if self.is_ingress() {
            self.key = seen.reversed();
            self.flow.peer = far.source;
            self.flow.peer_port = far.source_port;
        } else {
            self.key = *seen;
            self.flow.peer = far.destination;
            self.flow.peer_port = far.destination_port;
        }
    }

    /// Sets the state of a packet of which only the device is known.
    #[inline(always)]
    pub fn unknown(&mut self, told: &DeviceFacts) {
        self.about = 0;
        self.place(told);
        self.name(&Headers::NOTHING.tuple, &Headers::NOTHING.tuple);
    }
}

impl Default for Guard {
    fn default() -> Self {
        Self::new()
    }
}

/// The facts that a device provides about a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DeviceFacts {
    /// The direction, as the pod sees it.
    pub direction: Direction,
    /// The device's index.
    pub device: u32,
    /// The index of the device that received it; zero if a process of this node sent it.
    pub from: u32,
    /// The pod's hardware address, as the packet has it: as [`Packet::hardware`].
    pub hardware: u64,
}

/// The ruling on a packet.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ruling {
    /// It passes without further checks.
    Pass = 0,
    /// Its flow decides.
    Ask = 1,
    /// It is dropped, and counted.
    Drop = 2,
    /// It begins a flow: [`begin`] decides, once it is [proven](prove) that a
    /// pod's packet is from the pod's own addresses.
    Begin = 3,
    /// It passes if it is [proven](prove) to come from the pod's own addresses; a packet
    /// of a flow that [`guard`] knows is then guarded again.
    Prove = 4,
    /// It is of the link alone: [`neighbour`] looks at it.
    Link = 5,
}

/// Returns whether an ICMPv6 message is link-local (RFC 4861, RFC 2710, RFC 3810):
/// listeners and neighbours.
const fn is_link_local(kind: u8) -> bool {
    matches!(kind, 130..=137 | 143)
}

/// Determines the flow of a packet. `kind` is the result of [`parse`], `verdict` that of
/// services.
///
/// [`parse`]: crate::packet::parse
#[inline(always)]
pub fn outline<M: PolicyFlows, P: Packet>(
    maps: &M,
    packet: P,
    work: &Work,
    kind: Kind,
    verdict: PacketVerdict,
    told: &DeviceFacts,
    guard: &mut Guard,
) -> Ruling {
    let ingress = told.direction == Direction::INGRESS;
    guard.opens = 0;
    guard.about = 0;
    guard.host = 0;
    guard.itself = u32::from(ingress && told.from == told.device);
    guard.place(told);
    if kind != Kind::Transport || verdict != PacketVerdict::Pass || work.tunnel != 0 {
        // The table of recent packets was not checked.
        guard.recent.root.epoch = 0;
    }
    let mut seen = work.headers.tuple;
    let mut far = seen;
    if kind == Kind::Transport && work.tunnel == 0 {
        let translated = matches!(verdict, PacketVerdict::Translate | PacketVerdict::Forward);
        if translated && ingress {
            seen = work.to;
        } else if translated {
            far = work.to;
        }
        let flags = work.headers.flags;
        guard.opens = u32::from(
            seen.protocol == Protocol::TCP && flags.has(TcpFlags::SYN) && !flags.has(TcpFlags::ACK),
        );
    } else {
        match outer(packet, guard) {
            // Sent or forwarded by the node itself.
            TunnelHeader::NotIp | TunnelHeader::LinkLocal if ingress => return Ruling::Pass,
            TunnelHeader::NotIp | TunnelHeader::LinkLocal => return Ruling::Link,
            TunnelHeader::Unreadable => {
                let far = guard.headers.tuple;
                guard.name(&far, &far);
                return unreadable(maps, guard);
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

/// Removes the identifiers of echoes, which policy does not distinguish.
#[inline(always)]
fn unnumbered(tuple: &mut Tuple) {
    if matches!(tuple.protocol, Protocol(ICMP | ICMPV6)) {
        (tuple.source_port, tuple.destination_port) = (Port(0), Port(0));
    }
}

/// Drops what nothing can be decided on.
#[inline(always)]
pub fn unreadable<M: PolicyFlows>(maps: &M, guard: &Guard) -> Ruling {
    maps.tally(Counter::DroppedUnreadable);
    maps.report(
        guard,
        &VerdictReason::not_policy(Counter::DroppedUnreadable),
    );
    Ruling::Drop
}

enum TunnelHeader {
    NotIp,
    LinkLocal,
    Unreadable,
    Readable,
}

/// Parses the outermost addresses. Protocols that services do not support are
/// distinguished by their numbers alone.
#[inline(always)]
fn outer<P: Packet>(packet: P, guard: &mut Guard) -> TunnelHeader {
    let Some(link) = packet.load::<2>(12) else {
        return TunnelHeader::NotIp;
    };
    let headers = &mut guard.headers;
    headers.network = LINK;
    headers.tuple = Headers::NOTHING.tuple;
    let protocol = match u16::from_be_bytes(link) {
        V4 => network_v4(packet, headers),
        V6 => network_v6(packet, headers),
        _ => return TunnelHeader::NotIp,
    };
    let Some(protocol) = protocol else {
        return TunnelHeader::Unreadable;
    };
    headers.tuple.protocol = Protocol(protocol);
    headers.tuple.source_port = Port(0);
    headers.tuple.destination_port = Port(0);
    // For those, services would have parsed the ports if they were valid.
    if matches!(
        headers.tuple.protocol,
        Protocol::TCP | Protocol::UDP | Protocol::SCTP
    ) {
        return TunnelHeader::Unreadable;
    }
    let icmp = protocol == if headers.v4 { ICMP } else { ICMPV6 };
    if icmp && headers.fragment != Fragment::LATER {
        let Some([kind]) = packet.load::<1>(headers.transport) else {
            return TunnelHeader::Unreadable;
        };
        if !headers.v4 && is_link_local(kind) {
            return TunnelHeader::LinkLocal;
        }
        // Requests; all else answers something.
        guard.opens = u32::from(kind == if headers.v4 { 8 } else { 128 });
    }
    TunnelHeader::Readable
}

/// Decides on a packet of the flow that [`outline`] named.
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
/// [proven](prove).
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
fn keep<M: PolicyFlows>(maps: &M, guard: &mut Guard, flow: PolicyFlow) -> Ruling {
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
fn denied<M: PolicyFlows>(maps: &M, guard: &Guard, decision: &PolicyDecision) -> Ruling {
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
fn asked(key: &Tuple, flow: &PolicyFlow, place: HookPlace) -> Flow {
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

#[cfg(test)]
mod tests;

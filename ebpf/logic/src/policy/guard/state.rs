//! A packet at a pod's interface, and the verdict on it.

use ebpf_abi::policy::{Direction, PolicyFlow, PolicyFlowEntry};
use ebpf_abi::{ChecksummedValue, Config, Tuple};

use super::recent_packet::Recent;
use crate::packet::headers::Headers;

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
    /// The entry for the table of [recent](super::is_recent) packets if it passes.
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
    /// of what it receives. Encoded as in [`Packet::hardware`](crate::packet::Packet::hardware).
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
    pub(super) fn place(&mut self, told: &DeviceFacts) {
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
    pub(super) fn name(&mut self, seen: &Tuple, far: &Tuple) {
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
    /// The pod's hardware address, as the packet has it: as [`Packet::hardware`](crate::packet::Packet::hardware).
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
    /// It begins a flow: [`begin`](super::begin) decides, once it is [proven](super::prove) that a
    /// pod's packet is from the pod's own addresses.
    Begin = 3,
    /// It passes if [`prove`](super::prove) shows that it comes from the pod's own addresses. If it
    /// belongs to a known flow, [`guard`](super::guard) then runs again.
    Prove = 4,
    /// It is of the link alone: [`neighbour`](super::neighbour) looks at it.
    Link = 5,
}

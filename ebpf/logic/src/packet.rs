//! Packets at network devices: services for clients whose sockets the hooks do not see.
//!
//! A packet takes the same steps in each program: [`parse`], [`track`] if it belongs to a
//! flow, else [`begin`] if it addresses a service, then [`rewrite`] or [`refuse`]. They
//! share one [`Work`], because a program's stack is too small.
//!
//! # Source NAT
//!
//! A backend on this node sees the client. A remote one sees this node instead of a
//! client on another machine, since its answers must come back here. So does every
//! backend of a cluster IP that was addressed from outside, and a pod that reaches
//! itself. A pod of another node keeps its address and gets another port: its own node
//! translates its other connections, and two of them may leave one port for the same
//! backend.
//!
//! A pod that leaves the cluster is represented by this node, unless the destination has
//! a route to pods ([`Flows::leaves`]). Its flow is like those of services, and takes a
//! port of the same range.
//!
//! # Forwarding
//!
//! The kernel treats a packet as martian if its source is an address of the node that
//! receives it. A packet that gets such a source on ingress (the node's as a client, or
//! the service's as a server) is therefore forwarded by the program
//! ([`PacketVerdict::Forward`]); others by the kernel.

mod begin;
mod checksum;
mod crc;
mod egress;
mod error;
mod fragments;
mod glance;
pub(crate) mod headers;
mod lifetime;
mod nat;
mod refuse;
mod track;
mod tunnel;

use ebpf_abi::{
    Address, ChecksummedValue, Config, Counter, Flow, FlowEntry, FlowFlags, FlowLogKey, Life, Port,
    Protocol, Tuple,
};

pub use begin::begin;
pub use checksum::{difference, fold, replace};
pub use crc::change as sctp_change;
pub use error::rewrite_error;
pub use glance::{is_foreign, is_strange};
pub use headers::{Fragment, Headers, Kind, parse, parse_front};
pub use lifetime::{collect, is_over, together};
pub use nat::{relay, rewrite};
pub use refuse::{answer, refuse};
pub use track::track;
pub use tunnel::{decapsulate, encapsulate};

use crate::lookup::FoundBackend;
use crate::maps::Flows;

/// A packet with its Ethernet header, in a form that is copied for nothing.
pub trait Packet: Copy {
    /// Bytes of the frame.
    fn len(self) -> u32;
    /// Returns whether it is empty.
    fn is_empty(self) -> bool {
        self.len() == 0
    }
    /// The packet's first bytes, if they lie where they cost nothing.
    fn front(self) -> Option<Front>;
    /// Returns the fields that identify most foreign packets, likewise.
    #[inline(always)]
    fn glance(self) -> Option<Glance> {
        let Front { link, words } = self.front()?;
        let [a, b, c, d, e, f, ..] = words;
        Some(Glance {
            link,
            words: [a, b, c, d, e, f],
        })
    }
    /// The same as [`front`](Self::front) of a packet of IPv6.
    fn front_v6(self) -> Option<FrontV6>;
    /// Returns the EtherType, in host order.
    #[inline(always)]
    fn link(self) -> Option<u16> {
        self.load::<2>(Front::LINK as u32).map(u16::from_be_bytes)
    }
    /// Bytes at an offset, if all are there.
    fn load<const N: usize>(self, at: u32) -> Option<[u8; N]>;
    /// Returns a hardware address of the Ethernet header, in the lower six bytes; zero if
    /// there is none: the destination at [`TO`](Front::TO), the source at
    /// [`FROM`](Front::FROM).
    #[inline(always)]
    fn hardware(self, at: u32) -> u64 {
        hardware_of(self.load::<6>(at).unwrap_or_default())
    }
    /// Overwrites bytes. `summed` are those for which no checksum beside them
    /// makes up (the addresses of IPv6): they count in a sum over the packet
    /// that a device may have made.
    fn store<const N: usize>(self, at: u32, bytes: &[u8; N], summed: bool) -> bool;
    /// Brings a header's checksum up to date by a [`difference`].
    #[inline(always)]
    fn fix_header(self, at: u32, difference: u32) -> bool {
        let Some(old) = self.load::<2>(at) else {
            return false;
        };
        let new = replace(u16::from_ne_bytes(old), difference);
        self.store(at, &new.to_ne_bytes(), false)
    }
    /// The same for a transport checksum. `pseudo`: the difference is in the pseudo
    /// header. `optional`: zero means that there is no checksum.
    #[inline(always)]
    fn fix_transport(self, at: u32, difference: u32, _pseudo: bool, optional: bool) -> bool {
        let Some(old) = self.load::<2>(at) else {
            return false;
        };
        if optional && old == [0; 2] {
            return true;
        }
        let mut new = replace(u16::from_ne_bytes(old), difference);
        if optional && new == 0 {
            new = 0xffff;
        }
        self.store(at, &new.to_ne_bytes(), false)
    }
    /// Returns the change of SCTP's checksum for changed ports ([`sctp_change`]): long
    /// enough to be a separate function where that matters.
    #[inline(always)]
    fn sctp_change(self, ports: u32, length: u32) -> u32 {
        sctp_change(ports, length)
    }
    /// Cuts the frame off.
    fn truncate(self, length: u32) -> bool;
    /// Makes room after the Ethernet header, for an outer header or not.
    fn grow(self, bytes: u32, outer: OuterHeader) -> bool;
    /// Removes bytes after the Ethernet header.
    fn shrink(self, bytes: u32) -> bool;
}

/// A hardware address in a number, as [`Packet::hardware`] gives it.
#[inline(always)]
#[must_use]
pub const fn hardware_of(bytes: [u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = bytes;
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}

/// The first bytes of a packet: an Ethernet header, one of IPv4 without options,
/// and the most that is read of a transport header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Front {
    /// The EtherType, in network order.
    pub link: u16,
    /// The following bytes, four each as in memory.
    pub words: [u32; Self::WORDS],
}

impl Front {
    /// The offset of the receiver's hardware address.
    pub const TO: u32 = 0;
    /// The offset of the sender's hardware address.
    pub const FROM: u32 = 6;
    /// The offset of [`link`](Self::link).
    pub const LINK: usize = 12;
    /// The offset of [`words`](Self::words).
    pub const START: usize = 14;
    /// How many there are.
    pub const WORDS: usize = 10;
    /// Bytes of all.
    pub const LENGTH: usize = Self::START + Self::WORDS * 4;
    /// Words of a [`FrontV6`].
    pub const WORDS_V6: usize = 14;
}

/// The few bytes of a packet that show that it belongs to no service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Glance {
    /// The EtherType, in network order.
    pub link: u16,
    /// The following bytes, as [`Front::words`], up to a transport header's ports.
    pub words: [u32; Self::WORDS],
}

impl Glance {
    /// How many words there are.
    pub const WORDS: usize = 6;
    /// Bytes of all.
    pub const LENGTH: usize = Front::START + Self::WORDS * 4;
}

/// The bytes after the Ethernet header: an IPv6 header, and the longest part that is read
/// of a transport header. Four bytes each as in memory.
pub type FrontV6 = [u32; Front::WORDS_V6];

/// The outer header to make room for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OuterHeader {
    /// The packet becomes the content of a message.
    Message,
    /// An outer IPv4 header.
    V4,
    /// An outer IPv6 header.
    V6,
}

/// The place where a packet is seen.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// It arrived from another machine.
    Device = 0,
    /// It was sent by a pod of this node.
    Pod = 1,
    /// It is about to leave through a device of the node, and a process of the
    /// node made it.
    Host = 2,
    /// It is about to leave, from elsewhere or to a pod: only answers of the
    /// node's own processes are looked for.
    Leaving = 3,
}

impl Origin {
    /// Returns whether the kernel has already routed it.
    #[inline(always)]
    #[must_use]
    pub const fn is_routed(self) -> bool {
        matches!(self, Self::Host | Self::Leaving)
    }
}

/// The verdict on a packet.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketVerdict {
    /// It is foreign and passes unchanged.
    Pass = 0,
    /// It belongs to no flow: it may begin one.
    Unknown = 1,
    /// It is translated to [`Work::to`], and continues.
    Translate = 2,
    /// It gets [`Work::to`], and the program sends it there.
    Forward = 3,
    /// It is an ICMP error about a packet of a flow: it gets what belongs to
    /// [`Work::entry`], and the program sends it.
    TranslateError = 4,
    /// It is dropped for [`Work::counter`].
    Drop = 5,
    /// Its sender is notified that nothing serves.
    Refuse = 6,
    /// It is sent in an outer header to [`Work::to`]'s destination.
    Encapsulate = 7,
    /// It is sent unchanged, except for the hop count, to the machine of [`Work::to`]'s
    /// destination: nodes that disagree temporarily would otherwise send it to and fro.
    Link = 8,
}

/// All that is known of a packet on its way through a program.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub struct Work {
    /// The packet's headers.
    pub headers: Headers,
    /// The source and destination after translation.
    pub to: Tuple,
    /// The entry of its flow.
    pub entry: FlowEntry,
    /// The entry of the flow's other direction.
    pub other: FlowEntry,
    /// A key in the making.
    pub key: Tuple,
    /// A key in the log, or on its way there.
    pub logged: FlowLogKey,
    /// The node.
    pub config: ChecksummedValue<Config>,
    /// Now, in ticks.
    pub now: u32,
    /// Whether there is an entry of an expired flow under the packet's tuple.
    pub stale: u32,
    /// The reason of a drop, or the counter to increment.
    pub counter: Counter,
    /// The length of the outer header of the received packet, or zero.
    pub tunnel: u32,
    /// The destination of the outer header.
    pub outer: Address,
    /// The packet quoted by an ICMP error.
    pub quote: Quote,
    /// The service and backend, while a flow begins.
    pub found: FoundBackend,
    /// The flow that begins.
    pub flow: Flow,
    /// The search for its port.
    pub search: Search,
}

/// The state of a search for a free port.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Search {
    /// The state of the random port sequence.
    pub state: u32,
    /// How many random ports are still to be tried.
    pub random: u32,
    /// How many ports in a row are to be tried after those.
    pub left: u32,
    /// The port that was tried last, counted from the first of the range.
    pub next: u32,
}

/// The packet quoted by an ICMP error, and the handling of the error.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Quote {
    /// The sender of the error.
    pub sender: Address,
    /// The offset of the quoted IP header.
    pub network: u32,
    /// The offset of the quoted transport header.
    pub transport: u32,
    /// Whether the program forwards the error.
    pub forward: u32,
    /// Whether the error's sender is replaced.
    pub whole: u32,
}

impl Work {
    /// Returns the empty state.
    #[must_use]
    pub const fn new() -> Self {
        const NOBODY: Tuple = Tuple::new(
            Address::UNSPECIFIED,
            Port(0),
            Address::UNSPECIFIED,
            Port(0),
            Protocol(0),
        );
        const NOTHING: Flow = Flow {
            to: NOBODY,
            set: 0,
            generation: 0,
            flags: FlowFlags::NONE,
            reserved: 0,
        };
        let nothing = FlowEntry {
            flow: ChecksummedValue::broken(NOTHING),
            life: Life(0),
        };
        Self {
            headers: Headers::NOTHING,
            to: NOBODY,
            entry: nothing,
            other: nothing,
            key: NOBODY,
            logged: FlowLogKey::NOTHING,
            config: ChecksummedValue::broken(Config::DEFAULT),
            now: 0,
            stale: 0,
            counter: Counter::PacketTranslated,
            tunnel: 0,
            outer: Address::UNSPECIFIED,
            quote: Quote {
                sender: Address::UNSPECIFIED,
                network: 0,
                transport: 0,
                forward: 0,
                whole: 0,
            },
            found: FoundBackend::NOTHING,
            flow: NOTHING,
            search: Search {
                state: 0,
                random: 0,
                left: 0,
                next: 0,
            },
        }
    }

    /// The node, once it was read.
    #[inline(always)]
    #[must_use]
    pub const fn config(&self) -> &Config {
        self.config.as_unchecked()
    }

    #[inline(always)]
    fn drop(&mut self, why: Counter) -> PacketVerdict {
        self.counter = why;
        PacketVerdict::Drop
    }
}

impl Default for Work {
    fn default() -> Self {
        Self::new()
    }
}

/// A step that is verified apart from who takes it, where that matters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Find the flow of the packet that an error is about.
    Error,
    /// Find a later fragment's ports; [`PacketVerdict::Unknown`] if they are known.
    Recall,
    /// Keep a first fragment's ports.
    Keep,
    /// Find the packet's flow.
    Track,
    /// See whether it addresses a service; [`PacketVerdict::Unknown`] if so.
    Ask,
    /// See whether it leaves the cluster as the node; [`PacketVerdict::Unknown`] if so.
    Leave,
    /// Show the client of a service as the node, if its backend is outside.
    Hide,
    /// Choose a backend.
    Select,
    /// Make the flow's entries.
    Add,
    /// Add the client's entry.
    Forward,
    /// Add the entry for replies under one port.
    Reply,
    /// Search for a port that is free.
    Search,
    /// Look at some ports of a search.
    SearchRun,
    /// Remove a conflicting entry; [`PacketVerdict::Unknown`] if it is already removed.
    TakeOver,
    /// Remove the expired flow, since the packet's connection is served elsewhere.
    Forget,
    /// Collect expired flows.
    Collect,
    /// Collect more flows, since there is no room.
    MakeRoom,
}

/// Takes a step.
#[inline(always)]
pub fn take<M: Flows>(maps: &M, step: Step, origin: Origin, work: &mut Work) -> PacketVerdict {
    match step {
        Step::Error => error::find(maps, origin, work),
        Step::Recall => {
            if fragments::recall(maps, work) {
                PacketVerdict::Unknown
            } else {
                PacketVerdict::Pass
            }
        }
        Step::Keep => {
            fragments::keep(maps, work);
            PacketVerdict::Unknown
        }
        Step::Track => track(maps, origin, work),
        Step::Ask => {
            if begin::addresses_service(maps, work) {
                PacketVerdict::Unknown
            } else {
                PacketVerdict::Pass
            }
        }
        Step::Leave => egress::leave(maps, work),
        Step::Hide => egress::hide(maps, work),
        Step::Select => begin::select(maps, origin, work),
        Step::Add => begin::add(maps, work),
        Step::Forward => begin::add_forward(maps, work),
        Step::Reply => begin::try_reply(maps, work),
        Step::Search => begin::search(maps, work),
        Step::SearchRun => begin::search_run(maps, work),
        Step::TakeOver => {
            if begin::take_over(maps, work) {
                PacketVerdict::Unknown
            } else {
                PacketVerdict::Pass
            }
        }
        Step::Forget => begin::forget(maps, work),
        Step::Collect => {
            collect(maps, work, lifetime::EXAMINED, lifetime::REST);
            PacketVerdict::Unknown
        }
        Step::MakeRoom => {
            collect(maps, work, lifetime::EXAMINED_WHEN_FULL, 0);
            PacketVerdict::Unknown
        }
    }
}

/// Decides on a packet that was [parsed](parse): all before it is changed.
#[inline(always)]
pub fn decide<M: Flows>(maps: &M, kind: Kind, origin: Origin, work: &mut Work) -> PacketVerdict {
    if work.tunnel != 0 && origin != Origin::Device {
        return PacketVerdict::Pass;
    }
    match kind {
        Kind::Other => return PacketVerdict::Pass,
        Kind::Error => return maps.step(Step::Error, origin, work),
        Kind::Echo if work.tunnel != 0 => return PacketVerdict::Pass,
        Kind::Transport | Kind::Echo => {}
    }
    if work.headers.fragment == Fragment::LATER
        && maps.step(Step::Recall, origin, work) != PacketVerdict::Unknown
    {
        return PacketVerdict::Pass;
    }
    let verdict = decide_whole(maps, origin, work);
    if work.headers.fragment == Fragment::FIRST
        && matches!(verdict, PacketVerdict::Translate | PacketVerdict::Forward)
        && work.headers.tuple.protocol == Protocol::SCTP
        && nat::ports(&work.headers.tuple) != nat::ports(&work.to)
    {
        return work.drop(Counter::DroppedSctpPort);
    }
    if work.headers.fragment == Fragment::FIRST && verdict != PacketVerdict::Pass {
        maps.step(Step::Keep, origin, work);
    }
    verdict
}

/// As [`decide`], of a packet that is no fragment and lies in no other: such as
/// [`parse_front`] reads.
#[inline(always)]
pub fn decide_whole<M: Flows>(maps: &M, origin: Origin, work: &mut Work) -> PacketVerdict {
    match maps.step(Step::Track, origin, work) {
        PacketVerdict::Unknown if origin == Origin::Leaving => PacketVerdict::Pass,
        PacketVerdict::Unknown => begin(maps, origin, work),
        known => known,
    }
}

#[cfg(test)]
pub(crate) mod tests;

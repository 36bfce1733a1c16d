//! The parsed facts about a packet.

use ebpf_abi::{
    Address, ChecksummedValue, Config, Counter, Flow, FlowEntry, FlowFlags, FlowLogKey, Life, Port,
    Protocol, Tuple,
};

use super::headers::Headers;
use super::step::PacketVerdict;
use crate::found_backend::FoundBackend;

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
    pub(super) fn drop(&mut self, why: Counter) -> PacketVerdict {
        self.counter = why;
        PacketVerdict::Drop
    }
}

impl Default for Work {
    fn default() -> Self {
        Self::new()
    }
}

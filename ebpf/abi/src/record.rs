//! What programs tell of single flows: verdicts of policy, and packets that
//! were dropped or refused.
//!
//! Records go into a ring of bytes, and are lost while it is full; how many were
//! is [`Counter::RecordLost`](crate::Counter::RecordLost). A packet of a flow that was allowed before is
//! never told of.

use crate::{Address, Plain, Port, Protocol, Tuple};

/// One verdict.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct FlowRecord {
    /// When; nanoseconds of the monotonic clock.
    pub time: u64,
    /// From whoever began the flow to whom it asked for: as the pod or node that
    /// decides sees it, or, of packets to services, as the packet came.
    pub tuple: Tuple,
    /// The end that does not decide, behind translation.
    pub peer: Address,
    /// The rule that decided, or one of [`cookies`](crate::policy::cookies).
    pub cookie: u32,
    /// The epoch that the cookie belongs to; 0: policy has no say here.
    pub epoch: u32,
    /// Why: a [`Counter`](crate::Counter) by its index.
    pub reason: u32,
    /// Index of the device; 0: any of the node's own, by the host firewall.
    pub device: u32,
    /// For how many verdicts it stands: one, but for flows that are allowed.
    pub weight: u32,
    /// The port of [`peer`](Self::peer).
    pub peer_port: Port,
    /// [`INGRESS`](Self::INGRESS), [`EGRESS`](Self::EGRESS), or neither: no
    /// policy's word.
    pub flags: u16,
}

impl FlowRecord {
    /// Decided at the receiving pod or node.
    pub const INGRESS: u16 = 1;
    /// Decided at the sending pod or node.
    pub const EGRESS: u16 = 1 << 1;

    /// Of nothing.
    pub const NOTHING: Self = Self {
        time: 0,
        tuple: Tuple::new(
            Address::UNSPECIFIED,
            Port(0),
            Address::UNSPECIFIED,
            Port(0),
            Protocol(0),
        ),
        peer: Address::UNSPECIFIED,
        cookie: 0,
        epoch: 0,
        reason: 0,
        device: 0,
        weight: 0,
        peer_port: Port(0),
        flags: 0,
    };

    /// Are all of these flags set?
    #[inline(always)]
    #[must_use]
    pub const fn has(&self, flags: u16) -> bool {
        self.flags & flags == flags
    }
}

/// Which verdicts programs tell of. Constants that user space sets when it loads
/// them: what is off is not in the programs at all.
pub mod recording {
    /// Name of the switch (`u8`): 0 turns all records off.
    pub const SWITCH: &str = "ORLOP_RECORDS";
    /// Name of the share (`u32`): of flows that policy allows, one in so many is
    /// told of; 0: none.
    pub const SAMPLE: &str = "ORLOP_SAMPLE";
    /// Bytes of the ring, a power of two: some ten thousand records.
    pub const RING: u32 = 1 << 20;
}

// SAFETY: 88 bytes: u64, Tuple (40), Address (16), five u32, two u16.
unsafe impl Plain for FlowRecord {}

const _: () = assert!(size_of::<FlowRecord>() == 88);

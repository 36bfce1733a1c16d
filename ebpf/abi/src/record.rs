//! Records of single flows: verdicts of policy, and packets that were dropped or refused.
//!
//! Records go into a ring buffer, and are lost while it is full;
//! [`Counter::RecordLost`](crate::Counter::RecordLost) counts them. Packets of flows that
//! were already allowed are never recorded.

use crate::{Address, Plain, Port, Protocol, Tuple};

/// One verdict.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct FlowRecord {
    /// When; nanoseconds of the monotonic clock.
    pub time: u64,
    /// From the client to the server: as the pod or node that decides sees it, or, for
    /// packets to services, as the packet arrived.
    pub tuple: Tuple,
    /// The end that does not decide, behind translation.
    pub peer: Address,
    /// The rule that decided, or one of [`cookies`](crate::policy::cookies).
    pub cookie: u32,
    /// The epoch of the cookie; 0 if policy did not decide.
    pub epoch: u32,
    /// The reason: the index of a [`Counter`](crate::Counter).
    pub reason: u32,
    /// Index of the device; 0: any of the node's own, by the host firewall.
    pub device: u32,
    /// The number of verdicts that it represents: one, except for allowed flows.
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

    /// The empty record.
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

    /// Returns whether all of these flags are set.
    #[inline(always)]
    #[must_use]
    pub const fn has(&self, flags: u16) -> bool {
        self.flags & flags == flags
    }
}

/// The recorded verdicts. Constants that user space sets when it loads the programs:
/// disabled code is removed from the programs.
pub mod recording {
    /// Name of the switch (`u8`): 0 turns all records off.
    pub const SWITCH: &str = "ORLOP_RECORDS";
    /// Name of the sampling rate (`u32`): of flows that policy allows, one in this many
    /// is recorded; 0: none.
    pub const SAMPLE: &str = "ORLOP_SAMPLE";
    /// Bytes of the ring, a power of two: some ten thousand records.
    pub const RING: u32 = 1 << 20;
}

// SAFETY: 88 bytes: u64, Tuple (40), Address (16), five u32, two u16.
unsafe impl Plain for FlowRecord {}

const _: () = assert!(size_of::<FlowRecord>() == 88);

//! Connections that packets make: what becomes of each packet's addresses.
//!
//! A flow has two entries of one map. Each is found under what a packet
//! carries when it arrives and says what it carries when it leaves, so that
//! one lookup serves a packet of either direction:
//!
//! ```text
//! client:cport  → VIP:vport     ──► client or node:port → backend:bport
//! backend:bport → client or node:port ──► VIP:vport → client:cport
//! ```
//!
//! The value of either, turned round, is the key of the other. The VIP is part
//! of the first key, so that two services with the same backend do not meet.

use crate::{Address, ChecksummedValue, Plain, Port, Protocol};

/// The source and destination of a packet.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct Tuple {
    /// The sender.
    pub source: Address,
    /// The receiver.
    pub destination: Address,
    /// The sender's port.
    pub source_port: Port,
    /// The receiver's port.
    pub destination_port: Port,
    /// The protocol.
    pub protocol: Protocol,
    reserved8: u8,
    reserved16: u16,
}

impl Tuple {
    /// A tuple.
    #[inline(always)]
    #[must_use]
    pub const fn new(
        source: Address,
        source_port: Port,
        destination: Address,
        destination_port: Port,
        protocol: Protocol,
    ) -> Self {
        Self {
            source,
            destination,
            source_port,
            destination_port,
            protocol,
            reserved8: 0,
            reserved16: 0,
        }
    }

    /// The other direction.
    #[inline(always)]
    #[must_use]
    pub const fn reversed(&self) -> Self {
        Self::new(
            self.destination,
            self.destination_port,
            self.source,
            self.source_port,
            self.protocol,
        )
    }
}

/// A flow's key as `FLOW_LOG` contains it: with the time of its insertion, in bytes that
/// are zero in a key. They hold the lower half of [`Life::TICK`]s, so that ages beyond
/// nineteen hours wrap around.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct FlowLogKey(Tuple);

impl FlowLogKey {
    /// No flow's.
    pub const NOTHING: Self = Self(Tuple::new(
        Address::UNSPECIFIED,
        Port(0),
        Address::UNSPECIFIED,
        Port(0),
        Protocol(0),
    ));

    /// A key that is logged at `now`, in ticks.
    #[inline(always)]
    #[must_use]
    pub const fn new(key: &Tuple, now: u32) -> Self {
        let mut logged = Self(*key);
        logged.0.reserved16 = now as u16;
        logged
    }

    /// The key.
    #[inline(always)]
    #[must_use]
    pub const fn key(&self) -> Tuple {
        let mut key = self.0;
        key.reserved16 = 0;
        key
    }

    /// How many ticks ago it was logged.
    #[inline(always)]
    #[must_use]
    pub const fn age(&self, now: u32) -> u32 {
        (now as u16).wrapping_sub(self.0.reserved16) as u32
    }
}

/// Properties of a flow's entry.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct FlowFlags(pub u32);

impl FlowFlags {
    /// The client's packets.
    pub const NONE: Self = Self(0);
    /// The backend's packets.
    pub const REPLY: Self = Self(1);
    /// The client is shown as this node.
    pub const MASQUERADED: Self = Self(1 << 1);
    /// The backend is on this node.
    pub const LOCAL: Self = Self(1 << 2);
    /// The backend answers the client directly: there is no entry for replies, and the
    /// client's packets are not translated here.
    pub const DIRECT: Self = Self(1 << 3);
    /// The client is outside the cluster.
    pub const OUTSIDE: Self = Self(1 << 4);
    /// The client keeps its address but not its port: it may have a connection
    /// from the same port to the same backend that does not pass here.
    pub const RENUMBERED: Self = Self(1 << 5);
    /// The client is a pod that leaves the cluster; no service is involved.
    pub const EGRESS: Self = Self(1 << 6);
    /// The kernel's connection tracking has translated its packets since before these
    /// programs were in force (`nf_conntrack`, set up by kube-proxy): they pass
    /// unchanged.
    pub const KERNEL: Self = Self(1 << 7);
}

flags!(FlowFlags);

/// The translation of a flow's packets in one direction; immutable.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct Flow {
    /// The source and destination after translation.
    pub to: Tuple,
    /// The set that the backend was chosen from.
    pub set: u32,
    /// The set's generation then.
    pub generation: u32,
    /// Properties.
    pub flags: FlowFlags,
    /// Zero.
    pub reserved: u32,
}

/// The mutable part of an entry, one word, so that it is never torn: the time of the last
/// use, in [`TICK`](Life::TICK)s of the monotonic clock, and the observed state.
///
/// It is outside the seal. If the element is reused for another flow at the very moment
/// at which this flow's packet writes it, that flow looks fresher or further along than
/// it is; no packet is misdirected by that.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct Life(pub u64);

impl Life {
    /// Nanoseconds of a tick, as a power of two: about 1.07 seconds.
    pub const TICK: u32 = 30;
    /// The backend has answered.
    pub const REPLIED: u32 = 1;
    /// The client has sent FIN.
    pub const CLIENT_FINISHED: u32 = 1 << 1;
    /// The backend has sent FIN.
    pub const BACKEND_FINISHED: u32 = 1 << 2;
    /// This side has sent RST, and nothing else since.
    pub const RESET: u32 = 1 << 3;
    /// The client has acknowledged the backend's answer; for a one-way flow
    /// ([`ONE_WAY`](Self::ONE_WAY)): it has sent more than its first packet.
    pub const ESTABLISHED: u32 = 1 << 4;
    /// The other side has sent RST since this side's last packet.
    pub const PEER_RESET: u32 = 1 << 5;
    /// Only the client's packets pass here: the backend answers directly.
    pub const ONE_WAY: u32 = 1 << 6;
    /// Both sides have sent FIN.
    pub const CLOSED: u32 = Self::CLIENT_FINISHED | Self::BACKEND_FINISHED;

    /// Returns the state of an entry used at `used`, with the observed flags.
    #[inline(always)]
    #[must_use]
    pub const fn new(used: u32, seen: u32) -> Self {
        Self((used as u64) << 32 | seen as u64)
    }

    /// When it was last used; ticks.
    #[inline(always)]
    #[must_use]
    pub const fn used(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Returns the observed flags.
    #[inline(always)]
    #[must_use]
    pub const fn seen(self) -> u32 {
        self.0 as u32
    }
}

/// A value of `FLOWS`.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct FlowEntry {
    /// The immutable part.
    pub flow: ChecksummedValue<Flow>,
    /// The mutable part.
    pub life: Life,
}

/// Tells the fragments of a datagram (RFC 791, RFC 8200 section 4.5).
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct FragmentKey {
    /// The sender.
    pub source: Address,
    /// The receiver.
    pub destination: Address,
    /// The identification in the header.
    pub identification: u32,
    /// The protocol.
    pub protocol: Protocol,
    reserved8: u8,
    reserved16: u16,
}

impl FragmentKey {
    /// A datagram.
    #[inline(always)]
    #[must_use]
    pub const fn new(
        source: Address,
        destination: Address,
        identification: u32,
        protocol: Protocol,
    ) -> Self {
        Self {
            source,
            destination,
            identification,
            protocol,
            reserved8: 0,
            reserved16: 0,
        }
    }
}

/// The ports, which only the first fragment carries.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct FragmentPorts {
    /// The sender's.
    pub source_port: Port,
    /// The receiver's.
    pub destination_port: Port,
    reserved: u32,
}

impl FragmentPorts {
    /// Ports.
    #[inline(always)]
    #[must_use]
    pub const fn new(source_port: Port, destination_port: Port) -> Self {
        Self {
            source_port,
            destination_port,
            reserved: 0,
        }
    }
}

// SAFETY: 40 bytes: two Address (16), two u16, two u8, u16.
unsafe impl Plain for Tuple {}
// SAFETY: a Tuple.
unsafe impl Plain for FlowLogKey {}
// SAFETY: no bytes; the key of queues.
unsafe impl Plain for () {}
// SAFETY: 56 bytes: Tuple (40), four u32.
unsafe impl Plain for Flow {}
// SAFETY: 72 bytes: ChecksummedValue<Flow> (64), u64.
unsafe impl Plain for FlowEntry {}
// SAFETY: 40 bytes: two Address (16), u32, two u8, u16.
unsafe impl Plain for FragmentKey {}
// SAFETY: two u16, u32.
unsafe impl Plain for FragmentPorts {}

const _: () = {
    assert!(size_of::<Tuple>() == 40);
    assert!(size_of::<Flow>() == 56);
    assert!(size_of::<FlowEntry>() == 72);
    assert!(size_of::<FragmentKey>() == 40);
    assert!(size_of::<FragmentPorts>() == 8);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logged_key_is_the_key_again_and_knows_its_age() {
        let (client, server) = (Address::v4([10, 0, 0, 1]), Address::v4([10, 0, 0, 2]));
        let key = Tuple::new(client, Port::new(5), server, Port::new(80), Protocol::TCP);
        for (then, now, age) in [
            (0, 0, 0),
            (7, 17, 10),
            (0xffff, 0x1_0003, 4),
            (0x2_fffe, 0x3_0001, 3),
        ] {
            let logged = FlowLogKey::new(&key, then);
            assert!(logged.key() == key);
            assert_eq!(logged.age(now), age, "{then} {now}");
        }
    }
}

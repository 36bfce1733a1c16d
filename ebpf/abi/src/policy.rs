//! Network policy: peers, rulesets and verdicts.
//!
//! ```text
//! POLICY_ROOT  0                                  ──► Root { epoch, generation }
//! PEERS        (epoch, prefix)                    ──► PeerEntry { peer, flags }
//! ENDPOINTS    (epoch, own address, direction)    ──► EndpointPolicy { ruleset, … }
//! PORTS        (epoch's half, protocol, port / 4) ──► four classes
//! VERDICTS     (epoch, ruleset, peer, class)      ──► PolicyVerdict { cookie, verdict, flags }
//! RULES        cookie                             ──► text, read by people only
//! POLICY_FLOWS pod and its peer, as the pod sees  ──► PolicyFlow { peer, …, generation }
//! ```
//!
//! A peer is a class of addresses that every rule treats alike: the signature of the
//! matching selectors and address ranges. The first four numbers are not classes but
//! kinds ([`PeerEntry::pod_kind`], [`PeerEntry::other_kind`]): they contain the verdicts
//! for peers that a ruleset does not name.
//!
//! All entries are under the epoch of their writer. An agent that starts writes under a
//! new epoch, then the root, then removes the entries of the old epoch: numbers of two
//! agents never mix. The generation changes when any verdict may have changed, so that
//! known flows are decided again.

use crate::{Address, ChecksummedValue, Plain, Port, Protocol, Text};

/// The one entry of `POLICY_ROOT`.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct PolicyRoot {
    /// The epoch of all lookups; 0: there is no policy yet.
    pub epoch: u32,
    /// Moves with every change of verdicts.
    pub generation: u32,
}

/// The owner of an address.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct PeerEntry {
    /// The class, or a kind.
    pub peer: u32,
    /// [`POD`](Self::POD), [`NODE`](Self::NODE), [`LOCAL`](Self::LOCAL).
    pub flags: u32,
}

impl PeerEntry {
    /// A pod's own address, or an unknown address in a range of pods' addresses.
    pub const POD: u32 = 1;
    /// A node's address.
    pub const NODE: u32 = 1 << 1;
    /// This node's address, or that of a pod here.
    pub const LOCAL: u32 = 1 << 2;
    /// Classes are numbered from here; below are kinds.
    pub const FIRST: u32 = 4;

    /// Returns the kind of addresses that belong to no pod.
    #[inline(always)]
    #[must_use]
    pub const fn other_kind(address: Address) -> u32 {
        if address.is_v4() { 0 } else { 1 }
    }

    /// The kind of a pod's address.
    #[inline(always)]
    #[must_use]
    pub const fn pod_kind(address: Address) -> u32 {
        Self::other_kind(address) | 2
    }

    /// Returns whether all of these flags are set.
    #[inline(always)]
    #[must_use]
    pub const fn has(self, flags: u32) -> bool {
        self.flags & flags == flags
    }
}

/// The direction of a packet, as its pod (or node) sees it.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct Direction(pub u32);

impl Direction {
    /// To the pod.
    pub const INGRESS: Self = Self(0);
    /// From the pod.
    pub const EGRESS: Self = Self(1);
}

/// One side of a pod (or node).
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct EndpointKey {
    /// [`PolicyRoot::epoch`].
    pub epoch: u32,
    /// The direction.
    pub direction: Direction,
    /// Its own address.
    pub address: Address,
}

/// The policy for one direction.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct EndpointPolicy {
    /// The ruleset; 0: no policy, everything is allowed.
    pub ruleset: u32,
    /// Always zero.
    pub reserved: u32,
}

/// The key of a verdict.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct VerdictKey {
    /// [`PolicyRoot::epoch`].
    pub epoch: u32,
    /// The ruleset.
    pub ruleset: u32,
    /// The peer's class or kind.
    pub peer: u32,
    /// The class of protocol and port; 0 is also what ports say that no entry
    /// names.
    pub class: u32,
}

/// A verdict of a ruleset.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct PolicyVerdict {
    /// The rule that decided; below [`cookies::FIRST`] one of [`cookies`].
    pub cookie: u32,
    /// [`ALLOW`](Self::ALLOW), [`PORTS`](Self::PORTS).
    pub flags: u32,
}

impl PolicyVerdict {
    /// Allowed.
    pub const ALLOW: u32 = 1;
    /// In an entry of class 0: some classes have entries of their own.
    pub const PORTS: u32 = 1 << 1;

    /// Returns whether it allows the flow.
    #[inline(always)]
    #[must_use]
    pub const fn allows(self) -> bool {
        self.flags & Self::ALLOW != 0
    }
}

/// Cookies that are no rule's.
pub mod cookies {
    /// No policy has a say: allowed.
    pub const DEFAULT: u32 = 0;
    /// Traffic between a pod and its own node: allowed.
    pub const NODE: u32 = 1;
    /// Traffic from a pod to itself: allowed.
    pub const ITSELF: u32 = 2;
    /// The pod's rules are not there yet: denied.
    pub const CLOSED: u32 = 3;
    /// A port that the host firewall must not close: allowed.
    pub const PROTECTED: u32 = 4;
    /// An entry is missing or was torn: denied.
    pub const BROKEN: u32 = 5;
    /// Rules are numbered from here.
    pub const FIRST: u32 = 16;
}

/// Four adjacent ports of `PORTS`: eight bytes, which an element takes in any case, and
/// which are written at once.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct PortClasses(pub [u16; 4]);

impl PortClasses {
    /// Protocols with ports: TCP, UDP, SCTP.
    pub const PROTOCOLS: u32 = Protocol::ROWS.len() as u32;
    /// Elements of one epoch.
    pub const HALF: u32 = Self::PROTOCOLS * 65536 / 4;
    /// Elements of `PORTS`: an epoch and the one before.
    pub const ENTRIES: u32 = 2 * Self::HALF;

    /// Returns the position of a port's class: the element, and the place in it. Returns
    /// `None` for a protocol without ports, which is in class 0.
    #[inline(always)]
    #[must_use]
    pub const fn place(epoch: u32, protocol: Protocol, port: u16) -> Option<(u32, u32)> {
        let Some(row) = protocol.row() else {
            return None;
        };
        let port = port as u32;
        Some(((epoch & 1) * Self::HALF + row * 16384 + port / 4, port % 4))
    }
}

/// A flow that was allowed at a pod's interface. Its key in `POLICY_FLOWS` is as the pod
/// sees it, the pod first, whichever side opened it: so one lookup serves packets of both
/// directions.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct PolicyFlow {
    /// The other end, behind translation: the pod that serves, not the service.
    pub peer: Address,
    /// Its port.
    pub peer_port: Port,
    /// [`INGRESS`](Self::INGRESS), [`RELAYED`](Self::RELAYED), [`ENDED`](Self::ENDED).
    pub flags: u16,
    /// Index of the pod's device.
    pub device: u32,
    /// The rule that decided, or one of [`cookies`].
    pub cookie: u32,
    /// [`PolicyRoot::generation`] when it was decided.
    pub generation: u32,
}

impl PolicyFlow {
    /// The other end began it.
    pub const INGRESS: u16 = 1;
    /// It was forwarded by this node, not sent by it.
    pub const RELAYED: u16 = 1 << 1;
    /// Policy forbids it since it was allowed.
    pub const ENDED: u16 = 1 << 2;

    /// The empty flow.
    pub const NOTHING: Self = Self {
        peer: Address::UNSPECIFIED,
        peer_port: Port(0),
        flags: 0,
        device: 0,
        cookie: 0,
        generation: 0,
    };

    /// Returns whether all of these flags are set.
    #[inline(always)]
    #[must_use]
    pub const fn has(&self, flags: u16) -> bool {
        self.flags & flags == flags
    }
}

/// A value of `POLICY_FLOWS`.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct PolicyFlowEntry {
    /// The part that a decision writes.
    pub flow: ChecksummedValue<PolicyFlow>,
    /// When it was last used, in ticks of [`Life`](crate::Life), and above that
    /// the [mark](hardware_mark) of the pod's hardware address; no mark: it is
    /// not known. Outside the seal, for the reason given there.
    pub used: u64,
}

impl PolicyFlowEntry {
    /// The value of [`used`](Self::used).
    #[inline(always)]
    #[must_use]
    pub const fn used(ticks: u32, mark: u32) -> u64 {
        (mark as u64) << 32 | ticks as u64
    }

    /// When it was last used.
    #[inline(always)]
    #[must_use]
    pub const fn ticks(&self) -> u32 {
        self.used as u32
    }

    /// The mark of the pod's hardware address.
    #[inline(always)]
    #[must_use]
    pub const fn mark(&self) -> u32 {
        (self.used >> 32) as u32
    }
}

/// Hashes 48 bits to 32; only zero maps to zero. A pod's own hardware address is assigned
/// randomly, so no pod can search for another one with the same mark.
#[inline(always)]
#[must_use]
pub const fn hardware_mark(hardware: u64) -> u32 {
    if hardware == 0 {
        return 0;
    }
    let (low, high) = (hardware as u32, (hardware >> 32) as u32);
    (low ^ high.wrapping_mul(0x9e37_79b1)) | 1
}

/// A rule's name, for people: kind, namespace (63), name (253), the rule's number
/// and the words around them.
pub type RuleName = Text<384>;

// SAFETY: 32 bytes: Address (16), two u16, three u32.
unsafe impl Plain for PolicyFlow {}
// SAFETY: 48 bytes: ChecksummedValue<PolicyFlow> (40), u64.
unsafe impl Plain for PolicyFlowEntry {}
// SAFETY: 8 bytes: two u32.
unsafe impl Plain for PolicyRoot {}
// SAFETY: 8 bytes: two u32.
unsafe impl Plain for PeerEntry {}
// SAFETY: 24 bytes: two u32, then 16 bytes of address.
unsafe impl Plain for EndpointKey {}
// SAFETY: 8 bytes: two u32.
unsafe impl Plain for EndpointPolicy {}
// SAFETY: 16 bytes: four u32.
unsafe impl Plain for VerdictKey {}
// SAFETY: 8 bytes: two u32.
unsafe impl Plain for PolicyVerdict {}
// SAFETY: 8 bytes: four u16.
unsafe impl Plain for PortClasses {}

const _: () = {
    assert!(size_of::<PolicyRoot>() == 8);
    assert!(size_of::<PeerEntry>() == 8);
    assert!(size_of::<EndpointKey>() == 24);
    assert!(size_of::<EndpointPolicy>() == 8);
    assert!(size_of::<VerdictKey>() == 16);
    assert!(size_of::<PolicyVerdict>() == 8);
    assert!(size_of::<PortClasses>() == 8);
    assert!(size_of::<PolicyFlow>() == 32);
    assert!(size_of::<PolicyFlowEntry>() == 48);
};

//! The node itself: its addresses, and which clients count as inside.

use crate::{Address, Plain};

/// The uses of an address of this node.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct NodeFlags(pub u32);

impl NodeFlags {
    /// No flags.
    pub const NONE: Self = Self(0);
    /// Node ports and host ports answer here.
    pub const PORTS: Self = Self(1);
    /// A loopback address: only for processes of the node's own namespace.
    pub const LOOPBACK: Self = Self(1 << 1);
}

flags!(NodeFlags);

/// In `EGRESS`: pods reach the range with their own addresses.
pub const AS_POD: u32 = 1;
/// In `EGRESS`: pods reach the range with the node's address. They reach addresses
/// outside of all ranges with their own.
pub const AS_NODE: u32 = 2;

/// An address range under a number: the key of the kernel's longest-prefix tries, which
/// compare it bit by bit.
///
/// `SOURCES` contains the ranges of a set under the set's number; `INSIDE` contains under
/// zero the ranges of pods, whose clients are not outside.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct Range {
    /// The number, compared as a whole.
    pub number: u32,
    /// The address, IPv4 mapped; network order.
    pub address: [u32; 4],
}

impl Range {
    /// The prefix of a single address, with which one asks for its range.
    pub const WHOLE: u32 = 32 + 128;

    /// An address under a number.
    #[inline(always)]
    #[must_use]
    pub const fn new(number: u32, address: Address) -> Self {
        Self {
            number,
            address: address.to_words(),
        }
    }

    /// The bits that count of a range whose prefix is `bits` long in the
    /// address's own family.
    #[must_use]
    pub const fn prefix(address: Address, bits: u8) -> u32 {
        let before = if address.is_v4() { 96 } else { 0 };
        32 + before + bits as u32
    }
}

/// A key of the longest-prefix tries, as the kernel takes it.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct Prefix {
    /// How many bits of the range count.
    pub bits: u32,
    /// The range's first address, under its number.
    pub range: Range,
}

impl Prefix {
    /// A range whose prefix is `bits` long in the address's own family.
    #[must_use]
    pub const fn new(number: u32, address: Address, bits: u8) -> Self {
        Self {
            bits: Range::prefix(address, bits),
            range: Range::new(number, address),
        }
    }

    /// Returns the first address, and the prefix length in its own family.
    #[must_use]
    pub const fn first(&self) -> (Address, u8) {
        let address = Address::from_words(self.range.address);
        let before = Range::prefix(address, 0);
        (address, self.bits.saturating_sub(before) as u8)
    }
}

// SAFETY: 24 bytes: six u32.
unsafe impl Plain for Prefix {}
// SAFETY: one integer.
unsafe impl Plain for NodeFlags {}
// SAFETY: 20 bytes: five u32.
unsafe impl Plain for Range {}

const _: () = assert!(size_of::<Range>() == 20);

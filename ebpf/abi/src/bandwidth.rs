//! Bandwidth limits of a pod: a token bucket for each direction at its device.
//!
//! Tokens are time. A bucket is stored as the time at which it is full; each packet
//! advances that time by its duration at the pod's rate.

use crate::Plain;
use crate::policy::Direction;

/// A direction of a device.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct BandwidthKey {
    /// The device's index, on the node.
    pub device: u32,
    /// As the pod sees it.
    pub direction: Direction,
}

/// The rate limit of one direction.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct Bandwidth {
    /// Bits a second; 0: anything may.
    pub rate: u64,
    /// How long it takes at that rate to fill the bucket: in parts of a nanosecond
    /// ([`PARTS`](Self::PARTS)).
    pub depth: u64,
    /// When the bucket is full: monotonic time in such parts. Programs write it.
    pub full: u64,
}

impl Bandwidth {
    /// Parts of a nanosecond, so that the fastest links' smallest packets count.
    pub const PARTS: u64 = 16;
    /// Parts in a bit's time at one bit a second.
    pub const A_BIT: u64 = Self::PARTS * 1_000_000_000;

    /// A bucket that is full and takes so many bits.
    #[must_use]
    pub const fn new(rate: u64, burst: u64) -> Self {
        let depth = if rate == 0 {
            0
        } else {
            (burst as u128 * Self::A_BIT as u128).div_ceil(rate as u128)
        };
        let most = (u64::MAX >> 2) as u128;
        Self {
            rate,
            depth: if depth > most { most } else { depth } as u64,
            full: 0,
        }
    }

    /// Returns whether the limits are equal, regardless of the buckets' contents.
    #[must_use]
    pub const fn equals(&self, other: &Self) -> bool {
        self.rate == other.rate && self.depth == other.depth
    }
}

// SAFETY: 8 bytes: two u32.
unsafe impl Plain for BandwidthKey {}
// SAFETY: 24 bytes: three u64.
unsafe impl Plain for Bandwidth {}

const _: () = {
    assert!(size_of::<BandwidthKey>() == 8);
    assert!(size_of::<Bandwidth>() == 24);
};

//! Tables of consistent hashing (Eisenbud et al., *Maglev*, NSDI 2016).

use crate::Plain;

/// Places of one value of `MAGLEV`.
pub const MAGLEV_CHUNK: u32 = 32;

/// A part of a generation's table.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct MaglevKey {
    /// The set.
    pub set: u32,
    /// The set's generation.
    pub generation: u32,
    /// The place divided by [`MAGLEV_CHUNK`].
    pub chunk: u32,
    /// Zero.
    pub reserved: u32,
}

impl MaglevKey {
    /// The key of the part that holds a place.
    #[inline(always)]
    #[must_use]
    pub const fn of_place(set: u32, generation: u32, place: u32) -> Self {
        Self {
            set,
            generation,
            chunk: place / MAGLEV_CHUNK,
            reserved: 0,
        }
    }
}

/// The slots of [`MAGLEV_CHUNK`] places in a row.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct MaglevChunk(pub [u16; MAGLEV_CHUNK as usize]);

// SAFETY: four u32.
unsafe impl Plain for MaglevKey {}
// SAFETY: integers without a gap.
unsafe impl Plain for MaglevChunk {}

const _: () = {
    assert!(size_of::<MaglevKey>() == 16);
    assert!(size_of::<MaglevChunk>() == 64);
};

//! The Internet checksum, changed incrementally (RFC 1624).
//!
//! Sums are 32 bits wide in ones' complement, as the kernel's `__wsum`, and
//! folded exactly as it folds them, so that zero has the same of its two forms.

/// Adds in ones' complement.
#[inline(always)]
#[must_use]
pub const fn add(a: u32, b: u32) -> u32 {
    let sum = a as u64 + b as u64;
    (sum as u32).wrapping_add((sum >> 32) as u32)
}

/// Returns the change of a sum when words are replaced; words are as in memory.
#[inline(always)]
#[must_use]
pub fn difference<const N: usize>(old: &[u32; N], new: &[u32; N]) -> u32 {
    let mut sum = 0_u64;
    let mut i = 0;
    while i < N {
        sum += u64::from(!old[i]) + u64::from(new[i]);
        i += 1;
    }
    narrow(sum)
}

/// 64 bits to 32.
#[inline(always)]
#[must_use]
pub const fn narrow(sum: u64) -> u32 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    ((sum >> 32) + (sum & 0xffff_ffff)) as u32
}

/// Folds a sum to the checksum in a header.
#[inline(always)]
#[must_use]
pub const fn fold(sum: u32) -> u16 {
    let folded = sum.wrapping_add(sum.rotate_left(16));
    (!folded >> 16) as u16
}

/// A checksum after a [`difference`] (`csum_replace_by_diff`).
#[inline(always)]
#[must_use]
pub const fn replace(checksum: u16, difference: u32) -> u16 {
    fold(add(difference, !(checksum as u32)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::vec::Vec;

    use super::*;

    fn whole(words: &[u32]) -> u16 {
        let sum = words.iter().fold(0_u64, |sum, word| sum + u64::from(*word));
        fold(narrow(sum))
    }

    proptest! {
        /// Incremental and whole agree, but for the two forms of zero.
        #[test]
        fn incremental_is_whole(words in prop::collection::vec(any::<u32>(), 3), new in any::<u32>()) {
            let before = whole(&words);
            let mut changed: Vec<u32> = words.clone();
            changed[1] = new;
            let after = replace(before, difference(&[words[1]], &[new]));
            let expected = whole(&changed);
            prop_assert!(after == expected || (after | expected == 0xffff && after & expected == 0));
        }
    }
}

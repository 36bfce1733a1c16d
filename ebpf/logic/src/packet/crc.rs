//! Incremental update of SCTP's checksum: CRC-32C over the whole packet with the field
//! itself as zero (RFC 9260 section 6.8 and appendix A).
//!
//! A CRC is linear: its change for other ports depends on the ports' difference and on
//! the number of following bytes, but not on their values. The difference is a
//! polynomial; each following byte multiplies it by `x^8`, modulo the CRC's own.

/// Castagnoli's polynomial, its lowest bit the highest power.
const POLYNOMIAL: u32 = 0x82f6_3b78;
/// `x^0`.
const ONE: u32 = 1 << 31;

/// `x^(8 · n)`, by n.
static LOW: [u32; 256] = powers(ONE >> 8);
/// `x^(8 · 256 · n)`, by n.
static HIGH: [u32; 256] = powers(product(LOW[255], ONE >> 8));

/// Returns the change (exclusive or) of the checksum of a packet of `length` bytes (at
/// most 65 535) that begins with ports, for a change `ports` (exclusive or of old and
/// new). All words are as in memory, lowest byte first.
#[inline(always)]
#[must_use]
pub const fn change(ports: u32, length: u32) -> u32 {
    let low = LOW[(length & 0xff) as usize];
    let high = HIGH[(length >> 8 & 0xff) as usize];
    product(product(ports, low), high)
}

/// The product of two polynomials.
#[inline(always)]
const fn product(a: u32, b: u32) -> u32 {
    let (mut a, mut b) = (a, b);
    let mut product = 0;
    let mut bit = 0;
    while bit < 32 {
        product ^= b & 0_u32.wrapping_sub(a >> 31);
        a <<= 1;
        b = (b >> 1) ^ (POLYNOMIAL & 0_u32.wrapping_sub(b & 1));
        bit += 1;
    }
    product
}

/// All powers of one, from none on.
const fn powers(of: u32) -> [u32; 256] {
    let mut powers = [ONE; 256];
    let mut n = 1;
    while n < 256 {
        powers[n] = product(powers[n - 1], of);
        n += 1;
    }
    powers
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::vec::Vec;

    use super::super::tests::frames::crc32c;
    use super::*;

    #[test]
    fn known_answers() {
        // RFC 3720 appendix B.4.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
    }

    proptest! {
        #[test]
        fn incremental_is_whole(
            mut packet in prop::collection::vec(any::<u8>(), 12..3_000),
            ports in any::<[u8; 4]>(),
        ) {
            let before = crc32c(&packet);
            let old = [packet[0], packet[1], packet[2], packet[3]];
            let difference = u32::from_le_bytes(old) ^ u32::from_le_bytes(ports);
            packet[..4].copy_from_slice(&ports);
            let length = u32::try_from(packet.len()).unwrap();
            prop_assert_eq!(before ^ change(difference, length), crc32c(&packet));
        }
    }

    #[test]
    fn longest_packet() {
        let mut packet: Vec<u8> = (0..65_535_u32).map(|at| at as u8).collect();
        let before = crc32c(&packet);
        packet[3] ^= 0x5a;
        assert_eq!(before ^ change(0x5a00_0000, 65_535), crc32c(&packet));
    }
}

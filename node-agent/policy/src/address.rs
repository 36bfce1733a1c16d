//! Prefixes of both families as ranges of one 128-bit space.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use ebpf_abi::Address;

/// Bits before a mapped IPv4 address.
const BEFORE_V4: u8 = 96;

/// An address prefix; IPv4 stands mapped at `::ffff:0:0/96`. Ordered by first
/// address, then the wider one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    first: u128,
    bits: u8,
}

impl Prefix {
    /// All of IPv4.
    pub const V4: Self = Self {
        first: 0xffff_0000_0000,
        bits: BEFORE_V4,
    };
    /// All of IPv6. (IPv4 stands inside; it counts as its own family.)
    pub const V6: Self = Self { first: 0, bits: 0 };

    /// A single address.
    #[must_use]
    pub fn host(address: IpAddr) -> Self {
        Self {
            first: number(address),
            bits: 128,
        }
    }

    /// Parses `address/bits`; bits beyond the prefix are ignored, as upstream does.
    /// Returns `None` if it is not a prefix.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        if bits.is_empty() || !bits.bytes().all(|it| it.is_ascii_digit()) {
            return None;
        }
        let bits: u8 = bits.parse().ok()?;
        let bits = match address {
            IpAddr::V4(_) if bits <= 32 => bits + BEFORE_V4,
            IpAddr::V6(_) if bits <= 128 => bits,
            IpAddr::V4(_) | IpAddr::V6(_) => return None,
        };
        Some(Self::new(number(address), bits))
    }

    /// The prefix of so many bits around an address.
    #[must_use]
    pub fn new(number: u128, bits: u8) -> Self {
        Self {
            first: number & mask(bits),
            bits,
        }
    }

    /// Its first address.
    #[must_use]
    pub const fn first(self) -> u128 {
        self.first
    }

    /// Its last address.
    #[must_use]
    pub fn last(self) -> u128 {
        self.first | !mask(self.bits)
    }

    /// How many of 128 bits count.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.bits
    }

    /// Returns whether it is an IPv4 prefix.
    #[must_use]
    pub fn is_v4(self) -> bool {
        self.bits >= BEFORE_V4 && Self::V4.first == self.first & mask(BEFORE_V4)
    }

    /// Returns whether it contains all of `other`. Families do not contain each other.
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        self.bits <= other.bits
            && other.first & mask(self.bits) == self.first
            && self.is_v4() == other.is_v4()
    }

    /// Its first address, as keys hold it.
    #[must_use]
    pub fn address(self) -> Address {
        Address::v6(self.first.to_be_bytes())
    }
}

/// An address as a number.
#[must_use]
pub fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// A number as an address.
#[must_use]
pub fn ip(number: u128) -> IpAddr {
    let v6 = Ipv6Addr::from_bits(number);
    v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4)
}

fn mask(bits: u8) -> u128 {
    if bits == 0 {
        0
    } else {
        u128::MAX << (128 - u32::from(bits))
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = if self.is_v4() { BEFORE_V4 } else { 0 };
        write!(f, "{}/{}", ip(self.first), self.bits - before)
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_read_and_print() {
        for (text, printed) in [
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("fd00::1/64", "fd00::/64"),
            ("::/0", "::/0"),
            ("10.0.0.1/32", "10.0.0.1/32"),
        ] {
            assert_eq!(Prefix::parse(text).unwrap().to_string(), printed);
        }
        for text in [
            "10.0.0.0",
            "10.0.0.0/33",
            "a/8",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "::/129",
        ] {
            assert_eq!(Prefix::parse(text), None, "{text}");
        }
    }

    #[test]
    fn families_do_not_contain_each_other() {
        let host = Prefix::host("10.0.0.1".parse().unwrap());
        assert!(Prefix::V4.contains(host));
        assert!(!Prefix::V6.contains(host));
        assert!(Prefix::V6.contains(Prefix::parse("fd00::/8").unwrap()));
        assert!(!Prefix::V4.contains(Prefix::V6));
    }
}

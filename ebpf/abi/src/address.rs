//! Addresses and ports, as encoded in keys.

use core::cmp::Ordering;

use crate::Plain;

/// An IPv4 or IPv6 address in 16 bytes, network order; IPv4 is stored mapped
/// (`::ffff:a.b.c.d`, RFC 4291 section 2.5.5.2).
///
/// One form for both families means one map and one code path, and a socket of family
/// `AF_INET6` that uses a mapped address finds the same entries as one of family
/// `AF_INET`.
///
/// It consists of words, because for runs of zero bytes the compiler calls a function
/// that writes them one by one.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Address([u32; 4]);

impl Address {
    /// `::`: in a service's key, every IPv6 address of the node that serves
    /// node ports.
    pub const UNSPECIFIED: Self = Self([0; 4]);
    /// `0.0.0.0`: the same for IPv4.
    pub const UNSPECIFIED_V4: Self = Self::v4([0; 4]);

    /// The mapped form of an IPv4 address given in network order.
    #[inline(always)]
    #[must_use]
    pub const fn v4(octets: [u8; 4]) -> Self {
        Self([0, 0, V4_MARK, u32::from_ne_bytes(octets)])
    }

    /// An IPv6 address given in network order.
    #[inline(always)]
    #[must_use]
    pub const fn v6(octets: [u8; 16]) -> Self {
        let b = octets;
        Self([
            u32::from_ne_bytes([b[0], b[1], b[2], b[3]]),
            u32::from_ne_bytes([b[4], b[5], b[6], b[7]]),
            u32::from_ne_bytes([b[8], b[9], b[10], b[11]]),
            u32::from_ne_bytes([b[12], b[13], b[14], b[15]]),
        ])
    }

    /// Converts the four words of `user_ip6`, each in network order in memory.
    #[inline(always)]
    #[must_use]
    pub const fn from_words(words: [u32; 4]) -> Self {
        Self(words)
    }

    /// As the four words of `user_ip6`.
    #[inline(always)]
    #[must_use]
    pub const fn to_words(self) -> [u32; 4] {
        self.0
    }

    /// The address in network order.
    #[inline(always)]
    #[must_use]
    pub const fn octets(self) -> [u8; 16] {
        let [a, b, c, d] = self.0;
        let (a, b, c, d) = (
            a.to_ne_bytes(),
            b.to_ne_bytes(),
            c.to_ne_bytes(),
            d.to_ne_bytes(),
        );
        [
            a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3], c[0], c[1], c[2], c[3], d[0], d[1],
            d[2], d[3],
        ]
    }

    /// Returns whether this is a mapped IPv4 address.
    #[inline(always)]
    #[must_use]
    pub const fn is_v4(self) -> bool {
        let [a, b, c, _] = self.0;
        a == 0 && b == 0 && c == V4_MARK
    }

    /// The unspecified address of this one's family: under it stand the node
    /// ports that are reached at this address.
    #[inline(always)]
    #[must_use]
    pub const fn wildcard(self) -> Self {
        if self.is_v4() {
            Self::UNSPECIFIED_V4
        } else {
            Self::UNSPECIFIED
        }
    }

    /// The last word: the IPv4 address in network order, if [`is_v4`](Self::is_v4).
    #[inline(always)]
    #[must_use]
    pub const fn last_word(self) -> u32 {
        self.0[3]
    }
}

// SAFETY: four u32.
unsafe impl Plain for Address {}
/// The prefix of a mapped IPv4 address.
const V4_MARK: u32 = u32::from_ne_bytes([0, 0, 0xff, 0xff]);

impl Ord for Address {
    fn cmp(&self, other: &Self) -> Ordering {
        self.octets().cmp(&other.octets())
    }
}

impl PartialOrd for Address {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A port in network order, as keys and socket addresses hold it.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port(pub u16);

impl Port {
    /// Converts a port in host order.
    #[inline(always)]
    #[must_use]
    pub const fn new(host_order: u16) -> Self {
        Self(host_order.to_be())
    }

    /// In host order.
    #[inline(always)]
    #[must_use]
    pub const fn get(self) -> u16 {
        u16::from_be(self.0)
    }
}

/// Transport protocol: the number in the IP header (IANA protocol numbers).
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Protocol(pub u8);

impl Protocol {
    /// TCP, RFC 9293.
    pub const TCP: Self = Self(6);
    /// UDP, RFC 768.
    pub const UDP: Self = Self(17);
    /// SCTP, RFC 9260.
    pub const SCTP: Self = Self(132);

    /// Those with ports, in the order in which tables of ports have them.
    pub const ROWS: [Self; 3] = [Self::TCP, Self::UDP, Self::SCTP];

    /// Returns the protocol's row in a table of ports; `None` for protocols without
    /// ports.
    #[inline(always)]
    #[must_use]
    pub const fn row(self) -> Option<u32> {
        match self {
            Self::TCP => Some(0),
            Self::UDP => Some(1),
            Self::SCTP => Some(2),
            _ => None,
        }
    }
}

#[cfg(feature = "user")]
mod user {
    use core::fmt::{self, Debug, Display, Formatter};
    use core::net::{IpAddr, Ipv6Addr};

    use super::{Address, Port, Protocol};

    impl From<IpAddr> for Address {
        fn from(ip: IpAddr) -> Self {
            match ip {
                IpAddr::V4(ip) => Self::v4(ip.octets()),
                IpAddr::V6(ip) => Self::v6(ip.octets()),
            }
        }
    }

    impl From<Address> for IpAddr {
        fn from(address: Address) -> Self {
            let v6 = Ipv6Addr::from(address.octets());
            v6.to_ipv4_mapped().map_or(Self::V6(v6), Self::V4)
        }
    }

    impl Display for Address {
        fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
            Display::fmt(&IpAddr::from(*self), f)
        }
    }

    impl Debug for Address {
        fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
            Display::fmt(self, f)
        }
    }

    impl Debug for Port {
        fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
            Display::fmt(&self.get(), f)
        }
    }

    impl Display for Protocol {
        fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
            match *self {
                Self::TCP => f.write_str("TCP"),
                Self::UDP => f.write_str("UDP"),
                Self::SCTP => f.write_str("SCTP"),
                Self(other) => write!(f, "protocol {other}"),
            }
        }
    }

    impl Debug for Protocol {
        fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
            Display::fmt(self, f)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_protocol_with_ports_has_its_own_row() {
        for (row, protocol) in (0..).zip(Protocol::ROWS) {
            assert_eq!(protocol.row(), Some(row));
        }
        assert_eq!(Protocol(1).row(), None);
    }
}

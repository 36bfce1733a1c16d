//! Ranges of addresses, as pools name them: `192.0.2.0/24`, `fd00::/112`,
//! `192.0.2.10-192.0.2.20`, or a single address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::IpNet;

use crate::{IpPoolSpec, Selector};

/// Addresses of one family from the first to the last, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AddressRange {
    first: IpAddr,
    last: IpAddr,
}

/// Error for text that is not a range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// It is neither of the forms.
    #[error(
        "`{0}` is no range of addresses: write 192.0.2.0/24, 192.0.2.10-192.0.2.20 or one address"
    )]
    Syntax(String),
    /// The ends are of two families.
    #[error("`{0}` begins and ends with addresses of different families")]
    Families(String),
    /// The end is before the beginning.
    #[error("`{0}` ends before it begins")]
    Backwards(String),
    /// Addresses that no Service can have.
    #[error(
        "`{0}` holds addresses that no Service can have: loopback, link-local, multicast or unspecified ones"
    )]
    Senseless(String),
}

impl AddressRange {
    /// Whether an address is in it.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.first.is_ipv4() && self.first <= address && address <= self.last
    }

    /// Whether some address is in both.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.first.is_ipv4() == other.first.is_ipv4()
            && self.first <= other.last
            && other.first <= self.last
    }

    /// Whether it is one of IPv4 addresses.
    #[must_use]
    pub const fn is_ipv4(&self) -> bool {
        self.first.is_ipv4()
    }

    /// The first address.
    #[must_use]
    pub const fn first(&self) -> IpAddr {
        self.first
    }

    /// The last address.
    #[must_use]
    pub const fn last(&self) -> IpAddr {
        self.last
    }

    /// How many addresses it has, at most `u64::MAX`.
    #[must_use]
    pub fn len(&self) -> u64 {
        let count = number(self.last) - number(self.first);
        u64::try_from(count).map_or(u64::MAX, |count| count.saturating_add(1))
    }

    /// Never: a range has its first address.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// The address after one of this range, within it.
    #[must_use]
    pub fn after(&self, address: IpAddr) -> Option<IpAddr> {
        if address >= self.last {
            return None;
        }
        Some(match address {
            IpAddr::V4(v4) => Ipv4Addr::from(u32::from(v4).checked_add(1)?).into(),
            IpAddr::V6(v6) => Ipv6Addr::from(u128::from(v6).checked_add(1)?).into(),
        })
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u32::from(v4).into(),
        IpAddr::V6(v6) => v6.into(),
    }
}

fn is_senseless(address: IpAddr) -> bool {
    let common = address.is_loopback() || address.is_multicast() || address.is_unspecified();
    common
        || match address {
            IpAddr::V4(v4) => v4.is_link_local() || v4.is_broadcast(),
            IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.to_ipv4_mapped().is_some(),
        }
}

impl FromStr for AddressRange {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        let syntax = || RangeError::Syntax(text.to_owned());
        let address = |text: &str| text.trim().parse::<IpAddr>().map_err(|_| syntax());
        let (first, last) = if let Some((first, last)) = text.split_once('-') {
            (address(first)?, address(last)?)
        } else if text.contains('/') {
            let net: IpNet = text.trim().parse().map_err(|_| syntax())?;
            (net.network(), net.broadcast())
        } else {
            (address(text)?, address(text)?)
        };
        if first.is_ipv4() != last.is_ipv4() {
            return Err(RangeError::Families(text.to_owned()));
        }
        if last < first {
            return Err(RangeError::Backwards(text.to_owned()));
        }
        if is_senseless(first) || is_senseless(last) {
            return Err(RangeError::Senseless(text.to_owned()));
        }
        Ok(Self { first, last })
    }
}

/// A pool whose ranges were understood.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pool {
    /// The object's name.
    pub name: String,
    /// Its addresses, in the order of the object.
    pub ranges: Vec<AddressRange>,
    /// Whether Services get addresses that do not ask for this pool.
    pub auto_assign: bool,
    /// Addresses that end in .0 and .255 are not given out.
    pub avoid_buggy_ips: bool,
    /// The Services that may have its addresses.
    pub service_selector: Option<Selector>,
    /// The namespaces whose Services may.
    pub namespace_selector: Option<Selector>,
}

/// Ranges of a pool that cannot be used; the others can.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct PoolError(pub Vec<RangeError>);

impl Pool {
    /// Returns the valid part of the object, and its problem, if any.
    #[must_use]
    pub fn from_spec(name: &str, spec: &IpPoolSpec) -> (Self, Option<PoolError>) {
        let (mut ranges, mut wrong) = (Vec::new(), Vec::new());
        for text in &spec.ranges {
            match text.parse() {
                Ok(range) => ranges.push(range),
                Err(error) => wrong.push(error),
            }
        }
        let pool = Self {
            name: name.to_owned(),
            ranges,
            auto_assign: spec.auto_assign.unwrap_or(true),
            avoid_buggy_ips: spec.avoid_buggy_ips.unwrap_or(false),
            service_selector: spec.service_selector.clone(),
            namespace_selector: spec.namespace_selector.clone(),
        };
        (pool, (!wrong.is_empty()).then_some(PoolError(wrong)))
    }

    /// Whether an address is the pool's.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.ranges.iter().any(|range| range.contains(address))
    }

    /// Whether an address of its ranges is held back.
    #[must_use]
    pub fn avoids(&self, address: IpAddr) -> bool {
        let IpAddr::V4(v4) = address else {
            return false;
        };
        self.avoid_buggy_ips && matches!(v4.octets()[3], 0 | 255)
    }

    /// How many addresses it has, at most `i64::MAX`; those that are named twice
    /// count once.
    #[must_use]
    pub fn size(&self) -> i64 {
        let mut sorted: Vec<(IpAddr, IpAddr)> =
            self.ranges.iter().map(|r| (r.first, r.last)).collect();
        sorted.sort_unstable();
        let mut merged: Vec<(IpAddr, IpAddr)> = Vec::new();
        for (first, last) in sorted {
            match merged.last_mut() {
                Some((from, to)) if from.is_ipv4() == first.is_ipv4() && first <= *to => {
                    *to = last.max(*to);
                }
                _ => merged.push((first, last)),
            }
        }
        let count = merged
            .iter()
            .map(|&(first, last)| AddressRange { first, last }.len())
            .fold(0, u64::saturating_add);
        i64::try_from(count).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(text: &str) -> AddressRange {
        text.parse().unwrap()
    }

    #[test]
    fn all_forms_are_understood() {
        assert_eq!(range("192.0.2.0/30"), range("192.0.2.0-192.0.2.3"));
        assert_eq!(range("192.0.2.1/30"), range("192.0.2.0-192.0.2.3"));
        assert_eq!(range("fd00::5"), range("fd00::5 - fd00::5"));
        assert_eq!(range("192.0.2.0/24").len(), 256);
        assert_eq!(range("fd00::/48").len(), u64::MAX);
        assert_eq!(range("fd00::/64").len(), u64::MAX);
        assert_eq!(range("10.0.0.1").len(), 1);
    }

    #[test]
    fn what_is_no_range_is_said_to_be_none() {
        let error = |text: &str| text.parse::<AddressRange>().unwrap_err();
        for text in [
            "",
            "-",
            "a",
            "10.0.0.0/33",
            "10.0.0.1-",
            "10.0.0.1-10.0.0.2-10.0.0.3",
        ] {
            assert!(matches!(error(text), RangeError::Syntax(_)), "{text}");
        }
        assert!(matches!(error("10.0.0.1-fd00::1"), RangeError::Families(_)));
        assert!(matches!(
            error("10.0.0.2-10.0.0.1"),
            RangeError::Backwards(_)
        ));
        for text in [
            "127.0.0.1",
            "169.254.0.0/16",
            "224.0.0.0/4",
            "0.0.0.0/0",
            "fe80::/64",
            "ff00::1",
            "::1",
            "::ffff:10.0.0.1",
        ] {
            assert!(matches!(error(text), RangeError::Senseless(_)), "{text}");
        }
    }

    #[test]
    fn what_is_named_twice_counts_once() {
        let spec = IpPoolSpec {
            ranges: vec![
                "10.0.0.0/24".into(),
                "10.0.0.128-10.0.1.0".into(),
                "fd00::/126".into(),
                "bad".into(),
            ],
            ..IpPoolSpec::default()
        };
        let (pool, wrong) = Pool::from_spec("p", &spec);
        assert_eq!(pool.size(), 257 + 4);
        assert_eq!(wrong.unwrap().0.len(), 1);
        assert!(pool.auto_assign, "unless it says otherwise");
        let huge = IpPoolSpec {
            ranges: vec!["fd00::/32".into()],
            ..IpPoolSpec::default()
        };
        assert_eq!(Pool::from_spec("h", &huge).0.size(), i64::MAX);
    }

    proptest! {
        #[test]
        fn walking_a_range_meets_each_address_once(start in any::<u32>(), count in 0_u32..300) {
            let start = start.clamp(0x0a00_0000, 0x0aff_0000);
            let (first, last) = (Ipv4Addr::from(start), Ipv4Addr::from(start + count));
            let range: AddressRange = format!("{first}-{last}").parse().unwrap();
            let mut met = 1_u64;
            let mut at = range.first();
            while let Some(next) = range.after(at) {
                prop_assert!(next > at && range.contains(next));
                at = next;
                met += 1;
            }
            prop_assert_eq!(met, range.len());
            prop_assert_eq!(at, IpAddr::V4(last));
        }

        #[test]
        fn no_text_is_too_strange(text in "\\PC{0,40}") {
            let _ = text.parse::<AddressRange>();
        }
    }
}

//! Chooses the next address. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use ipnet::IpNet;

/// How long an address rests before another pod gets it: others still have
/// connections, neighbours and endpoints of its former pod.
pub const REST: Duration = Duration::from_secs(30);

/// Ranges from which pods get addresses: one of each IP version that occurs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// Its ranges; the first that has an address free gives it.
    pub ranges: Vec<IpNet>,
}

impl Pool {
    /// The IP versions that a pod gets addresses of: true is IPv4.
    pub fn versions(&self) -> impl Iterator<Item = bool> + '_ {
        [true, false]
            .into_iter()
            .filter(|v4| self.ranges_of_version(*v4).next().is_some())
    }

    /// The ranges of an IP version.
    pub fn ranges_of_version(&self, v4: bool) -> impl Iterator<Item = IpNet> + '_ {
        let all = self.ranges.iter().copied();
        all.filter(move |range| range.addr().is_ipv4() == v4)
    }

    /// Returns whether a pod may have this address of the pool.
    #[must_use]
    pub fn may_give(&self, address: IpAddr) -> bool {
        let gives = |range: &IpNet| {
            range.contains(&address)
                && span(*range).is_some_and(|span| {
                    let offset = number(&address) - number(&range.network());
                    (span.first..span.end).contains(&offset)
                })
        };
        self.ranges.iter().any(gives)
    }
}

/// Addresses that are not free.
#[derive(Clone, Debug, Default)]
pub struct UsedAddresses {
    /// Those that pods have.
    pub held: BTreeSet<IpAddr>,
    /// Released addresses, with the remaining rest time.
    pub resting: BTreeMap<IpAddr, Duration>,
}

/// The outcome of a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// This address.
    Address(IpAddr),
    /// None until one has rested for this long.
    Wait(Duration),
    /// None.
    Nothing,
}

/// The addresses that a range gives, as offsets from its first one.
struct Span {
    first: u128,
    /// The first that it does not give.
    end: u128,
}

/// The first two addresses (network, which is the node's own in an overlay, and
/// customary gateway) and the IPv4 broadcast address are never given out.
fn span(range: IpNet) -> Option<Span> {
    let bits = if range.addr().is_ipv4() { 32 } else { 128 };
    // A search longer than this many addresses is longer than any node's pods.
    let host_bits = (bits - u32::from(range.prefix_len())).min(24);
    let size = 1u128 << host_bits;
    let whole = host_bits == bits - u32::from(range.prefix_len());
    let end = if range.addr().is_ipv4() && whole {
        size - 1
    } else {
        size
    };
    (end > 2).then_some(Span { first: 2, end })
}

/// The next free address after `last`, round and round, so that an address is
/// used again as late as possible.
#[must_use]
pub fn choose(range: IpNet, known: &UsedAddresses, last: Option<IpAddr>) -> Choice {
    let Some(Span { first, end }) = span(range) else {
        return Choice::Nothing;
    };
    let base = number(&range.network());
    let start = last
        .filter(|last| range.contains(last))
        .map_or(first, |last| number(&last) - base + 1);
    let count = end - first;
    let mut wait: Option<Duration> = None;
    for step in 0..count {
        let offset = first + (start.max(first) - first + step) % count;
        let candidate = address(base + offset, range.addr().is_ipv4());
        if known.held.contains(&candidate) {
            continue;
        }
        match known.resting.get(&candidate) {
            None => return Choice::Address(candidate),
            Some(left) => wait = Some(wait.map_or(*left, |wait| wait.min(*left))),
        }
    }
    wait.map_or(Choice::Nothing, Choice::Wait)
}

fn number(address: &IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(*address)),
        IpAddr::V6(address) => u128::from(*address),
    }
}

fn address(number: u128, v4: bool) -> IpAddr {
    match u32::try_from(number) {
        Ok(number) if v4 => IpAddr::V4(number.into()),
        _ => IpAddr::V6(number.into()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range(text: &str) -> IpNet {
        text.parse().expect("range")
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("address")
    }

    #[test]
    fn a_range_too_small_for_any_pod_gives_nothing() {
        for text in ["10.1.2.0/31", "10.1.2.0/32", "fd00::/127"] {
            let none = choose(range(text), &UsedAddresses::default(), None);
            assert_eq!(none, Choice::Nothing, "{text}");
        }
    }

    #[test]
    fn an_address_that_rests_is_not_given_and_it_is_said_how_long() {
        let (a, b) = (ip("10.1.2.2"), ip("10.1.2.3"));
        let (long, short) = (Duration::from_secs(9), Duration::from_secs(4));
        let known = UsedAddresses {
            held: [4, 5, 6].map(|n| IpAddr::from([10, 1, 2, n])).into(),
            resting: BTreeMap::from([(a, long)]),
        };
        let range = range("10.1.2.0/29");
        assert_eq!(choose(range, &known, None), Choice::Address(b));
        let resting = BTreeMap::from([(a, long), (b, short)]);
        let known = UsedAddresses { resting, ..known };
        assert_eq!(choose(range, &known, None), Choice::Wait(short));
    }

    #[test]
    fn a_pool_may_give_what_it_would_choose() {
        let pool = Pool {
            name: "p".to_owned(),
            ranges: vec![range("10.1.2.0/29"), range("fd00::/64")],
        };
        for (address, may) in [
            ("10.1.2.0", false),
            ("10.1.2.1", false),
            ("10.1.2.2", true),
            ("10.1.2.6", true),
            ("10.1.2.7", false),
            ("10.1.3.2", false),
            ("fd00::1", false),
            ("fd00::2", true),
            ("fd00:0:0:1::2", false),
        ] {
            assert_eq!(pool.may_give(ip(address)), may, "{address}");
        }
        assert_eq!(pool.versions().collect::<Vec<_>>(), [true, false]);
    }

    proptest! {
        #[test]
        fn every_usable_address_is_given_once_and_no_other(
            third in 0u8.., prefix in 24u8..=30, last in proptest::option::of(0u8..)
        ) {
            let range = range(&format!("10.0.{third}.0/{prefix}"));
            let last = last.map(|host| IpAddr::from([10, 0, third, host]));
            let mut known = UsedAddresses::default();
            let mut previous = last;
            while let Choice::Address(address) = choose(range, &known, previous) {
                prop_assert!(range.contains(&address));
                prop_assert!(known.held.insert(address));
                previous = Some(address);
            }
            prop_assert_eq!(known.held.len(), (1usize << (32 - prefix)) - 3);
        }

        #[test]
        fn a_v6_range_gives_addresses_of_its_own(prefix in 64u8..=124) {
            let range = range(&format!("fd00:1::/{prefix}"));
            let mut known = UsedAddresses::default();
            for _ in 0..10 {
                let Choice::Address(address) = choose(range, &known, None) else {
                    return Err(TestCaseError::fail("nothing is free"));
                };
                prop_assert!(range.contains(&address));
                prop_assert!(known.held.insert(address));
            }
        }
    }
}

//! Ranges of addresses without others.

use ipnet::IpNet;

/// A range of addresses, and those in it that are left out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Block {
    /// The range.
    pub within: IpNet,
    /// Excluded ranges inside it, none of them inside another.
    pub except: Vec<IpNet>,
}

impl Block {
    /// A range without some others; `None` if nothing is left.
    #[must_use]
    pub fn without(within: IpNet, others: &[IpNet]) -> Option<Self> {
        let within = within.trunc();
        if others.iter().any(|other| other.contains(&within)) {
            return None;
        }
        let mut inside: Vec<IpNet> = others
            .iter()
            .filter(|other| within.contains(*other))
            .map(IpNet::trunc)
            .collect();
        inside = IpNet::aggregate(&inside);
        // Two halves may be the whole.
        if inside.contains(&within) {
            return None;
        }
        inside.sort();
        Some(Self {
            within,
            except: inside,
        })
    }

    /// Returns it without further ranges; `None` if nothing is left.
    #[must_use]
    pub fn less(&self, others: &[IpNet]) -> Option<Self> {
        let all: Vec<IpNet> = self.except.iter().chain(others).copied().collect();
        Self::without(self.within, &all)
    }

    /// The same addresses as ranges without exceptions.
    #[must_use]
    pub fn ranges(&self) -> Vec<IpNet> {
        let mut left = vec![self.within];
        for except in &self.except {
            left = left
                .into_iter()
                .flat_map(|range| subtract(range, *except))
                .collect();
        }
        left.sort();
        left
    }

    /// Whether some address may be in both.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let (large, small) = if self.within.contains(&other.within) {
            (self, other)
        } else if other.within.contains(&self.within) {
            (other, self)
        } else {
            return false;
        };
        !large.except.iter().any(|it| it.contains(&small.within))
    }
}

/// Returns the remainder of a range without another.
fn subtract(range: IpNet, without: IpNet) -> Vec<IpNet> {
    if without.contains(&range) {
        return Vec::new();
    }
    if !range.contains(&without) {
        return vec![range];
    }
    let halves = range.subnets(range.prefix_len() + 1);
    let halves = halves.into_iter().flatten();
    halves.flat_map(|half| subtract(half, without)).collect()
}

/// All addresses of both families.
#[must_use]
pub fn everything() -> [IpNet; 2] {
    [
        IpNet::V4(ipnet::Ipv4Net::default()),
        IpNet::V6(ipnet::Ipv6Net::default()),
    ]
}

/// Reads a range, or an address as the range that has it alone.
#[must_use]
pub fn parse(text: &str) -> Option<IpNet> {
    let text = text.trim();
    let read = text
        .parse::<IpNet>()
        .ok()
        .or_else(|| text.parse::<std::net::IpAddr>().ok().map(IpNet::from));
    read.map(|it| it.trunc())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    fn small() -> impl Strategy<Value = IpNet> {
        (0_u8..=255, 24_u8..=32)
            .prop_map(|(last, length)| IpNet::new([10, 0, 0, last].into(), length).unwrap().trunc())
    }

    proptest! {
        #[test]
        fn ranges_hold_what_the_block_holds(
            within in small(),
            others in prop::collection::vec(small(), 0..5),
            last in 0_u8..=255,
        ) {
            let address = std::net::IpAddr::from([10, 0, 0, last]);
            let expected = within.contains(&address)
                && !others.iter().any(|it| it.contains(&address));
            let block = Block::without(within, &others);
            let ranges = block.as_ref().map(Block::ranges).unwrap_or_default();
            prop_assert_eq!(ranges.iter().any(|it| it.contains(&address)), expected);
            let by_block = block.is_some_and(|block| {
                block.within.contains(&address)
                    && !block.except.iter().any(|it| it.contains(&address))
            });
            prop_assert_eq!(by_block, expected);
        }
    }

    #[test]
    fn nothing_is_left_of_a_range_without_its_halves() {
        let halves = [net("10.0.0.0/9"), net("10.128.0.0/9")];
        assert_eq!(Block::without(net("10.0.0.0/8"), &halves), None);
        let block = Block::without(net("10.0.0.0/8"), &[net("10.0.0.0/10"), net("11.0.0.0/8")]);
        assert_eq!(
            block.unwrap().ranges(),
            [net("10.64.0.0/10"), net("10.128.0.0/9")]
        );
    }
}

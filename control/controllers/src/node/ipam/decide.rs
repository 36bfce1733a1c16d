//! Allocates pod address ranges to nodes.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// A cluster range, divided into ranges of nodes.
#[derive(Debug, Clone)]
pub struct CidrPool {
    cluster: IpNet,
    /// Prefix length of a node's range.
    size: u8,
    used: Vec<bool>,
    /// The start of the search: a released range is reused last, so that late packets for
    /// its old pods do not reach new ones.
    next: usize,
}

impl CidrPool {
    /// Returns an empty pool. `size` must be between the cluster's prefix length and 16
    /// more (`Config::check`); larger values are capped.
    #[must_use]
    pub fn new(cluster: IpNet, size: u8) -> Self {
        let bits = size.saturating_sub(cluster.prefix_len()).min(16);
        Self {
            cluster: cluster.trunc(),
            size,
            used: vec![false; 1 << bits],
            next: 0,
        }
    }

    /// Marks everything in `range` as allocated or free. Ranges outside of the pool are
    /// ignored.
    pub fn mark(&mut self, range: IpNet, taken: bool) {
        let Some(first) = self.index_of(range) else {
            return;
        };
        // a node may have a larger range from an earlier configuration
        let extra = self.size.saturating_sub(range.prefix_len()).min(16);
        for used in self.used.iter_mut().skip(first).take(1 << extra) {
            *used = taken;
        }
    }

    /// Allocates a free range; `None` if none is left.
    pub fn take(&mut self) -> Option<IpNet> {
        let count = self.used.len();
        let at = (0..count)
            .map(|step| (self.next + step) % count)
            .find(|at| self.used.get(*at) == Some(&false))?;
        if let Some(used) = self.used.get_mut(at) {
            *used = true;
        }
        self.next = (at + 1) % count;
        self.range(at)
    }

    fn range(&self, at: usize) -> Option<IpNet> {
        match self.cluster {
            IpNet::V4(net) => {
                let step = u64::try_from(at).ok()? << (32 - u32::from(self.size));
                let step = u32::try_from(step).ok()?;
                let bits = u32::from(net.network()).checked_add(step)?;
                Ipv4Net::new(bits.into(), self.size).ok().map(IpNet::V4)
            }
            IpNet::V6(net) => {
                // the only range of a pool of one begins where the pool does
                let shift = 128 - u32::from(self.size);
                let step = u128::try_from(at).ok()?.checked_shl(shift).unwrap_or(0);
                let bits = u128::from(net.network()).checked_add(step)?;
                Ipv6Net::new(bits.into(), self.size).ok().map(IpNet::V6)
            }
        }
    }

    fn index_of(&self, range: IpNet) -> Option<usize> {
        match (self.cluster, range.trunc()) {
            (IpNet::V4(net), IpNet::V4(range)) if net.contains(&range.network()) => {
                let offset = u32::from(range.network()) - u32::from(net.network());
                usize::try_from(offset.checked_shr(32 - u32::from(self.size)).unwrap_or(0)).ok()
            }
            (IpNet::V6(net), IpNet::V6(range)) if net.contains(&range.network()) => {
                let offset = u128::from(range.network()) - u128::from(net.network());
                usize::try_from(offset.checked_shr(128 - u32::from(self.size)).unwrap_or(0)).ok()
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pool(cluster: &str, size: u8) -> CidrPool {
        CidrPool::new(cluster.parse().unwrap(), size)
    }

    #[test]
    fn ranges_are_given_in_order_and_reused_last() {
        let mut p = pool("10.244.0.0/22", 24);
        let take = |p: &mut CidrPool| p.take().map(|r| r.to_string());
        assert_eq!(take(&mut p).as_deref(), Some("10.244.0.0/24"));
        assert_eq!(take(&mut p).as_deref(), Some("10.244.1.0/24"));
        p.mark("10.244.0.0/24".parse().unwrap(), false);
        assert_eq!(take(&mut p).as_deref(), Some("10.244.2.0/24"));
        assert_eq!(take(&mut p).as_deref(), Some("10.244.3.0/24"));
        assert_eq!(take(&mut p).as_deref(), Some("10.244.0.0/24"));
        assert_eq!(take(&mut p), None);
    }

    #[test]
    fn ipv6_ranges() {
        let mut p = pool("fd00:10:244::/56", 64);
        p.mark("fd00:10:244::/64".parse().unwrap(), true);
        assert_eq!(p.take().unwrap().to_string(), "fd00:10:244:1::/64");
    }

    #[test]
    fn larger_range_of_an_earlier_configuration_is_respected() {
        let mut p = pool("10.244.0.0/22", 24);
        p.mark("10.244.0.0/23".parse().unwrap(), true);
        assert_eq!(p.take().unwrap().to_string(), "10.244.2.0/24");
    }

    #[test]
    fn whole_range_for_one_node() {
        let mut p = pool("0.0.0.0/0", 0);
        assert_eq!(p.take().unwrap().to_string(), "0.0.0.0/0");
        assert_eq!(p.take(), None);
    }

    proptest! {
        #[test]
        fn no_range_is_given_twice(steps in prop::collection::vec(prop::option::of(0usize..16), 0..80)) {
            let mut p = pool("10.0.0.0/20", 24);
            let mut held: Vec<IpNet> = Vec::new();
            for step in steps {
                match step {
                    Some(at) if at < held.len() => p.mark(held.swap_remove(at), false),
                    _ => match p.take() {
                        Some(range) => {
                            prop_assert!(!held.contains(&range));
                            held.push(range);
                        }
                        None => prop_assert_eq!(held.len(), 16),
                    },
                }
            }
        }
    }
}

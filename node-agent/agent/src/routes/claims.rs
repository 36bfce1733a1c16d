//! Which of the ranges that Nodes claim get routes.
//!
//! `spec.podCIDRs` come from the control plane. The annotation `orlop.dev/ip-pools` comes
//! from an administrator, but beside an API server that does not protect it, from whoever
//! holds the node's credentials. So a pool is routed only if it lies in the ranges that this
//! machine was given for pools, and takes nothing from anybody: no node's address, no range
//! of Services or of another node, no network that this machine is connected to.

use std::{fmt, net::IpAddr};

use ipnet::IpNet;
use jiff::Timestamp;

use super::NodeNetwork;

/// The ranges that one Node claims.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RangeClaim {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.creationTimestamp`: of two claims to a range the older Node's counts.
    pub created: Option<Timestamp>,
    /// `status.addresses` of the type `InternalIP`.
    pub addresses: Vec<IpAddr>,
    /// `spec.podCIDRs`.
    pub pod_cidrs: Vec<IpNet>,
    /// Those of the annotation `orlop.dev/ip-pools`.
    pub pools: Vec<IpNet>,
}

/// The ranges that bound claims.
#[derive(Clone, Debug, Default)]
pub struct ClaimLimits {
    /// Pools lie in one of these.
    pub pools: Vec<IpNet>,
    /// Ranges of Service addresses.
    pub services: Vec<IpNet>,
    /// Networks that this machine is connected to.
    pub links: Vec<IpNet>,
}

/// Why a range gets no route.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Ord, PartialOrd)]
pub enum RefusalReason {
    /// It is a default route, or not of hosts: loopback, link-local, multicast.
    Special,
    /// It is not within the ranges for pools.
    OutOfBounds,
    /// It has this address of a node.
    NodeAddress(IpAddr),
    /// It overlaps a range of Services.
    Services(IpNet),
    /// It overlaps a range of an older node, or one that the control plane gave.
    Overlap(IpNet),
    /// It overlaps a network that this machine is connected to.
    Link(IpNet),
    /// The kernel has a route to it that is not the agent's.
    ForeignRoute,
}

/// A claimed range without a route.
#[derive(Clone, Debug, Eq, PartialEq, Ord, PartialOrd)]
pub struct RefusedRange {
    /// The Node that claims it.
    pub node: String,
    /// The range.
    pub range: IpNet,
    /// Why it is refused.
    pub reason: RefusalReason,
}

impl fmt::Display for RefusalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Special => f.write_str("it is no range of hosts"),
            Self::OutOfBounds => f.write_str("it is not in the ranges of --ip-pool-ranges"),
            Self::NodeAddress(address) => write!(f, "{address} is a node's address"),
            Self::Services(range) => write!(f, "it overlaps the range of Services {range}"),
            Self::Overlap(range) => write!(f, "it overlaps {range} of another node"),
            Self::Link(range) => write!(f, "this machine is connected to {range}"),
            Self::ForeignRoute => f.write_str("another program's route leads there"),
        }
    }
}

/// Returns the ranges of each node that get routes on the node `own`, and the refused ones.
/// The own ranges come before all others: they are routed nowhere.
pub fn admit(
    mut claims: Vec<RangeClaim>,
    own: &str,
    limits: &ClaimLimits,
) -> (Vec<NodeNetwork>, Vec<RefusedRange>) {
    claims.sort_by_cached_key(|claim| (claim.name != own, claim.created, claim.name.clone()));
    let addresses: Vec<IpAddr> = claims.iter().flat_map(|it| it.addresses.clone()).collect();
    let mut taken: Vec<(usize, IpNet)> = Vec::new();
    let mut refused = Vec::new();
    let first_overlap = |taken: &[(usize, IpNet)], node: usize, range: &IpNet| {
        let mut others = taken.iter().filter(|(owner, _)| *owner != node);
        others
            .find(|(_, other)| overlap(other, range))
            .map(|(_, other)| *other)
    };
    for pools in [false, true] {
        for (node, claim) in claims.iter().enumerate() {
            let ranges = if pools {
                &claim.pools
            } else {
                &claim.pod_cidrs
            };
            for range in ranges.iter().map(IpNet::trunc) {
                let is_own = claim.name == own;
                let reason = if is_special(&range) {
                    Some(RefusalReason::Special)
                } else if let Some(other) = first_overlap(&taken, node, &range) {
                    Some(RefusalReason::Overlap(other))
                } else if pools && !is_own {
                    out_of_bounds(&range, &addresses, limits)
                } else {
                    None
                };
                match reason {
                    None => taken.push((node, range)),
                    Some(reason) => refused.push(RefusedRange {
                        node: claim.name.clone(),
                        range,
                        reason,
                    }),
                }
            }
        }
    }
    let networks = claims.into_iter().enumerate().map(|(node, claim)| {
        let own = taken.iter().filter(|(owner, _)| *owner == node);
        let mut pod_ranges = Vec::new();
        for (_, range) in own {
            if !pod_ranges.contains(range) {
                pod_ranges.push(*range);
            }
        }
        NodeNetwork {
            name: claim.name,
            addresses: claim.addresses,
            pod_ranges,
        }
    });
    let networks = networks.collect();
    refused.sort();
    (networks, refused)
}

fn out_of_bounds(
    range: &IpNet,
    addresses: &[IpAddr],
    limits: &ClaimLimits,
) -> Option<RefusalReason> {
    if !limits.pools.iter().any(|bound| bound.contains(range)) {
        return Some(RefusalReason::OutOfBounds);
    }
    if let Some(address) = addresses.iter().find(|address| range.contains(*address)) {
        return Some(RefusalReason::NodeAddress(*address));
    }
    if let Some(services) = limits.services.iter().find(|it| overlap(it, range)) {
        return Some(RefusalReason::Services(*services));
    }
    let link = limits.links.iter().find(|it| overlap(it, range));
    link.map(|link| RefusalReason::Link(*link))
}

fn overlap(a: &IpNet, b: &IpNet) -> bool {
    a.contains(&b.network()) || b.contains(&a.network())
}

fn is_special(range: &IpNet) -> bool {
    let first = range.network();
    range.prefix_len() == 0
        || first.is_unspecified()
        || first.is_multicast()
        || match first {
            IpAddr::V4(_) => {
                ["0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3"].as_slice()
            }
            IpAddr::V6(_) => ["::1/128", "fe80::/10", "ff00::/8"].as_slice(),
        }
        .iter()
        .filter_map(|it| it.parse::<IpNet>().ok())
        .any(|special| overlap(&special, range))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRIVATE: [&str; 2] = ["10.0.0.0/8", "fc00::/7"];

    fn net(text: &str) -> IpNet {
        text.parse().expect("a range")
    }

    fn claim(name: &str, age: i64, pod_cidr: &str, pools: &[&str]) -> RangeClaim {
        let host = u8::try_from(name.len()).expect("a short name");
        RangeClaim {
            name: name.to_owned(),
            created: Timestamp::from_second(1000 - age).ok(),
            addresses: vec![[192, 0, 2, host].into(), [10, 200, 0, host].into()],
            pod_cidrs: vec![net(pod_cidr)],
            pools: pools.iter().map(|it| net(it)).collect(),
        }
    }

    fn limits() -> ClaimLimits {
        ClaimLimits {
            pools: PRIVATE.map(net).into(),
            services: vec![net("10.96.0.0/16")],
            links: vec![net("192.0.2.0/24"), net("10.50.0.0/16")],
        }
    }

    /// The ranges of `bb`, whose pools these are, and what is refused, as node `a` sees it.
    fn seen(pools: &[&str]) -> (Vec<String>, Vec<RefusalReason>) {
        let claims = vec![
            claim("ccc", 5, "10.0.3.0/24", &["10.8.3.0/24"]),
            claim("bb", 1, "10.0.2.0/24", pools),
            claim("a", 0, "10.0.1.0/24", &["10.8.1.0/24"]),
        ];
        let (networks, refused) = admit(claims, "a", &limits());
        let bb = networks.iter().find(|it| it.name == "bb").expect("it");
        let ranges = bb.pod_ranges.iter().map(ToString::to_string).collect();
        for other in networks.iter().filter(|it| it.name != "bb") {
            assert_eq!(other.pod_ranges.len(), 2, "{other:?} is a victim");
        }
        assert!(refused.iter().all(|it| it.node == "bb"), "{refused:?}");
        (ranges, refused.into_iter().map(|it| it.reason).collect())
    }

    #[test]
    fn a_pool_within_bounds_is_routed() {
        let (ranges, refused) = seen(&["10.8.2.0/24", "fd00:8::/64", "10.8.2.0/24"]);
        assert_eq!(ranges, ["10.0.2.0/24", "10.8.2.0/24", "fd00:8::/64"]);
        assert_eq!(refused, []);
    }

    #[test]
    fn a_pool_that_takes_from_others_is_not_routed() {
        use RefusalReason as R;
        let node: IpAddr = [10, 200, 0, 3].into();
        for (range, reason) in [
            ("0.0.0.0/0", R::Special),
            ("::/0", R::Special),
            ("0.0.0.0/1", R::Special),
            ("127.0.0.0/8", R::Special),
            ("169.254.169.254/32", R::Special),
            ("fe80::/10", R::Special),
            ("128.0.0.0/1", R::Special),
            ("96.0.0.0/3", R::Special),
            ("8.8.8.8/32", R::OutOfBounds),
            ("10.200.0.3/32", R::NodeAddress(node)),
            ("10.96.0.1/32", R::Services(net("10.96.0.0/16"))),
            ("10.0.3.7/32", R::Overlap(net("10.0.3.0/24"))),
            ("10.8.3.128/25", R::Overlap(net("10.8.3.0/24"))),
            ("10.0.1.7/32", R::Overlap(net("10.0.1.0/24"))),
            ("10.8.1.0/24", R::Overlap(net("10.8.1.0/24"))),
            ("10.50.0.5/32", R::Link(net("10.50.0.0/16"))),
        ] {
            let (ranges, refused) = seen(&[range]);
            assert_eq!(ranges, ["10.0.2.0/24"], "{range}");
            assert_eq!(refused, [reason], "{range}");
        }
        let (ranges, refused) = seen(&["10.0.0.0/8"]);
        assert_eq!((ranges.len(), refused.len()), (1, 1), "{refused:?}");
    }

    #[test]
    fn two_nodes_with_one_range_do_not_take_it_from_each_other() {
        let claims = |young| {
            vec![
                claim("bb", young, "10.0.2.0/24", &[]),
                claim("ccc", 5, "10.0.2.0/24", &[]),
            ]
        };
        for (young, owner) in [(1, "ccc"), (9, "bb")] {
            let (networks, refused) = admit(claims(young), "a", &limits());
            let has: Vec<_> = networks
                .iter()
                .filter(|it| !it.pod_ranges.is_empty())
                .collect();
            assert_eq!(has.len(), 1);
            assert_eq!(has.first().map(|it| it.name.as_str()), Some(owner));
            assert_eq!(refused.len(), 1);
        }
        let (networks, _) = admit(claims(1), "bb", &limits());
        let own = networks.iter().find(|it| it.name == "bb").expect("it");
        assert_eq!(
            own.pod_ranges,
            [net("10.0.2.0/24")],
            "the own pods stay reachable"
        );
    }
}

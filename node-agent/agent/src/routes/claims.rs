//! Which of the ranges that Nodes claim get routes.
//!
//! `spec.podCIDRs` come from the control plane. The annotation `orlop.dev/ip-pools` comes
//! from an administrator, but beside an API server that does not protect it, from whoever
//! holds the node's credentials. So a pool is routed only if it lies in the ranges that this
//! machine was given for pools, and takes nothing from anybody: no node's address, no range
//! of Services or of another node, no network that this machine is connected to.

use std::{collections::BTreeMap, fmt, net::IpAddr};

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
    /// Ranges of Service addresses; `None` while they are not known.
    pub services: Option<Vec<IpNet>>,
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
    /// It may overlap a range of Services: these cannot be read.
    ServicesUnknown,
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
            Self::ServicesUnknown => {
                f.write_str("the ranges of Services are not known: let the agent list servicecidrs")
            }
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
    let mut taken = TakenRanges::default();
    let mut admitted: Vec<Vec<IpNet>> = vec![Vec::new(); claims.len()];
    let mut refused = Vec::new();
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
                } else if let Some(other) = taken.of_others(node, &range) {
                    Some(RefusalReason::Overlap(other))
                } else if pools && !is_own {
                    out_of_bounds(&range, &addresses, limits)
                } else {
                    None
                };
                match reason {
                    None => {
                        if taken.insert(node, range) {
                            admitted[node].push(range);
                        }
                    }
                    Some(reason) => refused.push(RefusedRange {
                        node: claim.name.clone(),
                        range,
                        reason,
                    }),
                }
            }
        }
    }
    let networks = claims.into_iter().zip(admitted);
    let networks = networks.map(|(claim, pod_ranges)| NodeNetwork {
        name: claim.name,
        addresses: claim.addresses,
        pod_ranges,
    });
    let networks = networks.collect();
    refused.sort();
    (networks, refused)
}

/// The ranges of all nodes that are admitted so far. An annotation may hold thousands, so
/// that no range is compared with all others.
#[derive(Default)]
struct TakenRanges {
    /// By first address and length: the number of the node. Ranges of two nodes never
    /// overlap.
    owners: BTreeMap<(IpAddr, u8), usize>,
}

impl TakenRanges {
    /// Adds a range; `false` if the node has it already.
    fn insert(&mut self, node: usize, range: IpNet) -> bool {
        let key = (range.network(), range.prefix_len());
        self.owners.insert(key, node).is_none()
    }

    /// A range of another node that overlaps `range`.
    fn of_others(&self, node: usize, range: &IpNet) -> Option<IpNet> {
        let around = std::iter::successors(range.supernet(), IpNet::supernet);
        let around = around.filter_map(|it| {
            let key = (it.network(), it.prefix_len());
            self.owners.get(&key).map(|owner| (key, *owner))
        });
        let bounds = (range.network(), 0)..=(range.broadcast(), u8::MAX);
        let within = self.owners.range(bounds);
        let mut all = around.chain(within.map(|(key, owner)| (*key, *owner)));
        let ((address, length), _) = all.find(|(_, owner)| *owner != node)?;
        IpNet::new(address, length).ok()
    }
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
    let Some(services) = &limits.services else {
        return Some(RefusalReason::ServicesUnknown);
    };
    if let Some(services) = services.iter().find(|it| overlap(it, range)) {
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
            services: Some(vec![net("10.96.0.0/16")]),
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

    #[test]
    fn a_pool_gets_no_route_while_the_ranges_of_services_are_unknown() {
        let unknown = ClaimLimits {
            services: None,
            ..limits()
        };
        let claims = || {
            vec![
                claim("a", 2, "10.0.1.0/24", &["10.8.1.0/24"]),
                claim("bb", 1, "10.0.2.0/24", &["10.8.2.0/24"]),
            ]
        };
        let (networks, refused) = admit(claims(), "a", &unknown);
        let of = |name: &str| networks.iter().find(|it| it.name == name).expect("a node");
        // Its own pool is routed nowhere.
        assert_eq!(of("a").pod_ranges.len(), 2);
        assert_eq!(of("bb").pod_ranges, [net("10.0.2.0/24")]);
        let reasons: Vec<_> = refused.iter().map(|it| it.reason).collect();
        assert_eq!(reasons, [RefusalReason::ServicesUnknown]);
        let (_, refused) = admit(claims(), "a", &limits());
        assert_eq!(refused, []);
    }

    #[test]
    fn ranges_of_others_are_found_around_and_within_a_range() {
        let mut taken = TakenRanges::default();
        for (node, range) in [
            (0, "10.1.0.0/16"),
            (0, "10.1.2.0/24"),
            (1, "10.2.3.0/24"),
            (2, "fd00:1::/48"),
        ] {
            assert!(taken.insert(node, net(range)));
            assert!(!taken.insert(node, net(range)), "{range} again");
        }
        for (node, range, found) in [
            (1, "10.1.2.128/25", Some("10.1.2.0/24")),
            (1, "10.1.9.0/24", Some("10.1.0.0/16")),
            (0, "10.1.2.128/25", None),
            (0, "10.2.0.0/16", Some("10.2.3.0/24")),
            (1, "10.2.0.0/16", None),
            (0, "10.2.3.0/24", Some("10.2.3.0/24")),
            (0, "10.2.4.0/24", None),
            (0, "fd00::/16", Some("fd00:1::/48")),
            (0, "fd00:2::/48", None),
        ] {
            let expected = found.map(net);
            assert_eq!(taken.of_others(node, &net(range)), expected, "{range}");
        }
    }

    #[test]
    fn thousands_of_ranges_of_one_node_delay_nothing() {
        let pools: Vec<String> = (0..20_000_u32)
            .map(|at| format!("10.{}.{}.0/24", 100 + at / 256, at % 256))
            .collect();
        let pools: Vec<&str> = pools.iter().map(String::as_str).collect();
        let mut claims: Vec<_> = (0..2_000_u32)
            .map(|at| RangeClaim {
                name: format!("n{at}"),
                addresses: Vec::new(),
                ..claim("n", 2, &format!("10.{}.{}.0/24", at / 256, at % 256), &[])
            })
            .collect();
        claims.push(claim("thief", 1, "10.90.0.0/24", &pools));
        let begun = std::time::Instant::now();
        let (networks, _) = admit(claims, "n0", &limits());
        // Compared one with all, these are 400 million comparisons: minutes.
        let took = begun.elapsed();
        assert!(took < std::time::Duration::from_secs(10), "{took:?}");
        assert_eq!(networks.len(), 2_001);
    }
}

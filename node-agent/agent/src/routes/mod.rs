//! Routes to the pods of other nodes, on a network that nodes share.
//!
//! The desired routes are a pure function of the Nodes; the kernel's table is
//! compared with it and only differences are written. Routes carry
//! [`netlink::PROTOCOL`], so that no one else's route is ever touched.

use std::{collections::BTreeMap, net::IpAddr};

use ipnet::IpNet;

pub mod netlink;

/// What the routes follow from, of one Node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NodeNetwork {
    /// `metadata.name`.
    pub name: String,
    /// `status.addresses` of the type `InternalIP`.
    pub addresses: Vec<IpAddr>,
    /// `spec.podCIDRs`.
    pub pod_ranges: Vec<IpNet>,
}

/// Where packets to a pod range go.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    /// To a node, which routes on to its pods.
    Via(IpAddr),
    /// Nowhere: the rest of the node's own range, whose pods have routes of
    /// their own. Without it, packets to pods that are gone would leave by the
    /// default route and might come back.
    Unreachable,
}

/// Destination to way.
pub type Routes = BTreeMap<IpNet, Way>;

/// The routes that the node `own` shall have.
pub fn desired(nodes: &[NodeNetwork], own: &str) -> Routes {
    let mut routes = Routes::new();
    for node in nodes {
        for range in &node.pod_ranges {
            let range = range.trunc();
            if node.name == own {
                routes.insert(range, Way::Unreachable);
            } else if let Some(gateway) = node
                .addresses
                .iter()
                .find(|address| address.is_ipv4() == range.addr().is_ipv4())
            {
                // Two nodes with one range is a fault of whoever gives ranges
                // out; the own range wins, so that local pods stay reachable.
                routes.entry(range).or_insert(Way::Via(*gateway));
            }
        }
    }
    routes
}

/// One change of the kernel's table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Action {
    /// Add the route, or replace the one to the same destination.
    Set(IpNet, Way),
    /// Remove it.
    Remove(IpNet, Way),
}

/// The changes from what is there to what shall be. What goes elsewhere is
/// replaced in one step: there is no moment without a route.
pub fn diff(present: &Routes, desired: &Routes) -> Vec<Action> {
    let set = desired
        .iter()
        .filter(|(range, way)| present.get(range) != Some(way))
        .map(|(range, way)| Action::Set(*range, *way));
    let remove = present
        .iter()
        .filter(|(range, _)| !desired.contains_key(range))
        .map(|(range, way)| Action::Remove(*range, *way));
    set.chain(remove).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, addresses: &[&str], ranges: &[&str]) -> NodeNetwork {
        NodeNetwork {
            name: name.to_owned(),
            addresses: addresses
                .iter()
                .map(|a| a.parse().expect("address"))
                .collect(),
            pod_ranges: ranges.iter().map(|r| r.parse().expect("range")).collect(),
        }
    }

    fn net(text: &str) -> IpNet {
        text.parse().expect("range")
    }

    #[test]
    fn other_nodes_are_gateways_and_the_own_range_ends_here() {
        let nodes = [
            node("a", &["192.0.2.1"], &["10.0.0.0/24"]),
            node(
                "b",
                &["192.0.2.2", "2001:db8::2"],
                &["10.0.1.0/24", "fd00:1::/64"],
            ),
            node("c", &["192.0.2.3"], &["fd00:2::/64"]),
        ];
        let routes = desired(&nodes, "a");
        assert_eq!(routes.get(&net("10.0.0.0/24")), Some(&Way::Unreachable));
        let via = Way::Via("192.0.2.2".parse().expect("address"));
        assert_eq!(routes.get(&net("10.0.1.0/24")), Some(&via));
        let via = Way::Via("2001:db8::2".parse().expect("address"));
        assert_eq!(routes.get(&net("fd00:1::/64")), Some(&via));
        assert_eq!(routes.len(), 3, "no gateway of the same version, no route");
    }

    #[test]
    fn a_difference_is_applied_and_then_there_is_none() {
        let before = desired(
            &[
                node("a", &["192.0.2.1"], &["10.0.0.0/24"]),
                node("b", &["192.0.2.2"], &["10.0.1.0/24"]),
                node("c", &["192.0.2.3"], &["10.0.2.0/24"]),
            ],
            "a",
        );
        let after = desired(
            &[
                node("a", &["192.0.2.1"], &["10.0.0.0/24"]),
                node("b", &["192.0.2.9"], &["10.0.1.0/24"]),
            ],
            "a",
        );
        let mut table = before.clone();
        for action in diff(&before, &after) {
            match action {
                Action::Set(range, way) => table.insert(range, way),
                Action::Remove(range, _) => table.remove(&range),
            };
        }
        assert_eq!(table, after);
        assert!(diff(&table, &after).is_empty());
        assert_eq!(diff(&before, &after).len(), 2);
    }
}

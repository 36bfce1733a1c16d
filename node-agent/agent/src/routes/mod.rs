//! Routes to the pods of other nodes.
//!
//! Which there shall be follows from the Nodes, as far as their claims are admitted
//! ([`claims::admit`], [`crate::overlay::desired`]); the
//! kernel's table is compared with it and only differences are written. Routes carry
//! [`netlink::PROTOCOL`], so that no one else's route is ever touched: none is replaced, none
//! is removed, and none to the same destination is put beside it.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use ipnet::IpNet;

pub mod claims;
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

/// Where packets to a pod CIDR are sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RouteTarget {
    /// To a node, which routes on to its pods.
    Via(IpAddr),
    /// To a gateway of the overlay, behind which a node routes on.
    Tunnel(IpAddr),
    /// Nowhere: the rest of the node's own range, whose pods have routes of
    /// their own. Without it, packets to pods that are gone would leave by the
    /// default route and might come back.
    Unreachable,
}

/// Route targets by destination.
pub type RouteMap = BTreeMap<IpNet, RouteTarget>;

/// One change of the kernel's routing table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RouteAction {
    /// Add the route; it fails if there is one to the same destination.
    Add(IpNet, RouteTarget),
    /// Replace the agent's own route to this destination.
    Replace(IpNet, RouteTarget),
    /// Remove it.
    Remove(IpNet, RouteTarget),
}

/// The kernel's routing table.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RouteTable {
    /// The agent's routes.
    pub own: RouteMap,
    /// Destinations of routes of other programs.
    pub foreign: BTreeSet<IpNet>,
}

/// The changes from what is there to what shall be. What goes elsewhere is
/// replaced in one step: there is no moment without a route. Where somebody else's route
/// leads, the agent has none.
pub fn diff(present: &RouteTable, desired: &RouteMap) -> Vec<RouteAction> {
    let RouteTable { own, foreign } = present;
    let free = |range: &IpNet| !foreign.contains(range);
    let set = desired
        .iter()
        .filter(|(range, way)| free(range) && own.get(range) != Some(way))
        .map(|(range, way)| match own.contains_key(range) {
            true => RouteAction::Replace(*range, *way),
            false => RouteAction::Add(*range, *way),
        });
    let remove = own
        .iter()
        .filter(|(range, _)| !free(range) || !desired.contains_key(range))
        .map(|(range, way)| RouteAction::Remove(*range, *way));
    set.chain(remove).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> IpNet {
        text.parse().expect("range")
    }

    #[test]
    fn a_difference_is_applied_and_then_there_is_none() {
        let via = |host| RouteTarget::Via([192, 0, 2, host].into());
        let before = RouteMap::from([
            (net("10.0.0.0/24"), RouteTarget::Unreachable),
            (net("10.0.1.0/24"), via(2)),
            (net("10.0.2.0/24"), via(3)),
        ]);
        let after = RouteMap::from([
            (net("10.0.0.0/24"), RouteTarget::Unreachable),
            (
                net("10.0.1.0/24"),
                RouteTarget::Tunnel([10, 0, 1, 0].into()),
            ),
        ]);
        let mut table = RouteTable {
            own: before,
            foreign: BTreeSet::from([net("0.0.0.0/0")]),
        };
        assert_eq!(diff(&table, &after).len(), 2);
        for action in diff(&table, &after) {
            match action {
                RouteAction::Add(range, way) => assert!(table.own.insert(range, way).is_none()),
                RouteAction::Replace(range, way) => assert!(table.own.insert(range, way).is_some()),
                RouteAction::Remove(range, _) => assert!(table.own.remove(&range).is_some()),
            }
        }
        assert_eq!(table.own, after);
        assert!(diff(&table, &after).is_empty());
    }

    #[test]
    fn where_somebody_elses_route_leads_the_agent_has_none() {
        let via = RouteTarget::Via([192, 0, 2, 2].into());
        let range = net("10.0.1.0/24");
        let desired = RouteMap::from([(range, via)]);
        let foreign = BTreeSet::from([range]);
        let table = |own| RouteTable {
            own,
            foreign: foreign.clone(),
        };
        assert_eq!(diff(&table(RouteMap::new()), &desired), []);
        let removed = [RouteAction::Remove(range, via)];
        assert_eq!(diff(&table(desired.clone()), &desired), removed);
    }
}

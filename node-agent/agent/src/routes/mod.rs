//! Routes to the pods of other nodes.
//!
//! Which there shall be follows from the Nodes ([`crate::overlay::desired`]); the
//! kernel's table is compared with it and only differences are written. Routes carry
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
    /// To a gateway of the overlay, behind which a node routes on.
    Tunnel(IpAddr),
    /// Nowhere: the rest of the node's own range, whose pods have routes of
    /// their own. Without it, packets to pods that are gone would leave by the
    /// default route and might come back.
    Unreachable,
}

/// Destination to way.
pub type Routes = BTreeMap<IpNet, Way>;

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

    fn net(text: &str) -> IpNet {
        text.parse().expect("range")
    }

    #[test]
    fn a_difference_is_applied_and_then_there_is_none() {
        let via = |host| Way::Via([192, 0, 2, host].into());
        let before = Routes::from([
            (net("10.0.0.0/24"), Way::Unreachable),
            (net("10.0.1.0/24"), via(2)),
            (net("10.0.2.0/24"), via(3)),
        ]);
        let after = Routes::from([
            (net("10.0.0.0/24"), Way::Unreachable),
            (net("10.0.1.0/24"), Way::Tunnel([10, 0, 1, 0].into())),
        ]);
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

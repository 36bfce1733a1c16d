//! Computes what to announce, and where: a pure function of the API's objects.
//!
//! Only nodes that may serve an address announce it: with `externalTrafficPolicy: Local`
//! those with a ready endpoint of the Service, or, if no node has one, with an endpoint
//! that is terminating but still serving. With `Cluster` any node may, with or without
//! endpoints: clients of a Service without endpoints are refused immediately instead of
//! timing out.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use control_client::{Object, View};
use control_load_balancer::{EXCLUDED_NODE, Pool, Selector, Text};
use ipnet::IpNet;
use node_agent_informers::{EndpointSlice, LoadBalancer, Node, Service};
use node_agent_plan::NameHash;

use crate::bgp::routes::{Attributes, Communities, Routes};
use crate::view::{BgpAdvertisement, BgpPeer, L2Announcement};

/// All inputs of the decision.
#[derive(Debug, Default)]
pub struct World {
    /// The own node's name.
    pub node: String,
    /// Services.
    pub services: Vec<Arc<Service>>,
    /// EndpointSlices.
    pub slices: Vec<Arc<EndpointSlice>>,
    /// Nodes.
    pub nodes: Vec<Arc<Node>>,
    /// Pools, in the order of their names.
    pub pools: Vec<Pool>,
    /// L2Announcements.
    pub l2: Vec<Arc<L2Announcement>>,
    /// BGPAdvertisements.
    pub advertisements: Vec<Arc<BgpAdvertisement>>,
    /// BGPPeers.
    pub peers: Vec<Arc<BgpPeer>>,
}

/// An address that is answered for by ARP or NDP.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct L2Address {
    /// The nodes that may answer for it.
    pub nodes: BTreeSet<Text>,
    /// On which interfaces of the own node: patterns.
    pub interfaces: BTreeSet<Text>,
}

/// Addresses announced by ARP and NDP.
pub type L2 = BTreeMap<IpAddr, L2Address>;

/// A Service's address, and the nodes that may announce it.
struct ServedAddress<'a> {
    address: IpAddr,
    pool: &'a str,
    load_balancer: &'a LoadBalancer,
    /// `None`: all nodes.
    local: Option<BTreeSet<NameHash>>,
}

impl World {
    fn served(&self) -> Vec<ServedAddress<'_>> {
        let ours = |service| {
            let service: &Service = Arc::as_ref(service);
            // Addresses of other implementations are announced by those.
            let its = service.load_balancer()?;
            (its.is_assigned && !its.is_terminating).then_some((service, its))
        };
        let services: Vec<(&Service, &LoadBalancer)> =
            self.services.iter().filter_map(ours).collect();
        let mut local = self.local_nodes(&services);
        let mut all = Vec::new();
        for (service, load_balancer) in services {
            let nodes = local.remove(&(service.namespace(), service.name()));
            for address in load_balancer.addresses.iter().copied() {
                if let Some(pool) = self.pools.iter().find(|pool| pool.contains(address)) {
                    all.push(ServedAddress {
                        address,
                        pool: &pool.name,
                        load_balancer,
                        local: nodes.clone(),
                    });
                }
            }
        }
        all
    }

    /// For Services with policy Local, the nodes that serve.
    fn local_nodes<'a>(
        &'a self,
        services: &[(&'a Service, &'a LoadBalancer)],
    ) -> HashMap<(&'a str, &'a str), BTreeSet<NameHash>> {
        #[derive(Default)]
        struct Nodes {
            ready: BTreeSet<NameHash>,
            serving: BTreeSet<NameHash>,
        }
        let local = services.iter().filter(|(_, its)| its.is_local);
        let mut found: HashMap<(&str, &str), Nodes> = local
            .map(|(service, _)| ((service.namespace(), service.name()), Nodes::default()))
            .collect();
        if !found.is_empty() {
            for slice in &self.slices {
                let key = slice.service().map(|name| (slice.namespace(), name));
                let Some(nodes) = key.and_then(|(ns, name)| found.get_mut(&(ns, name))) else {
                    continue;
                };
                for endpoint in slice.state().listed_endpoints() {
                    let Some(node) = endpoint.node else {
                        continue;
                    };
                    if endpoint.is_ready {
                        nodes.ready.insert(node);
                    }
                    if endpoint.is_serving {
                        nodes.serving.insert(node);
                    }
                }
            }
        }
        found
            .into_iter()
            .map(|(key, nodes)| {
                let best = if nodes.ready.is_empty() {
                    nodes.serving
                } else {
                    nodes.ready
                };
                (key, best)
            })
            .collect()
    }

    /// Returns what to announce by ARP and NDP, and the nodes for each.
    #[must_use]
    pub fn l2(&self) -> L2 {
        if self.l2.is_empty() {
            return L2::new();
        }
        let allowed: Vec<&Arc<Node>> = self.nodes.iter().filter(|n| is_allowed(n)).collect();
        let ready: Vec<&Arc<Node>> = allowed.iter().copied().filter(|n| n.is_ready()).collect();
        // A control plane that thinks ill of all nodes is ill itself.
        let nodes = if ready.is_empty() { allowed } else { ready };
        // The nodes that each announcement selects, computed once.
        let selected: Vec<BTreeSet<Text>> = self
            .l2
            .iter()
            .map(|l2| {
                let of = nodes
                    .iter()
                    .filter(|n| selects(l2.spec.node_selector.as_ref(), n));
                of.map(|node| Text::from(node.name())).collect()
            })
            .collect();
        let mut all = L2::new();
        for served in self.served() {
            for (l2, nodes) in self.l2.iter().zip(&selected) {
                let spec = &l2.spec;
                if !names(&spec.ip_pools, served.pool)
                    || !selects_service(spec.service_selector.as_ref(), served.load_balancer)
                {
                    continue;
                }
                let mut may = nodes.clone();
                if let Some(local) = &served.local {
                    may.retain(|node| local.contains(&NameHash::hash(node)));
                }
                let entry = all.entry(served.address).or_default();
                if may.contains(self.node.as_str()) {
                    if spec.interfaces.is_empty() {
                        entry.interfaces.insert(Text::default());
                    } else {
                        entry.interfaces.extend(spec.interfaces.iter().cloned());
                    }
                }
                entry.nodes.extend(may);
            }
        }
        all
    }

    /// Returns what this node advertises to each of its BGP peers, by the peers' names.
    #[must_use]
    pub fn bgp(&self) -> BTreeMap<Text, Routes> {
        let Some(own) = self.nodes.iter().find(|n| n.name() == self.node) else {
            return BTreeMap::new();
        };
        let mut all: BTreeMap<Text, Routes> = self
            .peers
            .iter()
            .filter(|peer| selects(peer.spec.node_selector.as_ref(), own))
            .map(|peer| (peer.metadata.name.clone(), Routes::new()))
            .collect();
        if all.is_empty() || !is_allowed(own) {
            return all;
        }
        for served in self.served() {
            let here = served
                .local
                .as_ref()
                .is_none_or(|nodes| nodes.contains(&NameHash::hash(&self.node)));
            if !here {
                continue;
            }
            for advertisement in &self.advertisements {
                let spec = &advertisement.spec;
                if !names(&spec.ip_pools, served.pool)
                    || !selects(spec.node_selector.as_ref(), own)
                    || !selects_service(spec.service_selector.as_ref(), served.load_balancer)
                {
                    continue;
                }
                let length = match served.address {
                    IpAddr::V4(_) => spec.aggregation_length.unwrap_or(32).min(32),
                    IpAddr::V6(_) => spec.aggregation_length_v6.unwrap_or(128).min(128),
                };
                let Ok(net) = IpNet::new(served.address, length) else {
                    continue;
                };
                let communities = Communities::parse(&spec.communities);
                for (_, routes) in all.iter_mut().filter(|(name, _)| names(&spec.peers, name)) {
                    let route: &mut Attributes = routes.entry(net.trunc()).or_default();
                    route.communities.extend(&communities);
                    route.local_pref = route.local_pref.max(spec.local_pref);
                }
            }
        }
        all
    }
}

fn names(list: &[Text], name: &str) -> bool {
    list.is_empty() || list.iter().any(|one| one == name)
}

fn selects(selector: Option<&Selector>, node: &Node) -> bool {
    selector.is_none_or(|it| it.matches(|key| node.label(key)))
}

fn selects_service(selector: Option<&Selector>, service: &LoadBalancer) -> bool {
    selector.is_none_or(|it| it.matches(|key| service.labels.get(key)))
}

/// Whether a node may announce at all.
pub(crate) fn is_allowed(node: &Node) -> bool {
    !node.meta().is_terminating()
        && node.label(EXCLUDED_NODE).is_none()
        && !node.is_network_unavailable()
}

#[cfg(test)]
mod tests;

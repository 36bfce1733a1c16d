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

use control_load_balancer::{ASSIGNED, Pool, Selector, Text};
use ipnet::IpNet;

use crate::bgp::routes::{Attributes, Communities, Routes};
use crate::view::{BgpAdvertisement, BgpPeer, L2Announcement, Node, Service, Slice};

/// All inputs of the decision.
#[derive(Debug, Default)]
pub struct World {
    /// The own node's name.
    pub node: String,
    /// Services.
    pub services: Vec<Arc<Service>>,
    /// EndpointSlices.
    pub slices: Vec<Arc<Slice>>,
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
    service: &'a Service,
    /// `None`: all nodes.
    local: Option<BTreeSet<Text>>,
}

impl World {
    fn served(&self) -> Vec<ServedAddress<'_>> {
        let ours = |service: &&Arc<Service>| {
            // Addresses of other implementations are announced by those.
            service.spec.r#type == "LoadBalancer"
                && !service.metadata.is_terminating()
                && service.metadata.annotations.contains_key(ASSIGNED)
        };
        let services: Vec<&Arc<Service>> = self.services.iter().filter(ours).collect();
        let mut local = self.local_nodes(&services);
        let mut all = Vec::new();
        for service in services {
            let meta = &service.metadata;
            let nodes = local.remove(&(meta.namespace.as_str(), meta.name.as_str()));
            for address in service.addresses() {
                if let Some(pool) = self.pools.iter().find(|pool| pool.contains(address)) {
                    all.push(ServedAddress {
                        address,
                        pool: &pool.name,
                        service,
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
        services: &[&'a Arc<Service>],
    ) -> HashMap<(&'a str, &'a str), BTreeSet<Text>> {
        #[derive(Default)]
        struct Nodes {
            ready: BTreeSet<Text>,
            serving: BTreeSet<Text>,
        }
        let mut found: HashMap<(&str, &str), Nodes> = services
            .iter()
            .filter(|service| service.spec.external_traffic_policy == "Local")
            .map(|service| {
                let meta = &service.metadata;
                (
                    (meta.namespace.as_str(), meta.name.as_str()),
                    Nodes::default(),
                )
            })
            .collect();
        if !found.is_empty() {
            for slice in &self.slices {
                let key = slice
                    .service()
                    .map(|name| (slice.metadata.namespace.as_str(), name));
                let Some(nodes) = key.and_then(|(ns, name)| found.get_mut(&(ns, name))) else {
                    continue;
                };
                for endpoint in &slice.endpoints {
                    let Some(node) = &endpoint.node_name else {
                        continue;
                    };
                    let ready = endpoint.conditions.ready.unwrap_or(true);
                    if ready {
                        nodes.ready.insert(node.clone());
                    }
                    if endpoint.conditions.serving.unwrap_or(ready) {
                        nodes.serving.insert(node.clone());
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
        let allowed: Vec<&Arc<Node>> = self.nodes.iter().filter(|n| n.is_allowed()).collect();
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
                of.map(|node| node.metadata.name.clone()).collect()
            })
            .collect();
        let mut all = L2::new();
        for served in self.served() {
            for (l2, nodes) in self.l2.iter().zip(&selected) {
                let spec = &l2.spec;
                if !names(&spec.ip_pools, served.pool)
                    || !selects_service(spec.service_selector.as_ref(), served.service)
                {
                    continue;
                }
                let may: BTreeSet<Text> = match &served.local {
                    None => nodes.clone(),
                    Some(local) => nodes.intersection(local).cloned().collect(),
                };
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
        let Some(own) = self.nodes.iter().find(|n| n.metadata.name == self.node) else {
            return BTreeMap::new();
        };
        let mut all: BTreeMap<Text, Routes> = self
            .peers
            .iter()
            .filter(|peer| selects(peer.spec.node_selector.as_ref(), own))
            .map(|peer| (peer.metadata.name.clone(), Routes::new()))
            .collect();
        if all.is_empty() || !own.is_allowed() {
            return all;
        }
        for served in self.served() {
            let here = served
                .local
                .as_ref()
                .is_none_or(|nodes| nodes.contains(self.node.as_str()));
            if !here {
                continue;
            }
            for advertisement in &self.advertisements {
                let spec = &advertisement.spec;
                if !names(&spec.ip_pools, served.pool)
                    || !selects(spec.node_selector.as_ref(), own)
                    || !selects_service(spec.service_selector.as_ref(), served.service)
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
    selector.is_none_or(|it| it.matches(|key| node.metadata.labels.get(key)))
}

fn selects_service(selector: Option<&Selector>, service: &Service) -> bool {
    selector.is_none_or(|it| it.matches(|key| service.metadata.labels.get(key)))
}

#[cfg(test)]
mod tests;

//! The facts about a cluster, and about the objects of the checks.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
};

/// The facts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// The namespace of the probes.
    pub namespace: String,
    /// The cluster's domain, such as `cluster.local`.
    pub domain: String,
    /// One node or two.
    pub nodes: Vec<Node>,
    /// Addresses of the serving pods by name.
    pub servers: BTreeMap<String, Vec<IpAddr>>,
    /// Services by name.
    pub services: BTreeMap<String, Service>,
    /// The addresses of the API server itself: the endpoints of `default/kubernetes`.
    pub api_server: Vec<SocketAddr>,
    /// A server outside of the cluster, `HOST:PORT`.
    pub external: Option<String>,
    /// First of the ports on nodes that the probes use.
    pub host_ports: HostPorts,
}

/// A node that takes part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its internal addresses.
    pub addresses: Vec<IpAddr>,
}

/// The addresses of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// Cluster addresses.
    pub cluster_ips: Vec<IpAddr>,
    /// Node ports by the port's name.
    pub node_ports: BTreeMap<String, u16>,
    /// Load balancer addresses or names.
    pub load_balancer: Vec<String>,
}

/// Ports on the nodes' own addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostPorts {
    /// HTTP of servers in the host network.
    pub http: u16,
    /// Echo of servers in the host network.
    pub echo: u16,
    /// Host port of a pod.
    pub pod: u16,
}

/// An IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl HostPorts {
    /// Three ports in a row.
    #[must_use]
    pub const fn starting_at(first: u16) -> Self {
        Self {
            http: first,
            echo: first.saturating_add(1),
            pod: first.saturating_add(2),
        }
    }
}

impl Default for HostPorts {
    fn default() -> Self {
        Self::starting_at(24_080)
    }
}

impl Family {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::V4, Self::V6];

    /// `IPv4` or `IPv6`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    fn of(self, addresses: &[IpAddr]) -> Option<IpAddr> {
        addresses
            .iter()
            .copied()
            .find(|address| address.is_ipv6() == (self == Self::V6))
    }
}

impl Topology {
    /// The IP versions in which pods have addresses.
    #[must_use]
    pub fn families(&self) -> Vec<Family> {
        let has = |family: &Family| {
            let servers = self.servers.values();
            servers
                .into_iter()
                .any(|addresses| family.of(addresses).is_some())
        };
        Family::BOTH.into_iter().filter(has).collect()
    }

    /// Whether there are two nodes.
    #[must_use]
    pub const fn has_second_node(&self) -> bool {
        self.nodes.len() > 1
    }

    /// A port of a serving pod.
    #[must_use]
    pub fn server(&self, name: &str, family: Family, port: u16) -> Option<String> {
        let address = family.of(self.servers.get(name)?)?;
        Some(SocketAddr::new(address, port).to_string())
    }

    /// A port of a Service's cluster address.
    #[must_use]
    pub fn service(&self, name: &str, family: Family, port: u16) -> Option<String> {
        let address = family.of(&self.services.get(name)?.cluster_ips)?;
        Some(SocketAddr::new(address, port).to_string())
    }

    /// A node's address with a port; 0 is the first node.
    #[must_use]
    pub fn node(&self, number: usize, family: Family, port: u16) -> Option<String> {
        let address = family.of(&self.nodes.get(number)?.addresses)?;
        Some(SocketAddr::new(address, port).to_string())
    }

    /// The node port of a Service's port.
    #[must_use]
    pub fn node_port(&self, service: &str, port: &str) -> Option<u16> {
        let ports = &self.services.get(service)?.node_ports;
        ports.get(port).copied()
    }

    /// A Service's full name.
    #[must_use]
    pub fn full_name(&self, service: &str) -> String {
        format!("{service}.{}.svc.{}", self.namespace, self.domain)
    }
}

//! Addresses that this node answers itself.

use std::net::{IpAddr, SocketAddr};

use ebpf_abi::{Address, Backend, BackendFlags, Port, Protocol, ServiceFlags, ServiceKey};

use crate::compile::{DesiredSet, Key, Rank};
use crate::name;

/// An address that this node answers itself, regardless of the API: the cluster's DNS,
/// served by each node's agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// For people.
    pub name: String,
    /// The destination of clients.
    pub address: IpAddr,
    /// And its port.
    pub port: u16,
    /// And its protocol.
    pub protocol: Protocol,
    /// The backends: addresses of the same family as `address`; any of this node's,
    /// loopback ones only for clients in the node's own namespace.
    pub backends: Vec<SocketAddr>,
}

/// Returns the sets that a node answers itself, each name once.
pub(super) fn overriding(overrides: &[Override]) -> Vec<DesiredSet> {
    let mut wanted: Vec<_> = overrides.iter().map(Override::desired).collect();
    wanted.sort_by(|a, b| a.name.cmp(&b.name));
    wanted.dedup_by(|a, b| a.name == b.name);
    wanted
}

// === impl Override ===

impl Override {
    pub(super) fn desired(&self) -> DesiredSet {
        let (address, port) = (Address::from(self.address), Port::new(self.port));
        let mut backends: Vec<_> = self
            .backends
            .iter()
            .filter(|backend| backend.is_ipv4() == self.address.is_ipv4())
            .map(|backend| {
                Backend::new(
                    Address::from(backend.ip()),
                    Port::new(backend.port()),
                    BackendFlags::LOCAL,
                )
            })
            .collect();
        backends.sort_unstable();
        backends.dedup();
        DesiredSet {
            // No namespace has such a name.
            name: name::fit(format!(
                "(node) {} {} {}",
                self.name,
                self.protocol,
                SocketAddr::new(self.address, self.port)
            )),
            keys: vec![Key {
                key: ServiceKey::internal(address, port, self.protocol),
                flags: ServiceFlags::NONE,
                rank: Rank::Override,
            }],
            flags: ServiceFlags::NONE,
            affinity_seconds: 0,
            table: 0,
            sources: Vec::new(),
            backends,
            missing: 0,
        }
    }
}

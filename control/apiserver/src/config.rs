//! How the server is configured.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use control_encryption::Encryption;
use control_store::Store;
use ipnet::IpNet;

use crate::chain::Settings;
use control_aggregation::ProxyIdentity;
use control_auth::Access;
use control_proxy::egress::Egress;
use control_proxy::kubelet::Kubelets;

/// All that [`crate::ApiServer`] needs to know.
#[derive(Clone)]
pub struct Config {
    /// Where objects live.
    pub store: Arc<dyn Store>,
    /// Who callers are and what they may do.
    pub access: Arc<dyn Access>,
    /// What is encrypted at rest, and how; by default nothing is.
    pub encryption: Encryption,
    /// Where other hosts reach this server; the endpoints of the `kubernetes`
    /// Service and of discovery.
    pub advertise_address: IpAddr,
    /// The port of `advertise_address`.
    pub advertise_port: u16,
    /// Ranges of Service addresses, the primary family first; one or two.
    pub service_cidrs: Vec<IpNet>,
    /// First and last node port.
    pub node_ports: (u16, u16),
    /// How nodes' agents are asked for logs and streams; `None` serves neither.
    pub kubelets: Option<Kubelets>,
    /// By which ways this server reaches others.
    pub egress: Egress,
    /// What this server shows to extension API servers; without it, they take
    /// it for anybody.
    pub proxy_identity: Option<ProxyIdentity>,
    /// Whether this server is all there is, so that it does itself what other
    /// components do beside a stock API server: it serves `metrics.k8s.io` (which
    /// needs `kubelets`), tells of policies what types say of them, and warns of new
    /// objects that no controller of this program acts on.
    pub whole: bool,
    /// What the request chain is told.
    pub chain: Settings,
}

impl Config {
    /// Where other hosts reach this server.
    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::new(self.advertise_address, self.advertise_port)
    }
}

impl std::fmt::Debug for Config {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Config")
            .field("advertise_address", &self.advertise_address)
            .field("advertise_port", &self.advertise_port)
            .field("service_cidrs", &self.service_cidrs)
            .field("node_ports", &self.node_ports)
            .finish_non_exhaustive()
    }
}

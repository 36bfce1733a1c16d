//! Cluster DNS on this node: the cluster DNS service's address is this node's
//! own, and nobody else's question reaches it.
//!
//! The address is put on the loopback interface. Pods reach it by the route that
//! leads to their node in any case; the datapath's entry for it keeps a Service
//! of the same address from sending them elsewhere.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};

use control_client::Cache;
use node_agent_informers::{EndpointSlice, Service};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{Error, routes::netlink};

/// DNS's port.
pub const PORT: u16 = 53;

/// Options of cluster DNS.
pub struct DnsOptions {
    /// All Services.
    pub services: Cache<Service>,
    /// All EndpointSlices.
    pub slices: Cache<EndpointSlice>,
    /// The cluster DNS service's addresses.
    pub addresses: Vec<IpAddr>,
    /// The cluster's domain.
    pub domain: String,
    /// Names the resolvers for everything else.
    pub resolv_conf: PathBuf,
    /// The node's addresses, which are no resolvers for it.
    pub own: Vec<IpAddr>,
}

/// Answers until `shutdown`.
///
/// # Errors
/// When an address cannot be had or listened on.
pub async fn run(options: DnsOptions, shutdown: CancellationToken) -> Result<(), Error> {
    let kernel = netlink::connect()?;
    for address in &options.addresses {
        netlink::add_local(&kernel, *address).await?;
    }
    // A node without resolvers still answers for the cluster.
    let resolv_conf = std::fs::read_to_string(&options.resolv_conf).unwrap_or_default();
    let own: Vec<IpAddr> = options
        .addresses
        .iter()
        .chain(&options.own)
        .copied()
        .collect();
    let upstreams = node_agent_dns::upstreams_of(&resolv_conf, &own);
    info!(addresses = ?options.addresses, ?upstreams, "serving cluster DNS");
    let result = node_agent_dns::run(
        node_agent_dns::Options {
            listen: options
                .addresses
                .iter()
                .map(|address| SocketAddr::new(*address, PORT))
                .collect(),
            cluster_domain: options.domain,
            services: options.services,
            slices: options.slices,
            upstreams,
        },
        shutdown,
    )
    .await
    .map_err(Error::Dns);
    for address in &options.addresses {
        if let Err(error) = netlink::remove_local(&kernel, *address).await {
            warn!(%address, error = &error as &dyn std::error::Error, "failed to remove the DNS address");
        }
    }
    result
}

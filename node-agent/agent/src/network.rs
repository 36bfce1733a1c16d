//! Keeps the node's pod network: routes to other nodes, and the CNI plugin's
//! configuration once the node has its pod ranges.

use std::{net::IpAddr, time::Duration};

use control_client::{Cache, Changes};
use rtnetlink::Handle;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::{
    Error,
    cni::{self, Places},
    routes::{self, netlink},
    views::Node,
};

/// How long after a failure, and how often without any change, the kernel's
/// table is compared again: whoever flushed it gets our routes back.
const RETRY: Duration = Duration::from_secs(1);
const COMPARE: Duration = Duration::from_secs(30);

/// What the network's upkeep needs.
pub struct Network {
    /// The node's name.
    pub node: String,
    /// The node's own address.
    pub address: IpAddr,
    /// Where the CNI plugin goes.
    pub places: Places,
    /// All Nodes.
    pub nodes: Cache<Node>,
}

impl Network {
    /// Runs until `shutdown`; failures are logged and tried again.
    pub async fn run(self, mut changes: Changes<Node>, shutdown: CancellationToken) {
        self.nodes.synced().await;
        let mut kernel = None;
        loop {
            let pause = match self.reconcile(&mut kernel).await {
                Ok(()) => COMPARE,
                Err(error) => {
                    warn!(
                        error = &error as &dyn std::error::Error,
                        "the pod network is not as it shall be; trying again"
                    );
                    kernel = None;
                    RETRY
                }
            };
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
                change = changes.recv() => if change.is_none() {
                    error!("the node cache has ended");
                    return;
                }
            }
            // Many nodes change at once when a cluster starts.
            while changes.try_recv().is_some() {}
        }
    }

    async fn reconcile(&self, kernel: &mut Option<Handle>) -> Result<(), Error> {
        if kernel.is_none() {
            *kernel = Some(netlink::connect()?);
        }
        let Some(kernel) = kernel else { return Ok(()) };
        let snapshot = self.nodes.snapshot();
        let networks: Vec<_> = snapshot.iter().map(|node| node.network()).collect();
        let desired = routes::desired(&networks, &self.node);
        let present = netlink::present(kernel).await?;
        for action in routes::diff(&present, &desired) {
            netlink::apply(kernel, action).await?;
            info!(?action, "route");
        }
        if let Some(own) = snapshot.get("", &self.node) {
            let ranges = own.pod_ranges();
            if !ranges.is_empty() {
                let mtu = netlink::mtu_of(kernel, self.address).await?;
                cni::install(&self.places, &cni::configuration(&ranges, mtu))?;
            }
        }
        Ok(())
    }
}

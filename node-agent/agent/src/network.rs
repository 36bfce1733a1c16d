//! Keeps the node's pod network: routes to other nodes, and the CNI plugin's
//! configuration once the node has its pod ranges.

use std::{
    net::IpAddr,
    path::PathBuf,
    time::{Duration, Instant},
};

use control_client::{Cache, Changes};
use ipnet::IpNet;
use rtnetlink::Handle;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    Error,
    cni::{self, Places},
    routes::{self, netlink},
    sysctl,
    views::Node,
};

/// How long after a failure, and how often without any change, the kernel's
/// table is compared again: whoever flushed it gets our routes back.
const RETRY: Duration = Duration::from_secs(1);
const COMPARE: Duration = Duration::from_secs(30);

/// How often to say that the pod ranges are still awaited.
const REMIND: Duration = Duration::from_secs(60);

/// What the network's upkeep needs.
pub struct Network {
    /// The node's name.
    pub node: String,
    /// The node's own address.
    pub address: IpAddr,
    /// Where the CNI plugin goes.
    pub places: Places,
    /// Whom the CNI plugin asks before it lets an interface up, if anybody.
    pub agent: Option<PathBuf>,
    /// All Nodes.
    pub nodes: Cache<Node>,
}

impl Network {
    /// Runs until `shutdown`; failures are logged and tried again.
    ///
    /// # Errors
    /// [`Error::NetlinkSocket`], [`Error::NoAddress`], [`Error::File`]: what no waiting heals.
    pub async fn run(
        self,
        mut changes: Changes<Node>,
        shutdown: CancellationToken,
    ) -> Result<(), Error> {
        netlink::mtu_of(&netlink::connect()?, self.address).await?;
        cni::install(&self.places)?;
        tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            () = self.nodes.synced() => {}
        }
        let mut kernel = None;
        let mut waiting = Waiting::default();
        loop {
            let pause = match self.reconcile(&mut kernel, &mut waiting).await {
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
                () = shutdown.cancelled() => return Ok(()),
                () = tokio::time::sleep(pause) => {}
                change = changes.recv() => if change.is_none() {
                    return Err(Error::Ended);
                }
            }
            // Many nodes change at once when a cluster starts.
            while changes.try_recv().is_some() {}
        }
    }

    async fn reconcile(
        &self,
        kernel: &mut Option<Handle>,
        waiting: &mut Waiting,
    ) -> Result<(), Error> {
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
        let ranges = snapshot
            .get("", &self.node)
            .map(|own| own.pod_ranges())
            .unwrap_or_default();
        waiting.tell(&self.node, &ranges);
        if ranges.is_empty() {
            return Ok(());
        }
        sysctl::apply(&ranges)?;
        let mtu = netlink::mtu_of(kernel, self.address).await?;
        let configuration = cni::configuration(&ranges, mtu, self.agent.as_deref());
        if cni::configure(&self.places, &configuration)? {
            info!(?ranges, mtu, "the pod network is configured");
        }
        Ok(())
    }
}

/// Says what is awaited, once in a while.
#[derive(Default)]
struct Waiting {
    told: Option<Instant>,
}

impl Waiting {
    fn tell(&mut self, node: &str, ranges: &[IpNet]) {
        if !ranges.is_empty() {
            self.told = None;
        } else if self.told.is_none_or(|told| told.elapsed() >= REMIND) {
            self.told = Some(Instant::now());
            info!(
                node,
                "waiting for the node's spec.podCIDRs, which the controllers give out \
                 (kube-controller-manager: with --allocate-node-cidrs and --cluster-cidr)"
            );
        }
    }
}

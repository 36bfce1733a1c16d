//! Keeps the node's pod network: routes and the overlay to other nodes, and the CNI
//! plugin's configuration once the node has its pod ranges.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use control_client::{
    Cache, Changes, Client, Meta, Resource, Selection, View,
    events::{Format, ObjectReference, Recorder},
    resources,
};
use ipnet::IpNet;
use node_agent_cri::RuntimeClient;
use node_agent_datapath::{Egress, Exits};
use node_agent_informers::Node;
use rtnetlink::Handle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    Error,
    cni::{self, CniOptions, CniPaths},
    masquerade::{self, MasqueradeRules},
    overlay::{self, Overlay, OverlayHost, OverlayNetwork as Desired},
    pools::pod_ranges,
    routes::{
        self, NodeNetwork,
        claims::{self, ClaimLimits, RangeClaim, RefusalReason, RefusedRange},
        netlink,
    },
    sysctl,
};

/// How long after a failure, and how often without any change, the kernel's
/// table is compared again: whoever flushed it gets our routes back.
const RETRY: Duration = Duration::from_secs(1);
const COMPARE: Duration = Duration::from_secs(30);

/// How often the ranges of Services are read.
const SERVICE_RANGES: Duration = Duration::from_secs(600);
/// How soon after a failure they are read again.
const SERVICE_RANGES_RETRY: Duration = Duration::from_secs(10);
/// How long routes wait for them.
const SERVICE_RANGES_TIMEOUT: Duration = Duration::from_secs(2);
pub(crate) static SERVICE_CIDRS: Resource =
    Resource::cluster("networking.k8s.io", "v1", "servicecidrs", "ServiceCIDR");

/// How often to say that the pod ranges are still awaited.
const REMIND: Duration = Duration::from_secs(60);

/// The inputs of keeping the pod network configured.
pub struct NetworkSync {
    /// The node's name.
    pub node: String,
    /// The node's own address.
    pub address: IpAddr,
    /// Where the CNI plugin goes, as far as options say so.
    pub cni: CniOptions,
    /// Who says the rest.
    pub runtime: RuntimeClient,
    /// Whom the CNI plugin asks before it lets an interface up, if anybody.
    pub agent: Option<PathBuf>,
    /// Where the CNI plugin asks for addresses.
    pub addresses: PathBuf,
    /// Whether pods of other nodes are reached through a VXLAN.
    pub overlay: Overlay,
    /// The file that says where pods leave the cluster as themselves; none:
    /// everywhere.
    pub masquerade: Option<PathBuf>,
    /// The ranges in which pools of other nodes lie.
    pub pool_ranges: Vec<IpNet>,
    /// Gets the ranges of all nodes' pods, as far as they are admitted.
    pub admitted: watch::Sender<Vec<IpNet>>,
    /// Where the datapath pins its maps.
    pub pin_dir: PathBuf,
    /// All Nodes.
    pub nodes: Cache<Node>,
    /// To whom the Node's events go.
    pub client: Client,
}

impl NetworkSync {
    /// Runs until `shutdown`; failures are logged and tried again.
    ///
    /// # Errors
    /// [`Error::Netlink`], [`Error::NoAddress`]: what no waiting heals.
    pub async fn run(
        self,
        mut changes: Changes<Node>,
        shutdown: CancellationToken,
    ) -> Result<(), Error> {
        netlink::mtu_of(&netlink::connect()?, self.address).await?;
        tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            () = self.nodes.synced() => {}
        }
        let mut kernel = None;
        let mut waiting = WaitLog::default();
        let mut masks = EgressMasks::default();
        let mut teller = NetworkReporter {
            recorder: Recorder::new(&self.client, "orlop-network", &self.node, Format::Core),
            told: BTreeMap::new(),
            refused: Vec::new(),
        };
        let mut services = ServiceRanges::default();
        let mut plugin = PluginInstaller::default();
        loop {
            let pause = match self
                .reconcile(
                    &mut kernel,
                    &mut waiting,
                    &mut teller,
                    &mut masks,
                    &mut services,
                    &mut plugin,
                )
                .await
            {
                Ok(()) if masks.map.is_none() || plugin.places.is_none() => RETRY,
                Ok(()) => COMPARE,
                Err(error) => {
                    warn!(
                        error = &error as &dyn std::error::Error,
                        "failed to configure the pod network; retrying"
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
        waiting: &mut WaitLog,
        teller: &mut NetworkReporter,
        masks: &mut EgressMasks,
        services: &mut ServiceRanges,
        plugin: &mut PluginInstaller,
    ) -> Result<(), Error> {
        if kernel.is_none() {
            *kernel = Some(netlink::connect()?);
        }
        let Some(kernel) = kernel else { return Ok(()) };
        let snapshot = self.nodes.snapshot();
        let claimed: Vec<_> = snapshot
            .iter()
            .map(|node| RangeClaim::from(&**node))
            .collect();
        let mut others = claimed.iter().filter(|claim| claim.name != self.node);
        let limits = ClaimLimits {
            pools: self.pool_ranges.clone(),
            services: if others.any(|claim| !claim.pools.is_empty()) {
                services.get(&self.client).await
            } else {
                None
            },
            links: netlink::links(kernel).await?,
        };
        let (networks, mut refused) = claims::admit(claimed, &self.node, &limits);
        let admitted = networks.iter().flat_map(|it| it.pod_ranges.iter().copied());
        let admitted: Vec<IpNet> = admitted.collect();
        self.admitted.send_if_modified(|known| {
            let is_other = *known != admitted;
            *known = admitted;
            is_other
        });
        let others = networks.iter().filter(|node| node.name != self.node);
        let others: Vec<IpAddr> = others
            .flat_map(|node| node.addresses.iter().copied())
            .collect();
        let machine = OverlayHost {
            address: self.address,
            mtu: netlink::mtu_of(kernel, self.address).await?,
            reach: overlay::netlink::reach(kernel, &others).await?,
        };
        let desired = overlay::desired(&networks, &self.node, self.overlay, &machine);
        let foreign = bring_about(kernel, &desired).await?;
        refused.extend(foreign.into_iter().map(|range| {
            let mut claiming = networks.iter();
            let node = claiming.find(|node| node.pod_ranges.contains(&range));
            RefusedRange {
                node: node.map(|node| node.name.clone()).unwrap_or_default(),
                range,
                reason: RefusalReason::ForeignRoute,
            }
        }));
        let own = snapshot.get("", &self.node);
        if let Some(own) = own {
            teller.tell(own.meta(), &desired);
            teller.report_refused(own.meta(), refused);
        }
        let ranges = own.map(|own| pod_ranges(own)).unwrap_or_default();
        waiting.tell(&self.node, &ranges);
        plugin.install(self).await?;
        if ranges.is_empty() {
            return Ok(());
        }
        sysctl::apply(&ranges)?;
        let own = netlink::own_addresses(kernel).await?;
        masks.put(self, &networks, &desired, &own)?;
        let mtu = desired.mtu;
        let configuration =
            cni::configuration(&ranges, mtu, self.agent.as_deref(), &self.addresses);
        if let Some(places) = &plugin.places
            && cni::configure(places, &configuration)?
        {
            info!(?ranges, mtu, "the pod network is configured");
        }
        Ok(())
    }
}

/// Makes the kernel's device, its entries and the routes what they shall be: what
/// routes lead through is there before them, and goes after them. Returns the ranges to which
/// somebody else's route leads: these stay as they are.
///
/// # Errors
/// [`Error::Netlink`].
pub(crate) async fn bring_about(kernel: &Handle, desired: &Desired) -> Result<Vec<IpNet>, Error> {
    let mut tunnel = overlay::netlink::index(kernel).await?;
    if let Some(wanted) = &desired.tunnel {
        let device = overlay::netlink::ensure(kernel, wanted).await?;
        let present = overlay::netlink::entries(kernel, device).await?;
        for action in overlay::diff(&present, wanted) {
            overlay::netlink::apply(kernel, device, action).await?;
            info!(?action, "overlay");
        }
        tunnel = Some(device);
    }
    let present = netlink::table(kernel, tunnel).await?;
    for action in routes::diff(&present, &desired.routes) {
        netlink::apply(kernel, action, tunnel).await?;
        info!(?action, "route");
    }
    if desired.tunnel.is_none() && tunnel.is_some() {
        netlink::remove_device(kernel, overlay::DEVICE).await?;
        info!(
            device = overlay::DEVICE,
            "all nodes are reachable directly again"
        );
    }
    let ranges = desired.routes.keys();
    let foreign = ranges.filter(|range| present.foreign.contains(*range));
    Ok(foreign.copied().collect())
}

/// Installs the CNI plugin once the container runtime has said where it looks for plugins. In
/// another folder it would never be found.
#[derive(Default)]
struct PluginInstaller {
    /// Where the plugin is; none before it is there.
    places: Option<CniPaths>,
    /// Whether it was said that the runtime does not answer.
    told: bool,
}

impl PluginInstaller {
    async fn install(&mut self, network: &NetworkSync) -> Result<(), Error> {
        if self.places.is_some() {
            return Ok(());
        }
        match network.cni.resolve_paths(&network.runtime).await {
            Ok(places) => {
                cni::install(&places)?;
                self.places = Some(places);
            }
            Err(error) if !self.told => {
                self.told = true;
                warn!(%error, "failed to ask the container runtime for its CNI folders; retrying");
            }
            Err(_) => {}
        }
        Ok(())
    }
}

/// The ranges of Service addresses, read once in a while.
#[derive(Default)]
struct ServiceRanges {
    known: Option<Vec<IpNet>>,
    /// When they are read again.
    due: Option<Instant>,
}

impl ServiceRanges {
    /// Returns the ranges; those read last while they cannot be read, and `None` if they
    /// never could.
    async fn get(&mut self, client: &Client) -> Option<Vec<IpNet>> {
        if self.due.is_none_or(|due| due <= Instant::now()) {
            let everything = Selection::all();
            let all = client.list::<serde_json::Value>(&SERVICE_CIDRS, &everything);
            let pause = match tokio::time::timeout(SERVICE_RANGES_TIMEOUT, all).await {
                Ok(Ok(all)) => {
                    let ranges = all
                        .items
                        .iter()
                        .filter_map(|it| it["spec"]["cidrs"].as_array());
                    let ranges = ranges.flatten().filter_map(serde_json::Value::as_str);
                    self.known = Some(ranges.filter_map(|range| range.parse().ok()).collect());
                    SERVICE_RANGES
                }
                // An API server without the kind has no ranges to protect here.
                Ok(Err(error)) if error.is_not_found() => {
                    self.known.get_or_insert_default();
                    SERVICE_RANGES
                }
                Ok(Err(error)) => {
                    tracing::debug!(error = %error.chain(), "failed to list ServiceCIDRs");
                    SERVICE_RANGES_RETRY
                }
                Err(_) => {
                    tracing::debug!("listing ServiceCIDRs timed out");
                    SERVICE_RANGES_RETRY
                }
            };
            self.due = Some(Instant::now() + pause);
        }
        self.known.clone()
    }
}

/// The source addresses with which pods leave the cluster.
#[derive(Default)]
struct EgressMasks {
    /// None until the datapath has pinned it.
    map: Option<Egress>,
    rules: MasqueradeRules,
    /// What is wrong with the file, so that it is said once.
    told: Option<String>,
}

impl EgressMasks {
    fn put(
        &mut self,
        network: &NetworkSync,
        nodes: &[NodeNetwork],
        desired: &Desired,
        own: &[IpAddr],
    ) -> Result<(), Error> {
        if self.map.is_none() {
            match Egress::open(&network.pin_dir) {
                Ok(map) => self.map = Some(map),
                // It is starting.
                Err(node_agent_datapath::Error::NotPinned { .. }) => return Ok(()),
                Err(error) => return Err(Error::Datapath(error)),
            }
        }
        let exits = match &network.masquerade {
            Some(path) => {
                self.read(path);
                masquerade::exits(&self.rules, nodes, desired, own)
            }
            None => Exits::new(),
        };
        if let Some(map) = &self.map
            && map.put(&exits).map_err(Error::Datapath)?
        {
            info!(ranges = exits.len(), "egress source addresses updated");
        }
        Ok(())
    }

    fn read(&mut self, path: &Path) {
        match MasqueradeRules::read(path) {
            Ok(rules) => {
                self.rules = rules;
                self.told = None;
            }
            Err(error) => {
                let said = error.to_string();
                if self.told.as_ref() != Some(&said) {
                    warn!(
                        path = %path.display(),
                        error = &error as &dyn std::error::Error,
                        "invalid file ignored; the previous settings stay in force"
                    );
                    self.told = Some(said);
                }
            }
        }
    }
}

/// Reports routes with a smaller MTU, and ranges without a route, on the Node.
struct NetworkReporter {
    recorder: Recorder,
    told: BTreeMap<String, u32>,
    refused: Vec<RefusedRange>,
}

impl NetworkReporter {
    /// Logs ranges that get no route and emits an event on the own Node, when they change.
    fn report_refused(&mut self, own: &Meta, refused: Vec<RefusedRange>) {
        if self.refused == refused {
            return;
        }
        let regarding = ObjectReference::to_object(&resources::NODES, own);
        for RefusedRange {
            node,
            range,
            reason,
        } in refused.iter().filter(|it| !self.refused.contains(it))
        {
            warn!(node, %range, %reason, "the pod CIDR of a node is not routed");
            let message = format!("The pod range {range} of node {node} is not routed: {reason}");
            self.recorder
                .warning(&regarding, "PodRangeRefused", message);
        }
        self.refused = refused;
    }

    fn tell(&mut self, own: &Meta, desired: &Desired) {
        if self.told == desired.narrow {
            return;
        }
        self.told.clone_from(&desired.narrow);
        let regarding = ObjectReference::to_object(&resources::NODES, own);
        let mtu = desired.mtu;
        if desired.narrow.is_empty() {
            let message = format!(
                "the ways to all nodes take what this one's link takes; pods get an MTU of {mtu}"
            );
            self.recorder.normal(&regarding, "PodNetworkMTU", message);
            return;
        }
        let ways: Vec<String> = desired
            .narrow
            .iter()
            .map(|(node, bytes)| format!("{node} ({bytes} bytes)"))
            .collect();
        let message = format!(
            "the way to these nodes takes less than this node's link: {}; new pods get an MTU of \
             {mtu}, older ones are told by ICMP",
            ways.join(", ")
        );
        self.recorder.warning(&regarding, "PodNetworkMTU", message);
    }
}

/// Logs from time to time what the agent is waiting for.
#[derive(Default)]
struct WaitLog {
    told: Option<Instant>,
}

impl WaitLog {
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

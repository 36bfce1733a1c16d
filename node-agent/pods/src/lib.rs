//! The kubelet: one worker per pod, and the list of the parts beside them ([`run`]).
//!
//! ```text
//! API ──watch──▶ manager ──▶ worker of each pod ──▶ next (pure) ──▶ actions ──▶ CRI
//!                  ▲             ▲      └──▶ status (pure) ──▶ patch ──▶ API
//! CRI ──events or looking───────┘
//! ```
//!
//! One task owns all of a pod ([`pod::worker`]); it decides by a pure function
//! ([`pod::next`]) and reports by another ([`pod::status`]). Nothing is kept
//! on disk but volumes and logs: after a restart the agent finds its pods in
//! the runtime by their labels and goes on.

mod manager;
pub mod pod;
mod prepare;
pub mod sandbox_limiter;
pub mod static_pods;
#[cfg(test)]
mod testing;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use control_client::Client;
use control_client::lease::NodeLease;
use control_supervise::task;
use node_agent_cgroups::slices;
use node_agent_cri::RuntimeError;
use node_agent_images::providers;
use node_agent_informers::{Informers, OwnNode, Service};
use node_agent_kubelet_config::Settings;
use node_agent_kubelet_server::extra_endpoints::{ExtraEndpoints, FurtherMetrics};
use node_agent_kubelet_server::logs::rotate;
use node_agent_kubelet_server::{KubeletServer, Tls, serve};
use node_agent_node_lifecycle::allocatable::{enforce, node_limits};
use node_agent_node_lifecycle::guard::EvictionGuard;
use node_agent_node_lifecycle::shutdown::ShutdownManager;
use node_agent_node_lifecycle::{
    self as node, NodeIdentity, StatusSources, driver, guard, shutdown,
};
use node_agent_objects::pod::Pod;
use node_agent_plugins::PluginHandlers;
use node_agent_resource_managers::granted_pods::GrantedPods;
use node_agent_resource_managers::{CheckpointError, devices, reconcile};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::manager::ManagerInputs;
use crate::pod::allocation;

pub use node_agent_images::providers::ProviderFiles;
pub use node_agent_kubelet_server::SyncLoopHealth;
pub use node_agent_pod_volumes::growth::GrownClaims;

/// Options of the pod agent.
#[derive(Clone)]
pub struct AgentOptions {
    /// The API, as this node (`system:node:NAME`).
    pub client: Client,
    /// The caches that it shares with the other parts of the node's agent.
    pub informers: Informers,
    /// The node's name.
    pub node_name: String,
    /// The node's addresses, the primary first.
    pub node_ips: Vec<IpAddr>,
    /// With an external cloud provider, the addresses that were configured, if any: it
    /// initializes the node and keeps its addresses.
    pub external_cloud: Option<Vec<IpAddr>>,
    /// Labels for the node beyond the usual.
    pub labels: Vec<(String, String)>,
    /// The runtime's socket: a path, or `unix://` and a path.
    pub runtime_endpoint: String,
    /// The agent's folder: `/var/lib/kubelet`.
    pub root: PathBuf,
    /// Pods' logs: `/var/log/pods`.
    pub log_root: PathBuf,
    /// Addresses of the cluster's DNS; empty when there is none.
    pub cluster_dns: Vec<IpAddr>,
    /// The cluster's domain: `cluster.local`.
    pub cluster_domain: String,
    /// The node's own `resolv.conf`.
    pub resolv_conf: PathBuf,
    /// Control group below which all pods' are: `/`.
    pub cgroup: String,
    /// Most pods: 110.
    pub most_pods: u32,
    /// The kubelet's configuration.
    pub settings: Settings,
    /// Where credential provider plugins are; none is below the agent's folder.
    pub providers: Option<ProviderFiles>,
    /// Where the serving API listens: port 10250.
    pub listen: SocketAddr,
    /// Its TLS; none for no serving API.
    pub serving: Option<Tls>,
    /// What the serving API answers besides the kubelet's paths.
    pub further: Option<ExtraEndpoints>,
    /// What `/metrics` shows besides the kubelet's families.
    pub further_metrics: Option<FurtherMetrics>,
    /// By which others say that the volumes of claims have grown.
    pub grown: GrownClaims,
    /// By which others see that the agent looks after its pods.
    pub pulse: Arc<SyncLoopHealth>,
}

/// Why the agent cannot start or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The runtime does not answer.
    #[error(
        "container runtime at `{endpoint}` does not answer; is containerd running, and is this its socket?"
    )]
    Runtime {
        /// The socket.
        endpoint: String,
        /// What was said.
        source: RuntimeError,
    },
    /// A folder cannot be made.
    #[error("cannot make `{}`", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Control groups cannot be made.
    #[error(
        "cannot prepare the control group `{group}`; is /sys/fs/cgroup mounted, and are you root?"
    )]
    Cgroup {
        /// The group.
        group: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is not known who makes control groups.
    #[error(transparent)]
    Driver(#[from] driver::Error),
    /// Control groups cannot be made by systemd.
    #[error("cannot prepare the control group `{group}`")]
    Slice {
        /// The group.
        group: String,
        /// What systemd said.
        source: slices::Error,
    },
    /// The credential provider plugins cannot be used.
    #[error(transparent)]
    Providers(providers::Error),
    /// Containers cannot be given CPUs and memory as configured.
    #[error(transparent)]
    Managers(#[from] node_agent_resource_managers::Error),
    /// What was prepared for pods before cannot be gone on with.
    #[error(transparent)]
    Claims(CheckpointError),
    /// The node is refused by the API.
    #[error("the API server refuses the node")]
    Register(#[source] control_client::Error),
    /// The serving API's address is taken.
    #[error("cannot listen on {address}; is another kubelet running?")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
}

/// Makes the future of a part, each time that it starts, from clones of its inputs.
fn part<I, F>(
    inputs: I,
    end: &CancellationToken,
    run: impl Fn(I, CancellationToken) -> F + Send + 'static,
) -> impl FnMut() -> F + Send + 'static
where
    I: Clone + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let end = end.clone();
    move || run(inputs.clone(), end.clone())
}

/// Runs the node until `shutdown`. Pods go on running after it.
///
/// # Errors
/// When the node cannot be set up; nothing that comes later ends it.
pub async fn run(options: AgentOptions, shutdown: CancellationToken) -> Result<(), Error> {
    let prepared = prepare::node(&options).await?;
    let (orders, ordered) = mpsc::unbounded_channel();
    let (nudges, nudged) = mpsc::unbounded_channel();
    let services = options.informers.subscribe::<Service>();
    let own = options.informers.own_node();
    let identity = prepared.identity(&options);
    let limits = node_limits(&prepared.machine, &options.settings);
    let listener = prepare::listener(&options).await?;
    let shared = prepared.context(&options, services.cache(), own.cache(), &nudges, &shutdown)?;
    let shared = Arc::new(shared);
    let (pods, runtime, settings) = (&shared.pods, &shared.runtime, &shared.settings);
    let root = &shared.node.root;
    shared.images.adopt().await;
    if let Some((listener, tls)) = listener {
        let claims = shared.claims.clone();
        let mut further_metrics = vec![FurtherMetrics::new(move || claims.metrics())];
        further_metrics.extend(options.further_metrics.clone());
        let server = KubeletServer {
            client: shared.client.clone(),
            node_name: shared.node.name.clone(),
            settings: settings.clone(),
            runtime: runtime.clone(),
            runtime_name: shared.node.runtime_name.clone(),
            pods: pods.clone(),
            root: root.clone(),
            log_root: shared.node.log_root.clone(),
            cgroups: shared.cgroups.clone(),
            layout: shared.node.cgroups.clone(),
            leaving: shared.leaving.clone(),
            probes: shared.probes.clone(),
            metrics: shared.metrics.clone(),
            further_metrics,
            further: options.further.clone(),
            pulse: options.pulse.clone(),
        };
        task("kubelet-server")
            .until(&shutdown)
            .spawn_restarting(part(
                (server, Arc::new(listener), tls),
                &shutdown,
                |(server, listener, tls), end| serve(server, listener, tls, end),
            ));
    }
    let status = StatusSources {
        client: shared.client.clone(),
        runtime: runtime.clone(),
        attention: shared.attention.clone(),
        pressure: shared.pressure.clone(),
        leaving: shared.leaving.clone(),
        csi: shared.csi.clone(),
        devices: shared.devices.clone(),
        most_images: settings.status_images,
    };
    let upkeep = upkeep(status, identity, own.clone(), shutdown.clone());
    let granted = GrantedPods {
        pods: pods.clone(),
        managers: shared.managers.clone(),
        claims: shared.claims.clone(),
    };
    let drivers = shared.claims.plugins();
    drivers.clone().begin();
    let plugins: Vec<Arc<dyn PluginHandlers>> = vec![shared.csi.clone(), drivers];
    let guard = EvictionGuard {
        runtime: runtime.clone(),
        images: shared.images.clone(),
        pods: pods.clone(),
        cgroups: shared.cgroups.clone(),
        root: root.clone(),
        log_root: shared.node.log_root.clone(),
        settings: settings.clone(),
        pressure: shared.pressure.clone(),
        orders: orders.clone(),
        events: shared.events.clone(),
        metrics: shared.metrics.clone(),
    };
    let ending = ShutdownManager {
        periods: settings.shutdown.clone(),
        leaving: shared.leaving.clone(),
        pods: pods.clone(),
        root: root.clone(),
        orders,
        events: shared.events.clone(),
    };
    let end = &shutdown;
    let parts = [
        task("log-rotation").until(end).spawn_restarting(part(
            (pods.clone(), runtime.clone(), settings.clone()),
            end,
            |(pods, runtime, settings), end| rotate(pods, runtime, settings, end),
        )),
        // It returns where its sockets cannot be made.
        task("device-sockets").spawn_restarting(part(
            (shared.devices.clone(), Arc::new(granted), root.clone()),
            end,
            |(devices, pods, root), end| async move {
                devices::serve(devices, pods, &root, end).await;
            },
        )),
        // It returns where its folder cannot be made.
        task("plugin-watcher").spawn_restarting(part(
            (root.clone(), plugins),
            end,
            |(root, kinds), end| node_agent_plugins::watch(root, kinds, end),
        )),
        task("volume-limits").until(end).spawn_restarting(part(
            (shared.csi.clone(), options.informers.clone()),
            end,
            |(csi, informers), end| csi.keep_counts(informers, end),
        )),
        task("eviction-guard")
            .until(end)
            .spawn_restarting(part(guard, end, guard::watch)),
        task("allocations").until(end).spawn_restarting(part(
            (shared.allocations.clone(), root.clone()),
            end,
            |(allocations, root), end| allocation::keep(allocations, root, end),
        )),
        // These return where the settings ask nothing of them.
        task("node-allocatable").spawn_restarting(part(
            (prepared.cgroups.clone(), shared.events.clone(), limits),
            end,
            |(cgroups, events, limits), end| enforce(cgroups, events, limits, end),
        )),
        task("cpu-reconciler").spawn_restarting(part(
            (
                shared.managers.clone(),
                settings.alignment.clone(),
                pods.clone(),
                runtime.clone(),
            ),
            end,
            |(managers, alignment, pods, runtime), end| {
                reconcile::keep(managers, alignment, pods, runtime, end)
            },
        )),
        task("node-shutdown").spawn_restarting(part(ending, end, shutdown::watch)),
    ];
    // Static pods run before there is an API: it may be they that bring it.
    let known = async move {
        services.synced().await;
        own.synced().await;
    };
    let inputs = ManagerInputs {
        pods: options.informers.subscribe::<Pod>(),
        orders: ordered,
        nudges: (nudges, nudged),
        grown: options.grown.clone(),
        pulse: options.pulse.clone(),
    };
    let manager = manager::run(shared.clone(), inputs, known, shutdown.clone());
    tokio::pin!(manager);
    let result = tokio::select! {
        () = &mut manager => Ok(()),
        kept = upkeep => match kept {
            Err(error) => Err(error),
            Ok(()) => {
                manager.await;
                Ok(())
            }
        },
    };
    for part in parts {
        part.abort();
    }
    result
}

/// Makes the node known, and keeps it so until `shutdown`.
async fn upkeep(
    sources: StatusSources,
    identity: NodeIdentity,
    own: OwnNode,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    node::register(&sources.client, &identity, &shutdown)
        .await
        .map_err(Error::Register)?;
    // A task of its own: whatever keeps the other from its work, the node lives.
    let lease = (NodeLease::new(&identity.name), sources.client.clone());
    let heart = task("node-lease").until(&shutdown).restarting(part(
        lease,
        &shutdown,
        |(lease, client), end| async move { lease.keep(&client, &end).await },
    ));
    let status = task("node-status").until(&shutdown).restarting(part(
        (sources, identity, own),
        &shutdown,
        |(sources, identity, own), end| node::keep(sources, identity, own, end),
    ));
    let mut tasks = JoinSet::new();
    tasks.spawn(heart);
    tasks.spawn(status);
    tasks.join_all().await;
    Ok(())
}

//! The kubelet's duties: pods through CRI, probes, volumes, status, serving API.
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

pub mod blocking;
pub mod cri;
pub mod csi;
pub mod devices;
pub mod dra;
mod grpc;
mod keyed_mutex;
mod manager;
pub mod managers;
pub mod metrics;
pub mod node;
pub mod objects;
pub mod origin;
pub mod plugins;
pub mod pod;
pub mod sandbox_limiter;
pub mod server;
pub mod settings;
pub mod shared;
pub mod static_pods;
mod sync_loop_health;
#[cfg(test)]
mod testing;
mod tls;
pub mod untrusted;
pub mod volumes;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use control_client::events::{Format, Recorder};
use control_client::lease::NodeLease;
use control_client::{Client, Selection};
use control_supervise::task;
use node_agent_informers::{Informers, OwnNode, Service, SharedView};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::cri::Runtime;
use crate::managers::{ResourceManagers, reconcile};
use crate::node::NodeIdentity;
use crate::node::allocatable::{NodeLimits, enforce};
use crate::node::driver;
use crate::node::machine::{Machine, may_lower_oom_score};
use crate::node::shutdown::{NodeShutdown, watch as follow_shutdowns};
use crate::node::startup::{prepare_folders, prepare_process};
use crate::objects::api::ApiObjects;
use crate::objects::pod::Pod;
use crate::pod::allocation::{self, Allocations};
use crate::pod::cgroup::{self, CgroupLayout, CgroupVersion, Cgroups};
use crate::pod::config::NodeFacts;
use crate::pod::dns::{NodeDns, ResolverConfig};
use crate::pod::images::ImagePuller;
use crate::pod::limits::LimitRules;
use crate::pod::providers::CredentialProviders;

pub use crate::pod::providers::ProviderFiles;
pub use crate::sync_loop_health::SyncLoopHealth;
pub use crate::volumes::growth::GrownClaims;

use crate::pod::pulls::PullRecords;
use crate::pod::resize::Capacity;
use crate::pod::userns::IdRanges;
use crate::pod::{qos, slices};
use crate::settings::Settings;
use crate::shared::{PodRegistry, RelistRate, Shared};

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
    pub serving: Option<server::Tls>,
    /// What the serving API answers besides the kubelet's paths.
    pub further: Option<server::extra_endpoints::ExtraEndpoints>,
    /// What `/metrics` shows besides the kubelet's families.
    pub further_metrics: Option<server::extra_endpoints::FurtherMetrics>,
    /// By which others say that the volumes of claims have grown.
    pub grown: GrownClaims,
    /// By which others see that the agent looks after its pods.
    pub pulse: Arc<SyncLoopHealth>,
}

impl SharedView for Pod {
    fn selection(node: &str) -> Selection {
        Selection::all().fields(format!("spec.nodeName={node}"))
    }
}

/// Why the agent cannot start or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The runtime does not answer.
    #[error(
        "container runtime at `{endpoint}`: {source}; is containerd running, and is this its socket?"
    )]
    Runtime {
        /// The socket.
        endpoint: String,
        /// What was said.
        source: cri::RuntimeError,
    },
    /// A folder cannot be made.
    #[error("cannot make `{}`: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Control groups cannot be made.
    #[error(
        "cannot prepare the control group `{group}`: {source}; is /sys/fs/cgroup mounted, and are you root?"
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
    #[error("cannot prepare the control group `{group}`: {source}")]
    Slice {
        /// The group.
        group: String,
        /// What systemd said.
        source: slices::Error,
    },
    /// The credential provider plugins cannot be used.
    #[error(transparent)]
    Providers(pod::providers::Error),
    /// Containers cannot be given CPUs and memory as configured.
    #[error(transparent)]
    Managers(#[from] managers::Error),
    /// What was prepared for pods before cannot be gone on with.
    #[error(transparent)]
    Claims(managers::CheckpointError),
    /// The node is refused by the API.
    #[error("the API server refuses the node")]
    Register(#[source] control_client::Error),
    /// The serving API's address is taken.
    #[error("cannot listen on {address}: {source}; is another kubelet running?")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
}

/// Longest `resolv.conf` that is read, as the kubelet limits it.
const RESOLV_CONF_MOST: u64 = 10 << 20;

/// How long the runtime may take to answer at first.
const RUNTIME_PATIENCE: Duration = Duration::from_secs(30);

/// Runs the node until `shutdown`. Pods go on running after it.
///
/// # Errors
/// When the node cannot be set up; nothing that comes later ends it.
pub async fn run(options: AgentOptions, shutdown: CancellationToken) -> Result<(), Error> {
    prepare_process();
    let metrics = Arc::new(metrics::PodMetrics::default());
    let runtime: Arc<dyn Runtime> = Arc::new(cri::MeasuredRuntime::new(
        Arc::new(cri::RuntimeClient::new(&options.runtime_endpoint)),
        metrics.clone(),
    ));
    let version = first_answer(&*runtime, &options.runtime_endpoint).await?;
    prepare_folders(&options.root, &options.log_root)
        .map_err(|(path, source)| Error::Folder { path, source })?;
    let configured = options.settings.places.cgroup_driver;
    let found = driver::find(&*runtime, configured, driver::PAUSE).await?;
    let layout = CgroupLayout::new(found.driver, &options.cgroup);
    let cgroups = groups(&layout).await.map_err(|source| match source {
        cgroup::Error::Files(source) => Error::Cgroup {
            group: layout.root().to_owned(),
            source,
        },
        cgroup::Error::Slice(source) => Error::Slice {
            group: layout.root().to_owned(),
            source,
        },
    })?;
    let machine = Machine::read(&options.root);
    let settings = options.settings.clone();
    let most_pods = options.most_pods;
    let allocatable = machine.allocatable(most_pods, &settings);
    for field in &settings.unsupported {
        tracing::warn!(
            field,
            "the kubelet's configuration sets what this agent does not do"
        );
    }
    let managers = ResourceManagers::new(&options.root, &settings, machine.memory)?;
    let providers = CredentialProviders::find(&options.root, options.providers.as_ref())
        .map_err(Error::Providers)?;
    let (orders, ordered) = tokio::sync::mpsc::unbounded_channel();
    let client = options.client.clone().named("kubelet");
    let host_ips: Vec<String> = options.node_ips.iter().map(ToString::to_string).collect();
    let identity = NodeIdentity {
        name: options.node_name.clone(),
        ips: host_ips.clone(),
        hostname: options.node_name.clone(),
        labels: options.labels.clone(),
        port: options.listen.port(),
        machine: machine.clone(),
        most_pods,
        allocatable: allocatable.clone(),
        taints: settings.taints.clone(),
        external_cloud: options
            .external_cloud
            .as_ref()
            .map(|ips| ips.iter().map(ToString::to_string).collect()),
        runtime: format!(
            "{}://{}",
            version.runtime_name,
            version.runtime_version.trim_start_matches('v')
        ),
    };
    let listener = match &options.serving {
        None => None,
        Some(tls) => {
            let listener = tokio::net::TcpListener::bind(options.listen)
                .await
                .map_err(|source| Error::Listen {
                    address: options.listen,
                    source,
                })?;
            Some((listener, tls.clone()))
        }
    };
    let services = options.informers.subscribe::<Service>();
    let own = options.informers.own_node();
    let resolv_conf =
        untrusted::read_to_string(&options.resolv_conf, RESOLV_CONF_MOST).unwrap_or_default();
    let allocatable: std::collections::BTreeMap<String, String> = allocatable
        .into_iter()
        .filter_map(|(k, v)| Some((k, v.as_str()?.to_owned())))
        .collect();
    let drivers = csi::CsiDrivers::new(client.clone(), &options.node_name, &options.root);
    let (nudges, nudged) = tokio::sync::mpsc::unbounded_channel();
    let claims = dra::ClaimManager::new(
        client.clone(),
        &options.node_name,
        &options.root,
        nudges.clone(),
        dra::AWAY,
        shutdown.clone(),
    )
    .map_err(Error::Claims)?;
    let devices = devices::DeviceManager::new(&options.root).telling(nudges.clone());
    let shared = Arc::new(Shared {
        claims,
        csi: Arc::new(drivers),
        grown: options.grown.clone(),
        devices: Arc::new(devices),
        managers,
        ranges: IdRanges::new(&options.root, most_pods),
        objects: Arc::new(ApiObjects::new(client.clone(), services.cache())),
        events: Recorder::new(&client, "kubelet", &options.node_name, Format::Core),
        images: ImagePuller::new(
            runtime.clone(),
            settings.pulls,
            PullRecords::new(&options.root, settings.verification.clone()),
            providers,
        ),
        node: NodeFacts {
            log_root: options.log_root.clone(),
            seccomp_root: options.root.join("seccomp"),
            cgroups: layout,
            rules: LimitRules {
                memory: bytes(machine.memory),
                allocatable: qos::memory(&allocatable).unwrap_or(0),
                page: bytes(machine.page),
                swap: cgroups.limits_swap().then(|| bytes(machine.swap)),
                huge: machine.hugepages.keys().copied().collect(),
                may_lower_oom_score: may_lower_oom_score(),
                unified: cgroups.version() == CgroupVersion::Two,
                limits: settings.memory,
            },
            cluster_domain: options.cluster_domain.clone(),
            seccomp_default: settings.seccomp_default,
        },
        node_name: options.node_name.clone(),
        node_object: own.cache(),
        settings: settings.clone(),
        host_ips,
        dns: NodeDns {
            servers: options
                .cluster_dns
                .iter()
                .map(ToString::to_string)
                .collect(),
            domain: options.cluster_domain.clone(),
            host: ResolverConfig::parse(&resolv_conf),
        },
        cgroups: Some(cgroups),
        room: Capacity {
            cpu: qos::cpu(&allocatable).unwrap_or(0),
            memory: qos::memory(&allocatable).unwrap_or(0),
        },
        leaving: NodeShutdown::new(&options.root),
        allocations: Allocations::read(&options.root),
        grants: Mutex::default(),
        allocatable,
        root: options.root.clone(),
        short: Mutex::default(),
        orders,
        pods: PodRegistry::default(),
        probes: Arc::default(),
        attention: RelistRate::default(),
        metrics,
        further_metrics: options.further_metrics.clone(),
        pulse: options.pulse.clone(),
        crowd: sandbox_limiter::SandboxLimiter::for_processors(
            usize::try_from(machine.cpus).unwrap_or(1),
        ),
        runtime_name: version.runtime_name,
        runtime,
        client: client.clone(),
    });
    shared.images.adopt().await;
    if let Some((listener, tls)) = listener {
        let (with, listener) = (shared.clone(), Arc::new(listener));
        let (further, end) = (options.further.clone(), shutdown.clone());
        task("kubelet-server")
            .until(&shutdown)
            .spawn_restarting(move || {
                let (further, end) = (further.clone(), end.clone());
                server::serve(with.clone(), listener.clone(), tls.clone(), further, end)
            });
    }
    let upkeep = upkeep(shared.clone(), identity, own.clone(), shutdown.clone());
    let pods = options.informers.subscribe::<Pod>();
    let each = || {
        let (shared, shutdown) = (shared.clone(), shutdown.clone());
        move || (shared.clone(), shutdown.clone())
    };
    let with = each();
    let rotation = task("log-rotation")
        .until(&shutdown)
        .spawn_restarting(move || {
            let (shared, end) = with();
            server::logs::rotate(shared, end)
        });
    let (with, root) = (each(), options.root.clone());
    // It returns where its sockets cannot be made.
    let sockets = task("device-sockets").spawn_restarting(move || {
        let ((shared, end), root) = (with(), root.clone());
        async move { devices::serve(shared.devices.clone(), shared, &root, end).await }
    });
    let of_claims = shared.claims.plugins();
    of_claims.clone().begin();
    let kinds: Vec<Arc<dyn plugins::PluginHandlers>> = vec![shared.csi.clone(), of_claims];
    let (root, end) = (options.root.clone(), shutdown.clone());
    // It returns where its folder cannot be made.
    let plugins = task("plugin-watcher")
        .spawn_restarting(move || plugins::watch(root.clone(), kinds.clone(), end.clone()));
    let (with, informers) = (each(), options.informers.clone());
    let counts = task("volume-limits")
        .until(&shutdown)
        .spawn_restarting(move || {
            let (shared, end) = with();
            shared.csi.clone().keep_counts(informers.clone(), end)
        });
    let with = each();
    let guard = task("eviction-guard")
        .until(&shutdown)
        .spawn_restarting(move || {
            let (shared, end) = with();
            node::guard::guard(shared, settings.clone(), end)
        });
    let limits = NodeLimits::new(&machine, &shared.settings);
    let with = each();
    // These return where the settings ask nothing of them.
    let limited = task("node-allocatable").spawn_restarting(move || {
        let (shared, end) = with();
        enforce(shared, limits.clone(), end)
    });
    let with = each();
    let granted = task("allocations")
        .until(&shutdown)
        .spawn_restarting(move || {
            let (shared, end) = with();
            allocation::keep(shared, end)
        });
    let with = each();
    let bound = task("cpu-reconciler").spawn_restarting(move || {
        let (shared, end) = with();
        reconcile::keep(shared, end)
    });
    let with = each();
    let leaving = task("node-shutdown").spawn_restarting(move || {
        let (shared, end) = with();
        follow_shutdowns(shared, end)
    });
    // Static pods run before there is an API: it may be they that bring it.
    let known = async move {
        services.synced().await;
        own.synced().await;
    };
    let manager = manager::run(shared, pods, known, ordered, (nudges, nudged), shutdown);
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
    for task in [
        rotation, guard, plugins, sockets, leaving, bound, granted, limited, counts,
    ] {
        task.abort();
    }
    result
}

/// Makes the node known, and keeps it so until `shutdown`.
async fn upkeep(
    shared: Arc<Shared>,
    identity: NodeIdentity,
    own: OwnNode,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    node::register(&shared.client, &identity, &shutdown)
        .await
        .map_err(Error::Register)?;
    let lease = NodeLease::new(&shared.node_name);
    let (client, until) = (shared.client.clone(), shutdown.clone());
    // A task of its own: whatever keeps the other from its work, the node lives.
    let heart = task("node-lease").until(&shutdown).restarting(move || {
        let (lease, client, until) = (lease.clone(), client.clone(), until.clone());
        async move { lease.keep(&client, &until).await }
    });
    let mut tasks = JoinSet::new();
    tasks.spawn(heart);
    let end = shutdown.clone();
    let status = task("node-status")
        .until(&shutdown)
        .restarting(move || node::keep(shared.clone(), identity.clone(), own.clone(), end.clone()));
    tasks.spawn(status);
    tasks.join_all().await;
    Ok(())
}

async fn groups(layout: &CgroupLayout) -> Result<Cgroups, cgroup::Error> {
    let found = Cgroups::find(Path::new("/sys/fs/cgroup"), layout.clone())?;
    found.prepare().await?;
    Ok(found)
}

async fn first_answer(
    runtime: &dyn Runtime,
    endpoint: &str,
) -> Result<cri::api::VersionResponse, Error> {
    let begun = std::time::Instant::now();
    loop {
        let request = cri::api::VersionRequest {
            version: "v1".to_owned(),
        };
        match runtime.version(request).await {
            Ok(version) => return Ok(version),
            Err(source) if begun.elapsed() > RUNTIME_PATIENCE => {
                return Err(Error::Runtime {
                    endpoint: endpoint.to_owned(),
                    source,
                });
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

fn bytes(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

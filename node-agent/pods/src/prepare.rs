//! What is found and made on a node before its parts start.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use control_client::Cache;
use node_agent_cgroups::{CgroupVersion, Cgroups};
use node_agent_cri::{MeasuredRuntime, Runtime, RuntimeClient, api};
use node_agent_csi_client::CsiDrivers;
use node_agent_images::ImagePuller;
use node_agent_images::providers::CredentialProviders;
use node_agent_images::pulls::PullRecords;
use node_agent_informers::{Node, Service};
use node_agent_kubelet_metrics::PodMetrics;
use node_agent_kubelet_server::Tls;
use node_agent_node_lifecycle::machine::{Machine, may_lower_oom_score};
use node_agent_node_lifecycle::shutdown::NodeShutdown;
use node_agent_node_lifecycle::startup::{prepare_folders, prepare_process};
use node_agent_node_lifecycle::{NodeIdentity, driver};
use node_agent_objects::api::ApiObjects;
use node_agent_objects::events::NodeEvents;
use node_agent_pod_resources::cgroup_names::CgroupLayout;
use node_agent_pod_resources::qos;
use node_agent_pod_resources::resize::Capacity;
use node_agent_resource_managers::ResourceManagers;
use node_agent_resource_managers::devices::DeviceManager;
use node_agent_resource_managers::dra::{AWAY, ClaimManager};
use serde_json::{Map, Value};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::pod::allocation::Allocations;
use crate::pod::config::NodeFacts;
use crate::pod::context::PodContext;
use crate::pod::dns::{NodeDns, ResolverConfig};
use crate::pod::limits::LimitRules;
use crate::pod::userns::IdRanges;
use crate::sandbox_limiter::SandboxLimiter;
use crate::{AgentOptions, Error};

/// Longest `resolv.conf` that is read, as the kubelet limits it.
const RESOLV_CONF_MOST: u64 = 10 << 20;

/// How long the runtime may take to answer at first.
const RUNTIME_PATIENCE: Duration = Duration::from_secs(30);

/// A node whose runtime answers, with its folders and control groups made.
pub(crate) struct PreparedNode {
    metrics: Arc<PodMetrics>,
    runtime: Arc<dyn Runtime>,
    version: api::VersionResponse,
    layout: CgroupLayout,
    pub(crate) cgroups: Cgroups,
    pub(crate) machine: Machine,
    allocatable: Map<String, Value>,
}

/// Prepares this node.
pub(crate) async fn node(options: &AgentOptions) -> Result<PreparedNode, Error> {
    prepare_process();
    let metrics = Arc::new(PodMetrics::default());
    let runtime: Arc<dyn Runtime> = Arc::new(MeasuredRuntime::new(
        Arc::new(RuntimeClient::new(&options.runtime_endpoint)),
        metrics.clone(),
    ));
    let version = first_answer(&*runtime, &options.runtime_endpoint).await?;
    prepare_folders(&options.root, &options.log_root)
        .map_err(|(path, source)| Error::Folder { path, source })?;
    let configured = options.settings.places.cgroup_driver;
    let found = driver::find(&*runtime, configured, driver::PAUSE).await?;
    let layout = CgroupLayout::new(found.driver, &options.cgroup);
    let cgroups = groups(&layout).await.map_err(|source| match source {
        node_agent_cgroups::Error::Files(source) => Error::Cgroup {
            group: layout.root().to_owned(),
            source,
        },
        node_agent_cgroups::Error::Slice(source) => Error::Slice {
            group: layout.root().to_owned(),
            source,
        },
    })?;
    let machine = Machine::read(&options.root);
    for field in &options.settings.unsupported {
        tracing::warn!(
            field,
            "the kubelet's configuration sets what this agent does not do"
        );
    }
    Ok(PreparedNode {
        metrics,
        runtime,
        version,
        layout,
        cgroups,
        allocatable: machine.allocatable(options.most_pods, &options.settings),
        machine,
    })
}

impl PreparedNode {
    /// What the node's object says of it.
    pub(crate) fn identity(&self, options: &AgentOptions) -> NodeIdentity {
        NodeIdentity {
            name: options.node_name.clone(),
            ips: options.node_ips.iter().map(ToString::to_string).collect(),
            hostname: options.node_name.clone(),
            labels: options.labels.clone(),
            port: options.listen.port(),
            machine: self.machine.clone(),
            most_pods: options.most_pods,
            allocatable: self.allocatable.clone(),
            taints: options.settings.taints.clone(),
            external_cloud: options
                .external_cloud
                .as_ref()
                .map(|ips| ips.iter().map(ToString::to_string).collect()),
            runtime: format!(
                "{}://{}",
                self.version.runtime_name,
                self.version.runtime_version.trim_start_matches('v')
            ),
        }
    }

    /// What is the same for all pods.
    fn facts(&self, options: &AgentOptions) -> NodeFacts {
        let resolv_conf = node_agent_files::read_to_string(&options.resolv_conf, RESOLV_CONF_MOST)
            .unwrap_or_default();
        let allocatable: BTreeMap<String, String> = self
            .allocatable
            .iter()
            .filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned())))
            .collect();
        let swap = self.cgroups.limits_swap();
        NodeFacts {
            name: options.node_name.clone(),
            host_ips: options.node_ips.iter().map(ToString::to_string).collect(),
            room: Capacity {
                cpu: qos::cpu(&allocatable).unwrap_or(0),
                memory: qos::memory(&allocatable).unwrap_or(0),
            },
            rules: LimitRules {
                memory: bytes(self.machine.memory),
                allocatable: qos::memory(&allocatable).unwrap_or(0),
                page: bytes(self.machine.page),
                swap: swap.then(|| bytes(self.machine.swap)),
                huge: self.machine.hugepages.keys().copied().collect(),
                may_lower_oom_score: may_lower_oom_score(),
                unified: self.cgroups.version() == CgroupVersion::Two,
                limits: options.settings.memory,
            },
            allocatable,
            dns: NodeDns {
                servers: options
                    .cluster_dns
                    .iter()
                    .map(ToString::to_string)
                    .collect(),
                domain: options.cluster_domain.clone(),
                host: ResolverConfig::parse(&resolv_conf),
            },
            runtime_name: self.version.runtime_name.clone(),
            root: options.root.clone(),
            log_root: options.log_root.clone(),
            seccomp_root: options.root.join("seccomp"),
            cgroups: self.layout.clone(),
            cluster_domain: options.cluster_domain.clone(),
            seccomp_default: options.settings.seccomp_default,
        }
    }

    /// What the workers of all pods use. `nudges` gets the uids of pods whose devices are not
    /// as they were.
    pub(crate) fn context(
        &self,
        options: &AgentOptions,
        services: Cache<Service>,
        nodes: Cache<Node>,
        nudges: &mpsc::UnboundedSender<String>,
        shutdown: &CancellationToken,
    ) -> Result<PodContext, Error> {
        let (root, settings) = (&options.root, &options.settings);
        let client = options.client.clone().named("kubelet");
        let managers = ResourceManagers::new(root, settings, self.machine.memory)?;
        let providers = CredentialProviders::find(root, options.providers.as_ref())
            .map_err(Error::Providers)?;
        let claims = ClaimManager::new(
            client.clone(),
            &options.node_name,
            root,
            nudges.clone(),
            AWAY,
            shutdown.clone(),
        )
        .map_err(Error::Claims)?;
        Ok(PodContext {
            objects: Arc::new(ApiObjects::new(client.clone(), services)),
            node_object: nodes,
            events: NodeEvents::new(&client, &options.node_name),
            runtime: self.runtime.clone(),
            attention: Arc::default(),
            crowd: SandboxLimiter::for_processors(usize::try_from(self.machine.cpus).unwrap_or(1)),
            images: Arc::new(ImagePuller::new(
                self.runtime.clone(),
                settings.pulls,
                PullRecords::new(root, settings.verification.clone()),
                providers,
            )),
            csi: Arc::new(CsiDrivers::new(client.clone(), &options.node_name, root)),
            devices: Arc::new(DeviceManager::new(root).telling(nudges.clone())),
            claims: Arc::new(claims),
            managers: Arc::new(managers),
            cgroups: Some(self.cgroups.clone()),
            ranges: IdRanges::new(root, options.most_pods),
            node: self.facts(options),
            settings: Arc::new(settings.clone()),
            pressure: Default::default(),
            leaving: Arc::new(NodeShutdown::new(root)),
            allocations: Arc::new(Allocations::read(root)),
            grants: Mutex::default(),
            pods: Arc::default(),
            probes: Arc::default(),
            metrics: self.metrics.clone(),
            client,
        })
    }
}

/// Binds the serving API's address, if it is to be served.
pub(crate) async fn listener(options: &AgentOptions) -> Result<Option<(TcpListener, Tls)>, Error> {
    let Some(tls) = &options.serving else {
        return Ok(None);
    };
    let bound = TcpListener::bind(options.listen).await;
    let listener = bound.map_err(|source| Error::Listen {
        address: options.listen,
        source,
    })?;
    Ok(Some((listener, tls.clone())))
}

async fn groups(layout: &CgroupLayout) -> Result<Cgroups, node_agent_cgroups::Error> {
    let found = Cgroups::find(Path::new("/sys/fs/cgroup"), layout.clone())?;
    found.prepare().await?;
    Ok(found)
}

async fn first_answer(
    runtime: &dyn Runtime,
    endpoint: &str,
) -> Result<api::VersionResponse, Error> {
    let begun = std::time::Instant::now();
    loop {
        let request = api::VersionRequest {
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

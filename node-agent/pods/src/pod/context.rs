//! What the workers of all pods use.

use std::sync::{Arc, Mutex};

use control_client::{Cache, Client};
use node_agent_cgroups::Cgroups;
use node_agent_cri::{RelistRate, Runtime};
use node_agent_csi_client::CsiDrivers;
use node_agent_images::ImagePuller;
use node_agent_informers::Node;
use node_agent_kubelet_config::Settings;
use node_agent_kubelet_metrics::PodMetrics;
use node_agent_node_lifecycle::machine::CurrentPressure;
use node_agent_node_lifecycle::shutdown::NodeShutdown;
use node_agent_objects::events::NodeEvents;
use node_agent_objects::source::ObjectReader;
use node_agent_pod_registry::PodRegistry;
use node_agent_probes::probe::ProbeCounts;
use node_agent_resource_managers::ResourceManagers;
use node_agent_resource_managers::devices::DeviceManager;
use node_agent_resource_managers::dra::ClaimManager;

use super::allocation::Allocations;
use super::config::NodeFacts;
use super::userns::IdRanges;
use crate::sandbox_limiter::SandboxLimiter;

/// What the workers of all pods use, one per agent.
pub struct PodContext {
    /// The API.
    pub client: Client,
    /// Config maps, secrets, tokens, services.
    pub objects: Arc<dyn ObjectReader>,
    /// Nodes, the own one among them.
    pub node_object: Cache<Node>,
    /// Where events go.
    pub events: NodeEvents,
    /// The container runtime.
    pub runtime: Arc<dyn Runtime>,
    /// How the runtime is watched.
    pub attention: Arc<RelistRate>,
    /// Who may have a sandbox made.
    pub crowd: SandboxLimiter,
    /// Images.
    pub images: Arc<ImagePuller>,
    /// Drivers of volumes.
    pub csi: Arc<CsiDrivers>,
    /// Devices of plugins.
    pub devices: Arc<DeviceManager>,
    /// Devices by claims.
    pub claims: Arc<ClaimManager>,
    /// CPUs and memory of containers' own.
    pub managers: Arc<ResourceManagers>,
    /// Control groups; none where there are none to be made.
    pub cgroups: Option<Cgroups>,
    /// Ids of pods' own.
    pub ranges: IdRanges,
    /// What is the same for all pods.
    pub node: NodeFacts,
    /// The kubelet's configuration.
    pub settings: Arc<Settings>,
    /// What the node is short of.
    pub pressure: CurrentPressure,
    /// Whether the machine is going down.
    pub leaving: Arc<NodeShutdown>,
    /// What pods were granted, for who comes after this agent.
    pub allocations: Arc<Allocations>,
    /// Held while resources are granted.
    pub grants: Mutex<()>,
    /// The pods of the node. Each worker writes its own entry.
    pub pods: Arc<PodRegistry>,
    /// How probes went.
    pub probes: Arc<ProbeCounts>,
    /// What is measured.
    pub metrics: Arc<PodMetrics>,
}

//! What the workers of all pods use.

use std::sync::{Arc, Mutex};

use control_client::{Cache, Client};
use node_agent_cgroups::Cgroups;
use node_agent_cri::observed::ObservedPod;
use node_agent_cri::{RelistRate, Runtime};
use node_agent_csi_client::CsiDrivers;
use node_agent_images::ImagePuller;
use node_agent_informers::Node;
use node_agent_kubelet_config::Settings;
use node_agent_kubelet_metrics::PodMetrics;
use node_agent_node_lifecycle::machine::CurrentPressure;
use node_agent_node_lifecycle::shutdown::NodeShutdown;
use node_agent_objects::events::NodeEvents;
use node_agent_objects::pod::Pod;
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

impl PodContext {
    /// The address at which probes and hooks reach a pod's containers: the node's, if the pod is in
    /// its network. The pod's status does not have it before the API server has stored it.
    #[must_use]
    pub fn address_of<'a>(&'a self, pod: &Pod, observed: &'a ObservedPod) -> &'a str {
        let ip = if pod.spec.host_network {
            self.node.host_ips.first()
        } else {
            observed.live_sandbox().and_then(|s| s.ips.first())
        };
        ip.map_or("127.0.0.1", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use node_agent_cri::fake::Fake;
    use node_agent_cri::observed::ObservedPod;
    use serde_json::json;

    use crate::testing;

    #[tokio::test]
    async fn a_pod_in_the_nodes_network_is_reached_there_before_its_status_says_so() {
        let root = tempfile::tempdir().unwrap();
        let context = testing::context(&Fake::default(), root.path(), Default::default());
        let pod = testing::pod("web", json!({"hostNetwork": true, "containers": []}), false);
        assert!(pod.status.host_ip.is_empty());
        let observed = ObservedPod {
            sandboxes: Vec::new(),
            containers: Vec::new(),
        };
        assert_eq!(context.address_of(&pod, &observed), "10.1.0.1");
    }
}

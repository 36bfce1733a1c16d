//! The options of the agent.

use std::{net::IpAddr, path::PathBuf};

use ipnet::IpNet;
use node_agent_kubelet_config::Settings;
use node_agent_pods::ProviderFiles;

use crate::{
    cni::CniOptions, flows::FlowOptions, overlay::Overlay, services::options::DatapathSettings,
    serving::ServingCertificates, volumes::Config,
};

/// Options of the whole agent.
#[derive(Clone, Debug)]
pub struct AgentOptions {
    /// The datapath. Pods' control groups are below its `cgroup`, so that
    /// they see services.
    pub datapath: DatapathSettings,
    /// Whether this agent runs the node's pods; if not, another kubelet does, and has
    /// its port.
    pub runs_pods: bool,
    /// The node's addresses, the primary one first. If empty, the agent uses the source address of
    /// the default route.
    pub node_ips: Vec<IpAddr>,
    /// With an external cloud provider, the addresses that were configured, if any: it
    /// initializes the node and keeps its addresses.
    pub external_cloud: Option<Vec<IpAddr>>,
    /// Labels for the node beyond the usual.
    pub labels: Vec<(String, String)>,
    /// The container runtime's socket: a path, or `unix://` and a path.
    pub runtime_endpoint: String,
    /// Certificates of the serving API; without them, there is none, and with
    /// it no `kubectl logs` and `exec`.
    pub serving: Option<ServingCertificates>,
    /// The pods' folder: `/var/lib/kubelet`.
    pub root: PathBuf,
    /// Pods' logs: `/var/log/pods`.
    pub log_root: PathBuf,
    /// The cluster DNS service's addresses, which this agent answers itself.
    pub cluster_dns: Vec<IpAddr>,
    /// The cluster's domain: `cluster.local`.
    pub cluster_domain: String,
    /// The node's `resolv.conf`: what is asked for names of other domains.
    pub resolv_conf: PathBuf,
    /// Most pods on the node, whatever `settings` say.
    pub most_pods: u32,
    /// The kubelet's configuration.
    pub settings: Settings,
    /// Where credential provider plugins are; none is below the agent's folder.
    pub providers: Option<ProviderFiles>,
    /// Where the CNI plugin goes.
    pub cni: CniOptions,
    /// Whether pods of other nodes are reached through a VXLAN.
    pub overlay: Overlay,
    /// The ranges in which pools of addresses of other nodes lie.
    pub pool_ranges: Vec<IpNet>,
    /// The file that says where pods leave the cluster as themselves, in the form of
    /// ip-masq-agent's; none: everywhere.
    pub masquerade: Option<PathBuf>,
    /// Whether network policy is enforced on this node's pods.
    pub network_policy: NetworkPolicy,
    /// How flows are recorded.
    pub flows: FlowOptions,
    /// Classes of the node's own volumes, whose driver this process is; none without.
    pub volumes: Option<Config>,
    /// Where the API server has no PodEndpoints: the kubeconfig by which it is reached as
    /// the service account that reads pods. Without, the node reads them.
    pub policy_kubeconfig: Option<PathBuf>,
}

/// Whether network policy is enforced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NetworkPolicy {
    /// On all connections: one that a policy forbids since it was made ends.
    #[default]
    Enforce,
    /// On new connections.
    KeepEstablished,
    /// Not at all.
    Off,
}

//! How services are served, as far as the operator decides.

use std::{net::SocketAddr, path::PathBuf};

use ebpf_abi::{DirectReturn, Timeouts};
use ipnet::IpNet;
use node_agent_datapath::{Patterns, RecordingOptions};

/// Options of the datapath.
#[derive(Clone, Debug)]
pub struct DatapathSettings {
    /// The Node object's name.
    pub node_name: String,
    /// The cgroup v2 folder whose processes see services; the root of the
    /// hierarchy if `None`.
    pub cgroup: Option<PathBuf>,
    /// Where programs and maps are pinned; on a BPF file system.
    pub pin_dir: PathBuf,
    /// How services are served.
    pub services: ServiceOptions,
}

/// What the operator says of services.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceOptions {
    /// At which devices programs run.
    pub patterns: Patterns,
    /// Which of the node's addresses serve node ports: ranges, or `primary`;
    /// all if there is none.
    pub node_port_addresses: Vec<String>,
    /// Pods' ranges of the whole cluster: clients there are inside. Those of
    /// the Node object if there is none.
    pub cluster_cidrs: Vec<IpNet>,
    /// Clients of cluster IPs are shown as this node, wherever they are.
    pub masquerade_all: bool,
    /// Only processes of the node's own network namespace are translated at
    /// their sockets; pods' packets are, at their devices.
    pub host_sockets_only: bool,
    /// How remote backends answer clients directly.
    pub direct_return: DirectReturn,
    /// The ports that translated clients get: first and last.
    pub client_ports: (u16, u16),
    /// When flows are over.
    pub timeouts: Timeouts,
    /// Host ports of this node's pods are served, too: there is no other CNI
    /// plugin that does so.
    pub host_ports: bool,
    /// What network policy once allowed goes on, whatever policies say since.
    pub keep_established: bool,
    /// Of which verdicts programs tell one by one.
    pub recording: RecordingOptions,
    /// Where `/healthz` and `/livez` are served.
    pub healthz: Option<SocketAddr>,
    /// Where `/metrics`, `/configz` and `/proxyMode` are served.
    pub metrics: Option<SocketAddr>,
    /// If these ports are taken, they are served when they are free: kube-proxy may still
    /// have them.
    pub wait_for_ports: bool,
}

/// kube-proxy's ports, which load balancers and monitoring know.
pub const HEALTHZ: u16 = 10_256;
/// The same for metrics.
pub const METRICS: u16 = 10_249;

impl Default for ServiceOptions {
    fn default() -> Self {
        let node = ebpf_abi::Config::DEFAULT;
        Self {
            patterns: Patterns::default(),
            node_port_addresses: Vec::new(),
            cluster_cidrs: Vec::new(),
            masquerade_all: false,
            host_sockets_only: false,
            direct_return: DirectReturn::NONE,
            client_ports: (node.first_port, node.last_port),
            timeouts: Timeouts::DEFAULT,
            host_ports: false,
            keep_established: false,
            recording: RecordingOptions::default(),
            healthz: Some(SocketAddr::from(([0, 0, 0, 0], HEALTHZ))),
            metrics: Some(SocketAddr::from(([127, 0, 0, 1], METRICS))),
            wait_for_ports: false,
        }
    }
}

impl ServiceOptions {
    /// For `/configz`: in the form of kube-proxy's configuration, as far as it
    /// has words for it.
    pub(crate) fn as_json(&self) -> serde_json::Value {
        let seconds = |seconds: u32| format!("{seconds}s");
        let socket = |address: Option<SocketAddr>| {
            address.map_or_else(String::new, |address| address.to_string())
        };
        let cidrs: Vec<_> = self.cluster_cidrs.iter().map(IpNet::to_string).collect();
        serde_json::json!({
            "kubeproxy.config.k8s.io": {
                "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
                "kind": "KubeProxyConfiguration",
                "mode": "ebpf",
                "clusterCIDR": cidrs.join(","),
                "nodePortAddresses": self.node_port_addresses,
                "healthzBindAddress": socket(self.healthz),
                "metricsBindAddress": socket(self.metrics),
                "conntrack": {
                    "tcpEstablishedTimeout": seconds(self.timeouts.tcp_established),
                    "tcpCloseWaitTimeout": seconds(self.timeouts.tcp_half_closed),
                    "udpTimeout": seconds(self.timeouts.udp_unreplied),
                    "udpStreamTimeout": seconds(self.timeouts.udp_replied),
                },
                "orlop": {
                    "masqueradeAll": self.masquerade_all,
                    "hostSocketsOnly": self.host_sockets_only,
                    "devices": self.patterns.devices.to_string(),
                    "podDevices": self.patterns.pods.to_string(),
                    "xdp": format!("{:?}", self.patterns.xdp),
                    "clientPorts": format!("{}-{}", self.client_ports.0, self.client_ports.1),
                },
            },
        })
    }
}

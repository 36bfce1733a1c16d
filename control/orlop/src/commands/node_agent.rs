//! `orlop node-agent`: what runs on a node.

use std::{
    net::{IpAddr, Ipv4Addr},
    path::{Path, PathBuf},
};

use clap::{Args, Subcommand, ValueEnum};
use control_client::Client;
use ipnet::{IpNet, Ipv4Net};
use node_agent::{
    NetworkPolicy, Overlay, ServingCertificates, ServingPlaces, cni::CniOptions, flows, flows_port,
    volumes,
};

use super::{
    service_options::ServiceArgs,
    uninstall::{Drain, OnExit, remove},
};
use crate::values::InvalidValue;
use crate::{address, error::Error, kubeconfig, memory, run, servers, values};

/// The default range of pod addresses.
const CLUSTER_CIDR: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(10, 244, 0, 0), 16);

/// The default address of cluster DNS.
const CLUSTER_DNS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 96, 0, 10));

/// The default limit on pods, as the kubelet's.
const MAX_PODS: u32 = 110;

/// For which node, and where.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Options {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    _file: crate::config::ConfigFile,
    /// Kubeconfig of the node's user (`system:node:NAME`); with --datapath-only, of a user with the
    /// rights of kube-proxy (`system:node-proxier`), and kube-proxy's own unless given. Without
    /// any, the file that KUBECONFIG names.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Only the datapath: beside another kubelet, in kube-proxy's place.
    #[arg(long)]
    datapath_only: bool,
    /// All but the pods themselves: the network of another kubelet's node, with services, the CNI
    /// plugin, routes and policy. Cluster DNS is left to its own pods.
    #[arg(long, conflicts_with_all = ["datapath_only", "serving"])]
    without_pods: bool,
    /// With --datapath-only: fate of the datapath when this process is terminated; kept
    /// by default.
    #[arg(long, value_enum, requires = "datapath_only")]
    on_exit: Option<OnExit>,
    #[command(flatten)]
    drain: Drain,
    #[command(flatten)]
    node: Node,
    #[command(flatten)]
    serving: ServingFiles,
}

/// One-time operations.
#[derive(Subcommand)]
pub enum Verb {
    /// Find and remove what kube-proxy left in the kernel: chains of iptables, tables of nftables,
    /// virtual servers of IPVS, sets.
    CleanupKubeProxy {
        /// Only print what would be removed.
        #[arg(long)]
        dry_run: bool,
    },
    /// Begin to serve Services beside kube-proxy on this machine: find the node's kubeconfig, write
    /// options and a unit of systemd, start the agent, and check that each Service answers.
    #[command(after_help = super::install::EXAMPLES)]
    Install(super::install::Options),
    /// Remove the datapath from this machine: programs, maps, pins, reserved ports and sockets.
    /// The agent must have ended.
    #[command(after_help = super::uninstall::EXAMPLES)]
    Uninstall(super::uninstall::Options),
}

/// Options of every way to run the agent.
// Other commands flatten it as well: groups need unique names.
#[derive(Args)]
#[group(id = "node")]
pub struct Node {
    /// The Node object's name; the host's name unless given.
    #[arg(long, value_parser = values::node_name)]
    node_name: Option<String>,
    /// The cgroup v2 folder whose processes see services; the node's pods run below it. The root
    /// of the hierarchy unless given.
    #[arg(long)]
    cgroup: Option<PathBuf>,
    /// Directory of pinned eBPF programs and maps.
    #[arg(long, default_value = node_agent::PINS)]
    pin_dir: PathBuf,
    #[command(flatten)]
    services: ServiceArgs,
    #[command(flatten)]
    whole: NodeOptions,
}

/// The serving API's certificate, for who makes it by hand.
#[derive(Args)]
#[group(id = "serving")]
#[command(next_help_heading = "Options of the whole agent")]
struct ServingFiles {
    /// Certificate of the serving API on port 10250. Without it, logs and exec do not work.
    #[arg(long, requires_all = ["tls_private_key_file", "client_ca_file"], value_name = "FILE")]
    tls_cert_file: Option<PathBuf>,
    /// Its key.
    #[arg(long, requires = "tls_cert_file", value_name = "FILE")]
    tls_private_key_file: Option<PathBuf>,
    /// The authority of those who may ask the serving API.
    #[arg(long, requires = "tls_cert_file", value_name = "FILE")]
    client_ca_file: Option<PathBuf>,
}

/// Options that the datapath alone does not need.
#[derive(Args)]
#[group(id = "whole")]
#[command(next_help_heading = "Options of the whole agent")]
struct NodeOptions {
    /// The node's address, and for a second IP version one more; the address by which the default
    /// route leaves unless given.
    #[arg(long, value_delimiter = ',', value_name = "ADDRESS")]
    node_ip: Vec<IpAddr>,
    /// Component that initializes the node and maintains its addresses: `external` for a
    /// cloud controller manager, until which the node has the taint
    /// node.cloudprovider.kubernetes.io/uninitialized.
    #[arg(long, value_name = "PROVIDER", value_parser = ["", "external"])]
    cloud_provider: Option<String>,
    /// A label for the node. May be repeated.
    #[arg(long, value_parser = label, value_delimiter = ',', value_name = "KEY=VALUE")]
    node_labels: Vec<(String, String)>,
    /// The container runtime's socket; the kubelet's configuration may name it, else it is
    /// unix:///run/containerd/containerd.sock.
    #[arg(long, value_name = "SOCKET")]
    container_runtime_endpoint: Option<String>,
    /// Directory of pods' volumes.
    #[arg(long, default_value = "/var/lib/kubelet", value_name = "FOLDER")]
    root_dir: PathBuf,
    /// Directory of pods' logs; defaults to that of the kubelet's configuration, else
    /// /var/log/pods.
    #[arg(long, value_name = "FOLDER")]
    pod_logs_dir: Option<PathBuf>,
    /// The cluster DNS service's address, which the agent answers itself; the kubelet's
    /// configuration may name it, else it is 10.96.0.10.
    #[arg(long, value_delimiter = ',', value_name = "ADDRESS")]
    cluster_dns: Vec<IpAddr>,
    /// The cluster's domain; the kubelet's configuration may name it, else it is cluster.local.
    #[arg(long, value_name = "NAME")]
    cluster_domain: Option<String>,
    /// Names the resolvers for other domains; the kubelet's configuration may name it, else it is
    /// /etc/resolv.conf.
    #[arg(long, value_name = "FILE")]
    resolv_conf: Option<PathBuf>,
    /// Most pods on this node; the kubelet's configuration may say it, else it is 110.
    #[arg(long, value_name = "NUMBER")]
    max_pods: Option<u32>,
    /// Configuration of the kubelet (`KubeletConfiguration` of
    /// `kubelet.config.k8s.io/v1beta1`); settings that this agent does not support are
    /// logged at the start. Options take precedence.
    #[arg(long, value_name = "FILE")]
    kubelet_config: Option<PathBuf>,
    /// A `CredentialProviderConfig`, or a folder of such files; `credentialprovider/config.yaml` in
    /// the agent's folder unless given.
    #[arg(
        long,
        value_name = "PATH",
        requires = "image_credential_provider_bin_dir"
    )]
    image_credential_provider_config: Option<PathBuf>,
    /// Directory of the programs that it names.
    #[arg(
        long,
        value_name = "FOLDER",
        requires = "image_credential_provider_config"
    )]
    image_credential_provider_bin_dir: Option<PathBuf>,
    /// Whether pods of other nodes are reached through a VXLAN.
    #[arg(long, value_enum, default_value_t = OverlayMode::Auto)]
    overlay: OverlayMode,
    /// Ranges in which pools of addresses (annotation orlop.dev/ip-pools of Nodes) lie: pools of
    /// other nodes beyond them get no route.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "RANGE",
        default_value = "10.0.0.0/8,100.64.0.0/10,172.16.0.0/12,192.168.0.0/16,fc00::/7"
    )]
    ip_pool_ranges: Vec<IpNet>,
    /// Whether pods leave the cluster as their node.
    #[arg(long, value_enum, default_value_t = MasqueradeMode::Auto)]
    masquerade: MasqueradeMode,
    /// Destinations to which pods keep their own address, in the format of
    /// ip-masq-agent's configuration; reloaded when it changes.
    #[arg(long, default_value = "/etc/config/ip-masq-agent", value_name = "FILE")]
    masquerade_config: PathBuf,
    /// Whether network policy is enforced on this node's pods.
    #[arg(long, value_enum, default_value_t = PolicyMode::Enforce)]
    network_policy: PolicyMode,
    /// How many of the last flows are kept for `orlop flows`; 0 records none.
    #[arg(long, default_value_t = flows::FlowOptions::default().kept, value_name = "NUMBER")]
    flows_kept: usize,
    /// Sampling of allowed connections: one in this many is recorded; 0 for none. Drops
    /// are always recorded.
    #[arg(long, default_value_t = flows::FlowOptions::default().sample, value_name = "NUMBER")]
    flows_sample: u32,
    /// With --without-pods: the port at which `orlop flows` and `orlop why` ask this agent,
    /// since the kubelet has its own; 0: they cannot.
    #[arg(long, default_value_t = flows_port::PORT, value_name = "PORT")]
    flows_port: u16,
    /// Volumes of this machine's own disks: `auto` chooses the best backend that the machine has,
    /// `off` leaves them out, and a path is a VolumeConfiguration.
    #[arg(long, default_value = "auto", value_name = "auto|off|FILE")]
    local_volumes: LocalVolumes,
    /// The CNI plugin to install; `orlop-cni` beside this program unless given.
    #[arg(long, value_name = "FILE")]
    cni_plugin: Option<PathBuf>,
    /// Directory in which the container runtime looks for CNI plugins; the runtime is asked
    /// for it unless given, and /opt/cni/bin if it names none.
    #[arg(long, value_name = "FOLDER")]
    cni_bin_dir: Option<PathBuf>,
    /// Directory in which the container runtime looks for CNI configurations; the runtime is
    /// asked for it unless given, and /etc/cni/net.d if it names none.
    #[arg(long, value_name = "FOLDER")]
    cni_conf_dir: Option<PathBuf>,
}

/// Runs until a signal. Datapath and pods keep working afterwards.
///
/// # Errors
/// An unusable kubeconfig, or missing requirements of the machine.
pub async fn run(options: Options) -> Result<(), Error> {
    match options.verb {
        Some(Verb::CleanupKubeProxy { dry_run }) => return cleanup(dry_run),
        Some(Verb::Install(options)) => return super::install::run(&options).await,
        Some(Verb::Uninstall(options)) => return super::uninstall::run(&options),
        None => {}
    }
    let settings = options.node.services.settings()?;
    let given = settings.as_ref().and_then(|it| it.kubeconfig.clone());
    let kubeconfig = kubeconfig::single(options.kubeconfig.or(given))?;
    memory::thrifty();
    let client = Client::from_kubeconfig(&kubeconfig)
        .await
        .map_err(Error::Client)?;
    servers::follow(&client);
    let shutdown = run::shutdown_on_signals()?;
    let done = if options.datapath_only {
        let datapath = options.node.datapath()?;
        let removal = options.drain.into_uninstall(
            datapath.pin_dir.clone(),
            options.node.services.client_ports(),
        );
        let done = node_agent::run_datapath(client.named("kube-proxy"), datapath, shutdown).await;
        if options.on_exit == Some(OnExit::Uninstall) && done.is_ok() {
            blocking(move || remove(&removal)).await?;
        }
        done
    } else if options.without_pods {
        let options = node_agent::AgentOptions {
            runs_pods: false,
            cluster_dns: Vec::new(),
            ..options.node.complete(None)?
        };
        node_agent::run(client, options, shutdown).await
    } else {
        let (serving, volumes) = (options.serving, options.node.local_volumes()?);
        let options = options
            .node
            .complete_with(|files| serving.complete(files))?;
        let options = with_policy_account(options, kubeconfig);
        let options = node_agent::AgentOptions { volumes, ..options };
        node_agent::run(client, options, shutdown).await
    };
    done.map_err(Error::NodeAgent)
}

/// Runs what takes a while on a thread that may wait.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|panic| Err(Error::Start(panic.into())))
}

/// Lets the agent read pods through the designated service account if the API server of
/// the kubeconfig has no PodEndpoints.
pub(super) fn with_policy_account(
    options: node_agent::AgentOptions,
    kubeconfig: PathBuf,
) -> node_agent::AgentOptions {
    node_agent::AgentOptions {
        policy_kubeconfig: Some(kubeconfig),
        ..options
    }
}

/// Says what kube-proxy left, and removes it.
fn cleanup(dry_run: bool) -> Result<(), Error> {
    let failed = |error: node_agent::cleanup::Error| {
        let mut text = error.to_string();
        if let Some(cause) = std::error::Error::source(&error) {
            text.push_str(&format!(": {cause}"));
        }
        Error::Option(text)
    };
    let items = node_agent::cleanup::find().map_err(failed)?;
    if items.is_empty() {
        println!("kube-proxy left nothing here");
        return Ok(());
    }
    for item in &items {
        println!("{}{item}", if dry_run { "" } else { "removing " });
    }
    if dry_run {
        return Ok(());
    }
    node_agent::cleanup::remove(&items).map_err(failed)
}

impl Node {
    /// The Node object's name.
    ///
    /// # Errors
    /// [`Error::Start`] when the host's name cannot be read.
    pub fn name(&self) -> Result<String, Error> {
        match &self.node_name {
            Some(name) => Ok(name.clone()),
            None => match self.services.settings()?.and_then(|it| it.node_name) {
                Some(name) => Ok(name),
                None => host_name(),
            },
        }
    }

    /// The node's addresses: those given, or that of the default route.
    ///
    /// # Errors
    /// [`Error::NoAddress`] when there is neither.
    pub fn addresses(&self) -> Result<Vec<IpAddr>, Error> {
        if !self.whole.node_ip.is_empty() {
            return Ok(self.whole.node_ip.clone());
        }
        let any = IpAddr::from([0, 0, 0, 0]);
        match address::of_default_route(any) {
            Ok(address) => Ok(vec![address]),
            Err(source) => Err(Error::NoAddress {
                option: "--node-ip",
                source,
            }),
        }
    }

    /// Returns the classes of the machine's volumes, and says which backend was chosen.
    ///
    /// # Errors
    /// When the file that the option names cannot be used.
    pub fn local_volumes(&self) -> Result<Option<volumes::Config>, Error> {
        self.whole.local_volumes.config()
    }

    /// Whether the machine is to have local volumes.
    pub fn has_local_volumes(&self) -> bool {
        self.whole.local_volumes != LocalVolumes::Off
    }

    /// The ranges of the cluster's pods, for the server in the same process: at most one of
    /// each IP version. One option serves both.
    pub fn cluster_cidr(&self) -> Vec<IpNet> {
        match self.services.cluster_cidr() {
            [] => vec![CLUSTER_CIDR.into()],
            given => given.to_vec(),
        }
    }

    fn datapath(&self) -> Result<node_agent::DatapathSettings, Error> {
        Ok(node_agent::DatapathSettings {
            node_name: self.name()?,
            cgroup: self.cgroup.clone(),
            pin_dir: self.pin_dir.clone(),
            services: self.services.complete(self.services.settings()?.as_ref())?,
        })
    }

    /// Returns the complete settings of the agent, with this serving certificate,
    /// whatever the kubelet's configuration says about one.
    ///
    /// # Errors
    /// [`Error::Start`] if the name of the host or of this program cannot be read, and
    /// errors in files that options name.
    pub fn complete(
        &self,
        serving: Option<ServingCertificates>,
    ) -> Result<node_agent::AgentOptions, Error> {
        let mut options = self.complete_with(|_| serving)?;
        let settings = &mut options.settings;
        let idle = settings.places.serving.fields().map(str::to_owned);
        settings.unsupported.extend(idle);
        Ok(options)
    }

    /// The same, where the configuration's serving files are of use.
    fn complete_with(
        &self,
        serving: impl FnOnce(&ServingPlaces) -> Option<ServingCertificates>,
    ) -> Result<node_agent::AgentOptions, Error> {
        let settings = self.whole.settings()?;
        let mut datapath = self.datapath()?;
        if let (None, Some(root)) = (&datapath.cgroup, &settings.places.cgroup_root) {
            let folder = node_agent::cgroup_folder(root).map_err(Error::NodeAgent)?;
            datapath.cgroup = Some(folder);
        }
        let serving = serving(&settings.places.serving);
        self.whole.complete(datapath, settings, serving)
    }
}

impl ServingFiles {
    fn complete(self, files: &ServingPlaces) -> Option<ServingCertificates> {
        let serving = self
            .tls_cert_file
            .or_else(|| files.certificate.clone())
            .zip(self.tls_private_key_file.or_else(|| files.key.clone()))
            .zip(self.client_ca_file.or_else(|| files.client_ca.clone()))
            .map(|((certificate, key), client_ca)| ServingCertificates {
                certificate,
                key,
                client_ca,
                awaited: false,
            });
        if serving.is_none() {
            tracing::warn!("no --tls-cert-file: logs, exec and port-forward will not work");
        }
        serving
    }
}

impl NodeOptions {
    fn settings(&self) -> Result<node_agent::Settings, Error> {
        let Some(path) = &self.kubelet_config else {
            return Ok(node_agent::Settings::default());
        };
        let text = std::fs::read_to_string(path).map_err(|source| Error::File {
            path: path.clone(),
            source,
        })?;
        node_agent::Settings::parse(&text).map_err(|source| Error::KubeletConfiguration {
            path: path.clone(),
            source,
        })
    }

    fn complete(
        &self,
        datapath: node_agent::DatapathSettings,
        settings: node_agent::Settings,
        serving: Option<ServingCertificates>,
    ) -> Result<node_agent::AgentOptions, Error> {
        let places = &settings.places;
        let mut cluster_dns = self.cluster_dns.clone();
        if cluster_dns.is_empty() {
            cluster_dns.clone_from(&places.cluster_dns);
        }
        if cluster_dns.is_empty() {
            cluster_dns.push(CLUSTER_DNS);
        }
        let source = match &self.cni_plugin {
            Some(path) => path.clone(),
            None => beside_this_program("orlop-cni")?,
        };
        Ok(node_agent::AgentOptions {
            datapath,
            runs_pods: true,
            node_ips: self.node_ip.clone(),
            external_cloud: (self.cloud_provider.as_deref() == Some("external"))
                .then(|| self.node_ip.clone()),
            labels: self.node_labels.clone(),
            runtime_endpoint: first(
                [&self.container_runtime_endpoint, &places.runtime_endpoint],
                "unix:///run/containerd/containerd.sock",
            ),
            serving,
            root: self.root_dir.clone(),
            log_root: first([&self.pod_logs_dir, &places.log_root], "/var/log/pods"),
            cluster_dns,
            cluster_domain: first(
                [&self.cluster_domain, &places.cluster_domain],
                "cluster.local",
            ),
            resolv_conf: first([&self.resolv_conf, &places.resolv_conf], "/etc/resolv.conf"),
            most_pods: self.max_pods.or(settings.max_pods).unwrap_or(MAX_PODS),
            settings,
            providers: self
                .image_credential_provider_config
                .clone()
                .zip(self.image_credential_provider_bin_dir.clone())
                .map(|(config, bin)| node_agent::ProviderFiles { config, bin }),
            overlay: match self.overlay {
                OverlayMode::Auto => Overlay::Auto,
                OverlayMode::Vxlan => Overlay::Always,
                OverlayMode::None => Overlay::Never,
            },
            pool_ranges: self.ip_pool_ranges.clone(),
            masquerade: match self.masquerade {
                MasqueradeMode::Auto => Some(self.masquerade_config.clone()),
                MasqueradeMode::None => None,
            },
            policy_kubeconfig: None,
            volumes: None,
            network_policy: match self.network_policy {
                PolicyMode::Enforce => NetworkPolicy::Enforce,
                PolicyMode::KeepEstablished => NetworkPolicy::KeepEstablished,
                PolicyMode::Off => NetworkPolicy::Off,
            },
            flows: flows::FlowOptions {
                kept: self.flows_kept,
                sample: self.flows_sample,
                port: (self.flows_port != 0).then_some(self.flows_port),
            },
            cni: CniOptions {
                source,
                bin_dir: self.cni_bin_dir.clone(),
                conf_dir: self.cni_conf_dir.clone(),
            },
        })
    }
}

/// Returns the first given value, or else the default.
fn first<T: Clone + From<&'static str>>(said: [&Option<T>; 2], default: &'static str) -> T {
    let first = said.into_iter().flatten().next();
    first.cloned().unwrap_or_else(|| default.into())
}

/// The local volumes of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LocalVolumes {
    Auto,
    Off,
    File(PathBuf),
}

impl std::str::FromStr for LocalVolumes {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        match text {
            "auto" => Ok(Self::Auto),
            "off" => Ok(Self::Off),
            path if path.contains('/') => Ok(Self::File(path.into())),
            other => {
                let way_out = format!("write auto, off, or ./{other}");
                Err(InvalidValue::new(other, "path", way_out))
            }
        }
    }
}

impl LocalVolumes {
    /// Returns the classes of volumes, and says which backend was chosen and why.
    fn config(&self) -> Result<Option<volumes::Config>, Error> {
        match self {
            Self::Off => Ok(None),
            Self::File(path) => {
                let config = volumes::Config::load(path).map_err(Error::VolumeConfiguration)?;
                Ok(Some(config))
            }
            Self::Auto => match volumes::choose() {
                Ok(choice) => {
                    let backend = choice.config.classes.first().map(|it| it.backend.name());
                    let reason = choice.reason;
                    tracing::info!(backend, reason, "local volumes: backend chosen");
                    Ok(Some(choice.config))
                }
                Err(error) => {
                    tracing::warn!(%error, "no local volumes on this machine");
                    Ok(None)
                }
            },
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum OverlayMode {
    /// For nodes that are not on a link of this one's.
    Auto,
    /// For all other nodes.
    Vxlan,
    /// For none: routers between nodes know the pods' ranges.
    None,
}

#[derive(Clone, Copy, ValueEnum)]
enum MasqueradeMode {
    /// To destinations that have no route back to pods.
    Auto,
    /// Nowhere: others do it, or pods' addresses are routed.
    None,
}

#[derive(Clone, Copy, ValueEnum)]
enum PolicyMode {
    /// Yes: a policy that forbids a connection ends it.
    Enforce,
    /// Only new connections; existing ones continue.
    KeepEstablished,
    /// No: other pods and machines reach all pods.
    Off,
}

/// As the kubelet names its node: the host's name in lower case.
pub(super) fn host_name() -> Result<String, Error> {
    let name = nix::unistd::gethostname().map_err(|errno| Error::Start(errno.into()))?;
    Ok(name.to_string_lossy().trim().to_lowercase())
}

fn beside_this_program(name: &str) -> Result<PathBuf, Error> {
    let this = std::env::current_exe().map_err(Error::Start)?;
    Ok(this.parent().unwrap_or(Path::new("/")).join(name))
}

fn label(text: &str) -> Result<(String, String), InvalidValue> {
    text.split_once('=')
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .ok_or_else(|| InvalidValue::new(text, "label", "write KEY=VALUE"))
}

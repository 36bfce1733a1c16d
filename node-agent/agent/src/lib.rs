//! Wiring of the node agent: what a node does for the cluster, in one process.
//!
//! ```text
//! API ──Services, EndpointSlices──▶ services ──▶ plan ──▶ eBPF maps
//!     ──Services, EndpointSlices──▶ dns      ──▶ answers on the cluster DNS address
//!     ──Services, pools, peers────▶ announce ──▶ ARP, NDP, BGP
//!     ──policies, Pods, …─────────▶ policy   ──▶ eBPF maps
//!                     eBPF programs ──▶ flows ──▶ who asks why
//!     ──Nodes─────────────────────▶ network  ──▶ routes, sysctl, CNI configuration
//!     ──Nodes─────────────────────▶ addresses ─▶ answers to the CNI plugin
//!     ──Pods──────────────────────▶ pods     ──▶ container runtime, status
//!     ──claims, volumes───────────▶ volumes  ──▶ local volumes
//! ```
//!
//! Each part subscribes to the kinds that it needs ([`Informers`]) and knows nothing of the
//! others. Only three things tie them together: the datapath sends the cluster DNS address to the
//! DNS part, the network part writes the configuration for which the runtime
//! (and so the Node's `Ready`) waits, and the end of one part ends all.
//!
//! The maps of the kernel, the routes and the containers stay when the agent
//! ends: nothing that works stops working meanwhile, and the next start adopts
//! them.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
};

use node_agent_announce as announce;
use node_agent_informers::{Informers, Node, NodeScope};
use node_agent_objects::error_chain;

use control_client::{Cache, Client, Reflector};
use control_supervise::task;
use ipnet::IpNet;
pub use policy_source::POD_ENDPOINTS;
use policy_source::PolicySource;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

mod addresses;
pub mod cleanup;
pub mod cni;
mod dns;
mod endpoints;
mod error;
pub mod flows;
mod host_changes;
pub mod kube_proxy_takeover;
mod lines;
pub mod machine;
mod masquerade;
mod network;
mod options;
mod overlay;
mod parts;
mod policy;
mod policy_source;
mod pools;
mod preflight;
mod reset;
#[cfg(test)]
mod rights;
mod routes;
mod services;
mod serving;
mod sysctl;
mod systemd;
mod uninstall;
pub mod volumes;

use node_agent_datapath::RecordingOptions;
use node_agent_kubelet_server::extra_endpoints::{ExtraEndpoints, FurtherMetrics};
use node_agent_pods::{GrownClaims, SyncLoopHealth};

pub use endpoints::port as flows_port;
pub use error::Error;
pub use node_agent_datapath::{
    Connection, DEVICES, Flows, GUARDED_DEVICES, Globs, InstalledPins, NotAPattern, POD_DEVICES,
    Patterns, Question, Trace, TraceFrom, XdpMode, trace,
};
pub use node_agent_kubelet_config::{Error as SettingsError, ServingPlaces, Settings};
pub use node_agent_plan::{ObjectReport, Report, ReportSelection};
pub use node_agent_pods::ProviderFiles;
pub use node_agent_volumes::{DRIVER as VOLUME_DRIVER, SNAPSHOT_KINDS};
pub use options::{AgentOptions, NetworkPolicy};
pub use overlay::Overlay;
use parts::AgentParts;
pub use policy::explain;
pub use preflight::cgroup_folder;
pub use reset::{ForeignPods, reset};
pub use services::{
    kube_proxy::{
        KubeProxyConfigError, KubeProxySettings as ProxySettings, parse as kube_proxy_settings,
    },
    options::{DatapathSettings, HEALTHZ, METRICS, ServiceOptions},
};
pub use serving::ServingCertificates;
pub use uninstall::{Uninstall, UninstallReport, installed_datapath, uninstall_datapath};

/// Where eBPF programs and maps are pinned unless told otherwise.
pub const PINS: &str = "/sys/fs/bpf/orlop";

/// Checks what [`run`] needs of this machine, and changes nothing: the right to
/// do it, the kernel, control groups, the CNI plugin, the serving API's port, the
/// container runtime.
///
/// # Errors
/// The first thing that is not as it must be, and the way out.
pub async fn check(options: &AgentOptions, shutdown: &CancellationToken) -> Result<(), Error> {
    preflight::kernel()?;
    preflight::AgentCgroup::open(options.datapath.cgroup.as_deref())?;
    preflight::plugin(&options.cni.source)?;
    let address = match options.node_ips.first() {
        Some(address) => *address,
        None => routes::netlink::default_address()?,
    };
    if options.runs_pods {
        preflight::port(serving::address(address)).await?;
    }
    preflight::runtime(&options.runtime_endpoint, shutdown).await
}

/// Does all that a node has to do until `shutdown`. What is pinned, routed and
/// run goes on afterwards, and the next start adopts it.
///
/// # Errors
/// When something that the node needs is not there or cannot be brought into
/// force, or a part ends; then all parts end.
pub async fn run(
    client: Client,
    options: AgentOptions,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    preflight::kernel()?;
    let systemd = systemd::SystemdNotice::of_this_process().map_err(Error::Systemd)?;
    let group = preflight::AgentCgroup::open(options.datapath.cgroup.as_deref())?;
    preflight::plugin(&options.cni.source)?;
    let node_ips = if options.node_ips.is_empty() {
        vec![routes::netlink::default_address()?]
    } else {
        options.node_ips.clone()
    };
    let primary = *node_ips.first().ok_or(Error::NoDefaultRoute)?;
    let serving = options.serving.as_ref().map(serving::tls).transpose()?;
    let listen = serving::address(primary);
    if options.runs_pods {
        preflight::port(listen).await?;
    }
    preflight::runtime(&options.runtime_endpoint, &shutdown).await?;
    let node = options.datapath.node_name.clone();
    info!(node, address = %primary, "starting");

    let mut parts = AgentParts::new(shutdown);
    let informers = Informers::new(client.clone(), &node, NodeScope::All);
    let nodes = informers.subscribe::<Node>();
    let others = services::OtherMetrics::default();
    let (wishes, wished) = policy::wishes();
    let gate = policy::gate();
    let enforced = options.network_policy != NetworkPolicy::Off;
    let interfaces = addresses::AttachContext {
        gate: enforced.then(|| gate.0.clone()),
        wishes: wishes.asks.clone(),
    };
    let (admitted, pod_ranges) = watch::channel(Vec::new());
    let port = options.flows.port.filter(|_| !options.runs_pods);

    start_services(
        &mut parts,
        &client,
        &informers,
        &options,
        group.folder,
        &others,
        wished,
    );
    start_announcer(&mut parts, &client, &informers, &node, others.announced);
    let (asks, asked) = policy::query_channel();
    if enforced {
        let context = policy::PolicyContext {
            nodes: nodes.clone(),
            slices: informers.subscribe(),
            asked,
            gate,
            wishes,
            pod_ranges,
            metrics: others.policy,
        };
        start_policy(&mut parts, &client, &options, port, context);
    } else {
        let cleared = policy::clear(options.datapath.pin_dir.clone(), parts.stop());
        parts.start("network-policy-removal", cleared);
    }
    let asks = enforced.then_some(asks);
    let further = start_flows(&mut parts, &options, others.flows, asks);
    start_flow_port(
        &mut parts,
        &client,
        nodes.cache(),
        &node,
        port,
        listen,
        &further,
    );
    if !options.cluster_dns.is_empty() {
        start_dns(&mut parts, &informers, &options, &node_ips);
    }
    if let Some((files, tls)) = options.serving.clone().zip(serving.clone()) {
        parts.start(
            "serving-certificate",
            serving::follow(files, tls, parts.stop()),
        );
    }
    start_network(
        &mut parts, &client, &nodes, &options, primary, admitted, interfaces,
    );
    let grown = GrownClaims::default();
    let config = options.volumes.clone().filter(|_| options.runs_pods);
    let further_metrics = config
        .map(|config| start_volumes(&mut parts, &client, &informers, &options, config, &grown));
    let pulse = Arc::new(SyncLoopHealth::default());
    let seen = options.runs_pods.then(|| pulse.clone());
    parts.start("systemd-watchdog", systemd.keep(seen, parts.stop()));
    if options.runs_pods {
        let pods = node_agent_pods::AgentOptions {
            client: client.named("kubelet"),
            informers,
            node_name: node,
            node_ips,
            external_cloud: options.external_cloud,
            labels: options.labels,
            runtime_endpoint: options.runtime_endpoint,
            root: options.root,
            log_root: options.log_root,
            cluster_dns: options.cluster_dns,
            cluster_domain: options.cluster_domain,
            resolv_conf: options.resolv_conf,
            cgroup: group.below_root,
            most_pods: options.most_pods,
            settings: options.settings,
            providers: options.providers,
            listen,
            serving,
            further: Some(further),
            further_metrics,
            grown,
            pulse,
        };
        let stop = parts.stop();
        parts.start("pods", async move {
            node_agent_pods::run(pods, stop).await.map_err(Error::Pods)
        });
    }
    parts.join().await
}

/// Starts what writes Services to the maps, and owns these.
fn start_services(
    parts: &mut AgentParts,
    client: &Client,
    informers: &Informers,
    options: &AgentOptions,
    cgroup: PathBuf,
    others: &services::OtherMetrics,
    wished: policy::DatapathRequestReceiver,
) {
    let services = options.datapath.services.clone();
    let guarded = match options.network_policy {
        NetworkPolicy::Off => Globs::default(),
        _ => Globs::new(GUARDED_DEVICES).unwrap_or_default(),
    };
    let datapath = DatapathSettings {
        cgroup: Some(cgroup),
        services: ServiceOptions {
            host_ports: true,
            keep_established: options.network_policy == NetworkPolicy::KeepEstablished,
            recording: RecordingOptions {
                verdicts: options.flows.kept > 0,
                sample: options.flows.sample,
            },
            patterns: Patterns {
                guarded,
                ..services.patterns.clone()
            },
            ..services
        },
        ..options.datapath.clone()
    };
    let (client, informers) = (client.clone().named("kube-proxy"), informers.clone());
    let (dns, others, stop) = (options.cluster_dns.clone(), others.clone(), parts.stop());
    parts.start("services", async move {
        services::run(client, informers, datapath, dns, &others, wished, stop).await
    });
}

/// Starts what announces the addresses of load balancers.
fn start_announcer(
    parts: &mut AgentParts,
    client: &Client,
    informers: &Informers,
    node: &str,
    metrics: announce::metrics::Metrics,
) {
    let announcing = announce::run(
        client.clone().named("orlop-announcer"),
        informers.clone(),
        node.to_owned(),
        metrics,
        parts.stop(),
    );
    parts.start("announcer", async move {
        announcing.await;
        Ok(())
    });
}

/// Starts what writes network policy to the maps, on a thread of its own: to compile much
/// may take a while, and what else this process does goes on. Others ask this agent at
/// `port`, where that is not the kubelet's.
fn start_policy(
    parts: &mut AgentParts,
    client: &Client,
    options: &AgentOptions,
    port: Option<u16>,
    context: policy::PolicyContext,
) {
    let (client, kubeconfig) = (client.clone(), options.policy_kubeconfig.clone());
    let stop = parts.stop();
    let options = policy::PolicyOptions {
        node: options.datapath.node_name.clone(),
        pin_dir: options.datapath.pin_dir.clone(),
        dns: options.cluster_dns.clone(),
        tunnel: (options.overlay != Overlay::Never).then_some(overlay::PORT),
        asked_at: port,
    };
    parts.start_on_thread("network-policy", async move {
        let own = client.named("orlop-policy");
        let kubeconfig = kubeconfig.as_deref();
        let source = PolicySource::choose(own.clone(), &options.node, kubeconfig, &stop);
        let Some(source) = source.await? else {
            return Ok(());
        };
        let clients = policy::PolicyClients {
            objects: source.client.clone().named("orlop-policy"),
            pods: source.pods.clone(),
            node: own,
        };
        tokio::select! {
            ended = policy::run(clients, options, context, stop) => ended,
            () = source.superseded() => Err(Error::PolicySource),
        }
    });
}

/// Starts what reads flows from the maps, if any are recorded; returns what answers
/// questions about them.
fn start_flows(
    parts: &mut AgentParts,
    options: &AgentOptions,
    metrics: flows::FlowMetrics,
    policy: Option<mpsc::Sender<policy::PolicyQuery>>,
) -> ExtraEndpoints {
    let store = Arc::new(flows::FlowStore::new(options.flows.kept));
    let node = &options.datapath.node_name;
    if options.flows.kept > 0 {
        let reader = flows::FlowReader {
            node: node.clone(),
            pin_dir: options.datapath.pin_dir.clone(),
            store: Arc::clone(&store),
            metrics: metrics.clone(),
            policy: policy.clone(),
        };
        parts.start("flow-reader", reader.run(parts.stop()));
    }
    let server = flows::FlowServer {
        node: node.clone(),
        store,
        metrics,
        shutdown: parts.stop(),
    };
    endpoints::answers(server, policy)
}

/// Starts what says on the Node where this agent is asked, and answers there where that is
/// not the kubelet's port.
fn start_flow_port(
    parts: &mut AgentParts,
    client: &Client,
    nodes: Cache<Node>,
    node: &str,
    port: Option<u16>,
    listen: SocketAddr,
    further: &ExtraEndpoints,
) {
    let client = client.clone().named("orlop-flows");
    let (name, stop) = (node.to_owned(), parts.stop());
    let published = flows_port::publish_address(client.clone(), nodes, name, port, stop);
    parts.start("flow-port-annotation", published);
    if let Some(port) = port {
        let address = SocketAddr::new(listen.ip(), port);
        let (name, stop) = (node.to_owned(), parts.stop());
        let served = flows_port::serve(client, name, address, further.clone(), stop);
        parts.start("flow-port", served);
    }
}

/// Starts cluster DNS.
fn start_dns(
    parts: &mut AgentParts,
    informers: &Informers,
    options: &AgentOptions,
    node_ips: &[IpAddr],
) {
    let options = dns::DnsOptions {
        services: informers.subscribe().cache(),
        slices: informers.subscribe().cache(),
        addresses: options.cluster_dns.clone(),
        domain: options.cluster_domain.clone(),
        resolv_conf: options.resolv_conf.clone(),
        own: node_ips.to_vec(),
    };
    parts.start("dns", dns::run(options, parts.stop()));
}

/// Starts what gives pods addresses and interfaces, and keeps routes to those of other
/// nodes.
fn start_network(
    parts: &mut AgentParts,
    client: &Client,
    nodes: &Reflector<Node>,
    options: &AgentOptions,
    address: IpAddr,
    admitted: watch::Sender<Vec<IpNet>>,
    interfaces: addresses::AttachContext,
) {
    let client = client.clone().named("network");
    let pin_dir = &options.datapath.pin_dir;
    let enforced = options.network_policy != NetworkPolicy::Off;
    let network = network::NetworkSync {
        node: options.datapath.node_name.clone(),
        address,
        cni: options.cni.clone(),
        runtime: node_agent_cri::RuntimeClient::new(&options.runtime_endpoint),
        agent: enforced.then(|| policy::socket(pin_dir)),
        addresses: addresses::socket(pin_dir),
        overlay: options.overlay,
        masquerade: options.masquerade.clone(),
        pool_ranges: options.pool_ranges.clone(),
        admitted,
        pin_dir: pin_dir.clone(),
        nodes: nodes.cache(),
        client: client.clone(),
    };
    let options = addresses::AddressOptions {
        node: options.datapath.node_name.clone(),
        pin_dir: pin_dir.clone(),
        data_dir: addresses::DATA_DIR.into(),
        runtime_endpoint: options.runtime_endpoint.clone(),
        nodes: nodes.cache(),
    };
    let given = addresses::run(client, options, interfaces, parts.stop());
    parts.start("pod-addresses", given);
    parts.start("pod-network", network.run(nodes.changes(), parts.stop()));
}

/// Starts the node's own volume driver; returns its metrics.
fn start_volumes(
    parts: &mut AgentParts,
    client: &Client,
    informers: &Informers,
    options: &AgentOptions,
    config: volumes::Config,
    grown: &GrownClaims,
) -> FurtherMetrics {
    let counts = volumes::Metrics::default();
    let options = volumes::VolumeOptions {
        counts: counts.clone(),
        node: options.datapath.node_name.clone(),
        root: options.root.clone(),
        config,
        grown: grown.clone(),
    };
    let volumes = volumes::run(client.clone(), informers.clone(), options, parts.stop());
    parts.start("local-volumes", volumes);
    FurtherMetrics::new(move || volumes::families(&counts))
}

/// Keeps services working on this node until `shutdown`, beside another
/// kubelet. What is pinned goes on working afterwards.
///
/// # Errors
/// [`Error::Datapath`] when the programs cannot be brought into force.
pub async fn run_datapath(
    client: Client,
    options: DatapathSettings,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    preflight::kernel()?;
    let systemd = systemd::SystemdNotice::of_this_process().map_err(Error::Systemd)?;
    let ranges = &options.services.cluster_cidrs;
    for it in preflight::obstacles(ranges.iter().any(|it| it.addr().is_ipv6())) {
        warn!(setting = it.setting, value = it.value, "{}", it.consequence);
    }
    let group = preflight::AgentCgroup::open(options.cgroup.as_deref())?;
    let options = DatapathSettings {
        cgroup: Some(group.folder),
        ..options
    };
    let stop = shutdown.child_token();
    let watchdog = task("systemd-watchdog").owned(systemd.keep(None, stop.clone()));
    tokio::spawn(watchdog);
    let others = services::OtherMetrics::default();
    let informers = Informers::new(client.clone(), &options.node_name, NodeScope::Own);
    let announcing = tokio::spawn(task("announcer").owned(announce::run(
        client.clone().named("orlop-announcer"),
        informers.clone(),
        options.node_name.clone(),
        others.announced.clone(),
        stop.clone(),
    )));
    let replacement = kube_proxy_takeover::Replacement {
        client: client.clone(),
        node_name: options.node_name.clone(),
        pin_dir: options.pin_dir.clone(),
        nodes: informers.own_node().cache(),
        metrics: kube_proxy_metrics(&options.services),
        lends_metrics_port: others.lends_metrics_port.clone(),
        programmed: Arc::clone(&others.programmed),
    };
    let result = loop {
        let turn = shutdown.child_token();
        let served =
            serve_in_turn(&client, &informers, &options, &others, &replacement, &turn).await;
        if served.is_err() || shutdown.is_cancelled() {
            break served;
        }
        match replacement.stand_aside(&shutdown).await {
            Ok(true) => {}
            Ok(false) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    stop.cancel();
    announcing.await.map_err(Error::Panic)?;
    result
}

/// Where kube-proxy serves `/proxyMode`: the agent has the same ports where it takes kube-proxy's place.
fn kube_proxy_metrics(options: &ServiceOptions) -> SocketAddr {
    let own = options.metrics.filter(|it| !it.ip().is_unspecified());
    own.unwrap_or_else(|| {
        let port = options.metrics.map_or(METRICS, |it| it.port());
        (Ipv4Addr::LOCALHOST, port).into()
    })
}

/// Serves Services until `turn` ends, or they are to be left to kube-proxy.
async fn serve_in_turn(
    client: &Client,
    informers: &Informers,
    options: &DatapathSettings,
    others: &services::OtherMetrics,
    replacement: &kube_proxy_takeover::Replacement,
    turn: &CancellationToken,
) -> Result<(), Error> {
    // No policy is enforced here.
    let (_, nobody) = policy::wishes();
    others.programmed.store(false, Ordering::Relaxed);
    let (replacement, until) = (replacement.clone(), turn.clone());
    let replacing = tokio::spawn(task("kube-proxy-replacement").owned(async move {
        replacement.serve(until.clone()).await;
        until.cancel();
    }));
    let (client, options, others) = (client.clone(), options.clone(), others.clone());
    let (informers, until) = (informers.clone(), turn.clone());
    // As a task of its own it runs where the changes that it waits for arrive;
    // in this one, each would have to wake another thread.
    let serving = tokio::spawn(task("services").owned(async move {
        services::run(
            client,
            informers,
            options,
            Vec::new(),
            &others,
            nobody,
            until,
        )
        .await
    }));
    let result = serving
        .await
        .unwrap_or_else(|panic| Err(Error::Panic(panic)));
    turn.cancel();
    replacing.await.map_err(Error::Panic)?;
    result
}

/// What is programmed on this node, and why something is not, as far as the agent
/// that works with the maps pinned at `pin_dir` can be asked; else what the maps
/// hold.
///
/// # Errors
/// [`Error::Datapath`] when there are no maps or they cannot be read.
pub async fn report(pin_dir: &Path, selected: &ReportSelection) -> Result<Report, Error> {
    let one = match selected {
        ReportSelection::Object(namespace, name) => Some((namespace.as_str(), name.as_str())),
        _ => None,
    };
    let accounts = services::local_api::accounts(pin_dir, one).await;
    let maps = node_agent_datapath::inspect(pin_dir)
        .map_err(Error::Datapath)?
        .maps;
    let (accounts, unknown) = match accounts {
        Ok(accounts) => (accounts, None),
        Err(error) => (Vec::new(), Some(error_chain(&error))),
    };
    Ok(Report::new(&maps, &accounts, unknown, selected))
}

/// What the maps pinned below `pin_dir` hold, in words.
///
/// # Errors
/// [`Error::Datapath`] when there are none or they cannot be read.
pub fn inspect(pin_dir: &Path) -> Result<String, Error> {
    node_agent_datapath::inspect(pin_dir)
        .map(|snapshot| snapshot.to_string())
        .map_err(Error::Datapath)
}

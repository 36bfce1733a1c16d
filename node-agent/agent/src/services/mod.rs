//! Services and EndpointSlices to the datapath.
//!
//! ```text
//! Services, EndpointSlices ─┐
//! own Node ─────────────────┼► one task ──► plan ──► maps
//! devices, addresses ───────┘      │
//!                                  ├──► programs at devices
//!                                  ├──► health, health checks, metrics
//!                                  └──► UDP sockets of backends that are gone
//! ```
//!
//! One task owns the maps. What takes long (looking for sockets) or waits for
//! others (HTTP) is done beside it.

mod capacity_condition;
mod created_devices;
mod events;
#[cfg(test)]
pub(crate) mod fake;
mod health;
mod host_ports;
mod http;
pub(crate) mod interfaces;
pub mod kube_proxy;
pub mod local_api;
mod metrics;
mod node;
pub mod options;
pub mod ports;
mod stale_sockets;
mod takeover;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use control_client::{Cache, Change, Changes, Client, Object, Reflector};
use ebpf_abi::Protocol;
use hyper::StatusCode;
use jiff::Timestamp;
use node_agent_datapath::{
    ApplyOutcome, Capacity, DeviceHook, Engine, Globs, Options as DatapathOptions, Patterns, TcWay,
    ensure_bpffs,
};
use node_agent_files::blocking;
use node_agent_informers::{EndpointSlice, Informers, Service};
use node_agent_objects::pod::Pod;
use node_agent_plan::{Config, NodePortAddresses, Override};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::{
    created_devices::{CreatedDevices, is_there},
    events::EventReporter,
    health::{DatapathHealth, HealthCheckServers, NodePortHealth, TO_BE_DELETED},
    http::{AwaitedPort, HttpAnswer},
    interfaces::InterfaceSnapshot,
    local_api::{LocalApi, PlanAccount, PlanQuery},
    metrics::{MetricsSnapshot, ServiceMetrics},
    stale_sockets::StaleSocketReaper,
};
use crate::{
    DatapathSettings, Error, dns,
    host_changes::HostChanges,
    policy::{DatapathRequest, DatapathRequestReceiver, GrowthOutcome},
};

pub use metrics::OtherMetrics;

/// How long after a failed write the maps are compared again.
const RETRY: Duration = Duration::from_secs(1);
/// How long lists are waited for before it is said, each time.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often devices that refused a program are tried again.
const DEVICES_AGAIN: Duration = Duration::from_secs(10);
/// How often it is tried again to tell what there is to tell.
const TELL_AGAIN: Duration = Duration::from_secs(1);

/// Follows the API and the node's devices until `shutdown`. The addresses
/// `dns` are answered by this node itself; what is counted in `others` is
/// shown beside what is counted here; what network policy asks for is `wished`.
/// `client` writes events and the Node's status.
///
/// # Errors
/// [`Error::Datapath`] when the programs cannot be brought into force,
/// [`Error::Listen`] when a port for health or metrics is taken.
pub async fn run(
    client: Client,
    informers: Informers,
    options: DatapathSettings,
    dns: Vec<IpAddr>,
    others: &OtherMetrics,
    wished: DatapathRequestReceiver,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    let node_ports = NodePortAddresses::parse(&options.services.node_port_addresses)
        .map_err(Error::NodePortAddresses)?;
    let (first, last) = options.services.client_ports;
    let changes = HostChanges::at(&options.pin_dir);
    changes.record(|_| {});
    let record = |added: &BTreeSet<u16>| changes.record(|it| it.reserved_ports.extend(added));
    if ports::reserve(first..=last, record)? {
        info!(first, last, "reserved ports for translated clients");
    }
    let health = Arc::new(DatapathHealth::default());
    let metrics = Arc::new(ServiceMetrics::new(others));
    let (asks, mut asked) = mpsc::channel(4);
    let metrics_port = others.lends_metrics_port.subscribe();
    serve(
        &options,
        &health,
        &metrics,
        metrics_port,
        asks.clone(),
        &shutdown,
    )
    .await?;
    // The API server is asked while the kernel verifies programs.
    let services = informers.subscribe::<Service>();
    let slices = informers.subscribe::<EndpointSlice>();
    let node = informers.own_node();
    let pods = options.services.host_ports;
    let pods = pods.then(|| informers.subscribe::<Pod>());
    let engine = {
        let options = options.clone();
        tokio::task::spawn_blocking(move || open(&options, &dns))
            .await
            .map_err(Error::Panic)??
    };
    serve_commands(
        &options.pin_dir,
        LocalApi {
            node: options.node_name.clone(),
            services: services.cache(),
            asks,
        },
        &shutdown,
    );
    let (mut service_changes, mut slice_changes, mut node_changes) =
        (services.changes(), slices.changes(), node.changes());
    let mut pod_changes = pods.as_ref().map(Reflector::changes);
    let (of, with, until) = (client.clone(), Arc::clone(&metrics), shutdown.clone());
    let (name, pin_dir) = (options.node_name.clone(), options.pin_dir.clone());
    control_supervise::task("table-room").spawn_restarting(move || {
        let (of, name, pin_dir) = (of.clone(), name.clone(), pin_dir.clone());
        capacity_condition::follow(of, name, pin_dir, Arc::clone(&with), until.clone())
    });
    let movers = StaleSocketReaper::start(&options.pin_dir, Arc::clone(&metrics))?;
    let told = EventReporter::new(&client, &options.node_name);
    let mut interfaces = interfaces::follow(shutdown.clone()).await?;
    let DatapathRequestReceiver {
        asked: mut wished,
        programs,
    } = wished;
    let nat_of = options.pin_dir.clone();
    let mut state = ServiceState {
        engine,
        options,
        health,
        metrics,
        interfaces: interfaces.borrow_and_update().clone(),
        made: CreatedDevices::default(),
        node: node::OwnNode::default(),
        checks: HealthCheckServers::default(),
        checked: None,
        node_ports,
        movers,
        told,
        services: services.cache(),
        programs,
        shutdown: shutdown.clone(),
        retry_devices: false,
        kernel_nat: takeover::KernelConnections::find(&nat_of),
        programmed: Arc::clone(&others.programmed),
    };
    state.keep_host_firewall();
    state.follow_devices();
    let listed = async {
        services.synced().await;
        slices.synced().await;
        node.synced().await;
        if let Some(pods) = &pods {
            pods.synced().await;
        }
    };
    tokio::pin!(listed);
    let mut all_known = false;
    let begun = Instant::now();
    let mut impatient = tokio::time::interval(PATIENCE);
    impatient.reset();
    let mut releasing = tokio::time::interval(takeover::EVERY);
    loop {
        // Until all is listed the plan only collects: a Service whose slices are
        // still to come must not lose its backends.
        let resync_due = all_known && state.engine.needs_resync();
        let again = state.retry_devices;
        let behind = state.told.is_behind();
        tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            () = &mut listed, if !all_known => {
                all_known = true;
                while let Some(change) = node_changes.try_recv() {
                    state.node.changed(change.current);
                }
                state.node.listed();
                state.node_changed();
                state.kernel_nat.take_over();
                while let Some(change) = service_changes.try_recv() {
                    state.on_service(&change);
                }
                while let Some(change) = slice_changes.try_recv() {
                    state.on_slice(&change);
                }
                while let Some(change) = pod_changes.as_mut().and_then(Changes::try_recv) {
                    state.on_pod(&change);
                }
                state.resync();
            }
            Some(change) = service_changes.recv() => state.on_service(&change),
            Some(change) = slice_changes.recv() => state.on_slice(&change),
            Some(change) = next(&mut pod_changes) => state.on_pod(&change),
            Some(change) = node_changes.recv() => {
                state.node.changed(change.current);
                state.node_changed();
            }
            Ok(()) = interfaces.changed() => {
                state.interfaces = interfaces.borrow_and_update().clone();
                state.made.complete(&mut state.interfaces.devices, is_there);
                state.node_changed();
                state.follow_devices();
            }
            _ = impatient.tick(), if !all_known => {
                let listed = [
                    ("services", services.is_synced()),
                    ("endpointslices", slices.is_synced()),
                    ("the node's own object", node.is_synced()),
                    ("pods", pods.as_ref().is_none_or(Reflector::is_synced)),
                ];
                warn!(
                    missing = unlisted(&listed),
                    waited = ?begun.elapsed(),
                    "Services are unchanged until the API server has listed everything"
                );
            }
            Some(ask) = asked.recv() => state.answer(ask, all_known),
            Some(wish) = wished.recv() => state.fulfil(wish),
            () = tokio::time::sleep(RETRY), if resync_due => state.resync(),
            () = tokio::time::sleep(DEVICES_AGAIN), if again => state.follow_devices(),
            // What is told follows below.
            () = tokio::time::sleep(TELL_AGAIN), if behind => {}
            _ = releasing.tick(), if all_known => state.kernel_nat.release(),
        }
        state.after().await;
    }
}

/// The state of the task that serves Services.
struct ServiceState {
    engine: Engine,
    options: DatapathSettings,
    health: Arc<DatapathHealth>,
    metrics: Arc<ServiceMetrics>,
    interfaces: InterfaceSnapshot,
    made: CreatedDevices,
    node: node::OwnNode,
    checks: HealthCheckServers,
    /// Of what the plan said of health checks, what is served now.
    checked: Option<u64>,
    node_ports: NodePortAddresses,
    movers: StaleSocketReaper,
    told: EventReporter,
    services: Cache<Service>,
    /// Network policy waits for programs at pods' devices.
    programs: watch::Sender<()>,
    shutdown: CancellationToken,
    retry_devices: bool,
    kernel_nat: takeover::KernelConnections,
    /// Others are told whether the maps hold what the API says.
    programmed: Arc<AtomicBool>,
}

// === impl State ===

impl ServiceState {
    fn on_service(&mut self, change: &Change<Service>) {
        let Some((namespace, name)) = subject(change) else {
            return;
        };
        self.metrics.services.inc();
        self.queued();
        let begun = Instant::now();
        let service = change.current.as_ref().map(|it| Arc::clone(it.state()));
        let result = self.engine.on_service_change(namespace, name, service);
        self.written(begun, result, None);
    }

    fn on_slice(&mut self, change: &Change<EndpointSlice>) {
        let Some((namespace, name)) = subject(change) else {
            return;
        };
        self.metrics.slices.inc();
        self.queued();
        let begun = Instant::now();
        let slice = change.current.as_ref();
        let state = slice.map(|it| Arc::clone(it.state()));
        let result = self.engine.on_slice_change(namespace, name, state);
        self.written(begun, result, slice.and_then(|it| it.triggered()));
    }

    fn on_pod(&mut self, change: &Change<Pod>) {
        let Some((namespace, name)) = subject(change) else {
            return;
        };
        let begun = Instant::now();
        let pod = change.current.as_ref().map(|pod| host_ports::planned(pod));
        let result = self.engine.on_pod_change(namespace, name, pod.as_ref());
        self.written(begun, result, None);
    }

    fn queued(&self) {
        self.metrics.queued.set(seconds_now());
        self.health.queued();
    }

    fn written(
        &self,
        begun: Instant,
        result: Result<ApplyOutcome, node_agent_datapath::Error>,
        triggered: Option<Timestamp>,
    ) {
        match result {
            Ok(ApplyOutcome::Written(_)) => {
                self.metrics.sync.observe(begun.elapsed().as_secs_f64());
                self.metrics.last.set(seconds_now());
                self.metrics.programmed(triggered);
                self.health.updated();
            }
            Ok(ApplyOutcome::Deferred) => {}
            Err(error) => {
                self.metrics.failures.inc();
                warn!(
                    error = &error as &dyn std::error::Error,
                    "failed to write a change to the maps; scheduling a full comparison"
                );
            }
        }
    }

    fn resync(&mut self) {
        let begun = Instant::now();
        match blocking::here(|| self.engine.resync()) {
            Ok(written) => {
                let took = begun.elapsed();
                self.metrics.full_sync.observe(took.as_secs_f64());
                self.metrics.last.set(seconds_now());
                self.health.updated();
                self.programmed.store(true, Ordering::Relaxed);
                info!(written, ?took, "service maps are in sync");
                if self.kernel_nat.finish() {
                    self.leave_unknown_streams(false);
                }
            }
            Err(error) => {
                self.metrics.failures.inc();
                self.programmed.store(false, Ordering::Relaxed);
                warn!(
                    error = &error as &dyn std::error::Error,
                    "failed to compare the maps; retrying"
                );
            }
        }
    }

    /// The Node object or the machine's addresses are others than before.
    fn node_changed(&mut self) {
        self.health
            .set_eligible(self.node.is_eligible(TO_BE_DELETED));
        let told = self.node.update();
        if matches!(told, node::NodeUpdate::Nothing) {
            return;
        }
        let options = &self.options.services;
        let addresses = &self.interfaces.addresses;
        let configured = self.engine.datapath().configuration().and_then(|in_force| {
            match node::configuration(options, told, addresses, in_force.as_ref()) {
                Some(config) => {
                    let leave = self.kernel_nat.is_pending();
                    self.engine.configure(&takeover::leaving(config, leave))
                }
                None => Ok(()),
            }
        });
        if let Err(error) = configured {
            warn!(
                error = &error as &dyn std::error::Error,
                "failed to write the node configuration for programs"
            );
        }
        let facts = node::facts(options, &self.node_ports, told, addresses);
        let begun = Instant::now();
        let result = self.engine.set_node(facts);
        self.written(begun, result, None);
    }

    /// Has programs pass packets of streams that they do not know, or no more.
    fn leave_unknown_streams(&mut self, leave: bool) {
        let changed = self
            .engine
            .datapath()
            .configuration()
            .and_then(|in_force| match in_force {
                Some(config) => self.engine.configure(&takeover::leaving(config, leave)),
                None => Ok(()),
            });
        if let Err(error) = changed {
            warn!(
                error = &error as &dyn std::error::Error,
                "failed to update the programs on connections that the kernel translates"
            );
        }
    }

    /// What a former agent enforced on the node's own traffic stays until
    /// network policy says otherwise.
    fn keep_host_firewall(&mut self) {
        let patterns = &mut self.options.services.patterns;
        let attached = self.engine.datapath().attachments();
        patterns.host = patterns.guarded != Globs::default()
            && attached.iter().any(|at| at.hook == DeviceHook::HostIngress);
    }

    fn follow_devices(&mut self) {
        let (patterns, devices) = (&self.options.services.patterns, &self.interfaces.devices);
        // For each the kernel takes the lock of all devices, which somebody who removes
        // many holds for a while.
        match blocking::here(|| self.engine.follow_devices(devices, patterns)) {
            Ok(followed) => {
                self.retry_devices = followed.failed > 0;
                if followed.changed > 0 {
                    self.programs.send_replace(());
                }
            }
            Err(error) => {
                self.retry_devices = true;
                warn!(
                    error = &error as &dyn std::error::Error,
                    "failed to update programs at devices; retrying"
                );
            }
        }
    }

    /// What follows from the plan besides maps.
    async fn after(&mut self) {
        self.movers.push(self.engine.take_gone());
        let planner = self.engine.planner();
        self.told.problems(planner, |namespace, name| {
            let service = self.services.get(namespace, name)?;
            Some(service.uid().to_string())
        });
        self.told.fullness(&planner.fullness());
        let version = planner.health_version();
        if self.checked != Some(version) {
            self.checked = Some(version);
            let checks: Vec<_> = planner
                .health_checks()
                .map(|it| NodePortHealth {
                    namespace: it.namespace.to_string(),
                    name: it.name.to_string(),
                    port: it.port,
                    local_endpoints: it.local_ready,
                })
                .collect();
            let failed = self
                .checks
                .follow(&self.health, &checks, &self.shutdown)
                .await;
            for (check, error) in failed {
                self.told.health_check(&check, &error);
            }
        }
    }

    /// Does what network policy asks for; who does not wait any more is not
    /// told.
    fn fulfil(&mut self, wish: DatapathRequest) {
        let (map, answer) = match wish {
            DatapathRequest::Room(map, answer) => (map, answer),
            DatapathRequest::Host(host) => {
                self.options.services.patterns.host = host;
                return self.follow_devices();
            }
            DatapathRequest::Bandwidth => return self.follow_devices(),
            DatapathRequest::Devices(made) => {
                self.made.add(made);
                self.made.complete(&mut self.interfaces.devices, is_there);
                return self.follow_devices();
            }
        };
        let room = match blocking::here(|| self.engine.grow_policy(map)) {
            Ok(true) => GrowthOutcome::More,
            Ok(false) => GrowthOutcome::NoMore,
            Err(error) => {
                warn!(
                    map,
                    error = &error as &dyn std::error::Error,
                    "failed to grow a map of network policy"
                );
                GrowthOutcome::Failed
            }
        };
        let _ = answer.send(room);
    }

    /// Answers; who does not wait any more is not told.
    fn answer(&self, ask: PlanQuery, all_known: bool) {
        match ask {
            PlanQuery::Metrics(to) => drop(to.send(self.now())),
            PlanQuery::Accounts(wanted, others, to) => {
                let planner = self.engine.planner();
                drop(to.send(PlanAccount::collect(planner, &wanted, others, all_known)));
            }
        }
    }

    fn now(&self) -> MetricsSnapshot {
        let mut attached: BTreeMap<&'static str, usize> = BTreeMap::new();
        for at in self.engine.datapath().attachments() {
            *attached.entry(at.hook.label()).or_default() += 1;
        }
        let mut problems: BTreeMap<&'static str, usize> = BTreeMap::new();
        for problem in self.engine.planner().problems() {
            *problems.entry(problem.reason.word()).or_default() += 1;
        }
        MetricsSnapshot {
            counters: self.engine.datapath().counters().unwrap_or_default(),
            fullness: self
                .engine
                .planner()
                .fullness()
                .iter()
                .map(|it| (it.map, it.used, it.capacity))
                .collect(),
            attached: attached.into_iter().collect(),
            problems: problems.into_iter().collect(),
        }
    }
}

/// The next change of something that may not be followed at all.
async fn next<V>(changes: &mut Option<Changes<V>>) -> Option<Change<V>> {
    match changes {
        Some(changes) => changes.recv().await,
        None => std::future::pending().await,
    }
}

/// What is still to be listed, for people.
fn unlisted(listed: &[(&str, bool)]) -> String {
    let missing = listed.iter().filter(|(_, there)| !there);
    let names: Vec<_> = missing.map(|(name, _)| *name).collect();
    names.join(", ")
}

fn seconds_now() -> f64 {
    Timestamp::now().as_duration().as_secs_f64()
}

/// Serves health and metrics.
async fn serve(
    options: &DatapathSettings,
    health: &Arc<DatapathHealth>,
    metrics: &Arc<ServiceMetrics>,
    metrics_port: watch::Receiver<bool>,
    asks: mpsc::Sender<PlanQuery>,
    shutdown: &CancellationToken,
) -> Result<(), Error> {
    let listen = async |address: SocketAddr, lent: watch::Receiver<bool>| {
        let taken = |source| Error::Listen { address, source };
        let waits = options.services.wait_for_ports;
        AwaitedPort::open(address, waits, lent).await.map_err(taken)
    };
    if let Some(address) = options.services.healthz {
        // Load balancers ask here who serves, which is Orlop until kube-proxy does.
        let never = watch::channel(false).1;
        let listener = listen(address, never).await?;
        let health = Arc::clone(health);
        let answer = move |path: String| {
            let answer = match path.as_str() {
                "/healthz" => health.healthz(),
                "/livez" => health.livez(),
                _ => HttpAnswer::not_found(),
            };
            async move { answer }
        };
        http::serve_supervised("health-server", listener, answer, shutdown);
    }
    if let Some(address) = options.services.metrics {
        let listener = listen(address, metrics_port).await?;
        let (health, metrics) = (Arc::clone(health), Arc::clone(metrics));
        let configuration = options.services.as_json().to_string();
        let answer = move |path: String| {
            let (health, metrics, asks) = (Arc::clone(&health), Arc::clone(&metrics), asks.clone());
            let configuration = configuration.clone();
            async move {
                match path.as_str() {
                    "/metrics" => {
                        let (ask, told) = oneshot::channel();
                        // Without the task there is nothing to be told.
                        let _ = asks.send(PlanQuery::Metrics(ask)).await;
                        let now = told.await.unwrap_or_default();
                        HttpAnswer {
                            content_type: "application/openmetrics-text; version=1.0.0; charset=utf-8",
                            ..HttpAnswer::text(StatusCode::OK, metrics.text(&now))
                        }
                    }
                    "/configz" => HttpAnswer::json(StatusCode::OK, configuration),
                    "/proxyMode" => HttpAnswer::text(StatusCode::OK, "ebpf"),
                    "/healthz" => health.livez(),
                    _ => HttpAnswer::not_found(),
                }
            }
        };
        http::serve_supervised("metrics-server", listener, answer, shutdown);
    }
    Ok(())
}

/// Answers commands of this machine. Services do not depend on it.
fn serve_commands(pin_dir: &Path, clerk: LocalApi, shutdown: &CancellationToken) {
    match local_api::listen(pin_dir) {
        Ok(listener) => {
            let answer = move |path| clerk.clone().answer(path);
            http::serve_supervised("command-server", listener, answer, shutdown);
        }
        Err(error) => warn!(
            socket = %local_api::socket(pin_dir).display(),
            %error,
            "failed to serve the local API; commands only see the contents of the maps"
        ),
    }
}

fn open(options: &DatapathSettings, dns: &[IpAddr]) -> Result<Engine, Error> {
    if let Some(parent) = options
        .pin_dir
        .parent()
        .filter(|parent| !parent.exists() || *parent == Path::new("/sys/fs/bpf"))
        && ensure_bpffs(parent).map_err(Error::Datapath)?
    {
        HostChanges::at(&options.pin_dir).record(|it| {
            it.mounts.insert(parent.to_owned());
        });
    }
    Engine::open(
        &DatapathOptions {
            cgroup: options.cgroup.clone().ok_or(Error::NoCgroup)?,
            pin_dir: options.pin_dir.clone(),
            object: node_agent_datapath::embedded_object!(),
            capacity: capacity(&options.services.patterns),
            tc: TcWay::Auto,
            recording: options.services.recording,
        },
        Config {
            node: options.node_name.clone(),
            overrides: overrides(dns),
            ..Config::default()
        },
    )
    .map_err(Error::Datapath)
}

/// How large maps are at first. Where no pod is guarded no connections of such
/// are kept.
fn capacity(patterns: &Patterns) -> Capacity {
    let capacity = Capacity::at_first(&Capacity::of_machine());
    if patterns.guarded == Globs::default() {
        return Capacity {
            policy_flows: 1,
            ..capacity
        };
    }
    capacity
}

/// Cluster DNS stays on the node, whatever Service has its address.
fn overrides(addresses: &[IpAddr]) -> Vec<Override> {
    let of = |address: IpAddr| {
        [Protocol::UDP, Protocol::TCP].map(|protocol| Override {
            name: "dns".to_owned(),
            address,
            port: dns::PORT,
            protocol,
            backends: vec![SocketAddr::new(address, dns::PORT)],
        })
    };
    addresses.iter().copied().flat_map(of).collect()
}

/// Which object a change is about: its namespace and name.
fn subject<V: Object>(change: &Change<V>) -> Option<(&str, &str)> {
    let object = change.latest()?;
    Some((object.namespace(), object.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_waited_for_is_named() {
        assert_eq!(unlisted(&[("a", true), ("b", false), ("c", false)]), "b, c");
        assert_eq!(unlisted(&[("a", true)]), "");
    }
}

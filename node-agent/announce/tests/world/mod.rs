//! A cluster for announcements: the API server and the load balancer controller in this process,
//! each with its production identity; nodes as threads in network namespaces of their own, which
//! can be killed.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::fs::File;
use std::net::IpAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use control_access::{MASTERS, NODES, Tokens, User};
use control_apiserver::{ApiServer, ClusterAccess, Config};
use control_auth::Settings;
use control_client::{Client, Discard, Patch, RequestBody, Resource, resources};
use control_pki::{ClientTrust, Cluster};
use control_store::embedded::{EmbeddedStore, Options};
use control_supervise::Supervisor;
use http_body_util::BodyExt as _;
use node_agent_announce::metrics::Metrics;
use node_agent_informers::{Informers, NodeScope};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::{BoxError, ServiceExt as _};

/// Several of these at once would only disturb each other's times.
static TURN: Mutex<()> = Mutex::new(());
static NUMBER: AtomicU32 = AtomicU32::new(0);

pub const POOLS: Resource = Resource::cluster("orlop.dev", "v1alpha1", "ippools", "IPPool");
pub const L2: Resource =
    Resource::cluster("orlop.dev", "v1alpha1", "l2announcements", "L2Announcement");
pub const PEERS: Resource = Resource::cluster("orlop.dev", "v1alpha1", "bgppeers", "BGPPeer");
pub const ADVERTISEMENTS: Resource = Resource::cluster(
    "orlop.dev",
    "v1alpha1",
    "bgpadvertisements",
    "BGPAdvertisement",
);
pub const ANNOUNCERS: Resource =
    Resource::cluster("orlop.dev", "v1alpha1", "announcers", "Announcer");

pub struct World {
    runtime: tokio::runtime::Runtime,
    server: ApiServer,
    pub admin: Client,
    prefix: String,
    namespaces: Vec<String>,
    controller: CancellationToken,
    _dir: tempfile::TempDir,
    _turn: MutexGuard<'static, ()>,
}

/// Runs a program and returns what it prints.
pub fn sh(line: &str) -> String {
    let out = Command::new("sh")
        .args(["-c", line])
        .output()
        .expect("a shell");
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "`{line}`: {error}");
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Waits until something holds, and says how long it took.
pub fn eventually<T>(
    what: &str,
    within: Duration,
    mut look: impl FnMut() -> Option<T>,
) -> (T, Duration) {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return (found, start.elapsed());
        }
        assert!(start.elapsed() < within, "not within {within:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

impl World {
    /// A cluster, or the reason why this machine cannot have one, printed.
    pub fn new() -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: network namespaces need root");
            return None;
        }
        let _ = tracing_subscriber::fmt()
            .with_test_writer()
            .with_env_filter(std::env::var("ORLOP_LOG").unwrap_or_else(|_| "warn".into()))
            .try_init();
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let dir = tempfile::tempdir().expect("a folder");
        let server = runtime.block_on(server(dir.path()));
        let admin = client(&runtime, &server, User::named("root", [MASTERS]));
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let world = Self {
            runtime,
            server,
            admin,
            prefix: format!("l{}-{number}", std::process::id()),
            namespaces: Vec::new(),
            controller: CancellationToken::new(),
            _dir: dir,
            _turn: turn,
        };
        world.define();
        world.start_controller();
        Some(world)
    }

    /// The definitions, as an administrator of another cluster applies them.
    fn define(&self) {
        let all: Vec<Value> =
            serde_saphyr::from_multiple(control_load_balancer::DEFINITIONS).expect("YAML");
        for object in all.into_iter().filter(Value::is_object) {
            let kind = object["kind"].as_str().expect("a kind").to_owned();
            let (group, plural) = match kind.as_str() {
                "CustomResourceDefinition" => ("apiextensions.k8s.io", "customresourcedefinitions"),
                "ValidatingAdmissionPolicy" => (
                    "admissionregistration.k8s.io",
                    "validatingadmissionpolicies",
                ),
                "ValidatingAdmissionPolicyBinding" => (
                    "admissionregistration.k8s.io",
                    "validatingadmissionpolicybindings",
                ),
                other => panic!("no place for a {other}"),
            };
            let resource = Resource {
                group: group.into(),
                version: "v1".into(),
                plural: plural.into(),
                kind: kind.into(),
                namespaced: false,
            };
            self.create(&resource, "", &object);
        }
        eventually("the kinds are served", Duration::from_secs(20), || {
            let served = [POOLS, L2, PEERS, ADVERTISEMENTS, ANNOUNCERS];
            let all = served
                .iter()
                .all(|it| self.block(self.admin.serves(it)).unwrap_or(false));
            all.then_some(())
        });
    }

    fn start_controller(&self) {
        let account = |name: &str| {
            let groups = [
                "system:serviceaccounts",
                "system:serviceaccounts:kube-system",
            ];
            User::named(format!("system:serviceaccount:kube-system:{name}"), groups)
        };
        let own = client(
            &self.runtime,
            &self.server,
            account("load-balancer-controller"),
        );
        let reader = User::named("system:kube-controller-manager", []);
        let identities = control_controllers::Identities {
            reader: client(&self.runtime, &self.server, reader),
            account: Box::new(move |_| own.clone()),
        };
        let config = control_controllers::Config {
            controllers: vec!["load-balancer-controller".to_owned()],
            ..control_controllers::Config::default()
        };
        let stop = self.controller.clone();
        self.runtime.spawn(async move {
            let ended = control_controllers::run(identities, config, stop).await;
            ended.expect("the controller");
        });
    }

    pub fn block<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    pub fn create(&self, resource: &Resource, namespace: &str, object: &Value) {
        let made = self.block(self.admin.create::<Discard>(resource, namespace, object));
        made.unwrap_or_else(|error| panic!("{resource}: {} {object}", error.chain()));
    }

    pub fn refused(&self, resource: &Resource, object: &Value) -> String {
        let made = self.block(self.admin.create::<Discard>(resource, "", object));
        made.expect_err("it was to be refused").chain()
    }

    pub fn patch(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        sub: &str,
        patch: &Value,
    ) {
        let done = self.block(self.admin.patch::<Discard>(
            resource,
            namespace,
            name,
            sub,
            Patch::Merge(patch),
        ));
        done.unwrap_or_else(|error| panic!("{resource} {name}: {}", error.chain()));
    }

    pub fn get(&self, resource: &Resource, namespace: &str, name: &str) -> Option<Value> {
        self.block(self.admin.get::<Value>(resource, namespace, name))
            .ok()
    }

    pub fn delete(&self, resource: &Resource, namespace: &str, name: &str) {
        let done = self.block(self.admin.delete(
            resource,
            namespace,
            name,
            &control_client::DeleteOptions::default(),
        ));
        done.unwrap_or_else(|error| panic!("{resource} {name}: {}", error.chain()));
    }

    /// An object of ours.
    pub fn ours(&self, resource: &Resource, name: &str, spec: Value) {
        let object = json!({
            "apiVersion": "orlop.dev/v1alpha1", "kind": resource.kind,
            "metadata": {"name": name}, "spec": spec,
        });
        self.create(resource, "", &object);
    }

    /// A node that is ready, with these addresses.
    pub fn node_object(&self, name: &str, addresses: &[&str]) {
        self.create(
            &resources::NODES,
            "",
            &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}),
        );
        let addresses: Vec<Value> = addresses
            .iter()
            .map(|it| json!({"type": "InternalIP", "address": it}))
            .collect();
        let status = json!({"status": {"addresses": addresses, "conditions": [
            {"type": "Ready", "status": "True", "reason": "x", "message": "x"}]}});
        self.patch(&resources::NODES, "", name, "status", &status);
    }

    /// A Service of type LoadBalancer; its addresses as the controller gives them.
    pub fn service(&self, name: &str, changes: Value) -> Vec<IpAddr> {
        let mut object = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"type": "LoadBalancer", "selector": {"app": name},
                "ports": [{"port": 80, "protocol": "TCP"}]},
        });
        merge(&mut object, &changes);
        self.create(&resources::SERVICES, "default", &object);
        self.addresses(name)
    }

    /// The addresses that a Service has, once it has some.
    pub fn addresses(&self, name: &str) -> Vec<IpAddr> {
        let what = format!("Service {name} has an address");
        let look = || Some(self.addresses_now(name)).filter(|it| !it.is_empty());
        eventually(&what, Duration::from_secs(10), look).0
    }

    pub fn addresses_now(&self, name: &str) -> Vec<IpAddr> {
        let service = self
            .get(&resources::SERVICES, "default", name)
            .unwrap_or_default();
        let ingress = service
            .pointer("/status/loadBalancer/ingress")
            .and_then(Value::as_array);
        let all = ingress.into_iter().flatten();
        all.filter_map(|it| it["ip"].as_str()?.parse().ok())
            .collect()
    }

    /// Endpoints of a Service on these nodes.
    pub fn endpoints(&self, service: &str, nodes: &[&str]) {
        let endpoints: Vec<Value> = nodes
            .iter()
            .enumerate()
            .map(|(n, node)| {
                let address = format!("10.244.0.{}", n + 1);
                json!({"addresses": [address], "nodeName": node, "conditions": {"ready": true}})
            })
            .collect();
        let name = format!("{service}-1");
        let object = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": name, "namespace": "default",
                "labels": {"kubernetes.io/service-name": service}},
            "addressType": "IPv4", "endpoints": endpoints, "ports": [{"port": 80}],
        });
        if self
            .get(&resources::ENDPOINT_SLICES, "default", &name)
            .is_some()
        {
            let patch = json!({"endpoints": endpoints});
            self.patch(&resources::ENDPOINT_SLICES, "default", &name, "", &patch);
        } else {
            self.create(&resources::ENDPOINT_SLICES, "default", &object);
        }
    }

    /// A network namespace; gone with this.
    pub fn namespace(&mut self, name: &str) -> String {
        let full = format!("{}-{name}", self.prefix);
        sh(&format!(
            "ip netns add {full} && ip -n {full} link set lo up"
        ));
        self.namespaces.push(full.clone());
        full
    }

    /// A switch, and namespaces at it, each with an interface `eth0` and these addresses.
    pub fn network(&mut self, hosts: &[(&str, &[&str])]) -> Vec<String> {
        let switch = self.namespace("switch");
        sh(&format!(
            "ip -n {switch} link add br0 type bridge mcast_snooping 0 && ip -n {switch} link set br0 up"
        ));
        let mut all = Vec::new();
        for (n, (host, addresses)) in hosts.iter().enumerate() {
            let namespace = self.namespace(host);
            sh(&format!(
                "ip -n {namespace} link add eth0 type veth peer name p{n} netns {switch} \
                 && ip -n {switch} link set p{n} master br0 up && ip -n {namespace} link set eth0 up"
            ));
            for address in *addresses {
                let nodad = if address.contains(':') { "nodad" } else { "" };
                sh(&format!(
                    "ip -n {namespace} addr add {address} dev eth0 {nodad}"
                ));
            }
            all.push(namespace);
        }
        all
    }

    /// The agent of a node, in a namespace.
    pub fn agent(&self, node: &str, namespace: &str) -> Agent {
        let user = User::named(format!("system:node:{node}"), [NODES]);
        Agent::start(client(&self.runtime, &self.server, user), node, namespace)
    }

    pub fn node_client(&self, node: &str) -> Client {
        client(
            &self.runtime,
            &self.server,
            User::named(format!("system:node:{node}"), [NODES]),
        )
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.controller.cancel();
        for namespace in &self.namespaces {
            let _ = Command::new("ip")
                .args(["netns", "delete", namespace])
                .status();
        }
    }
}

fn merge(into: &mut Value, changes: &Value) {
    match (into, changes) {
        (Value::Object(into), Value::Object(changes)) => {
            for (key, value) in changes {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, changes) => *into = changes.clone(),
    }
}

/// A node's agent, and how it ends.
pub struct Agent {
    /// Knows the agent's tasks.
    pub supervisor: Supervisor,
    kill: CancellationToken,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Agent {
    fn start(client: Client, node: &str, namespace: &str) -> Self {
        let (kill, stop) = (CancellationToken::new(), CancellationToken::new());
        let (node, namespace) = (node.to_owned(), namespace.to_owned());
        let (killed, stopped) = (kill.clone(), stop.clone());
        let supervisor = Supervisor::new();
        let own = supervisor.clone();
        let thread = std::thread::spawn(move || {
            let file = File::open(format!("/run/netns/{namespace}")).expect("the namespace");
            nix::sched::setns(file, nix::sched::CloneFlags::CLONE_NEWNET).expect("setns");
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            let runtime = runtime.expect("a runtime");
            runtime.block_on(async move {
                let informers = Informers::new(client.clone(), &node, NodeScope::All);
                let metrics = Metrics::default();
                let run = node_agent_announce::run(client, informers, node, metrics, stopped);
                let run = own.scope(run);
                tokio::select! {
                    () = killed.cancelled() => {}
                    () = run => {}
                }
            });
            // Nothing gets to say a last word: as if the process had been killed.
            runtime.shutdown_background();
        });
        Self {
            supervisor,
            kill,
            stop,
            thread: Some(thread),
        }
    }

    /// Makes all tasks of a name panic, and waits until they run again.
    pub fn restart_tasks(&self, name: &'static str) {
        let before = self.supervisor.restarts(name);
        let count = self.supervisor.panic(name);
        assert!(count > 0, "no task `{name}` runs");
        eventually("the panic", Duration::from_secs(5), || {
            (self.supervisor.restarts(name) >= before + count as u64).then_some(())
        });
        eventually("the restart", Duration::from_secs(5), || {
            self.supervisor.unhealthy().is_empty().then_some(())
        });
        assert_eq!(self.supervisor.failure(), None, "the process goes on");
    }

    /// Ends it as kill -9 does: sockets close, nothing else happens.
    pub fn kill(mut self) {
        self.kill.cancel();
        self.join();
    }

    /// Ends it as SIGTERM does.
    pub fn stop(mut self) {
        self.stop.cancel();
        self.join();
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the agent's thread");
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.kill.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn server(dir: &std::path::Path) -> ApiServer {
    let cluster = Cluster::load_or_create(dir.join("pki")).expect("keys");
    let trust = ClientTrust::new(cluster.ca.certificate_pem()).expect("trust");
    let tokens = Tokens::new(Arc::new(cluster.service_account_key));
    let store = EmbeddedStore::open_in(&dir.join("store"), Options::default()).expect("a store");
    let access = ClusterAccess::configured(trust, tokens, Settings::default());
    ApiServer::new(Config {
        store: Arc::new(store),
        access: Arc::new(access.expect("settings")),
        encryption: control_encryption::Encryption::own(&dir.join("pki/encryption.key"))
            .expect("keys"),
        advertise_address: [127, 0, 0, 1].into(),
        advertise_port: 6443,
        service_cidrs: vec![
            "10.96.0.0/16".parse().expect("a range"),
            "fd96::/112".parse().expect("a range"),
        ],
        node_ports: (30000, 32767),
        kubelets: None,
        proxy_identity: None,
        whole: false,
        chain: control_apiserver::chain::Settings::default(),
        egress: control_proxy::Egress::default(),
    })
    .await
    .expect("a server")
}

fn client(runtime: &tokio::runtime::Runtime, server: &ApiServer, user: User) -> Client {
    let _within = runtime.enter();
    let service = server
        .service()
        .map_request(|request: http::Request<RequestBody>| {
            request.map(|body| body.map_err(BoxError::from).boxed_unsync())
        });
    Client::in_process(service, user)
}

/// A process that ends with this.
pub struct Running(pub Child);

impl Running {
    pub fn start(line: &str) -> Self {
        let child = Command::new("sh")
            .args(["-c", &format!("exec {line}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.expect("a process"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

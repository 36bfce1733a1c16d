//! The watches that a node's agent has open at a real API server: one a kind.
//!
//! The server runs in this process, the agent in namespaces of its own, with a container
//! runtime that has nothing and forgets everything. A second watch of a kind fails here,
//! with its selector.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use control_access::{MASTERS, NODES, Tokens, User};
use control_apiserver::{ApiServer, ClusterAccess, Config};
use control_auth::Settings;
use control_client::{Client, Discard, RequestBody, Resource, resources};
use control_pki::{ClientTrust, Cluster};
use control_store::embedded::{EmbeddedStore, Options};
use futures::{TryFutureExt as _, stream};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use node_agent::{AgentOptions, DatapathSettings, NetworkPolicy, ServiceOptions, cni::CniOptions};
use serde_json::{Value, json};
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;
use tower::{BoxError, ServiceExt as _};

/// How long something that must come is waited for; a busy machine may need it.
const LONG: Duration = Duration::from_secs(120);
/// How long the watches must stay the same until they are believed.
const QUIET: Duration = Duration::from_secs(4);

const NODE: &str = "n1";
const ADDRESS: [u8; 4] = [192, 0, 2, 1];

/// What an agent that does everything watches while nothing is to be announced.
const WHOLE: &[&str] = &[
    "bgpadvertisements",
    "bgppeers",
    "endpointslices",
    "ippools",
    "l2announcements",
    "namespaces",
    "networkpolicies",
    "nodes",
    "podendpoints",
    "pods spec.nodeName=n1",
    "services",
];
/// What it watches besides while it announces.
const ANNOUNCER: &str = "announcers";
/// What an agent in kube-proxy's place watches while nothing is to be announced.
const DATAPATH_ONLY: &[&str] = &[
    "bgpadvertisements",
    "bgppeers",
    "endpointslices",
    "ippools",
    "l2announcements",
    "nodes metadata.name=n1",
    "services",
];

/// The open watches of one client, as `RESOURCE SELECTOR`.
#[derive(Clone, Default)]
struct Watches(Arc<Mutex<Vec<String>>>);

/// A watch that is open until its answer ends.
struct OpenWatch(Watches, String);

impl Watches {
    fn open(&self, request: &Request<RequestBody>) -> Option<OpenWatch> {
        let query = request.uri().query()?;
        let pairs: Vec<(String, String)> = form(query);
        pairs
            .iter()
            .find(|(key, value)| key == "watch" && value == "true")?;
        let mut watch = request.uri().path().rsplit('/').next()?.to_owned();
        for (_, selector) in pairs.iter().filter(|(key, _)| key.ends_with("Selector")) {
            watch = format!("{watch} {selector}");
        }
        self.0.lock().unwrap().push(watch.clone());
        Some(OpenWatch(self.clone(), watch))
    }

    fn now(&self) -> Vec<String> {
        let mut all = self.0.lock().unwrap().clone();
        all.sort();
        all
    }

    /// Waits for exactly these watches, and that they stay.
    async fn become_and_stay(&self, expected: &[&str]) {
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        let until = Instant::now() + LONG;
        let mut since = Instant::now();
        while since.elapsed() < QUIET {
            let now = self.now();
            if now != expected {
                since = Instant::now();
                assert!(since < until, "open: {now:#?}, expected: {expected:#?}");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

impl Drop for OpenWatch {
    fn drop(&mut self) {
        let mut watches = self.0.0.lock().unwrap();
        let at = watches.iter().position(|it| *it == self.1);
        watches.remove(at.expect("it was open"));
    }
}

/// The pairs of a query.
fn form(query: &str) -> Vec<(String, String)> {
    let plain = |text: &str| {
        text.replace("%3D", "=")
            .replace("%2C", ",")
            .replace("%2F", "/")
    };
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(key, value)| (plain(key), plain(value)))
        .collect()
}

async fn server(dir: &Path) -> ApiServer {
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
        service_cidrs: vec!["10.96.0.0/16".parse().expect("a range")],
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

/// A client, and its watches.
fn client(server: &ApiServer, user: User) -> (Client, Watches) {
    let watches = Watches::default();
    let (seen, inner) = (watches.clone(), server.service());
    let service = tower::service_fn(move |request: Request<RequestBody>| {
        let open = seen.open(&request);
        let request = request.map(|body| body.map_err(BoxError::from).boxed_unsync());
        let answer = inner.clone().oneshot(request);
        answer.map_ok(move |answer| {
            answer.map(|body| {
                body.map_frame(move |frame| {
                    let _while_it_lasts = &open;
                    frame
                })
            })
        })
    });
    (Client::in_process(service, user), watches)
}

/// Defines the kinds of load balancer addresses.
async fn define(admin: &Client) {
    let definitions = Resource::cluster(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
    );
    let all: Vec<Value> =
        serde_saphyr::from_multiple(control_load_balancer::DEFINITIONS).expect("YAML");
    for object in all.iter().filter(|it| it["kind"] == *definitions.kind) {
        let made = admin.create::<Discard>(&definitions, "", object).await;
        made.unwrap_or_else(|error| panic!("{}", error.chain()));
    }
    let until = Instant::now() + LONG;
    while !admin.serves(&announcement()).await.unwrap_or(false) {
        assert!(Instant::now() < until, "the kinds are not served");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

const fn announcement() -> Resource {
    Resource::cluster("orlop.dev", "v1alpha1", "l2announcements", "L2Announcement")
}

/// A container runtime that has nothing: each call that lists or asks is answered with an
/// empty message.
async fn run_runtime(socket: PathBuf) {
    let listener = UnixListener::bind(socket).expect("listen");
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        let service = hyper::service::service_fn(answer);
        let connection = http2::Builder::new(TokioExecutor::new());
        tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
    }
}

type Frames = StreamBody<stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, Infallible>>>>;

async fn answer(request: Request<Incoming>) -> Result<Response<Frames>, Infallible> {
    let path = request.uri().path();
    let is_known = !path.ends_with("/GetContainerEvents") && !path.ends_with("/RuntimeConfig");
    let mut trailers = HeaderMap::new();
    let code = if is_known { "0" } else { "12" };
    trailers.insert("grpc-status", HeaderValue::from_static(code));
    let empty = is_known.then(|| Frame::data(Bytes::from_static(&[0; 5])));
    let frames: Vec<_> = empty
        .into_iter()
        .chain([Frame::trailers(trailers)])
        .map(Ok)
        .collect();
    let answer = Response::builder().header("content-type", "application/grpc");
    Ok(answer
        .body(StreamBody::new(stream::iter(frames)))
        .expect("an answer"))
}

/// A machine in namespaces of its own: a network, the agent's folders and a control group.
struct Machine {
    folder: tempfile::TempDir,
    cgroup: PathBuf,
}

impl Machine {
    /// `None`, with the reason, where this cannot be had.
    fn new() -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: namespaces need root");
            return None;
        }
        let Ok(root) = node_agent::cgroup_folder("/") else {
            eprintln!("skipped: no cgroup2 is mounted");
            return None;
        };
        unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET).expect("unshare");
        let none: Option<&str> = None;
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(none, "/", none, private, none).expect("private mounts");
        std::fs::create_dir_all("/var/lib/orlop").expect("a folder");
        for place in ["/run", "/var/lib/orlop"] {
            mount(Some("tmpfs"), place, Some("tmpfs"), MsFlags::empty(), none).expect(place);
        }
        for line in [
            "ip link set lo up",
            "ip link add eth0 type veth peer name eth1",
            "ip link set eth0 up",
            "ip link set eth1 up",
            "ip address add 192.0.2.1/24 dev eth0",
        ] {
            let done = std::process::Command::new("sh").args(["-c", line]).status();
            assert!(done.expect("a shell").success(), "{line}");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let pins = folder.path().join("bpf");
        std::fs::create_dir(&pins).expect("a folder");
        node_agent_datapath::ensure_bpffs(&pins).expect("a BPF filesystem");
        std::fs::write(folder.path().join("plugin"), "").expect("a plugin");
        let cgroup = root.join(format!("orlop-watches-{}", std::process::id()));
        std::fs::create_dir(&cgroup).expect("a control group");
        Some(Self { folder, cgroup })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn datapath(&self, pins: &str) -> DatapathSettings {
        DatapathSettings {
            node_name: NODE.to_owned(),
            cgroup: Some(self.cgroup.clone()),
            pin_dir: self.path("bpf").join(pins),
            services: ServiceOptions::default(),
        }
    }

    fn agent(&self) -> AgentOptions {
        AgentOptions {
            datapath: self.datapath("whole"),
            runs_pods: true,
            node_ips: vec![ADDRESS.into()],
            external_cloud: None,
            labels: Vec::new(),
            runtime_endpoint: self.path("runtime.sock").display().to_string(),
            serving: None,
            root: self.path("kubelet"),
            log_root: self.path("logs"),
            cluster_dns: vec![[10, 96, 0, 10].into()],
            cluster_domain: "cluster.local".to_owned(),
            resolv_conf: "/dev/null".into(),
            most_pods: 110,
            settings: node_agent::Settings::default(),
            providers: None,
            cni: CniOptions {
                source: self.path("plugin"),
                bin_dir: Some(self.path("cni-bin")),
                conf_dir: Some(self.path("cni-conf")),
            },
            overlay: node_agent::Overlay::Never,
            pool_ranges: Vec::new(),
            masquerade: None,
            network_policy: NetworkPolicy::Enforce,
            flows: node_agent::flows::FlowOptions::default(),
            volumes: None,
            policy_kubeconfig: None,
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Those of containers are in the other hierarchies, too.
        for root in hierarchies() {
            remove_groups(&root.join(self.cgroup.file_name().unwrap_or_default()));
        }
        let _ = umount2(&self.path("bpf"), MntFlags::MNT_DETACH);
    }
}

/// Where hierarchies of control groups are mounted.
fn hierarchies() -> Vec<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mounts = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (target, kind) = (fields.next()?, fields.next()?);
        kind.starts_with("cgroup").then(|| PathBuf::from(target))
    });
    mounts.collect()
}

/// Removes a control group and those below it.
fn remove_groups(group: &Path) {
    for entry in std::fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|it| it.is_dir()) {
            remove_groups(&entry.path());
        }
    }
    let _ = std::fs::remove_dir(group);
}

#[test]
fn an_agent_has_one_watch_of_each_kind_that_its_parts_read() {
    let Some(machine) = Machine::new() else {
        return;
    };
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let server = server(&machine.path("server")).await;
        let (admin, _) = client(&server, User::named("root", [MASTERS]));
        define(&admin).await;
        tokio::spawn(run_runtime(machine.path("runtime.sock")));
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE},
            "spec": {"podCIDR": "10.244.0.0/24", "podCIDRs": ["10.244.0.0/24"]}});
        let made = admin.create::<Discard>(&resources::NODES, "", &node).await;
        made.unwrap_or_else(|error| panic!("{}", error.chain()));
        let user = || User::named(format!("system:node:{NODE}"), [NODES]);

        let (own, watches) = client(&server, user());
        let end = CancellationToken::new();
        let agent = tokio::spawn(node_agent::run(own, machine.agent(), end.clone()));
        with_and_without_announcements(&admin, &watches, WHOLE, &[ANNOUNCER]).await;
        end.cancel();
        agent.await.expect("no panic").expect("it ends");
        watches.become_and_stay(&[]).await;

        let (own, watches) = client(&server, user());
        let end = CancellationToken::new();
        let options = machine.datapath("datapath");
        let agent = tokio::spawn(node_agent::run_datapath(own, options, end.clone()));
        let besides = [ANNOUNCER, "nodes"];
        with_and_without_announcements(&admin, &watches, DATAPATH_ONLY, &besides).await;
        end.cancel();
        agent.await.expect("no panic").expect("it ends");
        watches.become_and_stay(&[]).await;
    });
    for pins in ["whole", "datapath"] {
        node_agent_datapath::remove(&machine.path("bpf").join(pins)).expect("nothing is left");
    }
}

async fn with_and_without_announcements(
    admin: &Client,
    watches: &Watches,
    expected: &[&str],
    besides: &[&str],
) {
    watches.become_and_stay(expected).await;
    let object = json!({"apiVersion": "orlop.dev/v1alpha1", "kind": "L2Announcement",
        "metadata": {"name": "l2"}, "spec": {}});
    let made = admin.create::<Discard>(&announcement(), "", &object).await;
    made.unwrap_or_else(|error| panic!("{}", error.chain()));
    let all: Vec<&str> = expected.iter().chain(besides).copied().collect();
    watches.become_and_stay(&all).await;
    let options = control_client::DeleteOptions::default();
    let gone = admin.delete(&announcement(), "", "l2", &options).await;
    gone.unwrap_or_else(|error| panic!("{}", error.chain()));
    // What only announcements need is watched no more.
    watches.become_and_stay(expected).await;
}

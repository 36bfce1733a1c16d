//! The task of network policy between an API that is not one and real maps.
//!
//! Pods with labels of their own come and go without pause: no map grows with
//! them, no verdict on others is ever wrong, and how long each takes is measured.
//! `ORLOP_CHURN_PODS=10000 cargo test --release -p node-agent --lib many_pods -- --nocapture`
//! prints lines; without, few pods come, and nothing depends on time. What a thread waited
//! for a processor while others had it is told apart: on a busy machine it is most of it.

use std::{
    convert::Infallible,
    fs,
    net::{IpAddr, Ipv4Addr},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
        mpsc as channel,
    },
    time::{Duration, Instant},
};

use control_supervise::{State, Supervisor};
use ebpf_abi::{
    Protocol, Range,
    policy::{Direction, PeerEntry},
};
use ebpf_logic::policy::{Flow, HookPlace, PolicyMaps, policy};
use futures::{StreamExt, stream};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::{
    Request, Response,
    body::{Bytes, Frame},
};
use nix::sched::{CloneFlags, unshare};
use node_agent_datapath::{
    Bandwidths, Capacity, Device, Engine, Globs, Options as DatapathOptions, Patterns,
    PolicyEntries, TcWay, ensure_bpffs,
};
use node_agent_informers::{Informers, NodeScope};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
};

use super::*;
use crate::{policy_source::POD_ENDPOINTS, preflight};

/// Where PodEndpoints are.
const LEAN_PODS: &str = "/apis/network.orlop.dev/v1alpha1/podendpoints";
/// Pods a second.
const RATE: u32 = 500;
/// Pods that are there at once.
const ALIVE: u32 = 200;
/// How long what must come is waited for; a busy machine may need it.
const LONG: Duration = Duration::from_secs(120);

type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>;

/// An API: what it lists, and who watches pods.
#[derive(Clone, Default)]
struct Api {
    watchers: Arc<Mutex<Vec<Watcher>>>,
    /// Of objects that do not change.
    others: Arc<Mutex<Vec<Watcher>>>,
    /// Paths that were asked for, and the methods.
    asked: Arc<Mutex<Vec<String>>>,
}

type Watcher = mpsc::UnboundedSender<Bytes>;

impl Api {
    fn tell(&self, kind: &str, pod: &Value) {
        let line = Bytes::from(line(kind, pod));
        let mut watchers = self.watchers.lock().expect("not poisoned");
        watchers.retain(|it| it.send(line.clone()).is_ok());
    }

    fn clients(&self) -> PolicyClients {
        PolicyClients {
            objects: self.client(),
            pods: control_client::resources::PODS,
            node: self.client(),
        }
    }

    fn client(&self) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<control_client::RequestBody>| {
            let asked = format!("{} {}", request.method(), request.uri().path());
            api.asked.lock().expect("not poisoned").push(asked);
            let answer = api.answer(request.uri().path(), request.uri().query());
            async move { Ok::<_, Infallible>(answer) }
        });
        Client::in_process(service, ())
    }

    fn answer(&self, path: &str, query: Option<&str>) -> Response<Body> {
        if !query.is_some_and(|it| it.contains("watch=true")) {
            let found = !path.starts_with("/apis/policy.networking.k8s.io");
            let body = if found {
                json!({})
            } else {
                json!({"kind": "Status", "code": 404, "reason": "NotFound", "message": "none"})
            };
            let body = Full::new(Bytes::from(body.to_string())).boxed_unsync();
            let code = if found { 200 } else { 404 };
            let answer = Response::builder().status(code).body(body);
            return answer.expect("an answer");
        }
        let mut first: String = listed(path).iter().map(|it| line("ADDED", it)).collect();
        let ends = json!({"metadata": {
            "resourceVersion": "1",
            "annotations": {"k8s.io/initial-events-end": "true"},
        }});
        first += &line("BOOKMARK", &ends);
        let (sender, told) = mpsc::unbounded_channel();
        let watchers = if matches!(path, "/api/v1/pods" | LEAN_PODS) {
            &self.watchers
        } else {
            &self.others
        };
        watchers.lock().expect("not poisoned").push(sender);
        let later = stream::unfold(told, async |mut told| {
            let line = told.recv().await?;
            Some((line, told))
        });
        let lines = stream::iter([Bytes::from(first)]).chain(later);
        let frames = lines.map(|line| Ok::<_, Infallible>(Frame::data(line)));
        Response::new(StreamBody::new(frames).boxed_unsync())
    }
}

fn line(kind: &str, object: &Value) -> String {
    format!("{}\n", json!({"type": kind, "object": object}))
}

/// What is there from the beginning: `web` may be asked by `friend` alone.
fn listed(path: &str) -> Vec<Value> {
    let meta = |name: &str, namespace: &str, labels: Value| {
        json!({
            "name": name, "namespace": namespace, "labels": labels, "uid": name,
            "resourceVersion": "1",
        })
    };
    match path {
        "/api/v1/namespaces" => vec![json!({"metadata": meta("x", "", json!({}))})],
        "/api/v1/nodes" => vec![json!({"metadata": meta("n", "", json!({}))})],
        "/api/v1/pods" | LEAN_PODS => ["web", "friend", "other"]
            .iter()
            .zip(1..)
            .map(|(name, last)| {
                json!({
                    "metadata": meta(name, "x", json!({"app": name})),
                    "spec": {"nodeName": "n"},
                    "status": {"podIP": Ipv4Addr::new(10, 0, 0, last)},
                })
            })
            // Its status says nothing yet.
            .chain([json!({
                "metadata": meta("late", "x", json!({"app": "friend"})),
                "spec": {"nodeName": "n"},
            })])
            .collect(),
        "/apis/networking.k8s.io/v1/networkpolicies" => vec![json!({
            "metadata": meta("p", "x", json!({})),
            "spec": {
                "podSelector": {"matchLabels": {"app": "web"}},
                "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "friend"}}}]}],
            },
        })],
        _ => Vec::new(),
    }
}

/// Every fourth is on this node, every eighth is selected, every sixteenth is a
/// friend: what is unique are the labels of each.
fn pod(number: u32) -> Value {
    let app = match number % 16 {
        0 => "friend",
        4 => "web",
        _ => "many",
    };
    let name = format!("p{number}");
    json!({
        "metadata": {
            "name": name, "namespace": "x", "uid": name,
            "resourceVersion": (number + 2).to_string(),
            "labels": {"app": app, "instance": name, "hash": format!("{:x}", number * 7_919)},
        },
        "spec": {"nodeName": if number.is_multiple_of(4) { "n" } else { "m" }},
        "status": {"podIP": address(number)},
    })
}

fn address(number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::new(10, 1, 0, 0).to_bits() + number)
}

/// A folder with a BPF filesystem and a control group; both go with it.
struct Machine {
    cgroup: PathBuf,
    folder: tempfile::TempDir,
}

impl Machine {
    /// None, with a reason, where this cannot be had.
    fn new() -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: not root");
            return None;
        }
        let Ok(group) = preflight::AgentCgroup::open(None) else {
            eprintln!("skipped: no cgroup2 is mounted");
            return None;
        };
        unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET).expect("unshare");
        let private = nix::mount::MsFlags::MS_REC | nix::mount::MsFlags::MS_PRIVATE;
        let none: Option<&str> = None;
        nix::mount::mount(none, "/", none, private, none).expect("make mounts private");
        let folder = tempfile::tempdir().expect("a folder");
        assert!(ensure_bpffs(folder.path()).expect("mount a BPF filesystem"));
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let cgroup = group
            .folder
            .join(format!("orlop-policy-{}-{number}", std::process::id()));
        fs::create_dir(&cgroup).expect("cgroup");
        Some(Self { cgroup, folder })
    }

    fn pins(&self) -> PathBuf {
        self.folder.path().join("churn")
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.cgroup);
        let detach = nix::mount::MntFlags::MNT_DETACH;
        let _ = nix::mount::umount2(self.folder.path(), detach);
    }
}

/// How long a thread of this process has waited for a processor, as the kernel counts it.
struct Queued(Option<fs::File>);

impl Queued {
    /// Of the thread that calls.
    fn of_this() -> Self {
        let path = format!("/proc/self/task/{}/schedstat", nix::unistd::gettid());
        Self(fs::File::open(path).ok())
    }

    /// Zero where it is not known.
    fn until_now(&self) -> Duration {
        let mut text = [0; 128];
        let read = self.0.as_ref().and_then(|it| it.read_at(&mut text, 0).ok());
        let text = String::from_utf8_lossy(&text[..read.unwrap_or(0)]).into_owned();
        let nanos = text.split_whitespace().nth(1);
        Duration::from_nanos(nanos.and_then(|it| it.parse().ok()).unwrap_or(0))
    }
}

/// A pod of which the API told.
struct Told {
    number: u32,
    at: Instant,
    /// What the agent's thread, and then the one that looks, had waited by then.
    queued: [Duration; 2],
}

/// How long a pod took to the maps; at least so much of it nobody had a processor who was
/// needed: the longer wait of the two threads.
#[derive(Clone, Copy)]
struct Took {
    all: Duration,
    queued: Duration,
}

/// Looks for each address until the maps know it; how long each took.
fn look(pins: &Path, queued: &[Arc<Queued>; 2], told: channel::Receiver<Told>) -> Vec<Took> {
    let maps = Policy::open(pins).expect("maps");
    told.iter()
        .map(|it| {
            let number = it.number;
            let address = IpAddr::from(address(number)).into();
            let is_there = || {
                let range = Range::new(maps.policy_root().epoch, address);
                let known = maps.peer(&range).is_some_and(|it| it.has(PeerEntry::POD));
                known && (!number.is_multiple_of(4) || maps.is_ready(address))
            };
            while !is_there() {
                assert!(it.at.elapsed() < LONG, "pod {number} is not in the maps");
                std::thread::sleep(Duration::from_micros(50));
            }
            let all = it.at.elapsed();
            let waited = queued.iter().zip(it.queued);
            let waited = waited.map(|(now, before)| now.until_now().saturating_sub(before));
            Took {
                all,
                queued: waited.max().unwrap_or_default().min(all),
            }
        })
        .collect()
}

/// Asks the maps, as programs do, without pause; how often, and what was wrong.
fn probe(pins: &Path, stop: &AtomicBool) -> (usize, Vec<String>) {
    let maps = Policy::open(pins).expect("maps");
    let (mut asked, mut wrong) = (0, Vec::new());
    while !stop.load(Ordering::Relaxed) {
        for (from, expected) in [(2, true), (3, false), (9, false)] {
            let peer = Ipv4Addr::new(10, 0, 0, from);
            let decided = policy(
                &maps,
                &Flow {
                    place: HookPlace::Pod,
                    direction: Direction::INGRESS,
                    own: IpAddr::from([10, 0, 0, 1]).into(),
                    peer: IpAddr::from(peer).into(),
                    protocol: Protocol::TCP,
                    port: 80,
                    relayed: false,
                },
            );
            asked += 1;
            if decided.allow != expected {
                wrong.push(format!("{peer}: cookie {}", decided.cookie));
            }
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    (asked, wrong)
}

/// Waits until the maps hold so much.
async fn settled(maps: &Policy, is: impl Fn(PolicyEntries) -> bool) -> PolicyEntries {
    let until = Instant::now() + LONG;
    loop {
        let entries = maps.entries().expect("entries");
        if is(entries) {
            return entries;
        }
        assert!(Instant::now() < until, "{entries:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn many_pods_come_and_go_and_the_maps_hold_what_is_there() {
    let count: u32 = std::env::var("ORLOP_CHURN_PODS")
        .ok()
        .and_then(|it| it.parse().ok())
        .unwrap_or(400);
    with_maps(async |pins, _| churn(pins, count).await);
}

#[test]
fn a_pod_that_a_former_agent_let_up_has_its_address_before_its_status_says_so() {
    with_maps(async |pins, _| {
        let folder = interfaces_of(&pins);
        let kept = PolicyCacheDir::open(folder).expect("a folder");
        let late = |name: &str, device: &str, last: u8| PendingPodInterface {
            namespace: "x".to_owned(),
            name: name.to_owned(),
            uid: "late".to_owned(),
            device: device.to_owned(),
            addresses: vec![IpAddr::from([10, 0, 0, last])],
            bandwidth: None,
        };
        kept.keep(&late("late", "lo", 7)).expect("keep");
        kept.keep(&late("gone", "lo", 8)).expect("keep");
        let (api, end) = (Api::default(), CancellationToken::new());
        let ((wishes, _wished), (_asks, asked)) = (wishes(), query_channel());
        let task = tokio::spawn(run(
            api.clients(),
            options(&pins),
            joined(&api, asked, wishes),
            end.clone(),
        ));
        let maps = Policy::open(&pins).expect("maps");
        settled(&maps, |it| it.endpoints == 8).await;
        let is_ready = |last: u8| maps.is_ready(IpAddr::from([10, 0, 0, last]).into());
        assert!(is_ready(7) && !is_ready(8));
        end.cancel();
        task.await.expect("no panic").expect("it ends");
        let left = kept.all(|_| true).expect("read");
        assert_eq!(left, [late("late", "lo", 7)], "who is gone is forgotten");
    });
}

/// Sends the CNI plugin's question, and gives where the answer will be.
async fn ask(pins: &Path, device: &str, bandwidth: Value) -> BufReader<UnixStream> {
    let mut stream = UnixStream::connect(socket(pins)).await.expect("an agent");
    let question = json!({
        "namespace": "x", "name": "web", "uid": "web", "device": device,
        "addresses": [Ipv4Addr::new(10, 0, 0, 1)], "bandwidth": bandwidth,
    });
    let line = format!("{question}\n");
    stream.write_all(line.as_bytes()).await.expect("asked");
    BufReader::new(stream)
}

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status();
    assert!(status.expect("the program `ip`").success(), "{arguments}");
}

#[test]
fn an_interface_is_let_up_as_soon_as_programs_are_at_it() {
    const ROUNDS: u32 = 4;
    with_maps(async |pins, engine| {
        let (api, end) = (Api::default(), CancellationToken::new());
        let ((wishes, wished), (_asks, asked)) = (wishes(), query_channel());
        let task = tokio::spawn(run(
            api.clients(),
            options(&pins),
            joined(&api, asked, wishes),
            end.clone(),
        ));
        let maps = Policy::open(&pins).expect("maps");
        settled(&maps, |it| it.endpoints == 6).await;
        let mut waited = Vec::new();
        for round in 0..ROUNDS {
            let name = format!("orl{round}");
            ip(&format!("link add {name} type veth peer name pod{round}"));
            let mut answer = ask(&pins, &name, Value::Null).await;
            // By then it waits for programs, or it has nothing to wait for.
            tokio::time::sleep(Duration::from_millis(50)).await;
            let begun = Instant::now();
            follow(engine, &name);
            wished.programs.send_replace(());
            let mut line = String::new();
            answer.read_line(&mut line).await.expect("an answer");
            assert_eq!(line, "{}\n");
            waited.push(begun.elapsed());
        }
        eprintln!("programs, and then the answer: {waited:?}");
        // Whoever is not told would look again so much later, each time.
        let all: Duration = waited.iter().sum();
        assert!(all < LOOK_AGAIN * ROUNDS * 4 / 5, "{waited:?}");
        end.cancel();
        task.await.expect("no panic").expect("it ends");
    });
}

/// Attaches the programs that a device of a pod needs now.
fn follow(engine: &mut Engine, name: &str) {
    let patterns = Patterns {
        guarded: Globs::new("orl*").expect("patterns"),
        ..Patterns::default()
    };
    let device = Device {
        index: index(name),
        name: name.to_owned(),
        kind: "veth".to_owned(),
        ethernet: true,
        ..Device::default()
    };
    let followed = engine.follow_devices(&[device], &patterns);
    assert_eq!(followed.expect("followed").failed, 0);
}

fn index(name: &str) -> u32 {
    nix::net::if_::if_nametoindex(name).expect("a device")
}

#[test]
fn an_interface_is_let_up_once_its_bandwidth_is_limited() {
    with_maps(async |pins, engine| {
        let (api, end) = (Api::default(), CancellationToken::new());
        let ((wishes, mut wished), (_asks, asked)) = (wishes(), query_channel());
        let task = tokio::spawn(run(
            api.clients(),
            options(&pins),
            joined(&api, asked, wishes),
            end.clone(),
        ));
        let maps = Policy::open(&pins).expect("maps");
        settled(&maps, |it| it.endpoints == 6).await;
        let map = Bandwidths::open(&pins).expect("the map");
        ip("link add orl0 type veth peer name pod0");
        follow(engine, "orl0");
        // As containerd makes it of a Pod's annotations.
        let said = json!({"IngressRate": 10_000_000, "IngressBurst": u32::MAX});
        let mut answer = ask(&pins, "orl0", said).await;
        // What it wants of the node's own traffic comes first.
        while !matches!(
            wished.asked.recv().await.expect("a wish"),
            DatapathRequest::Bandwidth
        ) {}
        assert!(!map.is_in_force(index("orl0")), "nobody is answered yet");
        let [ingress, egress] = map.get(index("orl0")).expect("read");
        let second = ebpf_abi::Bandwidth::new(10_000_000, 10_000_000);
        assert!(ingress.is_some_and(|it| it.equals(&second)) && egress.is_none());
        follow(engine, "orl0");
        wished.programs.send_replace(());
        let mut line = String::new();
        answer.read_line(&mut line).await.expect("an answer");
        assert_eq!(line, "{}\n");
        assert!(map.is_in_force(index("orl0")));
        // The next one has none, and nothing is left of what was said before.
        let mut answer = ask(&pins, "orl0", Value::Null).await;
        line.clear();
        answer.read_line(&mut line).await.expect("an answer");
        assert_eq!(line, "{}\n");
        assert_eq!(map.get(index("orl0")).expect("read"), [None; 2]);
        end.cancel();
        task.await.expect("no panic").expect("it ends");
    });
}

#[test]
fn network_policy_reads_pod_endpoints_and_what_nodes_may_read_alone() {
    const MAY_READ: [&str; 4] = [
        "GET /api/v1/namespaces",
        "GET /apis/network.orlop.dev/v1alpha1/podendpoints",
        "GET /apis/networking.k8s.io/v1/networkpolicies",
        // Whether there is the kind anybody may ask.
        "GET /apis/policy.networking.k8s.io/v1alpha2",
    ];
    with_maps(async |pins, _| {
        let (objects, node, end) = (Api::default(), Api::default(), CancellationToken::new());
        let ((wishes, _wished), (_asks, asked)) = (wishes(), query_channel());
        let clients = PolicyClients {
            objects: objects.client(),
            pods: POD_ENDPOINTS,
            node: node.client(),
        };
        let joined = joined(&node, asked, wishes);
        let task = tokio::spawn(run(clients, options(&pins), joined, end.clone()));
        let maps = Policy::open(&pins).expect("maps");
        settled(&maps, |it| it.endpoints == 6).await;
        let until = Instant::now() + LONG;
        let own = || node.asked.lock().expect("not poisoned").clone();
        let has = |wanted: &str| own().iter().any(|it| it.starts_with(wanted));
        while !(has("PATCH /api/v1/nodes/n/status")
            && has("GET /apis/discovery.k8s.io/v1/endpointslices")
            && has("GET /api/v1/nodes"))
        {
            assert!(Instant::now() < until, "{:?}", own());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let foreign = objects.asked.lock().expect("not poisoned").clone();
        let foreign: Vec<_> = foreign
            .into_iter()
            .filter(|it| !MAY_READ.contains(&it.as_str()))
            .collect();
        assert_eq!(foreign, Vec::<String>::new());
        end.cancel();
        task.await.expect("no panic").expect("it ends");
    });
}

#[test]
fn every_task_of_network_policy_recovers_from_a_panic_or_ends_the_process() {
    with_maps(async |pins, _| {
        let supervisor = Supervisor::new();
        let (api, end) = (Api::default(), CancellationToken::new());
        let ((wishes, _wished), (_asks, asked)) = (wishes(), query_channel());
        let run = run(
            api.clients(),
            options(&pins),
            joined(&api, asked, wishes),
            end.clone(),
        );
        let own = supervisor.clone();
        let task = tokio::spawn(async move { own.scope(run).await });
        let maps = Policy::open(&pins).expect("maps");
        let before = settled(&maps, |it| it.endpoints == 6).await;
        let until = async |what: &str, holds: &dyn Fn() -> bool| {
            let until = Instant::now() + LONG;
            while !holds() {
                assert!(Instant::now() < until, "never came: {what}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let mut names = supervisor.names();
        // The API that is not one serves no ClusterNetworkPolicies, and is asked again.
        let essential = ["device-follower", "policy-admission"];
        names.retain(|name| !essential.contains(name));
        assert_eq!(
            names,
            [
                "cluster-policy-discovery",
                "policy-node-condition",
                "reflector"
            ]
        );
        for (number, name) in (1..).zip(names) {
            let count = supervisor.panic(name);
            assert!(count > 0, "{name}");
            until(name, &|| supervisor.restarts(name) >= count as u64).await;
            until(name, &|| supervisor.unhealthy().is_empty()).await;
            assert_eq!(supervisor.failure(), None, "{name}");
            // Pods that come and go are in the maps and out of them.
            let watched = || {
                let watchers = api.watchers.lock().expect("not poisoned");
                watchers.iter().any(|it| !it.is_closed())
            };
            until("a watch of pods", &watched).await;
            let pod = pod(4 * number);
            api.tell("ADDED", &pod);
            settled(&maps, |it| it.endpoints > before.endpoints).await;
            api.tell("DELETED", &pod);
            settled(&maps, |it| it == before).await;
        }
        assert!(!task.is_finished());
        for (number, name) in (0..).zip(essential) {
            assert_eq!(supervisor.failure().is_some(), number > 0);
            assert_eq!(supervisor.panic(name), 1, "{name}");
            until(name, &|| {
                let health = supervisor.health();
                let failed = health.iter().find(|task| task.name == name);
                failed.is_some_and(|task| task.state == State::Failed)
            })
            .await;
        }
        let first = supervisor.failure().expect("the process ends");
        assert_eq!(first.task, essential[0]);
        end.cancel();
        task.await.expect("no panic").expect("it ends");
    });
}

fn joined(
    node: &Api,
    asked: mpsc::Receiver<PolicyQuery>,
    wishes: DatapathRequestSender,
) -> PolicyContext {
    let gate = gate();
    let informers = Informers::new(node.client(), "n", NodeScope::All);
    PolicyContext {
        nodes: informers.subscribe(),
        slices: informers.subscribe(),
        asked,
        gate,
        wishes,
        pod_ranges: watch::channel(Vec::new()).1,
        metrics: GraceMetrics::default(),
    }
}

fn options(pins: &Path) -> PolicyOptions {
    PolicyOptions {
        node: "n".to_owned(),
        pin_dir: pins.to_owned(),
        dns: Vec::new(),
        tunnel: None,
        asked_at: None,
    }
}

/// Does something with maps that are loaded and pinned, if this machine can.
fn with_maps(work: impl AsyncFnOnce(PathBuf, &mut Engine)) {
    let Some(machine) = Machine::new() else {
        return;
    };
    let pins = machine.pins();
    let options = DatapathOptions {
        cgroup: machine.cgroup.clone(),
        pin_dir: pins.clone(),
        object: node_agent_datapath::embedded_object!(),
        capacity: Capacity::default(),
        tc: TcWay::Auto,
        recording: node_agent_datapath::RecordingOptions::default(),
    };
    let plan = node_agent_plan::Config::default();
    let mut engine = Engine::open(&options, plan).expect("the datapath");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(work(pins.clone(), &mut engine));
    drop(engine);
    node_agent_datapath::remove(&pins).expect("nothing is left");
    local_api::remove_at(&socket(&pins)).expect("no socket is left");
    forget(&pins);
}

async fn churn(pins: PathBuf, count: u32) {
    let (api, end) = (Api::default(), CancellationToken::new());
    let ((wishes, _wished), (_asks, asked)) = (wishes(), query_channel());
    let task = tokio::spawn(run(
        api.clients(),
        options(&pins),
        joined(&api, asked, wishes),
        end.clone(),
    ));
    let maps = Policy::open(&pins).expect("maps");
    let before = settled(&maps, |it| it.endpoints == 6).await;

    let stop = Arc::new(AtomicBool::new(false));
    let prober = std::thread::spawn({
        let (pins, stop) = (pins.clone(), Arc::clone(&stop));
        move || probe(&pins, &stop)
    });
    let (sent, seen) = channel::channel();
    let (says, said) = channel::channel();
    // The task, and all that it asks, are on this thread.
    let own = Arc::new(Queued::of_this());
    let looker = std::thread::spawn({
        let (pins, own) = (pins.clone(), Arc::clone(&own));
        move || {
            let lookers = Arc::new(Queued::of_this());
            says.send(Arc::clone(&lookers)).expect("somebody listens");
            look(&pins, &[own, lookers], seen)
        }
    });
    let queued = [own, said.recv().expect("it says")];
    let begun = tokio::time::Instant::now();
    let mut most = before;
    for number in 0..count + ALIVE {
        tokio::time::sleep_until(begun + Duration::from_secs(1) * number / RATE).await;
        if number < count {
            let pod = pod(number);
            let told = Told {
                number,
                queued: [0, 1].map(|it: usize| queued[it].until_now()),
                at: Instant::now(),
            };
            sent.send(told).expect("somebody looks");
            api.tell("ADDED", &pod);
        }
        if let Some(old) = number.checked_sub(ALIVE) {
            api.tell("DELETED", &pod(old));
        }
        if number % 500 == 499 {
            let now = maps.entries().expect("entries");
            most.verdicts = most.verdicts.max(now.verdicts);
            most.rules = most.rules.max(now.rules);
        }
    }
    drop(sent);
    let took = tokio::task::spawn_blocking(move || looker.join())
        .await
        .expect("no panic")
        .expect("all are found");
    // What came went.
    settled(&maps, |it| it == before).await;
    stop.store(true, Ordering::Relaxed);
    let (asked, wrong) = prober.join().expect("no panic");
    end.cancel();
    task.await.expect("no panic").expect("it ends");

    assert_eq!(wrong, Vec::<String>::new());
    assert!(asked > 100, "{asked}");
    assert_eq!((most.verdicts, most.rules), (before.verdicts, before.rules));
    let mut all: Vec<_> = took.iter().map(|it| it.all).collect();
    let mut own: Vec<_> = took.iter().map(|it| it.all - it.queued).collect();
    let parts = |them: &mut [Duration]| {
        them.sort_unstable();
        let at = |part: usize| them[(them.len() - 1) * part / 1_000];
        format!(
            "p50 {:?}, p99 {:?}, p99.9 {:?}, worst {:?}",
            at(500),
            at(990),
            at(999),
            at(1_000)
        )
    };
    eprintln!(
        "{count} pods at {RATE}/s: event to maps {}\nwithout waits for a processor: {}\n{asked} \
         probes, none wrong; {before:?}",
        parts(&mut all),
        parts(&mut own),
    );
}

//! Every kind of Service address, from everywhere, over every path: two nodes with
//! their programs, their pods, and a client outside, in network namespaces.
//!
//! `ORLOP_MATRIX` selects the questions whose line contains it; with
//! `ORLOP_MATRIX_EACH_KIND`, one is asked of each kind, for slow machines.
//!
//! What is expected comes from `matrix/rules.rs`, which knows Kubernetes and
//! nothing of the plan.

#[path = "matrix/offload.rs"]
mod offload;
#[path = "matrix/probe.rs"]
mod probe;
#[path = "matrix/rules.rs"]
mod rules;
#[path = "matrix/world.rs"]
mod world;

use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ebpf_abi::{Counter, DirectReturn};
use node_agent_datapath::XdpMode;
use node_agent_plan::{EndpointSlice, Pod, Service};
use probe::Outcome;
use rules::{
    Cell, ENDPOINTS, Endpoints, Expected, FRONTS, Family, Front, Node, POLICIES, Path, Policy,
    Protocol, Seen, Source, cells,
};
use serde_json::{Value, json};
use world::{BACKEND, POD, World, lan, pod};

const PORT: u16 = 80;
const HOST_PORT: u16 = 7070;
/// How many ask at once. Most wait for silence.
const ASKING: usize = 48;
/// How long silence is waited for, and how long an answer, on a busy machine.
const SILENCE: Duration = Duration::from_millis(1_100);
const PATIENCE: Duration = Duration::from_secs(20);

/// The Service of a front: its number.
fn number(front: Front, policy: Policy, endpoints: Endpoints, direct: bool) -> u8 {
    let front = match front {
        Front::Loopback => Front::NodePort,
        other => other,
    };
    let place = |found: Option<usize>| u8::try_from(found.expect("listed")).expect("few");
    let front = place(FRONTS.iter().position(|it| *it == front));
    let policy = place(POLICIES.iter().position(|it| *it == policy));
    let endpoints = place(ENDPOINTS.iter().position(|it| *it == endpoints));
    1 + ((front * 2 + policy) * 4 + endpoints) * 2 + u8::from(direct)
}

fn address(range: &str, family: Family, number: u8) -> IpAddr {
    let text = match (range, family) {
        ("cluster", Family::V4) => format!("10.96.0.{number}"),
        ("cluster", Family::V6) => format!("fd00:96::{number}"),
        ("balancer", Family::V4) => format!("203.0.113.{number}"),
        ("balancer", Family::V6) => format!("2001:db8:113::{number}"),
        (_, Family::V4) => format!("198.51.100.{number}"),
        (_, Family::V6) => format!("2001:db8:51::{number}"),
    };
    text.parse().expect("an address")
}

fn both(range: &str, number: u8) -> [IpAddr; 2] {
    [Family::V4, Family::V6].map(|family| address(range, family, number))
}

fn is_direct(path: Path) -> bool {
    matches!(path, Path::DirectTunnel | Path::DirectLink)
}

fn destination(cell: &Cell) -> SocketAddr {
    let number = number(
        cell.front,
        cell.policy,
        cell.endpoints,
        is_direct(cell.path),
    );
    let family = cell.family;
    match cell.front {
        Front::ClusterIp => (address("cluster", family, number), PORT),
        Front::LoadBalancer => (address("balancer", family, number), PORT),
        Front::ExternalIp => (address("external", family, number), PORT),
        Front::NodePort => (lan(family, 1), 30_000 + u16::from(number)),
        Front::Loopback => (IpAddr::from([127, 0, 0, 1]), 30_000 + u16::from(number)),
        Front::HostPort => (lan(family, 1), HOST_PORT),
    }
    .into()
}

fn ports(number: u16) -> Value {
    ["TCP", "UDP"]
        .map(|protocol| json!({ "name": protocol, "protocol": protocol, "port": number }))
        .to_vec()
        .into()
}

fn service(front: Front, policy: Policy, endpoints: Endpoints, direct: bool) -> (String, Value) {
    let number = number(front, policy, endpoints, direct);
    let name = format!("s{number}");
    let mut spec = json!({
        "type": match front {
            Front::NodePort => "NodePort",
            Front::LoadBalancer => "LoadBalancer",
            _ => "ClusterIP",
        },
        "clusterIPs": both("cluster", number),
        "internalTrafficPolicy": "Cluster",
        "ports": ports(PORT),
    });
    let policy = format!("{policy:?}");
    match front {
        Front::ClusterIp => spec["internalTrafficPolicy"] = policy.into(),
        _ => spec["externalTrafficPolicy"] = policy.into(),
    }
    if matches!(front, Front::NodePort | Front::LoadBalancer) {
        for port in spec["ports"].as_array_mut().expect("ports") {
            port["nodePort"] = (30_000 + u16::from(number)).into();
        }
    }
    if front == Front::ExternalIp {
        spec["externalIPs"] = json!(both("external", number));
    }
    let ingress: Vec<_> = both("balancer", number)
        .iter()
        .filter(|_| front == Front::LoadBalancer)
        .map(|ip| json!({ "ip": ip, "ipMode": "VIP" }))
        .collect();
    let annotations = if direct {
        json!({
            "orlop.dev/direct-return": "true",
            "orlop.dev/load-balancing": "maglev",
        })
    } else {
        json!({ "orlop.dev/direct-return": "false" })
    };
    let object = json!({
        "metadata": { "name": name, "namespace": "default", "annotations": annotations },
        "spec": spec,
        "status": { "loadBalancer": { "ingress": ingress } },
    });
    (name, object)
}

fn slice(service: &str, endpoints: Endpoints, family: Family) -> (String, Value) {
    let nodes: &[u8] = match endpoints {
        Endpoints::Here => &[1],
        Endpoints::Elsewhere => &[2],
        Endpoints::Both => &[1, 2],
        Endpoints::Nowhere => &[],
    };
    let name = format!("{service}-{family:?}").to_lowercase();
    let object = json!({
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": { "kubernetes.io/service-name": service },
        },
        "addressType": if family == Family::V4 { "IPv4" } else { "IPv6" },
        "endpoints": nodes.iter().map(|node| json!({
            "addresses": [pod(family, *node, BACKEND)],
            "conditions": { "ready": true },
            "nodeName": format!("node-{node}"),
        })).collect::<Vec<_>>(),
        "ports": ports(probe::TARGET),
    });
    (name, object)
}

/// Both nodes learn of all objects.
fn program(world: &mut World) {
    let ports = ["TCP", "UDP"].map(|protocol| {
        json!({
            "containerPort": probe::TARGET, "hostPort": HOST_PORT, "protocol": protocol,
        })
    });
    let addresses = [Family::V4, Family::V6].map(|it| json!({ "ip": pod(it, 1, BACKEND) }));
    let owner: Pod = serde_json::from_value(json!({
        "metadata": { "name": "owner", "namespace": "default" },
        "spec": { "containers": [{ "ports": ports }] },
        "status": {
            "phase": "Running",
            "podIPs": addresses,
        },
    }))
    .expect("a pod");
    for node in [Node::One, Node::Two] {
        let engine = world.engine(node);
        for front in [
            Front::ClusterIp,
            Front::NodePort,
            Front::LoadBalancer,
            Front::ExternalIp,
        ] {
            for policy in POLICIES {
                for endpoints in ENDPOINTS {
                    for direct in [false, true] {
                        let (name, object) = service(front, policy, endpoints, direct);
                        let object: Service = serde_json::from_value(object).expect("a Service");
                        engine
                            .on_service_change("default", &name, Some(&object))
                            .expect("applied");
                        for family in [Family::V4, Family::V6] {
                            let (slice, object) = slice(&name, endpoints, family);
                            let object: EndpointSlice =
                                serde_json::from_value(object).expect("a slice");
                            engine
                                .on_slice_change("default", &slice, Some(&object))
                                .expect("applied");
                        }
                    }
                }
            }
        }
        if node == Node::One {
            engine
                .on_pod_change("default", "owner", Some(&owner))
                .expect("applied");
        }
        engine.resync().expect("written");
        let problems: Vec<_> = engine.planner().problems().collect();
        assert!(problems.is_empty(), "{problems:?}");
    }
}

/// Addresses that a backend may see.
fn seen(cell: &Cell, seen: Seen) -> Vec<IpAddr> {
    let family = cell.family;
    let itself = match cell.source {
        Source::Pod1 => pod(family, 1, POD),
        Source::Backend1 => pod(family, 1, BACKEND),
        Source::Host1 => lan(family, 1),
        Source::Pod2 => pod(family, 2, POD),
        Source::Host2 => lan(family, 2),
        Source::Client => lan(family, 10),
    };
    let node = match cell.applied_to() {
        Node::One => lan(family, 1),
        Node::Two => lan(family, 2),
    };
    match seen {
        Seen::Itself => vec![itself],
        Seen::Node => vec![node],
        Seen::Either => vec![itself, node],
    }
}

fn fits(cell: &Cell, outcome: &Result<Outcome, String>) -> bool {
    match (cell.expected(), outcome) {
        (Expected::Answer(nodes, whom), Ok(Outcome::Answer(node, client))) => {
            nodes.contains(node) && seen(cell, whom).contains(client)
        }
        (Expected::Refused, Ok(Outcome::Refused)) => true,
        (Expected::Dropped, Ok(Outcome::Silence)) => !cell.is_by_socket(),
        // A hook's only way not to let a socket go on.
        (Expected::Dropped, Ok(Outcome::Refused)) => cell.is_by_socket(),
        _ => false,
    }
}

/// Asks all cells' questions, many at once; rows of those that came out wrong.
fn run(world: &World, cells: &[Cell]) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..ASKING.min(cells.len()) {
            scope.spawn(|| {
                while let Some(cell) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
                    world.space(cell.source).enter();
                    let patience = match cell.expected() {
                        Expected::Dropped => SILENCE,
                        _ => PATIENCE,
                    };
                    let outcome = probe::ask(destination(cell), cell.protocol, patience);
                    if !fits(cell, &outcome) {
                        let expected = cell.expected();
                        let to = destination(cell);
                        let row = format!("{cell} ({to}): expected {expected:?}, got {outcome:?}");
                        failed.lock().expect("rows").push((*cell, row));
                    }
                }
            });
        }
    });
    let tracked = world.flows();
    let mut failed: Vec<String> = failed
        .into_inner()
        .expect("rows")
        .into_iter()
        .map(|(cell, row): (Cell, String)| {
            let to = destination(&cell).to_string();
            let its = tracked.iter().filter(|line| line.contains(&to));
            its.fold(row, |row, line| format!("{row}\n  {line}"))
        })
        .collect();
    failed.sort();
    failed
}

fn counted(world: &World, node: Node, counter: Counter) -> u64 {
    let counters = world.machines[node as usize].engine.datapath().counters();
    let mut counters = counters.expect("counters").into_iter();
    counters.find(|(it, _)| *it == counter).expect("counted").1
}

/// Connections to a remote backend, one after the other: how many packets of
/// theirs the driver's program left to those behind it, and how many it sent.
fn driver_sends(world: &World) {
    let cell = Cell {
        path: Path::Xdp,
        front: Front::LoadBalancer,
        policy: Policy::Cluster,
        endpoints: Endpoints::Elsewhere,
        source: Source::Client,
        family: Family::V4,
        protocol: Protocol::Tcp,
    };
    let passed = |world: &World| counted(world, Node::One, Counter::XdpPassed);
    let sent = |world: &World| {
        counted(world, Node::One, Counter::PacketTranslated)
            + counted(world, Node::One, Counter::ReplyTranslated)
    };
    let (passed_before, sent_before) = (passed(world), sent(world));
    for _ in 0..16 {
        assert_eq!(run(world, &[cell]), [""; 0]);
    }
    let passed = passed(world) - passed_before;
    let sent = sent(world) - sent_before;
    assert!(sent >= 16 * 6, "{sent} packets of 16 connections");
    assert!(
        passed <= 16,
        "the driver's program left {passed} of {sent} packets to others"
    );
}

/// A pod of node-2 talks from one port to one backend of node-1 in two ways: at
/// node-1's node port, which node-1 translates, and straight.
fn two_ways_from_one_port(world: &World) {
    for family in [Family::V4, Family::V6] {
        for policy in POLICIES {
            let number = number(Front::NodePort, policy, Endpoints::Here, false);
            let to = [
                (lan(family, 1), 30_000 + u16::from(number)).into(),
                (pod(family, 1, BACKEND), probe::TARGET).into(),
            ];
            let answers = world
                .space(Source::Pod2)
                .run(|| probe::ask_each(&to, PATIENCE));
            let client = pod(family, 2, POD);
            assert_eq!(
                answers,
                [(); 2].map(|()| Ok(Outcome::Answer(Node::One, client))),
                "{to:?}"
            );
        }
    }
}

#[test]
fn every_address_answers_as_kubernetes_says() {
    let Some(mut world) = World::new(true) else {
        return;
    };
    let addresses = |node| [Family::V4, Family::V6].map(|family| pod(family, node, BACKEND));
    probe::serve(&world.backends[0], Node::One, addresses(1));
    probe::serve(&world.backends[1], Node::Two, addresses(2));
    program(&mut world);
    let only = std::env::var("ORLOP_MATRIX").unwrap_or_default();
    let each_kind = std::env::var_os("ORLOP_MATRIX_EACH_KIND").is_some();
    let mut failed = Vec::new();
    let mut asked = 0;
    for path in rules::PATHS {
        let (xdp, direct) = match path {
            Path::Socket | Path::Packets => (XdpMode::Off, DirectReturn::NONE),
            Path::Xdp => (XdpMode::Native, DirectReturn::NONE),
            Path::DirectTunnel => (XdpMode::Off, DirectReturn::IPIP),
            Path::DirectLink => (XdpMode::Off, DirectReturn::LINK),
        };
        world.configure(xdp, direct);
        let start = std::time::Instant::now();
        let mut cells = cells(path);
        if each_kind {
            cells = rules::one_of_each_kind(cells);
        }
        let groups: &[Option<Node>] = match path {
            Path::Socket => &[Some(Node::One), Some(Node::Two)],
            _ => &[None],
        };
        let mut of_path = 0;
        for group in groups {
            world.belong(*group);
            let mut some: Vec<Cell> = cells
                .iter()
                .filter(|cell| match group {
                    None => true,
                    Some(node) => node_of(cell.source) == *node,
                })
                .filter(|cell| cell.to_string().contains(&only))
                .copied()
                .collect();
            // Who waits for silence goes first.
            some.sort_by_key(|cell| cell.expected() != Expected::Dropped);
            of_path += some.len();
            failed.extend(run(&world, &some));
        }
        world.belong(None);
        if path == Path::Packets && only.is_empty() {
            two_ways_from_one_port(&world);
        }
        if path == Path::Xdp && only.is_empty() && failed.is_empty() {
            driver_sends(&world);
        }
        println!("{path:?}: {of_path} cells in {:?}", start.elapsed());
        asked += of_path;
    }
    for row in &failed {
        println!("{row}");
    }
    assert!(failed.is_empty(), "{} of {asked} cells", failed.len());
    assert!(asked > 0 && (asked > 1_000 || each_kind || !only.is_empty()));
}

fn node_of(source: Source) -> Node {
    match source {
        Source::Pod2 | Source::Host2 => Node::Two,
        _ => Node::One,
    }
}

//! Connections of real sockets and packets, and what is said of them before
//! (`trace`) and afterwards (`Flows`): a client, the node, and another node.

#[path = "connections/wire.rs"]
mod wire;

mod host;

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};

use aya::maps::{Array, Map, MapData};
use ebpf_abi::{
    Address, ChecksummedValue, Config, Counter, FlowPort, FlowPorts, Life, Port, Protocol,
    Timeouts, maps,
};
use host::{Host, Server, ask_tcp, put_service, put_slice, service, slice};
use node_agent_datapath::{
    Capacity, Decision, EndpointChoice, Engine, Flows, InstalledPins, Loads, Options, PathKind,
    Patterns, ProgramWalk, Question, Retirement, TableLoad, Trace, TraceFrom, trace,
};
use node_agent_plan::{
    Affinity, LoadBalancerIngress, LoadBalancerStatus, NodeAddress, NodeFacts, Service,
    ServiceStatus,
};
use wire::{Machine, ask_from, ip};

const CLIENT: &str = "198.51.100.9";
const NODE: &str = "198.51.100.1";
const LOCAL_POD: &str = "10.244.1.2";
const REMOTE_POD: &str = "10.244.2.2";

struct World {
    // In the order in which it ends.
    client: Machine,
    _servers: Vec<Server>,
    other: Machine,
    _pod: Machine,
    engine: Engine,
    host: Host,
}

impl World {
    fn new() -> Option<Self> {
        Self::of_size(Capacity::default())
    }

    fn of_size(capacity: Capacity) -> Option<Self> {
        let host = Host::new()?;
        // What `/proc/sys/net` shows is the reader's own namespace.
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
        let client = Machine::new("client0", NODE, CLIENT);
        let other = Machine::new("other0", "192.0.2.1", "192.0.2.2");
        ip(&format!("route add {REMOTE_POD} via 192.0.2.2"));
        let remote = other.run(|| {
            ip(&format!("addr add {REMOTE_POD}/32 dev lo"));
            Server::start(&format!("{REMOTE_POD}:8080"))
        });
        let pod = Machine::new("veth0", "10.244.1.1", LOCAL_POD);
        let local = pod.run(|| Server::start(&format!("{LOCAL_POD}:8080")));
        let servers = vec![local, remote];
        let own = |address: [u8; 4]| NodeAddress {
            address: address.into(),
            ports: true,
        };
        let options = Options {
            capacity,
            ..host.options()
        };
        let mut engine = Engine::open(&options, Host::config()).unwrap();
        engine.resync().unwrap();
        engine
            .configure(&Config {
                node_v4: Address::v4([192, 0, 2, 1]),
                // Equal choices in each run.
                seed: 7,
                // No connection is over before a test is, however slow.
                timeouts: Timeouts {
                    udp_unreplied: 3_600,
                    udp_replied: 3_600,
                    ..Timeouts::DEFAULT
                },
                ..Config::DEFAULT
            })
            .unwrap();
        engine
            .set_node(NodeFacts {
                addresses: vec![own([198, 51, 100, 1]), own([192, 0, 2, 1])],
                inside: vec!["10.244.0.0/16".parse().unwrap()],
                ..NodeFacts::default()
            })
            .unwrap();
        engine
            .follow_devices(
                &[client.device(), other.device(), pod.device()],
                &Patterns::default(),
            )
            .unwrap();
        assert_eq!(engine.datapath().attachments().len(), 6);
        Some(Self {
            client,
            _servers: servers,
            other,
            _pod: pod,
            engine,
            host,
        })
    }

    /// A Service with node port and, unless it is to have none, both pods behind it.
    fn put(&mut self, name: &str, number: u8, endpoints: bool, change: impl Fn(&mut Service)) {
        let mut it = service(name, &[&format!("10.96.0.{number}")], 80);
        it.spec.kind = Some("NodePort".into());
        it.spec.ports[0].node_port = Some(30_000 + i64::from(number));
        change(&mut it);
        put_service(&mut self.engine, &it);
        if endpoints {
            let local = slice(&format!("{name}-l"), name, &[LOCAL_POD], 8080);
            let mut remote = slice(&format!("{name}-r"), name, &[REMOTE_POD], 8080);
            remote.endpoints[0].node_name = Some("node-2".into());
            put_slice(&mut self.engine, &local);
            put_slice(&mut self.engine, &remote);
        }
    }

    fn trace(&self, client: &str, port: Option<u16>, asked: SocketAddr) -> Trace {
        let question = Question {
            client: client.parse().unwrap(),
            client_port: port,
            asked,
            protocol: Protocol::TCP,
            from: None,
        };
        let trace = trace(&self.host.pin_dir, &question).unwrap();
        println!("{trace}");
        trace
    }

    /// What the client's packet will meet.
    fn foretold(&self, port: u16, asked: SocketAddr) -> ProgramWalk {
        let trace = self.trace(CLIENT, Some(port), asked);
        assert_eq!(trace.from, TraceFrom::Outside);
        assert_eq!(trace.walks.len(), 1);
        assert_eq!(trace.walks[0].path, PathKind::Packet);
        trace.walks[0].clone()
    }

    /// The client asks, from a port; its sockets are no one's of this node.
    fn ask(&self, port: u16, asked: SocketAddr) -> std::io::Result<SocketAddr> {
        self.host.within_reach(false);
        let answer = self
            .client
            .run(move || ask_from(port, asked).map(|(server, _)| server));
        self.host.within_reach(true);
        answer
    }

    fn counted(&self, counter: Counter) -> u64 {
        let all = self.engine.datapath().counters().unwrap();
        all.iter().find(|(it, _)| *it == counter).unwrap().1
    }
}

fn node(port: u16) -> SocketAddr {
    SocketAddr::new(NODE.parse().unwrap(), port)
}

fn place(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// The tick of the programs' clock, so many nanoseconds from now. A test machine never
/// sleeps, so the time since its start is that clock.
fn tick(from_now: i64) -> i64 {
    let text = std::fs::read_to_string("/proc/uptime").unwrap();
    let seconds: f64 = text.split(' ').next().unwrap().parse().unwrap();
    ((seconds * 1e9) as i64 + from_now) >> Life::TICK
}

/// What a packet will do is known beforehand, down to the port under which the
/// client is shown, and is found among the connections afterwards.
#[test]
fn packets_do_what_was_foretold_and_are_listed_as_they_went() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.put("web", 7, true, |_| {});
    world.put("hashed", 8, true, |it| {
        let maglev = ("orlop.dev/load-balancing".to_owned(), "maglev".to_owned());
        it.metadata.annotations.extend([maglev]);
    });
    let mut replaced = 0;
    let mut replaced_as_foretold = 0;
    for (asked, how) in [
        (node(30_007), EndpointChoice::Hash),
        (place("10.96.0.7:80"), EndpointChoice::Hash),
        (node(30_008), EndpointChoice::Maglev),
    ] {
        let mut servers = BTreeSet::new();
        for port in 41_000..41_012 {
            let client = SocketAddr::new(CLIENT.parse().unwrap(), port);
            let is_replaced = |it: &ProgramWalk| {
                let shown = it.shown_as.unwrap_or(client);
                shown.ip() == client.ip() && shown != client
            };
            if is_replaced(&world.foretold(port, asked)) {
                // The search for another port begins elsewhere in each tick: have a whole one.
                let now = tick(0);
                until(|| tick(-20_000_000) > now);
            }
            // The programs' clock and this one may each be a jiffy late.
            let began = tick(-20_000_000);
            let before = world.foretold(port, asked);
            assert_eq!(before.chosen_by, Some(how), "{before:?}");
            let server = world.ask(port, asked).unwrap();
            let within_a_tick = began == tick(20_000_000);
            assert_eq!(before.endpoint, Some(server), "{asked} from {port}");
            servers.insert(server);
            let flows = Flows::open(&world.host.pin_dir).unwrap();
            let found: Vec<_> = flows.list().unwrap();
            let its: Vec<_> = found
                .iter()
                .filter(|it| it.client == client && it.service == asked)
                .collect();
            assert_eq!(its.len(), 1, "{found:?}");
            let shown = before.shown_as.unwrap_or(client);
            assert_eq!(its[0].backend, server);
            // The same client port at the same backend through another service.
            let is_replaced = is_replaced(&before);
            replaced += usize::from(is_replaced);
            if is_replaced && !within_a_tick {
                assert_eq!(its[0].shown_as.ip(), client.ip());
                assert_ne!(its[0].shown_as, client);
            } else {
                assert_eq!(its[0].shown_as, shown);
                replaced_as_foretold += usize::from(is_replaced);
            }
            assert_eq!(its[0].local, server.ip().to_string() == LOCAL_POD);
            // A client outside is shown as the node to who is elsewhere, and at a
            // cluster IP to all.
            let masked = !its[0].local || asked.port() == 80;
            assert_eq!(shown.ip() != client.ip(), masked, "{before:?}");
            let device = if its[0].local { "veth0" } else { "other0" };
            let route = before.route.and_then(|it| it.name);
            assert_eq!(route.as_deref(), Some(device));
        }
        assert_eq!(servers.len(), 2, "both are asked: {servers:?}");
    }
    assert!(
        replaced_as_foretold > 0,
        "no two services led one client port to one pod within a tick: {replaced}"
    );
    assert_eq!(world.counted(Counter::PortReplaced), replaced as u64);
}

/// `orlop conntrack`: what is listed, what is forgotten, and that nothing else is.
#[test]
fn connections_are_listed_and_forgotten_one_by_one() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.put("web", 7, true, |_| {});
    let asked = node(30_007);
    // A connection that goes on.
    world.host.within_reach(false);
    let stays = world.client.run(move || ask_from(42_000, asked).unwrap());
    world.host.within_reach(true);
    world.ask(42_001, asked).unwrap();
    let flows = Flows::open(&world.host.pin_dir).unwrap();
    let list = || {
        let mut ports: Vec<_> = flows
            .list()
            .unwrap()
            .iter()
            .map(|it| it.client.port())
            .collect();
        ports.sort_unstable();
        ports
    };
    assert_eq!(list(), [42_000, 42_001]);
    let all = flows.list().unwrap();
    assert!(all.iter().all(|it| it.service == asked && !it.direct));
    // Through the hooks of sockets there is no connection of packets.
    ask_tcp("10.96.0.7:80").unwrap();
    assert_eq!(list(), [42_000, 42_001]);
    let gone = all.iter().find(|it| it.client.port() == 42_001).unwrap();
    flows.forget(gone).unwrap();
    assert_eq!(list(), [42_000]);
    // Forgotten, its number is free for a new one; the other is as it was.
    world.ask(42_001, asked).unwrap();
    assert_eq!(list(), [42_000, 42_001]);
    let known = world.foretold(42_000, asked);
    assert_eq!(known.chosen_by, Some(EndpointChoice::Flow));
    assert_eq!(known.endpoint, Some(stays.0));
}

/// `orlop node-agent uninstall`: established connections go on while new ones are left to
/// others, and afterwards nothing is left at all.
#[test]
fn a_datapath_that_retires_serves_what_it_knows_and_nothing_new() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.put("web", 7, true, |_| {});
    let asked = node(30_007);
    world.host.within_reach(false);
    let echo = world.other.run(|| {
        let listener = TcpListener::bind((REMOTE_POD, 8081)).unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut copy = stream.try_clone().unwrap();
            let _ = std::io::copy(&mut copy, &mut stream);
        })
    });
    let mut it = service("echo", &["10.96.0.8"], 80);
    it.spec.kind = Some("NodePort".into());
    it.spec.ports[0].node_port = Some(30_008);
    put_service(&mut world.engine, &it);
    put_slice(
        &mut world.engine,
        &slice("echo-r", "echo", &[REMOTE_POD], 8081),
    );
    let (stream, wait) = world.client.run(|| {
        let stream = std::net::TcpStream::connect(node(30_008)).unwrap();
        let patience = Some(std::time::Duration::from_secs(5));
        stream.set_read_timeout(patience).unwrap();
        (stream, ask_from(44_000, node(30_007)).unwrap())
    });
    drop(wait);
    let say = |mut stream: &std::net::TcpStream, word: &[u8; 4]| {
        use std::io::{Read, Write};
        stream.write_all(word).unwrap();
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, word);
    };
    say(&stream, b"here");
    let pin_dir = world.host.pin_dir.clone();
    let devices = world.engine.datapath().attachments().len();
    let installed = InstalledPins::find(&pin_dir).unwrap().unwrap();
    assert!(installed.in_use);
    assert_eq!(
        (installed.socket_hooks.len(), installed.devices.len()),
        (10, devices)
    );
    assert!(matches!(
        Retirement::begin(&pin_dir),
        Err(node_agent_datapath::Error::Busy { .. })
    ));
    let World {
        client,
        _servers,
        other,
        _pod,
        engine,
        host,
    } = world;
    drop(engine);
    assert!(
        !InstalledPins::find(&pin_dir).unwrap().unwrap().in_use,
        "frozen"
    );

    let retirement = Retirement::begin(&pin_dir).unwrap().unwrap();
    until(|| retirement.open_connections().unwrap() == 1);
    assert!(retirement.refuse_new_connections().unwrap() > 0);
    say(&stream, b"then");
    let refused = client.run(move || ask_from(44_001, asked).map(|(server, _)| server));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    host.within_reach(true);
    let patience = std::time::Duration::from_millis(300);
    let vip = place("10.96.0.7:80");
    assert!(std::net::TcpStream::connect_timeout(&vip, patience).is_err());
    say(&stream, b"last");
    drop(stream);
    until(|| retirement.open_connections().unwrap() == 0);

    retirement.finish().unwrap();
    assert_eq!(InstalledPins::find(&pin_dir).unwrap(), None);
    assert!(!pin_dir.exists());
    assert!(Retirement::begin(&pin_dir).unwrap().is_none());
    let shown = std::process::Command::new("tc")
        .args(["qdisc", "show"])
        .output()
        .unwrap();
    assert!(!String::from_utf8_lossy(&shown.stdout).contains("clsact"));
    assert_eq!(other.run(|| 1), 1);
    let _ = echo.join();
}

#[test]
fn refusals_and_drops_are_foretold_with_their_reason() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.put("empty", 9, false, |_| {});
    world.put("guarded", 10, true, |it| {
        it.spec.kind = Some("LoadBalancer".into());
        it.spec.load_balancer_source_ranges = vec!["203.0.113.0/24".into()];
        it.status = ServiceStatus {
            load_balancer: LoadBalancerStatus {
                ingress: vec![LoadBalancerIngress {
                    ip: Some("203.0.113.80".into()),
                    ip_mode: None,
                }],
            },
        };
    });
    // Nobody serves: the client is told, as is a process of the node.
    let before = world.foretold(43_000, node(30_009));
    assert_eq!(before.decision, Decision::Refuse);
    assert_eq!(before.counted, [Counter::PacketRefused.label()]);
    let error = world.ask(43_000, node(30_009)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    let inside = world.trace(NODE, None, place("10.96.0.9:80"));
    assert_eq!(inside.from, TraceFrom::Host);
    assert_eq!(inside.walks.len(), 1);
    assert_eq!(
        inside.walks[0].counted,
        [Counter::RefusedNoEndpoint.label()]
    );
    let error = ask_tcp("10.96.0.9:80").unwrap_err();
    assert_eq!(inside.walks[0].errno, error.raw_os_error());
    // Out of the source ranges: dropped, and counted so.
    let guarded = place("203.0.113.80:80");
    let before = world.foretold(43_001, guarded);
    assert_eq!(before.decision, Decision::Drop);
    assert_eq!(before.counted, [Counter::DroppedSource.label()]);
    assert_eq!(before.set.as_deref(), Some("default/guarded:tcp TCP IPv4"));
    assert_eq!(
        world.counted(Counter::DroppedSource),
        0,
        "a trace counts nothing"
    );
    world.host.within_reach(false);
    world.client.run(move || {
        let patience = std::time::Duration::from_millis(200);
        std::net::TcpStream::connect_timeout(&guarded, patience).unwrap_err();
    });
    world.host.within_reach(true);
    until(|| world.counted(Counter::DroppedSource) > 0);
    // No service at all.
    let before = world.foretold(43_002, place("192.0.2.2:9"));
    assert_eq!(before.decision, Decision::Pass);
    assert_eq!((before.set, before.endpoint), (None, None));
}

#[test]
fn calls_of_sockets_are_foretold_and_affinity_with_them() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.put("web", 7, true, |_| {});
    world.put("sticky", 11, true, |it| {
        it.spec.session_affinity = Some(Affinity::ClientIp);
    });
    let both = [LOCAL_POD, REMOTE_POD].map(|ip| place(&format!("{ip}:8080")));
    let call = |world: &World, vip: &str| {
        let trace = world.trace(NODE, None, place(vip));
        // The endpoint's address is in the packet: nothing is left to do there.
        assert_eq!(trace.walks.len(), 1, "{trace:?}");
        assert_eq!(trace.walks[0].path, PathKind::Socket);
        trace.walks[0].clone()
    };
    let walk = call(&world, "10.96.0.7:80");
    assert_eq!(walk.chosen_by, Some(EndpointChoice::Random));
    assert!(walk.endpoint.is_some_and(|it| both.contains(&it)));
    assert_eq!(walk.counted, [Counter::ConnectTranslated.label()]);
    let walk = call(&world, "10.96.0.11:80");
    assert_eq!(
        walk.chosen_by,
        Some(EndpointChoice::Random),
        "nobody was there before"
    );
    let (first, _) = ask_tcp("10.96.0.11:80").unwrap();
    for _ in 0..8 {
        let walk = call(&world, "10.96.0.11:80");
        assert_eq!(
            (walk.chosen_by, walk.endpoint),
            (Some(EndpointChoice::Affinity), Some(first))
        );
    }
    // A pod has both: its sockets, and what else it may send.
    let trace = world.trace(LOCAL_POD, None, place("10.96.0.7:80"));
    assert_eq!(trace.from, TraceFrom::Pod);
    let paths: Vec<_> = trace
        .walks
        .iter()
        .map(|walk| (walk.path, walk.decision))
        .collect();
    assert_eq!(paths.len(), 2);
    assert_eq!(paths[0], (PathKind::Socket, Decision::Translate));
    assert_eq!(paths[1].0, PathKind::Packet);
    // UDP: the socket decides. SCTP has no hook at sockets.
    let question = |protocol| Question {
        client: NODE.parse().unwrap(),
        client_port: None,
        asked: place("10.96.0.7:80"),
        protocol,
        from: None,
    };
    let udp = trace_of(&world, &question(Protocol::UDP));
    assert_eq!(udp.walks[0].chosen_by, Some(EndpointChoice::Socket));
    let sctp = trace_of(&world, &question(Protocol::SCTP));
    assert_eq!(sctp.walks[0].path, PathKind::Packet);
    // No map was written: nothing but the one real connection is remembered.
    assert_eq!(
        Flows::open(&world.host.pin_dir).unwrap().list().unwrap(),
        []
    );
    assert_eq!(world.counted(Counter::ConnectTranslated), 1);
    assert_eq!(world.other.run(|| 1), 1);
}

/// Packets may wait for a processor's turn after they were sent.
fn until(mut what: impl FnMut() -> bool) {
    for _ in 0..3_000 {
        if what() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("not within half a minute");
}

fn trace_of(world: &World, question: &Question) -> Trace {
    trace(&world.host.pin_dir, question).unwrap()
}

/// A process of the node itself behind a Service (`hostNetwork`): the kernel takes no
/// packet from a device that bears the node's own address as its sender.
#[test]
fn a_process_of_the_node_serves_clients_outside_as_they_are() {
    let Some(mut world) = World::new() else {
        return;
    };
    let _server = Server::start("192.0.2.1:8080");
    world.put("own", 13, false, |_| {});
    put_slice(
        &mut world.engine,
        &slice("own-l", "own", &["192.0.2.1"], 8080),
    );
    for (port, asked) in [(46_000, place("10.96.0.13:80")), (46_001, node(30_013))] {
        let before = world.foretold(port, asked);
        assert_eq!(before.shown_as, None, "{asked}");
        assert!(before.route.is_some_and(|it| it.local), "{asked}");
        assert_eq!(world.ask(port, asked).unwrap(), place("192.0.2.1:8080"));
    }
}

/// As programs and tools find it while whoever writes it is held up half way.
#[test]
fn half_written_nobody_goes_by_the_configuration() {
    const VALUE: usize = size_of::<ChecksummedValue<Config>>();
    let Some(mut world) = World::new() else {
        return;
    };
    world.put("web", 1, true, |_| {});
    let pinned = world.host.pin_dir.join(format!("v{}", ebpf_abi::VERSION));
    let [mut now, mut ahead] = [maps::CONFIG, maps::CONFIG_AHEAD].map(|name| {
        let map = Map::from_map_data(MapData::from_pin(pinned.join(name)).unwrap()).unwrap();
        Array::<_, [u8; VALUE]>::try_from(map).unwrap()
    });
    let config = world.engine.datapath().configuration().unwrap();
    assert!(config.is_some());
    let whole = now.get(&0, 0).unwrap();
    assert_eq!(ahead.get(&0, 0).unwrap(), whole);
    let mut half = whole;
    half[VALUE / 2..].fill(7);

    now.set(0, half, 0).unwrap();
    assert_eq!(world.engine.datapath().configuration().unwrap(), config);
    let foretold = world.foretold(40_001, node(30_001));
    assert!(matches!(
        foretold.decision,
        Decision::Translate | Decision::Forward
    ));
    world.ask(40_001, node(30_001)).unwrap();
    let bound = TcpListener::bind("0.0.0.0:30001");
    assert_eq!(bound.unwrap_err().kind(), ErrorKind::AddrInUse);

    // Without, the node is not known.
    ahead.set(0, half, 0).unwrap();
    assert_eq!(world.engine.datapath().configuration().unwrap(), None);
    let asked = world.ask(40_002, node(30_001));
    assert_eq!(asked.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    let bound = TcpListener::bind("0.0.0.0:30001");
    assert!(bound.is_ok(), "{bound:?}");
}

/// As after a build whose programs did not say which ports flows have.
#[test]
fn flows_that_stand_are_found_though_nobody_said_under_which_ports() {
    let Some(mut world) = World::new() else {
        return;
    };
    let pinned = world.host.pin_dir.join(format!("v{}", ebpf_abi::VERSION));
    let pinned = pinned.join(maps::FLOW_PORTS);
    let open = || -> Array<MapData, u64> {
        let map = Map::from_map_data(MapData::from_pin(&pinned).unwrap()).unwrap();
        map.try_into().unwrap()
    };
    let said = || {
        [
            (FlowPort::Asked, 30_001),
            (FlowPort::Answering, 8_080),
            (FlowPort::Asked, 30_999),
        ]
        .map(|(which, port)| {
            let place = FlowPorts::place(which, Protocol::TCP, Port::new(port)).unwrap();
            FlowPorts(open().get(&place.element, 0).unwrap()).may_be(place.byte)
        })
    };
    assert_eq!(said(), [false; 3]);
    world.put("web", 1, true, |_| {});
    world.ask(40_001, node(30_001)).unwrap();
    assert_eq!(said(), [true, true, false]);

    let mut ports = open();
    for element in 0..FlowPorts::ELEMENTS {
        ports.set(element, FlowPorts::NONE.0, 0).unwrap();
    }
    // Other agents take over.
    drop(world.engine);
    let open_engine = || Engine::open(&world.host.options(), Host::config()).unwrap();
    drop(open_engine());
    assert_eq!(said(), [true, true, false], "as the flows that stand say");
    std::fs::remove_file(&pinned).unwrap();
    let _engine = open_engine();
    assert_eq!(said(), [true; 3], "nothing is known");
    world.host.within_reach(false);
    let again = world
        .client
        .run(|| ask_from(40_002, node(30_001)).map(drop));
    world.host.within_reach(true);
    again.unwrap();
}

/// A table of 64 connections: it becomes full, says so, refuses what has no room,
/// and has some again when connections are over.
#[test]
fn a_full_table_is_known_as_full_and_drops_what_is_new_only() {
    const ROOM: u16 = 64;
    let Some(mut world) = World::of_size(Capacity {
        flows: u32::from(ROOM),
        ..Capacity::default()
    }) else {
        return;
    };
    world.put("web", 7, true, |_| {});
    let asked = node(30_007);
    let mut loads = Loads::open(&world.host.pin_dir).unwrap();
    let empty = TableLoad {
        held: 0,
        capacity: u64::from(ROOM),
        lost: 0,
    };
    assert_eq!(loads.look().unwrap(), empty);
    // Connections that stay: datagrams, which need no answer to be one.
    let mut wanted = service("udp", &["10.96.0.12"], 80);
    wanted.spec.kind = Some("NodePort".into());
    wanted.spec.ports[1].node_port = Some(30_012);
    put_service(&mut world.engine, &wanted);
    put_slice(
        &mut world.engine,
        &slice("udp-l", "udp", &[LOCAL_POD], 8080),
    );
    let send = |world: &World, ports: std::ops::Range<u16>| {
        world.host.within_reach(false);
        world.client.run(move || {
            for port in ports {
                let socket = std::net::UdpSocket::bind(("0.0.0.0", port)).unwrap();
                socket.send_to(b"?", node(30_012)).unwrap();
            }
        });
        world.host.within_reach(true);
    };
    send(&world, 44_000..44_000 + ROOM / 2);
    until(|| loads.look().unwrap().held == u64::from(ROOM) / 2);
    send(&world, 44_000 + ROOM / 2..44_000 + ROOM);
    until(|| loads.look().unwrap().held == u64::from(ROOM));
    assert_eq!(loads.look().unwrap().lost, 0);
    // No more: known beforehand, dropped, counted.
    let before = world.foretold(45_000, asked);
    assert_eq!(before.decision, Decision::Drop);
    assert!(
        before.counted.contains(&Counter::DroppedFlowsFull.label()),
        "{before:?}"
    );
    send(&world, 45_000..45_008);
    until(|| loads.look().unwrap().lost == 8);
    assert_eq!(loads.look().unwrap().held, u64::from(ROOM));
    // What is there goes on.
    send(&world, 44_000..44_001);
    assert_eq!(loads.look().unwrap().lost, 8);
    // Commands make room, which the counters do not tell, but the table does.
    let flows = Flows::open(&world.host.pin_dir).unwrap();
    for connection in flows.list().unwrap().iter().take(48) {
        assert!(
            matches!(connection.state, "opening" | "replied"),
            "{connection}"
        );
        flows.forget(connection).unwrap();
    }
    assert_eq!(loads.look().unwrap().held, u64::from(ROOM) - 48);
    world.ask(45_001, asked).unwrap();
    assert_eq!(loads.look().unwrap().held, u64::from(ROOM) - 47);
}

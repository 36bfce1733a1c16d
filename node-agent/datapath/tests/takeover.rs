//! Connections that kube-proxy's kind of rules set up go on when these programs come into
//! force beside them, when the rules are removed, and when the programs go again: clients
//! on the node by the cluster IP and by a node port, and clients on another machine and in a
//! pod. `ORLOP_TAKEOVER_CONNECTIONS` gives another number than 60.

#[allow(dead_code, reason = "each test binary uses another part")]
#[path = "connections/wire.rs"]
mod wire;

mod host;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use ebpf_abi::{Address, Config, ConfigFlags};
use host::{Host, put_service, put_slice, service, slice};
use node_agent_datapath::{Engine, Flows, KernelNat, Patterns, Retirement};
use node_agent_plan::{NodeAddress, NodeFacts};
use rustix::net::sockopt::set_socket_linger;
use wire::{Machine, connect_from, ip};

const NODE: &str = "198.51.100.1";
const CLIENT: &str = "198.51.100.9";
const PODS: [&str; 2] = ["10.244.1.2", "10.244.3.2"];
const CLUSTER_IP: &str = "10.96.0.7:80";
/// A second Service with the same backends, which only kube-proxy's rules know.
const ANOTHER_CLUSTER_IP: &str = "10.96.0.8:80";
const NODE_PORT: u16 = 30_007;

/// What kube-proxy writes in one of its modes, and what removes exactly that.
struct Rules {
    mode: &'static str,
    write: fn(),
    remove: fn(),
}

const MODES: [Rules; 2] = [
    Rules {
        mode: "nftables",
        write: write_nftables,
        remove: || feed("nft", &["delete", "table", "ip", "kube-proxy"], ""),
    },
    Rules {
        mode: "iptables",
        write: write_iptables,
        remove: || feed("nft", &["delete", "table", "ip", "nat"], ""),
    },
];

fn write_nftables() {
    feed(
        "nft",
        &["-f", "-"],
        "table ip kube-proxy {\n\
         chain services {\n\
         ip daddr { 10.96.0.7, 10.96.0.8 } tcp dport 80 goto endpoints\n\
         fib daddr type local tcp dport 30007 meta mark set meta mark or 0x4000 goto endpoints\n\
         }\n\
         chain endpoints {\n\
         numgen random mod 2 vmap { 0 : goto first, 1 : goto second }\n\
         }\n\
         chain first {\n ip saddr 10.244.1.2 meta mark set meta mark or 0x4000\n meta l4proto tcp dnat to 10.244.1.2:8080\n }\n\
         chain second {\n ip saddr 10.244.3.2 meta mark set meta mark or 0x4000\n meta l4proto tcp dnat to 10.244.3.2:8080\n }\n\
         chain output {\n type nat hook output priority -100;\n jump services\n }\n\
         chain prerouting {\n type nat hook prerouting priority -100;\n jump services\n }\n\
         chain postrouting {\n type nat hook postrouting priority 100;\n\
         meta mark & 0x4000 == 0x4000 masquerade\n }\n\
         }\n",
    );
}

fn write_iptables() {
    feed(
        "iptables-nft-restore",
        &["--noflush"],
        "*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-SVC-A - [0:0]\n:KUBE-SEP-A - [0:0]\n\
         :KUBE-SEP-B - [0:0]\n:KUBE-MARK-MASQ - [0:0]\n\
         -A PREROUTING -j KUBE-SERVICES\n-A OUTPUT -j KUBE-SERVICES\n\
         -A POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE\n\
         -A KUBE-MARK-MASQ -j MARK --or-mark 0x4000\n\
         -A KUBE-SERVICES -d 10.96.0.7/32 -p tcp --dport 80 -j KUBE-SVC-A\n\
         -A KUBE-SERVICES -p tcp -m addrtype --dst-type LOCAL --dport 30007 -j KUBE-MARK-MASQ\n\
         -A KUBE-SERVICES -p tcp -m addrtype --dst-type LOCAL --dport 30007 -j KUBE-SVC-A\n\
         -A KUBE-SVC-A -m statistic --mode random --probability 0.5 -j KUBE-SEP-A\n\
         -A KUBE-SVC-A -j KUBE-SEP-B\n\
         -A KUBE-SEP-A -s 10.244.1.2/32 -j KUBE-MARK-MASQ\n\
         -A KUBE-SEP-B -s 10.244.3.2/32 -j KUBE-MARK-MASQ\n\
         -A KUBE-SEP-A -p tcp -j DNAT --to-destination 10.244.1.2:8080\n\
         -A KUBE-SEP-B -p tcp -j DNAT --to-destination 10.244.3.2:8080\nCOMMIT\n",
    );
}

fn feed(program: &str, arguments: &[&str], input: &str) {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .spawn()
        .expect("started");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(input.as_bytes()).expect("written");
    drop(stdin);
    assert!(child.wait().expect("ended").success(), "{program}");
}

/// Echoes until its clients have closed.
fn echo(address: &'static str) {
    let listener = TcpListener::bind(address).expect("bind");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                let Ok(mut copy) = stream.try_clone() else {
                    return;
                };
                let _ = std::io::copy(&mut copy, &mut stream);
            });
        }
    });
}

/// A long-lived connection.
struct Held {
    kind: &'static str,
    stream: TcpStream,
}

impl Held {
    fn open(kind: &'static str, to: SocketAddr) -> Self {
        let patience = Duration::from_secs(10);
        let stream = TcpStream::connect_timeout(&to, patience).expect(kind);
        let answers = Duration::from_secs(3);
        stream.set_read_timeout(Some(answers)).expect("set");
        let held = Self { kind, stream };
        assert!(held.lives(), "{kind} from the beginning");
        held
    }

    fn lives(&self) -> bool {
        let mut stream = &self.stream;
        let mut answer = [0; 4];
        stream.write_all(b"here").is_ok()
            && stream.read_exact(&mut answer).is_ok()
            && &answer == b"here"
    }
}

/// Counts those that are lost, by their kind.
fn lost(held: &[Held]) -> Vec<&'static str> {
    let dead = held.iter().filter(|it| !it.lives());
    let dead: Vec<_> = dead.map(|it| it.kind).collect();
    println!("lost: {} of {}", dead.len(), held.len());
    dead
}

struct World {
    held: Vec<Held>,
    client: Machine,
    pods: [Machine; 2],
    host: Host,
}

fn held_connections() -> usize {
    let given = std::env::var("ORLOP_TAKEOVER_CONNECTIONS").ok();
    given.and_then(|it| it.parse().ok()).unwrap_or(60)
}

impl World {
    /// With connections of each kind through the rules.
    fn new(rules: &Rules) -> Option<Self> {
        let host = Host::new()?;
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("forwarding");
        let client = Machine::new("client0", NODE, CLIENT);
        let pods = [
            Machine::new("veth0", "10.244.1.1", PODS[0]),
            Machine::new("veth1", "10.244.3.1", PODS[1]),
        ];
        pods[0].run(|| echo("10.244.1.2:8080"));
        pods[1].run(|| echo("10.244.3.2:8080"));
        ip("route add 10.96.0.0/16 dev client0");
        (rules.write)();
        let node_port = SocketAddr::new(NODE.parse().expect("an address"), NODE_PORT);
        let cluster_ip: SocketAddr = CLUSTER_IP.parse().expect("an address");
        // Before the hooks of sockets are there.
        let each = held_connections().div_ceil(4);
        let mut held = Vec::new();
        for _ in 0..each {
            held.push(Held::open("cluster IP from the node", cluster_ip));
            held.push(Held::open("node port from the node", node_port));
        }
        held.extend(client.run(move || {
            let open = |_| Held::open("node port from another machine", node_port);
            (0..each).map(open).collect::<Vec<_>>()
        }));
        held.extend(pods[0].run(move || {
            let open = |_| Held::open("cluster IP from a pod", cluster_ip);
            (0..each).map(open).collect::<Vec<_>>()
        }));
        Some(Self {
            held,
            client,
            pods,
            host,
        })
    }

    /// The programs come into force, Services in the maps; connections are taken over, or
    /// not.
    fn serve(&self, take_over: bool) -> Engine {
        let mut engine = Engine::open(&self.host.options(), Host::config()).expect("opened");
        let config = Config {
            node_v4: Address::v4([198, 51, 100, 1]),
            flags: if take_over {
                ConfigFlags::LEAVE_UNKNOWN_STREAMS
            } else {
                ConfigFlags::NONE
            },
            ..Config::DEFAULT
        };
        engine.configure(&config).expect("configured");
        engine.resync().expect("resync");
        engine
            .set_node(NodeFacts {
                addresses: vec![NodeAddress {
                    address: [198, 51, 100, 1].into(),
                    ports: true,
                }],
                inside: vec!["10.244.0.0/16".parse().expect("a range")],
                ..NodeFacts::default()
            })
            .expect("the node");
        let mut it = service("web", &["10.96.0.7"], 80);
        it.spec.kind = Some("NodePort".into());
        it.spec.ports[0].node_port = Some(i64::from(NODE_PORT));
        put_service(&mut engine, &it);
        put_slice(&mut engine, &slice("web-a", "web", &PODS, 8080));
        let mut devices = vec![self.client.device()];
        devices.extend(self.pods.iter().map(Machine::device));
        engine
            .follow_devices(&devices, &Patterns::default())
            .expect("devices");
        // Packets meet the programs while nothing is taken over yet.
        if take_over {
            assert_eq!(lost(&self.held), [""; 0], "before the take-over");
            let nat = KernelNat::at(&self.host.pin_dir);
            let done = nat.take_over().expect("taken over");
            println!("{done:?}");
            assert!(done.new >= self.held.len() / 2, "{done:?}");
            assert_eq!(nat.take_over().expect("again").new, 0);
            let config = Config {
                flags: ConfigFlags::NONE,
                ..config
            };
            engine.configure(&config).expect("configured");
        }
        engine
    }
}

#[test]
fn connections_go_on_when_programs_come_and_rules_go() {
    for rules in MODES {
        let Some(mut world) = World::new(&rules) else {
            return;
        };
        let mode = rules.mode;
        println!("{mode}: {} connections", world.held.len());
        let engine = world.serve(true);
        assert_eq!(lost(&world.held), [""; 0], "{mode}: programs beside rules");
        let kept = KernelNat::keep().expect("kept");
        assert!(kept >= world.held.len(), "{mode}: {kept}");
        (rules.remove)();
        assert_eq!(lost(&world.held), [""; 0], "{mode}: rules are gone");

        // New ones are the programs'.
        let node_port = SocketAddr::new(NODE.parse().expect("an address"), NODE_PORT);
        world.host.within_reach(false);
        let ours = world
            .client
            .run(move || Held::open("ours from another machine", node_port));
        world.host.within_reach(true);
        let flows = Flows::open(&world.host.pin_dir).expect("flows");
        let listed = flows.list().expect("listed");
        let of_kernel = listed.iter().filter(|it| it.kernel).count();
        assert_eq!(listed.len() - of_kernel, 1, "{mode}: {listed:?}");
        world.held.push(ours);

        // kube-proxy is back: what is known goes on, what is new is kube-proxy's.
        (rules.write)();
        drop(engine);
        let retirement = Retirement::begin(&world.host.pin_dir)
            .expect("locked")
            .expect("a datapath");
        retirement.refuse_new_connections().expect("refused");
        assert_eq!(lost(&world.held), [""; 0], "{mode}: rules are back");
        world.host.within_reach(false);
        let theirs = world
            .client
            .run(move || Held::open("kube-proxy's from another machine", node_port));
        world.host.within_reach(true);
        let listed = flows.list().expect("listed").len();
        assert_eq!(listed, of_kernel + 1, "{mode}: not ours");
        assert_eq!(retirement.open_connections().expect("counted"), 1);
        world.held.push(theirs);
        assert_eq!(lost(&world.held), [""; 0], "{mode}: and goes on");

        // Without the programs, all but ours go on.
        let ours = world.held.len() - 2;
        drop(world.held.remove(ours));
        KernelNat::drop_anchor().expect("removed");
        retirement.finish().expect("finished");
        assert_eq!(lost(&world.held), [""; 0], "{mode}: programs are gone");
    }
}

/// A client whose connection through us has ended may take the same
/// port for its next one, which kube-proxy serves.
#[test]
fn the_port_of_a_client_that_we_served_is_kube_proxy_s_afterwards() {
    for rules in MODES {
        let Some(world) = World::new(&rules) else {
            return;
        };
        let mode = rules.mode;
        let engine = world.serve(true);
        KernelNat::keep().expect("kept");
        (rules.remove)();
        let node_port = SocketAddr::new(NODE.parse().expect("an address"), NODE_PORT);
        let ports = || 45_000..45_008;
        let echo = move |port| {
            let stream = connect_from(port, node_port).expect("connected");
            // Its end leaves no TIME-WAIT, so that its port is free at once.
            set_socket_linger(&stream, Some(Duration::ZERO)).expect("set");
            let kind = "node port from another machine";
            Held { kind, stream }.lives()
        };
        world.host.within_reach(false);
        let ours = world.client.run(move || ports().all(echo));
        assert!(ours, "{mode}: ours");
        (rules.write)();
        drop(engine);
        let retirement = Retirement::begin(&world.host.pin_dir)
            .expect("locked")
            .expect("a datapath");
        retirement.refuse_new_connections().expect("refused");
        let theirs = world
            .client
            .run(move || ports().filter(|it| echo(*it)).count());
        world.host.within_reach(true);
        assert_eq!(theirs, ports().len(), "{mode}: kube-proxy's");
        KernelNat::drop_anchor().expect("removed");
        retirement.finish().expect("finished");
    }
}

/// A client may ask two Services from one port. Once the last of kube-proxy's connections has
/// ended the kernel tracks none; it does not know ours when kube-proxy comes back, and must not
/// show the second one to the same backend as the same client.
#[test]
fn ports_of_connections_that_go_on_are_not_used_twice() {
    let Some(mut world) = World::new(&MODES[0]) else {
        return;
    };
    let engine = world.serve(true);
    world.held.clear();
    (MODES[0].remove)();
    let ports = || 46_000..46_024;
    let open = move |to: &str, kind| -> Vec<Held> {
        let to = to.parse().expect("an address");
        let open = |port| {
            let stream = connect_from(port, to).expect(kind);
            let held = Held { kind, stream };
            assert!(held.lives(), "{kind} from the beginning");
            held
        };
        ports().map(open).collect()
    };
    world.host.within_reach(false);
    let ours = world.pods[0].run(move || open(CLUSTER_IP, "ours"));
    write_nftables();
    drop(engine);
    let retirement = Retirement::begin(&world.host.pin_dir)
        .expect("locked")
        .expect("a datapath");
    retirement.refuse_new_connections().expect("refused");
    let theirs = world.pods[0].run(move || open(ANOTHER_CLUSTER_IP, "kube-proxy's"));
    world.host.within_reach(true);
    world.held.extend(ours);
    world.held.extend(theirs);
    assert_eq!(lost(&world.held), [""; 0]);
    retirement.finish().expect("finished");
}

/// What this is for: without it, clients are lost in both steps.
#[test]
fn connections_are_lost_where_nothing_is_taken_over() {
    let Some(world) = World::new(&MODES[0]) else {
        return;
    };
    for held in &world.held {
        let patience = Duration::from_millis(300);
        held.stream.set_read_timeout(Some(patience)).expect("set");
    }
    let _engine = world.serve(false);
    let first = lost(&world.held);
    println!("lost when programs come: {}", first.len());
    assert!(
        first.contains(&"node port from another machine"),
        "{first:?}"
    );
    (MODES[0].remove)();
    let all = lost(&world.held);
    println!("lost when rules go: {}", all.len());
    // A few meet the same endpoint again.
    assert!(all.len() > world.held.len() / 2, "{all:?}");
}

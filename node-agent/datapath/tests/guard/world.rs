//! A node with pods and a machine outside, each in a network namespace of its
//! own, joined by veth pairs as the CNI plugin makes them; policies compiled by
//! the real compiler, enforced by the real programs.

#![allow(dead_code, reason = "each test binary uses another part")]

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ebpf_abi::{Config as Facts, Counter, Protocol};
use nix::sched::{CloneFlags, setns, unshare};
use node_agent_datapath::{
    Capacity, Device, Engine, Globs, Patterns, Policy, TcWay, XdpMode, wait_for_programs,
};
use node_agent_policy::policy::PortRange;
use node_agent_policy::{Action, Compiler, Config};
use serde_json::{Value, json};

use super::host::{Host, NODE};

/// How long what must come is waited for; a busy machine may need it.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The port that no policy for nodes closes.
pub const PROTECTED: u16 = 6_443;

/// The node's own address towards outside, and the machine there.
pub const NODE_V4: &str = "192.0.2.1";
pub const OUTSIDE_V4: &str = "192.0.2.2";
pub const NODE_V6: &str = "2001:db8::1";
const OUTSIDE_V6: &str = "2001:db8::2";

/// A network namespace, kept by a file.
pub struct Place {
    namespace: File,
    pub v4: IpAddr,
    pub v6: IpAddr,
    servers: Vec<Server>,
}

pub struct World {
    engine: Option<Engine>,
    pub policy: Policy,
    compiler: Compiler,
    /// All that the compiler was told, for the next one.
    told: Vec<Box<dyn Fn(&mut Compiler)>>,
    pub outside: Place,
    /// Are there programs for the node's own traffic?
    pub guards_node: bool,
    next: u8,
    // Last: it takes the namespaces along.
    pub host: Host,
}

/// Who answers at a port, TCP and UDP, until it is dropped: with what it got.
struct Server {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Place {
    fn new(v4: &str, v6: &str) -> Self {
        let namespace = std::thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).expect("unshare");
            ip("link set lo up");
            File::open("/proc/thread-self/ns/net").expect("a namespace")
        });
        Self {
            namespace: namespace.join().expect("a thread"),
            v4: v4.parse().expect("address"),
            v6: v6.parse().expect("address"),
            servers: Vec::new(),
        }
    }

    /// Does something in it.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let done = scope.spawn(|| {
                setns(self.namespace.as_fd(), CloneFlags::CLONE_NEWNET).expect("setns");
                work()
            });
            match done.join() {
                Ok(done) => done,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Answers at a port, of both families and TCP and UDP.
    pub fn serve(&mut self, port: u16) {
        let at = [
            SocketAddr::new(self.v4, port),
            SocketAddr::new(self.v6, port),
        ];
        let servers = self.within(|| at.map(Server::start));
        self.servers.extend(servers);
    }

    /// Answers one connection at a port, byte by byte and at once.
    pub fn echo(&mut self, port: u16) {
        let at = SocketAddr::new(self.v4, port);
        let listener = self.within(|| TcpListener::bind(at).expect("bind"));
        // Each thread ends with its client, the listener with the process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let _ = stream.set_nodelay(true);
                let mut byte = [0];
                while matches!(stream.read(&mut byte), Ok(1)) && stream.write_all(&byte).is_ok() {}
            }
        });
    }

    pub fn address(&self, v4: bool) -> IpAddr {
        if v4 { self.v4 } else { self.v6 }
    }
}

impl Server {
    fn start(address: SocketAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let listener = TcpListener::bind(address).expect("bind");
        listener.set_nonblocking(true).expect("nonblocking");
        let socket = UdpSocket::bind(address).expect("bind");
        let short = Some(Duration::from_millis(50));
        socket.set_read_timeout(short).expect("timeout");
        let tcp = std::thread::spawn({
            let stop = Arc::clone(&stop);
            move || {
                let mut streams: Vec<TcpStream> = Vec::new();
                let mut bytes = [0; 64];
                while !stop.load(Ordering::Relaxed) {
                    if let Ok((stream, _)) = listener.accept() {
                        stream.set_nonblocking(true).expect("nonblocking");
                        streams.push(stream);
                    }
                    streams.retain_mut(|stream| match stream.read(&mut bytes) {
                        Ok(0) => false,
                        Ok(some) => stream.write_all(&bytes[..some]).is_ok(),
                        Err(error) => error.kind() == ErrorKind::WouldBlock,
                    });
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
        let udp = std::thread::spawn({
            let stop = Arc::clone(&stop);
            move || {
                let mut bytes = [0; 8192];
                while !stop.load(Ordering::Relaxed) {
                    if let Ok((some, client)) = socket.recv_from(&mut bytes) {
                        let _ = socket.send_to(&bytes[..some], client);
                    }
                }
            }
        });
        Self {
            stop,
            threads: vec![tcp, udp],
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// How a question goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    Tcp,
    Udp,
}

impl World {
    /// A node without pods and policies, under policy.
    pub fn new() -> Option<Self> {
        Self::of(Capacity::default())
    }

    /// With maps that are so large at first.
    pub fn of(capacity: Capacity) -> Option<Self> {
        Self::by(capacity, TcWay::Auto)
    }

    /// With programs that are attached this way.
    pub fn by(capacity: Capacity, tc: TcWay) -> Option<Self> {
        let mut host = Host::new()?;
        host.tc = tc;
        // Sockets here are not to be translated: pods' packets are.
        host.within_reach(false);
        for path in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            fs::write(format!("/proc/sys/net/{path}"), "1").expect(path);
        }
        let outside = Place::new(OUTSIDE_V4, OUTSIDE_V6);
        pair("eth0", &outside);
        ip(&format!("addr add {NODE_V4}/24 dev eth0"));
        ip(&format!("addr add {NODE_V6}/64 dev eth0 nodad"));
        outside.within(|| {
            ip(&format!("addr add {OUTSIDE_V4}/24 dev eth0"));
            ip(&format!("addr add {OUTSIDE_V6}/64 dev eth0 nodad"));
            ip(&format!("route add default via {NODE_V4}"));
            ip(&format!("route add default via {NODE_V6}"));
        });
        let mut engine = host.engine_of(capacity);
        engine.configure(&facts()).expect("configure");
        let policy = Policy::open(&host.pin_dir).expect("policy's maps");
        let mut world = Self {
            compiler: compiler(&policy),
            told: Vec::new(),
            engine: Some(engine),
            policy,
            outside,
            guards_node: false,
            next: 1,
            host,
        };
        world.follow();
        world.node();
        Some(world)
    }

    pub fn engine(&mut self) -> &mut Engine {
        self.engine.as_mut().expect("an agent")
    }

    pub fn pin_dir(&self) -> &std::path::Path {
        &self.host.pin_dir
    }

    /// Tells the compiler something, and every one that takes over.
    pub fn tell(&mut self, what: impl Fn(&mut Compiler) + 'static) {
        what(&mut self.compiler);
        self.told.push(Box::new(what));
    }

    /// The agent ends, whose maps and programs stay.
    pub fn end(&mut self) {
        self.engine = None;
    }

    /// Another agent takes over.
    pub fn begin(&mut self) {
        self.begin_of(Capacity::default());
    }

    /// Another agent takes over, whose maps are at least so large.
    pub fn begin_of(&mut self, capacity: Capacity) {
        let mut engine = self.host.engine_of(capacity);
        engine.configure(&facts()).expect("configure");
        self.engine = Some(engine);
        self.policy = Policy::open(&self.host.pin_dir).expect("policy's maps");
        self.follow();
        self.compiler = compiler(&self.policy);
        for what in &self.told {
            what(&mut self.compiler);
        }
        self.sync();
    }

    fn node(&mut self) {
        let node = json!({
            "metadata": {"name": NODE},
            "status": {"addresses": [
                {"type": "InternalIP", "address": NODE_V4},
                {"type": "InternalIP", "address": NODE_V6},
            ]},
        });
        let node = serde_json::from_value(node).expect("a node");
        self.tell(move |it| it.node(NODE, Some(&node)));
        for name in ["x", "y"] {
            self.namespace(name, &json!({"ns": name}));
        }
    }

    pub fn namespace(&mut self, name: &str, labels: &Value) {
        let object = json!({"metadata": {"name": name, "labels": labels}});
        let object = serde_json::from_value(object).expect("a namespace");
        let name = name.to_owned();
        self.tell(move |it| it.namespace(&name, Some(&object)));
    }

    /// Attaches programs to devices that are there.
    pub fn follow(&mut self) {
        let patterns = Patterns {
            devices: Globs::new("eth0").expect("globs"),
            pods: Globs::new("orl*").expect("globs"),
            guarded: Globs::new("orl*").expect("globs"),
            host: self.guards_node,
            xdp: XdpMode::Off,
        };
        let followed = self.engine().follow_devices(&devices(), &patterns);
        assert_eq!(followed.expect("follow").failed, 0);
    }

    /// A pod as the CNI plugin makes it, and its object, which the compiler
    /// knows. Named ports: `web` is 80.
    pub fn pod(&mut self, namespace: &str, name: &str, labels: &Value) -> Place {
        let pod = self.device();
        self.object(namespace, name, labels, &pod);
        pod
    }

    /// A pod that the compiler does not know.
    pub fn device(&mut self) -> Place {
        let number = self.next;
        self.next += 1;
        let pod = Place::new(&format!("10.0.0.{number}"), &format!("fd00:10::{number:x}"));
        let device = format!("orl{number}");
        let mac = pair(&device, &pod);
        let own = pod.within(|| {
            for (address, gateway, bits) in [(pod.v4, "169.254.1.1", 32), (pod.v6, "fe80::1", 128)]
            {
                let nodad = if bits == 128 { " nodad" } else { "" };
                ip(&format!("addr add {address}/{bits} dev eth0{nodad}"));
                ip(&format!(
                    "neigh add {gateway} lladdr {mac} dev eth0 nud permanent"
                ));
                let family = if bits == 128 { "-6" } else { "-4" };
                ip(&format!(
                    "{family} route add default via {gateway} dev eth0 onlink"
                ));
            }
            mac_of("eth0")
        });
        for address in [pod.v4, pod.v6] {
            ip(&format!(
                "neigh add {address} lladdr {own} dev {device} nud permanent"
            ));
            let family = if address.is_ipv4() { "-4" } else { "-6" };
            ip(&format!("{family} route add {address} dev {device}"));
        }
        self.follow();
        pod
    }

    /// Tells the compiler of a pod.
    pub fn object(&mut self, namespace: &str, name: &str, labels: &Value, pod: &Place) {
        let object = json!({
            "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "spec": {"nodeName": NODE, "containers": [{"ports": [
                {"name": "web", "containerPort": 80},
                {"name": "web", "containerPort": 80, "protocol": "UDP"},
            ]}]},
            "status": {"podIP": pod.v4, "podIPs": [{"ip": pod.v4}, {"ip": pod.v6}]},
        });
        let object = serde_json::from_value(object).expect("a pod");
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        self.tell(move |it| it.pod(&namespace, &name, Some(&object)));
    }

    /// Tells the compiler of a NetworkPolicy of the namespace `x`; nothing: it
    /// is gone.
    pub fn put(&mut self, name: &str, spec: &Value) -> Option<usize> {
        self.tell_policy(name, spec);
        self.sync()
    }

    /// The same, which the maps do not hold yet.
    pub fn tell_policy(&mut self, name: &str, spec: &Value) {
        let object = json!({"metadata": {"name": name, "namespace": "x"}, "spec": spec});
        let object = serde_json::from_value(object).expect("a policy");
        let there = !spec.is_null();
        let name = name.to_owned();
        self.tell(move |it| it.network_policy("x", &name, there.then_some(&object)));
    }

    /// Tells the compiler of a NetworkPolicy for all nodes; nothing: it is gone.
    pub fn put_for_nodes(&mut self, name: &str, spec: &Value, forced: bool) {
        let mut annotations = json!({"policy.orlop.dev/applies-to": "nodes"});
        if forced {
            annotations["policy.orlop.dev/lockout"] = json!("allowed");
        }
        let metadata =
            json!({"name": name, "namespace": "kube-system", "annotations": annotations});
        let object = json!({"metadata": metadata, "spec": spec});
        let object = serde_json::from_value(object).expect("a policy");
        let there = !spec.is_null();
        let name = name.to_owned();
        self.tell(move |it| it.network_policy("kube-system", &name, there.then_some(&object)));
        self.sync();
        self.guards_node = self.compiler.guards_node();
        self.follow();
    }

    /// Brings the maps to what was told, in larger ones if they are full.
    /// Where there is no room the rest is closed, and how much is told.
    pub fn sync(&mut self) -> Option<usize> {
        let actions = self.compiler.sync();
        let mut closed = self.write(&actions);
        while let (None, Some(mark)) = (closed, self.compiler.mark()) {
            wait_for_programs().expect("programs end");
            self.compiler.passed(mark);
            let actions = self.compiler.sync();
            closed = self.write(&actions);
        }
        closed
    }

    fn write(&mut self, actions: &[Action]) -> Option<usize> {
        let mut rest = actions;
        while let Err(stopped) = self.policy.apply(rest) {
            rest = &rest[stopped.done..];
            let full = stopped.full().expect("a map that is full");
            if !self.engine().grow_policy(full).expect("grow") {
                return Some(self.policy.close(rest).expect("close"));
            }
            self.policy = Policy::open(&self.host.pin_dir).expect("policy's maps");
        }
        None
    }

    /// How many entries a map takes.
    pub fn capacity_of(&self, map: &str) -> u32 {
        let version = format!("v{}", ebpf_abi::VERSION);
        let path = self.host.pin_dir.join(version).join(map);
        let pinned = aya::maps::MapInfo::from_pin(path).expect("a pinned map");
        pinned.max_entries()
    }

    /// The node itself, as somebody who asks.
    pub fn host_place(&self) -> Place {
        Place {
            namespace: File::open("/proc/thread-self/ns/net").expect("a namespace"),
            v4: NODE_V4.parse().expect("address"),
            v6: NODE_V6.parse().expect("address"),
            servers: Vec::new(),
        }
    }

    pub fn counted(&self, counter: Counter) -> u64 {
        let engine = self.engine.as_ref().expect("an agent");
        let counters = engine.datapath().counters().expect("counters");
        let found = counters.into_iter().find(|(it, _)| *it == counter);
        found.expect("a counter").1
    }

    /// The question is answered, sooner or later.
    #[track_caller]
    pub fn reaches(&self, from: &Place, to: SocketAddr, by: By) {
        let answered = from.within(|| ask(to, by, PATIENCE));
        assert!(
            answered,
            "{by:?} to {to} is not answered; {:?}",
            self.drops()
        );
    }

    /// The question is not answered, and that is counted.
    #[track_caller]
    pub fn dropped(&self, from: &Place, to: SocketAddr, by: By, why: Counter) {
        let before = self.counted(why);
        let until = Instant::now() + PATIENCE;
        loop {
            assert!(
                !from.within(|| ask(to, by, Duration::from_millis(200))),
                "{by:?} to {to} is answered"
            );
            if self.counted(why) > before {
                return;
            }
            assert!(
                Instant::now() < until,
                "{by:?} to {to}: no {why:?} is counted; {:?}",
                self.drops()
            );
        }
    }

    pub fn drops(&self) -> Vec<(Counter, u64)> {
        let engine = self.engine.as_ref().expect("an agent");
        let counters = engine.datapath().counters().expect("counters");
        let some = counters.into_iter();
        some.filter(|(counter, count)| counter.is_drop() && *count > 0)
            .collect()
    }
}

pub fn compiler(policy: &Policy) -> Compiler {
    Compiler::new(Config {
        node: Some(NODE.into()),
        previous: policy.root().expect("root"),
        protected: vec![PortRange {
            protocol: Protocol::TCP,
            first: PROTECTED,
            last: PROTECTED,
        }],
    })
}

pub fn facts() -> Facts {
    Facts {
        node_v4: address(NODE_V4),
        node_v6: address(NODE_V6),
        ..Facts::DEFAULT
    }
}

fn address(text: &str) -> ebpf_abi::Address {
    let address: IpAddr = text.parse().expect("address");
    address.into()
}

/// Asks a server; does it answer within this time?
pub fn ask(to: SocketAddr, by: By, patience: Duration) -> bool {
    match by {
        By::Tcp => {
            let Ok(mut stream) = TcpStream::connect_timeout(&to, patience) else {
                return false;
            };
            said(&mut stream, patience)
        }
        By::Udp => {
            let any: IpAddr = if to.is_ipv4() { "0.0.0.0" } else { "::" }
                .parse()
                .expect("address");
            let socket = UdpSocket::bind((any, 0)).expect("bind");
            socket.connect(to).expect("connect");
            let until = Instant::now() + patience;
            let step = patience.min(Duration::from_millis(500));
            socket.set_read_timeout(Some(step)).expect("timeout");
            // Datagrams may be lost where a device is not up yet.
            while Instant::now() < until {
                let mut bytes = [0; 8];
                if socket.send(b"?").is_ok() && socket.recv(&mut bytes).is_ok() {
                    return true;
                }
            }
            false
        }
    }
}

/// Is a datagram that takes several packets answered, as a whole?
pub fn ask_long(to: SocketAddr, patience: Duration) -> bool {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("bind");
    let until = Instant::now() + patience;
    let step = patience.min(Duration::from_millis(500));
    socket.set_read_timeout(Some(step)).expect("timeout");
    let long = [7; 4_000];
    while Instant::now() < until {
        let mut bytes = [0; 8192];
        if socket.send_to(&long, to).is_ok() && matches!(socket.recv(&mut bytes), Ok(4_000)) {
            return true;
        }
    }
    false
}

/// Is an echo request (RFC 792, RFC 4443) answered within this time?
pub fn ping(to: impl Into<IpAddr>, patience: Duration) -> bool {
    ping_of(to.into(), 1, patience)
}

/// The same, with so many bytes of content.
pub fn ping_of(to: IpAddr, content: usize, patience: Duration) -> bool {
    use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, ipproto, sockopt};
    fs::write("/proc/sys/net/ipv4/ping_group_range", "0 0").expect("ping_group_range");
    let (family, protocol, kind) = match to {
        IpAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP, 8),
        IpAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6, 128),
    };
    let socket =
        rustix::net::socket(family, SocketType::DGRAM, Some(protocol)).expect("a socket for pings");
    let step = patience.min(Duration::from_millis(500));
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(step)).expect("timeout");
    let until = Instant::now() + patience;
    let to = SocketAddr::new(to, 0);
    // The kernel fills in what is missing: identifier and checksum.
    let mut request = vec![kind, 0, 0, 0, 0, 0, 0, 1];
    request.resize(8 + content, b'?');
    while Instant::now() < until {
        let sent = rustix::net::sendto(&socket, &request, SendFlags::empty(), &to);
        let mut bytes = vec![0; 8_192];
        if sent.is_ok()
            && let Ok((length, _)) = rustix::net::recv(&socket, &mut bytes[..], RecvFlags::empty())
            && length == request.len()
        {
            return true;
        }
    }
    false
}

/// Is a word on a stream answered within this time?
pub fn said(stream: &mut TcpStream, patience: Duration) -> bool {
    stream.set_read_timeout(Some(patience)).expect("timeout");
    stream.write_all(b"?").is_ok() && matches!(stream.read(&mut [0; 8]), Ok(1..))
}

/// A datagram from a socket of its own; the socket waits for the answer.
pub fn send_once(to: SocketAddr) -> UdpSocket {
    let any: IpAddr = if to.is_ipv4() { "0.0.0.0" } else { "::" }
        .parse()
        .expect("address");
    let socket = UdpSocket::bind((any, 0)).expect("bind");
    socket.connect(to).expect("connect");
    socket.send(b"?").expect("send");
    socket
}

/// A veth pair: one end here, the other there as `eth0`; the hardware address
/// of the end here.
fn pair(device: &str, there: &Place) -> String {
    ip(&format!("link add {device} type veth peer name peer0"));
    let path = format!(
        "/proc/{}/fd/{}",
        std::process::id(),
        std::os::fd::AsRawFd::as_raw_fd(&there.namespace)
    );
    ip(&format!("link set peer0 netns {path} name eth0"));
    ip(&format!("link set {device} up"));
    there.within(|| ip("link set eth0 up"));
    mac_of(device)
}

pub fn mac_of(device: &str) -> String {
    let shown = shown(&format!("-o link show {device}"));
    let mut words = shown
        .split_whitespace()
        .skip_while(|it| *it != "link/ether");
    words.nth(1).expect("a hardware address").to_owned()
}

/// The devices of this namespace.
fn devices() -> Vec<Device> {
    shown("-o link show")
        .lines()
        .map(|line| {
            let mut parts = line.split(": ");
            let index = parts.next().expect("index").parse().expect("index");
            let name = parts.next().expect("name");
            let name = name.split('@').next().expect("name").to_owned();
            Device {
                index,
                loopback: name == "lo",
                ethernet: true,
                kind: "veth".to_owned(),
                name,
                port: false,
            }
        })
        .collect()
}

pub fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    let output = output.expect("start `ip`");
    assert!(
        output.status.success(),
        "ip {arguments}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

pub fn shown(arguments: &str) -> String {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    String::from_utf8(output.expect("start `ip`").stdout).expect("text")
}

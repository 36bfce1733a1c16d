//! A host for tests: its own network and mount namespace with a BPF
//! filesystem, and a cgroup that this process moves into. When the test's
//! threads end, the namespaces end, and with them everything pinned.
//!
//! Tests of one binary share a process, and a process is in one cgroup: hosts
//! take turns.

#![allow(dead_code, reason = "each test binary uses another part")]

#[path = "../ground/mod.rs"]
mod ground;

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use ground::{cgroup2, enter, lack};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use node_agent_datapath::{Capacity, Engine, Options, RecordingOptions, TcWay};
use node_agent_plan::{
    Conditions, Config, Endpoint, EndpointPort, EndpointSlice, Metadata, Service, ServicePort,
    ServiceSpec,
};

static TURN: Mutex<()> = Mutex::new(());
static NUMBER: AtomicU32 = AtomicU32::new(0);

pub const NODE: &str = "node-1";

/// Maps that are soon full.
pub const SMALL: Capacity = Capacity {
    services: 64,
    slots: 128,
    members: 64,
    originals: 64,
    affinity: 64,
    flows: 256,
    chunks: 64,
    sources: 64,
    peers: 16,
    endpoints: 16,
    verdicts: 16,
    rules: 8,
    policy_flows: 1,
};

pub struct Host {
    pub cgroup: PathBuf,
    pub pin_dir: PathBuf,
    /// Of what programs tell; of everything unless it is changed.
    pub recording: RecordingOptions,
    /// How programs are attached to devices.
    pub tc: TcWay,
    root: PathBuf,
    home: PathBuf,
    scratch: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl Host {
    /// A host, or the reason why this machine cannot have one, printed.
    pub fn new() -> Option<Self> {
        if let Some(reason) = lack() {
            eprintln!("skipped: {reason}");
            return None;
        }
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS).expect("unshare");
        let none: Option<&str> = None;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
            .expect("make mounts private");
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("orlop-test-{}-{number}", std::process::id());
        let scratch = std::env::temp_dir().join(&name);
        fs::create_dir_all(&scratch).expect("scratch directory");
        assert!(node_agent_datapath::ensure_bpffs(&scratch).expect("mount a BPF filesystem"));
        let (root, home) = cgroup2().expect("cgroup2");
        let cgroup = root.join(&name);
        fs::create_dir(&cgroup).expect("cgroup");
        enter(&cgroup);
        ip("link set lo up");
        Some(Self {
            cgroup,
            pin_dir: scratch.join("orlop"),
            recording: RecordingOptions {
                verdicts: true,
                sample: 1,
            },
            tc: TcWay::Auto,
            root,
            home,
            scratch,
            _turn: turn,
        })
    }

    pub fn options(&self) -> Options {
        Options {
            cgroup: self.cgroup.clone(),
            pin_dir: self.pin_dir.clone(),
            object: node_agent_datapath::OBJECT.expect("checked by `lack`"),
            capacity: Capacity::default(),
            tc: self.tc,
            recording: self.recording,
        }
    }

    pub fn config() -> Config {
        Config {
            node: NODE.into(),
            ..Config::default()
        }
    }

    /// An engine in force, its maps empty.
    pub fn engine(&self) -> Engine {
        self.engine_of(Capacity::default())
    }

    /// As [`engine`](Self::engine), with maps of this size.
    pub fn engine_of(&self, capacity: Capacity) -> Engine {
        let options = Options {
            capacity,
            ..self.options()
        };
        let mut engine = Engine::open(&options, Self::config()).expect("open the datapath");
        engine.resync().expect("resync");
        engine
    }

    /// Puts this process out of the hooks' reach, or back; it counts for
    /// sockets that are made afterwards.
    pub fn within_reach(&self, within: bool) {
        enter(if within { &self.cgroup } else { &self.home });
    }

    /// Gives this host an address.
    pub fn address(&self, address: &str) {
        let bits = if address.contains(':') {
            "128 nodad"
        } else {
            "32"
        };
        ip(&format!("addr add {address}/{bits} dev lo"));
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        enter(&self.home);
        // Sockets of other threads do not keep a cgroup, processes do.
        for _ in 0..50 {
            if fs::remove_dir(&self.cgroup).is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = nix::mount::umount2(&self.scratch, nix::mount::MntFlags::MNT_DETACH);
        let _ = fs::remove_dir(&self.scratch);
    }
}

pub fn ip(arguments: &str) {
    let status = Command::new("ip")
        .args(arguments.split(' '))
        .status()
        .expect("start `ip`");
    assert!(status.success(), "ip {arguments}");
}

/// A TCP and a UDP server that answer with their own address.
pub struct Server {
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    pub fn start(address: &str) -> Self {
        let address: SocketAddr = address.parse().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let listener = TcpListener::bind(address).expect("bind");
        listener.set_nonblocking(true).unwrap();
        let socket = UdpSocket::bind(address).expect("bind");
        socket
            .set_read_timeout(Some(Duration::from_millis(20)))
            .unwrap();
        let tcp = {
            let stop = stop.clone();
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    match listener.accept() {
                        Ok((mut stream, _)) => {
                            let _ = stream.write_all(address.to_string().as_bytes());
                        }
                        Err(_) => std::thread::sleep(Duration::from_millis(1)),
                    }
                }
            })
        };
        let udp = {
            let stop = stop.clone();
            std::thread::spawn(move || {
                let mut buffer = [0; 64];
                while !stop.load(Ordering::Relaxed) {
                    if let Ok((_, client)) = socket.recv_from(&mut buffer) {
                        let _ = socket.send_to(address.to_string().as_bytes(), client);
                    }
                }
            })
        };
        Self {
            address,
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

/// Connects and reads which server answered.
pub fn ask_tcp(address: &str) -> std::io::Result<(SocketAddr, TcpStream)> {
    let address: SocketAddr = address.parse().unwrap();
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(3))?;
    stream.set_read_timeout(Some(Duration::from_secs(3)))?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok((answer.parse().map_err(std::io::Error::other)?, stream))
}

/// Sends a datagram from a new unconnected socket; the server that answered,
/// and the address that the answer seemed to come from.
pub fn ask_udp(address: &str) -> std::io::Result<(SocketAddr, SocketAddr)> {
    let address: SocketAddr = address.parse().unwrap();
    let any: IpAddr = if address.is_ipv4() { "0.0.0.0" } else { "::" }
        .parse()
        .unwrap();
    let socket = UdpSocket::bind((any, 0))?;
    ask_udp_on(&socket, address)
}

pub fn ask_udp_on(
    socket: &UdpSocket,
    address: SocketAddr,
) -> std::io::Result<(SocketAddr, SocketAddr)> {
    socket.set_read_timeout(Some(Duration::from_secs(3)))?;
    socket.send_to(b"?", address)?;
    let mut buffer = [0; 64];
    let (length, from) = socket.recv_from(&mut buffer)?;
    let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
    Ok((text.parse().map_err(std::io::Error::other)?, from))
}

/// A service with a TCP and a UDP port of that number.
pub fn service(name: &str, addresses: &[&str], port: i64) -> Service {
    let port = |name: &str, protocol: &str| ServicePort {
        name: Some(name.into()),
        protocol: Some(protocol.into()),
        port,
        node_port: None,
    };
    Service {
        metadata: Metadata {
            name: name.into(),
            namespace: "default".into(),
            ..Metadata::default()
        },
        spec: ServiceSpec {
            cluster_ips: addresses.iter().map(|address| (*address).into()).collect(),
            ports: vec![port("tcp", "TCP"), port("udp", "UDP")],
            ..ServiceSpec::default()
        },
        ..Service::default()
    }
}

/// A slice of ready endpoints on this node, for [`service`].
pub fn slice(name: &str, service: &str, addresses: &[&str], port: i64) -> EndpointSlice {
    let v6 = addresses.iter().any(|address| address.contains(':'));
    let endpoint = |address: &&str| Endpoint {
        addresses: vec![(*address).into()],
        conditions: Conditions {
            ready: Some(true),
            ..Conditions::default()
        },
        node_name: Some(NODE.into()),
        ..Endpoint::default()
    };
    let target = |name: &str, protocol: &str| EndpointPort {
        name: Some(name.into()),
        protocol: Some(protocol.into()),
        port: Some(port),
    };
    EndpointSlice {
        metadata: Metadata {
            name: name.into(),
            namespace: "default".into(),
            labels: [("kubernetes.io/service-name".to_owned(), service.to_owned())].into(),
            ..Metadata::default()
        },
        address_type: if v6 { "IPv6" } else { "IPv4" }.into(),
        endpoints: addresses.iter().map(endpoint).collect(),
        ports: vec![target("tcp", "TCP"), target("udp", "UDP")],
    }
}

pub fn put_service(engine: &mut Engine, service: &Service) {
    engine
        .on_service_change(
            &service.metadata.namespace,
            &service.metadata.name,
            Some(service),
        )
        .expect("service");
}

pub fn put_slice(engine: &mut Engine, slice: &EndpointSlice) {
    engine
        .on_slice_change(&slice.metadata.namespace, &slice.metadata.name, Some(slice))
        .expect("slice");
}

/// The cookie by which BPF programs know a socket.
pub fn cookie(socket: &UdpSocket) -> u64 {
    rustix::net::sockopt::socket_cookie(socket).expect("SO_COOKIE")
}

/// The peer as the kernel has it: /proc is read below the hooks.
pub fn real_peer(socket: &UdpSocket) -> Option<SocketAddr> {
    let local = socket.local_addr().ok()?.port();
    let table = fs::read_to_string("/proc/thread-self/net/udp").ok()?;
    let line = table.lines().skip(1).find(|line| {
        let port = line
            .split_whitespace()
            .nth(1)
            .and_then(|it| it.split_once(':'));
        port.and_then(|(_, port)| u16::from_str_radix(port, 16).ok()) == Some(local)
    })?;
    let (address, port) = line.split_whitespace().nth(2)?.split_once(':')?;
    let address = u32::from_str_radix(address, 16).ok()?.to_ne_bytes();
    let port = u16::from_str_radix(port, 16).ok()?;
    (port != 0).then(|| SocketAddr::from((address, port)))
}

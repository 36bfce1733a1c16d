//! Two nodes with pods, a client and the network between them.
//!
//! ```text
//!   client .10        router .254
//!      │                 │
//!   ═══╧════ bridge ═════╧═══════╤═══════════════════╤═══  192.0.2.0/24, 2001:db8::/64
//!                           node-1 .1            node-2 .2
//!                            │     │              │     │
//!                        backend  pod         backend  pod   10.244.N.10 and .20
//! ```
//!
//! Each is a network namespace, and none more: a process's sockets belong to the
//! namespace of the thread that makes them, and to the cgroup that the process is
//! in at that moment. So one process plays them all.

#[path = "../ground/mod.rs"]
mod ground;

use std::fs::{self, File};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::Command;

use aya::programs::Xdp;
use aya::{Ebpf, EbpfLoader};
use ebpf_abi::{Address, Config as Programs, DirectReturn};
use ground::{cgroup2, enter};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use node_agent_datapath::{
    Capacity, Device, Engine, Flows, Globs, Options, POD_DEVICES, Patterns, RecordingOptions,
    TcWay, XdpMode,
};
use node_agent_plan::{Config, NodeAddress, NodeFacts};

use super::offload;
use super::rules::{Family, Node, Source};

/// A network namespace.
pub struct Space(File);

/// A node: what its agent has.
pub struct Machine {
    pub engine: Engine,
    pub cgroup: PathBuf,
    devices: Vec<Device>,
    number: u8,
}

pub struct World {
    pub client: Space,
    pub nodes: [Space; 2],
    pub backends: [Space; 2],
    pub pods: [Space; 2],
    pub machines: [Machine; 2],
    _lan: Space,
    _receivers: Ebpf,
    home: PathBuf,
    scratch: PathBuf,
}

pub const BACKEND: u8 = 10;
pub const POD: u8 = 20;

pub fn lan(family: Family, number: u8) -> IpAddr {
    text(match family {
        Family::V4 => format!("192.0.2.{number}"),
        Family::V6 => format!("2001:db8::{number}"),
    })
}

pub fn pod(family: Family, node: u8, number: u8) -> IpAddr {
    text(match family {
        Family::V4 => format!("10.244.{node}.{number}"),
        Family::V6 => format!("fd00:244:{node}::{number}"),
    })
}

fn text(it: String) -> IpAddr {
    it.parse().expect("an address")
}

/// Runs programs of iproute2, a line each, in the caller's namespace.
pub fn ip(lines: &str) {
    for line in lines.lines().map(str::trim).filter(|it| !it.is_empty()) {
        let done = Command::new("ip").args(line.split_whitespace()).output();
        let done = done.expect("start `ip`");
        let error = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "ip {line}: {error}");
    }
}

fn setting(path: &str, value: &str) {
    // `/proc/sys/net` is the reader's own namespace.
    let path = format!("/proc/sys/net/{path}");
    fs::write(&path, value).unwrap_or_else(|error| panic!("{path}: {error}"));
}

// === impl Space ===

impl Space {
    fn new(set_up: impl FnOnce() + Send + 'static) -> Self {
        let made = std::thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
            ip("link set lo up");
            // Duplicates are looked for nowhere here, and the search delays.
            setting("ipv6/conf/all/accept_dad", "0");
            setting("ipv6/conf/default/accept_dad", "0");
            for which in ["all", "default"] {
                setting(&format!("ipv4/conf/{which}/rp_filter"), "0");
            }
            set_up();
            File::open("/proc/thread-self/ns/net").expect("the namespace")
        });
        Self(made.join().expect("a namespace"))
    }

    fn path(&self) -> String {
        use std::os::fd::AsRawFd;
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    /// The calling thread goes there, for good.
    pub fn enter(&self) {
        setns(&self.0, CloneFlags::CLONE_NEWNET).expect("enter a namespace");
    }

    /// Does something there.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let done = scope.spawn(|| {
                self.enter();
                work()
            });
            done.join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// A pair of devices: `mine` here, `theirs` there.
    fn cable(&self, mine: &str, theirs: &str, other: &Self) {
        let other = other.path();
        self.run(|| {
            ip(&format!(
                "link add {mine} type veth peer name {theirs} netns {other}\n link set {mine} up"
            ));
        });
    }
}

// === impl World ===

impl World {
    /// The world, or the reason why this machine cannot have one, printed.
    ///
    /// `whole`: devices leave nothing to each other, neither checksums nor the
    /// cutting into segments.
    pub fn new(whole: bool) -> Option<Self> {
        if let Some(reason) = lack() {
            eprintln!("skipped: {reason}");
            return None;
        }
        // The mounts are the test's own, and go with its thread.
        unshare(CloneFlags::CLONE_NEWNS).expect("a mount namespace");
        let none: Option<&str> = None;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).expect("mounts");
        let (root, home) = cgroup2().expect("cgroup2");
        let name = format!("orlop-matrix-{}", std::process::id());
        let scratch = std::env::temp_dir().join(&name);
        fs::create_dir_all(&scratch).expect("a folder");
        assert!(node_agent_datapath::ensure_bpffs(&scratch).expect("a BPF filesystem"));

        let switch = Space::new(|| {
            ip("link add br0 type bridge forward_delay 0\n link set br0 up");
            ip("addr add 192.0.2.254/24 dev br0\n addr add 2001:db8::254/64 dev br0");
        });
        let join = |space: &Space, number: u8| {
            switch.cable(&format!("port{number}"), "eth0", space);
            switch.run(|| {
                ip(&format!("link set port{number} master br0"));
            });
            space.run(|| {
                // Devices that leave checksums to each other's hardware, which
                // is none, would hide wrong ones; and XDP has no word for them.
                if whole {
                    offload::set("eth0", offload::CHECKSUM, false);
                }
                ip(&format!(
                    "addr add 192.0.2.{number}/24 dev eth0
                     addr add 2001:db8::{number}/64 dev eth0
                     link set eth0 up"
                ));
            });
        };
        let client = Space::new(|| {});
        join(&client, 10);
        client.run(|| ip("route add default via 192.0.2.1\n -6 route add default via 2001:db8::1"));
        let node = |number: u8| {
            let space = Space::new(|| {
                setting("ipv4/ip_forward", "1");
                setting("ipv6/conf/all/forwarding", "1");
            });
            join(&space, number);
            let other = 3 - number;
            space.run(|| {
                ip(&format!(
                    "route add default via 192.0.2.254
                     -6 route add default via 2001:db8::254
                     route add 10.244.{other}.0/24 via 192.0.2.{other}
                     -6 route add fd00:244:{other}::/64 via 2001:db8::{other}"
                ));
            });
            space
        };
        let nodes = [node(1), node(2)];
        let others = switch.run(|| receivers(&["port1", "port2", "port10"]));
        let pod = |node: u8, number: u8| {
            let space = Space::new(|| {});
            let host = &nodes[usize::from(node) - 1];
            let device = format!("orl{number}");
            host.cable(&device, "eth0", &space);
            space.run(|| {
                ip(&format!(
                    "addr add 10.244.{node}.{number}/32 dev eth0
                     addr add fd00:244:{node}::{number}/128 dev eth0
                     link set eth0 up
                     route add 169.254.1.1 dev eth0
                     route add default via 169.254.1.1
                     -6 route add default via fe80::1 dev eth0"
                ));
            });
            host.run(|| {
                ip(&format!(
                    "addr add 169.254.1.1/32 dev {device} scope link
                     addr add fe80::1/64 dev {device}
                     route add 10.244.{node}.{number}/32 dev {device} src 192.0.2.{node}
                     -6 route add fd00:244:{node}::{number}/128 dev {device}"
                ));
            });
            space
        };
        let backends = [pod(1, BACKEND), pod(2, BACKEND)];
        let pods = [pod(1, POD), pod(2, POD)];
        let machine = |number: u8| {
            let cgroup = root.join(format!("{name}-{number}"));
            fs::create_dir(&cgroup).expect("a cgroup");
            let options = Options {
                cgroup: cgroup.clone(),
                pin_dir: scratch.join(format!("node-{number}")),
                object: node_agent_datapath::OBJECT.expect("checked by `lack`"),
                capacity: Capacity::default(),
                tc: TcWay::Auto,
                recording: RecordingOptions::default(),
            };
            let space = &nodes[usize::from(number) - 1];
            let (engine, devices) = space.run(|| {
                let config = Config {
                    node: format!("node-{number}"),
                    facts: facts(number),
                    ..Config::default()
                };
                (
                    Engine::open(&options, config).expect("the datapath"),
                    devices(),
                )
            });
            Machine {
                engine,
                cgroup,
                devices,
                number,
            }
        };
        let machines = [machine(1), machine(2)];
        Some(Self {
            client,
            nodes,
            backends,
            pods,
            machines,
            _lan: switch,
            _receivers: others,
            home,
            scratch,
        })
    }

    pub fn space(&self, source: Source) -> &Space {
        match source {
            Source::Pod1 => &self.pods[0],
            Source::Backend1 => &self.backends[0],
            Source::Host1 => &self.nodes[0],
            Source::Pod2 => &self.pods[1],
            Source::Host2 => &self.nodes[1],
            Source::Client => &self.client,
        }
    }

    pub fn engine(&mut self, node: Node) -> &mut Engine {
        &mut self.machines[node as usize].engine
    }

    /// The programs at both nodes' devices run so from now on.
    pub fn configure(&mut self, xdp: XdpMode, direct_return: DirectReturn) {
        for (machine, space) in self.machines.iter_mut().zip(&self.nodes) {
            let number = machine.number;
            space.run(|| {
                let config = Programs {
                    node_v4: Address::from(lan(Family::V4, number)),
                    node_v6: Address::from(lan(Family::V6, number)),
                    direct_return,
                    ..Programs::DEFAULT
                };
                let patterns = Patterns {
                    devices: Globs::new("eth*").expect("a pattern"),
                    pods: Globs::new(POD_DEVICES).expect("patterns"),
                    xdp,
                    guarded: Globs::default(),
                    host: false,
                };
                machine.engine.configure(&config).expect("configured");
                let followed = machine
                    .engine
                    .follow_devices(&machine.devices, &patterns)
                    .expect("attached");
                let hooks = machine.engine.datapath().attachments().len();
                let wanted = 6 + usize::from(xdp != XdpMode::Off);
                assert_eq!(hooks, wanted, "hooks of node-{number}: {followed:?}");
            });
        }
    }

    /// Connections that the nodes track.
    pub fn flows(&self) -> Vec<String> {
        let of = |number: u8| {
            let flows = Flows::open(&self.scratch.join(format!("node-{number}")));
            let all = flows.expect("flows").list().expect("flows");
            all.into_iter()
                .map(move |it| format!("node-{number}: {it}"))
        };
        of(1).chain(of(2)).collect()
    }

    /// Sockets that are made from now on belong to a node, or to none.
    pub fn belong(&self, to: Option<Node>) {
        let cgroup = match to {
            Some(node) => &self.machines[node as usize].cgroup,
            None => &self.home,
        };
        enter(cgroup);
    }
}

impl Drop for World {
    fn drop(&mut self) {
        enter(&self.home);
        for machine in &self.machines {
            for _ in 0..100 {
                if fs::remove_dir(&machine.cgroup).is_ok() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
        let _ = nix::mount::umount2(&self.scratch, nix::mount::MntFlags::MNT_DETACH);
        let _ = fs::remove_dir(&self.scratch);
    }
}

/// What a driver's XDP program sends back is taken by a device of this kind only
/// where one runs, too: ours, which passes all on while nobody configures it.
fn receivers(devices: &[&str]) -> Ebpf {
    let mut loader = EbpfLoader::new();
    let level = 0_u8;
    loader.override_global(aya_log::LEVEL, &level, false);
    let object = node_agent_datapath::OBJECT.expect("checked by `lack`");
    let object = object.unpack().expect("unpacked");
    let mut ebpf = loader.load(&object).expect("load the object");
    let program: &mut Xdp = ebpf
        .program_mut("orlop_xdp")
        .expect("a program")
        .try_into()
        .expect("of XDP");
    program.load().expect("load the program");
    for device in devices {
        program
            .attach(device, aya::programs::xdp::XdpMode::Driver)
            .expect(device);
    }
    ebpf
}

fn facts(number: u8) -> NodeFacts {
    let at = |address: IpAddr, ports| NodeAddress { address, ports };
    NodeFacts {
        addresses: vec![
            at("127.0.0.1".parse().expect("address"), true),
            at("::1".parse().expect("address"), false),
            at(lan(Family::V4, number), true),
            at(lan(Family::V6, number), true),
        ],
        inside: ["10.244.0.0/16", "fd00:244::/32"]
            .map(|it| it.parse().expect("a range"))
            .to_vec(),
        ..NodeFacts::default()
    }
}

/// The namespace's devices.
fn devices() -> Vec<Device> {
    let out = Command::new("ip").args(["-o", "link", "show"]).output();
    let out = String::from_utf8(out.expect("start `ip`").stdout).expect("text");
    out.lines()
        .map(|line| {
            let mut parts = line.splitn(3, ": ");
            let index = parts.next().and_then(|it| it.trim().parse().ok());
            let name = parts.next().and_then(|it| it.split('@').next());
            let (index, name) = index.zip(name).expect("a device");
            Device {
                index,
                name: name.to_owned(),
                kind: if name == "lo" { "" } else { "veth" }.to_owned(),
                loopback: name == "lo",
                ethernet: name != "lo",
                port: false,
            }
        })
        .collect()
}

/// Why this machine cannot have the world.
fn lack() -> Option<String> {
    let lack = ground::lack();
    if lack.is_some() {
        return lack;
    }
    let made = std::thread::spawn(|| {
        unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
        ["veth peer name b", "bridge"].iter().all(|kind| {
            let line = format!("link add a{} type {kind}", kind.len());
            let done = Command::new("ip").args(line.split(' ')).output();
            done.is_ok_and(|it| it.status.success())
        })
    });
    (!made.join().expect("an answer"))
        .then(|| "this kernel has no devices of the types veth and bridge".into())
}

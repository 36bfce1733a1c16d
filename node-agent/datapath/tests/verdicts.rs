//! The programs that guard pods, asked about random clusters: what the kernel
//! says is what the specification says.
//!
//! `ORLOP_POLICY_CLUSTERS=200 cargo test -p node-agent-datapath --test verdicts`
//! asks more; `ORLOP_POLICY_SEED` begins elsewhere. A failure names its seed.

mod host;
#[path = "../../policy/tests/support/mod.rs"]
mod support;

use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use aya::programs::{SchedClassifier, TestRun, TestRunOptions};
use aya::{Ebpf, EbpfLoader};
use ebpf_abi::policy::Direction;
use ebpf_abi::{Protocol, maps};
use host::Host;
use node_agent_datapath::Policy;
use node_agent_policy::Config;
use support::random::{self, NODES, Random};
use support::reference::Who;

const INGRESS: &str = "orlop_tc_guard_ingress";
const EGRESS: &str = "orlop_tc_guard_egress";
/// What the programs say of a packet that passes, and of one that does not.
const PASSES: i32 = -1;
const DROPPED: i32 = 2;

fn number(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.and_then(|it| it.parse().ok()).unwrap_or(default)
}

struct Kernel {
    ebpf: Ebpf,
    device: u32,
    uplink: u32,
    source_port: u16,
}

impl Kernel {
    /// Programs upon the maps that are pinned, and a pod's device behind which
    /// all pods' addresses are.
    fn new(pin_dir: &Path) -> Self {
        for line in [
            "link add orl0 type veth peer name pod0",
            "link add up0 type veth peer name up1",
            "link set orl0 up",
            "link set pod0 up",
            "link set up0 up",
            "link set up1 up",
            "route add 10.0.0.0/8 dev orl0",
            "-6 route add fd00::/8 dev orl0",
        ] {
            let status = Command::new("ip").args(line.split(' ')).status();
            assert!(status.expect("start `ip`").success(), "ip {line}");
        }
        for path in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            std::fs::write(format!("/proc/sys/net/{path}"), "1").expect(path);
        }
        let directory = pin_dir.join(format!("v{}", ebpf_abi::VERSION));
        let paths = maps::ALL.map(|name| (name, directory.join(name)));
        let mut loader = EbpfLoader::new();
        loader.btf(None);
        for (name, path) in &paths {
            loader.map_pin_path(name, path.as_path());
        }
        let level = 0_u8;
        loader.override_global(aya_log::LEVEL, &level, false);
        let object = node_agent_datapath::OBJECT.expect("checked by the host");
        let mut ebpf = loader.load(object).expect("load the object");
        for name in [INGRESS, EGRESS] {
            let program = ebpf.program_mut(name).expect(name);
            let program: &mut SchedClassifier = program.try_into().expect(name);
            program.load().expect(name);
        }
        let index = |name| nix::net::if_::if_nametoindex(name).expect("a device");
        Self {
            ebpf,
            device: index("orl0"),
            uplink: index("up0"),
            source_port: 1_024,
        }
    }

    /// Does a packet pass that begins a flow?
    fn passes(
        &mut self,
        direction: Direction,
        own: IpAddr,
        peer: IpAddr,
        protocol: Protocol,
        port: u16,
        from_node: bool,
    ) -> bool {
        // Each flow is another: none is known already.
        self.source_port = self.source_port.checked_add(1).unwrap_or(1_024);
        let (name, source, destination, from) = if direction == Direction::EGRESS {
            (INGRESS, own, peer, self.device)
        } else {
            let from = if from_node { 0 } else { self.uplink };
            (EGRESS, peer, own, from)
        };
        let packet = packet(source, destination, protocol, self.source_port, port);
        let mut context = vec![0_u8; 192];
        // `ingress_ifindex` and `ifindex` of `struct __sk_buff`.
        context[36..40].copy_from_slice(&from.to_ne_bytes());
        context[40..44].copy_from_slice(&self.device.to_ne_bytes());
        let mut out = vec![0; 2_048];
        let mut options = TestRunOptions::new();
        options.data_in = Some(&packet);
        options.data_out = Some(&mut out);
        options.ctx_in = Some(&context);
        let program = self.ebpf.program(name).expect(name);
        let program: &SchedClassifier = program.try_into().expect(name);
        let ran = program.test_run(options).expect(name);
        match ran.return_value.cast_signed() {
            PASSES => true,
            DROPPED => false,
            other => panic!("{name} says {other}"),
        }
    }
}

/// A packet that begins a flow.
fn packet(from: IpAddr, to: IpAddr, protocol: Protocol, source: u16, port: u16) -> Vec<u8> {
    let ping = protocol == Protocol(1);
    let mut transport = vec![0; 20];
    transport[..2].copy_from_slice(&source.to_be_bytes());
    transport[2..4].copy_from_slice(&port.to_be_bytes());
    match protocol {
        // Five words, SYN.
        Protocol::TCP => transport[12..14].copy_from_slice(&[5 << 4, 2]),
        Protocol::UDP => transport[4..6].copy_from_slice(&20_u16.to_be_bytes()),
        _ => {}
    }
    let mut packet = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            packet.extend([8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol.0, 0, 0]);
            packet.extend(from.octets());
            packet.extend(to.octets());
            if ping {
                transport[..2].copy_from_slice(&[8, 0]);
            }
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let next = if ping { 58 } else { protocol.0 };
            packet.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, next, 64]);
            packet.extend(from.octets());
            packet.extend(to.octets());
            if ping {
                transport[..2].copy_from_slice(&[128, 0]);
            }
        }
        _ => panic!("two families"),
    }
    packet.extend(transport);
    packet
}

#[test]
fn the_kernel_says_what_the_specification_says() {
    let Some(host) = Host::new() else { return };
    let _engine = host.engine();
    let policy = Policy::open(&host.pin_dir).expect("policy's maps");
    let mut kernel = Kernel::new(&host.pin_dir);
    let first = number("ORLOP_POLICY_SEED", 1);
    let clusters = number("ORLOP_POLICY_CLUSTERS", 24);
    let addresses = random::addresses();
    let ports = random::ports();
    let (mut asked, mut allowed) = (0_u32, 0_u32);
    for seed in first..first + clusters {
        let mut random = Random::new(seed ^ 0x6b65_726e);
        let cluster = random::cluster(&mut random);
        let node = random.pick(&NODES);
        // As an agent that takes over from another.
        let config = Config {
            node: Some(node.to_owned()),
            previous: policy.root().expect("root"),
            ..Config::default()
        };
        let actions = support::told(&cluster, config).sync();
        policy.apply(&actions).expect("apply");
        for own in &addresses {
            let here = |pod: &node_agent_policy::objects::Pod| pod.spec.node_name == node;
            if !matches!(cluster.who(*own), Who::Pod(pod) if here(pod)) {
                continue;
            }
            for peer in &addresses {
                if own.is_ipv4() != peer.is_ipv4() {
                    continue;
                }
                let from_node =
                    matches!(cluster.who(*peer), Who::Node(it) if it.metadata.name == node);
                for direction in [Direction::EGRESS, Direction::INGRESS] {
                    for _ in 0..3 {
                        let (protocol, port) = random.pick(&ports);
                        let expected = cluster.side(direction, *own, *peer, protocol, port);
                        let said = kernel.passes(direction, *own, *peer, protocol, port, from_node);
                        assert_eq!(
                            Some(said),
                            expected,
                            "seed {seed}: {direction:?} of {own}, {peer}, {protocol}/{port}\n{cluster:#?}"
                        );
                        asked += 1;
                        allowed += u32::from(said);
                    }
                }
            }
        }
    }
    println!("{asked} flows, {allowed} allowed");
    // A test of which all flows have the same answer would show nothing.
    assert!(
        asked > 1_000 && allowed * 10 > asked && allowed * 10 < asked * 9,
        "{allowed} of {asked}"
    );
    // Nothing is left of agents that are gone.
    let entries = policy.entries().expect("entries");
    assert!(entries.verdicts < 5_000, "{entries:?}");
}

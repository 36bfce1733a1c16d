//! The programs at pods' devices, fed with packets by `BPF_PROG_TEST_RUN`, upon
//! maps that somebody else writes.

#![allow(dead_code, reason = "each test binary uses another part")]

use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use aya::programs::{SchedClassifier, TestRun, TestRunOptions};
use aya::{Ebpf, EbpfLoader};
use ebpf_abi::policy::Direction;
use ebpf_abi::{Protocol, maps};

const PROGRAMS: [&str; 6] = [
    "orlop_tc_guard_ingress",
    "orlop_tc_guard_egress",
    "orlop_tc_pod_ingress",
    "orlop_tc_pod_egress",
    AT_NODE[0],
    AT_NODE[1],
];
/// At the node's own devices: to the node, and from it.
const AT_NODE: [&str; 2] = ["orlop_tc_host_ingress", "orlop_tc_host_egress"];
/// What the programs say of a packet that passes, and of one that does not.
const PASSES: i32 = -1;
const DROPPED: i32 = 2;
/// TCP's flags.
const SYN: u8 = 2;
const ACK: u8 = 16;

pub struct Kernel {
    ebpf: Ebpf,
    device: u32,
    uplink: u32,
    source_port: u16,
}

impl Kernel {
    /// Programs upon the maps that are pinned, and a pod's device behind which
    /// all pods' addresses are.
    pub fn new(pin_dir: &Path) -> Self {
        devices();
        Self::new_for(pin_dir)
    }

    /// The same, where the devices are there.
    pub fn new_for(pin_dir: &Path) -> Self {
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
        let object = object.unpack().expect("unpacked");
        let mut ebpf = loader.load(&object).expect("load the object");
        for name in PROGRAMS {
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
    pub fn passes(&mut self, asked: &Packet) -> bool {
        // Each flow is another: none is known already.
        self.source_port = self.source_port.checked_add(1).unwrap_or(1_024);
        let name = asked.program(true);
        match self.run(name, asked, self.source_port, 1).0 {
            PASSES => true,
            DROPPED => false,
            other => panic!("{name} says {other}"),
        }
    }

    /// Nanoseconds that a packet takes which begins a flow.
    pub fn new_flow(&mut self, asked: &Packet) -> u128 {
        self.source_port = self.source_port.checked_add(1).unwrap_or(1_024);
        self.run(asked.program(true), asked, self.source_port, 1).1
    }

    /// Nanoseconds that a packet takes of a flow that is known, at a device that is
    /// guarded or not.
    pub fn established(&mut self, asked: &Packet, guarded: bool, client: u16, repeat: u32) -> u128 {
        self.established_by(asked.program(guarded), asked, client, repeat)
    }

    /// The same at the node's own device.
    pub fn established_at_node(&mut self, asked: &Packet, client: u16, repeat: u32) -> u128 {
        let name = AT_NODE[usize::from(asked.direction == Direction::EGRESS)];
        self.established_by(name, asked, client, repeat)
    }

    fn established_by(&mut self, name: &str, asked: &Packet, client: u16, repeat: u32) -> u128 {
        assert_eq!(self.run(name, asked, client, 1).0, PASSES);
        let (said, took) = self.run_with(name, asked, client, ACK, repeat);
        assert_eq!(said, PASSES);
        took
    }

    /// Runs a program with a packet that begins a flow, and says how many nanoseconds
    /// it took.
    pub fn run(&mut self, name: &str, asked: &Packet, client: u16, repeat: u32) -> (i32, u128) {
        self.run_with(name, asked, client, SYN, repeat)
    }

    fn run_with(
        &mut self,
        name: &str,
        asked: &Packet,
        client: u16,
        flags: u8,
        repeat: u32,
    ) -> (i32, u128) {
        let (source, destination, mut from) = if asked.direction == Direction::EGRESS {
            (asked.own, asked.peer, self.device)
        } else {
            let from = if asked.from_node { 0 } else { self.uplink };
            (asked.peer, asked.own, from)
        };
        if name == AT_NODE[1] {
            // A process of the node's made it.
            from = 0;
        }
        let ports = (client, asked.port);
        let packet = packet(source, destination, asked.protocol, ports, flags);
        let mut context = vec![0_u8; 192];
        // `ingress_ifindex` and `ifindex` of `struct __sk_buff`.
        context[36..40].copy_from_slice(&from.to_ne_bytes());
        context[40..44].copy_from_slice(&self.device.to_ne_bytes());
        let mut out = vec![0; 2_048];
        let mut options = TestRunOptions::new();
        options.data_in = Some(&packet);
        options.data_out = Some(&mut out);
        options.ctx_in = Some(&context);
        options.repeat = repeat;
        let program = self.ebpf.program(name).expect(name);
        let program: &SchedClassifier = program.try_into().expect(name);
        let ran = program.test_run(options).expect(name);
        (ran.return_value.cast_signed(), ran.duration.as_nanos())
    }
}

/// A packet at a pod's device, as the pod sees it.
#[derive(Clone, Copy)]
pub struct Packet {
    pub direction: Direction,
    pub own: IpAddr,
    pub peer: IpAddr,
    pub protocol: Protocol,
    pub port: u16,
    pub from_node: bool,
}

impl Packet {
    /// The program that gets it, if the pod is guarded or not.
    pub fn program(&self, guarded: bool) -> &'static str {
        match (self.direction == Direction::EGRESS, guarded) {
            (true, true) => "orlop_tc_guard_ingress",
            (false, true) => "orlop_tc_guard_egress",
            (true, false) => "orlop_tc_pod_ingress",
            (false, false) => "orlop_tc_pod_egress",
        }
    }
}

/// A packet with these flags, if it is of TCP.
fn packet(
    from: IpAddr,
    to: IpAddr,
    protocol: Protocol,
    (source, port): (u16, u16),
    flags: u8,
) -> Vec<u8> {
    let ping = protocol == Protocol(1);
    let mut transport = vec![0; 20];
    transport[..2].copy_from_slice(&source.to_be_bytes());
    transport[2..4].copy_from_slice(&port.to_be_bytes());
    match protocol {
        // Five words.
        Protocol::TCP => transport[12..14].copy_from_slice(&[5 << 4, flags]),
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

/// The devices.
pub fn devices() {
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
}

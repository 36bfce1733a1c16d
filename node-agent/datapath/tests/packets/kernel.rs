//! The programs in the kernel, in a network namespace of their own, fed with
//! packets by `BPF_PROG_TEST_RUN`.

use std::process::Command;

use aya::maps::{Array, HashMap, Map, MapData, lpm_trie::Key, lpm_trie::LpmTrie};
use aya::programs::{SchedClassifier, TestRun, TestRunOptions, Xdp};
use aya::{Ebpf, EbpfLoader};
use ebpf_abi::{Plain, maps};
use nix::sched::{CloneFlags, unshare};

use super::raw::Raw;

/// Programs at devices, by name.
pub const PROGRAMS: [&str; 4] = [
    "orlop_tc_ingress",
    "orlop_tc_egress",
    "orlop_tc_pod_ingress",
    "orlop_tc_pod_egress",
];

/// What a device's program made of a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ran {
    pub code: i32,
    pub packet: Vec<u8>,
    pub nanoseconds: u128,
}

pub struct Kernel {
    ebpf: Ebpf,
    device: u32,
    out: Vec<u8>,
}

/// Why this machine cannot run them.
pub fn lack() -> Option<&'static str> {
    if !nix::unistd::geteuid().is_root() {
        return Some("not root");
    }
    if node_agent_datapath::OBJECT.is_none() {
        return Some("the BPF object is not built; `cargo xtask build` makes it");
    }
    None
}

impl Kernel {
    /// Programs, loaded, in a namespace with one device through which all ways
    /// lead, to one neighbour.
    pub fn new() -> Option<Self> {
        if let Some(reason) = lack() {
            eprintln!("skipped: {reason}");
            return None;
        }
        unshare(CloneFlags::CLONE_NEWNET).expect("unshare");
        for line in [
            "link set lo up",
            "link add eth0 address 02:00:00:00:00:01 type veth peer name peer0",
            "link set peer0 up",
            "link set eth0 up",
            "addr add 192.0.2.1/24 dev eth0",
            "route add default via 192.0.2.254 dev eth0",
            "neigh add 192.0.2.254 lladdr 02:00:00:00:00:fe dev eth0 nud permanent",
            "addr add 2001:db8::1/64 dev eth0 nodad",
            "route add default via 2001:db8::fe dev eth0",
            "neigh add 2001:db8::fe lladdr 02:00:00:00:00:fe dev eth0 nud permanent",
        ] {
            let done = Command::new("ip").args(line.split(' ')).status();
            assert!(done.expect("start `ip`").success(), "ip {line}");
        }
        // What `/proc/sys/net` shows is the reader's own namespace.
        for path in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            std::fs::write(format!("/proc/sys/net/{path}"), "1").expect(path);
        }
        let device = index();
        let mut loader = EbpfLoader::new();
        loader.btf(None);
        let level = 0_u8;
        loader.override_global(aya_log::LEVEL, &level, false);
        let object = node_agent_datapath::OBJECT.expect("checked by `lack`");
        let mut ebpf = loader.load(object).expect("load the object");
        for name in PROGRAMS {
            let program: &mut SchedClassifier =
                ebpf.program_mut(name).expect(name).try_into().expect(name);
            program
                .load()
                .unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        let program: &mut Xdp = ebpf
            .program_mut("orlop_xdp")
            .expect("orlop_xdp")
            .try_into()
            .expect("xdp");
        program
            .load()
            .unwrap_or_else(|error| panic!("orlop_xdp: {error}"));
        Some(Self {
            ebpf,
            device,
            out: vec![0; 1 << 16],
        })
    }

    /// Instructions that the verifier walked through, by program.
    pub fn costs(&mut self) -> Vec<(String, u32)> {
        let mut costs = Vec::new();
        for (name, program) in self.ebpf.programs() {
            if let Ok(info) = program.info() {
                costs.push((
                    name.to_owned(),
                    info.verified_instruction_count().unwrap_or_default(),
                ));
            }
        }
        costs.sort();
        costs
    }

    pub fn hash<K: Plain, V: Plain>(
        &mut self,
        name: &str,
    ) -> HashMap<&mut MapData, Raw<K>, Raw<V>> {
        self.map(name).try_into().expect(name)
    }

    pub fn trie(&mut self, name: &str) -> LpmTrie<&mut MapData, Raw<ebpf_abi::Range>, u32> {
        self.map(name).try_into().expect(name)
    }

    pub fn key(prefix: u32, range: ebpf_abi::Range) -> Key<Raw<ebpf_abi::Range>> {
        Key::new(prefix, Raw(range))
    }

    pub fn configure(&mut self, config: ebpf_abi::Config) {
        let mut map: Array<_, Raw<ebpf_abi::Sealed<ebpf_abi::Config>>> =
            self.map(maps::CONFIG).try_into().expect("CONFIG");
        let sealed = ebpf_abi::Sealed::new(&ebpf_abi::CONFIG_KEY, config);
        map.set(0, Raw(sealed), 0).expect("write CONFIG");
    }

    fn map(&mut self, name: &str) -> &mut Map {
        self.ebpf.map_mut(name).expect(name)
    }

    /// Runs a program at a device.
    pub fn run(&mut self, name: &str, packet: &[u8], repeat: u32) -> Ran {
        let mut context = vec![0_u8; 192];
        // `ingress_ifindex` and `ifindex` of `struct __sk_buff`.
        context[40..44].copy_from_slice(&self.device.to_ne_bytes());
        let mut options = TestRunOptions::new();
        options.data_in = Some(packet);
        options.data_out = Some(&mut self.out);
        options.repeat = repeat;
        let result = if name == "orlop_xdp" {
            let program: &Xdp = self.ebpf.program(name).expect(name).try_into().expect(name);
            let mut md = vec![0_u8; 24];
            md[4..8].copy_from_slice(&(packet.len() as u32).to_ne_bytes());
            md[12..16].copy_from_slice(&self.device.to_ne_bytes());
            options.ctx_in = Some(&md);
            program.test_run(options)
        } else {
            let program: &SchedClassifier =
                self.ebpf.program(name).expect(name).try_into().expect(name);
            options.ctx_in = Some(&context);
            program.test_run(options)
        };
        let result = result.unwrap_or_else(|error| panic!("{name}: {error:?} {packet:02x?}"));
        Ran {
            code: result.return_value.cast_signed(),
            packet: self.out[..result.data_size_out as usize].to_vec(),
            nanoseconds: result.duration.as_nanos(),
        }
    }
}

fn index() -> u32 {
    let text = Command::new("ip")
        .args(["-o", "link", "show", "eth0"])
        .output();
    let text = String::from_utf8(text.expect("ip").stdout).expect("text");
    text.split(':')
        .next()
        .expect("index")
        .trim()
        .parse()
        .expect("index")
}

//! The programs in the kernel, in a network namespace of their own, fed with
//! packets by `BPF_PROG_TEST_RUN`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use aya::maps::lpm_trie::{Key, LpmTrie};
use aya::maps::{Array, HashMap, Map, Queue};
use aya::programs::{SchedClassifier, TestRun, TestRunOptions, Xdp};
use aya::{Ebpf, EbpfLoader};
use ebpf_abi::{
    AS_NODE, Affinity, AffinityKey, CONFIG_KEY, ChecksummedValue, Config, Flow, FlowEntry,
    FlowFlags, FlowLogKey, FlowPorts, FragmentKey, FragmentPorts, Life, Plain, Range,
    ServiceEntryKinds, Tuple, maps,
};
use ebpf_logic::Maps;
use ebpf_logic::model::Model;
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
    /// The elements of `FLOW_PORTS` that say that there may be flows.
    elements: Option<BTreeSet<u32>>,
    /// What was written to `SERVED`, which programs do not write.
    served: BTreeMap<u32, u64>,
    /// Did programs meet a half written `CONFIG` at the last node?
    half_written: bool,
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
        let mut kernel = Self::load()?;
        unshare(CloneFlags::CLONE_NEWNET).expect("unshare");
        let pair = "link add eth0 address 02:00:00:00:00:01 type veth peer name peer0";
        let made = Command::new("ip").args(pair.split(' ')).status();
        if !made.expect("start `ip`").success() {
            eprintln!("skipped: this kernel has no devices of type veth");
            return None;
        }
        for line in [
            "link set lo up",
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
        kernel.device = index();
        Some(kernel)
    }

    /// Programs, loaded.
    pub fn load() -> Option<Self> {
        if let Some(reason) = lack() {
            eprintln!("skipped: {reason}");
            return None;
        }
        let mut loader = EbpfLoader::new();
        loader.btf(None);
        let level = 0_u8;
        loader.override_global(aya_log::LEVEL, &level, false);
        let object = node_agent_datapath::OBJECT.expect("checked by `lack`");
        let object = object.unpack().expect("unpacked");
        let mut ebpf = loader.load(&object).expect("load the object");
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
            device: 0,
            out: vec![0; 1 << 16],
            elements: None,
            served: BTreeMap::new(),
            half_written: false,
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

    /// Writes a node's maps, in the place of those of the former one.
    pub fn write(&mut self, model: &Model) {
        fill(self.map(maps::SERVICES), &model.services);
        fill(self.map(maps::SLOTS), &model.slots);
        fill(self.map(maps::MEMBERS), &model.members);
        fill(self.map(maps::MAGLEV), &model.maglev);
        fill(self.map(maps::NODES), &model.nodes);
        self.serve(model);
        fill(self.map(maps::FLOWS), &model.flows.borrow());
        self.write_flow_ports(model);
        fill::<FragmentKey, ChecksummedValue<FragmentPorts>>(
            self.map(maps::FRAGMENTS),
            &BTreeMap::new(),
        );
        fill::<AffinityKey, ChecksummedValue<Affinity>>(self.map(maps::AFFINITY), &BTreeMap::new());
        ranges(self.map(maps::INSIDE), &model.inside, 1);
        ranges(self.map(maps::SOURCES), &model.sources, 1);
        ranges(self.map(maps::EGRESS), &model.leaving, AS_NODE);
        let mut log: Queue<_, Raw<FlowLogKey>> =
            self.map(maps::FLOW_LOG).try_into().expect("FLOW_LOG");
        while log.pop(0).is_ok() {}
        let config = model.config.expect("a node");
        let whole = ChecksummedValue::new(&CONFIG_KEY, config);
        // To half of the nodes, somebody who writes is held up half way.
        self.half_written = !self.half_written;
        let (now, ahead) = if self.half_written {
            (ChecksummedValue::broken(Config::DEFAULT), whole)
        } else {
            (whole, ChecksummedValue::broken(Config::DEFAULT))
        };
        for (name, value) in [(maps::CONFIG, now), (maps::CONFIG_AHEAD, ahead)] {
            let mut map: Array<_, Raw<ChecksummedValue<Config>>> =
                self.map(name).try_into().expect(name);
            map.set(0, Raw(value), 0).expect(name);
        }
    }

    /// Says which ports the model's services have, and no others.
    fn serve(&mut self, model: &Model) {
        let mut words: BTreeMap<u32, u64> = BTreeMap::new();
        for key in model.services.keys() {
            if let Some(place) = ServiceEntryKinds::place(key.protocol, key.port) {
                let word = words.entry(place.word).or_default();
                *word = place.write(*word, model.served(key.protocol, key.port));
            }
        }
        let former = std::mem::replace(&mut self.served, words.clone());
        let gone = former.into_keys().filter(|it| !words.contains_key(it));
        let gone: Vec<_> = gone.map(|word| (word, 0)).collect();
        let mut map: Array<_, u64> = self.map(maps::SERVED).try_into().expect("SERVED");
        for (word, content) in gone.into_iter().chain(words) {
            map.set(word, content, 0).expect("write SERVED");
        }
    }

    /// Says that there are the model's flows and no others.
    fn write_flow_ports(&mut self, model: &Model) {
        let mut elements: BTreeMap<u32, FlowPorts> = BTreeMap::new();
        for (key, entry) in model.flows.borrow().iter() {
            let reply = entry.flow.unchecked().flags.contains(FlowFlags::REPLY);
            for place in FlowPorts::for_flow(key, reply).into_iter().flatten() {
                let element = elements.entry(place.element).or_insert(FlowPorts::NONE);
                *element = element.taken(place.byte);
            }
        }
        let former = match &self.elements {
            Some(former) => former.clone(),
            None => (0..FlowPorts::ELEMENTS).collect(),
        };
        for element in former {
            elements.entry(element).or_insert(FlowPorts::NONE);
        }
        let mut map: Array<_, u64> = self.map(maps::FLOW_PORTS).try_into().expect("FLOW_PORTS");
        for (element, ports) in &elements {
            map.set(*element, ports.0, 0).expect("write FLOW_PORTS");
        }
        let taken = elements
            .into_iter()
            .filter(|(_, ports)| *ports != FlowPorts::NONE);
        self.elements = Some(taken.map(|(element, _)| element).collect());
    }

    /// All flows, without the times of their use.
    pub fn flows(&mut self) -> Vec<(Tuple, Option<Flow>, u32)> {
        let map: HashMap<_, Raw<Tuple>, Raw<FlowEntry>> =
            self.map(maps::FLOWS).try_into().expect("FLOWS");
        let mut flows: Vec<_> = map
            .iter()
            .map(|entry| {
                let (Raw(key), Raw(entry)) = entry.expect("read FLOWS");
                (key, entry.flow.open(&key), entry.life.seen())
            })
            .collect();
        flows.sort_unstable_by_key(|(key, ..)| *key);
        // What programs said of flows that are gone stays said.
        let places = |(key, ..): &(Tuple, _, _)| {
            [false, true]
                .map(|reply| FlowPorts::for_flow(key, reply))
                .into_iter()
                .flatten()
                .flatten()
        };
        let elements = flows.iter().flat_map(places).map(|place| place.element);
        self.elements.get_or_insert_default().extend(elements);
        flows
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

/// Does the kernel run programs with it? From Linux 6.18 on, `BPF_PROG_TEST_RUN` refuses
/// what is shorter than the header that its Ethernet type names (`EINVAL`).
pub fn takes(packet: &[u8]) -> bool {
    let least = match packet.get(12..14) {
        Some([0x08, 0x00]) => 20,
        Some([0x86, 0xdd]) => 40,
        _ => 0,
    };
    packet.len() >= 14 + least
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

/// Now, about as the programs see it: the time since the machine started, of
/// which a test machine sleeps through none.
pub fn ticks() -> u32 {
    // The programs read the clock themselves: what is compared with them is not
    // to run where a tick ends in between.
    const MARGIN: u64 = 60_000_000;
    loop {
        let text = std::fs::read_to_string("/proc/uptime").expect("/proc/uptime");
        let seconds: f64 = text
            .split(' ')
            .next()
            .and_then(|it| it.parse().ok())
            .expect("seconds");
        let nanoseconds = (seconds * 1e9) as u64;
        let left = (1 << Life::TICK) - nanoseconds % (1 << Life::TICK);
        if left > MARGIN {
            return (nanoseconds >> Life::TICK) as u32;
        }
        std::thread::sleep(std::time::Duration::from_nanos(left + MARGIN / 4));
    }
}

fn fill<K: Plain + Ord, V: Plain>(map: &mut Map, entries: &BTreeMap<K, V>) {
    let mut map: HashMap<_, Raw<K>, Raw<V>> = map.try_into().expect("a hash map");
    let old: Vec<_> = map.keys().flatten().collect();
    for key in old {
        map.remove(&key).expect("remove");
    }
    for (key, value) in entries {
        map.insert(Raw(*key), Raw(*value), 0).expect("insert");
    }
}

fn ranges(map: &mut Map, entries: &BTreeSet<(u32, Range)>, value: u32) {
    let mut map: LpmTrie<_, Raw<Range>, u32> = map.try_into().expect("a trie");
    let old: Vec<_> = map.keys().flatten().collect();
    for key in old {
        map.remove(&key).expect("remove");
    }
    for (prefix, range) in entries {
        map.insert(&Key::new(*prefix, Raw(*range)), value, 0)
            .expect("insert");
    }
}

//! Updates under load, and life without the agent.

mod host;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use host::{Host, Server, ask_tcp, ask_udp, ip, put_service, put_slice, service, slice};
use node_agent_datapath::{
    Capacity, Datapath, Device, Engine, Error, Object, Options, Patterns, RecordingOptions, TcWay,
    inspect, remove,
};

const VIP: &str = "10.96.0.7:80";

/// Clients that ask without pause.
struct Storm {
    stop: Arc<AtomicBool>,
    asked: Arc<AtomicU64>,
    threads: Vec<std::thread::JoinHandle<Vec<String>>>,
}

impl Storm {
    fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::new(AtomicU64::new(0));
        let threads = (0..3)
            .map(|number| {
                let (stop, asked) = (stop.clone(), asked.clone());
                std::thread::spawn(move || {
                    let mut failures = Vec::new();
                    while !stop.load(Ordering::Relaxed) {
                        let outcome = if number == 0 {
                            ask_udp(VIP).map(drop)
                        } else {
                            ask_tcp(VIP).map(drop)
                        };
                        asked.fetch_add(1, Ordering::Relaxed);
                        if let Err(error) = outcome {
                            failures.push(error.to_string());
                        }
                    }
                    failures
                })
            })
            .collect();
        Self {
            stop,
            asked,
            threads,
        }
    }

    /// How many asked, and who failed.
    fn end(self) -> (u64, Vec<String>) {
        self.stop.store(true, Ordering::Relaxed);
        let failures = self
            .threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect();
        (self.asked.load(Ordering::Relaxed), failures)
    }
}

#[test]
fn no_connection_fails_while_endpoints_change() {
    let Some(host) = Host::new() else { return };
    let addresses: Vec<_> = (1..=6).map(|n| format!("10.244.0.{n}")).collect();
    addresses.iter().for_each(|address| host.address(address));
    let _servers: Vec<_> = addresses
        .iter()
        .map(|address| Server::start(&format!("{address}:8080")))
        .collect();
    let mut engine = host.engine();
    put_slice(&mut engine, &slice("web-4", "web", &["10.244.0.1"], 8080));
    put_service(&mut engine, &service("web", &["10.96.0.7"], 80));
    let storm = Storm::start();
    let began = Instant::now();
    let mut updates = 0_usize;
    // Emulated machines are slow.
    let is_enough = |updates| updates > 1_000 && storm.asked.load(Ordering::Relaxed) > 500;
    while began.elapsed() < Duration::from_secs(4)
        || (!is_enough(updates) && began.elapsed() < Duration::from_secs(120))
    {
        updates += 1;
        let some: Vec<_> = addresses
            .iter()
            .enumerate()
            .filter(|(n, _)| *n == updates % 6 || (updates >> n) & 1 == 1)
            .map(|(_, address)| address.as_str())
            .collect();
        put_slice(&mut engine, &slice("web-4", "web", &some, 8080));
    }
    let (asked, failures) = storm.end();
    println!("{asked} connections during {updates} updates");
    println!("{}", engine.dump().unwrap());
    assert_eq!(failures, Vec::<String>::new());
    assert!(asked > 500 && updates > 1_000, "{asked} {updates}");
}

/// Run in a process of its own by the tests below: brings a service into
/// force and waits for its end.
#[test]
#[ignore = "a part of other tests, which start it"]
fn loader() {
    let (Some(cgroup), Some(pin_dir)) = (
        std::env::var_os("TEST_CGROUP"),
        std::env::var_os("TEST_PIN_DIR"),
    ) else {
        return;
    };
    let options = Options {
        cgroup: PathBuf::from(cgroup),
        pin_dir: PathBuf::from(pin_dir),
        object: node_agent_datapath::OBJECT.unwrap(),
        capacity: Capacity::default(),
        tc: TcWay::Auto,
        recording: RecordingOptions::default(),
    };
    let mut engine = Engine::open(&options, Host::config()).unwrap();
    tell(&mut engine);
    let written = engine.resync().unwrap();
    std::fs::write(std::env::var_os("TEST_READY").unwrap(), written.to_string()).unwrap();
    std::thread::sleep(Duration::from_secs(60));
}

fn tell(engine: &mut Engine) {
    put_slice(
        engine,
        &slice("web-4", "web", &["10.244.0.1", "10.244.0.2"], 8080),
    );
    put_service(engine, &service("web", &["10.96.0.7"], 80));
}

/// Starts [`loader`]; returns once it has resynchronised, with the number of
/// entries that it wrote.
fn start_loader(host: &Host) -> (Child, usize) {
    let ready = std::env::temp_dir().join(format!("orlop-ready-{}", std::process::id()));
    let _ = std::fs::remove_file(&ready);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "loader", "--ignored"])
        .env("TEST_CGROUP", &host.cgroup)
        .env("TEST_PIN_DIR", &host.pin_dir)
        .env("TEST_READY", &ready)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    for _ in 0..200 {
        if let Some(written) = std::fs::read_to_string(&ready)
            .ok()
            .and_then(|it| it.parse().ok())
        {
            std::fs::remove_file(&ready).unwrap();
            return (child, written);
        }
        if let Some(status) = child.try_wait().unwrap() {
            panic!("the loader ended: {status}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let _ = child.kill();
    panic!("the loader does not become ready");
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
}

#[test]
fn services_outlive_their_agent_and_the_next_one_adopts_them() {
    let Some(host) = Host::new() else { return };
    for address in ["10.244.0.1", "10.244.0.2", "10.244.0.3"] {
        host.address(address);
    }
    let _servers: Vec<_> = ["10.244.0.1:8080", "10.244.0.2:8080", "10.244.0.3:8080"]
        .into_iter()
        .map(Server::start)
        .collect();
    let (first, written) = start_loader(&host);
    assert!(written > 0);
    assert!(
        matches!(Datapath::open(&host.options()), Err(Error::Busy { .. })),
        "one at a time"
    );
    let storm = Storm::start();
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(200));
    }
    kill(first);
    std::thread::sleep(Duration::from_millis(300));
    let links = || {
        let links = host.pin_dir.join(format!("v{}/links", ebpf_abi::VERSION));
        let entries = std::fs::read_dir(links).unwrap().map(Result::unwrap);
        entries.filter(|entry| !entry.path().is_dir()).count()
    };
    assert_eq!(links(), 10);
    for _ in 0..3 {
        let (next, written) = start_loader(&host);
        assert_eq!(written, 0, "a restart finds nothing to do");
        kill(next);
    }
    assert_eq!(links(), 10, "adopted, not doubled");

    let mut engine = Engine::open(&host.options(), Host::config()).unwrap();
    tell(&mut engine);
    assert_eq!(engine.resync().unwrap(), 0);
    let (asked, failures) = storm.end();
    assert_eq!(failures, Vec::<String>::new());
    assert!(asked > 200, "{asked}");

    put_slice(&mut engine, &slice("web-4", "web", &["10.244.0.3"], 8080));
    let seen: BTreeSet<_> = (0..16)
        .map(|_| ask_tcp(VIP).unwrap().0.to_string())
        .collect();
    assert_eq!(seen, BTreeSet::from(["10.244.0.3:8080".to_owned()]));
}

#[test]
fn removal_leaves_nothing_and_ends_translation() {
    let Some(host) = Host::new() else { return };
    host.address("10.244.0.1");
    let _server = Server::start("10.244.0.1:8080");
    let mut engine = host.engine();
    put_slice(&mut engine, &slice("web-4", "web", &["10.244.0.1"], 8080));
    put_service(&mut engine, &service("web", &["10.96.0.7"], 80));
    ask_tcp(VIP).unwrap();
    let words = inspect(&host.pin_dir).unwrap().to_string();
    assert!(words.contains("default/web:tcp TCP IPv4"), "{words}");
    assert!(
        words.contains("to 10.244.0.1:8080, on this node"),
        "{words}"
    );
    assert!(matches!(remove(&host.pin_dir), Err(Error::Busy { .. })));
    drop(engine);
    ask_tcp(VIP).unwrap();
    remove(&host.pin_dir).unwrap();
    assert!(!host.pin_dir.exists());
    assert!(ask_tcp(VIP).is_err());
    assert!(matches!(
        inspect(&host.pin_dir),
        Err(Error::NotPinned { .. })
    ));
    remove(&host.pin_dir).unwrap();
}

#[test]
fn many_entries_are_all_read_back() {
    const SERVICES: usize = 1_500;
    let Some(host) = Host::new() else { return };
    let tell_all = |engine: &mut Engine| {
        for number in 0..SERVICES {
            let (a, b) = (number / 250, number % 250);
            let name = format!("s{number}");
            put_service(engine, &service(&name, &[&format!("10.96.{a}.{b}")], 80));
            let pods: Vec<_> = (1..=3).map(|n| format!("10.{}.{b}.{n}", 100 + a)).collect();
            let pods: Vec<_> = pods.iter().map(String::as_str).collect();
            put_slice(engine, &slice(&format!("e{number}"), &name, &pods, 8080));
        }
    };
    let mut engine = Engine::open(&host.options(), Host::config()).unwrap();
    tell_all(&mut engine);
    engine.resync().unwrap();
    let maps = engine.dump().unwrap().maps;
    assert_eq!(maps.services.len(), SERVICES * 2);
    assert_eq!(maps.slots.len(), SERVICES * 2 * 3);
    drop(engine);
    let mut engine = Engine::open(&host.options(), Host::config()).unwrap();
    tell_all(&mut engine);
    assert_eq!(engine.resync().unwrap(), 0, "a restart finds nothing to do");
    assert_eq!(engine.dump().unwrap().maps, maps);
}

#[test]
fn devices_get_their_programs_when_they_come_and_keep_them() {
    let Some(host) = Host::new() else { return };
    let device = |name: &str| Device {
        index: nix::net::if_::if_nametoindex(name).unwrap(),
        name: name.to_owned(),
        kind: "veth".to_owned(),
        ethernet: true,
        ..Device::default()
    };
    let verified = |datapath: &Datapath| -> BTreeSet<&str> {
        let costs = datapath.costs().iter().map(|cost| cost.hook);
        costs
            .filter(|hook| ["tc_", "pod_", "xdp"].iter().any(|it| hook.starts_with(it)))
            .collect()
    };
    let patterns = Patterns::default();
    ip("link add eth0 type veth peer name orl0");
    let (outside, pod) = (device("eth0"), device("orl0"));
    let both = BTreeSet::from(["tc_egress", "tc_ingress"]);
    let all = BTreeSet::from(["pod_egress", "pod_ingress", "tc_egress", "tc_ingress"]);

    let mut datapath = Datapath::open(&host.options()).unwrap();
    assert_eq!(verified(&datapath), BTreeSet::new());
    let first = datapath.follow_devices(std::slice::from_ref(&outside), &patterns);
    assert_eq!(first.unwrap().attached, 2);
    assert_eq!(verified(&datapath), both);
    drop(datapath);

    let mut datapath = Datapath::open(&host.options()).unwrap();
    assert_eq!(verified(&datapath), both, "replaced where they run");
    let devices = [outside, pod];
    let followed = datapath.follow_devices(&devices, &patterns).unwrap();
    assert_eq!(
        (followed.attached, followed.changed, followed.failed),
        (4, 2, 0)
    );
    assert_eq!(verified(&datapath), all);
    let again = datapath.follow_devices(&devices, &patterns).unwrap();
    assert_eq!((again.attached, again.changed), (4, 0));
    assert_eq!(datapath.costs().len(), 10 + all.len(), "verified once");
}

#[test]
fn broken_entries_are_removed_when_maps_are_compared() {
    use aya::maps::{HashMap, Map, MapData};
    let Some(host) = Host::new() else { return };
    let mut engine = host.engine();
    put_slice(&mut engine, &slice("web-4", "web", &["10.244.0.1"], 8080));
    put_service(&mut engine, &service("web", &["10.96.0.7"], 80));
    let written = engine.dump().unwrap().maps;
    let slots = host.pin_dir.join(format!("v{}/SLOTS", ebpf_abi::VERSION));
    let slots = MapData::from_pin(slots).unwrap();
    const KEY: usize = size_of::<ebpf_abi::SlotKey>();
    const VALUE: usize = size_of::<ebpf_abi::ChecksummedValue<ebpf_abi::Backend>>();
    let mut slots: HashMap<_, [u8; KEY], [u8; VALUE]> =
        HashMap::try_from(Map::from_map_data(slots).unwrap()).unwrap();
    slots.insert([7; KEY], [7; VALUE], 0).unwrap();
    let count = slots.keys().count();
    assert_eq!(engine.dump().unwrap().maps, written, "nobody reads it");
    assert_eq!(slots.keys().count(), count, "looking changes nothing");
    assert_eq!(engine.resync().unwrap(), 0);
    assert_eq!(slots.keys().count(), count - 1);
    assert_eq!(engine.dump().unwrap().maps, written);
}

/// As after a build whose programs did not ask which ports there are.
#[test]
fn services_that_stand_serve_though_nobody_said_under_which_ports() {
    let Some(host) = Host::new() else { return };
    host.address("10.244.0.1");
    let _server = Server::start("10.244.0.1:8080");
    let mut engine = host.engine();
    put_slice(&mut engine, &slice("web-4", "web", &["10.244.0.1"], 8080));
    put_service(&mut engine, &service("web", &["10.96.0.7"], 80));
    let said = engine.dump().unwrap().maps.served;
    assert!(!said.is_empty());
    drop(engine);
    let maps = host.pin_dir.join(format!("v{}", ebpf_abi::VERSION));
    std::fs::remove_file(maps.join("SERVED")).unwrap();
    let engine = Engine::open(&host.options(), Host::config()).unwrap();
    assert_eq!(engine.dump().unwrap().maps.served, said);
    ask_tcp("10.96.0.7:80").unwrap();
}

#[test]
fn map_of_another_layout_is_not_adopted() {
    let Some(host) = Host::new() else { return };
    drop(host.engine());
    let maps = host.pin_dir.join(format!("v{}", ebpf_abi::VERSION));
    std::fs::remove_file(maps.join("SERVICES")).unwrap();
    std::fs::rename(maps.join("SLOTS"), maps.join("SERVICES")).unwrap();
    let error = Datapath::open(&host.options()).unwrap_err();
    assert!(matches!(error, Error::Layout { .. }), "{error}");
}

#[test]
fn each_unsuitable_place_is_named() {
    let Some(host) = Host::new() else { return };
    let no_cgroup = Options {
        cgroup: "/tmp".into(),
        ..host.options()
    };
    let error = Datapath::open(&no_cgroup).unwrap_err();
    assert!(matches!(error, Error::NoCgroup2 { .. }), "{error}");
    let no_bpffs = Options {
        pin_dir: "/tmp/orlop-nowhere".into(),
        ..host.options()
    };
    let error = Datapath::open(&no_bpffs).unwrap_err();
    assert!(matches!(error, Error::NoBpffs { .. }), "{error}");
    assert!(!PathBuf::from("/tmp/orlop-nowhere").exists());
    let with = |packed: &'static [u8]| Options {
        object: Object::of_packed(packed),
        ..host.options()
    };
    let error = Datapath::open(&with(b"damaged")).unwrap_err();
    assert!(matches!(error, Error::Unpack { .. }), "{error}");
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(b"no object").unwrap();
    let packed = encoder.finish().unwrap().leak();
    let error = Datapath::open(&with(packed)).unwrap_err();
    assert!(matches!(error, Error::Load { .. }), "{error}");
}

/// Where new connections go must not change with the agent.
#[test]
fn the_seed_is_drawn_once_and_outlives_the_agent() {
    let Some(host) = Host::new() else { return };
    let seed = |engine: &Engine| engine.datapath().configuration().unwrap().unwrap().seed;
    let node = ebpf_abi::Config::DEFAULT;
    let mut engine = host.engine();
    assert!(engine.datapath().configuration().unwrap().is_none());
    engine.configure(&node).unwrap();
    let drawn = seed(&engine);
    assert_ne!(drawn, 0);
    // Told of another node, in this process and in the next one.
    engine
        .configure(&ebpf_abi::Config {
            node_v4: ebpf_abi::Address::v4([192, 0, 2, 1]),
            ..node
        })
        .unwrap();
    assert_eq!(seed(&engine), drawn);
    drop(engine);
    let mut engine = host.engine();
    assert_eq!(seed(&engine), drawn, "as the maps were left");
    engine.configure(&node).unwrap();
    assert_eq!(seed(&engine), drawn);
    engine
        .configure(&ebpf_abi::Config { seed: 7, ..node })
        .unwrap();
    assert_eq!(seed(&engine), 7, "one that is given goes first");
}

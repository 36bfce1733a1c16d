//! What the programs tell people, and what telling costs.

mod host;

use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ebpf_abi::{
    Backend, BackendFlags, Port, Protocol, Scope, ServiceEntryKinds, ServiceFlags, ServiceKey,
};
use host::{Host, ask_tcp, ask_udp, put_service, service};
use node_agent_datapath::{Datapath, DeviceHook, LOG_TARGET};
use node_agent_plan::Action;
use tracing::Level;
use tracing_subscriber::fmt::MakeWriter;

/// Lines of a subscriber.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

impl Lines {
    /// Those of the programs.
    fn told(&self) -> Vec<String> {
        let bytes = self.0.lock().unwrap().clone();
        String::from_utf8(bytes)
            .unwrap()
            .lines()
            .filter(|line| line.contains(&format!("{LOG_TARGET}:")))
            .map(str::to_owned)
            .collect()
    }

    /// Waits for a line that holds all of that.
    fn wait(&self, parts: &[&str]) {
        let until = Instant::now() + Duration::from_secs(5);
        while Instant::now() < until {
            let fits = |line: &String| parts.iter().all(|part| line.contains(part));
            if self.told().iter().any(fits) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("no line with {parts:?} among {:#?}", self.told());
    }
}

/// Runs something with a subscriber of that level.
fn at<T>(level: Level, run: impl FnOnce(&Lines) -> T) -> T {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(false)
        .with_writer(lines.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, || run(&lines))
}

/// A service whose only slot is missing, as a plan never writes it.
fn put_broken(datapath: &mut Datapath, vip: &str) {
    let address: SocketAddr = vip.parse().unwrap();
    let key = ServiceKey::internal(
        address.ip().into(),
        Port::new(address.port()),
        Protocol::TCP,
    );
    assert_eq!(key.scope, Scope::INTERNAL);
    let entry = ebpf_abi::Service {
        set: 7,
        generation: 3,
        count: 1,
        flags: ServiceFlags::NONE,
        affinity_seconds: 0,
        table: 0,
    };
    datapath
        .apply(&[
            Action::PutName(7, "default/broken:tcp".into()),
            Action::PutServed(key.protocol, key.port, ServiceEntryKinds::from_key(&key)),
            Action::PutService(key, entry),
        ])
        .unwrap();
}

#[test]
fn refused_calls_are_told_for_debugging() {
    let Some(host) = Host::new() else { return };
    at(Level::DEBUG, |lines| {
        let mut engine = host.engine();
        put_service(
            &mut engine,
            &service("empty", &["10.96.0.7", "fd00:96::7"], 80),
        );
        assert!(ask_tcp("10.96.0.7:80").is_err());
        assert!(ask_udp("[fd00:96::7]:80").is_err());
        lines.wait(&[
            "DEBUG",
            "refused a call to a service without endpoints",
            "reason=\"refused_no_endpoint\"",
            "service=\"default/empty:tcp",
            "asked=10.96.0.7:80",
            "protocol=TCP",
        ]);
        lines.wait(&["DEBUG", "asked=[fd00:96::7]:80", "protocol=UDP"]);
    });
}

#[test]
fn refused_calls_are_not_told_otherwise() {
    let Some(host) = Host::new() else { return };
    at(Level::INFO, |lines| {
        let mut engine = host.engine();
        put_service(&mut engine, &service("empty", &["10.96.0.7"], 80));
        for _ in 0..10 {
            assert!(ask_tcp("10.96.0.7:80").is_err());
        }
        drop(engine);
        assert_eq!(lines.told(), Vec::<String>::new());
    });
}

#[test]
fn fault_is_a_warning_and_does_not_flood() {
    let Some(host) = Host::new() else { return };
    at(Level::INFO, |lines| {
        let mut datapath = Datapath::open(&host.options()).unwrap();
        put_broken(&mut datapath, "10.96.0.8:80");
        let start = Instant::now();
        for _ in 0..500 {
            let error = ask_tcp("10.96.0.8:80").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::HostUnreachable);
        }
        lines.wait(&[
            "WARN",
            "entry and backends do not fit together",
            "service=\"default/broken:tcp\"",
            "asked=10.96.0.8:80",
            "set=7 generation=3",
        ]);
        let processors = std::thread::available_parallelism().unwrap().get();
        let most = processors * (start.elapsed().as_secs() as usize + 1);
        assert!((1..=most).contains(&lines.told().len()), "{most}");
    });
}

#[test]
fn what_happened_without_an_agent_is_told_by_the_next_one() {
    let Some(host) = Host::new() else { return };
    at(Level::INFO, |lines| {
        let mut datapath = Datapath::open(&host.options()).unwrap();
        put_broken(&mut datapath, "10.96.0.8:80");
        drop(datapath);
        assert!(ask_tcp("10.96.0.8:80").is_err());
        assert_eq!(lines.told(), Vec::<String>::new());
        // The maps are adopted, the ring among them.
        let datapath = Datapath::open(&host.options()).unwrap();
        lines.wait(&["WARN", "asked=10.96.0.8:80"]);
        // And the reader goes on with what the new programs write.
        std::thread::sleep(Duration::from_millis(1_100));
        let before = lines.told().len();
        assert!(ask_tcp("10.96.0.8:80").is_err());
        let until = Instant::now() + Duration::from_secs(5);
        while lines.told().len() == before && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(lines.told().len() > before);
        drop(datapath);
    });
}

/// The verifier gives up at a million instructions; older kernels walk through
/// more of them than newer ones.
const MOST_VERIFIED: u32 = 200_000;

#[test]
fn verifier_has_room_and_silent_programs_carry_no_statement() {
    let Some(host) = Host::new() else { return };
    let cost = |level| {
        let host = &host;
        at(level, |_| {
            let mut datapath = Datapath::open(&host.options()).unwrap();
            datapath.load(&DeviceHook::ALL).unwrap();
            datapath.costs().to_vec()
        })
    };
    let (all, faults) = (cost(Level::DEBUG), cost(Level::INFO));
    let mut silent = Datapath::open(&host.options()).unwrap();
    silent.load(&DeviceHook::ALL).unwrap();
    let none = silent.costs().to_vec();
    // Eight hooks of connections, two of bind, and those of devices.
    assert_eq!(none.len(), 10 + DeviceHook::ALL.len());
    println!("hook          verified / instructions, by what is told: nothing, faults, all");
    for ((none, faults), all) in none.iter().zip(&faults).zip(&all) {
        println!(
            "cost {:<13} {:>6} / {:>4}   {:>6} / {:>4}   {:>6} / {:>4}",
            none.hook,
            none.verified,
            none.instructions,
            faults.verified,
            faults.instructions,
            all.verified,
            all.instructions
        );
        assert!(none.instructions > 0 && none.instructions <= faults.instructions);
        assert!(faults.instructions <= all.instructions);
        assert!(all.verified < MOST_VERIFIED, "{}", all.hook);
    }
    let connect = |costs: &[node_agent_datapath::Cost]| {
        costs
            .iter()
            .find(|cost| cost.hook == "connect4")
            .unwrap()
            .instructions
    };
    assert!(
        connect(&none) + 400 < connect(&faults),
        "the statement is gone"
    );
}

#[test]
fn backend_of_another_family_is_told_as_a_fault() {
    let Some(host) = Host::new() else { return };
    at(Level::WARN, |lines| {
        let mut datapath = Datapath::open(&host.options()).unwrap();
        put_broken(&mut datapath, "10.96.0.9:80");
        let slot = ebpf_abi::SlotKey::new(7, 3, 0);
        let address: std::net::IpAddr = "fd00:244::1".parse().unwrap();
        let backend = Backend::new(address.into(), Port::new(80), BackendFlags::NONE);
        datapath.apply(&[Action::PutSlot(slot, backend)]).unwrap();
        assert!(ask_tcp("10.96.0.9:80").is_err());
        lines.wait(&["WARN", "reason=\"refused_family\"", "asked=10.96.0.9:80"]);
    });
}

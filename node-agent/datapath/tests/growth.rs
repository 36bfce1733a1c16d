//! Maps that grow and programs that follow a former version, with clients that
//! ask without pause.

mod host;

#[path = "packets/raw.rs"]
mod raw;

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aya::maps::{HashMap, Map, MapData, Queue};
use ebpf_abi::{
    Address, Backend, BackendFlags, ChecksummedValue, Flow, FlowEntry, FlowFlags, FlowLogKey, Life,
    Port, Protocol, ServiceFlags, ServiceKey, SlotKey, Tuple,
};
use host::{Host, Server, ask_tcp, ask_udp, put_service, put_slice, service, slice};
use node_agent_datapath::{Capacity, Datapath, Engine, Options};
use node_agent_plan::Action;
use raw::Raw;

const VIP: &str = "10.96.0.7:80";

/// Asks without pause while something is done; how often, and what failed.
fn meanwhile(what: impl FnOnce()) -> (usize, Vec<String>) {
    let stop = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..2)
        .map(|number| {
            let stop = stop.clone();
            std::thread::spawn(move || {
                let (mut asked, mut failures) = (0, Vec::new());
                while !stop.load(Ordering::Relaxed) {
                    let outcome = if number == 0 {
                        ask_udp(VIP).map(drop)
                    } else {
                        ask_tcp(VIP).map(drop)
                    };
                    asked += 1;
                    // Of the sockets that asked, no more are remembered than
                    // the map takes: others are not to be pushed out here.
                    std::thread::sleep(std::time::Duration::from_micros(500));
                    failures.extend(outcome.err().map(|error| error.to_string()));
                }
                (asked, failures)
            })
        })
        .collect();
    std::thread::sleep(std::time::Duration::from_millis(100));
    what();
    std::thread::sleep(std::time::Duration::from_millis(100));
    stop.store(true, Ordering::Relaxed);
    let outcomes = threads.into_iter().map(|thread| thread.join().unwrap());
    outcomes.fold((0, Vec::new()), |(asked, failures), (more, failed)| {
        (asked + more, [failures, failed].concat())
    })
}

fn web(engine: &mut Engine) {
    put_slice(engine, &slice("web-4", "web", &["10.244.0.1"], 8080));
    put_service(engine, &service("web", &["10.96.0.7"], 80));
}

fn others(engine: &mut Engine, numbers: std::ops::Range<u32>) {
    for n in numbers {
        let (a, b) = (n / 250, n % 250);
        let name = format!("s{n}");
        put_service(engine, &service(&name, &[&format!("10.97.{a}.{b}")], 80));
        let pods: Vec<_> = (1..=3).map(|n| format!("10.{}.{b}.{n}", 100 + a)).collect();
        let pods: Vec<_> = pods.iter().map(String::as_str).collect();
        put_slice(engine, &slice(&format!("e{n}"), &name, &pods, 8080));
    }
}

#[test]
fn maps_grow_without_a_connection_lost() {
    let Some(host) = Host::new() else { return };
    host.address("10.244.0.1");
    let _server = Server::start("10.244.0.1:8080");
    let mut options = host.options();
    options.capacity = Capacity {
        services: 64,
        slots: 128,
        members: 16,
        ..Capacity::default()
    };
    let mut engine = Engine::open(&options, Host::config()).unwrap();
    engine.allow(Capacity::default());
    web(&mut engine);
    engine.resync().unwrap();
    let talking = UdpSocket::bind("0.0.0.0:0").unwrap();
    talking.connect(VIP).unwrap();
    let (asked, failures) = meanwhile(|| others(&mut engine, 0..300));
    assert_eq!(failures, Vec::<String>::new());
    assert!(asked > 50, "{asked}");
    let room = engine.datapath().room();
    assert!(room.services >= 602 && room.slots >= 1_802, "{room:?}");
    assert_eq!(room.members, 16, "what is not full stays as it is");
    let maps = engine.dump().unwrap().maps;
    assert_eq!((maps.services.len(), maps.slots.len()), (602, 1_802));
    assert_eq!(talking.peer_addr().unwrap(), VIP.parse().unwrap());
    assert_eq!(engine.planner().problems().count(), 0);
    // The next process finds large maps, under their names, and all in them.
    drop(engine);
    let mut engine = Engine::open(&options, Host::config()).unwrap();
    assert_eq!(engine.datapath().room(), room);
    web(&mut engine);
    others(&mut engine, 0..300);
    assert_eq!(engine.resync().unwrap(), 0);
}

#[test]
fn maps_that_may_not_grow_say_who_has_no_room() {
    let Some(host) = Host::new() else { return };
    let mut options = host.options();
    options.capacity = Capacity {
        services: 64,
        slots: 128,
        ..Capacity::default()
    };
    let mut engine = Engine::open(&options, Host::config()).unwrap();
    engine.allow(options.capacity);
    engine.resync().unwrap();
    others(&mut engine, 0..40);
    assert!(!engine.needs_resync(), "full maps are no failure");
    let maps = engine.dump().unwrap().maps;
    assert_eq!((maps.services.len(), maps.slots.len()), (64, 128));
    assert!(engine.planner().problems().count() >= 8);
    assert!(
        engine
            .planner()
            .fullness()
            .iter()
            .filter(|it| it.is_near())
            .count()
            == 2
    );
}

#[test]
fn former_version_hands_over_services_and_sockets() {
    let Some(host) = Host::new() else { return };
    host.address("10.244.0.1");
    let _server = Server::start("10.244.0.1:8080");
    let mut engine = Engine::open(&host.options(), Host::config()).unwrap();
    web(&mut engine);
    engine.resync().unwrap();
    let talking = UdpSocket::bind("0.0.0.0:0").unwrap();
    talking.connect(VIP).unwrap();
    drop(engine);
    // What the first version left behind: maps of this form, links of sockets.
    let current = host.pin_dir.join(format!("v{}", ebpf_abi::VERSION));
    let former = host.pin_dir.join("v1");
    std::fs::rename(&current, &former).unwrap();
    std::fs::remove_dir(former.join("links/devices")).unwrap();
    let mut engine = None;
    let (asked, failures) = meanwhile(|| {
        // Nothing is told to it: services are served all the same.
        engine = Some(Engine::open(&host.options(), Host::config()).unwrap());
    });
    assert_eq!(failures, Vec::<String>::new());
    assert!(asked > 20, "{asked}");
    assert!(!former.exists());
    assert_eq!(talking.peer_addr().unwrap(), VIP.parse().unwrap());
    let mut engine = engine.unwrap();
    web(&mut engine);
    assert_eq!(engine.resync().unwrap(), 0, "all is there already");
}

/// The entry of a Service, without a name, and its backends, as a build wrote them that had
/// members for affinity alone.
fn without_members(count: u8, flags: ServiceFlags) -> Vec<Action> {
    let set = 1 + u32::from(count);
    let key = ServiceKey::internal(
        Address::v4([10, 96, 0, count]),
        Port::new(80),
        Protocol::TCP,
    );
    let slots = (0..u32::from(count)).map(|slot| {
        let address = Address::v4([10, 244, count, slot as u8]);
        let flags = if slot == 0 {
            BackendFlags::LOCAL
        } else {
            BackendFlags::NONE
        };
        let backend = Backend::new(address, Port::new(8080), flags);
        Action::PutSlot(SlotKey::new(set, 1, slot), backend)
    });
    let entry = ebpf_abi::Service {
        set,
        generation: 1,
        count: count.into(),
        flags,
        affinity_seconds: 0,
        table: 0,
    };
    slots.chain([Action::PutService(key, entry)]).collect()
}

#[test]
fn large_sets_of_a_former_build_have_members_as_soon_as_programs_run() {
    let Some(host) = Host::new() else { return };
    let mut options = host.options();
    options.capacity.members = 16;
    let mut former = Datapath::open(&options).unwrap();
    for count in [32, 33, 40] {
        former
            .apply(&without_members(count, ServiceFlags::NONE))
            .unwrap();
    }
    assert_eq!(former.dump().unwrap().members.len(), 0);
    drop(former);
    let next = Datapath::open(&options).unwrap();
    let maps = next.dump().unwrap();
    let of_set = |set| maps.members.keys().filter(|key| key.set == set).count();
    // A backend on the node has a second one, by its address alone.
    assert_eq!((of_set(33), of_set(34), of_set(41)), (0, 33 + 1, 40 + 1));
    for entry in maps.services.values() {
        assert!(maps.backends(entry).is_some(), "{entry:?}");
    }
    assert!(next.room().members >= 75, "{:?}", next.room());
}

#[test]
fn a_queue_of_flows_that_is_too_small_is_replaced_with_all_its_keys() {
    const NUMBER: u8 = 100;
    let Some(host) = Host::new() else { return };
    let mut options = host.options();
    options.capacity.flows = 128;
    let directory = |options: &Options| options.pin_dir.join(format!("v{}", ebpf_abi::VERSION));
    // A queue of half the size, as a former build made it.
    let smaller = Options {
        pin_dir: options.pin_dir.with_file_name("smaller"),
        capacity: Capacity {
            flows: 64,
            ..options.capacity
        },
        ..options.clone()
    };
    drop(Datapath::open(&smaller).unwrap());
    drop(Datapath::open(&options).unwrap());
    let path = directory(&options).join("FLOW_LOG");
    std::fs::remove_file(&path).unwrap();
    std::fs::rename(directory(&smaller).join("FLOW_LOG"), &path).unwrap();
    node_agent_datapath::remove(&smaller.pin_dir).unwrap();

    let client = |number: u8| {
        Tuple::new(
            Address::v4([198, 51, 100, number]),
            Port::new(4000),
            Address::v4([192, 0, 2, 1]),
            Port::new(30_080),
            Protocol::TCP,
        )
    };
    let pinned = |name: &str| MapData::from_pin(directory(&options).join(name)).unwrap();
    let mut flows: HashMap<_, Raw<Tuple>, Raw<FlowEntry>> =
        Map::HashMap(pinned("FLOWS")).try_into().unwrap();
    for number in 0..NUMBER {
        let key = client(number);
        for (key, flags) in [(key, FlowFlags::NONE), (key.reversed(), FlowFlags::REPLY)] {
            let flow = Flow {
                to: key,
                set: 1,
                generation: 1,
                flags,
                reserved: 0,
            };
            let entry = FlowEntry {
                flow: ChecksummedValue::new(&key, flow),
                life: Life::new(0, 0),
            };
            flows.insert(Raw(key), Raw(entry), 0).unwrap();
        }
    }
    // The former build had queued some flows, and one that is gone.
    let queue = |name: &str| -> Queue<MapData, Raw<FlowLogKey>> {
        Map::Queue(pinned(name)).try_into().unwrap()
    };
    let mut former = queue("FLOW_LOG");
    for number in [7, 8, NUMBER] {
        let logged = FlowLogKey::new(&client(number), 3);
        former.push(Raw(logged), 0).unwrap();
    }
    assert_eq!(former.capacity(), 128);

    drop(Datapath::open(&options).unwrap());
    let mut larger = queue("FLOW_LOG");
    assert_eq!(larger.capacity(), 256, "as many as FLOWS has entries");
    let keys: Vec<Tuple> = std::iter::from_fn(|| larger.pop(0).ok())
        .map(|Raw(logged)| logged.key())
        .collect();
    let once: BTreeSet<Tuple> = keys.iter().copied().collect();
    assert_eq!(keys.len(), once.len(), "no key is queued twice");
    assert_eq!(once, (0..=NUMBER).map(client).collect());
}

/// Ranges, tables of consistent hashing and the node's own facts are read back
/// as they were written.
#[test]
fn every_kind_of_entry_is_read_back() {
    use node_agent_plan::{
        Config, LoadBalancerIngress, LoadBalancerStatus, NodeAddress, NodeFacts, ServiceStatus,
    };

    let Some(host) = Host::new() else { return };
    let facts = |last: u8| NodeFacts {
        addresses: vec![
            NodeAddress {
                address: [192, 0, 2, last].into(),
                ports: true,
            },
            NodeAddress {
                address: "2001:db8::1".parse().unwrap(),
                ports: false,
            },
        ],
        inside: vec![
            "10.244.0.0/16".parse().unwrap(),
            "fd00:244::/56".parse().unwrap(),
        ],
        ..NodeFacts::default()
    };
    let config = || Config {
        facts: facts(1),
        ..Host::config()
    };
    let ranges: Vec<String> = (0..=255)
        .map(|n| format!("198.{n}.0.0/16"))
        .chain([
            "0.0.0.0/1".into(),
            "2001:db8::/32".into(),
            "2001:db8::7/128".into(),
        ])
        .collect();
    let tell = |engine: &mut Engine| {
        let mut web = service("web", &["10.96.0.7", "fd00:96::7"], 80);
        let annotation = ("orlop.dev/load-balancing".to_owned(), "maglev".to_owned());
        web.metadata.annotations.extend([annotation]);
        web.spec.kind = Some("LoadBalancer".into());
        web.spec.external_traffic_policy = Some("Local".into());
        web.spec.load_balancer_source_ranges.clone_from(&ranges);
        web.spec
            .ports
            .iter_mut()
            .for_each(|port| port.node_port = Some(30_080));
        let ingress = ["192.0.2.100", "2001:db8::100"].map(|ip| LoadBalancerIngress {
            ip: Some(ip.into()),
            ip_mode: None,
        });
        web.status = ServiceStatus {
            load_balancer: LoadBalancerStatus {
                ingress: ingress.into(),
            },
        };
        put_service(engine, &web);
        put_slice(
            engine,
            &slice("web-4", "web", &["10.244.0.1", "10.244.0.2"], 8080),
        );
        put_slice(engine, &slice("web-6", "web", &["fd00:244::1"], 8080));
    };
    let mut engine = Engine::open(&host.options(), config()).unwrap();
    tell(&mut engine);
    engine.resync().unwrap();
    let maps = engine.dump().unwrap().maps;
    // Two protocols, two sets each (all endpoints and local ones) a family; and
    // the node, being within the ranges, may speak from the balanced address.
    assert_eq!(maps.sources.len(), 4 * (ranges.len() + 1));
    assert_eq!((maps.nodes.len(), maps.inside.len()), (2, 2));
    assert_eq!(maps.chunks.len(), 8 * 64);
    let hashed = |entry: &&ebpf_abi::Service| entry.flags.contains(ServiceFlags::MAGLEV);
    for entry in maps.services.values().filter(hashed) {
        assert!(maps.backends(entry).is_some(), "{entry:?}");
    }
    drop(engine);
    let mut engine = Engine::open(&host.options(), config()).unwrap();
    tell(&mut engine);
    assert_eq!(engine.resync().unwrap(), 0, "a restart finds nothing to do");
    // One address goes, another comes, whatever the number of node ports.
    let written = engine.set_node(facts(2)).unwrap();
    assert_eq!(written, node_agent_datapath::ApplyOutcome::Written(2));
    engine
        .on_service_change("default", "web", None::<&node_agent_plan::Service>)
        .unwrap();
    let maps = engine.dump().unwrap().maps;
    assert!(maps.sources.is_empty() && maps.chunks.is_empty() && maps.slots.is_empty());
    assert!(maps.services.is_empty() && maps.names.is_empty());
}

//! What is remembered of sockets and clients, where there is little room: what is gone
//! is removed, and what is lost while it is there is known.

mod host;
#[path = "packets/raw.rs"]
mod raw;

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;

use aya::maps::{HashMap, Map, MapData};
use ebpf_abi::{
    Address, Affinity, AffinityKey, ChecksummedValue, Original, OriginalKey, Plain, Port, Protocol,
    Service, ServiceFlags, ServiceKey, maps,
};
use host::{Host, put_service, put_slice, service, slice};
use node_agent_datapath::{Capacity, StaleEntryScan, TableLoad, clock};
use node_agent_plan::{AffinityConfig, ClientIp};
use raw::Raw;

const ROOM: u32 = 8_192;
/// More than half: from there on the maps are looked through. Less than all by what
/// processors keep for themselves.
const MANY: u32 = 5_000;
/// So many come that all others are pushed out.
const FLOOD: u32 = ROOM * 8;

const SMALL: Capacity = Capacity {
    originals: ROOM,
    affinity: ROOM,
    ..host::SMALL
};

fn open<K: Plain, V: Plain>(pin_dir: &Path, name: &str) -> HashMap<MapData, Raw<K>, Raw<V>> {
    let version = pin_dir.join(format!("v{}", ebpf_abi::VERSION));
    let data = MapData::from_pin(version.join(name)).expect(name);
    let map = match name {
        maps::SERVICES => Map::HashMap(data),
        _ => Map::LruHashMap(data),
    };
    map.try_into().expect(name)
}

/// Entries of sockets that nobody has.
fn strangers(
    map: &mut HashMap<MapData, Raw<OriginalKey>, Raw<ChecksummedValue<Original>>>,
    numbers: std::ops::Range<u32>,
) {
    let (backend, port) = (Address::v4([10, 244, 0, 9]), Port::new(5353));
    for number in numbers {
        let cookie = 1 << 60 | u64::from(number);
        let key = OriginalKey::new(cookie, backend, port, Protocol::UDP);
        let value = Original::new(Address::v4([10, 96, 0, 10]), Port::new(53));
        map.insert(Raw(key), Raw(ChecksummedValue::new(&key, value)), 0)
            .expect("insert");
    }
}

#[test]
fn sockets_that_are_gone_make_room_and_those_that_are_lost_are_known() {
    let Some(host) = Host::new() else { return };
    host.address("10.244.0.1");
    let mut engine = host.engine_of(SMALL);
    put_service(&mut engine, &service("dns", &["10.96.0.10"], 53));
    put_slice(&mut engine, &slice("dns-4", "dns", &["10.244.0.1"], 5353));
    let to: SocketAddr = "10.96.0.10:53".parse().unwrap();
    let sockets: Vec<_> = (0..8)
        .map(|_| {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.connect(to).unwrap();
            socket
        })
        .collect();
    let mut map = open::<OriginalKey, ChecksummedValue<Original>>(&host.pin_dir, maps::ORIGINALS);
    let mut remembered = StaleEntryScan::open(&host.pin_dir).unwrap();
    let load = |held, lost| TableLoad {
        held,
        capacity: u64::from(ROOM),
        lost,
    };
    assert_eq!(remembered.sockets().unwrap(), load(8, 0), "few are counted");

    strangers(&mut map, 0..MANY);
    for _ in 0..2 {
        assert_eq!(remembered.sockets().unwrap(), load(8, 0));
    }
    assert_eq!(
        map.keys().count(),
        8,
        "only those of sockets that are there"
    );
    assert_eq!(sockets[0].peer_addr().unwrap(), to);

    strangers(&mut map, MANY..MANY * 2);
    assert_eq!(remembered.sockets().unwrap(), load(8, 0));
    strangers(&mut map, MANY * 2..MANY * 2 + FLOOD);
    // The one that asked for its peer was used since, which may have saved it.
    let load = remembered.sockets().unwrap();
    assert!(load.lost >= 7 && load.held + load.lost == 8, "{load:?}");
    assert_eq!(remembered.sockets().unwrap(), load, "each is lost once");
    assert_ne!(sockets[7].peer_addr().unwrap(), to, "it sees its endpoint");
    sockets[7].connect(to).unwrap();
    assert_eq!(sockets[7].peer_addr().unwrap(), to);
}

/// The set of a service with affinity that lasts for so long.
fn set_of(pin_dir: &Path, seconds: u32) -> u32 {
    let services = open::<ServiceKey, ChecksummedValue<Service>>(pin_dir, maps::SERVICES);
    let whole = |entry: Result<(Raw<ServiceKey>, Raw<ChecksummedValue<Service>>), _>| {
        let (Raw(key), Raw(sealed)) = entry.unwrap();
        sealed.open(&key)
    };
    let its = |service: &Service| {
        service.flags.contains(ServiceFlags::AFFINITY) && service.affinity_seconds == seconds
    };
    let found = services.iter().filter_map(whole).find(its);
    found.expect("a service with affinity").set
}

#[test]
fn clients_that_are_over_do_not_count_and_those_that_are_lost_are_known() {
    let Some(host) = Host::new() else { return };
    let mut engine = host.engine_of(SMALL);
    for (name, address, seconds) in [("long", "10.96.0.11", 3_600), ("brief", "10.96.0.12", 1)] {
        let mut sticky = service(name, &[address], 80);
        sticky.spec.session_affinity = Some(node_agent_plan::Affinity::ClientIp);
        sticky.spec.session_affinity_config = Some(AffinityConfig {
            client_ip: Some(ClientIp {
                timeout_seconds: Some(seconds),
            }),
        });
        put_service(&mut engine, &sticky);
        put_slice(&mut engine, &slice(name, name, &["10.244.0.1"], 8080));
    }
    let sets = [3_600, 1].map(|seconds| set_of(&host.pin_dir, seconds));
    let mut map = open::<AffinityKey, ChecksummedValue<Affinity>>(&host.pin_dir, maps::AFFINITY);
    let now = clock();
    let mut put = |numbers: std::ops::Range<u32>, set, used| {
        for number in numbers {
            let [a, b, c, d] = number.to_be_bytes();
            let key = AffinityKey::of_address(Address::v4([a, b, c, d]), set);
            let value = Affinity::new(used, Address::v4([10, 244, 0, 1]), Port::new(8080));
            map.insert(Raw(key), Raw(ChecksummedValue::new(&key, value)), 0)
                .expect("insert");
        }
    };
    let mut remembered = StaleEntryScan::open(&host.pin_dir).unwrap();
    put(0..100, sets[0], now);
    assert_eq!(remembered.clients().unwrap().held, 100);
    put(100..MANY, sets[1], now - 2_000_000_000);
    let load = remembered.clients().unwrap();
    assert_eq!((load.held, load.lost), (100, 0), "others are over");
    assert_eq!(load.capacity, u64::from(ROOM));
    put(MANY..MANY + FLOOD, sets[0], now);
    let load = remembered.clients().unwrap();
    assert!(load.held > u64::from(ROOM) / 2, "{load:?}");
    assert_eq!(load.lost, 100);
}

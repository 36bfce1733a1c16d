use std::net::SocketAddr;

use ebpf_abi::{
    Address, Backend, BackendFlags, Port, Protocol, Scope, Service as Entry, ServiceEntryKinds,
    ServiceFlags, SlotKey,
};
use ipnet::IpNet;
use proptest::prelude::*;

use super::*;
use crate::compile::{Key, Rank};
use crate::current::Current;
use crate::node::NodeAddress;
use crate::objects::{
    Affinity, Conditions, Container, ContainerPort, Endpoint, EndpointPort, EndpointSlice, Hint,
    Hints, LoadBalancerIngress, Metadata, PodIp, PodSpec, PodStatus, Service, ServicePort,
    ServiceSpec, ServiceStatus,
};

mod cases;

/// Something that happens in the cluster, of few names so that things meet.
#[derive(Clone, Debug)]
enum Event {
    Service(u8, Option<Wanted>),
    /// Slice, owner, endpoints.
    Slice(u8, Option<(u8, Vec<Place>)>),
    /// Pod, its host port.
    Pod(u8, Option<u8>),
    Overrides(Vec<(u8, u8)>),
    /// Zone, how many addresses, whether a port is reserved.
    Node(u8, u8, bool),
    /// The agent restarts: a new plan adopts what the maps hold, after the
    /// next so many of the actions under way were written.
    Restart(usize),
}

/// An endpoint: address, state, hints.
type Place = (u8, u8, u8);

#[derive(Clone, Debug)]
struct Wanted {
    address: u8,
    ports: u8,
    affinity: bool,
    local: bool,
    external_local: bool,
    /// Cluster IP alone, node port, external IP, load balancer.
    kind: u8,
    maglev: bool,
    ranges: u8,
    age: u8,
}

impl Wanted {
    const PLAIN: Self = Self {
        address: 0,
        ports: 1,
        affinity: false,
        local: false,
        external_local: false,
        kind: 0,
        maglev: false,
        ranges: 0,
        age: 0,
    };
}

fn wanted() -> impl Strategy<Value = Wanted> {
    let flags = (
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        prop::bool::weighted(0.2),
    );
    (0_u8..3, 1_u8..3, flags, 0_u8..4, 0_u8..3, 0_u8..2).prop_map(
        |(address, ports, (affinity, local, external_local, maglev), kind, ranges, age)| Wanted {
            address,
            ports,
            affinity,
            local,
            external_local,
            kind,
            maglev,
            ranges,
            age,
        },
    )
}

fn places() -> impl Strategy<Value = Vec<Place>> {
    prop::collection::vec((0_u8..9, 0_u8..6, 0_u8..5), 0..9)
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        4 => (0_u8..3, prop::option::weighted(0.8, wanted())).prop_map(|(name, it)| Event::Service(name, it)),
        8 => (0_u8..5, prop::option::weighted(0.8, (0_u8..3, places()))).prop_map(|(name, it)| Event::Slice(name, it)),
        1 => (0_u8..3, prop::option::of(0_u8..3)).prop_map(|(name, it)| Event::Pod(name, it)),
        1 => prop::collection::vec((0_u8..3, 0_u8..3), 0..2).prop_map(Event::Overrides),
        1 => (0_u8..3, 0_u8..3, any::<bool>()).prop_map(|(zone, addresses, reserved)| Event::Node(zone, addresses, reserved)),
        1 => (0_usize..20).prop_map(Event::Restart),
    ];
    prop::collection::vec(event, 1..40)
}

fn service(name: u8, wanted: &Wanted) -> Service {
    let port = |n| ServicePort {
        name: Some(format!("p{n}")),
        protocol: (n == 1).then(|| "UDP".into()),
        port: 80 + i64::from(n),
        // Two services want one node port now and then.
        node_port: (matches!(wanted.kind, 1 | 3))
            .then(|| 30_000 + i64::from(wanted.address) + i64::from(n)),
    };
    let ingress = LoadBalancerIngress {
        ip: Some(format!("192.0.2.{}", wanted.address)),
        ip_mode: None,
    };
    let annotation = ("orlop.dev/load-balancing".to_owned(), "maglev".to_owned());
    Service {
        metadata: Metadata {
            name: format!("s{name}"),
            namespace: "ns".into(),
            annotations: wanted.maglev.then_some(annotation).into_iter().collect(),
            creation_timestamp: Some(format!("2026-01-0{}T00:00:00Z", wanted.age + 1)),
            ..Metadata::default()
        },
        spec: ServiceSpec {
            kind: Some(
                ["ClusterIP", "NodePort", "ClusterIP", "LoadBalancer"][usize::from(wanted.kind)]
                    .into(),
            ),
            cluster_ips: vec![format!("10.96.0.{}", wanted.address)],
            ports: (0..wanted.ports).map(port).collect(),
            session_affinity: wanted.affinity.then_some(Affinity::ClientIp),
            internal_traffic_policy: wanted.local.then(|| "Local".into()),
            external_traffic_policy: wanted.external_local.then(|| "Local".into()),
            external_ips: (wanted.kind == 2)
                .then(|| format!("192.0.2.{}", wanted.address))
                .into_iter()
                .collect(),
            load_balancer_source_ranges: (0..wanted.ranges)
                .map(|n| format!("198.51.{n}.0/24"))
                .collect(),
            health_check_node_port: Some(32_000),
            ..ServiceSpec::default()
        },
        status: if wanted.kind == 3 {
            ServiceStatus {
                load_balancer: crate::objects::LoadBalancerStatus {
                    ingress: vec![ingress],
                },
            }
        } else {
            ServiceStatus::default()
        },
    }
}

fn endpoint((n, state, hint): &Place) -> Endpoint {
    let hint_of = |name: String| vec![Hint { name }];
    Endpoint {
        addresses: vec![format!("10.244.0.{}", n + 1)],
        conditions: Conditions {
            ready: Some(*state < 3),
            serving: Some(*state < 5),
            terminating: Some(*state >= 4),
        },
        node_name: Some(format!("node-{}", n % 2)),
        zone: None,
        hints: (*hint > 0).then(|| Hints {
            for_zones: hint_of(format!("zone-{}", hint % 3)),
            for_nodes: if *hint > 3 {
                hint_of(format!("node-{}", hint % 2))
            } else {
                Vec::new()
            },
        }),
    }
}

fn slice(name: u8, owner: u8, endpoints: &[Place]) -> EndpointSlice {
    let port = |n| EndpointPort {
        name: Some(format!("p{n}")),
        protocol: (n == 1).then(|| "UDP".into()),
        port: Some(8080 + i64::from(n)),
    };
    EndpointSlice {
        metadata: Metadata {
            name: format!("e{name}"),
            namespace: "ns".into(),
            labels: [("kubernetes.io/service-name".to_owned(), format!("s{owner}"))].into(),
            ..Metadata::default()
        },
        address_type: "IPv4".into(),
        endpoints: endpoints.iter().map(endpoint).collect(),
        ports: (0..2).map(port).collect(),
    }
}

fn pod(name: u8, host_port: u8) -> Pod {
    let port = ContainerPort {
        container_port: 8000,
        host_port: Some(30_000 + i64::from(host_port)),
        ..ContainerPort::default()
    };
    Pod {
        metadata: Metadata {
            name: format!("d{name}"),
            namespace: "ns".into(),
            ..Metadata::default()
        },
        spec: PodSpec {
            containers: vec![Container { ports: vec![port] }],
            ..PodSpec::default()
        },
        status: PodStatus {
            phase: Some("Running".into()),
            pod_ips: vec![PodIp {
                ip: format!("10.244.9.{name}"),
            }],
        },
    }
}

fn facts((zone, addresses, reserved): (u8, u8, bool)) -> NodeFacts {
    let address = |n| NodeAddress {
        address: IpAddr::from([192, 0, 2, n]),
        ports: n % 2 == 0,
    };
    NodeFacts {
        zone: Some(format!("zone-{zone}")),
        addresses: (0..addresses).map(address).collect(),
        inside: vec![IpNet::new(IpAddr::from([10, 244, zone, 0]), 24).unwrap()],
        reserved: reserved
            .then_some((80, Protocol::TCP))
            .into_iter()
            .collect(),
        direct_return: reserved,
    }
}

fn overrides(them: &[(u8, u8)]) -> Vec<Override> {
    let one = |(address, backend): &(u8, u8)| Override {
        name: "dns".into(),
        address: IpAddr::from([10, 96, 0, *address]),
        port: 80,
        protocol: Protocol::TCP,
        backends: vec![SocketAddr::from(([169, 254, 0, *backend], 53))],
    };
    them.iter().map(one).collect()
}

/// What a key serves: its backends, sorted, its properties, and who is let in.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    name: Box<str>,
    backends: Vec<Backend>,
    flags: ServiceFlags,
    affinity_seconds: u32,
    table: u32,
    sources: BTreeSet<IpNet>,
}

type Serving = BTreeMap<ServiceKey, State>;

fn sources(maps: &Current, entry: &Entry) -> BTreeSet<IpNet> {
    let restricted = entry.flags.contains(ServiceFlags::SOURCES);
    let its = maps
        .sources
        .iter()
        .filter(|(set, _)| restricted && *set == entry.set);
    its.map(|(_, range)| *range).collect()
}

/// What clients see; panics if any entry leads to a missing slot, member or
/// part of a table.
fn serving(maps: &Current) -> Serving {
    let entry = |(key, entry): (&ServiceKey, &Entry)| {
        let mut backends = maps
            .backends(entry)
            .unwrap_or_else(|| panic!("torn: {key:?} {entry:?}"));
        backends.sort_unstable();
        let state = State {
            name: maps.names.get(&entry.set).cloned().unwrap_or_default(),
            backends,
            flags: entry.flags,
            affinity_seconds: entry.affinity_seconds,
            table: entry.table,
            sources: sources(maps, entry),
        };
        (*key, state)
    };
    maps.services.iter().map(entry).collect()
}

/// What clients see in maps in which an update was cut off: in the midst of
/// one, backends may lack their member, and stand twice.
fn cut(maps: &Current) -> Serving {
    let entry = |(key, entry): (&ServiceKey, &Entry)| {
        let backends = maps.slots_of_entry(entry).unwrap_or_default();
        let state = State {
            name: maps.names.get(&entry.set).cloned().unwrap_or_default(),
            backends,
            flags: entry.flags,
            affinity_seconds: entry.affinity_seconds,
            table: entry.table,
            sources: sources(maps, entry),
        };
        (*key, state)
    };
    maps.services.iter().map(entry).collect()
}

/// The backends that clients with affinity keep.
fn kept(maps: &Current) -> BTreeSet<(ServiceKey, Address, Port)> {
    let mut kept = BTreeSet::new();
    for (key, entry) in &maps.services {
        for it in maps.slots_of_entry(entry).unwrap_or_default() {
            let member = set::member(entry.set, entry.generation, &it);
            let slot = maps
                .members
                .get(&member)
                .filter(|slot| **slot < entry.count);
            let slot = slot.map(|slot| SlotKey::new(entry.set, entry.generation, *slot));
            let found = slot.and_then(|slot| maps.slots.get(&slot));
            if found.is_some_and(|found| (found.address, found.port) == (it.address, it.port)) {
                kept.insert((*key, it.address, it.port));
            }
        }
    }
    kept
}

/// Which ports the entries stand under.
fn served(maps: &Current) -> FxHashMap<(Protocol, Port), ServiceEntryKinds> {
    let mut served = FxHashMap::default();
    for key in maps.services.keys() {
        let at = served
            .entry((key.protocol, key.port))
            .or_insert(ServiceEntryKinds::NONE);
        *at = at.with(ServiceEntryKinds::from_key(key));
    }
    served
}

/// Whoever asks now is sent where the old state or the new one would have sent
/// him.
fn is_sound(
    maps: &Current,
    key: &ServiceKey,
    before: Option<&State>,
    after: Option<&State>,
) -> Result<(), String> {
    let Some(entry) = maps.services.get(key) else {
        return if before.is_none() || after.is_none() {
            Ok(())
        } else {
            Err("is dark".into())
        };
    };
    let mine = |state: &&State| {
        (state.flags, state.affinity_seconds, state.table)
            == (entry.flags, entry.affinity_seconds, entry.table)
    };
    let states: Vec<&State> = [before, after].into_iter().flatten().collect();
    let Some(_) = states.iter().find(|state| mine(state)) else {
        return Err(format!("has properties of neither state: {entry:?}"));
    };
    if entry.flags.contains(ServiceFlags::SCOPED) {
        let outside = ServiceKey::new(key.address, key.port, key.protocol, Scope::EXTERNAL);
        if !maps.services.contains_key(&outside) {
            return Err("sends clients outside to nobody".into());
        }
    }
    let slots = maps.slots_of_entry(entry).ok_or("has no slot")?;
    let known = |it: &Backend| states.iter().any(|state| state.backends.contains(it));
    if let Some(stranger) = slots.iter().find(|it| !known(it)) {
        return Err(format!("has {stranger:?} of neither state"));
    }
    if slots.is_empty() && states.iter().all(|state| !state.backends.is_empty()) {
        return Err("is empty".into());
    }
    if entry.flags.contains(ServiceFlags::MAGLEV) && maps.backends(entry).is_none() {
        return Err("has a broken table".into());
    }
    let now = sources(maps, entry);
    let union: BTreeSet<_> = states
        .iter()
        .flat_map(|state| &state.sources)
        .copied()
        .collect();
    let common = |range: &&IpNet| {
        states
            .iter()
            .filter(|state| state.flags.contains(ServiceFlags::SOURCES))
            .all(|state| state.sources.contains(range))
    };
    // An address that the service gives up, be it to another service, may for a
    // moment let in whom its others do, or be dark to those whom they no longer
    // let in: the ranges are those of the whole service.
    let handed_over = states.len() == 2 && states[0].name != states[1].name;
    if entry.flags.contains(ServiceFlags::SOURCES)
        && after.is_some()
        && !handed_over
        && !(now.is_subset(&union)
            && (states.len() < 2 || union.iter().filter(common).all(|range| now.contains(range))))
    {
        return Err(format!("lets in {now:?}"));
    }
    Ok(())
}

/// Applies actions one by one; every moment is sound.
fn apply(maps: &mut Current, actions: &[Action]) {
    let before = cut(maps);
    let mut finished = maps.clone();
    actions.iter().for_each(|action| finished.apply(action));
    let after = cut(&finished);
    let stay: BTreeSet<_> = kept(maps).intersection(&kept(&finished)).copied().collect();
    for action in actions {
        maps.apply(action);
        let lost: Vec<_> = stay.difference(&kept(maps)).copied().collect();
        assert_eq!(
            lost,
            [],
            "clients lose backends that stay after {action:?} of {actions:?}"
        );
        for (at, needed) in served(maps) {
            let said = maps.served.get(&at).is_some_and(|it| it.contains(needed));
            assert!(said, "{at:?} is not served after {action:?} of {actions:?}");
        }
        let keys: BTreeSet<_> = maps
            .services
            .keys()
            .chain(before.keys())
            .chain(after.keys())
            .collect();
        for key in keys {
            if let Err(what) = is_sound(maps, key, before.get(key), after.get(key)) {
                panic!("{key:?} {what} after {action:?} of {actions:?}");
            }
        }
    }
}

#[derive(Default)]
struct Cluster {
    services: BTreeMap<u8, Wanted>,
    slices: BTreeMap<u8, (u8, Vec<Place>)>,
    pods: BTreeMap<u8, u8>,
    overrides: Vec<(u8, u8)>,
    node: (u8, u8, bool),
}

impl Cluster {
    /// A plan that has been told everything, in the order of names.
    fn told(&self) -> Planner {
        let config = Config {
            node: "node-1".into(),
            overrides: overrides(&self.overrides),
            facts: facts(self.node),
        };
        let mut planner = Planner::new(config);
        for (name, wanted) in &self.services {
            let silent =
                planner.service_changed("ns", &format!("s{name}"), Some(&service(*name, wanted)));
            assert_eq!(silent, [], "nothing is written before all is known");
        }
        for (name, (owner, endpoints)) in &self.slices {
            let it = slice(*name, *owner, endpoints);
            planner.slice_changed("ns", &format!("e{name}"), Some(&it));
        }
        for (name, port) in &self.pods {
            planner.pod_changed("ns", &format!("d{name}"), Some(&pod(*name, *port)));
        }
        planner
    }

    /// What the API objects mean, worked out anew and without a planner.
    fn meaning(&self) -> Serving {
        let node = facts(self.node);
        let mut wanted: Vec<(Rank, u64, DesiredSet)> = Vec::new();
        for (name, it) in &self.services {
            let slices: Vec<_> = self
                .slices
                .iter()
                .filter(|(_, (owner, _))| owner == name)
                .map(|(it, (owner, endpoints))| slice(*it, *owner, endpoints))
                .collect();
            let mut object = service(*name, it);
            if node.direct_return {
                object
                    .metadata
                    .annotations
                    .insert("orlop.dev/direct-return".into(), "true".into());
            }
            for set in crate::compile("node-1", node.zone.as_deref(), &object, &slices) {
                wanted.push((Rank::ClusterIp, u64::from(it.age), set));
            }
        }
        for (name, port) in &self.pods {
            let state = PodState::from_pod(&pod(*name, *port)).unwrap();
            wanted.extend(
                state
                    .sets(&format!("ns/d{name}"))
                    .into_iter()
                    .map(|set| (Rank::HostPort, u64::MAX, set)),
            );
        }
        wanted.extend(
            overrides(&self.overrides)
                .iter()
                .map(|it| (Rank::Override, 0, it.desired())),
        );
        let mut found: BTreeMap<ServiceKey, (Rank, u64, Box<str>, State)> = BTreeMap::new();
        for (_, age, set) in wanted {
            for Key { key, flags, rank } in &set.keys {
                let own = node
                    .addresses
                    .iter()
                    .any(|it| Address::from(it.address) == key.address);
                let reserved = node.reserved.contains(&(key.port.get(), key.protocol));
                if *rank != Rank::Override
                    && reserved
                    && (own || key.address == key.address.wildcard())
                {
                    continue;
                }
                let restricted = flags.contains(ServiceFlags::SOURCES);
                let state = State {
                    name: set.name.clone(),
                    backends: set.backends.clone(),
                    flags: set.flags.with(*flags),
                    affinity_seconds: set.affinity_seconds,
                    table: set.table,
                    sources: set.sources.iter().filter(|_| restricted).copied().collect(),
                };
                let claim = (*rank, age, set.name.clone(), state);
                let better = found
                    .get(key)
                    .is_none_or(|had| (claim.0, claim.1, &claim.2) < (had.0, had.1, &had.2));
                if better {
                    found.insert(*key, claim);
                }
            }
        }
        found
            .into_iter()
            .map(|(key, (.., state))| (key, state))
            .collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Whatever happens: no moment shows half an update, the maps end at what
    /// the objects mean, nothing else is left in them, and a restart at any
    /// moment, in the middle of an update too, changes nothing that was right.
    #[test]
    fn maps_follow_the_objects(events in events()) {
        let mut cluster = Cluster::default();
        let mut planner = cluster.told();
        let mut maps = Current::default();
        let first = planner.resync(&maps);
        apply(&mut maps, &first);
        let mut cut: Option<usize> = None;
        let mut told = None;
        for event in events {
            let actions = match event {
                Event::Service(name, wanted) => {
                    let object = wanted.as_ref().map(|wanted| service(name, wanted));
                    match wanted {
                        Some(wanted) => cluster.services.insert(name, wanted),
                        None => cluster.services.remove(&name),
                    };
                    planner.service_changed("ns", &format!("s{name}"), object.as_ref())
                }
                Event::Slice(name, it) => {
                    let object = it.as_ref().map(|(owner, endpoints)| slice(name, *owner, endpoints));
                    match it {
                        Some(it) => cluster.slices.insert(name, it),
                        None => cluster.slices.remove(&name),
                    };
                    planner.slice_changed("ns", &format!("e{name}"), object.as_ref())
                }
                Event::Overrides(them) => {
                    // One name and address is one override.
                    let mut them = them;
                    them.dedup_by_key(|it| it.0);
                    cluster.overrides = them;
                    planner.set_overrides(overrides(&cluster.overrides))
                }
                Event::Pod(name, port) => {
                    let object = port.map(|port| pod(name, port));
                    match port {
                        Some(port) => cluster.pods.insert(name, port),
                        None => cluster.pods.remove(&name),
                    };
                    planner.pod_changed("ns", &format!("d{name}"), object.as_ref())
                }
                Event::Node(zone, addresses, reserved) => {
                    cluster.node = (zone, addresses, reserved);
                    planner.set_node(facts(cluster.node))
                }
                Event::Restart(most) => {
                    cut = Some(most);
                    continue;
                }
            };
            if let Some(most) = cut.take() {
                apply(&mut maps, &actions[..most.min(actions.len())]);
                planner = cluster.told();
                let healing = planner.resync(&maps);
                apply(&mut maps, &healing);
                told = None;
            } else {
                apply(&mut maps, &actions);
            }
            prop_assert_eq!(serving(&maps), cluster.meaning());
            let mut other = cluster.told();
            prop_assert_eq!(other.resync(&maps), vec![], "a restart finds nothing to do");
            let problems: Vec<_> = planner.problems().collect();
            prop_assert_eq!(problems, other.problems().collect::<Vec<_>>());
            let checks: Vec<_> = planner.health_checks().cloned().collect();
            prop_assert_eq!(&checks, &other.health_checks().cloned().collect::<Vec<_>>());
            let now = (planner.health_version(), checks);
            if let Some((version, checks)) = told.replace(now.clone()) {
                prop_assert_eq!(version != now.0, checks != now.1, "whoever looks at it sees");
            }
            prop_assert_eq!(planner.used, other.used);
            prop_assert_eq!(planner.used.slots, maps.slots.len());
            prop_assert_eq!(planner.used.services, maps.services.len());
            prop_assert_eq!(planner.used.chunks, maps.chunks.len());
            prop_assert_eq!(&maps.served, &served(&maps));
            let node = Node::from_facts(&facts(cluster.node));
            prop_assert_eq!(&maps.nodes, &node.addresses);
            prop_assert_eq!(&maps.inside, &node.inside);
        }
    }

    /// From maps full of anything, the way to the right content is sound.
    #[test]
    fn garbage_in_maps_is_replaced(
        events in events(),
        services in prop::collection::vec((0_u8..3, 0_u32..4, 0_u32..3, 0_u32..4), 0..6),
        slots in prop::collection::vec((0_u32..4, 0_u32..4, 0_u32..4, 0_u8..4), 0..20),
        names in prop::collection::vec((0_u32..4, 0_u8..3), 0..4),
        said in prop::collection::vec((78_u16..82, 1_u32..4), 0..4),
    ) {
        let mut maps = Current::default();
        for (set, generation, slot, address) in slots {
            let backend = Backend::new(Address::v4([10, 9, 0, address]), Port::new(1), BackendFlags::NONE);
            maps.slots.insert(SlotKey::new(set, generation, slot), backend);
        }
        for (address, set, generation, count) in services {
            let key = ServiceKey::internal(Address::v4([10, 96, 0, address]), Port::new(80), Protocol::TCP);
            let flags = ServiceFlags::NONE;
            let entry = Entry { set, generation, count, flags, affinity_seconds: 0, table: 0 };
            maps.services.insert(key, entry);
        }
        for (port, served) in said {
            maps.served.insert((Protocol::TCP, Port::new(port)), ServiceEntryKinds(served));
        }
        for (set, name) in names {
            maps.names.insert(set, format!("ns/s{name}:p0 TCP IPv4").into());
        }
        let mut cluster = Cluster::default();
        for event in events {
            match event {
                Event::Service(name, Some(wanted)) => { cluster.services.insert(name, wanted); }
                Event::Slice(name, Some(it)) => { cluster.slices.insert(name, it); }
                _ => {}
            }
        }
        let mut planner = cluster.told();
        for action in planner.resync(&maps) {
            // What stood there before may be torn; what is written is not.
            maps.apply(&action);
            if let Action::PutService(key, entry) = &action {
                prop_assert!(maps.backends(entry).is_some(), "torn: {:?} {:?}", key, entry);
            }
        }
        prop_assert_eq!(serving(&maps), cluster.meaning());
        prop_assert_eq!(&maps.served, &served(&maps));
        let mut again = cluster.told();
        prop_assert_eq!(again.resync(&maps), vec![]);
    }
}

use std::collections::BTreeMap;

use ebpf_abi::{Scope, SlotKey};
use ipnet::IpNet;
use proptest::prelude::*;

use super::*;
use crate::node::NodeAddress;
use crate::objects::{
    Affinity, Conditions, Container, ContainerPort, Endpoint, EndpointPort, Hint, Hints,
    LoadBalancerIngress, Metadata, PodIp, PodSpec, PodStatus, ServicePort, ServiceSpec,
    ServiceStatus,
};

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
            labels: [(SERVICE_NAME.to_owned(), format!("s{owner}"))].into(),
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
    // An address that the service gives up may let in whom its others do.
    if entry.flags.contains(ServiceFlags::SOURCES)
        && after.is_some()
        && !(now.is_subset(&union)
            // One that is handed from a service to another while the former
            // lets in fewer may be dark to these for a moment.
            && (states.len() < 2
                || states[0].name != states[1].name || union.iter().filter(common).all(|range| now.contains(range))))
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
        let mut wanted: Vec<(Rank, u64, Desired)> = Vec::new();
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
            let state = PodState::of(&pod(*name, *port)).unwrap();
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
            } else {
                apply(&mut maps, &actions);
            }
            prop_assert_eq!(serving(&maps), cluster.meaning());
            let mut other = cluster.told();
            prop_assert_eq!(other.resync(&maps), vec![], "a restart finds nothing to do");
            let problems: Vec<_> = planner.problems().collect();
            prop_assert_eq!(problems, other.problems().collect::<Vec<_>>());
            let checks: Vec<_> = planner.health_checks().cloned().collect();
            prop_assert_eq!(checks, other.health_checks().cloned().collect::<Vec<_>>());
            prop_assert_eq!(planner.used, other.used);
            prop_assert_eq!(planner.used.slots, maps.slots.len());
            prop_assert_eq!(planner.used.services, maps.services.len());
            prop_assert_eq!(planner.used.chunks, maps.chunks.len());
            let node = Node::of(&facts(cluster.node));
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
        let mut again = cluster.told();
        prop_assert_eq!(again.resync(&maps), vec![]);
    }
}

#[test]
fn slice_that_changes_hands_leaves_its_former_service() {
    let wanted = |address| Wanted {
        address,
        ..Wanted::PLAIN
    };
    let mut planner = Planner::new(Config::default());
    let mut maps = Current::default();
    let first = planner.resync(&maps);
    apply(&mut maps, &first);
    for name in [0, 1] {
        let it = service(name, &wanted(name));
        apply(
            &mut maps,
            &planner.service_changed("ns", &format!("s{name}"), Some(&it)),
        );
    }
    for owner in [0, 1] {
        let it = slice(0, owner, &[(0, 0, 0)]);
        apply(&mut maps, &planner.slice_changed("ns", "e0", Some(&it)));
        let counts: Vec<_> = serving(&maps)
            .into_values()
            .map(|state| state.backends.len())
            .collect();
        assert_eq!(counts, if owner == 0 { [1, 0] } else { [0, 1] });
    }
}

#[test]
fn event_that_changes_nothing_writes_nothing() {
    let mut planner = Planner::new(Config::default());
    planner.resync(&Current::default());
    let it = slice(0, 0, &[(0, 0, 0)]);
    let web = service(
        0,
        &Wanted {
            ports: 2,
            affinity: true,
            ..Wanted::PLAIN
        },
    );
    planner.slice_changed("ns", "e0", Some(&it));
    assert!(!planner.service_changed("ns", "s0", Some(&web)).is_empty());
    assert_eq!(planner.service_changed("ns", "s0", Some(&web)), []);
    assert_eq!(planner.slice_changed("ns", "e0", Some(&it)), []);
}

#[test]
fn address_handed_from_one_service_to_another_never_goes_dark() {
    let wanted = Wanted::PLAIN;
    let mut planner = Planner::new(Config::default());
    let mut maps = Current::default();
    let first = planner.resync(&maps);
    apply(&mut maps, &first);
    for (name, endpoint) in [(0, 0), (1, 1)] {
        let it = slice(name, name, &[(endpoint, 0, 0)]);
        apply(
            &mut maps,
            &planner.slice_changed("ns", &format!("e{name}"), Some(&it)),
        );
        let it = service(name, &wanted);
        apply(
            &mut maps,
            &planner.service_changed("ns", &format!("s{name}"), Some(&it)),
        );
    }
    let actions = planner.service_changed("ns", "s0", None);
    assert!(
        !actions
            .iter()
            .any(|action| matches!(action, Action::DeleteService(_)))
    );
    apply(&mut maps, &actions);
    assert_eq!(serving(&maps).len(), 1);
    assert_eq!(
        serving(&maps).into_values().next().unwrap().backends[0].address,
        Address::v4([10, 244, 0, 2])
    );
}

/// A service of `count` endpoints in slices of a hundred, as the controller
/// makes them.
fn large(planner: &mut Planner, name: u8, count: u16, wanted: &Wanted) {
    for number in 0..count.div_ceil(100) {
        let it = hundred(name, number, count, None);
        planner.slice_changed("ns", &it.metadata.name, Some(&it));
    }
    planner.service_changed("ns", &format!("s{name}"), Some(&service(name, wanted)));
}

fn hundred(owner: u8, number: u16, count: u16, but: Option<u16>) -> EndpointSlice {
    let mut it = slice(0, owner, &[]);
    it.metadata.name = format!("l{owner}-{number}");
    it.endpoints = (number * 100..count.min(number * 100 + 100))
        .filter(|n| Some(*n) != but)
        .map(|n| Endpoint {
            addresses: vec![format!("10.1.{}.{}", n / 250, n % 250 + 1)],
            ..Endpoint::default()
        })
        .collect();
    it
}

#[test]
fn one_changed_endpoint_of_a_thousand_writes_a_handful() {
    for affinity in [false, true] {
        let wanted = Wanted {
            affinity,
            ..Wanted::PLAIN
        };
        let mut planner = Planner::default();
        let mut maps = Current::default();
        large(&mut planner, 0, 1_000, &wanted);
        for action in planner.resync(&maps) {
            maps.apply(&action);
        }
        for but in [Some(333), None, Some(399), Some(0), None] {
            let number = but.unwrap_or(300) / 100;
            let it = hundred(0, number, 1_000, but);
            let actions = planner.slice_changed("ns", &it.metadata.name, Some(&it));
            let most = if affinity { 8 } else { 4 };
            assert!(!actions.is_empty() && actions.len() <= most, "{actions:?}");
            actions.iter().for_each(|action| maps.apply(action));
        }
        assert_eq!(
            serving(&maps).into_values().next().unwrap().backends.len(),
            999
        );
    }
}

#[test]
fn node_that_changes_addresses_writes_these_alone() {
    let mut planner = Planner::default();
    let kind = 1;
    for name in 0..3 {
        let wanted = Wanted {
            kind,
            address: name,
            ..Wanted::PLAIN
        };
        planner.service_changed("ns", &format!("s{name}"), Some(&service(name, &wanted)));
    }
    planner.set_node(facts((0, 1, false)));
    planner.resync(&Current::default());
    let own = |n| Address::from(IpAddr::from([192, 0, 2, n]));
    let put = Action::PutNode(own(1), ebpf_abi::NodeFlags::NONE);
    assert_eq!(planner.set_node(facts((0, 2, false))), [put]);
    let delete = Action::DeleteNode(own(1));
    assert_eq!(planner.set_node(facts((0, 1, false))), [delete]);
    assert_eq!(planner.set_node(facts((0, 1, false))), []);
}

#[test]
fn node_that_comes_into_a_range_speaks_from_the_balanced_address() {
    let mut planner = Planner::default();
    let mut it = service(
        0,
        &Wanted {
            kind: 3,
            ..Wanted::PLAIN
        },
    );
    it.spec.load_balancer_source_ranges = vec!["192.0.2.1/32".into()];
    planner.service_changed("ns", "s0", Some(&it));
    planner.set_node(facts((0, 1, false)));
    let mut maps = Current::default();
    let mut actions = planner.resync(&maps);
    for (addresses, expected) in [(1, 1), (2, 2), (1, 1)] {
        actions.extend(planner.set_node(facts((0, addresses, false))));
        actions.iter().for_each(|action| maps.apply(action));
        actions.clear();
        assert_eq!(maps.sources.len(), expected);
    }
}

#[test]
fn service_beyond_the_limit_serves_its_first_endpoints() {
    let mut planner = Planner::default();
    let mut it = slice(0, 0, &[]);
    it.endpoints = (0_u32..20_000)
        .map(|n| Endpoint {
            addresses: vec![format!(
                "10.{}.{}.{}",
                n / 62_500 + 1,
                n / 250 % 250,
                n % 250 + 1
            )],
            ..Endpoint::default()
        })
        .collect();
    planner.slice_changed("ns", "e0", Some(&it));
    planner.service_changed("ns", "s0", Some(&service(0, &Wanted::PLAIN)));
    let actions = planner.resync(&Current::default());
    assert!(actions.len() < 16_384 + 10, "{}", actions.len());
    let reasons: Vec<_> = planner.problems().map(|it| it.reason).collect();
    let expected = Reason::TooManyEndpoints {
        found: 20_000,
        most: 16_384,
        family: crate::Family::V4,
    };
    assert_eq!(reasons, [expected]);
}

#[test]
fn who_finds_no_room_has_a_problem_and_nobody_else() {
    let mut planner = Planner::default();
    planner.set_room(Room {
        slots: 150,
        ..Room::UNLIMITED
    });
    let mut maps = Current::default();
    let at = |address| Wanted {
        address,
        ..Wanted::PLAIN
    };
    large(&mut planner, 0, 100, &at(0));
    large(&mut planner, 1, 100, &at(1));
    for action in planner.resync(&maps) {
        maps.apply(&action);
    }
    let counts = |maps: &Current| -> Vec<usize> {
        serving(maps)
            .into_values()
            .map(|it| it.backends.len())
            .collect()
    };
    assert_eq!(counts(&maps), [100, 50]);
    assert_eq!(maps.slots.len(), 150);
    let problems: Vec<_> = planner.problems().map(|it| it.to_string()).collect();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].starts_with("Service ns/s1: the node's maps have no room for 50 more"));
    assert!(
        planner
            .fullness()
            .iter()
            .any(|it| it.map == "SLOTS" && it.is_near())
    );
    // A change in full maps is made in place.
    let it = hundred(1, 0, 100, Some(3));
    for action in planner.slice_changed("ns", &it.metadata.name, Some(&it)) {
        maps.apply(&action);
        assert!(maps.slots.len() <= 150);
    }
    assert_eq!(counts(&maps), [100, 50]);
    // Room that becomes free is used.
    for action in planner.service_changed("ns", "s0", None) {
        maps.apply(&action);
    }
    assert_eq!(counts(&maps), [99]);
    assert_eq!(planner.problems().count(), 0);
}

#[test]
fn address_that_found_no_room_is_served_once_there_is_some() {
    for listed in [true, false] {
        let mut planner = Planner::default();
        planner.set_room(Room {
            services: 1,
            ..Room::UNLIMITED
        });
        let mut maps = Current::default();
        let mut actions = if listed {
            Vec::new()
        } else {
            planner.resync(&maps)
        };
        for name in 0..2 {
            let wanted = Wanted {
                address: 1 - name,
                ..Wanted::PLAIN
            };
            let it = service(name, &wanted);
            actions.extend(planner.service_changed("ns", &format!("s{name}"), Some(&it)));
        }
        if listed {
            actions = planner.resync(&maps);
        }
        actions.iter().for_each(|action| maps.apply(action));
        assert_eq!(maps.services.len(), 1);
        assert_eq!(planner.problems().count(), 1);
        for action in planner.service_changed("ns", "s0", None) {
            maps.apply(&action);
        }
        let keys: Vec<_> = maps.services.keys().map(|key| key.address).collect();
        assert_eq!(keys, [Address::v4([10, 96, 0, 0])]);
        assert_eq!(planner.problems().count(), 0);
    }
}

#[test]
fn udp_backends_that_no_longer_serve_are_told_once() {
    let wanted = Wanted {
        ports: 2,
        local: true,
        ..Wanted::PLAIN
    };
    let mut planner = Planner::new(Config {
        node: "node-1".into(),
        ..Config::default()
    });
    planner.resync(&Current::default());
    let change = |planner: &mut Planner, places: &[Place]| {
        let it = slice(0, 0, places);
        planner.slice_changed("ns", "e0", Some(&it));
        let gone: Vec<_> = planner
            .take_gone()
            .into_iter()
            .map(|it| {
                assert_eq!(it.protocol, Protocol::UDP);
                assert_eq!(
                    it.keys,
                    [ServiceKey::internal(
                        Address::v4([10, 96, 0, 0]),
                        Port::new(81),
                        Protocol::UDP
                    )]
                );
                it.backends
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
            })
            .collect();
        gone.concat()
    };
    planner.service_changed("ns", "s0", Some(&service(0, &wanted)));
    assert_eq!(
        change(&mut planner, &[(0, 0, 0), (1, 0, 0), (2, 0, 0)]),
        [""; 0]
    );
    // Terminating and still serving, even where others are used: it stays.
    assert_eq!(
        change(&mut planner, &[(0, 4, 0), (1, 0, 0), (2, 0, 0)]),
        [""; 0]
    );
    assert_eq!(
        change(&mut planner, &[(0, 5, 0), (1, 0, 0)]),
        ["10.244.0.1:8081", "10.244.0.3:8081"]
    );
    assert_eq!(change(&mut planner, &[(1, 0, 0)]), [""; 0]);
    assert_eq!(change(&mut planner, &[]), ["10.244.0.2:8081"]);
}

#[test]
fn udp_backends_that_went_meanwhile_are_told_after_a_restart() {
    let wanted = Wanted {
        ports: 2,
        ..Wanted::PLAIN
    };
    let told = |places: &[Place]| {
        let mut planner = Planner::default();
        planner.service_changed("ns", "s0", Some(&service(0, &wanted)));
        planner.slice_changed("ns", "e0", Some(&slice(0, 0, places)));
        planner
    };
    let mut maps = Current::default();
    for action in told(&[(0, 0, 0), (1, 0, 0)]).resync(&maps) {
        maps.apply(&action);
    }
    let mut next = told(&[(1, 0, 0)]);
    next.resync(&maps);
    let gone = next.take_gone();
    assert_eq!(gone.len(), 1);
    assert_eq!(gone[0].backends, ["10.244.0.1:8081".parse().unwrap()]);
}

#[test]
fn problems_end_with_their_cause() {
    let mut planner = Planner::default();
    planner.resync(&Current::default());
    let at = |address| Wanted {
        address,
        kind: 1,
        ..Wanted::PLAIN
    };
    planner.service_changed("ns", "s0", Some(&service(0, &at(0))));
    planner.service_changed("ns", "s1", Some(&service(1, &at(0))));
    let version = planner.problems_version();
    let problems: Vec<_> = planner.problems().map(|it| it.to_string()).collect();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(
        problems
            .iter()
            .all(|it| it.starts_with("Service ns/s1") && it.contains("belongs to Service ns/s0"))
    );
    planner.service_changed("ns", "s0", None);
    assert_eq!(planner.problems().count(), 0);
    assert_ne!(planner.problems_version(), version);
}

/// What fits into one object of the API: tens of thousands of ports and of
/// addresses. Neither time nor maps are theirs.
#[test]
fn hostile_service_is_cut_down_and_harms_nobody() {
    let mut planner = Planner::default();
    let mut maps = Current::default();
    planner.resync(&maps);
    let mut hostile = service(0, &Wanted::PLAIN);
    let port = |n| ServicePort {
        name: Some(format!("p{n}")),
        port: n,
        protocol: (n % 2 == 0).then(|| "UDP".into()),
        ..ServicePort::default()
    };
    hostile.spec.ports = (1..20_000).map(port).collect();
    hostile.spec.external_ips = (0..20_000)
        .map(|n| format!("11.0.{}.{}", n / 250, n % 250 + 1))
        .collect();
    hostile.spec.external_traffic_policy = Some("Local".into());
    let start = std::time::Instant::now();
    for object in [Some(&hostile), None, Some(&hostile)] {
        for action in planner.service_changed("ns", "s0", object) {
            maps.apply(&action);
        }
    }
    let it = slice(0, 0, &[(0, 0, 0), (1, 0, 0)]);
    for action in planner.slice_changed("ns", "e0", Some(&it)) {
        maps.apply(&action);
    }
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    assert!(maps.services.len() <= 2 * 8_192, "{}", maps.services.len());
    let reasons: Vec<_> = planner.problems().map(|it| it.reason).collect();
    let ports = Reason::TooManyPorts {
        found: 19_999,
        most: 1_024,
    };
    assert!(reasons.contains(&ports), "{reasons:?}");
    assert!(
        reasons
            .iter()
            .any(|it| matches!(it, Reason::TooManyAddresses { most: 8, .. }))
    );
    let good = service(
        1,
        &Wanted {
            address: 1,
            ..Wanted::PLAIN
        },
    );
    let actions = planner.service_changed("ns", "s1", Some(&good));
    assert!(
        actions
            .iter()
            .any(|it| matches!(it, Action::PutService(..)))
    );
}

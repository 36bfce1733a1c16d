use proptest::prelude::*;

use super::*;
use crate::objects::{
    Affinity, Conditions, Endpoint, EndpointPort, Metadata, ServicePort, ServiceSpec,
};

/// Something that happens in the cluster, of few names so that things meet.
#[derive(Clone, Debug)]
enum Event {
    Service(u8, Option<Wanted>),
    /// Slice, owner, endpoints: address and whether it is ready.
    Slice(u8, Option<(u8, Vec<(u8, bool)>)>),
    Overrides(Vec<(u8, u8)>),
    /// The agent restarts: a new plan adopts what the maps hold, after the
    /// next so many of the actions under way were written.
    Restart(usize),
}

#[derive(Clone, Debug)]
struct Wanted {
    address: u8,
    ports: u8,
    affinity: bool,
    local: bool,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let wanted = (0_u8..3, 1_u8..3, any::<bool>(), any::<bool>()).prop_map(
        |(address, ports, affinity, local)| Wanted {
            address,
            ports,
            affinity,
            local,
        },
    );
    let endpoints = prop::collection::vec((0_u8..5, any::<bool>()), 0..5);
    let event = prop_oneof![
        4 => (0_u8..3, prop::option::weighted(0.8, wanted)).prop_map(|(name, it)| Event::Service(name, it)),
        8 => (0_u8..5, prop::option::weighted(0.8, (0_u8..3, endpoints))).prop_map(|(name, it)| Event::Slice(name, it)),
        1 => prop::collection::vec((0_u8..3, 0_u8..3), 0..2).prop_map(Event::Overrides),
        1 => (0_usize..20).prop_map(Event::Restart),
    ];
    prop::collection::vec(event, 1..40)
}

fn service(name: u8, wanted: &Wanted) -> Service {
    let port = |n| ServicePort {
        name: Some(format!("p{n}")),
        protocol: None,
        port: 80 + i64::from(n),
    };
    Service {
        metadata: Metadata {
            name: format!("s{name}"),
            namespace: "ns".into(),
            ..Metadata::default()
        },
        spec: ServiceSpec {
            cluster_ips: vec![format!("10.96.0.{}", wanted.address)],
            ports: (0..wanted.ports).map(port).collect(),
            session_affinity: wanted.affinity.then_some(Affinity::ClientIp),
            internal_traffic_policy: wanted.local.then(|| "Local".into()),
            ..ServiceSpec::default()
        },
    }
}

fn slice(name: u8, owner: u8, endpoints: &[(u8, bool)]) -> EndpointSlice {
    let endpoint = |(n, ready): &(u8, bool)| Endpoint {
        addresses: vec![format!("10.244.0.{}", n + 1)],
        conditions: Conditions {
            ready: Some(*ready),
            ..Conditions::default()
        },
        node_name: Some(format!("node-{}", n % 2)),
        zone: None,
    };
    let port = |n| EndpointPort {
        name: Some(format!("p{n}")),
        protocol: None,
        port: Some(8080 + i64::from(n)),
    };
    EndpointSlice {
        metadata: Metadata {
            name: format!("e{name}"),
            namespace: "ns".into(),
            labels: [(SERVICE_NAME.to_owned(), format!("s{owner}"))].into(),
        },
        address_type: "IPv4".into(),
        endpoints: endpoints.iter().map(endpoint).collect(),
        ports: (0..2).map(port).collect(),
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

/// What each key serves: its backends and properties.
type Serving = BTreeMap<ServiceKey, (Vec<Backend>, ServiceFlags, u32)>;

/// What clients see; panics if any entry leads to a missing slot or member.
fn serving(maps: &Current) -> Serving {
    let entry = |(key, entry): (&ServiceKey, &Entry)| {
        let backends = maps
            .backends(entry)
            .unwrap_or_else(|| panic!("torn: {key:?} {entry:?}"));
        (*key, (backends, entry.flags, entry.affinity_seconds))
    };
    maps.services.iter().map(entry).collect()
}

/// Applies actions one by one: at each moment every key serves what it served
/// before or what it serves afterwards.
fn apply(maps: &mut Current, actions: &[Action]) {
    let before = serving(maps);
    let mut finished = maps.clone();
    actions.iter().for_each(|action| finished.apply(action));
    let after = serving(&finished);
    for action in actions {
        maps.apply(action);
        let now = serving(maps);
        for key in now.keys().chain(before.keys()).chain(after.keys()) {
            let state = now.get(key);
            assert!(
                state == before.get(key) || state == after.get(key),
                "{key:?} after {action:?}"
            );
        }
    }
}

#[derive(Default)]
struct Cluster {
    services: BTreeMap<u8, Wanted>,
    slices: BTreeMap<u8, (u8, Vec<(u8, bool)>)>,
    overrides: Vec<(u8, u8)>,
}

impl Cluster {
    /// A plan that has been told everything, in the order of names.
    fn told(&self) -> Planner {
        let config = Config {
            node: "node-1".into(),
            overrides: overrides(&self.overrides),
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
        planner
    }

    /// What the API objects mean, worked out anew and without a planner.
    fn meaning(&self) -> Serving {
        let mut meaning = Serving::new();
        // Later names first, so that the first one has the last word.
        for (name, wanted) in self.services.iter().rev() {
            let slices: Vec<_> = self
                .slices
                .iter()
                .filter(|(_, (owner, _))| owner == name)
                .map(|(it, (owner, endpoints))| slice(*it, *owner, endpoints))
                .collect();
            for set in crate::compile("node-1", &service(*name, wanted), &slices) {
                for key in set.keys {
                    let value = (set.backends.clone(), set.flags, set.affinity_seconds);
                    meaning.insert(key, value);
                }
            }
        }
        for it in overrides(&self.overrides)
            .iter()
            .rev()
            .map(Override::desired)
        {
            meaning.insert(it.keys[0], (it.backends, it.flags, 0));
        }
        meaning
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

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
        ports: 1,
        affinity: false,
        local: false,
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
        let it = slice(0, owner, &[(0, true)]);
        apply(&mut maps, &planner.slice_changed("ns", "e0", Some(&it)));
        let counts: Vec<_> = serving(&maps)
            .into_values()
            .map(|(backends, ..)| backends.len())
            .collect();
        assert_eq!(counts, if owner == 0 { [1, 0] } else { [0, 1] });
    }
}

#[test]
fn event_that_changes_nothing_writes_nothing() {
    let mut planner = Planner::new(Config::default());
    planner.resync(&Current::default());
    let it = slice(0, 0, &[(0, true)]);
    let web = service(
        0,
        &Wanted {
            address: 0,
            ports: 2,
            affinity: true,
            local: false,
        },
    );
    planner.slice_changed("ns", "e0", Some(&it));
    assert!(!planner.service_changed("ns", "s0", Some(&web)).is_empty());
    assert_eq!(planner.service_changed("ns", "s0", Some(&web)), []);
    assert_eq!(planner.slice_changed("ns", "e0", Some(&it)), []);
}

#[test]
fn address_handed_from_one_service_to_another_never_goes_dark() {
    let wanted = Wanted {
        address: 0,
        ports: 1,
        affinity: false,
        local: false,
    };
    let mut planner = Planner::new(Config::default());
    let mut maps = Current::default();
    let first = planner.resync(&maps);
    apply(&mut maps, &first);
    for (name, endpoint) in [(0, 0), (1, 1)] {
        let it = slice(name, name, &[(endpoint, true)]);
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
        serving(&maps).into_values().next().unwrap().0[0].address,
        Address::v4([10, 244, 0, 2])
    );
}

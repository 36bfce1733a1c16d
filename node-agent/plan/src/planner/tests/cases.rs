//! Tests single cases.

use super::*;

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
    let actions = planner.service_changed("ns", "s0", None::<&Service>);
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
            assert!(!actions.is_empty() && actions.len() <= 8, "{actions:?}");
            actions.iter().for_each(|action| maps.apply(action));
        }
        assert_eq!(
            serving(&maps).into_values().next().unwrap().backends.len(),
            999
        );
    }
}

#[test]
fn removed_endpoint_changes_the_generation_that_flows_of_datagrams_compare() {
    let wanted = Wanted {
        ports: 2,
        ..Wanted::PLAIN
    };
    let mut planner = Planner::default();
    let mut maps = Current::default();
    planner.service_changed("ns", "s0", Some(&service(0, &wanted)));
    let all = [(0, 0, 0), (1, 0, 0), (2, 0, 0), (3, 0, 0), (4, 0, 0)];
    planner.slice_changed("ns", "e0", Some(&slice(0, 0, &all)));
    let first = planner.resync(&maps);
    apply(&mut maps, &first);
    let generation = |maps: &Current, protocol| {
        let entries = maps.services.iter();
        let mut its = entries.filter(|(key, _)| key.protocol == protocol);
        its.next().unwrap().1.generation
    };
    let both = |maps: &Current| [Protocol::TCP, Protocol::UDP].map(|it| generation(maps, it));
    let [streams, datagrams] = both(&maps);
    // One more: nobody has to move.
    let mut more = all.to_vec();
    more.push((5, 0, 0));
    let actions = planner.slice_changed("ns", "e0", Some(&slice(0, 0, &more)));
    apply(&mut maps, &actions);
    assert_eq!(both(&maps), [streams, datagrams]);
    let actions = planner.slice_changed("ns", "e0", Some(&slice(0, 0, &more[1..])));
    apply(&mut maps, &actions);
    assert_eq!(both(&maps), [streams, datagrams + 1]);
    serving(&maps);
}

#[test]
fn large_set_leads_from_addresses_to_the_backends_of_this_node() {
    let mut planner = Planner::new(Config {
        node: "here".into(),
        ..Config::default()
    });
    let mut maps = Current::default();
    let first = planner.resync(&maps);
    apply(&mut maps, &first);
    let it = service(0, &Wanted::PLAIN);
    let actions = planner.service_changed("ns", "s0", Some(&it));
    apply(&mut maps, &actions);
    for (count, but) in [
        (20, None),
        (32, None),
        (33, None),
        (90, None),
        (90, Some(3)),
        (90, Some(8)),
        (89, None),
        (34, Some(30)),
        (33, Some(8)),
        (40, None),
    ] {
        let mut it = hundred(0, 0, count, but);
        for endpoint in &mut it.endpoints {
            let here = endpoint.addresses[0].ends_with(['4', '9']);
            endpoint.node_name = here.then(|| "here".into());
        }
        let actions = planner.slice_changed("ns", "l0-0", Some(&it));
        apply(&mut maps, &actions);
        let served = serving(&maps).into_values().next().unwrap().backends;
        let entry = maps.services.values().next().unwrap();
        let local = |it: &&Backend| it.flags.contains(BackendFlags::LOCAL);
        let expected: BTreeSet<_> = served.iter().filter(local).map(|it| it.address).collect();
        assert!(!expected.is_empty());
        let found: BTreeSet<_> = maps
            .members
            .keys()
            .filter(|key| key.port == Port::new(0))
            .map(|key| key.address)
            .collect();
        if entry.is_large() {
            assert_eq!(found, expected, "{count} {but:?}");
            assert_eq!(maps.members.len(), served.len() + found.len());
        } else {
            assert_eq!(maps.members.len(), 0, "{count} {but:?}");
        }
        // What stands is what a restart would write.
        let again = Planner::resync(&mut planner, &maps);
        assert_eq!(again, [], "{count} {but:?}");
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
    // A slot and a member each.
    assert!(actions.len() < 2 * 16_384 + 10, "{}", actions.len());
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
    planner.set_room(MapCapacity {
        slots: 150,
        ..MapCapacity::UNLIMITED
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
    for action in planner.service_changed("ns", "s0", None::<&Service>) {
        maps.apply(&action);
    }
    assert_eq!(counts(&maps), [99]);
    assert_eq!(planner.problems().count(), 0);
}

#[test]
fn address_that_found_no_room_is_served_once_there_is_some() {
    for listed in [true, false] {
        let mut planner = Planner::default();
        planner.set_room(MapCapacity {
            services: 1,
            ..MapCapacity::UNLIMITED
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
        for action in planner.service_changed("ns", "s0", None::<&Service>) {
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
    planner.service_changed("ns", "s0", None::<&Service>);
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

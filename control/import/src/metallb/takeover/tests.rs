use proptest::prelude::*;

use super::*;

fn service(name: &str, address: &str, pool: &str, is_local: bool) -> ServedService {
    ServedService {
        namespace: "d".to_owned(),
        name: name.to_owned(),
        addresses: vec![address.parse().unwrap()],
        pools: vec![pool.to_owned()],
        annotations: BTreeMap::new(),
        ports: vec![80],
        is_local,
    }
}

fn object(kind: &str, name: &str, spec: Value) -> Value {
    json!({"kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// One address by ARP, one by BGP, one by both; two nodes of three have sessions.
fn situation() -> Situation {
    let node = |name: &str, rack: &str| {
        let labels = BTreeMap::from([("rack".to_owned(), rack.to_owned())]);
        (name.to_owned(), labels)
    };
    Situation {
        objects: vec![
            object(
                "L2Announcement",
                "l2",
                json!({"ipPools": ["office", "both"]}),
            ),
            object(
                "BGPAdvertisement",
                "bgp",
                json!({"ipPools": ["public", "both"]}),
            ),
            object(
                "BGPPeer",
                "router",
                json!({"nodeSelector": {"matchLabels": {"rack": "1"}}}),
            ),
        ],
        services: vec![
            service("a", "192.0.2.1", "office", false),
            service("b", "203.0.113.1", "public", false),
            service("c", "198.51.100.1", "both", false),
        ],
        nodes: [node("n1", "1"), node("n2", "1"), node("n3", "2")].into(),
        ..Situation::default()
    }
}

#[test]
fn addresses_go_one_by_one_and_nodes_one_by_one() {
    let situation = situation();
    let tasks = plan(&situation, false).unwrap();
    let at = |task: &Task| tasks.iter().position(|it| it == task).unwrap();
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    let order = [
        at(&Task::Record),
        at(&Task::StopController),
        at(&Task::Create),
        at(&Task::AwaitAssigned),
        at(&Task::NameAdvertisements),
        at(&Task::TakeAddresses(BTreeSet::from([address("192.0.2.1")]))),
        at(&Task::ExemptNodes),
        at(&Task::TakeNode("n1".to_owned())),
        at(&Task::TakeNode("n2".to_owned())),
        at(&Task::StopSpeakers),
        at(&Task::Finish),
    ];
    assert!(order.is_sorted(), "{tasks:?}");
    assert!(!tasks.contains(&Task::TakeNode("n3".to_owned())));
    // Its route would go with MetalLB's pool.
    let taken = tasks
        .iter()
        .filter(|it| matches!(it, Task::TakeAddresses(_)));
    assert_eq!(taken.count(), 1);
    for task in &tasks {
        assert!(!describe(task, &situation).is_empty());
    }
}

#[test]
fn what_was_taken_over_is_not_taken_again() {
    let mut situation = situation();
    situation.taken = BTreeSet::from(["192.0.2.1".parse().unwrap()]);
    let tasks = plan(&situation, false).unwrap();
    assert!(!tasks.iter().any(|it| matches!(it, Task::TakeAddresses(_))));
}

#[test]
fn addresses_that_services_connect_move_together() {
    let mut situation = situation();
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    situation.services[0].addresses.push(address("fd00::1"));
    situation.services[0].pools.push("office".to_owned());
    // This Service shares one of the addresses.
    let sharing = service("d", "192.0.2.1", "office", false);
    let apart = service("e", "192.0.2.2", "office", false);
    situation.services.extend([sharing, apart]);
    let both = BTreeSet::from([address("192.0.2.1"), address("fd00::1")]);
    let other = BTreeSet::from([address("192.0.2.2")]);
    assert_eq!(situation.groups(), [both, other]);
}

#[test]
fn parked_addresses_are_in_no_other_pool() {
    let pool = |name: &str, ranges: &[&str]| {
        json!({"kind": "IPAddressPool", "metadata": {"name": name, "labels": {"zone": name}},
            "spec": {"addresses": ranges}})
    };
    let pools = [pool("a", &["192.0.2.0/30"]), pool("b", &["192.0.2.9/32"])];
    let taken = BTreeSet::from(["192.0.2.9".parse().unwrap(), "192.0.2.1".parse().unwrap()]);
    let left = pool_ranges(&pools, &taken);
    assert_eq!(left[0].1, ["192.0.2.0-192.0.2.0", "192.0.2.2-192.0.2.3"]);
    assert!(left[1].1.is_empty());
    let parked = parked("metallb-system", &taken);
    assert_eq!(parked["spec"]["autoAssign"], false);
    assert_eq!(parked_addresses(&parked), taken);
}

#[test]
fn advertisements_name_the_pools_that_they_selected() {
    let pool = |name: &str| json!({"metadata": {"name": name, "labels": {"zone": name}}});
    let pools = [pool("a"), pool("b")];
    let named = |spec: Value| {
        let patches = naming(&[object("L2Advertisement", "x", spec)], &pools);
        patches[0].1["spec"]["ipAddressPools"].clone()
    };
    assert_eq!(named(json!({})), json!(["a", "b"]));
    assert_eq!(named(json!({"ipAddressPools": ["b"]})), json!(["b"]));
    let selected =
        |zone: &str| named(json!({"ipAddressPoolSelectors": [{"matchLabels": {"zone": zone}}]}));
    assert_eq!(selected("a"), json!(["a"]));
    assert_eq!(selected("c"), json!(["none"]));
}

#[test]
fn a_route_with_a_single_next_hop_is_not_withdrawn_unasked() {
    let mut situation = situation();
    situation.services[1].is_local = true;
    let key = ("d".to_owned(), "b".to_owned());
    situation
        .endpoints
        .insert(key, BTreeSet::from(["n2".to_owned(), "n3".to_owned()]));
    let refusal = plan(&situation, false).unwrap_err();
    let text = refusal.to_string();
    assert!(
        text.contains("203.0.113.1") && text.contains("(n2)"),
        "{text}"
    );
    assert!(plan(&situation, true).is_ok());
}

#[test]
fn a_service_that_is_announced_in_two_ways_is_not_taken_over_unasked() {
    let mut situation = situation();
    // IPv4 by ARP, IPv6 by BGP.
    situation.services[0]
        .addresses
        .push("2001:db8::1".parse().unwrap());
    situation.services[0].pools.push("public".to_owned());
    let refusal = plan(&situation, false).unwrap_err();
    let text = refusal.to_string();
    assert!(
        text.contains("192.0.2.1 is announced by ARP") && text.contains("2001:db8::1 by BGP"),
        "{text}"
    );
    assert!(plan(&situation, true).is_ok());
}

#[test]
fn limited_objects_select_only_what_is_labelled() {
    let announcement = object("L2Announcement", "x", json!({}));
    assert_eq!(
        limited(&announcement)["spec"]["serviceSelector"]["matchLabels"],
        json!({LABEL: TAKEN})
    );
    let peer = object(
        "BGPPeer",
        "x",
        json!({"nodeSelector": {"matchLabels": {"a": "b"}}}),
    );
    assert_eq!(
        limited(&peer)["spec"]["nodeSelector"]["matchLabels"],
        json!({"a": "b", LABEL: TAKEN})
    );
    let pool = object("IPPool", "x", json!({"ranges": []}));
    assert_eq!(limited(&pool), pool);
}

#[test]
fn an_address_is_claimed_where_metallb_announces_it() {
    let status = |service: &str, node: &str| {
        json!({"status": {
            "serviceNamespace": "d", "serviceName": service, "node": node}})
    };
    let statuses = [status("a", "n1"), status("b", "n2")];
    let (a, b) = (
        service("a", "192.0.2.1", "p", false),
        service("b", "192.0.2.2", "p", false),
    );
    assert_eq!(announcing_node(&statuses, &[&a]).as_deref(), Some("n1"));
    assert_eq!(announcing_node(&statuses, &[&a, &b]), None);
    assert_eq!(announcing_node(&[], &[&a]), None);

    let objects = [
        object(
            "L2Announcement",
            "l",
            json!({"ipPools": ["p"], "nodeSelector": {"matchLabels": {"rack": "1"}}}),
        ),
        object("BGPPeer", "r", json!({})),
    ];
    let claims = claiming(&objects, "host1");
    assert_eq!(claims.len(), 1);
    assert_eq!(claims[0]["metadata"]["name"], "orlop-migrate-metallb-0");
    let spec = &claims[0]["spec"];
    assert_eq!(spec["ipPools"], json!(["p"]));
    // Nodes that the original leaves out are not selected by the copy either.
    assert_eq!(spec["nodeSelector"]["matchLabels"], json!({"rack": "1"}));
    assert_eq!(
        spec["nodeSelector"]["matchExpressions"],
        json!([{"key": HOSTNAME, "operator": "In", "values": ["host1"]}])
    );
    assert_eq!(
        spec["serviceSelector"]["matchExpressions"],
        json!([{"key": LABEL, "operator": "In", "values": [CLAIMED]}])
    );
}

#[test]
fn an_exempted_daemon_set_keeps_its_own_terms() {
    let daemon_set = json!({"spec": {
        "updateStrategy": {"type": "RollingUpdate"},
        "template": {"spec": {"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {"matchFields": []}]}}}}},
    }});
    let patch = exempting(&daemon_set);
    let terms = &patch["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        ["nodeSelectorTerms"];
    for term in terms.as_array().unwrap() {
        let last = term["matchExpressions"].as_array().unwrap().last().unwrap();
        assert_eq!(*last, json!({"key": LABEL, "operator": "DoesNotExist"}));
    }
    assert_eq!(terms[0]["matchExpressions"][0]["key"], "a");
    assert_eq!(patch["spec"]["updateStrategy"]["type"], "OnDelete");
    let back = restoring(&daemon_set);
    assert_eq!(back[1]["value"]["type"], "RollingUpdate");
}

#[test]
fn a_node_has_its_sessions_once_all_are_established() {
    let peers = BTreeSet::from(["r1".to_owned(), "r2".to_owned()]);
    let mut announcer = json!({"status": {"peers": {
        "r1": {"state": "Established", "advertised": 2},
        "r2": {"state": "Idle", "advertised": 0, "error": "cannot connect"},
    }}});
    let why = sessions(&announcer, &peers).unwrap_err();
    assert_eq!(why.to_string(), "session with r2 is Idle cannot connect");
    announcer["status"]["peers"]["r2"] = json!({"state": "Established", "advertised": 1});
    assert_eq!(sessions(&announcer, &peers), Ok(3));
}

proptest! {
    #[test]
    fn a_pool_loses_one_address_and_no_other(first in 0_u8..=255, length in 0_u8..20, at in 0_u8..=255, other in 0_u8..=255) {
        let address = |last: u8| IpAddr::from([10, 0, 0, last]);
        let last = first.saturating_add(length);
        let ranges = [format!("{}-{}", address(first), address(last)), "10.0.1.0/24".to_owned()];
        let contains = |ranges: &[String], it: IpAddr| {
            ranges.iter().any(|range| range.parse::<AddressRange>().unwrap().contains(it))
        };
        let left = ranges_without(&ranges, address(at));
        prop_assert!(!contains(&left, address(at)));
        if other != at {
            prop_assert_eq!(contains(&left, address(other)), contains(&ranges, address(other)));
        }
        prop_assert!(contains(&left, IpAddr::from([10, 0, 1, 7])));
    }
}

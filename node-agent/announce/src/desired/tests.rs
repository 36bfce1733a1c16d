use control_load_balancer::IpPoolSpec;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

fn of<T: DeserializeOwned>(objects: Value) -> Vec<Arc<T>> {
    let list: Vec<Value> = serde_json::from_value(objects).unwrap();
    list.into_iter()
        .map(|o| Arc::new(serde_json::from_value(o).unwrap()))
        .collect()
}

fn node(name: &str, ready: &str, labels: Value) -> Value {
    json!({"metadata": {"name": name, "labels": labels},
        "status": {"conditions": [{"type": "Ready", "status": ready}]}})
}

fn world() -> World {
    let spec: IpPoolSpec =
        serde_json::from_value(json!({"ranges": ["10.0.0.0/24", "fd00::/120"]})).unwrap();
    World {
        node: "a".into(),
        nodes: of(json!([
            node("a", "True", json!({"rack": "1"})),
            node("b", "True", json!({"rack": "2"})),
            node("c", "False", json!({"rack": "1"})),
            node(
                "d",
                "True",
                json!({"node.kubernetes.io/exclude-from-external-load-balancers": ""})
            ),
        ])),
        services: of(json!([
            {"metadata": {"name": "all", "namespace": "x", "annotations": {"orlop.dev/load-balancer-assigned": "true"}}, "spec": {"type": "LoadBalancer"},
             "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}, {"ip": "192.0.2.1"},
                {"ip": "10.0.0.99", "ipMode": "Proxy"}, {"hostname": "h"}]}}},
            {"metadata": {"name": "local", "namespace": "x", "labels": {"tier": "web"}, "annotations": {"orlop.dev/load-balancer-assigned": "true"}},
             "spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Local"},
             "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.2"}]}}},
            {"metadata": {"name": "foreign", "namespace": "x"},
             "spec": {"type": "LoadBalancer"},
             "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.3"}]}}},
            {"metadata": {"name": "former", "namespace": "x", "annotations": {"orlop.dev/load-balancer-assigned": "true"}}, "spec": {"type": "ClusterIP"},
             "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.4"}]}}},
            {"metadata": {"name": "going", "namespace": "x", "deletionTimestamp": "2026-01-01T00:00:00Z", "annotations": {"orlop.dev/load-balancer-assigned": "true"}},
             "spec": {"type": "LoadBalancer"},
             "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.5"}]}}},
        ])),
        slices: slices(&[("a", true, true)]),
        pools: vec![Pool::from_spec("p", &spec).0],
        ..World::default()
    }
}

fn slices(endpoints: &[(&str, bool, bool)]) -> Vec<Arc<EndpointSlice>> {
    let endpoints: Vec<Value> = endpoints
        .iter()
        .map(|(node, ready, serving)| {
            json!({"addresses": ["10.244.0.1"], "nodeName": node, "conditions": {"ready": ready, "serving": serving}})
        })
        .collect();
    of(json!([{"metadata": {"name": "s", "namespace": "x",
        "labels": {"kubernetes.io/service-name": "local"}},
        "addressType": "IPv4", "endpoints": endpoints}]))
}

fn l2(world: &World) -> Vec<String> {
    world
        .l2()
        .iter()
        .map(|(address, it)| {
            let nodes: Vec<&str> = it.nodes.iter().map(AsRef::as_ref).collect();
            let on: Vec<&str> = it.interfaces.iter().map(AsRef::as_ref).collect();
            format!("{address} {} [{}]", nodes.join(","), on.join(","))
        })
        .collect()
}

#[test]
fn only_nodes_that_may_serve_announce_by_arp_and_ndp() {
    let mut world = world();
    assert!(l2(&world).is_empty(), "nobody asked for it");
    world.l2 = of(json!([{"metadata": {"name": "l"}}]));
    assert_eq!(
        l2(&world),
        ["10.0.0.1 a,b []", "10.0.0.2 a []", "fd00::1 a,b []"]
    );
    world.slices = slices(&[("b", true, true), ("a", false, true)]);
    assert_eq!(l2(&world)[1], "10.0.0.2 b []");
    world.slices = slices(&[("b", false, false), ("a", false, true)]);
    assert_eq!(l2(&world)[1], "10.0.0.2 a []", "who ends still serves");
    world.slices = slices(&[("d", true, true), ("c", true, true)]);
    assert_eq!(l2(&world)[1], "10.0.0.2  []");
}

#[test]
fn announcements_select_pools_nodes_services_and_interfaces() {
    let mut world = world();
    world.l2 = of(json!([
        {"metadata": {"name": "1"}, "spec": {"nodeSelector": {"matchLabels": {"rack": "1"}},
            "serviceSelector": {"matchLabels": {"tier": "web"}}, "interfaces": ["eth1", "bond*"]}},
        {"metadata": {"name": "2"}, "spec": {"ipPools": ["q"]}},
        {"metadata": {"name": "3"}, "spec": {"ipPools": ["p"], "nodeSelector": {"matchLabels": {"rack": "2"}}}},
    ]));
    assert_eq!(
        l2(&world),
        ["10.0.0.1 b []", "10.0.0.2 a [bond*,eth1]", "fd00::1 b []"]
    );
    world.nodes = of(json!([node("a", "Unknown", json!({"rack": "1"}))]));
    assert_eq!(
        l2(&world)[1],
        "10.0.0.2 a [bond*,eth1]",
        "all nodes ill: none is"
    );
}

fn bgp(world: &World) -> Vec<String> {
    let mut lines = Vec::new();
    for (peer, routes) in world.bgp() {
        lines.push(format!("{peer}:"));
        for (net, route) in routes {
            lines.push(format!(
                "  {net} {:?} {:?}",
                route.communities.plain, route.local_pref
            ));
        }
    }
    lines
}

#[test]
fn each_peer_is_told_what_advertisements_say() {
    let mut world = world();
    world.peers = of(json!([
        {"metadata": {"name": "near"}, "spec": {"nodeSelector": {"matchLabels": {"rack": "1"}}}},
        {"metadata": {"name": "far"}, "spec": {"nodeSelector": {"matchLabels": {"rack": "2"}}}},
        {"metadata": {"name": "spine"}},
    ]));
    assert_eq!(bgp(&world), ["near:", "spine:"], "sessions, and no route");
    world.advertisements = of(json!([
        {"metadata": {"name": "1"}, "spec": {"peers": ["near"], "communities": ["1:2"], "localPref": 50}},
        {"metadata": {"name": "2"}, "spec": {"peers": ["near"], "communities": ["no-export"],
            "serviceSelector": {"matchLabels": {"tier": "web"}}}},
        {"metadata": {"name": "3"}, "spec": {"peers": ["spine"], "aggregationLength": 24, "aggregationLengthV6": 64}},
    ]));
    assert_eq!(
        bgp(&world),
        [
            "near:",
            "  10.0.0.1/32 {65538} Some(50)",
            "  10.0.0.2/32 {65538, 4294967041} Some(50)",
            "  fd00::1/128 {65538} Some(50)",
            "spine:",
            "  10.0.0.0/24 {} None",
            "  fd00::/64 {} None"
        ]
    );
    world.slices = slices(&[("b", true, true)]);
    assert!(
        !bgp(&world).iter().any(|line| line.contains("10.0.0.2")),
        "no endpoint here"
    );
    let excluded =
        json!({"rack": "1", "node.kubernetes.io/exclude-from-external-load-balancers": ""});
    world.nodes = of(json!([node("a", "True", excluded)]));
    assert_eq!(bgp(&world), ["near:", "spine:"]);
}

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("address")
}

fn net(text: &str) -> IpNet {
    text.parse().expect("range")
}

fn node(name: &str, addresses: &[&str], ranges: &[&str]) -> NodeNetwork {
    NodeNetwork {
        name: name.to_owned(),
        addresses: addresses.iter().map(|it| ip(it)).collect(),
        pod_ranges: ranges.iter().map(|it| net(it)).collect(),
    }
}

fn machine(reach: &[(&str, bool, u32)]) -> OverlayHost {
    let reach = reach.iter().map(|(address, on_link, mtu)| {
        let reach = NodeReachability {
            on_link: *on_link,
            mtu: *mtu,
        };
        (ip(address), reach)
    });
    OverlayHost {
        address: ip("192.0.2.1"),
        mtu: 1500,
        reach: reach.collect(),
    }
}

fn nodes() -> [NodeNetwork; 3] {
    [
        node("a", &["192.0.2.1"], &["10.0.0.0/24", "fd00::/64"]),
        node("b", &["192.0.2.2"], &["10.0.1.0/24"]),
        node(
            "c",
            &["198.51.100.3", "2001:db8::3"],
            &["10.0.2.0/24", "fd00:2::/64"],
        ),
    ]
}

const REACH: [(&str, bool, u32); 2] = [("192.0.2.2", true, 1500), ("198.51.100.3", false, 1500)];

#[test]
fn nodes_of_the_link_are_gateways_and_others_are_behind_the_tunnel() {
    let network = desired(&nodes(), "a", Overlay::Auto, &machine(&REACH));
    let routes = &network.routes;
    assert_eq!(routes[&net("10.0.0.0/24")], RouteTarget::Unreachable);
    assert_eq!(
        routes[&net("10.0.1.0/24")],
        RouteTarget::Via(ip("192.0.2.2"))
    );
    assert_eq!(
        routes[&net("10.0.2.0/24")],
        RouteTarget::Tunnel(ip("10.0.2.0"))
    );
    // IPv6 inside IPv4: this machine does not reach its address of that version.
    let gateway = IpAddr::from(link_local(mac("c")));
    assert_eq!(routes[&net("fd00:2::/64")], RouteTarget::Tunnel(gateway));
    let tunnel = network.tunnel.expect("a device");
    assert_eq!(
        tunnel.nodes,
        BTreeMap::from([(mac("c"), ip("198.51.100.3"))])
    );
    assert_eq!(
        tunnel.addresses,
        BTreeSet::from([ip("10.0.0.0"), ip("fd00::")])
    );
    assert_eq!((network.mtu, tunnel.mtu), (1450, 1450));
    assert_eq!(network.behind, BTreeSet::from([ip("198.51.100.3")]));
}

#[test]
fn without_a_router_between_there_is_no_device_and_the_whole_mtu() {
    let reach = [
        ("192.0.2.2", true, 1500),
        ("198.51.100.3", true, 1500),
        ("2001:db8::3", true, 1500),
    ];
    let network = desired(&nodes(), "a", Overlay::Auto, &machine(&reach));
    assert_eq!((network.tunnel, network.mtu), (None, 1500));
    assert!(network.behind.is_empty());
}

#[test]
fn the_option_decides_where_it_is_given() {
    let never = desired(&nodes(), "a", Overlay::Never, &machine(&REACH));
    assert_eq!(never.tunnel, None);
    assert_eq!(
        never.routes[&net("10.0.2.0/24")],
        RouteTarget::Via(ip("198.51.100.3"))
    );
    let always = desired(&nodes(), "a", Overlay::Always, &machine(&REACH));
    assert_eq!(
        always.routes[&net("10.0.1.0/24")],
        RouteTarget::Tunnel(ip("10.0.1.0"))
    );
    let tunnel = always.tunnel.expect("a device");
    assert_eq!(tunnel.nodes.len(), 2);
    let RouteTarget::Tunnel(gateway) = always.routes[&net("fd00:2::/64")] else {
        panic!("not behind the tunnel");
    };
    assert!(matches!(gateway, IpAddr::V6(it) if it.is_unicast_link_local()));
    assert_eq!(tunnel.gateways[&gateway], mac("c"));
}

#[test]
fn a_narrow_way_narrows_the_pods_interfaces_and_is_named() {
    let reach = [("192.0.2.2", true, 1500), ("198.51.100.3", false, 1400)];
    let network = desired(&nodes(), "a", Overlay::Auto, &machine(&reach));
    assert_eq!(network.mtu, 1350);
    assert_eq!(network.narrow, BTreeMap::from([("c".to_owned(), 1400)]));
    let mut machine = machine(&reach);
    machine.address = ip("2001:db8::1");
    let network = desired(&nodes(), "a", Overlay::Always, &machine);
    assert_eq!(network.mtu, 1430, "an outer IPv6 header is longer");
}

#[test]
fn a_node_of_another_version_alone_cannot_be_behind_the_tunnel() {
    let nodes = [
        node("a", &["192.0.2.1"], &["10.0.0.0/24"]),
        node("d", &["2001:db8::4"], &["10.0.3.0/24"]),
    ];
    let network = desired(&nodes, "a", Overlay::Auto, &machine(&[]));
    assert_eq!(network.routes.len(), 1);
    assert_eq!(network.tunnel, None);
}

#[test]
fn hardware_addresses_differ_and_are_of_one_host() {
    let all: BTreeSet<VtepMac> = (0..5000).map(|n| mac(&format!("node-{n}"))).collect();
    assert_eq!(all.len(), 5000);
    assert!(all.iter().all(|mac| mac[0] == 2));
    assert_eq!(
        link_local([2, 0x11, 0x22, 0x33, 0x44, 0x55]),
        "fe80::11:22ff:fe33:4455"
            .parse::<Ipv6Addr>()
            .expect("address")
    );
}

#[test]
fn a_difference_is_applied_and_then_there_is_none() {
    let tunnel = |overlay, nodes: &[NodeNetwork]| {
        let network = desired(nodes, "a", overlay, &machine(&REACH));
        network.tunnel.expect("a device")
    };
    let all = nodes();
    let (first, second) = (
        tunnel(Overlay::Always, &all),
        tunnel(Overlay::Always, &all[..2]),
    );
    let mut present = DeviceEntries::default();
    for tunnel in [first, second] {
        let actions = diff(&present, &tunnel);
        assert!(!actions.is_empty());
        for action in actions {
            match action {
                OverlayAction::SetNode(mac, node) => drop(present.nodes.insert(mac, node)),
                OverlayAction::RemoveNode(mac, _) => drop(present.nodes.remove(&mac)),
                OverlayAction::SetGateway(gateway, mac) => {
                    present.gateways.insert(gateway, mac);
                }
                OverlayAction::RemoveGateway(gateway, _) => drop(present.gateways.remove(&gateway)),
                OverlayAction::AddAddress(address) => drop(present.addresses.insert(address)),
                OverlayAction::RemoveAddress(address) => drop(present.addresses.remove(&address)),
            }
        }
        assert_eq!(diff(&present, &tunnel), []);
    }
}

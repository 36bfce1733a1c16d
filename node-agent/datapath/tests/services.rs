//! Services as processes see them: real sockets, real hooks.

mod host;

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};

use ebpf_abi::Counter;
use host::{Host, Server, ask_tcp, ask_udp, ask_udp_on, put_service, put_slice, service, slice};

fn counted(engine: &node_agent_datapath::Engine, counter: Counter) -> u64 {
    let counters = engine.datapath().counters().unwrap();
    counters
        .into_iter()
        .find(|(it, _)| *it == counter)
        .unwrap()
        .1
}

#[test]
fn a_stream_whose_place_another_took_works_and_sees_its_backend() {
    use aya::maps::{Array, Map, MapData};
    let Some(host) = Host::new() else { return };
    host.address("10.244.0.1");
    let _server = Server::start("10.244.0.1:8080");
    let mut engine = host.engine();
    put_slice(&mut engine, &slice("web-4", "web", &["10.244.0.1"], 8080));
    put_service(&mut engine, &service("web", &["10.96.0.7"], 80));
    let vip: SocketAddr = "10.96.0.7:80".parse().unwrap();
    let (_, stream) = ask_tcp("10.96.0.7:80").unwrap();
    assert_eq!(stream.peer_addr().unwrap(), vip);

    let path = host
        .pin_dir
        .join(format!("v{}/STREAM_ORIGINALS", ebpf_abi::VERSION));
    let map = Map::from_map_data(MapData::from_pin(path).unwrap()).unwrap();
    let mut places: Array<_, [u8; 32]> = Array::try_from(map).unwrap();
    let cookie = rustix::net::sockopt::socket_cookie(&stream).unwrap();
    let place = u32::try_from(cookie % u64::from(ebpf_abi::STREAMS)).unwrap();
    let own = places.get(&place, 0).unwrap();
    assert_ne!(own, [0; 32], "it is kept there");
    places.set(place, [7; 32], 0).unwrap();
    let backend: SocketAddr = "10.244.0.1:8080".parse().unwrap();
    assert_eq!(stream.peer_addr().unwrap(), backend);
    places.set(place, own, 0).unwrap();
    assert_eq!(stream.peer_addr().unwrap(), vip);
    drop(engine);
    let _engine = host.engine();
    assert_eq!(stream.peer_addr().unwrap(), vip, "after a restart, too");
}

#[test]
fn tcp_reaches_each_backend_and_sees_the_service() {
    let Some(host) = Host::new() else { return };
    for address in ["10.244.0.1", "10.244.0.2", "fd00:244::1", "fd00:244::2"] {
        host.address(address);
    }
    let servers: Vec<_> = [
        "10.244.0.1:8080",
        "10.244.0.2:8080",
        "[fd00:244::1]:8080",
        "[fd00:244::2]:8080",
    ]
    .into_iter()
    .map(Server::start)
    .collect();
    let mut engine = host.engine();
    put_service(
        &mut engine,
        &service("web", &["10.96.0.7", "fd00:96::7"], 80),
    );
    put_slice(
        &mut engine,
        &slice("web-4", "web", &["10.244.0.1", "10.244.0.2"], 8080),
    );
    put_slice(
        &mut engine,
        &slice("web-6", "web", &["fd00:244::1", "fd00:244::2"], 8080),
    );

    for (vip, expected) in [
        ("10.96.0.7:80", [servers[0].address, servers[1].address]),
        ("[fd00:96::7]:80", [servers[2].address, servers[3].address]),
        (
            "[::ffff:10.96.0.7]:80",
            [servers[0].address, servers[1].address],
        ),
    ] {
        let mut seen = BTreeSet::new();
        for _ in 0..64 {
            let (server, stream) = ask_tcp(vip).unwrap_or_else(|error| panic!("{vip}: {error}"));
            assert_eq!(
                stream.peer_addr().unwrap(),
                vip.parse::<SocketAddr>().unwrap()
            );
            seen.insert(server);
        }
        assert_eq!(seen, BTreeSet::from(expected), "{vip}");
    }
    assert_eq!(counted(&engine, Counter::ConnectTranslated), 3 * 64);
    assert_eq!(counted(&engine, Counter::PeerTranslated), 3 * 64);
    println!("{}", engine.dump().unwrap());
}

#[test]
fn udp_replies_come_from_the_service() {
    let Some(host) = Host::new() else { return };
    for address in ["10.244.0.1", "10.244.0.2", "fd00:244::1"] {
        host.address(address);
    }
    let servers: Vec<_> = ["10.244.0.1:5353", "10.244.0.2:5353", "[fd00:244::1]:5353"]
        .into_iter()
        .map(Server::start)
        .collect();
    let mut engine = host.engine();
    put_service(
        &mut engine,
        &service("dns", &["10.96.0.10", "fd00:96::a"], 53),
    );
    put_slice(
        &mut engine,
        &slice("dns-4", "dns", &["10.244.0.1", "10.244.0.2"], 5353),
    );
    put_slice(&mut engine, &slice("dns-6", "dns", &["fd00:244::1"], 5353));

    for (vip, expected) in [
        (
            "10.96.0.10:53",
            vec![servers[0].address, servers[1].address],
        ),
        ("[fd00:96::a]:53", vec![servers[2].address]),
        (
            "[::ffff:10.96.0.10]:53",
            vec![servers[0].address, servers[1].address],
        ),
    ] {
        let mut seen = BTreeSet::new();
        for _ in 0..64 {
            let (server, from) = ask_udp(vip).unwrap_or_else(|error| panic!("{vip}: {error}"));
            assert_eq!(from, vip.parse::<SocketAddr>().unwrap());
            seen.insert(server);
        }
        assert_eq!(seen, expected.into_iter().collect(), "{vip}");
    }

    // One socket stays with one backend, connected or not.
    let vip: SocketAddr = "10.96.0.10:53".parse().unwrap();
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    let (first, _) = ask_udp_on(&socket, vip).unwrap();
    for _ in 0..16 {
        assert_eq!(ask_udp_on(&socket, vip).unwrap(), (first, vip));
    }
    socket.connect(vip).unwrap();
    assert_eq!(socket.peer_addr().unwrap(), vip);
    socket.send(b"?").unwrap();
    let mut buffer = [0; 64];
    let (length, from) = socket.recv_from(&mut buffer).unwrap();
    assert_eq!(
        (&buffer[..length], from),
        (first.to_string().as_bytes(), vip)
    );

    // Addressed directly, the backend is itself again.
    socket.connect(first).unwrap();
    assert_eq!(socket.peer_addr().unwrap(), first);
}

#[test]
fn service_without_endpoints_refuses_at_once() {
    let Some(host) = Host::new() else { return };
    let mut engine = host.engine();
    put_service(
        &mut engine,
        &service("empty", &["10.96.0.8", "fd00:96::8"], 80),
    );
    for vip in ["10.96.0.8:80", "[fd00:96::8]:80", "[::ffff:10.96.0.8]:80"] {
        let error = ask_tcp(vip).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{vip}: {error}");
        let error = ask_udp(vip).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{vip}: {error}");
    }
    assert_eq!(counted(&engine, Counter::RefusedNoEndpoint), 6);
}

#[test]
fn addresses_that_are_no_service_pass_untouched() {
    let Some(host) = Host::new() else { return };
    host.address("10.244.0.1");
    let server = Server::start("10.244.0.1:8080");
    let engine = host.engine();
    let (answered, stream) = ask_tcp("10.244.0.1:8080").unwrap();
    assert_eq!(
        (answered, stream.peer_addr().unwrap()),
        (server.address, server.address)
    );
    assert_eq!(
        ask_udp("10.244.0.1:8080").unwrap(),
        (server.address, server.address)
    );
    assert!(
        engine
            .datapath()
            .counters()
            .unwrap()
            .iter()
            .all(|(_, count)| *count == 0)
    );
}

#[test]
fn client_keeps_its_backend_by_affinity_while_others_come() {
    let Some(host) = Host::new() else { return };
    let addresses: Vec<_> = (1..=8).map(|n| format!("10.244.0.{n}")).collect();
    addresses.iter().for_each(|address| host.address(address));
    let _servers: Vec<_> = addresses
        .iter()
        .map(|address| Server::start(&format!("{address}:8080")))
        .collect();
    let mut engine = host.engine();
    let mut sticky = service("sticky", &["10.96.0.9"], 80);
    sticky.spec.session_affinity = Some(node_agent_plan::Affinity::ClientIp);
    put_service(&mut engine, &sticky);
    let some: Vec<_> = addresses.iter().take(4).map(String::as_str).collect();
    put_slice(&mut engine, &slice("sticky-4", "sticky", &some, 8080));
    let (first, _) = ask_tcp("10.96.0.9:80").unwrap();
    for _ in 0..16 {
        assert_eq!(ask_tcp("10.96.0.9:80").unwrap().0, first);
    }
    let all: Vec<_> = addresses.iter().map(String::as_str).collect();
    put_slice(&mut engine, &slice("sticky-4", "sticky", &all, 8080));
    for _ in 0..16 {
        assert_eq!(
            ask_tcp("10.96.0.9:80").unwrap().0,
            first,
            "more backends, another generation"
        );
    }
    let rest: Vec<_> = all
        .into_iter()
        .filter(|address| *address != first.ip().to_string())
        .collect();
    put_slice(&mut engine, &slice("sticky-4", "sticky", &rest, 8080));
    assert_ne!(
        ask_tcp("10.96.0.9:80").unwrap().0,
        first,
        "its backend is gone"
    );
}

#[test]
fn node_answers_an_overridden_address_itself() {
    let Some(host) = Host::new() else { return };
    for address in ["10.244.0.1", "169.254.20.10"] {
        host.address(address);
    }
    let (remote, local) = (
        Server::start("10.244.0.1:53"),
        Server::start("169.254.20.10:53"),
    );
    let mut engine = host.engine();
    put_service(&mut engine, &service("kube-dns", &["10.96.0.10"], 53));
    put_slice(
        &mut engine,
        &slice("kube-dns-4", "kube-dns", &["10.244.0.1"], 53),
    );
    let vip: SocketAddr = "10.96.0.10:53".parse().unwrap();
    assert_eq!(ask_udp("10.96.0.10:53").unwrap(), (remote.address, vip));
    let its = |protocol| node_agent_plan::Override {
        name: "cluster DNS".into(),
        address: vip.ip(),
        port: vip.port(),
        protocol,
        backends: vec![local.address],
    };
    let both = vec![its(ebpf_abi::Protocol::UDP), its(ebpf_abi::Protocol::TCP)];
    engine.set_overrides(both).unwrap();
    assert_eq!(ask_udp("10.96.0.10:53").unwrap(), (local.address, vip));
    assert_eq!(ask_tcp("10.96.0.10:53").unwrap().0, local.address);
    engine.set_overrides(Vec::new()).unwrap();
    assert_eq!(ask_udp("10.96.0.10:53").unwrap(), (remote.address, vip));
}

#[test]
fn local_policy_without_a_local_endpoint_is_refused_for_its_own_reason() {
    let Some(host) = Host::new() else { return };
    let mut engine = host.engine();
    let mut local = service("local", &["10.96.0.11"], 80);
    local.spec.internal_traffic_policy = Some("Local".into());
    put_service(&mut engine, &local);
    let mut away = slice("local-4", "local", &["10.244.0.1"], 8080);
    away.endpoints[0].node_name = Some("node-2".into());
    put_slice(&mut engine, &away);
    assert_eq!(
        ask_tcp("10.96.0.11:80").unwrap_err().kind(),
        ErrorKind::ConnectionRefused
    );
    assert_eq!(counted(&engine, Counter::RefusedNoLocalEndpoint), 1);
}

/// The same logic, natively over a copy of the maps, says what the kernel did:
/// which backend each UDP socket got, and what is refused or left alone.
#[test]
fn kernel_does_what_the_logic_says() {
    let Some(host) = Host::new() else { return };
    let addresses: Vec<_> = (1..=7).map(|n| format!("10.244.0.{n}")).collect();
    addresses.iter().for_each(|address| host.address(address));
    let mut engine = host.engine();
    for n in 0..6_usize {
        put_service(
            &mut engine,
            &service(&format!("s{n}"), &[&format!("10.96.1.{n}")], 80),
        );
        let some: Vec<_> = addresses
            .iter()
            .skip(n)
            .map(String::as_str)
            .take(n)
            .collect();
        put_slice(
            &mut engine,
            &slice(&format!("s{n}-4"), &format!("s{n}"), &some, 8080),
        );
    }
    let maps = engine.dump().unwrap().maps;
    let mut model = ebpf_logic::model::Model::default();
    for (key, service) in &maps.services {
        model.put(*key, *service, &maps.backends(service).unwrap());
    }
    let (mut translated, mut refused, mut passed) = (0, 0, 0);
    for round in 0..1_000_u32 {
        let vip: SocketAddr = format!("10.96.1.{}:{}", round % 8, 80 + round / 500)
            .parse()
            .unwrap();
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        let mut expected = ebpf_logic::model::ModelSocket::new(
            ebpf_logic::Family::V4,
            ebpf_abi::Protocol::UDP,
            vip.ip().into(),
            ebpf_abi::Port::new(vip.port()),
        );
        expected.cookie = host::cookie(&socket);
        let verdict = ebpf_logic::connect(&model, &mut expected);
        let outcome = socket.connect(vip);
        let real = host::real_peer(&socket);
        match verdict {
            ebpf_logic::SocketVerdict::Refuse(_) => {
                assert_eq!(outcome.unwrap_err().kind(), ErrorKind::ConnectionRefused);
                refused += 1;
            }
            ebpf_logic::SocketVerdict::Translated => {
                outcome.unwrap();
                assert_eq!(socket.peer_addr().unwrap(), vip);
                let peer = SocketAddr::new(expected.peer.address.into(), expected.peer.port.get());
                assert_eq!(real, Some(peer), "{vip}");
                translated += 1;
            }
            ebpf_logic::SocketVerdict::Pass => {
                assert_eq!(real, outcome.is_ok().then_some(vip));
                passed += 1;
            }
        }
    }
    assert!(
        translated > 100 && refused > 50 && passed > 100,
        "{translated} {refused} {passed}"
    );
}

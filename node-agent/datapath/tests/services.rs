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

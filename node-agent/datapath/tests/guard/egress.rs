//! Pods that leave the cluster as their node.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};

use ebpf_abi::Counter;
use ipnet::IpNet;
use node_agent_datapath::{Egress, EgressSource, Exits};
use node_agent_plan::NodeFacts;
use serde_json::json;

use super::world::{By, NODE_V4, NODE_V6, PATIENCE, Place, World, ip, ping_of};

fn range(text: &str) -> IpNet {
    text.parse().expect("a range")
}

/// Asks somebody outside; who it sees.
fn seen(world: &World, from: &Place, v4: bool, by: By) -> IpAddr {
    let at = SocketAddr::new(world.outside.address(v4), 0);
    match by {
        By::Tcp => {
            let server = world
                .outside
                .within(|| TcpListener::bind(at).expect("a port"));
            let to = server.local_addr().expect("an address");
            std::thread::scope(|scope| {
                let serving = scope.spawn(|| {
                    let (mut stream, client) = server.accept().expect("a client");
                    stream.write_all(b"x").expect("sent");
                    client.ip()
                });
                from.within(|| {
                    let mut stream = TcpStream::connect_timeout(&to, PATIENCE).expect("connected");
                    stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
                    stream.read_exact(&mut [0]).expect("an answer");
                });
                serving.join().expect("a thread")
            })
        }
        By::Udp => {
            let server = world
                .outside
                .within(|| UdpSocket::bind(at).expect("a port"));
            server.set_read_timeout(Some(PATIENCE)).expect("a limit");
            let to = server.local_addr().expect("an address");
            let client = from.within(|| {
                let any = if v4 { "0.0.0.0:0" } else { "[::]:0" };
                UdpSocket::bind(any).expect("a port")
            });
            client.set_read_timeout(Some(PATIENCE)).expect("a limit");
            let mut first = None;
            // The second takes what the first one made.
            for _ in 0..2 {
                client.send_to(b"x", to).expect("sent");
                let (_, source) = server.recv_from(&mut [0; 8]).expect("a datagram");
                assert_eq!(*first.get_or_insert(source), source, "the same port");
                server.send_to(b"y", source).expect("answered");
                let (_, server) = client.recv_from(&mut [0; 8]).expect("an answer");
                assert_eq!(server, to);
            }
            first.expect("a client").ip()
        }
    }
}

#[test]
fn a_pod_leaves_as_its_node_where_its_address_is_not_known() {
    let Some(mut world) = World::new() else {
        return;
    };
    let a = world.pod("x", "a", &json!({"app": "a"}));
    world.sync();
    let inside = ["10.0.0.0/24", "fd00:10::/64"].map(range).to_vec();
    let facts = NodeFacts {
        inside,
        ..NodeFacts::default()
    };
    world.engine().set_node(facts).expect("ranges of pods");
    let map = Egress::open(world.pin_dir()).expect("the map");
    let both = |v4: bool| [NODE_V6, NODE_V4][usize::from(v4)].parse::<IpAddr>();
    let node = |v4: bool| both(v4).expect("an address");
    let cases = [true, false].map(|v4| [By::Tcp, By::Udp].map(|by| (v4, by)));
    for (v4, by) in cases.into_iter().flatten() {
        assert_eq!(
            seen(&world, &a, v4, by),
            a.address(v4),
            "nothing was said yet"
        );
    }
    let anywhere: Exits = ["0.0.0.0/0", "::/0"]
        .map(|it| (range(it), EgressSource::Node))
        .into();
    assert!(map.put(&anywhere).expect("written"));
    assert!(!map.put(&anywhere).expect("written"), "nothing to do");
    // Who is outside knows no way to pods any more.
    world.outside.within(|| {
        ip("-4 route del default");
        ip("-6 route del default");
    });
    for (v4, by) in cases.into_iter().flatten() {
        assert_eq!(seen(&world, &a, v4, by), node(v4), "{by:?}");
    }
    assert!(world.counted(Counter::Masqueraded) >= 4);
    // Echoes, also such that take several packets, from two pods at once.
    let b = world.pod("x", "b", &json!({"app": "b"}));
    world.sync();
    for pod in [&a, &b] {
        for v4 in [true, false] {
            let to = world.outside.address(v4);
            for bytes in [1, 3_000] {
                let answered = pod.within(|| ping_of(to, bytes, PATIENCE));
                assert!(answered, "{to}, {bytes}: {:?}", world.drops());
            }
        }
    }
    assert!(world.counted(Counter::Masqueraded) >= 8);
    world.outside.within(|| {
        ip(&format!("-4 route add default via {NODE_V4}"));
        ip(&format!("-6 route add default via {NODE_V6}"));
    });
    // Who knows the way to a pod and addresses it is answered by the pod, not by the node.
    let mut server = world.pod("x", "server", &json!({"app": "server"}));
    world.sync();
    server.serve(80);
    for (v4, by) in cases.into_iter().flatten() {
        let to = SocketAddr::new(server.address(v4), 80);
        world.reaches(&world.outside, to, by);
    }
    // An exception, narrower than what it is one of.
    let mut but = anywhere.clone();
    for v4 in [true, false] {
        but.insert(IpNet::from(world.outside.address(v4)), EgressSource::Pod);
    }
    map.put(&but).expect("written");
    for (v4, by) in cases.into_iter().flatten() {
        assert_eq!(seen(&world, &a, v4, by), a.address(v4), "{by:?}");
    }
    // Policy sees the pod and where it goes, not the node.
    map.put(&anywhere).expect("written");
    world.put(
        "closed",
        &json!({"podSelector": {}, "policyTypes": ["Egress"], "egress": []}),
    );
    world.sync();
    world.outside.serve(80);
    for (v4, by) in cases.into_iter().flatten() {
        let to = SocketAddr::new(world.outside.address(v4), 80);
        world.dropped(&a, to, by, Counter::DroppedEgress);
    }
    // Nothing is left of what was said.
    map.put(&Exits::new()).expect("written");
    assert!(!map.put(&Exits::new()).expect("written"));
}

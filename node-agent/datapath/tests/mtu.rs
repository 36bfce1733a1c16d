//! Packets that are too long for a part of their way, and those that a device is to
//! cut into segments: through a node port, in both directions, at real devices.
//!
//! A sender learns of a narrow place by an ICMP message that quotes what it sent: it
//! must be told in its own words, or it sends in vain for ever.

#![allow(
    dead_code,
    reason = "the world is shared with the table of all addresses"
)]

#[path = "matrix/offload.rs"]
mod offload;
#[path = "matrix/rules.rs"]
mod rules;
#[path = "matrix/world.rs"]
mod world;

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use ebpf_abi::{Counter, DirectReturn};
use node_agent_datapath::XdpMode;
use node_agent_plan::{EndpointSlice, Service};
use rules::{Family, Node};
use serde_json::json;
use world::{BACKEND, Space, World, ip, lan, pod};

const TARGET: u16 = 8080;
/// Bytes that a stream carries each way: hundreds of segments.
const STREAM: usize = 600_000;
/// A datagram that fits a link's 1 500 bytes, and not 1 300.
const DATAGRAM: usize = 1_400;
const PATIENCE: Duration = Duration::from_secs(30);

/// Sends back what comes, once all of it came.
fn echo(space: &Space, address: IpAddr) {
    let (streams, datagrams) = space.run(|| {
        (
            TcpListener::bind((address, TARGET)).expect("bind"),
            UdpSocket::bind((address, TARGET)).expect("bind"),
        )
    });
    std::thread::spawn(move || {
        for stream in streams.incoming() {
            let Ok(mut stream) = stream else { continue };
            std::thread::spawn(move || {
                let mut all = vec![0; STREAM];
                if stream.read_exact(&mut all).is_ok() {
                    let _ = stream.write_all(&all);
                }
            });
        }
    });
    std::thread::spawn(move || {
        let mut buffer = [0; 2_000];
        while let Ok((length, client)) = datagrams.recv_from(&mut buffer) {
            let _ = datagrams.send_to(&buffer[..length], client);
        }
    });
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 251) as u8).collect()
}

/// A stream there and back.
fn stream(to: SocketAddr) -> Result<(), String> {
    let sent = pattern(STREAM);
    let work = || {
        let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(&sent)?;
        let mut got = vec![0; STREAM];
        stream.read_exact(&mut got)?;
        Ok::<_, std::io::Error>(got)
    };
    match work() {
        Ok(got) if got == sent => Ok(()),
        Ok(_) => Err("the stream came back otherwise".into()),
        Err(error) => Err(error.to_string()),
    }
}

/// A long datagram there and back: again and again, since each side may have to
/// learn first how long it may be.
fn datagram(to: SocketAddr) -> Result<(), String> {
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).expect("a socket");
    let pause = Some(Duration::from_millis(300));
    socket.set_read_timeout(pause).expect("a timeout");
    socket.connect(to).map_err(|error| error.to_string())?;
    let sent = pattern(DATAGRAM);
    let mut got = [0; 2_000];
    let end = Instant::now() + PATIENCE;
    let mut last = String::new();
    while Instant::now() < end {
        // What is said of an earlier datagram may come as an error of this one.
        if let Err(error) = socket.send(&sent) {
            last = error.to_string();
            continue;
        }
        match socket.recv(&mut got) {
            Ok(length) if got[..length] == sent => return Ok(()),
            Ok(length) => return Err(format!("{length} bytes came back otherwise")),
            Err(error) => last = error.to_string(),
        }
    }
    Err(format!("no answer: {last}"))
}

fn program(world: &mut World) {
    for node in [Node::One, Node::Two] {
        let engine = world.engine(node);
        for place in [1_u8, 2] {
            let name = format!("on-{place}");
            let ports = |number: u16| {
                ["TCP", "UDP"]
                    .map(|it| json!({ "name": it, "protocol": it, "port": number, "nodePort": 30_000 + u16::from(place) }))
            };
            let service: Service = serde_json::from_value(json!({
                "metadata": { "name": name, "namespace": "default" },
                "spec": {
                    "type": "NodePort",
                    "clusterIPs": [format!("10.96.0.{place}"), format!("fd00:96::{place}")],
                    "ports": ports(80),
                },
            }))
            .expect("a Service");
            engine
                .on_service_change("default", &name, Some(&service))
                .expect("applied");
            for family in [Family::V4, Family::V6] {
                let slice = format!("{name}-{family:?}");
                let object: EndpointSlice = serde_json::from_value(json!({
                    "metadata": {
                        "name": slice,
                        "namespace": "default",
                        "labels": { "kubernetes.io/service-name": name },
                    },
                    "addressType": if family == Family::V4 { "IPv4" } else { "IPv6" },
                    "endpoints": [{
                        "addresses": [pod(family, place, BACKEND)],
                        "conditions": { "ready": true },
                        "nodeName": format!("node-{place}"),
                    }],
                    "ports": ports(TARGET),
                }))
                .expect("a slice");
                engine
                    .on_slice_change("default", &slice, Some(&object))
                    .expect("applied");
            }
        }
        engine.resync().expect("written");
    }
}

/// Where the way is narrow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Narrow {
    Nowhere,
    /// From the backend's node to the backend.
    Backend,
    /// From node-1 to the client.
    Client,
}

fn narrow(world: &World, place: Narrow) {
    let of = |there| {
        if place == there {
            "mtu lock 1300"
        } else {
            "mtu 1500"
        }
    };
    let (backend, client) = (of(Narrow::Backend), of(Narrow::Client));
    for (number, node) in [1, 2].into_iter().zip(&world.nodes) {
        let [v4, v6] = [Family::V4, Family::V6].map(|family| pod(family, number, BACKEND));
        node.run(|| {
            // Routes, since a device takes nothing longer than what it may send.
            ip(&format!(
                "route replace {v4}/32 dev orl{BACKEND} src 192.0.2.{number} {backend}
                 -6 route replace {v6}/128 dev orl{BACKEND} {backend}"
            ));
        });
    }
    let [v4, v6] = [Family::V4, Family::V6].map(|family| lan(family, 10));
    world.nodes[0].run(|| {
        ip(&format!(
            "route replace {v4}/32 dev eth0 {client}\n -6 route replace {v6}/128 dev eth0 {client}"
        ));
    });
    // Here the network itself drops what is longer.
    let device = if place == Narrow::Client {
        1_300
    } else {
        1_500
    };
    let client = &world.client;
    client.run(|| ip(&format!("link set eth0 mtu {device}")));
    // What was learned of the way before.
    for space in world
        .backends
        .iter()
        .chain(&world.nodes)
        .chain([&world.client])
    {
        space.run(|| ip("route flush cache\n -6 route flush cache"));
    }
}

fn counted(world: &World, counter: Counter) -> u64 {
    let counters = world.machines[0].engine.datapath().counters();
    let mut counters = counters.expect("counters").into_iter();
    counters.find(|(it, _)| *it == counter).expect("counted").1
}

#[test]
fn long_packets_and_segments_come_through_a_node_port_both_ways() {
    for whole in [false, true] {
        let Some(mut world) = World::new(whole) else {
            return;
        };
        for (space, node) in world.backends.iter().zip([1, 2]) {
            for family in [Family::V4, Family::V6] {
                echo(space, pod(family, node, BACKEND));
            }
        }
        program(&mut world);
        let mut failed = Vec::new();
        for xdp in [XdpMode::Off, XdpMode::Native] {
            // XDP sees no packet that is yet to be cut or summed.
            if xdp == XdpMode::Native && !whole {
                continue;
            }
            world.configure(xdp, DirectReturn::NONE);
            for place in [Narrow::Nowhere, Narrow::Backend, Narrow::Client] {
                for family in [Family::V4, Family::V6] {
                    for node in [1, 2] {
                        narrow(&world, place);
                        let to: SocketAddr = (lan(family, 1), 30_000 + node).into();
                        let start = Instant::now();
                        let [a, b] = world.client.run(|| [datagram(to), stream(to)]);
                        for (what, outcome) in [("datagram", a), ("stream", b)] {
                            if let Err(error) = outcome {
                                failed.push(format!(
                                    "{what} {family:?} to node-{node}, narrow {place:?}, whole {whole}, XDP {xdp:?}: {error}"
                                ));
                            }
                        }
                        println!(
                            "{place:?} {family:?} node-{node} whole {whole} XDP {xdp:?}: {:?}",
                            start.elapsed()
                        );
                    }
                }
            }
        }
        assert!(failed.is_empty(), "{failed:#?}");
        assert!(counted(&world, Counter::DroppedTooBig) > 0);
    }
}

//! What network policy costs a packet, with no policies and with many.
//!
//! `ORLOP_COSTS=1 cargo test -p node-agent-datapath --test policy_costs -- --nocapture`
//! prints a table; without, the same is asked a few times, and of the answers
//! only what they say counts.

mod host;
#[path = "verdicts/kernel.rs"]
mod kernel;
#[path = "guard/world.rs"]
mod world;

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use ebpf_abi::Protocol;
use ebpf_abi::policy::Direction;
use host::{Host, NODE};
use kernel::{Kernel, Packet};
use node_agent_datapath::{Engine, Policy};
use node_agent_policy::{Compiler, Config};
use serde_json::{Value, json};
use world::{PATIENCE, Place, World};

/// Of so many policies, one selects the pod.
const SELECTING: u32 = 10;

fn measures() -> bool {
    std::env::var_os("ORLOP_COSTS").is_some()
}

fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object")
}

/// A policy whose peers and ports are no other's.
fn spec(number: u32) -> Value {
    let app = if number.is_multiple_of(SELECTING) {
        "server".to_owned()
    } else {
        format!("a{}", number % 200)
    };
    let block = format!("172.{}.{}.0/24", 16 + number / 256 % 16, number % 256);
    let peer = json!({"podSelector": {"matchLabels": {"app": "friend"}}});
    json!({
        "podSelector": {"matchLabels": {"app": app}},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [
            {"from": [{"ipBlock": {"cidr": block}}], "ports": [{"port": 1_000 + number % 500}]},
            {"from": [peer], "ports": [{"port": 80}]},
        ],
        "egress": [{"to": [peer]}],
    })
}

fn pod(name: &str, app: &str, last: u8) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "x", "labels": {"app": app}},
        "spec": {"nodeName": NODE},
        "status": {
            "podIP": format!("10.0.0.{last}"),
            "podIPs": [{"ip": format!("10.0.0.{last}")}, {"ip": format!("fd00::{last}")}],
        },
    })
}

/// Of the pod that is asked (1), of its peer (2), or of the node (3).
fn address(v6: bool, last: u8) -> IpAddr {
    if v6 {
        Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last.into()).into()
    } else {
        [10, 0, 0, last].into()
    }
}

/// Policies, as an agent that takes over compiles them.
fn compile(maps: &mut Policy, engine: &mut Engine, host: &Host, policies: u32) {
    let mut compiler = Compiler::new(Config {
        node: Some(NODE.to_owned()),
        previous: maps.root().expect("root"),
        ..Config::default()
    });
    let addresses = [address(false, 3), address(true, 3)].map(|it| json!({"address": it}));
    let node = json!({"metadata": {"name": NODE}, "status": {"addresses": addresses}});
    compiler.node(NODE, Some(&object(node)));
    compiler.namespace("x", Some(&object(json!({"metadata": {"name": "x"}}))));
    for (name, app, last) in [("server", "server", 1), ("friend", "friend", 2)] {
        compiler.pod("x", name, Some(&object(pod(name, app, last))));
    }
    for number in 0..policies {
        let name = format!("p{number}");
        let policy = json!({"metadata": {"name": name, "namespace": "x"}, "spec": spec(number)});
        compiler.network_policy("x", &name, Some(&object(policy)));
    }
    let actions = compiler.sync();
    let mut rest = actions.as_slice();
    while let Err(stopped) = maps.apply(rest) {
        rest = &rest[stopped.done..];
        let full = stopped.full().expect("a map that is full");
        assert!(engine.grow_policy(full).expect("grow"));
        *maps = Policy::open(&host.pin_dir).expect("policy's maps");
    }
}

/// The least of some runs, each of which is many packets' middle.
fn least(rounds: u32, mut run: impl FnMut() -> u128) -> u128 {
    (0..rounds).map(|_| run()).min().unwrap_or_default()
}

#[test]
fn a_packet_costs_the_same_whatever_the_number_of_policies() {
    let Some(host) = Host::new() else { return };
    let (counts, rounds, repeat): (&[u32], _, _) = if measures() {
        (&[0, 10, 1_000, 10_000], 15, 400_000)
    } else {
        (&[0, 10, 100], 1, 100)
    };
    let mut engine = host.engine();
    let mut maps = Policy::open(&host.pin_dir).expect("policy's maps");
    kernel::devices();
    let asked = |v6, direction, port| Packet {
        direction,
        own: address(v6, 1),
        peer: address(v6, 2),
        protocol: Protocol::TCP,
        port,
        from_node: false,
    };
    for count in counts {
        compile(&mut maps, &mut engine, &host, *count);
        let mut kernel = Kernel::new_for(&host.pin_dir);
        for (v6, direction, name) in [
            (false, Direction::INGRESS, "in"),
            (false, Direction::EGRESS, "out"),
            (true, Direction::INGRESS, "in, IPv6"),
            (true, Direction::EGRESS, "out, IPv6"),
        ] {
            let packet = asked(v6, direction, 80);
            assert!(kernel.passes(&packet), "{count} policies");
            let other = asked(v6, direction, 81);
            let allowed = *count == 0 || direction == Direction::EGRESS;
            assert_eq!(kernel.passes(&other), allowed, "{count} policies");
            let mut established =
                |guarded| least(rounds, || kernel.established(&packet, guarded, 7, repeat));
            let (with, without) = (established(true), established(false));
            // What opens a connection is always looked up in the table of all flows.
            let program = packet.program(true);
            let looked_up = least(rounds, || kernel.run(program, &packet, 7, repeat).1);
            let mut new = Vec::new();
            for _ in 0..repeat / 100 {
                new.push(kernel.new_flow(&packet));
            }
            new.sort_unstable();
            let at_node = [3, 1].map(|last| {
                let own = address(v6, last);
                let packet = Packet { own, ..packet };
                least(rounds, || kernel.established_at_node(&packet, 7, repeat))
            });
            let [own, passing] = at_node;
            println!(
                "{count} policies, {name}, at the node's device: its own {own} ns, \
                 others' {passing} ns"
            );
            println!(
                "{count} policies, {name}: established {with} ns, looked up {looked_up} ns, \
                 unguarded {without} ns, new flow p50 {} ns",
                new[new.len() / 2]
            );
        }
    }
}

/// Words and answers on one connection, for a while: how many a second.
fn answers(from: &Place, to: SocketAddr, time: Duration) -> f64 {
    from.within(|| {
        let mut stream = TcpStream::connect_timeout(&to, PATIENCE).expect("connect");
        stream.set_nodelay(true).expect("nodelay");
        stream.set_read_timeout(Some(PATIENCE)).expect("timeout");
        let (begun, mut count) = (Instant::now(), 0_u32);
        while count == 0 || begun.elapsed() < time {
            stream.write_all(b"?").expect("write");
            stream.read_exact(&mut [0]).expect("an answer");
            count += 1;
        }
        f64::from(count) / begun.elapsed().as_secs_f64()
    })
}

#[test]
fn a_conversation_is_as_quick_whatever_the_number_of_policies() {
    let Some(mut world) = World::new() else {
        return;
    };
    let (counts, time): (&[u32], _) = if measures() {
        (&[0, 10, 1_000, 0, 10, 1_000], Duration::from_secs(3))
    } else {
        (&[0, 10], Duration::from_millis(50))
    };
    let mut server = world.pod("x", "server", &json!({"app": "server"}));
    let friend = world.pod("x", "friend", &json!({"app": "friend"}));
    server.echo(80);
    world.sync();
    for count in counts {
        for number in 0..1_000 {
            let name = format!("p{number}");
            let spec = if number < *count {
                spec(number)
            } else {
                Value::Null
            };
            world.tell_policy(&name, &spec);
        }
        world.sync();
        let rate = answers(&friend, SocketAddr::new(server.v4, 80), time);
        println!("{count} policies: {rate:.0} answers a second");
        assert!(rate > 0.0);
    }
}

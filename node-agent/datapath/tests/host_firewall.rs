//! Network policy for nodes, at the node's own devices: real packets, real
//! programs.

mod host;
#[path = "guard/world.rs"]
mod world;

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use ebpf_abi::Counter;
use node_agent_datapath::{Capacity, TcWay};
use serde_json::{Value, json};

use world::{By, OUTSIDE_V4, PATIENCE, PROTECTED, Place, World, ping, said};

/// A node that listens at ports, and a machine outside that does.
fn world() -> Option<(World, Place)> {
    world_by(TcWay::Auto)
}

fn world_by(tc: TcWay) -> Option<(World, Place)> {
    let mut world = World::by(Capacity::default(), tc)?;
    let mut own = world.host_place();
    for port in [22, 80, PROTECTED] {
        own.serve(port);
    }
    for port in [80, 81] {
        world.outside.serve(port);
    }
    world.sync();
    Some((world, own))
}

/// What says that only this port of nodes may be reached.
fn only(port: u16) -> Value {
    let ports = json!([{"port": port}, {"port": port, "protocol": "UDP"}]);
    json!({"podSelector": {}, "ingress": [{"ports": ports}]})
}

fn both(place: &Place, port: u16) -> [SocketAddr; 2] {
    [place.v4, place.v6].map(|address| SocketAddr::new(address, port))
}

#[test]
fn what_comes_to_the_node_is_decided_on_and_nothing_that_passes_through() {
    passing(TcWay::Auto);
}

/// As on kernels before 6.6.
#[test]
fn a_qdisc_has_room_for_the_host_firewall_beside_services() {
    passing(TcWay::Qdisc);
}

fn passing(tc: TcWay) {
    let Some((mut world, own)) = world_by(tc) else {
        return;
    };
    let mut pod = world.pod("x", "pod", &json!({}));
    pod.serve(80);
    world.put_for_nodes("ssh", &only(22), false);
    for by in [By::Tcp, By::Udp] {
        for to in both(&own, 22) {
            world.reaches(&world.outside, to, by);
        }
        for to in both(&own, 80) {
            world.dropped(&world.outside, to, by, Counter::DroppedIngress);
        }
        // The node's own connections, and their answers.
        for to in both(&world.outside, 80) {
            world.reaches(&own, to, by);
            world.reaches(&pod, to, by);
        }
        for to in both(&pod, 80) {
            world.reaches(&world.outside, to, by);
            world.reaches(&own, to, by);
        }
    }
    let outside: IpAddr = OUTSIDE_V4.parse().expect("address");
    assert!(own.within(|| ping(outside, PATIENCE)));
    // It is open again when the policy goes.
    world.put_for_nodes("ssh", &Value::Null, false);
    for to in both(&own, 80) {
        world.reaches(&world.outside, to, By::Tcp);
    }
}

#[test]
fn the_api_server_stays_reachable_unless_somebody_means_otherwise() {
    let Some((mut world, own)) = world() else {
        return;
    };
    let nothing = json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]});
    world.put_for_nodes("closed", &nothing, false);
    for to in both(&own, PROTECTED) {
        world.reaches(&world.outside, to, By::Tcp);
    }
    world.outside.serve(PROTECTED);
    for to in both(&world.outside, PROTECTED) {
        world.reaches(&own, to, By::Tcp);
    }
    let to = both(&own, 22)[0];
    world.dropped(&world.outside, to, By::Tcp, Counter::DroppedIngress);
    world.put_for_nodes("closed", &nothing, true);
    for to in both(&own, PROTECTED) {
        world.dropped(&world.outside, to, By::Tcp, Counter::DroppedIngress);
    }
}

#[test]
fn what_the_node_sends_is_decided_on_but_for_answers() {
    let Some((mut world, own)) = world() else {
        return;
    };
    let ports = json!([{"port": 80}, {"port": 80, "protocol": "UDP"}]);
    let block = json!({"ipBlock": {"cidr": format!("{OUTSIDE_V4}/32")}});
    let spec = json!({
        "podSelector": {}, "policyTypes": ["Egress"],
        "egress": [{"to": [block], "ports": ports}],
    });
    world.put_for_nodes("out", &spec, false);
    let [v4, v6] = both(&world.outside, 80);
    for by in [By::Tcp, By::Udp] {
        world.reaches(&own, v4, by);
        world.dropped(&own, v6, by, Counter::DroppedEgress);
        world.dropped(
            &own,
            both(&world.outside, 81)[0],
            by,
            Counter::DroppedEgress,
        );
        // Its answers are no connections of its own.
        world.reaches(&world.outside, both(&own, 22)[0], by);
    }
}

#[test]
fn connections_from_before_the_first_policy_go_on_if_it_allows_them() {
    let Some((mut world, own)) = world() else {
        return;
    };
    let connect = |from: &Place, to| {
        from.within(|| TcpStream::connect_timeout(&to, PATIENCE).expect("connect"))
    };
    let mut out = connect(&own, both(&world.outside, 80)[0]);
    let mut ssh = connect(&world.outside, both(&own, 22)[0]);
    let mut web = connect(&world.outside, both(&own, 80)[0]);
    for stream in [&mut out, &mut ssh, &mut web] {
        assert!(said(stream, PATIENCE));
    }
    world.put_for_nodes("ssh", &only(22), false);
    for stream in [&mut out, &mut ssh] {
        assert!(said(stream, PATIENCE), "{:?}", world.drops());
    }
    assert!(
        said(&mut web, PATIENCE),
        "egress is open, so this may be an answer"
    );
    // Who says nothing of egress leaves the other direction open: a policy that
    // closes both ends what it forbids.
    let mut closed = only(22);
    closed["policyTypes"] = json!(["Ingress", "Egress"]);
    world.put_for_nodes("ssh", &closed, false);
    assert!(said(&mut ssh, PATIENCE), "{:?}", world.drops());
    for stream in [&mut out, &mut web] {
        assert!(!said(stream, Duration::from_millis(300)));
    }
}

#[test]
fn the_next_agent_finds_the_node_guarded_all_the_time() {
    let Some((mut world, own)) = world() else {
        return;
    };
    world.put_for_nodes("ssh", &only(22), false);
    let (open, shut) = (both(&own, 22)[0], both(&own, 80)[0]);
    world.dropped(&world.outside, shut, By::Tcp, Counter::DroppedIngress);
    world.end();
    let closed = || {
        !world
            .outside
            .within(|| world::ask(shut, By::Tcp, Duration::from_millis(200)))
    };
    assert!(closed());
    assert!(world.outside.within(|| world::ask(open, By::Tcp, PATIENCE)));
    world.begin();
    world.dropped(&world.outside, shut, By::Tcp, Counter::DroppedIngress);
    world.reaches(&world.outside, open, By::Tcp);
}

//! Network policy at pods' interfaces: real packets, real programs.

#[path = "guard/bandwidth.rs"]
mod bandwidth;
#[path = "guard/egress.rs"]
mod egress;
mod host;
#[path = "guard/leave.rs"]
mod leave;
#[path = "guard/records.rs"]
mod records;
#[path = "guard/sender.rs"]
mod sender;
#[path = "guard/wire.rs"]
mod wire;
#[path = "guard/world.rs"]
mod world;

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ebpf_abi::{Config, ConfigFlags, Counter};
use host::{put_service, put_slice, service, slice};
use serde_json::{Value, json};

use world::{By, PATIENCE, Place, World, ask_long, facts, ip, ping, said, send_once};

/// Both protocols and both families.
fn all(to: &Place, port: u16) -> Vec<(SocketAddr, By)> {
    let mut all = Vec::new();
    for v4 in [true, false] {
        for by in [By::Tcp, By::Udp] {
            all.push((SocketAddr::new(to.address(v4), port), by));
        }
    }
    all
}

#[track_caller]
fn reaches(world: &World, from: &Place, to: &Place, port: u16) {
    for (to, by) in all(to, port) {
        world.reaches(from, to, by);
    }
}

#[track_caller]
fn dropped(world: &World, from: &Place, to: &Place, port: u16, why: Counter) {
    for (to, by) in all(to, port) {
        world.dropped(from, to, by, why);
    }
}

#[test]
fn a_pod_is_closed_until_its_rules_are_there_and_open_without_policy() {
    let Some(mut world) = World::new() else {
        return;
    };
    let (mut a, mut b) = (world.device(), world.device());
    a.serve(80);
    b.serve(80);
    // Nobody has said anything yet, as before the first agent with policy.
    reaches(&world, &a, &b, 80);
    world.sync();
    dropped(&world, &a, &b, 80, Counter::DroppedClosed);
    world.object("x", "a", &json!({"app": "a"}), &a);
    world.object("x", "b", &json!({"app": "b"}), &b);
    world.sync();
    reaches(&world, &a, &b, 80);
    reaches(&world, &b, &a, 80);
    reaches(&world, &world.outside, &b, 80);
    assert!(world.counted(Counter::PolicyAllowed) > 0);
    let flows = world.policy.flows().expect("flows");
    assert!(!flows.is_empty());
    world.policy.clear().expect("clear");
    let stranger = world.device();
    reaches(&world, &stranger, &b, 80);
}

#[test]
fn a_pod_of_another_node_may_be_a_denied_one_until_it_is_known() {
    let Some(mut world) = World::new() else {
        return;
    };
    let mut server = world.pod("x", "server", &json!({}));
    server.serve(80);
    let policy = json!({
        "metadata": {"name": "p"},
        "spec": {
            "tier": "Admin", "priority": 1, "subject": {"namespaces": {}},
            "ingress": [{"action": "Deny", "from": [{"pods": {
                "namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "bad"}},
            }}]}],
        },
    });
    let policy = serde_json::from_value(policy).expect("a policy");
    world.tell(move |it| it.cluster_network_policy("p", Some(&policy)));
    world.sync();
    reaches(&world, &world.outside, &server, 80);
    // The host `outside` plays a pod of another node; the range holds this node's address, too.
    let ranges = [world.outside.v4, world.outside.v6].map(|it| match it {
        IpAddr::V4(_) => format!("{it}/24"),
        IpAddr::V6(_) => format!("{it}/64"),
    });
    let node = json!({"metadata": {"name": "other"}, "spec": {"podCIDRs": ranges}});
    let node = serde_json::from_value(node).expect("a node");
    world.tell(move |it| it.node("other", Some(&node)));
    world.sync();
    dropped(&world, &world.outside, &server, 80, Counter::DroppedIngress);
    let own = world.host_place();
    reaches(&world, &own, &server, 80);
    let pod = json!({
        "metadata": {"name": "new", "namespace": "y", "labels": {"app": "good"}},
        "spec": {"nodeName": "other"},
        "status": {"podIPs": [{"ip": world.outside.v4}, {"ip": world.outside.v6}]},
    });
    let pod = serde_json::from_value(pod).expect("a pod");
    world.tell(move |it| it.pod("y", "new", Some(&pod)));
    world.sync();
    reaches(&world, &world.outside, &server, 80);
}

#[test]
fn ingress_is_denied_and_allowed_by_pods_namespaces_addresses_and_ports() {
    let Some(mut world) = World::new() else {
        return;
    };
    let mut server = world.pod("x", "server", &json!({"app": "server"}));
    let friend = world.pod("x", "friend", &json!({"app": "friend"}));
    let cousin = world.pod("y", "cousin", &json!({"app": "friend"}));
    world.outside.serve(80);
    for port in [80, 81, 8080, 8085] {
        server.serve(port);
    }
    let whom = json!({"matchLabels": {"app": "server"}});
    let ingress = |rules: Value| json!({"podSelector": whom, "ingress": rules});
    world.put("p", &ingress(json!([])));
    for from in [&friend, &cousin, &world.outside] {
        dropped(&world, from, &server, 80, Counter::DroppedIngress);
    }
    // Its own connections go on, and its answers to the node.
    reaches(&world, &server, &world.outside, 80);
    let own = world.host_place();
    reaches(&world, &own, &server, 80);

    world.put(
        "p",
        &ingress(json!([{"from": [{"podSelector": {"matchLabels": {"app": "friend"}}}]}])),
    );
    reaches(&world, &friend, &server, 80);
    dropped(&world, &cousin, &server, 80, Counter::DroppedIngress);
    world.put(
        "p",
        &ingress(json!([{"from": [{"namespaceSelector": {"matchLabels": {"ns": "y"}}}]}])),
    );
    dropped(&world, &friend, &server, 80, Counter::DroppedIngress);
    reaches(&world, &cousin, &server, 80);
    world.put(
        "p",
        &ingress(json!([{"ports": [
            {"port": "web"}, {"port": "web", "protocol": "UDP"},
            {"port": 8080, "endPort": 8084},
            {"port": 8080, "endPort": 8084, "protocol": "UDP"},
        ]}])),
    );
    reaches(&world, &friend, &server, 80);
    reaches(&world, &friend, &server, 8080);
    dropped(&world, &friend, &server, 81, Counter::DroppedIngress);
    dropped(&world, &friend, &server, 8085, Counter::DroppedIngress);
    world.put(
        "p",
        &ingress(json!([{"from": [{"ipBlock": {
            "cidr": "10.0.0.0/24", "except": [format!("{}/32", cousin.v4)],
        }}]}])),
    );
    let v4 = SocketAddr::new(server.v4, 80);
    world.reaches(&friend, v4, By::Tcp);
    world.dropped(&cousin, v4, By::Tcp, Counter::DroppedIngress);
    world.dropped(&world.outside, v4, By::Udp, Counter::DroppedIngress);
    let v6 = SocketAddr::new(server.v6, 80);
    world.dropped(&friend, v6, By::Tcp, Counter::DroppedIngress);
}

#[test]
fn egress_is_denied_and_allowed_and_answers_need_no_rule() {
    let Some(mut world) = World::new() else {
        return;
    };
    let mut client = world.pod("x", "client", &json!({"app": "client"}));
    let mut server = world.pod("x", "server", &json!({"app": "server"}));
    let mut other = world.pod("x", "other", &json!({}));
    for pod in [&mut client, &mut server, &mut other] {
        pod.serve(80);
        pod.serve(81);
    }
    world.outside.serve(80);
    let whom = json!({"matchLabels": {"app": "client"}});
    let egress =
        |rules: Value| json!({"podSelector": whom, "policyTypes": ["Egress"], "egress": rules});
    world.put("p", &egress(json!([])));
    dropped(&world, &client, &server, 80, Counter::DroppedEgress);
    dropped(&world, &client, &world.outside, 80, Counter::DroppedEgress);
    // Who asks it is answered: other pods, the node, outside.
    reaches(&world, &server, &client, 80);
    reaches(&world, &world.outside, &client, 80);
    reaches(&world, &world.host_place(), &client, 80);
    world.put(
        "p",
        &egress(json!([{
            "to": [{"podSelector": {"matchLabels": {"app": "server"}}}],
            "ports": [{"port": 80}, {"port": 80, "protocol": "UDP"}],
        }])),
    );
    reaches(&world, &client, &server, 80);
    dropped(&world, &client, &server, 81, Counter::DroppedEgress);
    dropped(&world, &client, &other, 80, Counter::DroppedEgress);
}

/// A stream that was answered once.
fn stream(from: &Place, to: SocketAddr) -> TcpStream {
    let mut stream =
        from.within(|| TcpStream::connect_timeout(&to, PATIENCE).expect("a connection"));
    assert!(said(&mut stream, PATIENCE));
    stream
}

#[test]
fn a_policy_that_forbids_a_flow_ends_it_and_one_that_allows_it_lets_it_go_on() {
    let Some(mut world) = World::new() else {
        return;
    };
    let mut server = world.pod("x", "server", &json!({"app": "server"}));
    let client = world.pod("x", "client", &json!({"app": "client"}));
    server.serve(80);
    world.sync();
    let at = SocketAddr::new(server.v4, 80);
    let closed = json!({"podSelector": {"matchLabels": {"app": "server"}}, "ingress": []});
    let mute =
        json!({"podSelector": {"matchLabels": {"app": "client"}}, "policyTypes": ["Egress"]});
    for spec in [closed, mute] {
        let mut known = stream(&client, at);
        world.put("p", &spec);
        assert!(!said(&mut known, Duration::from_millis(300)));
        let until = Instant::now() + PATIENCE;
        while world.counted(Counter::DroppedEnded) == 0 {
            assert!(Instant::now() < until, "{:?}", world.drops());
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(world.counted(Counter::PolicyEnded) > 0);
        // Its segments are sent again, and pass once they may.
        world.put("p", &Value::Null);
        assert!(said(&mut known, PATIENCE), "{:?}", world.drops());
    }

    let mut known = stream(&client, at);
    let kept = Config {
        flags: ConfigFlags::KEEP_ESTABLISHED,
        ..facts()
    };
    world.engine().configure(&kept).expect("configure");
    world.put(
        "p",
        &json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}),
    );
    assert!(said(&mut known, PATIENCE), "{:?}", world.drops());
    world.dropped(&client, at, By::Tcp, Counter::DroppedEgress);
}

#[test]
fn policy_sees_the_pod_behind_a_service_and_never_its_address() {
    let Some(mut world) = World::new() else {
        return;
    };
    let mut server = world.pod("x", "server", &json!({"app": "server"}));
    let client = world.pod("x", "client", &json!({"app": "client"}));
    let other = world.pod("x", "other", &json!({"app": "other"}));
    server.serve(8080);
    put_service(
        world.engine(),
        &service("web", &["10.96.0.7", "fd00:96::7"], 80),
    );
    let (v4, v6) = (server.v4.to_string(), server.v6.to_string());
    put_slice(world.engine(), &slice("web-4", "web", &[&v4], 8080));
    put_slice(world.engine(), &slice("web-6", "web", &[&v6], 8080));
    let vips: [SocketAddr; 2] = ["10.96.0.7:80", "[fd00:96::7]:80"].map(|it| it.parse().unwrap());
    let asks = || {
        vips.iter()
            .flat_map(|vip| [(*vip, By::Tcp), (*vip, By::Udp)])
    };
    world.put(
        "in",
        &json!({
            "podSelector": {"matchLabels": {"app": "server"}},
            "ingress": [{
                "from": [{"podSelector": {"matchLabels": {"app": "client"}}}],
                "ports": [{"port": 8080}, {"port": 8080, "protocol": "UDP"}],
            }],
        }),
    );
    world.put(
        "out",
        &json!({
            "podSelector": {"matchLabels": {"app": "client"}},
            "policyTypes": ["Egress"],
            "egress": [{
                "to": [{"podSelector": {"matchLabels": {"app": "server"}}}],
                "ports": [{"port": 8080}, {"port": 8080, "protocol": "UDP"}],
            }],
        }),
    );
    for (vip, by) in asks() {
        world.reaches(&client, vip, by);
        world.dropped(&other, vip, by, Counter::DroppedIngress);
        // A pod that is shown to itself as the node.
        world.reaches(&server, vip, by);
    }
    // While all is decided anew, too.
    let mut known = stream(&client, vips[0]);
    world.namespace("z", &json!({"any": "thing"}));
    world.pod("x", "new", &json!({"app": "client"}));
    world.sync();
    assert!(said(&mut known, PATIENCE), "{:?}", world.drops());

    world.put(
        "out",
        &json!({
            "podSelector": {"matchLabels": {"app": "client"}},
            "policyTypes": ["Egress"],
            "egress": [{"to": [{"ipBlock": {"cidr": "10.96.0.0/16"}}]}],
        }),
    );
    world.dropped(&client, vips[0], By::Tcp, Counter::DroppedEgress);
}

#[test]
fn a_pod_sends_from_its_own_addresses_only() {
    let Some(mut world) = World::new() else {
        return;
    };
    let thief = world.pod("x", "thief", &json!({"app": "thief"}));
    let mut honest = world.pod("x", "honest", &json!({"app": "honest"}));
    world.outside.serve(80);
    honest.serve(80);
    world.sync();
    let target = SocketAddr::new(world.outside.v4, 80);
    // A flow of the honest one's, which the other takes up.
    let own = SocketAddr::new(honest.v4, 4_000);
    let answered = |place: &Place, from: SocketAddr, times: u32| {
        place.within(|| {
            let socket = UdpSocket::bind(from).expect("bind");
            socket
                .set_read_timeout(Some(Duration::from_millis(500)))
                .expect("timeout");
            (0..times).any(|_| {
                socket.send_to(b"?", target).expect("send");
                socket.recv(&mut [0; 8]).is_ok()
            })
        })
    };
    assert!(answered(&honest, own, 40));
    thief.within(|| ip(&format!("addr add {}/32 dev lo", honest.v4)));
    for port in [4_000, 4_001] {
        let before = world.counted(Counter::DroppedSpoofed);
        let stolen = SocketAddr::new(honest.v4, port);
        assert!(!answered(&thief, stolen, 1));
        assert!(world.counted(Counter::DroppedSpoofed) > before);
    }
    assert!(answered(&honest, own, 40));
}

#[test]
fn pings_and_datagrams_of_several_packets_are_flows_too() {
    let Some(mut world) = World::new() else {
        return;
    };
    let mut server = world.pod("x", "server", &json!({"app": "server"}));
    let client = world.pod("x", "client", &json!({"app": "client"}));
    server.serve(80);
    let IpAddr::V4(to): IpAddr = server.v4 else {
        panic!("IPv4")
    };
    let IpAddr::V4(back): IpAddr = client.v4 else {
        panic!("IPv4")
    };
    let long = SocketAddr::new(server.v4, 80);
    world.sync();
    assert!(client.within(|| ping(to, PATIENCE)));
    assert!(
        client.within(|| ask_long(long, PATIENCE)),
        "{:?}",
        world.drops()
    );

    // The client is asked by nobody, and answered by all.
    world.put(
        "p",
        &json!({"podSelector": {"matchLabels": {"app": "client"}}, "ingress": []}),
    );
    assert!(client.within(|| ping(to, PATIENCE)));
    assert!(
        client.within(|| ask_long(long, PATIENCE)),
        "{:?}",
        world.drops()
    );
    let quick = Duration::from_millis(300);
    assert!(!server.within(|| ping(back, quick)));
    assert!(world.counted(Counter::DroppedIngress) > 0);

    // A rule with ports lets no ping in.
    world.put(
        "p",
        &json!({
            "podSelector": {"matchLabels": {"app": "server"}},
            "ingress": [{"ports": [{"port": 80, "protocol": "UDP"}]}],
        }),
    );
    assert!(
        client.within(|| ask_long(long, PATIENCE)),
        "{:?}",
        world.drops()
    );
    assert!(!client.within(|| ping(to, quick)));
    let node: Ipv4Addr = to;
    assert!(ping(node, PATIENCE), "the node reaches its pods");
}

fn is_answered(socket: Option<&UdpSocket>) -> bool {
    socket.is_some_and(|socket| {
        socket.set_nonblocking(true).expect("nonblocking");
        socket.recv(&mut [0; 8]).is_ok()
    })
}

#[test]
fn no_verdict_is_wrong_while_agents_end_and_others_take_over() {
    let Some(mut world) = World::new() else {
        return;
    };
    let mut server = world.pod("x", "server", &json!({"app": "server"}));
    let friend = world.pod("x", "friend", &json!({"app": "friend"}));
    let other = world.pod("y", "other", &json!({"app": "other"}));
    server.serve(80);
    world.put(
        "p",
        &json!({
            "podSelector": {"matchLabels": {"app": "server"}},
            "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "friend"}}}]}],
        }),
    );
    let at = SocketAddr::new(server.v4, 80);
    let mut known = stream(&friend, at);
    let (over, allowed, denied) = (AtomicBool::new(false), AtomicU32::new(0), AtomicU32::new(0));
    let mut restarts = 0;
    std::thread::scope(|scope| {
        // Of one datagram each: none is sent twice, so that each that is dropped shows.
        let asks = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let socket = friend.within(|| send_once(at));
                socket.set_read_timeout(Some(PATIENCE)).expect("timeout");
                assert!(
                    socket.recv(&mut [0; 8]).is_ok(),
                    "an allowed datagram is lost"
                );
                allowed.fetch_add(1, Ordering::Relaxed);
            }
        });
        let storms = scope.spawn(|| {
            let mut sockets = VecDeque::new();
            while !over.load(Ordering::Relaxed) {
                sockets.push_back(other.within(|| send_once(at)));
                if sockets.len() > 200 {
                    assert!(!is_answered(sockets.pop_front().as_ref()));
                }
                denied.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(2));
            }
            sockets
        });
        let talks = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                assert!(said(&mut known, PATIENCE), "a connection is lost");
            }
        });
        let storm = |from: &AtomicU32| from.load(Ordering::Relaxed);
        while restarts < 5 && !asks.is_finished() && !talks.is_finished() {
            let before = (storm(&allowed), storm(&denied));
            world.end();
            // Both have asked while there is no agent, and while one begins.
            while storm(&allowed) < before.0 + 5 || storm(&denied) < before.1 + 5 {
                std::thread::sleep(Duration::from_millis(5));
                if asks.is_finished() {
                    break;
                }
            }
            world.begin();
            restarts += 1;
        }
        over.store(true, Ordering::Relaxed);
        asks.join().expect("allowed datagrams");
        talks.join().expect("a connection");
        for socket in storms.join().expect("denied datagrams") {
            socket.set_nonblocking(true).expect("nonblocking");
            assert!(
                socket.recv(&mut [0; 8]).is_err(),
                "a denied datagram is answered"
            );
        }
    });
    let drops = world.drops();
    assert!(
        drops.iter().all(|(why, _)| *why == Counter::DroppedIngress),
        "{drops:?}"
    );
    println!("{restarts} restarts, {allowed:?} allowed, {denied:?} denied: {drops:?}");
}

//! Room in the maps of network policy: they grow while pods talk, and what does
//! not fit at all is closed.

mod host;
#[path = "guard/world.rs"]
mod world;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use ebpf_abi::{Counter, maps};
use node_agent_datapath::Capacity;
use serde_json::json;

use world::{By, World, ask};

const SMALL: Capacity = Capacity {
    policy_flows: 4_096,
    ..host::SMALL
};

/// Policies of a kind that each tells another peer from all others.
fn tell_many(world: &mut World, count: u32) {
    for number in 0..count {
        let block = json!({"cidr": format!("198.51.{number}.0/24")});
        let spec = json!({
            "podSelector": {"matchLabels": {"app": "server"}},
            "ingress": [{"from": [{"ipBlock": block}], "ports": [{"port": 1_000 + number}]}],
        });
        world.put(&format!("more-{number}"), &spec);
    }
}

#[test]
fn maps_of_policy_grow_and_no_packet_is_decided_otherwise() {
    let Some(mut world) = World::of(SMALL) else {
        return;
    };
    world.engine().allow(Capacity::default());
    let mut server = world.pod("x", "server", &json!({"app": "server"}));
    let friend = world.pod("x", "friend", &json!({"app": "friend"}));
    let other = world.pod("x", "other", &json!({"app": "other"}));
    server.serve(80);
    let friends = json!([{"from": [{"podSelector": {"matchLabels": {"app": "friend"}}}]}]);
    let selected = json!({"matchLabels": {"app": "server"}});
    world.put(
        "friends",
        &json!({"podSelector": selected, "ingress": friends}),
    );
    let to = SocketAddr::new(server.v4, 80);
    world.reaches(&friend, to, By::Tcp);
    world.dropped(&other, to, By::Udp, Counter::DroppedIngress);

    let (stop, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    let wrong: usize = std::thread::scope(|scope| {
        let probes: Vec<_> = [(&friend, true), (&other, false)]
            .into_iter()
            .map(|(from, allowed)| {
                let (stop, asked) = (&stop, &asked);
                scope.spawn(move || {
                    let mut wrong = 0;
                    while !stop.load(Ordering::Relaxed) {
                        // Who may gets an answer at last, who may not never.
                        let patience = if allowed { 20_000 } else { 20 };
                        let patience = Duration::from_millis(patience);
                        let answered = from.within(|| ask(to, By::Udp, patience));
                        wrong += usize::from(answered != allowed);
                        asked.fetch_add(1, Ordering::Relaxed);
                    }
                    wrong
                })
            })
            .collect();
        tell_many(&mut world, 100);
        while asked.load(Ordering::Relaxed) < 20 {
            std::thread::sleep(Duration::from_millis(5));
        }
        stop.store(true, Ordering::Relaxed);
        let ended = probes.into_iter().map(|it| it.join().expect("a probe"));
        ended.sum()
    });
    assert_eq!(wrong, 0, "{:?}", world.drops());
    for map in [maps::PEERS, maps::VERDICTS, maps::RULES] {
        assert!(world.capacity_of(map) > 100, "{map}");
    }
    let held = world.policy.entries().expect("entries");
    assert!(held.peers > 100 && held.verdicts > 100, "{held:?}");
    world.reaches(&friend, to, By::Tcp);
    world.dropped(&other, to, By::Tcp, Counter::DroppedIngress);
    assert_eq!(world.counted(Counter::DroppedBroken), 0);

    // The next agent finds the large maps, and all that is in them.
    world.end();
    world.begin();
    assert!(world.capacity_of(maps::VERDICTS) > 100);
    world.reaches(&friend, to, By::Tcp);
}

#[test]
fn what_does_not_fit_is_closed_and_all_else_is_as_it_was() {
    let Some(mut world) = World::of(SMALL) else {
        return;
    };
    world.engine().allow(SMALL);
    let mut server = world.pod("x", "server", &json!({"app": "server"}));
    let mut open = world.pod("x", "open", &json!({"app": "open"}));
    let friend = world.pod("x", "friend", &json!({"app": "friend"}));
    server.serve(80);
    open.serve(80);
    assert_eq!(world.sync(), None);
    let (to, beside) = (SocketAddr::new(server.v4, 80), SocketAddr::new(open.v4, 80));
    world.reaches(&friend, to, By::Tcp);
    // A policy with more peers than the map takes verdicts.
    let block = |number: u32| json!({"ipBlock": {"cidr": format!("198.51.{number}.0/24")}});
    let from: Vec<_> = (0..40).map(block).collect();
    let selected = json!({"matchLabels": {"app": "server"}});
    let spec = json!({"podSelector": selected, "ingress": [{"from": from}]});
    assert!(world.put("much", &spec).is_some_and(|closed| closed > 0));
    world.dropped(&friend, to, By::Tcp, Counter::DroppedClosed);
    world.reaches(&friend, beside, By::Tcp);
    assert_eq!(world.capacity_of(maps::VERDICTS), SMALL.verdicts);
}

#[test]
fn flows_take_no_memory_where_policy_is_off_and_have_room_again_afterwards() {
    let off = Capacity {
        policy_flows: 1,
        ..SMALL
    };
    let Some(mut world) = World::of(SMALL) else {
        return;
    };
    for (capacity, expected) in [(off, 1), (off, 1), (SMALL, SMALL.policy_flows)] {
        world.end();
        world.begin_of(capacity);
        assert_eq!(world.capacity_of(maps::POLICY_FLOWS), expected);
    }
    let mut server = world.pod("x", "server", &json!({"app": "server"}));
    let friend = world.pod("x", "friend", &json!({"app": "friend"}));
    server.serve(80);
    world.sync();
    world.reaches(&friend, SocketAddr::new(server.v4, 80), By::Tcp);
    assert!(!world.policy.flows().expect("flows").is_empty());
}

//! Tests ARP and NDP between namespaces: which node answers, and which one after that node fails.

mod world;

use std::net::IpAddr;
use std::time::Duration;

use control_client::resources;
use serde_json::json;
use world::{ANNOUNCERS, Agent, L2, POOLS, World, eventually, sh};

const TWO_NODES: &[(&str, &[&str])] = &[
    ("a", &["192.0.2.1/24", "2001:db8::1/64"]),
    ("b", &["192.0.2.2/24", "2001:db8::2/64"]),
    ("client", &["192.0.2.9/24", "2001:db8::9/64"]),
];

fn mac(namespace: &str) -> String {
    sh(&format!(
        "ip netns exec {namespace} cat /sys/class/net/eth0/address"
    ))
    .trim()
    .to_owned()
}

/// Asks the kernel of a namespace to find out who has an address: the hardware address
/// that it learned.
fn resolve(namespace: &str, address: IpAddr) -> Option<String> {
    // Nobody answers the datagram itself: only the neighbour is of interest.
    let _ = std::process::Command::new("ip")
        .args(["netns", "exec", namespace, "bash", "-c"])
        .arg(format!("echo > /dev/udp/{address}/9"))
        .output();
    std::thread::sleep(Duration::from_millis(30));
    neighbour(namespace, address)
}

fn neighbour(namespace: &str, address: IpAddr) -> Option<String> {
    let shown = sh(&format!(
        "ip -n {namespace} neigh show to {address} dev eth0"
    ));
    let mut words = shown.split_whitespace();
    words.find(|word| *word == "lladdr")?;
    words.next().map(ToOwned::to_owned)
}

struct Two {
    world: World,
    names: Vec<String>,
    agents: [Option<Agent>; 2],
}

fn two() -> Option<Two> {
    let mut world = World::new()?;
    let names = world.network(TWO_NODES);
    world.node_object("a", &["192.0.2.1", "2001:db8::1"]);
    world.node_object("b", &["192.0.2.2", "2001:db8::2"]);
    world.ours(
        &POOLS,
        "p",
        json!({"ranges": ["192.0.2.100-192.0.2.120", "2001:db8::100/120"]}),
    );
    world.ours(&L2, "all", json!({}));
    let agents = [
        Some(world.agent("a", &names[0])),
        Some(world.agent("b", &names[1])),
    ];
    Some(Two {
        world,
        names,
        agents,
    })
}

impl Two {
    fn client(&self) -> &str {
        &self.names[2]
    }

    /// Which node answers for an address, once one does and says so.
    fn holder(&self, address: IpAddr) -> usize {
        let macs = [mac(&self.names[0]), mac(&self.names[1])];
        let (at, _) = eventually("one node answers", Duration::from_secs(20), || {
            let found = resolve(self.client(), address)?;
            let at = macs.iter().position(|it| *it == found).expect("a node");
            let says = ["a", "b"].map(|node| self.claims(node, address));
            (says[at] && !says[1 - at]).then_some(at)
        });
        at
    }

    fn claims(&self, node: &str, address: IpAddr) -> bool {
        let announcer = self.world.get(&ANNOUNCERS, "", node).unwrap_or_default();
        let all = announcer["status"]["addresses"].as_array();
        all.is_some_and(|all| all.contains(&json!(address.to_string())))
    }

    /// Kills the agent that holds an address; how long until the client's kernel knows
    /// the other, without asking.
    fn fail_over(&mut self, address: IpAddr) -> Duration {
        let holder = self.holder(address);
        let other = mac(&self.names[1 - holder]);
        self.agents[holder].take().expect("it runs").kill();
        let client = self.client().to_owned();
        let (_, took) = eventually("the other node answers", Duration::from_secs(10), || {
            (neighbour(&client, address)? == other).then_some(())
        });
        took
    }
}

/// An address moves within three seconds of its node's death. A machine that is busy
/// with something else only adds to that time, so the best of a few tries is what the
/// code needs.
fn moves_within_three_seconds(changes: &serde_json::Value) {
    let mut best = Duration::MAX;
    for _ in 0..3 {
        let Some(mut two) = two() else { return };
        let address = two.world.service("web", changes.clone())[0];
        let took = two.fail_over(address);
        eprintln!("{address} moved after {} ms", took.as_millis());
        best = best.min(took);
        if best <= Duration::from_secs(3) {
            return;
        }
    }
    panic!("it took {best:?}");
}

#[test]
fn arp_is_answered_by_one_node_and_moves_within_three_seconds_of_its_death() {
    moves_within_three_seconds(&json!({}));
}

#[test]
fn ndp_is_answered_by_one_node_and_moves_within_three_seconds_of_its_death() {
    let ipv6 = json!({"spec": {"ipFamilies": ["IPv6"], "ipFamilyPolicy": "SingleStack"}});
    moves_within_three_seconds(&ipv6);
}

#[test]
fn a_restart_moves_nothing_and_who_stood_in_keeps_the_address() {
    let Some(mut two) = two() else { return };
    let address = two.world.service("web", json!({}))[0];
    let holder = two.holder(address);
    let node = ["a", "b"][holder];
    // A quick restart, as an upgrade is: nobody notices.
    two.agents[holder].take().expect("it runs").stop();
    two.agents[holder] = Some(two.world.agent(node, &two.names[holder]));
    for _ in 0..35 {
        std::thread::sleep(Duration::from_millis(100));
        let known = neighbour(two.client(), address).expect("still known");
        assert_eq!(known, mac(&two.names[holder]), "it moved");
    }
    // A long one: the other takes over, and keeps it when this one is back.
    two.fail_over(address);
    two.agents[holder] = Some(two.world.agent(node, &two.names[holder]));
    for _ in 0..40 {
        std::thread::sleep(Duration::from_millis(100));
        let known = neighbour(two.client(), address).expect("still known");
        assert_eq!(known, mac(&two.names[1 - holder]), "it moved back");
    }
    let other = ["b", "a"][holder];
    let announcer = two.world.get(&ANNOUNCERS, "", other).expect("an Announcer");
    assert_eq!(
        announcer["status"]["addresses"],
        json!([address.to_string()])
    );
}

#[test]
fn with_policy_local_only_nodes_with_endpoints_answer() {
    let Some(two) = two() else { return };
    two.world.endpoints("local", &["b"]);
    let address = two
        .world
        .service("local", json!({"spec": {"externalTrafficPolicy": "Local"}}))[0];
    assert_eq!(two.holder(address), 1);
    two.world.endpoints("local", &["a"]);
    let there = mac(&two.names[0]);
    let (_, took) = eventually("it moved with the endpoint", Duration::from_secs(5), || {
        (neighbour(two.client(), address)? == there).then_some(())
    });
    eprintln!("moved with its endpoint after {} ms", took.as_millis());
    two.world.endpoints("local", &[]);
    sh(&format!("ip -n {} neigh flush dev eth0", two.client()));
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(resolve(two.client(), address), None, "nobody may serve it");
    // and what is no load balancer's is answered for by nobody
    assert_eq!(
        resolve(two.client(), "192.0.2.119".parse().expect("an address")),
        None
    );
}

#[test]
fn addresses_are_given_kept_and_taken_back() {
    let Some(world) = World::new() else { return };
    let refused = world.refused(
        &POOLS,
        &json!({"apiVersion": "orlop.dev/v1alpha1", "kind": "IPPool",
        "metadata": {"name": "bad"}, "spec": {"ranges": ["192.0.2.0/33"]}}),
    );
    assert!(refused.contains("192.0.2.10-192.0.2.20"), "{refused}");
    world.ours(
        &POOLS,
        "p",
        json!({"ranges": ["192.0.2.100-192.0.2.101", "2001:db8::100/127"]}),
    );
    let dual = json!({"spec": {"ipFamilyPolicy": "RequireDualStack"}});
    let first = world.service("first", dual);
    assert_eq!(
        first.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["192.0.2.100", "2001:db8::100"]
    );
    let wish = json!({"spec": {"loadBalancerIP": "192.0.2.101"}});
    assert_eq!(world.service("wish", wish)[0].to_string(), "192.0.2.101");
    let service = world
        .get(&resources::SERVICES, "default", "first")
        .expect("it");
    assert_eq!(
        service["status"]["loadBalancer"]["ingress"][0]["ipMode"],
        "VIP"
    );
    assert_eq!(
        service["metadata"]["finalizers"],
        json!(["service.kubernetes.io/load-balancer-cleanup"])
    );
    // No more: it is said, and given as soon as one goes.
    let poor = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "poor"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}});
    world.create(&resources::SERVICES, "default", &poor);
    let status = |name: &str| {
        world
            .get(&POOLS, "", name)
            .map(|pool| pool["status"].clone())
            .unwrap_or_default()
    };
    eventually("an event tells of it", Duration::from_secs(10), || {
        let selection = control_client::Selection::all().namespace("default");
        let events = world
            .block(
                world
                    .admin
                    .list::<serde_json::Value>(&resources::EVENTS, &selection),
            )
            .ok()?;
        let found = events
            .items
            .iter()
            .any(|it| it["reason"] == "AllocationFailed" && it["involvedObject"]["name"] == "poor");
        found.then_some(())
    });
    assert!(world.addresses_now("poor").is_empty());
    eventually("the pool counts", Duration::from_secs(5), || {
        let now = status("p");
        (now["total"] == 4 && now["assigned"] == 3 && now["available"] == 1).then_some(())
    });
    world.delete(&resources::SERVICES, "default", "wish");
    assert_eq!(world.addresses("poor")[0].to_string(), "192.0.2.101");
    assert!(
        world.get(&resources::SERVICES, "default", "wish").is_none(),
        "the finalizer was taken off"
    );
    // No load balancer any more: nothing of ours is left on it.
    world.patch(
        &resources::SERVICES,
        "default",
        "first",
        "",
        &json!({"spec": {"type": "ClusterIP"}}),
    );
    eventually("it is taken back", Duration::from_secs(5), || {
        let now = world.get(&resources::SERVICES, "default", "first")?;
        let clean = now["metadata"]["finalizers"].is_null()
            && now["metadata"]["annotations"]["orlop.dev/load-balancer-assigned"].is_null()
            && now["status"]["loadBalancer"]["ingress"].is_null();
        clean.then_some(())
    });
    // A node writes its own Announcer, and no other's.
    let node = world.node_client("a");
    let announcer = |name: &str| {
        json!({"apiVersion": "orlop.dev/v1alpha1", "kind": "Announcer",
        "metadata": {"name": name}})
    };
    let write = |name: &str| {
        world.block(node.create::<control_client::Discard>(&ANNOUNCERS, "", &announcer(name)))
    };
    write("a").expect("its own");
    eventually(
        "the policy is in force",
        Duration::from_secs(10),
        || match write("b") {
            Err(error) if error.is_already_exists() => None,
            Err(error) => error
                .chain()
                .contains("its own Announcer only")
                .then_some(()),
            Ok(_) => {
                world.delete(&ANNOUNCERS, "", "b");
                None
            }
        },
    );
}

#[test]
fn an_address_is_answered_for_again_after_each_task_of_its_agent_panicked() {
    let Some(two) = two() else { return };
    let address = two.world.service("web", json!({}))[0];
    let holder = two.holder(address);
    let agent = two.agents[holder].as_ref().expect("it runs");
    let node = ["a", "b"][holder];
    let own = mac(&two.names[holder]);
    let renewed = || {
        let announcer = two.world.get(&ANNOUNCERS, "", node).unwrap_or_default();
        announcer["status"]["renewTime"].clone()
    };
    for task in ["l2-announcer", "announcer-status", "announcer-follower"] {
        agent.restart_tasks(task);
        let before = renewed();
        eventually(
            "the node says that it lives",
            Duration::from_secs(10),
            || (renewed() != before).then_some(()),
        );
        sh(&format!("ip -n {} neigh flush dev eth0", two.client()));
        eventually("the node answers", Duration::from_secs(10), || {
            (resolve(two.client(), address)? == own).then_some(())
        });
        assert!(two.claims(node, address), "after {task}");
    }
    // Who was restarted still learns of what is new.
    let another = two.world.service("another", json!({}))[0];
    two.holder(another);
}

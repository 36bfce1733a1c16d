//! Tests BGP with Debian's bird in a namespace.

mod world;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use control_client::resources;
use serde_json::{Value, json};
use world::{ADVERTISEMENTS, ANNOUNCERS, PEERS, POOLS, Running, World, eventually, sh};

const HOSTS: &[(&str, &[&str])] = &[
    ("node", &["192.0.2.1/24", "2001:db8::1/64"]),
    ("router", &["192.0.2.254/24", "2001:db8::254/64"]),
];

struct Router {
    namespace: String,
    dir: tempfile::TempDir,
    bird: Option<Running>,
}

impl Router {
    fn socket(&self) -> PathBuf {
        self.dir.path().join("bird.ctl")
    }

    /// bird, with a passive session whose lines are these, and its routes in the
    /// namespace's table.
    fn start(namespace: &str, session: &str) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let log = dir.path().join("log");
        let config = format!(
            "log \"{}\" all;\nrouter id 192.0.2.254;\nprotocol device {{ scan time 1; }}\n\
             protocol direct {{ ipv4; ipv6; }}\n\
             protocol kernel {{ ipv4 {{ export where source = RTS_BGP; import none; }}; }}\n\
             protocol kernel {{ ipv6 {{ export where source = RTS_BGP; import none; }}; }}\n\
             protocol bgp node {{ passive; {session}\n\
             ipv4 {{ import all; export none; }};\nipv6 {{ import all; export none; }}; }}\n",
            log.display()
        );
        std::fs::write(dir.path().join("bird.conf"), config).expect("a configuration");
        let mut router = Self {
            namespace: namespace.to_owned(),
            dir,
            bird: None,
        };
        let (conf, socket) = (router.dir.path().join("bird.conf"), router.socket());
        router.bird = Some(Running::start(&format!(
            "ip netns exec {namespace} bird -f -c {} -s {}",
            conf.display(),
            socket.display()
        )));
        eventually("bird runs", Duration::from_secs(10), || {
            router.try_ask("show status")
        });
        router
    }

    fn try_ask(&self, question: &str) -> Option<String> {
        let socket = self.socket();
        let out = std::process::Command::new("birdc")
            .arg("-s")
            .arg(&socket)
            .args(question.split(' '))
            .output()
            .ok()?;
        out.status
            .success()
            .then(|| String::from_utf8_lossy(&out.stdout).into_owned())
    }

    fn ask(&self, question: &str) -> String {
        self.try_ask(question).expect("bird answers")
    }

    /// Routes to an address in the kernel's table.
    fn kernel(&self, address: IpAddr) -> String {
        let family = if address.is_ipv4() { "-4" } else { "-6" };
        sh(&format!(
            "ip -n {} {family} route show {address}",
            self.namespace
        ))
    }

    fn has(&self, address: IpAddr) -> bool {
        !self.kernel(address).trim().is_empty()
    }

    fn await_route(&self, address: IpAddr, there: bool) -> Duration {
        let what = format!("route to {address}: {there}");
        eventually(&what, Duration::from_secs(20), || {
            (self.has(address) == there).then_some(())
        })
        .1
    }
}

fn lacks_bird() -> bool {
    let there = std::process::Command::new("bird")
        .arg("--version")
        .output()
        .is_ok();
    if !there {
        eprintln!("skipped: bird is missing (apt-get install bird2)");
    }
    !there
}

/// A cluster of one node with pools, and its namespaces: node, router.
fn cluster() -> Option<(World, Vec<String>)> {
    if lacks_bird() {
        return None;
    }
    let mut world = World::new()?;
    let names = world.network(HOSTS);
    world.node_object("a", &["192.0.2.1", "2001:db8::1"]);
    world.ours(
        &POOLS,
        "p",
        json!({"ranges": ["198.51.100.0/28", "2001:db8:1::/124"]}),
    );
    Some((world, names))
}

fn peer(changes: &Value) -> Value {
    let mut spec = json!({"myASN": 65001, "peerASN": 65100, "peerAddress": "192.0.2.254",
        "connectRetrySeconds": 1});
    for (key, value) in changes.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    spec
}

const EXTERNAL: &str = "local 192.0.2.254 as 65100; neighbor 192.0.2.1 as 65001; \
                        graceful restart on; graceful restart time 30;";

#[test]
fn routes_of_both_families_come_with_next_hop_and_communities_and_go_with_endpoints() {
    let Some((world, names)) = cluster() else {
        return;
    };
    let router = Router::start(&names[1], EXTERNAL);
    world.ours(&PEERS, "spine", peer(&json!({})));
    world.ours(
        &ADVERTISEMENTS,
        "all",
        json!({"communities": ["65001:7", "65001:1:2", "no-export"], "localPref": 50}),
    );
    let dual = json!({"spec": {"ipFamilyPolicy": "RequireDualStack"}});
    let both = world.service("web", dual);
    let _agent = world.agent("a", &names[0]);
    let took = router.await_route(both[0], true);
    eprintln!(
        "route to a Service {} ms after the agent's start",
        took.as_millis()
    );
    router.await_route(both[1], true);
    assert!(
        router.kernel(both[0]).contains("via 192.0.2.1 "),
        "{}",
        router.kernel(both[0])
    );
    assert!(
        router.kernel(both[1]).contains("via 2001:db8::1 "),
        "{}",
        router.kernel(both[1])
    );
    let shown = router.ask(&format!("show route {}/32 all", both[0]));
    for expected in [
        "(65001,7)",
        "(65535,65281)",
        "(65001, 1, 2)",
        "BGP.as_path: 65001",
        "BGP.next_hop: 192.0.2.1",
    ] {
        assert!(shown.contains(expected), "no {expected} in {shown}");
    }
    assert!(
        shown.contains("BGP.origin: IGP") && !shown.contains("BGP.local_pref: 50"),
        "{shown}"
    );

    // With policy Local it is told only while there is an endpoint here.
    world.endpoints("local", &["a"]);
    let local = world.service("local", json!({"spec": {"externalTrafficPolicy": "Local"}}))[0];
    router.await_route(local, true);
    world.endpoints("local", &["b"]);
    let took = router.await_route(local, false);
    eprintln!(
        "route withdrawn {} ms after the endpoint went",
        took.as_millis()
    );
    assert!(router.has(both[0]), "the other stays");
    world.endpoints("local", &["a"]);
    router.await_route(local, true);
    world.delete(&resources::SERVICES, "default", "local");
    router.await_route(local, false);

    let (status, _) = eventually("the session is shown", Duration::from_secs(5), || {
        let it = world.get(&ANNOUNCERS, "", "a")?["status"]["peers"]["spine"].clone();
        (it["state"] == "Established" && it["advertised"] == 2).then_some(it)
    });
    assert!(status["error"].is_null());
    // A peer that is removed forgets all.
    world.delete(&PEERS, "", "spine");
    router.await_route(both[0], false);
}

#[test]
fn restarts_of_the_agent_lose_no_route() {
    let Some((world, names)) = cluster() else {
        return;
    };
    let router = Router::start(&names[1], EXTERNAL);
    world.ours(&PEERS, "spine", peer(&json!({})));
    world.ours(&ADVERTISEMENTS, "all", json!({}));
    let stays = world.service(
        "stays",
        json!({"spec": {"ipFamilyPolicy": "RequireDualStack"}}),
    );
    let goes = world.service("goes", json!({}))[0];
    let agent = world.agent("a", &names[0]);
    for address in [stays[0], stays[1], goes] {
        router.await_route(address, true);
    }
    // Whoever looks all the time sees it all the time.
    let (over, lost) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let watcher = {
        let (over, lost, namespace, stays) =
            (over.clone(), lost.clone(), names[1].clone(), stays.clone());
        std::thread::spawn(move || {
            let mut looks = 0_u32;
            while !over.load(Ordering::Relaxed) {
                for address in &stays {
                    let family = if address.is_ipv4() { "-4" } else { "-6" };
                    let shown = sh(&format!("ip -n {namespace} {family} route show {address}"));
                    if shown.trim().is_empty() {
                        lost.store(true, Ordering::Relaxed);
                    }
                }
                looks += 1;
            }
            looks
        })
    };
    agent.kill();
    // While nobody is there a Service goes: its route must not outlive the restart.
    world.delete(&resources::SERVICES, "default", "goes");
    std::thread::sleep(Duration::from_secs(2));
    assert!(router.has(goes), "kept, since the agent may come back");
    let agent = world.agent("a", &names[0]);
    router.await_route(goes, false);
    agent.stop();
    std::thread::sleep(Duration::from_secs(1));
    let _agent = world.agent("a", &names[0]);
    eventually("the session is back", Duration::from_secs(10), || {
        router
            .ask("show protocols node")
            .contains("Established")
            .then_some(())
    });
    std::thread::sleep(Duration::from_millis(500));
    over.store(true, Ordering::Relaxed);
    let looks = watcher.join().expect("the watcher");
    eprintln!("{looks} looks during two restarts");
    assert!(looks > 50);
    assert!(!lost.load(Ordering::Relaxed), "a route was lost");
}

#[test]
fn within_one_autonomous_system_with_a_password_over_ipv6() {
    let Some((world, names)) = cluster() else {
        return;
    };
    let router = Router::start(
        &names[1],
        "local 2001:db8::254 as 4200000001; neighbor 2001:db8::1 as 4200000001; password \"secret\"; \
         direct; hold time 9;",
    );
    let spec = peer(
        &json!({"myASN": 4_200_000_001_u32, "peerASN": 4_200_000_001_u32, "peerAddress": "2001:db8::254",
        "holdTimeSeconds": 9, "passwordSecret": {"key": "spine"}}),
    );
    world.ours(&PEERS, "spine", spec);
    world.ours(
        &ADVERTISEMENTS,
        "all",
        json!({"localPref": 50, "aggregationLength": 28}),
    );
    let both = world.service(
        "web",
        json!({"spec": {"ipFamilyPolicy": "RequireDualStack"}}),
    );
    let _agent = world.agent("a", &names[0]);
    // Without the password there is no session, and the reason is told.
    let (error, _) = eventually("the reason", Duration::from_secs(10), || {
        let it = world.get(&ANNOUNCERS, "", "a")?["status"]["peers"]["spine"]["error"].clone();
        it.as_str().map(ToOwned::to_owned)
    });
    assert!(error.contains("kube-system/orlop-bgp"), "{error}");
    world.create(
        &resources::SECRETS,
        "kube-system",
        &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "orlop-bgp"}, "stringData": {"spine": "secret"}}),
    );
    router.await_route(both[1], true);
    let shown = router.ask("show route 198.51.100.0/28 all");
    assert!(shown.contains("BGP.local_pref: 50"), "{shown}");
    assert!(shown.contains("BGP.next_hop: 192.0.2.1"), "{shown}");
    // Longer than the hold time: both sides keep it up.
    std::thread::sleep(Duration::from_secs(11));
    assert!(router.ask("show protocols node").contains("Established"));
    assert!(router.has(both[1]));
}

#[test]
fn a_wrong_autonomous_system_is_told_in_words() {
    let Some((world, names)) = cluster() else {
        return;
    };
    let _router = Router::start(&names[1], EXTERNAL);
    world.ours(&PEERS, "spine", peer(&json!({"peerASN": 65200})));
    let _agent = world.agent("a", &names[0]);
    eventually("the reason", Duration::from_secs(10), || {
        let it = world.get(&ANNOUNCERS, "", "a")?["status"]["peers"]["spine"].clone();
        it["error"]
            .as_str()?
            .contains("the peer is of AS 65100, not of AS 65200")
            .then_some(())
    });
}

#[test]
fn a_session_whose_task_panics_comes_up_again_and_tells_routes() {
    let Some((world, names)) = cluster() else {
        return;
    };
    let router = Router::start(&names[1], EXTERNAL);
    world.ours(&PEERS, "spine", peer(&json!({})));
    world.ours(&ADVERTISEMENTS, "all", json!({}));
    let first = world.service("first", json!({}))[0];
    let agent = world.agent("a", &names[0]);
    router.await_route(first, true);
    agent.restart_tasks("bgp-session");
    // What changed meanwhile is told in the new session.
    let second = world.service("second", json!({}))[0];
    router.await_route(second, true);
    assert!(router.has(first));
    world.delete(&resources::SERVICES, "default", "first");
    router.await_route(first, false);
    // The one whose status the agent writes is as before.
    eventually("the session is reported", Duration::from_secs(10), || {
        let it = world.get(&ANNOUNCERS, "", "a")?["status"]["peers"]["spine"].clone();
        (it["state"] == "Established" && it["error"].is_null()).then_some(())
    });
}

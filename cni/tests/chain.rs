//! Tests the plugin in chains with the standard plugins of containernetworking. A list runs as a
//! container runtime runs it: each plugin gets the result of the previous ones and the keys of
//! `runtimeConfig` for its capabilities. The tests need root, and chains need the standard
//! plugins.

mod world;

use std::{path::PathBuf, process::Command};

use serde_json::{Map, Value, json};
use world::{Namespace, Plugin, World, address, ip, reach};

/// Where packages put the standard plugins.
const FOLDERS: [&str; 2] = ["/usr/lib/cni", "/opt/cni/bin"];

fn standard(name: &str) -> Option<PathBuf> {
    let found = FOLDERS
        .iter()
        .map(|folder| PathBuf::from(folder).join(name));
    found.into_iter().find(|path| path.exists())
}

/// A list of plugins, for one container.
struct Chain<'a> {
    node: &'a Namespace,
    pod: &'a Namespace,
    version: &'a str,
    plugins: Vec<Value>,
    runtime: Value,
}

impl Chain<'_> {
    /// The configuration of the plugin at a place.
    fn config(&self, index: usize, previous: Option<&Value>) -> Value {
        let mut config = self.plugins[index].clone();
        let can = config["capabilities"].take();
        let wanted: Map<String, Value> = self
            .runtime
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(key, _)| can[key.as_str()] == true)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let map = config.as_object_mut().expect("a configuration");
        map.remove("capabilities");
        map.insert("cniVersion".to_owned(), json!(self.version));
        map.insert("name".to_owned(), json!("orlop"));
        if !wanted.is_empty() {
            map.insert("runtimeConfig".to_owned(), Value::Object(wanted));
        }
        if let Some(previous) = previous {
            map.insert("prevResult".to_owned(), previous.clone());
        }
        config
    }

    fn call(&self, verb: &str, index: usize, previous: Option<&Value>) -> Value {
        let config = self.config(index, previous);
        let name = config["type"].as_str().expect("a type").to_owned();
        let plugin = Plugin {
            node: self.node,
            config: config.clone(),
        };
        let program = (name != "orlop-cni").then(|| standard(&name).expect("the plugin"));
        let pod = Some(("chained", self.pod));
        let (ok, value) = plugin.call_program(program.as_deref(), &name, verb, pod, &config);
        assert!(ok, "{verb} of {name}: {value}");
        value
    }

    fn add(&self) -> Value {
        let mut result: Option<Value> = None;
        for index in 0..self.plugins.len() {
            result = Some(self.call("ADD", index, result.as_ref()));
        }
        result.expect("a result")
    }

    fn check(&self, result: &Value) {
        for index in 0..self.plugins.len() {
            // Its 1.1 looks for rules of IPv6, whatever addresses the pod has.
            if self.plugins[index]["type"] == "portmap" {
                continue;
            }
            self.call("CHECK", index, Some(result));
        }
    }

    fn del(&self, result: Option<&Value>) {
        for index in (0..self.plugins.len()).rev() {
            self.call("DEL", index, result);
        }
    }
}

#[test]
fn standard_plugins_work_before_and_after() {
    let names = ["loopback", "tuning", "portmap"];
    let Some(world) = World::new() else { return };
    if let Some(missing) = names.iter().find(|name| standard(name).is_none()) {
        println!("skipped: the standard plugin `{missing}` is not installed");
        return;
    }
    if Command::new("iptables").arg("--version").output().is_err() {
        println!("skipped: the standard plugin `portmap` needs iptables, which is not installed");
        return;
    }
    let pod = world.pod("pod");
    let chain = Chain {
        node: &world.node,
        pod: &pod,
        version: "1.0.0",
        plugins: vec![
            json!({"type": "loopback"}),
            json!({
                "type": "orlop-cni", "ranges": ["10.200.10.0/24"],
                "mtu": 1400, "dataDir": world.file("data"),
                "capabilities": {"ips": true, "mac": true},
            }),
            json!({"type": "tuning", "sysctl": {"net.ipv4.conf.eth0.arp_filter": "1"}}),
            json!({"type": "portmap", "snat": true, "capabilities": {"portMappings": true}}),
        ],
        runtime: json!({
            "ips": ["10.200.10.77/32"], "mac": "02:00:5e:00:00:77",
            "portMappings": [{"hostPort": 8080, "containerPort": 7000, "protocol": "tcp"}],
        }),
    };
    let result = chain.add();
    let interfaces = result["interfaces"].as_array().expect("interfaces");
    let names: Vec<_> = interfaces.iter().map(|it| &it["name"]).collect();
    assert_eq!(names.len(), 3, "{result}");
    assert_eq!((names[0], names[2]), (&json!("lo"), &json!("eth0")));
    assert_eq!(interfaces[2]["mac"], "02:00:5e:00:00:77");
    let own: Vec<_> = result["ips"]
        .as_array()
        .expect("addresses")
        .iter()
        .filter(|ip| ip["interface"] == 2)
        .map(|ip| ip["address"].as_str().expect("an address"))
        .collect();
    assert_eq!(own, ["10.200.10.77/32"]);
    assert!(reach(&pod, &world.node, "10.200.10.77"), "node to pod");
    let sysctl = "/proc/sys/net/ipv4/conf/eth0/arp_filter";
    let tuned = pod.run(|| std::fs::read_to_string(sysctl).expect("the setting"));
    assert_eq!(tuned.trim(), "1");
    chain.check(&result);
    chain.del(Some(&result));
    assert_eq!(world.devices(), [""; 0]);
    // Again, without what the first time left: no result, no namespace.
    chain.del(None);
}

#[test]
fn the_standard_bandwidth_plugin_finds_the_pods_interface() {
    let Some(world) = World::new() else { return };
    // What that plugin makes itself.
    let tbf = "ip link add probe type ifb && tc qdisc add dev probe root tbf rate 1mbit \
               burst 10k latency 10ms && ip link del probe";
    let can = world
        .node
        .run(|| Command::new("sh").args(["-c", tbf]).status());
    if standard("bandwidth").is_none() || !can.is_ok_and(|status| status.success()) {
        println!("skipped: no standard plugin `bandwidth`, or a kernel without tbf or ifb");
        return;
    }
    let pod = world.pod("pod");
    let chain = Chain {
        node: &world.node,
        pod: &pod,
        version: "1.0.0",
        plugins: vec![
            json!({
                "type": "orlop-cni", "ranges": ["10.200.11.0/24"],
                "dataDir": world.file("data"),
            }),
            json!({"type": "bandwidth", "capabilities": {"bandwidth": true}}),
        ],
        runtime: json!({"bandwidth": {
            "ingressRate": 8_000_000, "ingressBurst": 8_000_000,
            "egressRate": 8_000_000, "egressBurst": 8_000_000,
        }}),
    };
    let result = chain.add();
    assert!(reach(&pod, &world.node, &address(&result, 0)));
    chain.check(&result);
    chain.del(Some(&result));
    assert_eq!(world.devices(), [""; 0]);
}

#[test]
fn results_have_what_version_1_1_added_and_checks_find_what_changed() {
    let Some(world) = World::new() else { return };
    let pod = world.pod("pod");
    let chain = |version| Chain {
        node: &world.node,
        pod: &pod,
        version,
        plugins: vec![json!({
            "type": "orlop-cni", "ranges": ["10.200.12.0/24", "fd00:200:12::/64"],
            "mtu": 1390, "dataDir": world.file("data"),
        })],
        runtime: Value::Null,
    };
    let old = chain("1.0.0");
    assert_eq!(old.add()["interfaces"][1]["mtu"], Value::Null);
    let new = chain("1.1.0");
    let result = new.add();
    assert_eq!(result["interfaces"][1]["mtu"], 1390);
    new.check(&result);
    let plugin = Plugin {
        node: &world.node,
        config: new.config(0, Some(&result)),
    };
    let found = |what: &str| {
        let (ok, value) = plugin.call("CHECK", Some(("chained", &pod)));
        assert!(!ok, "{what}");
        assert_eq!(value["code"], 104, "{value}");
    };
    for (change, undo) in [
        ("link set eth0 mtu 1280", "link set eth0 mtu 1390"),
        ("link set eth0 down", "link set eth0 up"),
        (
            "addr del 10.200.12.2/32 dev eth0",
            "addr add 10.200.12.2/32 dev eth0",
        ),
    ] {
        pod.run(|| ip(change));
        found(change);
        pod.run(|| ip(undo));
    }
    // What went with the interface while it was down.
    let result = new.add();
    let host = result["interfaces"][0]["name"].as_str().expect("a name");
    let route = format!("route del 10.200.12.2/32 dev {host}");
    world.node.run(|| ip(&route));
    found(&route);

    // DEL needs neither the namespace nor the result, and twice is fine.
    for _ in 0..2 {
        let (ok, value) = plugin.call_gone("DEL", "chained", &new.config(0, None));
        assert!(ok, "{value}");
    }
    assert_eq!(world.devices(), [""; 0]);
}

#[test]
fn a_node_whose_last_address_is_given_says_so() {
    let Some(world) = World::new() else { return };
    let (one, two) = (world.pod("one"), world.pod("two"));
    let plugin = world.plugin("1.1.0", &["10.200.13.0/30"], json!({}));
    assert!(plugin.call("STATUS", None).0);
    assert!(plugin.call("ADD", Some(("one", &one))).0);
    let (ok, value) = plugin.call("STATUS", None);
    assert!(!ok);
    assert_eq!(value["code"], 51, "{value}");
    let (ok, value) = plugin.call("ADD", Some(("two", &two)));
    assert!(!ok);
    assert_eq!(value["code"], 100, "{value}");
    assert!(plugin.call("DEL", Some(("one", &one))).0);
    assert!(plugin.call("STATUS", None).0, "it rests, and will be free");
    let (ok, value) = plugin.call("ADD", Some(("two", &two)));
    assert!(!ok, "an address rests before another pod gets it");
    assert_eq!(value["code"], 11, "{value}");
    assert_eq!(world.devices(), [""; 0]);
}

//! Tests the plugin's binary in real network namespaces: a "node" namespace that forwards, and two
//! "pods". The tests need root.

mod world;

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    os::{
        fd::AsRawFd,
        unix::{fs::MetadataExt, net::UnixListener},
    },
    path::Path,
    process::Command,
    thread,
    time::Instant,
};

use nix::{
    sched::{CloneFlags, setns},
    sys::socket::{ControlMessageOwned, MsgFlags, UnixAddr, recvmsg},
};
use serde_json::{Value, json};
use world::{Plugin, World, address, reach};

#[test]
fn pods_reach_each_other_and_everything_goes_with_them() {
    let Some(world) = World::new() else { return };
    let one = world.pod("one");
    let two = world.pod("two");
    let ranges = ["10.200.7.0/24", "fd00:200:7::/64"];
    let plugin = world.plugin("1.0.0", &ranges, json!({"mtu": 1400}));
    assert!(plugin.call("STATUS", None).0, "STATUS of a working node");

    let (ok, first) = plugin.call("ADD", Some(("one", &one)));
    assert!(ok, "{first}");
    let started = Instant::now();
    let (ok, second) = plugin.call("ADD", Some(("two", &two)));
    println!("ADD took {:?}", started.elapsed());
    assert!(ok, "{second}");
    assert_eq!(first["interfaces"][1]["name"], "eth0");
    assert_ne!(address(&first, 0), address(&second, 0));
    for index in 0..2 {
        assert!(reach(&one, &two, &address(&first, index)), "pod to pod");
        assert!(reach(&two, &one, &address(&second, index)), "and back");
        assert!(
            reach(&one, &world.node, &address(&first, index)),
            "node to pod"
        );
    }
    assert!(plugin.call("CHECK", Some(("one", &one))).0);

    // The same container gets the same address again, and the link works again.
    let (ok, again) = plugin.call("ADD", Some(("one", &one)));
    assert!(ok, "{again}");
    assert_eq!(address(&again, 0), address(&first, 0));
    assert!(reach(&one, &two, &address(&first, 0)));

    // GC forgets what is not valid, and only that.
    let mut config = plugin.config.clone();
    config["cniVersion"] = json!("1.1.0");
    config["cni.dev/valid-attachments"] = json!([{"containerID": "two", "ifname": "eth0"}]);
    assert!(plugin.call_with("GC", None, &config).0);
    assert!(!plugin.call("CHECK", Some(("one", &one))).0);
    assert!(plugin.call("CHECK", Some(("two", &two))).0);
    let devices = world.devices();
    assert_eq!(devices.len(), 1, "{devices:?}");

    for (id, pod) in [("one", &one), ("two", &two), ("two", &two)] {
        assert!(plugin.call("DEL", Some((id, pod))).0, "DEL of {id}");
    }
    assert_eq!(world.addresses(), [""; 0]);
    assert_eq!(world.devices(), [""; 0]);
}

#[test]
fn errors_are_what_the_specification_says() {
    let Some(world) = World::new() else { return };
    let pod = world.pod("pod");
    let mut plugin = world.plugin("1.0.0", &["10.200.8.0/31"], json!({}));
    let (ok, value) = plugin.call("ADD", Some(("pod", &pod)));
    assert!(!ok);
    assert_eq!(value["code"], 100, "{value}");
    let (_, value) = plugin.call("VERSION", None);
    assert_eq!(
        value["supportedVersions"],
        json!(["0.4.0", "1.0.0", "1.1.0"])
    );
    let (ok, value) = plugin.call("NONSENSE", None);
    assert!(!ok);
    assert_eq!(value["code"], 4, "{value}");
    plugin.config["type"] = json!("loopback");
    assert!(plugin.call("ADD", Some(("pod", &pod))).0);
    assert!(plugin.call("CHECK", Some(("pod", &pod))).0);
    plugin.config["cniVersion"] = json!("9.0.0");
    assert!(!plugin.call("STATUS", None).0);
}

#[test]
fn containerd_1_6_gets_its_loopback_in_the_version_that_it_speaks() {
    let Some(world) = World::new() else { return };
    let pod = world.pod("pod");
    let config = json!({"cniVersion": "0.3.1", "name": "cni-loopback", "type": "loopback"});
    let plugin = Plugin {
        node: &world.node,
        config: config.clone(),
    };
    let call = |verb| plugin.call_named("/opt/cni/bin/loopback", verb, Some(("p", &pod)), &config);
    let answers = || {
        pod.run(|| {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            TcpStream::connect(listener.local_addr().expect("an address")).is_ok()
        })
    };
    assert!(!answers(), "a new namespace's loopback is down");
    let (ok, value) = call("ADD");
    assert!(ok, "{value}");
    assert_eq!(value["cniVersion"], "0.3.1");
    assert!(answers());
    assert!(call("CHECK").0);
    assert!(call("DEL").0);
    let config = json!({"cniVersion": "0.2.0", "name": "cni-loopback", "type": "loopback"});
    let (ok, value) = plugin.call_named("loopback", "ADD", Some(("p", &pod)), &config);
    assert!(!ok);
    assert_eq!(value["code"], 1, "{value}");
}

/// An agent that answers one question, once it has seen that nothing passes.
fn agent(socket: &Path, node: &Path, answer: Value) -> thread::JoinHandle<Value> {
    let listener = UnixListener::bind(socket).expect("a socket");
    let node = std::fs::File::open(node).expect("the node");
    thread::spawn(move || {
        setns(&node, CloneFlags::CLONE_NEWNET).expect("enter");
        let (stream, _) = listener.accept().expect("a question");
        let mut line = String::new();
        let mut reader = BufReader::new(&stream);
        reader.read_line(&mut line).expect("a line");
        let mut asked: Value = serde_json::from_str(&line).expect("JSON");
        let output = Command::new("ip")
            .args([
                "-j",
                "link",
                "show",
                asked["device"].as_str().expect("a device"),
            ])
            .output()
            .expect("the program `ip`");
        let links: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        asked["state"] = links[0]["operstate"].clone();
        (&stream)
            .write_all(format!("{answer}\n").as_bytes())
            .expect("an answer");
        asked
    })
}

#[test]
fn an_interface_is_down_until_the_agent_agrees_and_goes_if_it_does_not() {
    let Some(world) = World::new() else { return };
    let one = world.pod("one");
    let socket = world.file("agent.sock");
    let ranges = ["10.200.9.0/24", "fd00:200:9::/64"];
    let plugin = world.plugin("1.1.0", &ranges, json!({"agent": socket}));
    let nothing_is_left = || assert_eq!(world.devices(), [""; 0]);
    // No agent, as after a crash: not ready, and never an open pod.
    let (ok, value) = plugin.call("STATUS", None);
    assert!(!ok);
    assert_eq!(value["code"], 50, "{value}");
    let (ok, value) = plugin.call("ADD", Some(("one", &one)));
    assert!(!ok);
    assert_eq!(value["code"], 11, "{value}");
    nothing_is_left();

    let asked = agent(
        &socket,
        &world.node.0,
        json!({"wait": "rules are compiled"}),
    );
    let (ok, value) = plugin.call("ADD", Some(("one", &one)));
    asked.join().expect("asked");
    assert!(!ok);
    assert_eq!(value["code"], 11, "{value}");
    assert!(
        value["msg"]
            .as_str()
            .expect("a message")
            .contains("rules are compiled")
    );
    nothing_is_left();
    std::fs::remove_file(&socket).expect("the socket");

    // With a bandwidth, as containerd hands it over.
    let mut config = plugin.config.clone();
    config["runtimeConfig"] = json!({"bandwidth": {
        "IngressRate": 10_000_000, "IngressBurst": u32::MAX, "EgressRate": 0, "EgressBurst": 0,
    }});
    let asked = agent(&socket, &world.node.0, json!({}));
    let (ok, value) = plugin.call_with("ADD", Some(("one", &one)), &config);
    let asked = asked.join().expect("asked");
    assert!(ok, "{value}");
    assert_eq!(asked["state"], "DOWN", "{asked}");
    assert_eq!(asked["device"], value["interfaces"][0]["name"]);
    assert_eq!(
        [&asked["namespace"], &asked["name"], &asked["uid"]],
        ["x", "one", "u"]
    );
    assert_eq!(
        asked["bandwidth"],
        json!({
            "ingressRate": 10_000_000, "ingressBurst": u32::MAX, "egressRate": 0, "egressBurst": 0,
        })
    );
    for index in 0..2 {
        assert_eq!(asked["addresses"][index], address(&value, index));
        assert!(
            reach(&one, &world.node, &address(&value, index)),
            "node to pod"
        );
    }
    assert!(plugin.call("DEL", Some(("one", &one))).0);

    // Without an agent there is nobody who would enforce it.
    config.as_object_mut().expect("a map").remove("agent");
    let (ok, value) = plugin.call_with("ADD", Some(("one", &one)), &config);
    assert!(!ok);
    assert_eq!(value["code"], 7, "{value}");
    nothing_is_left();
}

#[test]
fn an_agent_that_hangs_keeps_no_pod_from_its_end() {
    let Some(world) = World::new() else { return };
    let one = world.pod("one");
    let socket = world.file("addresses.sock");
    let plugin = world.plugin("1.1.0", &["10.200.14.0/24"], json!({}));
    let (ok, value) = plugin.call("ADD", Some(("one", &one)));
    assert!(ok, "{value}");
    // It listens, and does no more.
    let listener = UnixListener::bind(&socket).expect("a socket");
    let mut config = plugin.config.clone();
    config["addresses"] = json!(socket);
    let begun = Instant::now();
    let (ok, value) = plugin.call_with("DEL", Some(("one", &one)), &config);
    let took = begun.elapsed();
    assert!(ok, "{value}");
    assert!(took.as_secs() < 10, "{took:?}");
    assert!(listener.accept().is_ok(), "it was asked first");
    assert_eq!(world.devices(), [""; 0]);
    assert_eq!(world.addresses(), [""; 0], "the address is given back");
}

/// What an agent that makes interfaces was asked, and the identity of the file that came
/// with the question.
struct Asked {
    question: Value,
    file: Option<(u64, u64)>,
}

/// An agent that makes interfaces, and gives one answer.
fn attaching(socket: &Path, answer: Value) -> thread::JoinHandle<Asked> {
    let listener = UnixListener::bind(socket).expect("a socket");
    thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a question");
        let mut line = [0; 4_096];
        let mut parts = [std::io::IoSliceMut::new(&mut line)];
        let mut control = nix::cmsg_space!([std::os::fd::RawFd; 1]);
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let (from, room) = (stream.as_raw_fd(), Some(&mut control[..]));
        let message = recvmsg::<UnixAddr>(from, &mut parts, room, flags).expect("a line");
        let mut file = None;
        for control in message.cmsgs().expect("what came with it") {
            if let ControlMessageOwned::ScmRights(files) = control {
                let path = format!("/proc/self/fd/{}", files[0]);
                let found = std::fs::metadata(path).expect("a file");
                file = Some((found.dev(), found.ino()));
            }
        }
        let bytes = message.bytes;
        let question = serde_json::from_slice(&line[..bytes]).expect("JSON");
        if !answer.is_null() {
            let text = format!("{answer}\n");
            (&stream).write_all(text.as_bytes()).expect("an answer");
        }
        Asked { question, file }
    })
}

#[test]
fn an_agent_that_makes_interfaces_is_asked_for_one_and_its_answer_is_the_result() {
    let Some(world) = World::new() else { return };
    let one = world.pod("one");
    let socket = world.file("addresses.sock");
    let more = json!({
        "mtu": 1400,
        "addresses": socket, "agent": world.file("agent.sock"), "attach": true,
        "runtimeConfig": {
            "ips": ["10.200.15.9/32"], "mac": "02:00:5e:00:00:77",
            "bandwidth": {"IngressRate": 1_000_000, "IngressBurst": 1},
        },
    });
    let plugin = world.plugin("1.1.0", &["10.200.15.0/24"], more);
    let nothing_is_there = || assert_eq!(world.devices(), [""; 0], "the plugin makes none itself");
    let add = || plugin.call("ADD", Some(("one", &one)));
    // Nobody is there, as while the agent starts.
    let (ok, value) = add();
    assert!(!ok);
    assert_eq!(value["code"], 11, "{value}");
    // One that refuses, one that ends meanwhile, one that says nothing of an interface.
    for (answer, code) in [
        (
            json!({"refused": {"code": 51, "reason": "no address is left"}}),
            51,
        ),
        (Value::Null, 11),
        (json!({}), 11),
    ] {
        let asked = attaching(&socket, answer);
        let (ok, value) = add();
        asked.join().expect("asked");
        std::fs::remove_file(&socket).expect("the socket");
        assert!(!ok);
        assert_eq!(value["code"], code, "{value}");
        nothing_is_there();
    }
    let asked = attaching(
        &socket,
        json!({
            "addresses": ["10.200.15.9"],
            "attached": {
                "host": {"mac": [2, 0, 0, 0, 0, 1], "mtu": 1400},
                "pod": {"mac": [2, 0, 94, 0, 0, 119], "mtu": 1399},
            },
        }),
    );
    let (ok, value) = add();
    let Asked { question, file } = asked.join().expect("asked");
    assert!(ok, "{value}");
    nothing_is_there();
    assert_eq!(
        question,
        json!({
            "verb": "attach", "holder": {"containerID": "one", "ifname": "eth0"},
            "pod": {"namespace": "x", "name": "one"}, "uid": "u",
            "wanted": ["10.200.15.9"], "mac": [2, 0, 94, 0, 0, 119], "mtu": 1400,
            "bandwidth": {
                "ingressRate": 1_000_000, "ingressBurst": 1, "egressRate": 0, "egressBurst": 0,
            },
        })
    );
    let pod = std::fs::metadata(&one.0).expect("the namespace");
    assert_eq!(file, Some((pod.dev(), pod.ino())), "the pod's namespace");
    let host = value["interfaces"][0]["name"].as_str().expect("a name");
    assert!(host.starts_with("orl"), "{value}");
    assert_eq!(
        value,
        json!({
            "cniVersion": "1.1.0",
            "interfaces": [
                {"name": host, "mac": "02:00:00:00:00:01", "mtu": 1400},
                {"name": "eth0", "mac": "02:00:5e:00:00:77", "mtu": 1399, "sandbox": one.0},
            ],
            "ips": [{"address": "10.200.15.9/32", "gateway": "169.254.1.1", "interface": 1}],
            "routes": [{"dst": "0.0.0.0/0", "gw": "169.254.1.1"}],
            "dns": {},
        })
    );
}

//! Tests `orlop services`, `orlop trace` and `orlop conntrack` with the maps of a node in a
//! namespace and real connections, while no agent answers. The tests need root.

#[path = "../../../node-agent/datapath/tests/connections/wire.rs"]
mod wire;

#[path = "../../../node-agent/datapath/tests/host/mod.rs"]
mod host;

use std::net::SocketAddr;
use std::process::{Command, Output};

use ebpf_abi::{Address, Config};
use host::{Host, Server, ask_tcp, put_service, put_slice, service, slice};
use node_agent_datapath::Patterns;
use node_agent_plan::{NodeAddress, NodeFacts};
use serde_json::Value;
use wire::{Machine, ask_from};

/// The command, in this thread's namespaces.
fn orlop(host: &Host, arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_orlop"))
        .args(arguments.split(' '))
        .arg("--pin-dir")
        .arg(&host.pin_dir)
        .output()
        .expect("orlop runs")
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&text(output)).expect("JSON")
}

#[test]
fn a_node_s_services_and_connections_are_shown_and_forgotten() {
    let Some(host) = Host::new() else { return };
    // What `/proc/sys/net` shows is the reader's own namespace.
    std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
    let client = Machine::new("client0", "198.51.100.1", "198.51.100.9");
    let pod = Machine::new("veth0", "10.244.1.1", "10.244.1.2");
    let _server = pod.run(|| Server::start("10.244.1.2:8080"));
    let mut engine = host.engine();
    let node = Config {
        node_v4: Address::v4([198, 51, 100, 1]),
        seed: 7,
        ..Config::DEFAULT
    };
    engine.configure(&node).unwrap();
    let facts = NodeFacts {
        addresses: vec![NodeAddress {
            address: [198, 51, 100, 1].into(),
            ports: true,
        }],
        inside: vec!["10.244.0.0/16".parse().unwrap()],
        ..NodeFacts::default()
    };
    engine.set_node(facts).unwrap();
    let devices = [client.device(), pod.device()];
    engine
        .follow_devices(&devices, &Patterns::default())
        .unwrap();
    let mut web = service("web", &["10.96.0.7"], 80);
    web.spec.kind = Some("NodePort".into());
    web.spec.ports[0].node_port = Some(30_080);
    put_service(&mut engine, &web);
    put_slice(&mut engine, &slice("web-4", "web", &["10.244.1.2"], 8080));
    put_service(&mut engine, &service("empty", &["10.96.0.8"], 80));

    // What is programmed; reasons are unknown, which is said beside it.
    let output = orlop(&host, "services default/web");
    let shown = text(&output);
    for line in [
        "default/web",
        "    at 10.96.0.7:80 TCP",
        "    at port 30080 of the node, IPv4 TCP",
        "    to 10.244.1.2:8080, on this node",
    ] {
        assert!(shown.lines().any(|it| it == line), "{line}\n{shown}");
    }
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("is unknown: the agent at"), "{said}");
    let all = json(&orlop(&host, "services -o json"));
    let names: Vec<_> = all["objects"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["name"])
        .collect();
    assert_eq!(names, ["empty", "web"]);
    let there = json(&orlop(&host, "services 198.51.100.1:30080 -o json"));
    assert_eq!(there["objects"][0]["name"], "web");
    assert!(!orlop(&host, "services 10.96.0.9").status.success());

    // Through the node port, and through the socket of a process.
    let asked: SocketAddr = "198.51.100.1:30080".parse().unwrap();
    let walk = |port: u16| {
        let question = format!("trace 198.51.100.9:{port} {asked} -o json");
        json(&orlop(&host, &question))["walks"][0].clone()
    };
    assert_eq!(walk(41_000)["chosenBy"], "hash");
    host.within_reach(false);
    // One that goes on, and one that is closed: its client may begin anew.
    let _stays = client.run(move || ask_from(41_000, asked)).unwrap();
    client
        .run(move || ask_from(41_001, asked).map(drop))
        .unwrap();
    host.within_reach(true);
    ask_tcp("10.96.0.7:80").unwrap();
    assert_eq!(walk(41_000)["chosenBy"], "flow");
    assert_eq!(walk(41_001)["chosenBy"], "hash");
    let refused = text(&orlop(&host, "trace 198.51.100.1 10.96.0.8:80"));
    assert!(
        refused.contains("REFUSED: refused_no_endpoint"),
        "{refused}"
    );

    let list = |more: &str| json(&orlop(&host, &format!("conntrack -o json{more}")));
    let clients = |list: &Value| -> Vec<String> {
        let all = list.as_array().unwrap().iter();
        all.map(|it| it["client"].as_str().unwrap().to_owned())
            .collect()
    };
    let both = ["198.51.100.9:41000", "198.51.100.9:41001"];
    let found = list("");
    assert_eq!(clients(&found), both, "the socket's is none of packets");
    for it in found.as_array().unwrap() {
        assert_eq!(it["service"], "198.51.100.1:30080");
        assert_eq!(it["backend"], "10.244.1.2:8080");
        assert_eq!(
            (&it["local"], &it["protocol"]),
            (&Value::Bool(true), &"TCP".into())
        );
    }
    assert_eq!(clients(&list(" --service 10.96.0.7")), [""; 0]);
    assert_eq!(clients(&list(" --client 198.51.100.9:41001")), both[1..]);
    // All of them is not to be forgotten by mistake.
    assert!(!orlop(&host, "conntrack --flush").status.success());
    list(" --client 198.51.100.9:41001 --flush");
    assert_eq!(clients(&list("")), both[..1]);
}

//! MetalLB, deployed from its own manifest with its own programs, hands its addresses over and
//! gets them back: `orlop migrate metallb`, `--undo`, and again. A machine that is no node has
//! connections to addresses that are announced by ARP and by BGP, and is the router that nodes
//! have sessions with.

mod clients;
mod install;
mod router;

use std::{process::Stdio, time::Instant};

use serde_json::Value;
use tests::{
    Cluster, Failure, ensure, eventually, lan::Lan, netns, no_stock_program, node_programs,
    report::skip, stock_program,
};

use self::{clients::Clients, router::Router};
use super::{IMAGE, migration::stock};

/// The router, which is also the clients' and the administrator's machine.
const MACHINE: &str = "10.88.0.2/24";

/// Where the pods are does not matter to these Services: each node answers for all pods.
const SERVICES: &str = "apiVersion: apps/v1
kind: DaemonSet
metadata: {name: echo}
spec:
  selector: {matchLabels: {app: echo}}
  template:
    metadata: {labels: {app: echo}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: echo, image: IMAGE}]
---
apiVersion: v1
kind: Service
metadata: {name: by-arp, annotations: {metallb.io/address-pool: office}}
spec: {type: LoadBalancer, selector: {app: echo}, ports: [{port: 7777}]}
---
apiVersion: v1
kind: Service
metadata: {name: by-arp-too, annotations: {metallb.io/address-pool: office}}
spec: {type: LoadBalancer, selector: {app: echo}, ports: [{port: 7777}]}
---
apiVersion: v1
kind: Service
metadata: {name: by-bgp, annotations: {metallb.io/address-pool: routed}}
spec: {type: LoadBalancer, selector: {app: echo}, ports: [{port: 7777}]}
";

/// MetalLB's configuration.
const CONFIGURATION: &str = "apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: office, namespace: metallb-system}
spec: {addresses: [10.88.0.210-10.88.0.219]}
---
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: routed, namespace: metallb-system}
spec: {addresses: [203.0.113.0/28], avoidBuggyIPs: true}
---
apiVersion: metallb.io/v1beta1
kind: L2Advertisement
metadata: {name: office, namespace: metallb-system}
spec: {ipAddressPools: [office]}
---
apiVersion: metallb.io/v1beta1
kind: BGPAdvertisement
metadata: {name: routed, namespace: metallb-system}
spec: {ipAddressPools: [routed]}
---
apiVersion: metallb.io/v1beta2
kind: BGPPeer
metadata: {name: router, namespace: metallb-system}
spec: {myASN: 65001, peerASN: 65100, peerAddress: 10.88.0.2}
";

/// What addresses on the network of the nodes begin with, and those behind the router.
const NEAR: &str = "10.88.0.2";
const ROUTED: &str = "203.0.113.";
/// The Services, and what their addresses begin with.
const ADDRESSES: [(&str, &str); 3] = [("by-arp", NEAR), ("by-arp-too", NEAR), ("by-bgp", ROUTED)];

pub fn run(cluster: &Cluster) -> Result<(), Failure> {
    let mut programs = Vec::new();
    for (variable, name) in install::PROGRAMS {
        match stock_program(variable, name) {
            Some(path) => programs.push(path),
            None => return skip(no_stock_program(variable, name)),
        }
    }
    if !router::is_installed() {
        return skip("bird is missing (apt-get install bird2)");
    }
    let lan = Lan::join(&cluster.dir, MACHINE)?;
    let services = SERVICES.replace("IMAGE", IMAGE);
    let router = Router::start(&cluster.dir, &lan)?;
    let metallb = install::install(cluster, &programs)?;
    cluster.kubectl_with("apply -f -", &services)?;
    eventually("MetalLB's configuration", 60, || {
        cluster.kubectl_with("apply -f -", CONFIGURATION).map(drop)
    })?;
    let addresses = addresses_of(cluster)?;
    let routed = &addresses[2];
    router.next_hops(routed, 2)?;
    let mut clients = Clients::start(cluster, &lan, &addresses)?;

    let administrator = cluster.dir.join("metallb.kubeconfig");
    stock::administrator(cluster, &administrator)?;
    let orlop = |options: &str| -> Result<(), Failure> {
        let program = node_programs().join("orlop");
        let mut command = netns::command(&lan.network(), &program.display().to_string());
        command.args(["migrate", "metallb", "--kubeconfig"]);
        command.arg(&administrator).args(options.split_whitespace());
        let begun = Instant::now();
        let output = command.stdin(Stdio::null()).output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure(
            output.status.success(),
            format!("orlop migrate metallb {options}:\n{said}{errors}"),
        )?;
        let took = begun.elapsed().as_secs_f64();
        println!("    orlop migrate metallb {options}: {took:.1} s");
        Ok(())
    };
    for round in ["first", "second"] {
        orlop("")?;
        let speakers = cluster.get("pods -n metallb-system -l component=speaker")?;
        let left = speakers["items"].as_array().map_or(0, Vec::len);
        ensure(left == 0, format!("{left} speakers are left"))?;
        ensure(addresses_of(cluster)? == addresses, "other addresses")?;
        router.next_hops(routed, 2)?;
        clients.go_on(&format!("after the {round} take-over"))?;
        orlop("--undo")?;
        ensure(addresses_of(cluster)? == addresses, "other addresses")?;
        router.next_hops(routed, 2)?;
        clients.go_on(&format!("after the {round} return"))?;
    }
    let withdrawn = router.withdrawals()?;
    ensure(withdrawn.is_empty(), format!("routes went: {withdrawn:?}"))?;
    println!("    {}", clients.summary());
    nothing_of_ours(cluster)?;
    drop(clients);
    cluster.kubectl_with("delete --grace-period=1 -f -", &services)?;
    cluster.kubectl_with("delete -f -", CONFIGURATION)?;
    metallb.remove(cluster)?;
    Ok(())
}

/// The addresses of the Services, once all have one.
fn addresses_of(cluster: &Cluster) -> Result<Vec<String>, Failure> {
    let mut all = Vec::new();
    for (name, begins) in ADDRESSES {
        all.push(eventually(&format!("an address of {name}"), 60, || {
            let service = cluster.get(&format!("service {name}"))?;
            let address = service["status"]["loadBalancer"]["ingress"][0]["ip"].as_str();
            let address = address.ok_or("no address yet")?;
            ensure(address.starts_with(begins), format!("has {address}"))?;
            Ok(address.to_owned())
        })?);
    }
    Ok(all)
}

/// Fails if the way back left objects or marks.
fn nothing_of_ours(cluster: &Cluster) -> Result<(), Failure> {
    for kind in [
        "ippools",
        "l2announcements",
        "bgppeers",
        "bgpadvertisements",
    ] {
        let list = cluster.get(&format!("{kind}.orlop.dev"))?;
        let left = list["items"].as_array().map_or(0, Vec::len);
        ensure(left == 0, format!("{left} {kind} are left"))?;
    }
    for (name, _) in ADDRESSES {
        let service = cluster.get(&format!("service {name}"))?;
        let metadata = &service["metadata"];
        let marks = [
            metadata["annotations"].to_string(),
            metadata["labels"].to_string(),
            metadata["finalizers"].to_string(),
        ];
        ensure(
            !marks.iter().any(|it| it.contains("orlop.dev")),
            format!("Service {name} has {marks:?}"),
        )?;
    }
    let nodes = cluster.get("nodes")?;
    let labels = |node: &Value| node["metadata"]["labels"].to_string();
    let mut all = nodes["items"].as_array().into_iter().flatten();
    ensure(
        !all.any(|node| labels(node).contains("orlop.dev/metallb")),
        "a node is labelled",
    )
}

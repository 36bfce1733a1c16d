//! A LoadBalancer Service, asked by a machine that is no node: it gets an address,
//! a node answers for it, and when that node is cut off another one does.

use std::{
    net::{IpAddr, SocketAddr},
    time::Instant,
};

use tests::{Cluster, Failure, ensure, eventually, lan::Lan, machine};

use super::IMAGE;

/// A machine on the network of the nodes.
const CLIENT: &str = "10.88.0.2/24";

/// The pod is not on the node that will be cut off.
const MANIFEST: &str = "apiVersion: v1
kind: Pod
metadata: {name: balanced, labels: {app: balanced}}
spec:
  nodeName: node-1
  containers: [{name: balanced, image: IMAGE}]
---
apiVersion: v1
kind: Service
metadata: {name: balanced}
spec:
  type: LoadBalancer
  selector: {app: balanced}
  ports: [{port: 80, targetPort: 8080}]
---
apiVersion: orlop.dev/v1alpha1
kind: IPPool
metadata: {name: office}
spec: {ranges: [10.88.0.200-10.88.0.209]}
---
apiVersion: orlop.dev/v1alpha1
kind: L2Announcement
metadata: {name: office}
spec: {nodeSelector: {matchLabels: {kubernetes.io/hostname: node-2}}}
";

pub fn run(cluster: &Cluster) -> Result<(), Failure> {
    let lan = Lan::join(&cluster.dir, CLIENT)?;
    let manifest = MANIFEST.replace("IMAGE", IMAGE);
    cluster.kubectl_with("apply -f -", &manifest)?;
    cluster.kubectl("wait pod/balanced --for=condition=Ready --timeout=60s")?;
    let address: IpAddr = eventually("an address", 30, || {
        let service = cluster.get("service balanced")?;
        let address = service["status"]["loadBalancer"]["ingress"][0]["ip"].as_str();
        Ok(address.ok_or("no address yet")?.parse()?)
    })?;
    let target = SocketAddr::new(address, 80);
    let answers = || ensure(lan.get(target)?.ends_with("balanced\n"), "of another pod");
    eventually("an answer from outside", 30, answers)?;
    held_by(cluster, address, "node-2")?;

    // Its agent dies: the programs go on, and the agent that comes after it goes on
    // answering. Nobody else may meanwhile, as a busy machine may take longer to start it
    // than another waits.
    let hit = machine::kill_program(&cluster.dir, "node-2", &["orlop", "node-agent"]);
    ensure(hit >= 1, "node-2 has no agent")?;
    let killed = renewed(cluster, "node-2")?;
    for _ in 0..20 {
        // A busy machine may need more than the second of one try.
        answers().or_else(|_| answers())?;
    }
    eventually("the word of node-2's next agent", 60, || {
        ensure(renewed(cluster, "node-2")? != killed, "it says nothing yet")
    })?;
    held_by(cluster, address, "node-2")?;

    // Who holds it keeps it, though others may now.
    cluster.kubectl(
        "patch l2announcement office --type=merge -p {\"spec\":{\"nodeSelector\":null}}",
    )?;
    eventually("a second node that stands ready", 30, || {
        cluster.get("announcers.orlop.dev node-1").map(drop)
    })?;
    held_by(cluster, address, "node-2")?;

    lan.cut(2)?;
    let cut = Instant::now();
    let moved = eventually("an answer by the other node", 60, answers);
    let took = cut.elapsed();
    lan.mend(2)?;
    moved?;
    println!(
        "    node-2 was cut off: answered again after {:.1} s",
        took.as_secs_f64()
    );
    held_by(cluster, address, "node-1")?;
    cluster.kubectl("wait node/node-2 --for=condition=Ready --timeout=60s")?;
    eventually("an answer at the end", 30, answers)?;
    held_by(cluster, address, "node-1")?;
    cluster
        .kubectl_with("delete --grace-period=1 -f -", &manifest)
        .map(drop)
}

/// When a node's agent said that it lives.
fn renewed(cluster: &Cluster, node: &str) -> Result<String, Failure> {
    let announcer = cluster.get(&format!("announcers.orlop.dev {node}"))?;
    Ok(announcer["status"]["renewTime"].to_string())
}

/// Waits until `node` alone says that it answers for the address.
fn held_by(cluster: &Cluster, address: IpAddr, node: &str) -> Result<(), Failure> {
    eventually(&format!("{node} holds {address}"), 30, || {
        let all = cluster.get("announcers.orlop.dev")?;
        let holders: Vec<_> = (all["items"].as_array().into_iter().flatten())
            .filter(|it| {
                it["status"]["addresses"]
                    .to_string()
                    .contains(&address.to_string())
            })
            .filter_map(|it| it["metadata"]["name"].as_str())
            .collect();
        ensure(holders == [node], format!("held by {holders:?}"))
    })
}

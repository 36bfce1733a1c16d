//! What an operator reads first.

use tests::{Cluster, Failure, ensure};

pub fn run(cluster: &Cluster) -> Result<(), Failure> {
    let wide = cluster.kubectl("get pods -A -o wide")?;
    ensure(
        wide.matches("Running").count() >= 3,
        format!("three pods run: {wide}"),
    )?;
    ensure(
        wide.contains("NOMINATED NODE"),
        format!("columns of stock: {wide}"),
    )?;

    let nodes = cluster.kubectl("get nodes")?;
    ensure(
        nodes.matches(" Ready ").count() == 2,
        format!("two nodes: {nodes}"),
    )?;
    let node = cluster.kubectl("describe node node-1")?;
    for word in [
        "Capacity:",
        "Allocatable:",
        "KubeletReady",
        "PodCIDR:",
        "Container Runtime Version:",
    ] {
        ensure(
            node.contains(word),
            format!("`describe node` has no {word}: {node}"),
        )?;
    }
    let deployment = cluster.kubectl("describe deployment web")?;
    for word in [
        "3 desired | 3 updated | 3 total | 3 available",
        "RollingUpdate",
        "ScalingReplicaSet",
    ] {
        ensure(
            deployment.contains(word),
            format!("no {word}: {deployment}"),
        )?;
    }
    let pods = cluster.get("pods -l app=web")?;
    let name = pods["items"][0]["metadata"]["name"]
        .as_str()
        .unwrap_or_default();
    let pod = cluster.kubectl(&format!("describe pod {name}"))?;
    for word in [
        "Scheduled",
        "Pulled",
        "Created",
        "Started",
        "QoS Class:",
        "kube-api-access-",
    ] {
        ensure(pod.contains(word), format!("no {word}: {pod}"))?;
    }
    let explained = cluster.kubectl("explain deployment.spec.strategy.rollingUpdate")?;
    ensure(
        explained.contains("maxSurge"),
        format!("explain: {explained}"),
    )?;
    let resources = cluster.kubectl("api-resources")?;
    ensure(
        resources.lines().count() > 60,
        format!("api-resources: {resources}"),
    )?;
    let missing = cluster.command("get pod no-such-pod").output()?;
    let text = String::from_utf8_lossy(&missing.stderr).into_owned();
    ensure(
        text.contains("Error from server (NotFound): pods \"no-such-pod\" not found"),
        format!("wording of a missing pod: {text}"),
    )
}

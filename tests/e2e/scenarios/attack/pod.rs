//! A hostile pod tries to harm the node that it runs on, and the pods beside it.

use std::{
    fs,
    process::Command,
    time::{Duration, Instant},
};

use tests::{Cluster, Failure, ensure, eventually, machine};

use super::{Attempt, judge};
use crate::scenarios::node::{AGENT, Node, end, ready};

const NODE: &str = "node-2";
/// How much memory the agent may hold in KiB, whatever the pod does.
const MEMORY: u64 = 300 << 10;

const PODS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: beside}
spec:
  nodeName: NODE
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: IMAGE}]
---
apiVersion: v1
kind: Pod
metadata: {name: hostile}
spec:
  nodeName: NODE
  terminationGracePeriodSeconds: 1
  securityContext: {runAsUser: 0}
  containers:
  - name: main
    image: IMAGE
    volumeMounts: [{name: scratch, mountPath: /scratch}]
  - name: crashes
    image: IMAGE
    args: [get, '127.0.0.1:8080', '1']
  volumes: [{name: scratch, emptyDir: {}}]
";

pub fn run(cluster: &Cluster) -> Result<(), Failure> {
    let node = Node::of(cluster, NODE);
    node.apply(PODS)?;
    ready(cluster, "pod beside")?;
    eventually("the hostile pod's first container", 60, || {
        cluster
            .kubectl("exec hostile -c main -- /program env")
            .map(drop)
    })?;
    let agents = machine::processes_of(&cluster.dir, NODE, AGENT);
    let mut all = Vec::new();
    let mut attempt = |what: &str, refusal: Result<String, Failure>| {
        all.push(Attempt {
            what: what.to_owned(),
            refusal,
        });
    };
    attempt("a hosts file of 20 GiB", hosts(cluster, &node));
    attempt("folders deeper than any path", deep(cluster, &node));
    attempt(
        "connections to cluster DNS that read nothing",
        names(cluster),
    );
    attempt("other pods' files, as a user of the node", files(&node));
    let now = machine::processes_of(&cluster.dir, NODE, AGENT);
    let same = ensure(now == agents, "the agent ended meanwhile");
    attempt("the agent's end", same.map(|()| "it runs".to_owned()));
    let result = judge(all);
    end(cluster, "pod hostile beside")?;
    result
}

/// The pod's hosts file is a file of the node: reading it whole ends who reads it.
fn hosts(cluster: &Cluster, node: &Node<'_>) -> Result<String, Failure> {
    cluster.kubectl("exec hostile -c main -- /program stretch /etc/hosts 20")?;
    let restarts = || -> Result<u64, Failure> {
        let pod = cluster.get("pod hostile")?;
        let statuses = pod["status"]["containerStatuses"].as_array();
        let counts = statuses.into_iter().flatten();
        Ok(counts
            .filter_map(|status| status["restartCount"].as_u64())
            .sum())
    };
    let before = restarts()?;
    let mut most = 0;
    eventually("another start of a container", 60, || {
        for pid in machine::processes_of(&cluster.dir, NODE, AGENT) {
            most = most.max(machine::resident(pid).unwrap_or(0));
        }
        ensure(restarts()? > before, "no container was started")
    })?;
    ensure(most < MEMORY, format!("the agent held {} MiB", most >> 10))?;
    node.runtime()?;
    Ok(format!("agent held {} MiB", most >> 10))
}

/// A tree that no path names is counted and removed as any other.
fn deep(cluster: &Cluster, node: &Node<'_>) -> Result<String, Failure> {
    cluster.kubectl("exec hostile -c main -- /program nest /scratch 200")?;
    let uid = cluster.get("pod hostile")?["metadata"]["uid"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let begun = Instant::now();
    cluster.kubectl("delete pod hostile --grace-period=1 --timeout=60s")?;
    eventually("the end of the pod's folder", 30, || {
        let found = node.run(&["ls", "/var/lib/kubelet/pods"])?;
        ensure(!found.contains(&uid), "it is there")
    })?;
    let took = begun.elapsed().as_secs_f64();
    node.apply(PODS)?;
    eventually("the hostile pod's first container", 60, || {
        cluster
            .kubectl("exec hostile -c main -- /program env")
            .map(drop)
    })?;
    Ok(format!("gone after {took:.1} s"))
}

/// Connections that do not read are closed, and other pods' queries are answered meanwhile.
fn names(cluster: &Cluster) -> Result<String, Failure> {
    let address = cluster.get("service kube-dns --namespace kube-system")?;
    let address = address["spec"]["clusterIP"].as_str().unwrap_or_default();
    let mut stall = cluster
        .command(&format!(
            "exec hostile -c main -- /program stall {address}:53 2000 12"
        ))
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()?;
    std::thread::sleep(Duration::from_secs(2));
    let mut slowest = Duration::ZERO;
    let mut failed = 0;
    for _ in 0..20 {
        let begun = Instant::now();
        // The server answers nothing to plain HTTP; only the name counts here.
        let asked = cluster.kubectl("exec beside -- /program get kubernetes.default:443 1");
        let text = asked.unwrap_or_else(|error| error.to_string());
        if text.contains("lookup") {
            failed += 1;
        }
        slowest = slowest.max(begun.elapsed());
    }
    let _ = stall.kill();
    let _ = stall.wait();
    ensure(failed == 0, format!("{failed} of 20 names did not resolve"))?;
    let bound = Duration::from_secs(4);
    ensure(slowest < bound, format!("the slowest took {slowest:?}"))?;
    Ok(format!("20 of 20 names resolved, {slowest:.1?} at most"))
}

/// Nobody but root reads what pods have, tokens above all.
fn files(node: &Node<'_>) -> Result<String, Failure> {
    let inside = node.runtime()?[0];
    let output = Command::new("nsenter")
        .args(["--mount", "--target", &inside.to_string()])
        .args(["--setuid", "65534", "--setgid", "65534", "--"])
        .args(["find", "/var/lib/kubelet/pods", "-type", "f", "-readable"])
        .output()?;
    let found = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure(found.is_empty(), format!("readable: {found}"))?;
    ensure(
        !output.status.success(),
        "the folder of pods can be entered",
    )?;
    let seen = fs::metadata(node.folder.join("pods"))?;
    use std::os::unix::fs::PermissionsExt;
    let mode = seen.permissions().mode() & 0o777;
    ensure(mode & 0o007 == 0, format!("its mode is {mode:o}"))?;
    Ok(format!("EACCES, mode {mode:o}"))
}

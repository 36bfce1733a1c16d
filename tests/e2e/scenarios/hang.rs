//! A container runtime that says nothing for a while: pods that run do not notice, and
//! what was asked for meanwhile comes when it speaks again.

use std::{thread, time::Duration};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tests::{Cluster, Failure, ensure, eventually};

use super::node::{Node, end, ready, same, states};

const NODE: &str = "node-2";
/// Many times what the probes below have patience for.
const SILENCE: Duration = Duration::from_secs(6);

const PODS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: hang-runs}
spec:
  nodeName: NODE
  containers:
  - name: main
    image: IMAGE
    readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}
    livenessProbe: {httpGet: {port: 8080}, periodSeconds: 1, failureThreshold: 3}
---
apiVersion: v1
kind: Pod
metadata: {name: hang-goes}
spec:
  nodeName: NODE
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: IMAGE}]
";
const RUNS: &str = "pod hang-runs";
const LATE: &str = "
apiVersion: v1
kind: Pod
metadata: {name: hang-comes}
spec:
  nodeName: NODE
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: IMAGE}]
";

pub fn run(cluster: &Cluster) -> Result<(), Failure> {
    let node = Node::of(cluster, NODE);
    node.apply(PODS)?;
    ready(cluster, "pod hang-runs hang-goes")?;
    let before = states(cluster, RUNS)?;

    let silent = Silent::from_now(&node)?;
    cluster.kubectl("delete pod hang-goes --wait=false")?;
    node.apply(LATE)?;
    thread::sleep(SILENCE);
    same(&before, &states(cluster, RUNS)?)?;
    let log = cluster.kubectl("logs hang-runs")?;
    ensure(log.contains("serves HTTP"), format!("its log: {log}"))?;
    drop(silent);

    ready(cluster, "pod hang-comes")?;
    eventually("the end of what was deleted", 120, || {
        let left = cluster.kubectl("get pod hang-goes --ignore-not-found -o name")?;
        ensure(left.is_empty(), left)
    })?;
    same(&before, &states(cluster, RUNS)?)?;
    end(cluster, "pod hang-runs hang-comes")
}

/// The runtime is stopped until this is dropped.
struct Silent(Vec<i32>);

impl Silent {
    fn from_now(node: &Node<'_>) -> Result<Self, Failure> {
        let silent = Self(node.runtime()?);
        for pid in &silent.0 {
            kill(Pid::from_raw(*pid), Signal::SIGSTOP)?;
        }
        Ok(silent)
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        for pid in &self.0 {
            let _ = kill(Pid::from_raw(*pid), Signal::SIGCONT);
        }
    }
}

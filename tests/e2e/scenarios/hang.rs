//! A container runtime that says nothing for a while: pods that run do not notice, and
//! what was asked for meanwhile comes when it speaks again.

use std::{thread, time::Duration};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tests::{Cluster, Failure, ensure, eventually};

use super::IMAGE;
use super::node::{Node, states};

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
    let filled = |text: &str| text.replace("NODE", NODE).replace("IMAGE", IMAGE);
    cluster.kubectl_with("apply -f -", &filled(PODS))?;
    cluster.kubectl("wait pod hang-runs hang-goes --for=condition=Ready --timeout=60s")?;
    let before = states(cluster, RUNS)?;

    let silent = Silent::from_now(cluster)?;
    cluster.kubectl("delete pod hang-goes --wait=false")?;
    cluster.kubectl_with("apply -f -", &filled(LATE))?;
    thread::sleep(SILENCE);
    let during = states(cluster, RUNS)?;
    ensure(during == before, format!("{before:#?} became {during:#?}"))?;
    let log = cluster.kubectl("logs hang-runs")?;
    ensure(log.contains("serves HTTP"), format!("its log: {log}"))?;
    drop(silent);

    cluster.kubectl("wait pod hang-comes --for=condition=Ready --timeout=120s")?;
    eventually("the end of what was deleted", 120, || {
        let left = cluster.kubectl("get pod hang-goes --ignore-not-found -o name")?;
        ensure(left.is_empty(), left)
    })?;
    let after = states(cluster, RUNS)?;
    ensure(after == before, format!("{before:#?} became {after:#?}"))?;
    cluster
        .kubectl("delete pod hang-runs hang-comes --grace-period=1 --timeout=60s")
        .map(drop)
}

/// The runtime is stopped until this is dropped.
struct Silent(Vec<i32>);

impl Silent {
    fn from_now(cluster: &Cluster) -> Result<Self, Failure> {
        let silent = Self(Node::of(cluster, NODE).runtime()?);
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

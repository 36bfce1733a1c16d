//! A container runtime that says nothing for a while: pods that run do not notice, and
//! what was asked for meanwhile comes when it speaks again.

use std::{thread, time::Duration};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tests::{Cluster, Failure, ensure, eventually, machine};

use super::IMAGE;

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
    let before = state(cluster)?;

    let silent = Silent::from_now(cluster)?;
    cluster.kubectl("delete pod hang-goes --wait=false")?;
    cluster.kubectl_with("apply -f -", &filled(LATE))?;
    thread::sleep(SILENCE);
    let during = state(cluster)?;
    ensure(during == before, format!("{before} became {during}"))?;
    let log = cluster.kubectl("logs hang-runs")?;
    ensure(log.contains("serves HTTP"), format!("its log: {log}"))?;
    drop(silent);

    cluster.kubectl("wait pod hang-comes --for=condition=Ready --timeout=120s")?;
    eventually("the end of what was deleted", 120, || {
        let left = cluster.kubectl("get pod hang-goes --ignore-not-found -o name")?;
        ensure(left.is_empty(), left)
    })?;
    let after = state(cluster)?;
    ensure(after == before, format!("{before} became {after}"))?;
    cluster
        .kubectl("delete pod hang-runs hang-comes --grace-period=1 --timeout=60s")
        .map(drop)
}

/// The running pod's container, how often it was restarted, and since when it is ready.
fn state(cluster: &Cluster) -> Result<String, Failure> {
    let pod = cluster.get("pod hang-runs")?;
    let status = &pod["status"]["containerStatuses"][0];
    let conditions = pod["status"]["conditions"].as_array();
    let ready = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "Ready");
    let ready = ready.ok_or("the pod has no condition Ready")?;
    Ok(format!(
        "{} {} {} {}",
        status["containerID"], status["restartCount"], ready["status"], ready["lastTransitionTime"]
    ))
}

/// The runtime is stopped until this is dropped.
struct Silent(Vec<i32>);

impl Silent {
    fn from_now(cluster: &Cluster) -> Result<Self, Failure> {
        let found = machine::processes_of(&cluster.dir, NODE, &["containerd", "--config"]);
        ensure(!found.is_empty(), "no runtime was found")?;
        let silent = Self(found);
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

//! The parts of a cluster besides controllers: a scheduler and kubelets, much simplified.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::api::{Api, ObjectKey};

/// How often nodes and the scheduler look.
const PERIOD: Duration = Duration::from_millis(500);
/// How often a kubelet renews its lease, in periods.
const LEASE_PERIODS: u64 = 20;
/// For how many periods a pod of a Job works.
const WORK_PERIODS: i64 = 6;

/// The nodes that are powered off.
pub type DeadNodes = Arc<Mutex<BTreeSet<String>>>;

/// Runs the scheduler and the kubelets until it is dropped.
pub async fn run(api: Api, dead: DeadNodes) {
    for period in 0.. {
        let dead = dead.lock().unwrap().clone();
        if period % LEASE_PERIODS == 0 {
            heartbeats(&api, &dead);
        }
        for (key, pod) in api.objects("pods") {
            step(&api, &key, &pod, &dead, period);
        }
        tokio::time::sleep(PERIOD).await;
    }
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn heartbeats(api: &Api, dead: &BTreeSet<String>) {
    for node in api.list("nodes") {
        let name = name(&node).to_owned();
        if dead.contains(&name) {
            continue;
        }
        let now = control_client::time::micros(jiff::Timestamp::now());
        let key = ObjectKey {
            resource: "leases.coordination.k8s.io".into(),
            namespace: "kube-node-lease".into(),
            name: name.clone(),
        };
        if api.get(&key.resource, &key.namespace, &name).is_some() {
            api.change(&key, |lease| lease["spec"]["renewTime"] = now.into());
        } else {
            api.put(
                &key.resource,
                json!({
                    "metadata": {"name": name, "namespace": "kube-node-lease"},
                    "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now},
                }),
            );
        }
        let key = ObjectKey {
            resource: "nodes".into(),
            namespace: String::new(),
            name,
        };
        let seconds = control_client::time::seconds(jiff::Timestamp::now());
        if ready(&node) != "True" {
            api.change(&key, |node| {
                node["status"]["conditions"] = json!([{"type": "Ready", "status": "True",
                    "reason": "KubeletReady", "lastHeartbeatTime": seconds,
                    "lastTransitionTime": seconds}]);
            });
        }
    }
}

/// The status of the condition `Ready`.
pub fn ready(object: &Value) -> &str {
    let conditions = object
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "Ready")
        .and_then(|condition| condition["status"].as_str())
        .unwrap_or_default()
}

fn is_tainted(node: &Value) -> bool {
    let taints = node.pointer("/spec/taints").and_then(Value::as_array);
    taints.is_some_and(|taints| !taints.is_empty())
}

fn step(api: &Api, key: &ObjectKey, pod: &Value, dead: &BTreeSet<String>, period: u64) {
    let deleting = pod.pointer("/metadata/deletionTimestamp").is_some();
    let node = pod
        .pointer("/spec/nodeName")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if node.is_empty() {
        if !deleting {
            schedule(api, key, pod);
        }
        return;
    }
    if dead.contains(node) {
        return;
    }
    let phase = pod
        .pointer("/status/phase")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if deleting {
        let ended = matches!(phase, "Succeeded" | "Failed");
        if pod.pointer("/metadata/deletionGracePeriodSeconds") != Some(&json!(0)) || !ended {
            api.change(key, |pod| {
                if !ended {
                    pod["status"]["phase"] = "Failed".into();
                }
                pod["metadata"]["deletionGracePeriodSeconds"] = 0.into();
            });
        }
        return;
    }
    match phase {
        "Pending" => api.change(key, |pod| {
            let serial = api_address(pod);
            let now = control_client::time::seconds(jiff::Timestamp::now());
            pod["status"] = json!({"phase": "Running", "podIP": serial,
                "podIPs": [{"ip": serial}], "startTime": now, "period": period,
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now}]});
        }),
        "Running" => {
            let began = pod
                .pointer("/status/period")
                .and_then(Value::as_i64)
                .unwrap_or(0);
            let worked = period.cast_signed() - began >= WORK_PERIODS;
            if is_of_job(pod) && worked {
                let fails = pod.pointer("/metadata/annotations/fails").is_some();
                let phase = if fails { "Failed" } else { "Succeeded" };
                let now = control_client::time::seconds(jiff::Timestamp::now());
                api.change(key, |pod| {
                    pod["status"]["phase"] = phase.into();
                    pod["status"]["conditions"] = json!([{"type": "Ready", "status": "False",
                        "reason": "PodCompleted", "lastTransitionTime": now}]);
                });
            } else if ready(pod) != "True" {
                let now = control_client::time::seconds(jiff::Timestamp::now());
                api.change(key, |pod| {
                    pod["status"]["conditions"] = json!([{"type": "Ready", "status": "True",
                        "lastTransitionTime": now}]);
                });
            }
        }
        _ => {}
    }
}

/// An address made of the pod's uid, which begins with a revision.
fn api_address(pod: &Value) -> String {
    let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
    let serial: u32 = uid
        .split('-')
        .next()
        .unwrap_or_default()
        .parse()
        .unwrap_or(0);
    let [_, _, high, low] = serial.to_be_bytes();
    format!("10.1.{high}.{low}")
}

fn is_of_job(pod: &Value) -> bool {
    pod.pointer("/metadata/ownerReferences/0/kind") == Some(&json!("Job"))
}

fn schedule(api: &Api, key: &ObjectKey, pod: &Value) {
    let nodes = api.list("nodes");
    let target = pod.pointer(
        "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution\
         /nodeSelectorTerms/0/matchFields/0/values/0",
    );
    // Daemons tolerate what the model's nodes have when they are made for one.
    let fit = |node: &&Value| match target {
        Some(target) => node["metadata"]["name"] == *target,
        None => ready(node) == "True" && !is_tainted(node),
    };
    let fitting: Vec<&Value> = nodes.iter().filter(fit).collect();
    if fitting.is_empty() {
        return;
    }
    let length: usize = key.name.bytes().map(usize::from).sum();
    let node = name(fitting[length % fitting.len()]).to_owned();
    api.change(key, |pod| pod["spec"]["nodeName"] = node.into());
}

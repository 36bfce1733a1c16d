//! What a cluster has besides controllers: nodes that live, a scheduler, and kubelets that run
//! pods as their annotations say.
//!
//! | annotation | effect |
//! |---|---|
//! | `case/exit: "0"` | containers end with this code; with `"0,1"` by the pod's completion index |
//! | `case/unready: ""` | the pod runs and never becomes ready |
//! | `case/unschedulable: ""` | the pod stays without a node |

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use control_client::{Client, DeleteOptions, Discard, Error, Patch, resources, time};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::mirror::{Raw, case_of};

/// The nodes and their label `pool`.
pub const NODES: [(&str, &str); 3] = [("n0", "a"), ("n1", "a"), ("n2", "b")];

/// How often nodes renew their leases.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// How long a kubelet needs for anything.
const STEP: Duration = Duration::from_millis(150);

/// What happens to a pod next.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Reaction {
    Bind(&'static str),
    Run { ready: bool },
    End { code: i64 },
    Remove,
}

/// Creates the nodes and keeps them alive; runs pods. Ends when it is dropped.
pub async fn run(client: Client, mut pods: mpsc::UnboundedReceiver<Arc<Raw>>) {
    let addresses = Arc::new(AtomicU32::new(1));
    let heartbeats = async {
        loop {
            heartbeat(&client).await;
            tokio::time::sleep(HEARTBEAT).await;
        }
    };
    let reactions = async {
        let mut tasks = tokio::task::JoinSet::new();
        while let Some(pod) = pods.recv().await {
            let Some(reaction) = react(&pod.value) else {
                continue;
            };
            let (client, addresses) = (client.clone(), Arc::clone(&addresses));
            tasks.spawn(async move {
                tokio::time::sleep(STEP).await;
                // What changed meanwhile comes again.
                let _ = perform(&client, &pod.value, &reaction, &addresses).await;
            });
            while tasks.try_join_next().is_some() {}
        }
    };
    tokio::join!(heartbeats, reactions);
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn react(pod: &Value) -> Option<Reaction> {
    case_of(text(pod, "/metadata/namespace"), "")?;
    let annotation = |name: &str| {
        let annotations = pod.pointer("/metadata/annotations");
        annotations
            .and_then(|all| all.get(name))
            .and_then(Value::as_str)
    };
    let deleting = pod.pointer("/metadata/deletionTimestamp").is_some();
    let ended = matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
    if text(pod, "/spec/nodeName").is_empty() {
        let waits = deleting || annotation("case/unschedulable").is_some();
        return (!waits).then(|| Reaction::Bind(node_for(pod)));
    }
    if deleting {
        let removed = pod.pointer("/metadata/deletionGracePeriodSeconds") == Some(&json!(0));
        return (!removed).then_some(Reaction::Remove);
    }
    if ended {
        return None;
    }
    let ready = annotation("case/unready").is_none();
    if text(pod, "/status/phase") != "Running" {
        return Some(Reaction::Run { ready });
    }
    let codes: Vec<i64> = annotation("case/exit")?
        .split(',')
        .filter_map(|code| code.parse().ok())
        .collect();
    let index = annotation("batch.kubernetes.io/job-completion-index");
    let index: usize = index.and_then(|index| index.parse().ok()).unwrap_or(0);
    let code = codes.get(index).or_else(|| codes.first())?;
    Some(Reaction::End { code: *code })
}

/// The node that a pod is made for, or the first that its node selector allows.
fn node_for(pod: &Value) -> &'static str {
    let target = text(
        pod,
        "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution\
         /nodeSelectorTerms/0/matchFields/0/values/0",
    );
    let pool = text(pod, "/spec/nodeSelector/pool");
    let fits = |(name, label): &&(&'static str, &str)| {
        (target.is_empty() || target == *name) && (pool.is_empty() || pool == *label)
    };
    NODES.iter().find(fits).map_or(NODES[0].0, |(name, _)| name)
}

async fn perform(
    client: &Client,
    pod: &Value,
    reaction: &Reaction,
    addresses: &AtomicU32,
) -> Result<(), Error> {
    let (namespace, name) = (
        text(pod, "/metadata/namespace"),
        text(pod, "/metadata/name"),
    );
    let uid = text(pod, "/metadata/uid");
    let now = time::seconds(Timestamp::now());
    let (phase, ready, code) = match reaction {
        Reaction::Bind(node) => {
            let binding = json!({"apiVersion": "v1", "kind": "Binding",
                "metadata": {"name": name, "namespace": namespace, "uid": uid},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node}});
            let path = &resources::PODS;
            return client
                .create_subresource::<Discard>(path, namespace, name, "binding", &binding)
                .await
                .map(drop);
        }
        Reaction::Remove => {
            let options = DeleteOptions::of_uid(uid).grace(0);
            let pods = &resources::PODS;
            return client.delete(pods, namespace, name, &options).await;
        }
        Reaction::Run { ready } => ("Running", *ready, None),
        Reaction::End { code: 0 } => ("Succeeded", false, Some(0)),
        Reaction::End { code } => ("Failed", false, Some(*code)),
    };
    let address = match text(pod, "/status/podIP") {
        "" => {
            let [_, _, high, low] = addresses.fetch_add(1, Ordering::Relaxed).to_be_bytes();
            format!("10.244.{high}.{low}")
        }
        known => known.to_owned(),
    };
    let status = |holds: bool| if holds { "True" } else { "False" };
    let condition = |kind: &str, holds: bool, reason: Option<&str>| {
        json!({"type": kind, "status": status(holds), "lastTransitionTime": now,
            "reason": reason})
    };
    let reason = code.map(|_| "PodCompleted");
    let containers = pod.pointer("/spec/containers").and_then(Value::as_array);
    let statuses: Vec<Value> = containers
        .into_iter()
        .flatten()
        .map(|container| {
            let state = match code {
                None => json!({"running": {"startedAt": now}}),
                Some(code) => json!({"terminated": {"exitCode": code, "startedAt": now,
                    "finishedAt": now, "reason": if code == 0 { "Completed" } else { "Error" }},
                    "running": null}),
            };
            json!({"name": container["name"], "image": container["image"], "imageID": "",
                "ready": ready, "started": code.is_none(), "restartCount": 0, "state": state,
                "lastState": {}})
        })
        .collect();
    let body = json!({
        "metadata": {"uid": uid, "resourceVersion": pod["metadata"]["resourceVersion"]},
        "status": {
            "phase": phase, "startTime": now, "hostIP": "192.0.2.1",
            "podIP": address, "podIPs": [{"ip": address}],
            "conditions": [
                condition("PodScheduled", true, None),
                condition("Initialized", true, reason),
                condition("ContainersReady", ready, reason),
                condition("Ready", ready, reason),
            ],
            "containerStatuses": statuses,
        }
    });
    client
        .patch_status::<Discard>(&resources::PODS, namespace, name, Patch::Merge(&body))
        .await
        .map(drop)
}

async fn heartbeat(client: &Client) {
    for (name, pool) in NODES {
        // A beat that fails is made up for by the next.
        let _ = beat(client, name, pool).await;
    }
}

async fn beat(client: &Client, name: &str, pool: &str) -> Result<(), Error> {
    let now = time::seconds(Timestamp::now());
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name,
        "labels": {"pool": pool, "kubernetes.io/hostname": name}}});
    let nodes = &resources::NODES;
    match client.create::<Discard>(nodes, "", &node).await {
        Err(error) if !error.is_already_exists() => return Err(error),
        _ => {}
    }
    let status = json!({"status": {
        "capacity": {"cpu": "64", "memory": "256Gi", "pods": "1000"},
        "allocatable": {"cpu": "64", "memory": "256Gi", "pods": "1000"},
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady",
            "lastHeartbeatTime": now, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    client
        .patch_status::<Discard>(nodes, "", name, Patch::Merge(&status))
        .await?;
    let renewed = time::micros(Timestamp::now());
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-node-lease"},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": renewed}});
    let apply = Patch::Apply {
        body: &lease,
        manager: "kubelet",
        force: true,
    };
    client
        .patch::<Discard>(&resources::LEASES, "kube-node-lease", name, "", apply)
        .await
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(node: &str, phase: &str, annotations: Value) -> Value {
        json!({"metadata": {"namespace": "case-1", "name": "p", "annotations": annotations},
            "spec": {"nodeName": node}, "status": {"phase": phase}})
    }

    #[test]
    fn pods_live_as_their_annotations_say() {
        let none = || json!({});
        assert_eq!(
            react(&pod("", "Pending", none())),
            Some(Reaction::Bind("n0"))
        );
        let stays = json!({"case/unschedulable": ""});
        assert_eq!(react(&pod("", "Pending", stays)), None);
        let run = Reaction::Run { ready: true };
        assert_eq!(react(&pod("n0", "Pending", none())), Some(run));
        assert_eq!(react(&pod("n0", "Running", none())), None);
        let indexed = json!({"case/exit": "0,3", "batch.kubernetes.io/job-completion-index": "1"});
        assert_eq!(
            react(&pod("n0", "Running", indexed)),
            Some(Reaction::End { code: 3 })
        );
        assert_eq!(react(&pod("n0", "Failed", json!({"case/exit": "1"}))), None);
        let mut foreign = pod("", "Pending", none());
        foreign["metadata"]["namespace"] = "default".into();
        assert_eq!(react(&foreign), None);
    }

    #[test]
    fn pods_go_to_the_node_that_they_are_made_for() {
        let mut daemon = pod("", "Pending", json!({}));
        daemon["spec"]["affinity"] = json!({"nodeAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms":
                [{"matchFields": [{"key": "metadata.name", "operator": "In",
                    "values": ["n2"]}]}]}}});
        assert_eq!(node_for(&daemon), "n2");
        let mut selecting = pod("", "Pending", json!({}));
        selecting["spec"]["nodeSelector"] = json!({"pool": "b"});
        assert_eq!(node_for(&selecting), "n2");
    }
}

//! Checks volume attachments: no volume of one node is attached to two, and none is detached while
//! its node may have it mounted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::api::{Api, ObjectKey};
use crate::cases;
use crate::cluster::{Cluster, simulate};
use crate::environment::DeadNodes;
use crate::history::{Action, Step, history, key};
use crate::objects;

const ATTACHMENTS: &str = "volumeattachments.storage.k8s.io";
const RESOURCES: &[&str] = &[
    ATTACHMENTS,
    "pods",
    "nodes",
    "persistentvolumes",
    "persistentvolumeclaims",
];
/// How often the driver and the kubelets look.
const PERIOD: Duration = Duration::from_millis(300);

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    let value = object.pointer(pointer).and_then(Value::as_str);
    value.unwrap_or_default()
}

fn names<'a>(object: &'a Value, pointer: &str, field: &str) -> BTreeSet<&'a str> {
    let list = object.pointer(pointer).and_then(Value::as_array);
    let text = |one: &'a Value| one.as_str().or_else(|| one[field].as_str());
    list.into_iter().flatten().filter_map(text).collect()
}

fn pod(name: &str, claim: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "a"}, "spec": {
        "containers": [{"name": "c", "image": "one"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]}})
}

fn begin(api: &Api) {
    objects::base(api);
    for node in objects::NODES {
        api.change(&key("nodes", "", node), |node| {
            node["metadata"]["annotations"] =
                json!({"volumes.kubernetes.io/controller-managed-attach-detach": "true"});
        });
    }
    for (name, mode) in [("one", "ReadWriteOnce"), ("many", "ReadWriteMany")] {
        let claim = api.put(
            "persistentvolumeclaims",
            json!({"metadata": {"name": name, "namespace": "a"},
                "spec": {"volumeName": name}, "status": {"phase": "Bound"}}),
        );
        api.put(
            "persistentvolumes",
            json!({"metadata": {"name": name}, "spec": {"accessModes": [mode],
                "csi": {"driver": "d", "volumeHandle": name},
                "claimRef": {"namespace": "a", "name": name, "uid": claim["metadata"]["uid"]}},
                "status": {"phase": "Bound"}}),
        );
    }
    api.put("pods", pod("p0", "one"));
}

/// The pods of a node that have not ended, and the names of their volumes.
fn mounted(api: &Api, node: &str) -> BTreeSet<String> {
    let pods = api.list("pods");
    let of_node = pods.iter().filter(|pod| {
        let phase = text(pod, "/status/phase");
        text(pod, "/spec/nodeName") == node && phase != "Failed" && phase != "Succeeded"
    });
    let claim = |pod: &Value| {
        let claim = text(pod, "/spec/volumes/0/persistentVolumeClaim/claimName").to_owned();
        format!("kubernetes.io/csi/d^{claim}")
    };
    of_node.map(claim).collect()
}

/// The external attacher, and what kubelets report, until it is dropped.
async fn run_driver(api: Api, dead: DeadNodes) {
    loop {
        for (key, attachment) in api.objects(ATTACHMENTS) {
            if attachment.pointer("/metadata/deletionTimestamp").is_some() {
                api.change(&key, |one| one["metadata"]["finalizers"] = json!([]));
            } else if attachment.pointer("/status/attached") != Some(&json!(true)) {
                api.change(&key, |one| {
                    one["metadata"]["finalizers"] = json!(["external-attacher/d"]);
                    one["status"] = json!({"attached": true});
                });
            }
        }
        let dead = dead.lock().unwrap().clone();
        for node in objects::NODES {
            if !dead.contains(node) {
                let in_use = mounted(&api, node);
                api.change(&key("nodes", "", node), |node| {
                    node["status"]["volumesInUse"] = json!(in_use);
                });
            }
        }
        tokio::time::sleep(PERIOD).await;
    }
}

fn check_history(cluster: &Cluster) {
    let mut attached: BTreeMap<ObjectKey, (String, bool)> = BTreeMap::new();
    let mut nodes: BTreeMap<String, Value> = BTreeMap::new();
    for event in cluster.api.events_since(0) {
        let object = &event.object;
        if event.key.resource == "nodes" {
            nodes.insert(event.key.name, event.object);
            continue;
        }
        if event.key.resource != ATTACHMENTS {
            continue;
        }
        let volume = text(object, "/spec/source/persistentVolumeName").to_owned();
        let was_going = attached.get(&event.key).is_some_and(|(_, going)| *going);
        let going = object.pointer("/metadata/deletionTimestamp").is_some();
        if event.by_controller && !was_going && (going || event.kind == "DELETED") {
            let name = format!("kubernetes.io/csi/d^{volume}");
            let node = &nodes[text(object, "/spec/nodeName")];
            let used = names(node, "/status/volumesInUse", "").contains(name.as_str());
            let allowed = names(node, "/status/volumesAttached", "name").contains(name.as_str());
            assert!(!(used && allowed), "detached while in use: {object} {node}");
        }
        if event.kind == "DELETED" {
            attached.remove(&event.key);
        } else {
            attached.insert(event.key, (volume, going));
        }
        let of_one = attached.values().filter(|(volume, _)| volume == "one");
        assert!(of_one.count() <= 1, "attached twice: {object}");
    }
}

fn check_end(cluster: &Cluster, dead: &BTreeSet<String>) {
    let attachments = cluster.api.list(ATTACHMENTS);
    for node in objects::NODES
        .into_iter()
        .filter(|node| !dead.contains(*node))
    {
        let object = cluster.api.get("nodes", "", node).unwrap();
        let allowed = names(&object, "/status/volumesAttached", "name");
        let used = mounted(&cluster.api, node);
        for attachment in &attachments {
            let volume = text(attachment, "/spec/source/persistentVolumeName");
            let name = format!("kubernetes.io/csi/d^{volume}");
            if text(attachment, "/spec/nodeName") == node {
                assert!(used.contains(&name), "not detached: {attachment}");
                assert!(allowed.contains(name.as_str()), "not reported: {object}");
            }
        }
        for name in &used {
            let blocked = name.ends_with("one")
                && attachments.iter().any(|attachment| {
                    text(attachment, "/spec/source/persistentVolumeName") == "one"
                });
            let here = allowed.contains(name.as_str());
            assert!(here || blocked, "{name} is not attached to {object}");
        }
        assert!(allowed.iter().all(|name| used.contains(*name)), "{object}");
    }
}

fn actions() -> Vec<Action> {
    let mut actions = vec![Action::PowerOff("n1"), Action::PowerOn("n1")];
    for (name, claim) in [("p0", "one"), ("p1", "one"), ("p2", "many"), ("p3", "many")] {
        actions.push(Action::Create("pods", pod(name, claim)));
        actions.push(Action::Delete(key("pods", "a", name), "Background"));
    }
    actions
}

async fn run(steps: &[Step]) {
    let mut cluster = Cluster::new(&["persistentvolume-attach-detach-controller"]);
    begin(&cluster.api);
    let driver = tokio::spawn(run_driver(cluster.api.clone(), cluster.dead.clone()));
    cluster.restart();
    for step in steps {
        cluster.step(step).await;
    }
    cluster.settle().await;
    driver.abort();
    check_history(&cluster);
    let dead = cluster.dead.lock().unwrap().clone();
    check_end(&cluster, &dead);
}

proptest! {
    #![proptest_config(cases(20))]

    #[test]
    fn volume_is_attached_where_it_is_used_and_nowhere_else(
        seed in any::<u64>(),
        steps in history(actions(), RESOURCES, 14),
    ) {
        simulate(seed, || run(&steps));
    }
}

//! Checks nodes that fail, evicted pods, and namespaces that are deleted.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::cluster::{Cluster, simulate};
use crate::environment::ready;
use crate::history::{Action, Step, history, key};
use crate::{cases, objects};

fn actions() -> Vec<Action> {
    vec![
        Action::PowerOff("n0"),
        Action::PowerOn("n0"),
        Action::PowerOff("n1"),
        Action::PowerOn("n1"),
        Action::Set(
            key("replicasets.apps", "a", "set"),
            "/spec/replicas",
            json!(4),
        ),
    ]
}

async fn nodes_fail(steps: &[Step]) {
    let mut cluster = Cluster::new(&[
        "node-lifecycle-controller",
        "taint-eviction-controller",
        "replicaset-controller",
    ]);
    objects::base(&cluster.api);
    cluster
        .api
        .put("replicasets.apps", objects::replica_set("set", 3));
    cluster.restart();
    for step in steps {
        cluster.step(step).await;
    }
    cluster.settle().await;
    let dead = cluster.dead.lock().unwrap().clone();
    for node in cluster.api.list("nodes") {
        let name = node["metadata"]["name"].as_str().unwrap();
        let is_dead = dead.contains(name);
        assert_eq!(ready(&node) != "True", is_dead, "{node}");
        let taints = node.pointer("/spec/taints").and_then(Value::as_array);
        let tainted = taints.is_some_and(|taints| !taints.is_empty());
        assert_eq!(tainted, is_dead, "{node}");
    }
    for pod in cluster.api.list("pods") {
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        if dead.contains(node) {
            assert_ne!(ready(&pod), "True", "ready on a dead node: {pod}");
            assert!(
                pod["metadata"].get("deletionTimestamp").is_some(),
                "not evicted: {pod}"
            );
        }
    }
}

async fn namespace_ends(steps: &[Step]) {
    let mut cluster = Cluster::new(&["namespace-controller", "garbage-collector-controller"]);
    objects::everything(&cluster.api);
    cluster.restart();
    for step in steps {
        cluster.step(step).await;
    }
    Action::Delete(key("namespaces", "", "a"), "Background").apply(&cluster);
    cluster.settle().await;
    let left: Vec<_> = cluster
        .api
        .all()
        .into_iter()
        .filter(|(key, _)| key.namespace == "a")
        .collect();
    assert!(left.is_empty(), "left in a namespace that ended: {left:?}");
    assert_eq!(cluster.api.get("namespaces", "", "a"), None);
}

#[test]
fn pod_leaves_a_taint_without_a_time_when_its_toleration_ends() {
    simulate(1, || async {
        let mut cluster = Cluster::new(&["taint-eviction-controller"]);
        objects::base(&cluster.api);
        cluster.api.put(
            "pods",
            json!({"metadata": {"name": "p", "namespace": "a"}, "spec": {"nodeName": "n0",
                "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 30}]}}),
        );
        cluster.restart();
        cluster.pass(Duration::from_secs(5)).await;
        let is_there = |cluster: &Cluster| {
            let pod = cluster.api.get("pods", "a", "p");
            pod.is_some_and(|pod| pod["metadata"].get("deletionTimestamp").is_none())
        };
        // What an administrator writes by hand has no `timeAdded`.
        cluster.api.change(&key("nodes", "", "n0"), |node| {
            node["spec"]["taints"] = json!([{"key": "k", "effect": "NoExecute"}]);
        });
        cluster.pass(Duration::from_secs(29)).await;
        assert!(is_there(&cluster), "left before its toleration ended");
        cluster.pass(Duration::from_secs(2)).await;
        assert!(!is_there(&cluster), "stays though its toleration ended");
    });
}

proptest! {
    #![proptest_config(cases(10))]

    #[test]
    fn dead_nodes_are_tainted_and_their_pods_evicted(
        seed in any::<u64>(),
        steps in history(actions(), &["nodes", "pods", "leases.coordination.k8s.io"], 8),
    ) {
        simulate(seed, || nodes_fail(&steps));
    }

    #[test]
    fn namespace_ends_with_all_that_is_in_it(
        seed in any::<u64>(),
        steps in history(
            vec![Action::Delete(key("namespaces", "", "a"), "Background")],
            &["namespaces", "pods", "widgets.example.com"], 6),
    ) {
        simulate(seed, || namespace_ends(&steps));
    }
}

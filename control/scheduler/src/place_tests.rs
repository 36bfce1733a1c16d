//! Placement: what goes where, and what is said when nothing fits.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::view::Node;

fn node(name: &str, spec: &Value, allocatable: &Value) -> Arc<Node> {
    let node = json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": spec, "status": {"allocatable": allocatable}});
    Arc::new(serde_json::from_value(node).unwrap())
}

fn plain(name: &str, cpu: u32) -> Arc<Node> {
    node(
        name,
        &json!({}),
        &json!({"cpu": cpu, "memory": "8Gi", "pods": 10}),
    )
}

fn pod(name: &str, spec: &Value) -> Arc<Pod> {
    let pod =
        json!({"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec});
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn asking(name: &str, cpu: &str) -> Arc<Pod> {
    pod(
        name,
        &json!({"containers": [{"resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]}),
    )
}

fn cluster(nodes: &[Arc<Node>]) -> Snapshot {
    let mut snapshot = Snapshot::new();
    for node in nodes {
        assert_eq!(snapshot.set_node(node), Wake::NODE_ADDED);
    }
    snapshot
}

fn goes_to(snapshot: &Snapshot, pod: &Pod) -> String {
    match place(snapshot, pod, 0) {
        Decision::Place { equals, .. } => equals
            .iter()
            .map(|at| snapshot.name(at))
            .collect::<Vec<_>>()
            .join(" "),
        Decision::Unschedulable(diagnosis) => diagnosis.message(pod),
    }
}

#[test]
fn the_node_with_most_left_over_is_taken() {
    let mut snapshot = cluster(&[plain("a", 4), plain("b", 4)]);
    assert_eq!(goes_to(&snapshot, &asking("x", "1")), "a b");
    snapshot.put_pod(&asking("other", "1"), "a");
    assert_eq!(goes_to(&snapshot, &asking("x", "1")), "b");
}

#[test]
fn what_does_not_fit_is_said_as_upstream_says_it() {
    let snapshot = cluster(&[plain("a", 1), plain("b", 1)]);
    assert_eq!(
        goes_to(&snapshot, &asking("x", "2")),
        "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: \
         2 Preemption is not helpful for scheduling."
    );
    let mut full = snapshot;
    full.put_pod(&asking("other", "500m"), "a");
    assert_eq!(
        goes_to(&full, &asking("x", "1500m")),
        "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: \
         2 Preemption is not helpful for scheduling."
    );
    full.set_node(&node(
        "b",
        &json!({"taints": [{"key": "k", "effect": "NoSchedule"}]}),
        &json!({"cpu": 1, "memory": "8Gi", "pods": 10}),
    ));
    assert_eq!(
        goes_to(&full, &asking("x", "800m")),
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s). \
         preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, \
         1 Preemption is not helpful for scheduling."
    );
    assert_eq!(
        goes_to(&Snapshot::new(), &asking("x", "1")),
        "no nodes available to schedule pods"
    );
}

#[test]
fn cordons_selectors_affinity_ports_and_names_are_minded() {
    let mut snapshot = cluster(&[plain("a", 4), plain("b", 4), plain("c", 4)]);
    snapshot.set_node(&node(
        "c",
        &json!({"unschedulable": true}),
        &json!({"cpu": 4, "memory": "8Gi", "pods": 10}),
    ));
    assert_eq!(goes_to(&snapshot, &asking("x", "1")), "a b");
    let on = |name: &str| {
        pod(
            "x",
            &json!({"nodeSelector": {"kubernetes.io/hostname": name}}),
        )
    };
    assert_eq!(goes_to(&snapshot, &on("b")), "b");
    assert!(goes_to(&snapshot, &on("z")).contains("didn't match Pod's node affinity/selector"));
    let daemon = pod(
        "x",
        &json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchFields": [
                {"key": "metadata.name", "operator": "In", "values": ["c"]}]}]}}},
            "tolerations": [{"operator": "Exists"}]}),
    );
    assert_eq!(goes_to(&snapshot, &daemon), "c");
    let port = json!({"containers": [{"ports": [{"hostPort": 80, "containerPort": 80}]}]});
    snapshot.put_pod(&pod("holder", &port), "a");
    assert_eq!(goes_to(&snapshot, &pod("x", &port)), "b");
    let preferring = pod(
        "x",
        &json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
            [{"weight": 50, "preference": {"matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["b"]}]}}]}}}),
    );
    assert_eq!(goes_to(&snapshot, &preferring), "a");
}

#[test]
fn pods_of_a_node_that_comes_later_count_when_it_comes() {
    let mut snapshot = cluster(&[plain("a", 4)]);
    let early = asking("early", "3");
    snapshot.put_pod(&early, "b");
    assert_eq!(goes_to(&snapshot, &asking("x", "2")), "a");
    snapshot.set_node(&plain("b", 4));
    assert_eq!(goes_to(&snapshot, &asking("x", "2")), "a");
    assert!(snapshot.remove_pod(&("default".into(), "early".into())));
    assert_eq!(goes_to(&snapshot, &asking("x", "2")), "a b");
    snapshot.remove_node("b");
    assert_eq!(goes_to(&snapshot, &asking("x", "2")), "a");
}

#[derive(Clone, Debug)]
enum Step {
    Place(u8),
    Remove(u8),
    Node(u8, u8),
    NoNode(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => (0u8..60).prop_map(Step::Place),
        2 => (0u8..60).prop_map(Step::Remove),
        2 => (0u8..8, 0u8..16).prop_map(|(name, kind)| Step::Node(name, kind)),
        1 => (0u8..8).prop_map(Step::NoNode),
    ];
    prop::collection::vec(step, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn remembering_changes_no_decision(steps in steps()) {
        let mut snapshot = Snapshot::new();
        let mut placer = Placer::default();
        for (tie, step) in (0u64..).zip(&steps) {
            match step {
                Step::Place(number) => {
                    // a few shapes, many pods
                    let cpu = ["100m", "500m", "1500m", "0"][usize::from(number % 4)];
                    let mut spec = json!({"containers": [{"image": "web",
                        "resources": {"requests": {"cpu": cpu}}}]});
                    if number % 5 == 0 {
                        spec["tolerations"] = json!([{"operator": "Exists"}]);
                    }
                    let pod = pod(&number.to_string(), &spec);
                    let decision = placer.place(&snapshot, &pod, tie);
                    let fresh = place(&snapshot, &pod, tie);
                    match (&decision, &fresh) {
                        (Decision::Unschedulable(one), Decision::Unschedulable(other)) => {
                            prop_assert_eq!(one.message(&pod), other.message(&pod));
                            prop_assert_eq!(one.wake, other.wake);
                        }
                        (one, other) => prop_assert_eq!(one, other),
                    }
                    if let Decision::Place { node, .. } = decision {
                        let node = snapshot.name(node).to_owned();
                        snapshot.put_pod(&pod, &node);
                    }
                }
                Step::Remove(number) => {
                    snapshot.remove_pod(&("default".into(), number.to_string().into()));
                }
                Step::Node(name, kind) => {
                    let taints = if kind % 3 == 0 {
                        let effect = if kind % 2 == 0 { "NoSchedule" } else { "PreferNoSchedule" };
                        json!([{"key": "k", "effect": effect}])
                    } else {
                        json!([])
                    };
                    let images = if kind % 4 == 1 {
                        json!([{"names": ["web:latest"], "sizeBytes": 500_000_000}])
                    } else {
                        json!([])
                    };
                    let node = json!({
                        "metadata": {"name": format!("n{name}")},
                        "spec": {"taints": taints, "unschedulable": *kind == 7},
                        "status": {"images": images, "allocatable":
                            {"cpu": 1 + kind % 4, "memory": "4Gi", "pods": 4}},
                    });
                    snapshot.set_node(&Arc::new(serde_json::from_value(node).unwrap()));
                }
                Step::NoNode(name) => snapshot.remove_node(&format!("n{name}")),
            }
            // what is counted is what the pods on the node ask for
            for at in snapshot.live().iter() {
                let cpu: i64 = snapshot.pods_on(at).map(|pod| pod.shape.requests.cpu).sum();
                prop_assert_eq!(snapshot.requested.cpu[at], cpu);
                prop_assert_eq!(snapshot.requested.pods[at] as usize, snapshot.pods_on(at).count());
            }
        }
    }
}

//! Tests placement: chosen nodes, and messages when nothing fits.

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
    let mut cluster = Cluster {
        snapshot: snapshot.clone(),
        ..Cluster::default()
    };
    match place(&mut cluster, pod, 0) {
        Decision::Place { equals, .. } => equals
            .iter()
            .map(|at| snapshot.name(at))
            .collect::<Vec<_>>()
            .join(" "),
        Decision::Unschedulable(diagnosis) => {
            let pod = Arc::new(pod.clone());
            let found = Placer::default().preempt(&mut cluster, &pod, &diagnosis, 0);
            diagnosis.full_message(&found.err().map_or_else(String::new, |it| it.message))
        }
        Decision::Failed(message) => message,
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
        "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/2 nodes are available: \
         2 Preemption is not helpful for scheduling."
    );
    let mut full = snapshot;
    full.put_pod(&asking("other", "500m"), "a");
    assert_eq!(
        goes_to(&full, &asking("x", "1500m")),
        "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/2 nodes are available: \
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
         no new claims to deallocate, preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, \
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
        let mut cluster = Cluster::default();
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
                    // explaining is deciding
                    let explained = Placer::default().explain(&mut cluster, &pod);
                    let decision = placer.place(&mut cluster, &pod, tie);
                    let fresh = place(&mut cluster, &pod, tie);
                    match (&decision, &fresh) {
                        (Decision::Unschedulable(one), Decision::Unschedulable(other)) => {
                            prop_assert_eq!(one.message(), other.message());
                            prop_assert_eq!(one.rejecters, other.rejecters);
                        }
                        (one, other) => prop_assert_eq!(one, other),
                    }
                    match &decision {
                        Decision::Failed(message) => prop_assert!(false, "{}", message),
                        Decision::Unschedulable(_) => {
                            prop_assert!(explained.message.is_some());
                            prop_assert!(explained.nodes.iter().all(|node| node.rejected.is_some()));
                        }
                        Decision::Place { score, equals, .. } => {
                            let mut names: Vec<&str> = equals.iter().map(|at| cluster.snapshot.name(at)).collect();
                            names.sort_unstable();
                            prop_assert_eq!(&explained.best, &names);
                            for node in explained.nodes.iter().filter(|node| explained.best.contains(&node.name)) {
                                prop_assert_eq!(node.score, *score);
                                let sum: i64 = node.scores.iter().map(|score| score.weighted).sum();
                                prop_assert_eq!(sum, *score);
                            }
                        }
                    }
                    if let Decision::Place { node, .. } = decision {
                        let node = cluster.snapshot.name(node).to_owned();
                        cluster.snapshot.put_pod(&pod, &node);
                    }
                }
                Step::Remove(number) => {
                    cluster.snapshot.remove_pod(&("default".into(), number.to_string().into()));
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
                    cluster.snapshot.set_node(&Arc::new(serde_json::from_value(node).unwrap()));
                }
                Step::NoNode(name) => cluster.snapshot.remove_node(&format!("n{name}")),
            }
            // the requests of the pods on the node are counted
            for at in cluster.snapshot.live().iter() {
                let cpu: i64 = cluster.snapshot.pods_on(at).map(|pod| pod.shape.requests.cpu).sum();
                prop_assert_eq!(cluster.snapshot.requested.cpu[at], cpu);
                prop_assert_eq!(cluster.snapshot.requested.pods[at] as usize, cluster.snapshot.pods_on(at).count());
            }
        }
    }
}

#[test]
fn extenders_take_nodes_away_and_add_to_scores() {
    let mut cluster = Cluster {
        snapshot: cluster(&[plain("a", 4), plain("b", 4), plain("c", 1)]),
        ..Cluster::default()
    };
    let mut placer = Placer::default();
    let new = asking("x", "2");
    let place = |cluster: &Cluster, name: &str| cluster.snapshot.place_of(name).unwrap();
    let (a, b) = (place(&cluster, "a"), place(&cluster, "b"));
    let feasible = placer.feasible(&mut cluster, &new, true);
    assert_eq!(feasible, Ok([a, b].into_iter().collect()));
    cluster.nominations.set(&new, "b");
    let feasible = placer.feasible(&mut cluster, &new, true);
    assert_eq!(feasible, Ok([b].into_iter().collect()));
    let mut extension = Extension {
        allowed: [a, b].into_iter().collect(),
        scores: vec![(a, 1)],
        ..Extension::default()
    };
    match placer.place_extended(&mut cluster, &new, 0, &extension) {
        Decision::Place { equals, .. } => assert_eq!(equals, [a].into_iter().collect()),
        Decision::Unschedulable(diagnosis) => panic!("{}", diagnosis.message()),
        Decision::Failed(message) => panic!("{message}"),
    }
    extension.allowed = Bits::new();
    let (full, never) = ([a].into_iter().collect(), [b].into_iter().collect());
    extension.rejected.add(&full, "licences used up", true);
    extension.rejected.add(&never, "no licence", false);
    match placer.place_extended(&mut cluster, &new, 0, &extension) {
        Decision::Unschedulable(diagnosis) => {
            assert_eq!(
                diagnosis.message(),
                "0/3 nodes are available: 1 Insufficient cpu, 1 licences used up, 1 no licence."
            );
            assert_eq!(diagnosis.resolvable(&cluster.snapshot), full);
            assert_eq!(diagnosis.rejecters.wake, Wake::ALL);
        }
        Decision::Place { .. } => panic!("extenders leave no node"),
        Decision::Failed(message) => panic!("{message}"),
    }
}

//! Scenarios of DaemonSets: nodes and pods in, actions out.
//!
//! A pod is `NODE WORD…`: `waiting` (not bound), `running` (and not ready), `ready`,
//! `failed`, `succeeded`, `going` (being deleted), `old` (of another revision), `older`
//! (created before the others); the word with `=` is its name. A node is `NAME WORD…`:
//! `closed` (NoSchedule) or `evicting` (NoExecute).

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::decide::{DaemonSetAction, DaemonSetSnapshot, DeletionReason, decide};
use super::placement::Placement;
use crate::views::{DaemonSet, Node, Pod};

const NOW: &str = "2026-01-01T00:01:00Z";

fn set(strategy: Value) -> DaemonSet {
    serde_json::from_value(json!({
        "metadata": {"name": "agent", "namespace": "a", "uid": "s", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "updateStrategy": strategy,
            "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {}}}}))
    .unwrap()
}

fn rolling(surge: Value, unavailable: Value) -> DaemonSet {
    set(json!({"type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}))
}

fn node(text: &str) -> Arc<Node> {
    let mut words = text.split(' ');
    let name = words.next().unwrap();
    let taints: Vec<_> = words
        .map(|word| match word {
            "closed" => json!({"key": "x", "effect": "NoSchedule"}),
            _ => json!({"key": "x", "effect": "NoExecute"}),
        })
        .collect();
    let node = json!({"metadata": {"name": name}, "spec": {"taints": taints}});
    Arc::new(serde_json::from_value(node).unwrap())
}

fn pod(text: &str) -> Arc<Pod> {
    let mut words = text.split(' ');
    let node = words.next().unwrap();
    let mut value = json!({"metadata": {"name": format!("on-{node}"), "namespace": "a",
            "creationTimestamp": "2026-01-01T00:00:10Z",
            "labels": {"app": "agent", "controller-revision-hash": "new"}},
        "spec": {"nodeName": node}, "status": {"phase": "Running"}});
    for word in words {
        match word {
            "waiting" => {
                value["status"]["phase"] = "Pending".into();
                value["spec"] = json!({"affinity": {"nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                        {"matchFields": [{"key": "metadata.name", "operator": "In",
                            "values": [node]}]}]}}}});
            }
            "failed" => value["status"]["phase"] = "Failed".into(),
            "succeeded" => value["status"]["phase"] = "Succeeded".into(),
            "ready" => {
                value["status"]["conditions"] = json!([{"type": "Ready", "status": "True",
                    "lastTransitionTime": "2026-01-01T00:00:30Z"}]);
            }
            "going" => value["metadata"]["deletionTimestamp"] = NOW.into(),
            "old" => value["metadata"]["labels"]["controller-revision-hash"] = "old".into(),
            "older" => value["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into(),
            other => {
                if let Some(name) = other.strip_prefix('=') {
                    value["metadata"]["name"] = name.into();
                }
            }
        }
    }
    Arc::new(serde_json::from_value(value).unwrap())
}

struct Case<'a> {
    set: DaemonSet,
    nodes: &'a [&'a str],
    pods: &'a [&'a str],
    backoff: Option<Duration>,
    settled: bool,
}

fn run_case(case: &Case<'_>) -> Vec<DaemonSetAction> {
    let nodes: Vec<_> = case.nodes.iter().map(|text| node(text)).collect();
    let pods: Vec<_> = case.pods.iter().map(|text| pod(text)).collect();
    let template = case.set.spec.template.to_value();
    decide(&DaemonSetSnapshot {
        set: &case.set,
        pods: &pods,
        nodes: &nodes,
        placement: &Placement::from_template(&template),
        hash: "new",
        generation: None,
        backoff: &|_| case.backoff,
        settled: case.settled,
        now: NOW.parse().unwrap(),
    })
}

fn print(actions: &[DaemonSetAction]) -> String {
    let names = |pods: &[Arc<Pod>]| -> String {
        let names: Vec<_> = pods.iter().map(|pod| pod.metadata.name.as_str()).collect();
        names.join(" ")
    };
    let lines: Vec<_> = actions
        .iter()
        .filter_map(|action| match action {
            DaemonSetAction::Report(DeletionReason::Failed, pod, _) => {
                Some(format!("failed {}", pod.metadata.name))
            }
            DaemonSetAction::Report(_, pod, _) => Some(format!("succeeded {}", pod.metadata.name)),
            DaemonSetAction::Delete(pods) => Some(format!("delete {}", names(pods))),
            DaemonSetAction::Create(nodes) => Some(format!("create {}", nodes.join(" "))),
            DaemonSetAction::Wake(after) => Some(format!("wake {after:?}")),
            DaemonSetAction::Status(_) => None,
        })
        .collect();
    lines.join("; ")
}

fn run(set: DaemonSet, nodes: &[&str], pods: &[&str]) -> String {
    let case = Case {
        set,
        nodes,
        pods,
        backoff: None,
        settled: true,
    };
    print(&run_case(&case))
}

fn on_delete() -> DaemonSet {
    set(json!({"type": "OnDelete"}))
}

#[test]
fn each_eligible_node_gets_one_pod() {
    let nodes = &["a", "b", "c closed", "d evicting"];
    assert_eq!(run(on_delete(), nodes, &[]), "create a b");
    assert_eq!(run(on_delete(), nodes, &["a waiting"]), "create b");
    assert_eq!(
        run(on_delete(), nodes, &["a", "b going", "c", "d"]),
        "delete on-d"
    );
}

#[test]
fn of_several_pods_on_a_node_the_oldest_stays() {
    let pods = ["a =x", "a =y older", "a =z waiting older", "b going"];
    assert_eq!(run(on_delete(), &["a", "b"], &pods), "delete x z");
}

#[test]
fn pods_for_nodes_that_are_gone_are_deleted_unless_bound() {
    assert_eq!(
        run(on_delete(), &[], &["a waiting", "b ready"]),
        "delete on-a"
    );
}

#[test]
fn ended_pods_are_reported_and_replaced_after_a_while() {
    let pods = &["a failed", "b succeeded"];
    assert_eq!(
        run(on_delete(), &["a", "b"], pods),
        "failed on-a; succeeded on-b; delete on-a on-b"
    );
    let waiting = Case {
        set: on_delete(),
        nodes: &["a", "b"],
        pods,
        backoff: Some(Duration::from_secs(4)),
        settled: true,
    };
    assert_eq!(
        print(&run_case(&waiting)),
        "succeeded on-b; delete on-b; wake 4s"
    );
    // a pod that another controller removes does not keep a node from getting a pod
    assert_eq!(run(on_delete(), &["a"], &["a failed going"]), "create a");
}

#[test]
fn update_keeps_most_nodes_available() {
    let nodes = &["a", "b", "c", "d"];
    let old = ["a ready old", "b ready old", "c ready old", "d ready old"];
    let zero = || json!(0);
    assert_eq!(run(rolling(zero(), json!(1)), nodes, &old), "delete on-a");
    assert_eq!(
        run(rolling(zero(), json!("50%")), nodes, &old),
        "delete on-a on-b"
    );
    assert_eq!(
        run(rolling(zero(), json!("30%")), nodes, &old),
        "delete on-a on-b"
    );
    // neither bound: one may be down
    assert_eq!(run(rolling(zero(), zero()), nodes, &old), "delete on-a");
    assert_eq!(run(on_delete(), nodes, &old), "");
    // a new pod that is not available yet counts, and so does one that goes
    let one_new = ["a running", "b ready old", "c ready old", "d ready old"];
    assert_eq!(run(rolling(zero(), json!(1)), nodes, &one_new), "");
    assert_eq!(
        run(rolling(zero(), json!(2)), nodes, &one_new),
        "delete on-b"
    );
    let one_going = [
        "a ready old going",
        "b ready old",
        "c ready old",
        "d ready old",
    ];
    assert_eq!(run(rolling(zero(), json!(1)), nodes, &one_going), "");
    // old pods that are down anyway are replaced whatever the bound says
    let down = [
        "a running old",
        "b running old",
        "c ready old",
        "d ready old",
    ];
    assert_eq!(
        run(rolling(zero(), json!(1)), nodes, &down),
        "delete on-a on-b"
    );
}

#[test]
fn surge_makes_new_pods_beside_old_ones() {
    let nodes = &["a", "b", "c"];
    let surge = |most: Value| rolling(most, json!(0));
    let old = ["a ready old", "b ready old", "c ready old"];
    assert_eq!(run(surge(json!(1)), nodes, &old), "create a");
    assert_eq!(run(surge(json!("50%")), nodes, &old), "create a b");
    let surging = [
        "a ready old",
        "a running =new",
        "b ready old",
        "c ready old",
    ];
    assert_eq!(run(surge(json!(1)), nodes, &surging), "");
    let surged = ["a ready old", "a ready =new", "b ready old", "c ready old"];
    assert_eq!(run(surge(json!(1)), nodes, &surged), "delete on-a");
    // an old pod that is down is no loss
    let down = [
        "a ready old",
        "a running =new",
        "b running old",
        "c ready old",
    ];
    assert_eq!(run(surge(json!(1)), nodes, &down), "create b");
    // where none should run any more, the old one stays until another is available
    let moved = &["a closed", "b"];
    assert_eq!(
        run(surge(json!(1)), moved, &["a ready old", "b running"]),
        ""
    );
    assert_eq!(
        run(surge(json!(1)), moved, &["a ready old", "b ready"]),
        "delete on-a"
    );
}

#[test]
fn unsettled_set_only_reports() {
    let case = Case {
        set: on_delete(),
        nodes: &["a"],
        pods: &[],
        backoff: None,
        settled: false,
    };
    let actions = run_case(&case);
    let [DaemonSetAction::Status(status)] = actions.as_slice() else {
        panic!("{actions:?}");
    };
    assert_eq!(status.desired_number_scheduled, 1);
    assert_eq!(status.observed_generation, 0);
}

#[test]
fn burst_bounds_one_round() {
    let names: Vec<String> = (0..300).map(|n| format!("n{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let created = run(on_delete(), &names, &[]);
    assert_eq!(created.split(' ').count(), 1 + 250);
}

#[test]
fn status_counts_nodes() {
    let mut set = on_delete();
    set.spec.min_ready_seconds = 40;
    let case = Case {
        set,
        nodes: &["a", "b", "c", "d", "e closed"],
        pods: &[
            "a ready",
            "b running",
            "c ready old older",
            "c waiting =late",
            "e ready",
        ],
        backoff: None,
        settled: true,
    };
    let actions = run_case(&case);
    let status = actions.iter().find_map(|action| match action {
        DaemonSetAction::Status(status) => Some(status),
        _ => None,
    });
    let s = status.unwrap();
    let counts = [
        s.desired_number_scheduled,
        s.current_number_scheduled,
        s.number_misscheduled,
        s.number_ready,
        s.updated_number_scheduled,
        s.number_available,
        s.number_unavailable,
    ];
    assert_eq!(counts, [4, 3, 1, 2, 2, 0, 4]);
    assert!(matches!(actions.last(), Some(DaemonSetAction::Wake(after)) if after.as_secs() == 10));
}

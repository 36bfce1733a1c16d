//! DaemonSets: one pod on each node, all of one revision.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::cluster::{Cluster, simulate};
use crate::history::{Action, Step, history, key};
use crate::{cases, objects};

const IMAGE: &str = "/spec/template/spec/containers/0/image";
const RESOURCES: &[&str] = &[
    "pods",
    "nodes",
    "daemonsets.apps",
    "controllerrevisions.apps",
];

fn actions() -> Vec<Action> {
    let agent = || key("daemonsets.apps", "a", "agent");
    let surging = || key("daemonsets.apps", "a", "surging");
    let node = |name: &str| key("nodes", "", name);
    vec![
        Action::Set(agent(), IMAGE, json!("two")),
        Action::Set(agent(), IMAGE, json!("three")),
        Action::Set(agent(), IMAGE, json!("one")),
        Action::Delete(agent(), "Background"),
        Action::Delete(agent(), "Orphan"),
        Action::Create("daemonsets.apps", objects::daemon_set("agent", 0, 1)),
        Action::Set(surging(), IMAGE, json!("two")),
        Action::Set(surging(), IMAGE, json!("one")),
        Action::Delete(surging(), "Foreground"),
        Action::Create("daemonsets.apps", objects::daemon_set("surging", 1, 0)),
        Action::Delete(node("n1"), "Background"),
        Action::Create("nodes", objects::node("n1")),
        Action::Create("nodes", objects::node("n3")),
        Action::Set(node("n2"), "/metadata/labels/pool", json!("other")),
        Action::Set(node("n2"), "/metadata/labels/pool", json!("main")),
        Action::Set(
            node("n0"),
            "/spec/taints",
            json!([{"key": "closed", "effect": "NoExecute"}]),
        ),
        Action::Set(node("n0"), "/spec/taints", json!([])),
    ]
}

fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn is_of(object: &Value, uid: &str) -> bool {
    text(object, "/metadata/ownerReferences/0/uid") == uid
}

fn check(cluster: &Cluster, name: &str) {
    let api = &cluster.api;
    let Some(set) = api.get("daemonsets.apps", "a", name) else {
        return;
    };
    let uid = text(&set, "/metadata/uid");
    let eligible: BTreeSet<String> = api
        .list("nodes")
        .iter()
        .filter(|node| {
            let taints = node.pointer("/spec/taints").and_then(Value::as_array);
            text(node, "/metadata/labels/pool") == "main" && taints.is_none_or(Vec::is_empty)
        })
        .map(|node| text(node, "/metadata/name").to_owned())
        .collect();
    let mut on: BTreeMap<String, usize> = BTreeMap::new();
    let all = api.list("controllerrevisions.apps");
    let revisions: Vec<&Value> = all.iter().filter(|revision| is_of(revision, uid)).collect();
    let newest = revisions
        .iter()
        .max_by_key(|revision| number(revision, "/revision"));
    let newest = newest.unwrap_or_else(|| panic!("{name} has no history"));
    assert_eq!(
        newest.pointer("/data/spec/template/spec/containers/0/image"),
        set.pointer(IMAGE)
    );
    let hash = text(newest, "/metadata/labels/controller-revision-hash");
    for pod in api.list("pods").iter().filter(|pod| is_of(pod, uid)) {
        *on.entry(text(pod, "/spec/nodeName").to_owned())
            .or_default() += 1;
        assert_eq!(
            text(pod, "/metadata/labels/controller-revision-hash"),
            hash,
            "{pod}"
        );
    }
    let wanted: BTreeMap<String, usize> = eligible.into_iter().map(|node| (node, 1)).collect();
    assert_eq!(on, wanted, "pods of {name} by node");
    let count = i64::try_from(wanted.len()).unwrap();
    for field in [
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "numberAvailable",
        "updatedNumberScheduled",
    ] {
        assert_eq!(
            number(&set, &format!("/status/{field}")),
            count,
            "{field} of {name}"
        );
    }
    for field in ["numberMisscheduled", "numberUnavailable"] {
        assert_eq!(
            number(&set, &format!("/status/{field}")),
            0,
            "{field} of {name}"
        );
    }
    assert_eq!(
        number(&set, "/status/observedGeneration"),
        number(&set, "/metadata/generation")
    );
    let distinct: BTreeSet<String> = revisions.iter().map(|r| r["data"].to_string()).collect();
    assert_eq!(
        distinct.len(),
        revisions.len(),
        "revisions of {name} repeat"
    );
    assert!(
        revisions.len() <= 3,
        "{} revisions of {name}",
        revisions.len()
    );
}

async fn run(steps: &[Step]) {
    let mut cluster = Cluster::new(&[
        "daemonset-controller",
        "garbage-collector-controller",
        "pod-garbage-collector-controller",
    ]);
    objects::base(&cluster.api);
    for (name, surge, unavailable) in [("agent", 0, 1), ("surging", 1, 0)] {
        let set = objects::daemon_set(name, surge, unavailable);
        cluster.api.put("daemonsets.apps", set);
    }
    cluster.restart();
    for step in steps {
        cluster.step(step).await;
    }
    cluster.settle().await;
    check(&cluster, "agent");
    check(&cluster, "surging");
}

proptest! {
    #![proptest_config(cases(20))]

    #[test]
    fn each_eligible_node_has_one_pod_of_the_newest_revision(
        seed in any::<u64>(),
        steps in history(actions(), RESOURCES, 12),
    ) {
        simulate(seed, || run(&steps));
    }
}

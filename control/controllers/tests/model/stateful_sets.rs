//! Checks StatefulSets: each ordinal has a pod and its claims, all of one revision, and the
//! history of revisions neither grows without bound nor repeats itself.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::cluster::{Cluster, simulate};
use crate::history::{Action, Step, history, key};
use crate::{cases, objects};

const IMAGE: &str = "/spec/template/spec/containers/0/image";
const RESOURCES: &[&str] = &[
    "pods",
    "statefulsets.apps",
    "controllerrevisions.apps",
    "persistentvolumeclaims",
];

fn actions() -> Vec<Action> {
    let db = || key("statefulsets.apps", "a", "db");
    let web = || key("statefulsets.apps", "a", "web");
    let pod = |name: &str| key("pods", "a", name);
    vec![
        Action::Set(db(), "/spec/replicas", json!(0)),
        Action::Set(db(), "/spec/replicas", json!(3)),
        Action::Set(db(), IMAGE, json!("two")),
        Action::Set(db(), IMAGE, json!("three")),
        Action::Set(db(), IMAGE, json!("one")),
        Action::Set(db(), "/spec/ordinals/start", json!(1)),
        Action::Set(db(), "/spec/ordinals/start", json!(0)),
        Action::Set(
            db(),
            "/spec/persistentVolumeClaimRetentionPolicy/whenScaled",
            json!("Delete"),
        ),
        Action::Set(
            db(),
            "/spec/persistentVolumeClaimRetentionPolicy/whenDeleted",
            json!("Delete"),
        ),
        Action::Delete(db(), "Foreground"),
        Action::Delete(db(), "Orphan"),
        Action::Create(
            "statefulsets.apps",
            objects::stateful_set("db", 2, "OrderedReady"),
        ),
        Action::Set(web(), "/spec/replicas", json!(1)),
        Action::Set(web(), "/spec/replicas", json!(4)),
        Action::Set(web(), IMAGE, json!("two")),
        Action::Delete(web(), "Background"),
        Action::Create(
            "statefulsets.apps",
            objects::stateful_set("web", 3, "Parallel"),
        ),
        Action::Delete(pod("db-0"), "Background"),
        Action::Delete(pod("web-1"), "Background"),
        Action::Set(pod("db-1"), "/status/phase", json!("Failed")),
        Action::Set(pod("web-0"), "/status/phase", json!("Succeeded")),
        Action::Set(pod("db-0"), "/metadata/labels/app", json!("other")),
        Action::Delete(
            key("persistentvolumeclaims", "a", "data-db-0"),
            "Background",
        ),
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

/// Objects that name `uid` as their controller.
fn controlled<'a>(objects: &'a [Value], uid: &'a str) -> impl Iterator<Item = &'a Value> {
    objects.iter().filter(move |object| {
        let owners = object.pointer("/metadata/ownerReferences");
        let owners = owners.and_then(Value::as_array).into_iter().flatten();
        owners
            .into_iter()
            .any(|owner| owner["uid"] == uid && owner["controller"] == true)
    })
}

/// Whether a claim was deleted after the pod that uses it was created.
fn is_taken(cluster: &Cluster, pod: &str, claim: &str) -> bool {
    let last = |resource: &str, name: &str, kind: &str| {
        let events = cluster.api.events_since(0);
        let mut events = events.iter().rev();
        let found = events.find(|event| {
            event.key.resource == resource && event.key.name == name && event.kind == kind
        });
        found.map_or(0, |event| event.revision)
    };
    last("persistentvolumeclaims", claim, "DELETED") > last("pods", pod, "ADDED")
}

fn check(cluster: &Cluster, name: &str) {
    let api = &cluster.api;
    let Some(set) = api.get("statefulsets.apps", "a", name) else {
        return;
    };
    let uid = text(&set, "/metadata/uid");
    let replicas = number(&set, "/spec/replicas");
    let start = number(&set, "/spec/ordinals/start");
    let wanted: BTreeSet<String> = (start..start + replicas)
        .map(|ordinal| format!("{name}-{ordinal}"))
        .collect();
    let pods = api.list("pods");
    let own: BTreeMap<&str, &Value> = controlled(&pods, uid)
        .map(|pod| (text(pod, "/metadata/name"), pod))
        .collect();
    let names: BTreeSet<String> = own.keys().map(ToString::to_string).collect();
    // A pod of one of its names that somebody took away from it stands in its way.
    let taken = |name: &String| {
        pods.iter().any(|pod| {
            text(pod, "/metadata/name") == name && text(pod, "/metadata/labels/app") == "other"
        })
    };
    if wanted.iter().any(taken) {
        return;
    }
    assert_eq!(names, wanted, "pods of {name}");
    let update = text(&set, "/status/updateRevision");
    for (pod_name, pod) in &own {
        let label = |key: &str| text(pod, &format!("/metadata/labels/{}", key.replace('/', "~1")));
        assert_eq!(label("controller-revision-hash"), update, "{pod_name}");
        assert_eq!(label("statefulset.kubernetes.io/pod-name"), *pod_name);
        let claim = format!("data-{pod_name}");
        assert_eq!(
            text(pod, "/spec/volumes/0/persistentVolumeClaim/claimName"),
            claim
        );
        let Some(claim) = api.get("persistentvolumeclaims", "a", &claim) else {
            // one that a user took from a pod that runs is not made again
            assert!(
                is_taken(cluster, pod_name, &claim),
                "{pod_name} has no claim"
            );
            continue;
        };
        let owners = claim.pointer("/metadata/ownerReferences").cloned();
        let owners = owners.unwrap_or_else(|| json!([]));
        let is_owned = owners
            .as_array()
            .unwrap()
            .iter()
            .any(|owner| owner["uid"] == uid);
        let is_earlier = owners
            .as_array()
            .unwrap()
            .iter()
            .any(|owner| owner["uid"] != uid);
        let deletes = text(
            &set,
            "/spec/persistentVolumeClaimRetentionPolicy/whenDeleted",
        );
        if !is_earlier {
            assert_eq!(
                is_owned,
                deletes == "Delete",
                "owners of the claim of {pod_name}"
            );
        }
    }
    for field in [
        "replicas",
        "readyReplicas",
        "availableReplicas",
        "updatedReplicas",
        "currentReplicas",
    ] {
        assert_eq!(
            number(&set, &format!("/status/{field}")),
            replicas,
            "{field} of {name}"
        );
    }
    assert_eq!(text(&set, "/status/currentRevision"), update);
    assert_eq!(
        number(&set, "/status/observedGeneration"),
        number(&set, "/metadata/generation")
    );
    let all = api.list("controllerrevisions.apps");
    let revisions: Vec<&Value> = controlled(&all, uid).collect();
    let newest = revisions
        .iter()
        .max_by_key(|revision| number(revision, "/revision"));
    assert_eq!(text(newest.unwrap(), "/metadata/name"), update);
    let template = |object: &Value, pointer: &str| object.pointer(pointer).cloned().unwrap();
    assert_eq!(
        template(
            newest.unwrap(),
            "/data/spec/template/spec/containers/0/image"
        ),
        template(&set, IMAGE)
    );
    let distinct: BTreeSet<String> = revisions.iter().map(|r| r["data"].to_string()).collect();
    assert_eq!(
        distinct.len(),
        revisions.len(),
        "revisions of {name} repeat"
    );
    let limit = usize::try_from(number(&set, "/spec/revisionHistoryLimit")).unwrap();
    assert!(
        revisions.len() <= limit + 1,
        "{} revisions of {name}",
        revisions.len()
    );
}

async fn run(steps: &[Step]) {
    let mut cluster = Cluster::new(&["statefulset-controller", "garbage-collector-controller"]);
    objects::base(&cluster.api);
    cluster.api.put(
        "statefulsets.apps",
        objects::stateful_set("db", 2, "OrderedReady"),
    );
    cluster.api.put(
        "statefulsets.apps",
        objects::stateful_set("web", 3, "Parallel"),
    );
    cluster.restart();
    for step in steps {
        cluster.step(step).await;
    }
    cluster.settle().await;
    check(&cluster, "db");
    check(&cluster, "web");
}

proptest! {
    #![proptest_config(cases(20))]

    #[test]
    fn each_ordinal_has_its_pod_and_its_claims_at_one_revision(
        seed in any::<u64>(),
        steps in history(actions(), RESOURCES, 12),
    ) {
        simulate(seed, || run(&steps));
    }
}

/// The moments at which pods of a set appeared and became ready, without faults.
async fn order_of_pods(policy: &str) -> Vec<String> {
    let mut cluster = Cluster::new(&["statefulset-controller"]);
    objects::base(&cluster.api);
    cluster
        .api
        .put("statefulsets.apps", objects::stateful_set("db", 3, policy));
    cluster.restart();
    cluster.settle().await;
    let image = key("statefulsets.apps", "a", "db");
    Action::Set(image, IMAGE, json!("two")).apply(&cluster);
    cluster.settle().await;
    check(&cluster, "db");
    let mut seen = Vec::new();
    for event in cluster.api.events_since(0) {
        if event.key.resource == "pods" && event.kind != "MODIFIED" {
            seen.push(format!("{} {}", event.kind, event.key.name));
        }
    }
    seen
}

#[test]
fn pods_come_in_order_and_are_replaced_from_the_top() {
    simulate(7, || async {
        let seen = order_of_pods("OrderedReady").await;
        let wanted = [
            "ADDED db-0",
            "ADDED db-1",
            "ADDED db-2",
            "DELETED db-2",
            "ADDED db-2",
            "DELETED db-1",
            "ADDED db-1",
            "DELETED db-0",
            "ADDED db-0",
        ];
        assert_eq!(seen, wanted);
    });
}

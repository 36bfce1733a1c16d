//! Scenarios of StatefulSets: pods in, actions out.
//!
//! A pod is `ORDINAL WORD…`: `pending`, `running` (and not ready), `ready`, `failed`,
//! `succeeded`, `going` (being deleted), `old` or `new` (its revision), `bare` (without
//! its label).

use std::collections::BTreeMap;
use std::sync::Arc;

use control_client::Meta;
use serde_json::{Value, json};

use super::decide::{PodStep, StatefulSetAction, StatefulSetSnapshot, claim_pods, decide};
use crate::ownership::AdoptionDecision;
use crate::views::{Pod, StatefulSet};

const NOW: &str = "2026-01-01T00:01:00Z";

fn set(spec: Value) -> StatefulSet {
    let mut all = json!({"replicas": 3, "selector": {"matchLabels": {"app": "web"}},
        "serviceName": "web", "podManagementPolicy": "OrderedReady",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {}}});
    for (key, value) in spec.as_object().unwrap() {
        all[key] = value.clone();
    }
    serde_json::from_value(json!({"metadata":
        {"name": "web", "namespace": "a", "uid": "s", "generation": 1}, "spec": all}))
    .unwrap()
}

fn pod(text: &str) -> Arc<Pod> {
    let mut words = text.split(' ');
    let name = format!("web-{}", words.next().unwrap());
    let mut value = json!({"metadata": {"name": name, "namespace": "a", "uid": name, "labels":
            {"app": "web", "statefulset.kubernetes.io/pod-name": name,
             "controller-revision-hash": "new"},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web",
            "uid": "s", "controller": true}]}, "status": {"phase": "Running"}});
    for word in words {
        match word {
            "pending" => value["status"]["phase"] = "Pending".into(),
            "failed" => value["status"]["phase"] = "Failed".into(),
            "succeeded" => value["status"]["phase"] = "Succeeded".into(),
            "ready" => {
                value["status"]["conditions"] = json!([{"type": "Ready", "status": "True",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
            }
            "going" => value["metadata"]["deletionTimestamp"] = NOW.into(),
            "old" => value["metadata"]["labels"]["controller-revision-hash"] = "old".into(),
            "bare" => {
                let labels = value["metadata"]["labels"].as_object_mut().unwrap();
                labels.remove("statefulset.kubernetes.io/pod-name");
            }
            "orphan" => value["metadata"]["ownerReferences"] = json!([]),
            "foreign" => value["metadata"]["labels"]["app"] = "other".into(),
            "mounts" => {
                value["spec"]["volumes"] = json!([{"name": "data",
                    "persistentVolumeClaim": {"claimName": format!("data-{name}")}}]);
            }
            _ => {}
        }
    }
    Arc::new(serde_json::from_value(value).unwrap())
}

fn claims(texts: &[(&str, Value)]) -> BTreeMap<String, Meta> {
    let meta = |(name, rest): &(&str, Value)| {
        let mut meta = json!({"name": name, "namespace": "a", "uid": name});
        for (key, value) in rest.as_object().unwrap() {
            meta[key] = value.clone();
        }
        ((*name).to_owned(), serde_json::from_value(meta).unwrap())
    };
    texts.iter().map(meta).collect()
}

fn run_with(set: &StatefulSet, pods: &[&str], claims: &BTreeMap<String, Meta>) -> String {
    let pods: Vec<_> = pods.iter().map(|text| pod(text)).collect();
    let find = |name: &str| claims.get(name).cloned();
    let snapshot = StatefulSetSnapshot {
        set,
        pods: &pods,
        claim: &find,
        current: "old",
        update: "new",
        collisions: 0,
        now: NOW.parse().unwrap(),
    };
    let mut lines = Vec::new();
    for action in decide(&snapshot) {
        match action {
            StatefulSetAction::Work(phase) => {
                for work in phase {
                    let steps: Vec<_> = work.steps.iter().map(print).collect();
                    lines.push(format!("{} {}", work.ordinal, steps.join(", ")));
                }
            }
            StatefulSetAction::Status(s) => lines.push(format!(
                "status {} ready {} available {} current {} updated {} {}",
                s.replicas,
                s.ready_replicas,
                s.available_replicas,
                s.current_replicas,
                s.updated_replicas,
                s.current_revision
            )),
            StatefulSetAction::Wake(after) => lines.push(format!("wake {after:?}")),
        }
    }
    lines.join("; ")
}

fn print(step: &PodStep) -> String {
    match step {
        PodStep::CreateClaim(at) => format!("claim {at}"),
        PodStep::AwaitClaims { names, .. } => format!("await {}", names.join(" ")),
        PodStep::CreatePod { revision } => format!("create {revision}"),
        PodStep::SetClaimOwners { claim, owners } => {
            let owners: Vec<_> = owners.references.iter().map(|r| r.uid.as_str()).collect();
            format!("own {} [{}]", claim.name, owners.join(" "))
        }
        PodStep::UpdatePod(_) => "update".to_owned(),
        PodStep::ReportUpdate => "report".to_owned(),
        PodStep::DeletePod(_) => "delete".to_owned(),
    }
}

/// The work alone, without the status.
fn run(set: &StatefulSet, pods: &[&str]) -> String {
    let all = run_with(set, pods, &BTreeMap::new());
    let work: Vec<_> = all
        .split("; ")
        .filter(|line| !line.starts_with("status"))
        .collect();
    work.join("; ")
}

#[test]
fn pods_are_created_one_after_the_other() {
    let set = set(json!({}));
    assert_eq!(run(&set, &[]), "0 create new");
    assert_eq!(run(&set, &["0 pending"]), "");
    assert_eq!(run(&set, &["0 running"]), "");
    assert_eq!(run(&set, &["0 ready"]), "1 create new");
    assert_eq!(run(&set, &["0 ready", "1 ready going"]), "");
    assert_eq!(run(&set, &["0 ready", "2 ready"]), "1 create new");
    assert_eq!(run(&set, &["0 ready", "1 ready", "2 ready"]), "");
}

#[test]
fn parallel_pods_are_created_at_once() {
    let set = set(json!({"podManagementPolicy": "Parallel"}));
    assert_eq!(run(&set, &["1 pending"]), "0 create new; 2 create new");
    assert_eq!(
        run(&set, &["0 failed", "1 ready", "4 ready", "5 running"]),
        "0 delete; 2 create new; 5 delete; 4 delete"
    );
}

#[test]
fn ordinals_begin_where_they_are_told_to() {
    let set = set(json!({"ordinals": {"start": 5}, "replicas": 2}));
    assert_eq!(run(&set, &["5 ready"]), "6 create new");
    assert_eq!(
        run(&set, &["0 ready", "5 ready", "6 ready", "7 ready"]),
        "7 delete"
    );
    assert_eq!(run(&set, &["0 ready", "5 ready", "6 ready"]), "0 delete");
}

#[test]
fn ended_pods_are_deleted_and_made_again() {
    let set = set(json!({}));
    assert_eq!(run(&set, &["0 ready", "1 failed", "2 ready"]), "1 delete");
    assert_eq!(run(&set, &["0 succeeded"]), "0 delete");
    // one whose deletion hangs is waited for
    assert_eq!(run(&set, &["0 failed going"]), "");
}

#[test]
fn scaling_down_deletes_from_the_top_and_waits_for_the_rest() {
    let set = set(json!({"replicas": 1}));
    assert_eq!(run(&set, &["0 ready", "1 ready", "2 ready"]), "2 delete");
    assert_eq!(run(&set, &["0 ready", "1 ready", "2 ready going"]), "");
    // while a lower ordinal is not ready, nothing above it goes
    assert_eq!(run(&set, &["0 running", "1 ready", "2 ready"]), "");
    assert_eq!(run(&set, &["0 ready", "1 running", "2 ready"]), "2 delete");
    assert_eq!(run(&set, &["0 ready", "1 running", "2 running"]), "");
    assert_eq!(run(&set, &["0 ready", "1 running"]), "1 delete");
}

#[test]
fn update_replaces_from_the_top_one_at_a_time() {
    let set = set(json!({}));
    assert_eq!(
        run(&set, &["0 ready old", "1 ready old", "2 ready old"]),
        "2 delete"
    );
    assert_eq!(
        run(&set, &["0 ready old", "1 ready old", "2 ready"]),
        "1 delete"
    );
    assert_eq!(run(&set, &["0 ready old", "1 ready old", "2 running"]), "");
    // scaling comes first
    assert_eq!(run(&set, &["0 ready old", "1 ready old"]), "2 create new");
}

#[test]
fn partition_keeps_lower_ordinals_at_their_revision() {
    let set = set(json!({"updateStrategy":
        {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}}));
    assert_eq!(
        run(&set, &["0 ready old", "1 ready old", "2 ready old"]),
        "2 delete"
    );
    assert_eq!(run(&set, &["0 ready old", "1 ready old", "2 ready"]), "");
    assert_eq!(run(&set, &["0 ready old"]), "1 create old");
    assert_eq!(run(&set, &["0 ready old", "1 ready old"]), "2 create new");
}

#[test]
fn max_unavailable_bounds_an_update() {
    let with = |most: Value| {
        set(
            json!({"replicas": 4, "podManagementPolicy": "Parallel", "updateStrategy":
            {"type": "RollingUpdate", "rollingUpdate": {"partition": 1, "maxUnavailable": most}}}),
        )
    };
    let old = ["0 ready old", "1 ready old", "2 ready old", "3 ready old"];
    assert_eq!(run(&with(json!(2)), &old), "3 delete; 2 delete");
    assert_eq!(
        run(&with(json!("100%")), &old),
        "3 delete; 2 delete; 1 delete"
    );
    assert_eq!(run(&with(json!("1%")), &old), "3 delete");
    let one_down = ["0 running old", "1 ready old", "2 ready old", "3 ready old"];
    assert_eq!(run(&with(json!(2)), &one_down), "3 delete");
    assert_eq!(run(&with(json!(1)), &one_down), "");
}

#[test]
fn on_delete_leaves_old_pods() {
    let set = set(json!({"updateStrategy": {"type": "OnDelete"}}));
    assert_eq!(
        run(&set, &["0 ready old", "1 ready old", "2 ready old"]),
        ""
    );
    assert_eq!(run(&set, &["0 ready old", "1 ready old"]), "2 create new");
}

#[test]
fn pods_count_as_available_after_min_ready_seconds() {
    let mut set = set(json!({"minReadySeconds": 90, "replicas": 2}));
    assert_eq!(run(&set, &["0 ready"]), "wake 30s");
    set.spec.min_ready_seconds = 60;
    assert_eq!(run(&set, &["0 ready"]), "1 create new");
}

#[test]
fn identity_is_put_right() {
    let set = set(json!({"replicas": 1}));
    assert_eq!(run(&set, &["0 ready bare"]), "0 update");
    let with = super::decide_tests::set(json!({"replicas": 1,
        "volumeClaimTemplates": [{"metadata": {"name": "data"}}]}));
    assert_eq!(run(&with, &["0 ready"]), "0 claim 0, update");
    assert_eq!(run(&with, &["0 ready mounts"]), "");
}

#[test]
fn claims_come_before_pods() {
    let set = set(json!({"volumeClaimTemplates":
        [{"metadata": {"name": "data"}}, {"metadata": {"name": "log"}}]}));
    assert_eq!(run(&set, &[]), "0 claim 0, claim 1, create new");
    let run = |pods: &[&str], claims: &BTreeMap<String, Meta>| {
        let all = run_with(&set, pods, claims);
        all.split("; status").next().unwrap_or_default().to_owned()
    };
    let one = claims(&[("data-web-0", json!({}))]);
    assert_eq!(run(&[], &one), "0 claim 1, create new");
    // a pending pod gets the claims that it lacks
    assert_eq!(run(&["0 pending mounts"], &one), "0 claim 1");
    let going = claims(&[
        ("data-web-0", json!({"deletionTimestamp": NOW})),
        ("log-web-0", json!({})),
    ]);
    assert_eq!(run(&[], &going), "0 await data-web-0");
}

#[test]
fn claims_are_owned_by_the_retention_policy() {
    let set = set(
        json!({"replicas": 1, "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
        "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete", "whenDeleted": "Delete"}}),
    );
    let own = |uid: &str, kind: &str, name: &str| {
        let version = if kind == "Pod" { "v1" } else { "apps/v1" };
        json!({"ownerReferences": [{"apiVersion": version, "kind": kind, "name": name, "uid": uid,
            "controller": true, "blockOwnerDeletion": true}]})
    };
    let run = |pods: &[&str], all: &[(&str, Value)]| {
        let all = run_with(&set, pods, &claims(all));
        all.split("; status").next().unwrap_or_default().to_owned()
    };
    assert_eq!(
        run(&["0 ready mounts"], &[("data-web-0", json!({}))]),
        "0 own data-web-0 [s], report"
    );
    let owned = || ("data-web-0", own("s", "StatefulSet", "web"));
    assert_eq!(
        run(
            &["0 ready mounts", "1 ready mounts"],
            &[owned(), ("data-web-1", own("s", "StatefulSet", "web"))]
        ),
        "1 own data-web-1 [web-1]; 1 delete"
    );
    // a claim of a deleted pod is about to go: the new pod waits for another
    let stale = [("data-web-0", own("earlier", "Pod", "web-0"))];
    assert!(run(&[], &stale).starts_with("status"));
}

#[test]
fn status_counts_pods_by_state_and_revision() {
    let set = set(json!({}));
    let pods = ["0 ready old", "1 running", "2 ready going"];
    assert_eq!(
        run_with(&set, &pods, &BTreeMap::new()),
        "status 3 ready 2 available 2 current 1 updated 1 old"
    );
    let done = ["0 ready", "1 ready", "2 ready"];
    assert_eq!(
        run_with(&set, &done, &BTreeMap::new()),
        "status 3 ready 3 available 3 current 3 updated 3 new"
    );
    let old = ["0 ready old", "1 ready old", "2 ready old"];
    assert_eq!(
        run_with(&set, &old, &BTreeMap::new()),
        "2 delete; status 3 ready 3 available 3 current 2 updated 0 old"
    );
}

#[test]
fn set_being_deleted_leaves_its_pods_alone() {
    let mut set = set(json!({}));
    set.metadata.deletion_timestamp = NOW.parse().ok();
    assert_eq!(run(&set, &["0 failed", "7 ready"]), "");
}

#[test]
fn pods_are_adopted_and_released_by_labels_and_name() {
    let set = set(json!({}));
    let pods: Vec<_> = [
        "0 ready orphan",
        "1 ready",
        "2 ready foreign",
        "3 ready orphan going",
    ]
    .iter()
    .map(|text| pod(text))
    .collect();
    let (changes, own) = claim_pods(&set, &pods);
    let changes: Vec<_> = changes
        .iter()
        .map(|(claim, pod)| (*claim, pod.metadata.name.as_str()))
        .collect();
    assert_eq!(
        changes,
        [
            (AdoptionDecision::Adopt, "web-0"),
            (AdoptionDecision::Release, "web-2")
        ]
    );
    let own: Vec<_> = own.iter().map(|pod| pod.metadata.name.as_str()).collect();
    assert_eq!(own, ["web-0", "web-1"]);
}

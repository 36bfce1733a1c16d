//! Checks volumes and claims: each volume has at most one claim, each claim one volume, and the
//! claims of pods are created and deleted with them.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::api::Api;
use crate::cluster::{Cluster, simulate};
use crate::history::{Action, Step, history, key};
use crate::{cases, objects};

const RESOURCES: &[&str] = &[
    "persistentvolumeclaims",
    "persistentvolumes",
    "storageclasses.storage.k8s.io",
    "pods",
];

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    let value = object.pointer(pointer).and_then(Value::as_str);
    value.unwrap_or_default()
}

fn claim(name: &str, size: &str, class: Option<&str>) -> Value {
    json!({"metadata": {"name": name, "namespace": "a"}, "spec": {"storageClassName": class,
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}})
}

fn volume(name: &str, size: &str, claim_ref: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": size}, "persistentVolumeReclaimPolicy": "Retain",
        "claimRef": claim_ref, "csi": {"driver": "d", "volumeHandle": name}}})
}

fn class(name: &str, mode: &str, default: bool) -> Value {
    json!({"metadata": {"name": name, "annotations":
        {"storageclass.kubernetes.io/is-default-class": default.to_string()}},
        "provisioner": "d", "volumeBindingMode": mode})
}

fn begin(api: &Api) {
    objects::base(api);
    for (name, size) in [("v0", "1Gi"), ("v1", "2Gi"), ("v2", "3Gi")] {
        api.put("persistentvolumes", volume(name, size, Value::Null));
    }
    api.put("persistentvolumeclaims", claim("c0", "1Gi", Some("")));
    api.put("persistentvolumeclaims", claim("c1", "1Gi", Some("")));
}

fn actions() -> Vec<Action> {
    let of_claim = |name| key("persistentvolumeclaims", "a", name);
    let of_volume = |name| key("persistentvolumes", "", name);
    let reserved = json!({"namespace": "a", "name": "c2"});
    let mut actions = vec![
        Action::Create("persistentvolumeclaims", claim("c2", "2Gi", Some(""))),
        Action::Create("persistentvolumeclaims", claim("c3", "3Gi", None)),
        Action::Create("persistentvolumes", volume("v3", "2Gi", reserved)),
        Action::Create(
            "storageclasses.storage.k8s.io",
            class("late", "WaitForFirstConsumer", true),
        ),
        Action::Delete(
            key("storageclasses.storage.k8s.io", "", "late"),
            "Background",
        ),
    ];
    for name in ["c0", "c1", "c2", "c3"] {
        actions.push(Action::Delete(of_claim(name), "Background"));
    }
    for name in ["c0", "c1"] {
        let claim = claim(name, "1Gi", Some(""));
        actions.push(Action::Create("persistentvolumeclaims", claim));
    }
    for name in ["v0", "v1", "v2"] {
        actions.push(Action::Delete(of_volume(name), "Background"));
        let volume = volume(name, "2Gi", Value::Null);
        actions.push(Action::Create("persistentvolumes", volume));
        actions.push(Action::Set(of_volume(name), "/spec/claimRef", Value::Null));
    }
    actions
}

/// Volumes pass from one claim to another only when a user or the binder freed them.
fn check_history(cluster: &Cluster) {
    let mut holders: BTreeMap<String, String> = BTreeMap::new();
    for event in cluster.api.events_since(0) {
        if event.key.resource != "persistentvolumes" {
            continue;
        }
        let deleted = event.kind == "DELETED";
        assert!(
            !deleted || !event.by_controller,
            "deleted: {}",
            event.object
        );
        let holder = text(&event.object, "/spec/claimRef/uid").to_owned();
        let name = text(&event.object, "/metadata/uid").to_owned();
        if let Some(before) = holders.insert(name, holder.clone()) {
            let passed = !before.is_empty() && !holder.is_empty() && before != holder;
            assert!(!passed, "taken from {before}: {}", event.object);
        }
    }
}

/// Checks that claims and volumes refer to each other.
fn check_end(cluster: &Cluster) {
    let claims = cluster.api.list("persistentvolumeclaims");
    let volumes = cluster.api.list("persistentvolumes");
    for claim in &claims {
        let phase = text(claim, "/status/phase");
        let volume = text(claim, "/spec/volumeName");
        match phase {
            "Bound" => {
                let found = volumes
                    .iter()
                    .find(|one| text(one, "/metadata/name") == volume);
                let found = found.unwrap_or_else(|| panic!("bound to nothing: {claim}"));
                assert_eq!(
                    text(found, "/spec/claimRef/uid"),
                    text(claim, "/metadata/uid"),
                    "{claim} {found}"
                );
                assert_eq!(text(found, "/status/phase"), "Bound");
            }
            "Pending" => {
                let fits = |one: &&Value| {
                    text(one, "/status/phase") == "Available"
                        && one.pointer("/spec/claimRef").is_none_or(Value::is_null)
                        && text(one, "/spec/capacity/storage")
                            >= text(claim, "/spec/resources/requests/storage")
                };
                let classless = text(claim, "/spec/storageClassName").is_empty();
                let missed = volumes.iter().find(fits).filter(|_| classless);
                assert!(missed.is_none(), "{claim} could have {missed:?}");
            }
            other => assert_eq!(other, "Lost", "{claim}"),
        }
    }
    for volume in &volumes {
        let bound = text(volume, "/status/phase") == "Bound";
        let uid = text(volume, "/spec/claimRef/uid");
        let mut owners = claims.iter();
        let owner = owners.find(|claim| text(claim, "/metadata/uid") == uid);
        assert!(!bound || owner.is_some(), "bound to nobody: {volume}");
    }
}

async fn run(steps: &[Step]) {
    let mut cluster = Cluster::new(&["persistentvolume-binder-controller"]);
    begin(&cluster.api);
    cluster.restart();
    for step in steps {
        cluster.step(step).await;
    }
    cluster.settle().await;
    check_history(&cluster);
    check_end(&cluster);
}

fn pod(name: &str) -> Value {
    let template = json!({"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "",
        "resources": {"requests": {"storage": "1Gi"}}}});
    json!({"metadata": {"name": name, "namespace": "a"}, "spec": {
        "containers": [{"name": "c", "image": "one"}],
        "volumes": [{"name": "data", "ephemeral": {"volumeClaimTemplate": template}}]}})
}

async fn run_ephemeral(steps: &[Step]) {
    let mut cluster = Cluster::new(&[
        "ephemeral-volume-controller",
        "persistentvolume-binder-controller",
        "garbage-collector-controller",
    ]);
    begin(&cluster.api);
    cluster.api.put("pods", pod("p0"));
    cluster.restart();
    for step in steps {
        cluster.step(step).await;
    }
    cluster.settle().await;
    check_history(&cluster);
    check_end(&cluster);
    let pods = cluster.api.list("pods");
    let claims = cluster.api.list("persistentvolumeclaims");
    let owner = |claim: &Value| text(claim, "/metadata/ownerReferences/0/uid").to_owned();
    for pod in &pods {
        let uid = text(pod, "/metadata/uid");
        let count = claims.iter().filter(|claim| owner(claim) == uid).count();
        assert_eq!(count, 1, "claims of {pod}");
    }
    for claim in claims.iter().filter(|claim| !owner(claim).is_empty()) {
        let mut pods = pods.iter();
        let lives = pods.any(|pod| text(pod, "/metadata/uid") == owner(claim));
        assert!(lives, "claim of a pod that is gone: {claim}");
    }
}

fn ephemeral_actions() -> Vec<Action> {
    let mut actions = Vec::new();
    for name in ["p0", "p1"] {
        actions.push(Action::Create("pods", pod(name)));
        actions.push(Action::Delete(key("pods", "a", name), "Background"));
        let claim = key("persistentvolumeclaims", "a", &format!("{name}-data"));
        actions.push(Action::Delete(claim, "Background"));
    }
    actions
}

proptest! {
    #![proptest_config(cases(20))]

    #[test]
    fn volume_has_one_claim_and_claim_one_volume(
        seed in any::<u64>(),
        steps in history(actions(), RESOURCES, 14),
    ) {
        simulate(seed, || run(&steps));
    }

    #[test]
    fn claims_of_pods_come_and_go_with_them(
        seed in any::<u64>(),
        steps in history(ephemeral_actions(), RESOURCES, 12),
    ) {
        simulate(seed, || run_ephemeral(&steps));
    }
}

//! The garbage collector: objects without owners are deleted, orphans are kept.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::api::{Api, ObjectKey};
use crate::cluster::{Cluster, simulate};
use crate::history::{Action, Step, history, key};
use crate::{cases, objects};

const COLLECTOR: &[&str] = &["garbage-collector-controller"];
const WIDGETS: &str = "widgets.example.com";
const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// A cluster with a config map that owns a secret and a custom object.
fn family() -> Cluster {
    let cluster = Cluster::new(COLLECTOR);
    let api = &cluster.api;
    objects::base(api);
    api.put(DEFINITIONS, objects::definition("widgets", "Widget"));
    let owner = api.put(
        "configmaps",
        json!({"metadata": {"name": "owner", "namespace": "a"}}),
    );
    api.put(
        "secrets",
        objects::owned("child", ("v1", "ConfigMap", &owner)),
    );
    api.put(
        WIDGETS,
        objects::owned("child", ("v1", "ConfigMap", &owner)),
    );
    cluster
}

fn delete(api: &Api, key: &ObjectKey, policy: &str) {
    api.delete(key, &json!({"propagationPolicy": policy}));
}

fn is_there(api: &Api, resource: &str, name: &str) -> bool {
    api.get(resource, "a", name).is_some()
}

/// The owner is deleted with `orphan` while the list of its dependents' kind is late.
async fn orphan_with_late(resource: &'static str, delay: u64) {
    let mut cluster = family();
    delete(&cluster.api, &key("configmaps", "a", "owner"), "Orphan");
    cluster.api.hold_watches(resource);
    cluster.restart();
    cluster.pass(Duration::from_secs(delay)).await;
    cluster.settle().await;
    assert!(!is_there(&cluster.api, "configmaps", "owner"));
    assert!(is_there(&cluster.api, "secrets", "child"));
    assert!(is_there(&cluster.api, WIDGETS, "child"));
}

#[test]
fn orphaned_custom_object_is_kept_when_its_list_is_late() {
    simulate(1, || orphan_with_late(WIDGETS, 5));
}

#[test]
fn orphaned_object_is_kept_when_its_kind_cannot_be_read_at_the_start() {
    simulate(1, || orphan_with_late("secrets", 40));
}

#[test]
fn orphaned_custom_object_is_kept_when_its_definition_is_late() {
    simulate(1, || orphan_with_late(DEFINITIONS, 5));
}

#[test]
fn orphaned_object_is_kept_when_its_watch_is_behind_that_of_its_owner() {
    simulate(1, || async {
        let mut cluster = family();
        cluster.restart();
        cluster.pass(Duration::from_secs(5)).await;
        cluster.api.hold_watches("secrets");
        let owner = cluster.api.get("configmaps", "a", "owner").unwrap();
        let late = objects::owned("late", ("v1", "ConfigMap", &owner));
        cluster.api.put("secrets", late);
        delete(&cluster.api, &key("configmaps", "a", "owner"), "Orphan");
        cluster.pass(Duration::from_secs(10)).await;
        cluster.settle().await;
        assert!(is_there(&cluster.api, "secrets", "late"));
        assert!(is_there(&cluster.api, "secrets", "child"));
    });
}

#[test]
fn foreground_deletion_waits_for_dependents_whose_list_is_late() {
    simulate(1, || async {
        let mut cluster = family();
        delete(&cluster.api, &key("configmaps", "a", "owner"), "Foreground");
        cluster.api.hold_watches(WIDGETS);
        cluster.restart();
        cluster.pass(Duration::from_secs(10)).await;
        assert!(is_there(&cluster.api, "configmaps", "owner"));
        cluster.settle().await;
        assert!(!is_there(&cluster.api, WIDGETS, "child"));
        assert!(!is_there(&cluster.api, "configmaps", "owner"));
    });
}

#[test]
fn foreground_deletion_waits_for_dependents_of_a_kind_that_is_served_later() {
    simulate(1, || async {
        let mut cluster = Cluster::new(COLLECTOR);
        objects::base(&cluster.api);
        let owner = json!({"metadata": {"name": "owner", "namespace": "a"}});
        let owner = cluster.api.put("configmaps", owner);
        cluster.restart();
        cluster.pass(Duration::from_secs(5)).await;
        cluster.api.hold_watches(WIDGETS);
        let api = &cluster.api;
        api.put(DEFINITIONS, objects::definition("widgets", "Widget"));
        let child = objects::owned("child", ("v1", "ConfigMap", &owner));
        api.put(WIDGETS, child);
        cluster.pass(Duration::from_secs(2)).await;
        delete(&cluster.api, &key("configmaps", "a", "owner"), "Foreground");
        cluster.pass(Duration::from_secs(10)).await;
        assert!(is_there(&cluster.api, "configmaps", "owner"));
        cluster.settle().await;
        assert!(!is_there(&cluster.api, WIDGETS, "child"));
        assert!(!is_there(&cluster.api, "configmaps", "owner"));
    });
}

#[test]
fn dependent_is_deleted_whose_owner_came_and_went_while_its_watch_was_down() {
    simulate(1, || async {
        let mut cluster = family();
        cluster.restart();
        cluster.pass(Duration::from_secs(5)).await;
        cluster.api.hold_watches("configmaps");
        let owner = json!({"metadata": {"name": "brief", "namespace": "a"}});
        let owner = cluster.api.put("configmaps", owner);
        let child = objects::owned("of-brief", ("v1", "ConfigMap", &owner));
        cluster.api.put("secrets", child);
        cluster.pass(Duration::from_secs(5)).await;
        delete(&cluster.api, &key("configmaps", "a", "brief"), "Background");
        cluster.api.compact();
        cluster.api.cut_watches();
        cluster.settle().await;
        assert!(!is_there(&cluster.api, "secrets", "of-brief"));
    });
}

fn actions() -> Vec<Action> {
    let owner = || key("configmaps", "a", "owner");
    vec![
        Action::Delete(owner(), "Orphan"),
        Action::Delete(owner(), "Orphan"),
        Action::Delete(owner(), "Foreground"),
        Action::Delete(owner(), "Background"),
        Action::Delete(key("secrets", "a", "child"), "Background"),
        Action::Delete(key(WIDGETS, "a", "child"), "Foreground"),
    ]
}

/// The uids of what is owned by an object.
fn dependents(api: &Api, owner: &Value) -> Vec<Value> {
    let uid = &owner["metadata"]["uid"];
    let names_it = |object: &Value| object.pointer("/metadata/ownerReferences/0/uid") == Some(uid);
    let all = api.all().into_iter().map(|(_, object)| object);
    all.filter(names_it)
        .map(|object| object["metadata"]["uid"].clone())
        .collect()
}

/// Whether the first deletion of an object was a controller's.
fn deleted_by_controller(api: &Api, uid: &Value) -> bool {
    let events = api.events_since(0);
    let first = events.iter().find(|event| {
        let metadata = &event.object["metadata"];
        let deleted = event.kind == "DELETED" || metadata.get("deletionTimestamp").is_some();
        metadata["uid"] == *uid && deleted
    });
    first.is_some_and(|event| event.by_controller)
}

async fn run(steps: &[Step]) {
    let mut cluster = family();
    cluster.restart();
    let mut kept = Vec::new();
    for step in steps {
        if let Step::User(Action::Delete(key, policy)) = step
            && let Some(object) = cluster.api.get(&key.resource, &key.namespace, &key.name)
        {
            if object.pointer("/metadata/deletionTimestamp").is_some() {
                continue;
            }
            if *policy == "Orphan" {
                kept.extend(dependents(&cluster.api, &object));
            }
        }
        cluster.step(step).await;
    }
    cluster.settle().await;
    let lost: Vec<&Value> = kept
        .iter()
        .filter(|uid| deleted_by_controller(&cluster.api, uid))
        .collect();
    assert!(
        lost.is_empty(),
        "deleted although a user asked to keep them: {lost:?}"
    );
    let all = cluster.api.all();
    for (key, object) in &all {
        if let Some(owner) = object.pointer("/metadata/ownerReferences/0/uid") {
            let owned = all
                .iter()
                .any(|(_, other)| other["metadata"]["uid"] == *owner);
            assert!(owned, "{key:?} is left though its owner is gone");
        }
    }
}

proptest! {
    #![proptest_config(cases(30))]

    #[test]
    fn orphans_are_kept_and_nothing_is_left_without_its_owner(
        seed in any::<u64>(),
        steps in history(actions(), &["secrets", "configmaps", WIDGETS, DEFINITIONS], 10),
    ) {
        simulate(seed, || run(&steps));
    }
}

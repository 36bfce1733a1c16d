//! Tests changes that wake pods waiting for volumes.

use std::sync::Arc;

use control_client::View;
use serde_json::{Value, json};

use super::*;
use crate::snapshot::Wake;

fn change<V: View>(old: &Value, new: &Value) -> Change<V> {
    let read = |object: &Value| {
        let object = Some(object).filter(|object| !object.is_null());
        object.map(|object| Arc::new(serde_json::from_value(object.clone()).expect("an object")))
    };
    Change {
        previous: read(old),
        current: read(new),
    }
}

fn pod(volume: &Value) -> Pod {
    let pod = json!({"metadata": {"name": "p", "namespace": "n", "uid": "p"},
        "spec": {"volumes": [volume]}});
    serde_json::from_value(pod).expect("a pod")
}

fn with_claim(name: &str) -> Pod {
    pod(&json!({"name": "v", "persistentVolumeClaim": {"claimName": name}}))
}

fn object(event: &CatalogEvent) -> Event<'_> {
    Event {
        wake: event.wake(),
        subject: Subject::Object(event),
    }
}

fn gone(pod: &Pod) -> Event<'_> {
    Event::pod_removed(pod)
}

#[test]
fn only_claims_of_the_pod_matter() {
    let claim = |name: &str| json!({"metadata": {"name": name, "namespace": "n"}});
    let event = |old: &Value, new: &Value| CatalogEvent::PersistentVolumeClaim(change(old, new));
    let waiting = with_claim("x");
    let added = event(&Value::Null, &claim("x"));
    let changed = event(&claim("x"), &claim("x"));
    let of_another = event(&Value::Null, &claim("y"));
    for hint in [restrictions, limits, binding, zone] {
        assert!(hint(&waiting, &object(&added)));
        assert!(!hint(&waiting, &object(&of_another)));
    }
    for (hint, wakes) in [
        (restrictions as fn(&Pod, &Event<'_>) -> bool, false),
        (limits, false),
        (binding, true),
        (zone, true),
    ] {
        assert_eq!(hint(&waiting, &object(&changed)), wakes);
    }
}

#[test]
fn a_pod_that_goes_matters_if_it_used_the_same_storage() {
    let disk = |name: &str, read_only: bool| {
        pod(&json!({"name": "v", "gcePersistentDisk": {"pdName": name, "readOnly": read_only}}))
    };
    assert!(restrictions(&with_claim("x"), &gone(&with_claim("x"))));
    assert!(!restrictions(&with_claim("x"), &gone(&with_claim("y"))));
    assert!(restrictions(&disk("d", true), &gone(&disk("d", false))));
    assert!(!restrictions(&disk("d", true), &gone(&disk("d", true))));
    assert!(limits(&with_claim("x"), &gone(&with_claim("y"))));
    assert!(!limits(
        &with_claim("x"),
        &gone(&pod(&json!({"name": "v", "emptyDir": {}})))
    ));
}

#[test]
fn a_raised_or_lifted_limit_matters() {
    let node = |drivers: Value| json!({"metadata": {"name": "n"}, "spec": {"drivers": drivers}});
    let limit = |count: u32| json!([{"name": "d", "allocatable": {"count": count}}]);
    let wakes = |old: Value, new: Value| {
        let event = CatalogEvent::CsiNode(change(&node(old), &node(new)));
        limits(&with_claim("x"), &object(&event))
    };
    assert!(wakes(limit(1), limit(2)));
    assert!(!wakes(limit(2), limit(1)));
    assert!(wakes(limit(1), json!([{"name": "d"}])));
    assert!(wakes(limit(1), json!([])));
    assert!(wakes(json!([]), limit(1)));
    assert!(!wakes(limit(1), limit(1)));
}

#[test]
fn room_that_grows_matters() {
    let capacity =
        |size: Value| json!({"metadata": {"name": "c", "namespace": "n"}, "capacity": size});
    let wakes = |old: Value, new: Value| {
        let event = CatalogEvent::CsiStorageCapacity(change(&old, &new));
        binding(&with_claim("x"), &object(&event))
    };
    assert!(wakes(Value::Null, capacity(json!("1Gi"))));
    assert!(wakes(capacity(json!("1Gi")), capacity(json!("2Gi"))));
    assert!(wakes(capacity(Value::Null), capacity(json!("1Gi"))));
    assert!(!wakes(capacity(json!("2Gi")), capacity(json!("1Gi"))));
    assert!(!wakes(capacity(json!("2Gi")), Value::Null));
    let driver =
        |tracks: bool| json!({"metadata": {"name": "d"}, "spec": {"storageCapacity": tracks}});
    for (old, new, expected) in [
        (true, false, true),
        (false, true, false),
        (true, true, false),
    ] {
        let event = CatalogEvent::CsiDriver(change(&driver(old), &driver(new)));
        assert_eq!(binding(&with_claim("x"), &object(&event)), expected);
    }
}

#[test]
fn classes_and_volumes_matter_where_they_say_where() {
    let class = |mode: &str, zone: &str| {
        json!({"metadata": {"name": "c"}, "volumeBindingMode": mode,
        "allowedTopologies": [{"matchLabelExpressions": [{"key": "z", "values": [zone]}]}]})
    };
    let late = "WaitForFirstConsumer";
    let event = |old: Value, new: Value| CatalogEvent::StorageClass(change(&old, &new));
    let waiting = with_claim("x");
    let added = event(Value::Null, class(late, "a"));
    assert!(binding(&waiting, &object(&added)) && zone(&waiting, &object(&added)));
    let immediate = event(Value::Null, class("Immediate", "a"));
    assert!(binding(&waiting, &object(&immediate)) && !zone(&waiting, &object(&immediate)));
    let moved = event(class(late, "a"), class(late, "b"));
    assert!(binding(&waiting, &object(&moved)) && !zone(&waiting, &object(&moved)));
    let same = event(class(late, "a"), class(late, "a"));
    assert!(!binding(&waiting, &object(&same)));

    let volume = |zone: &str| json!({"metadata": {"name": "v", "labels": {"topology.kubernetes.io/zone": zone}}});
    let relabelled = CatalogEvent::PersistentVolume(change(&volume("a"), &volume("b")));
    let unchanged = CatalogEvent::PersistentVolume(change(&volume("a"), &volume("a")));
    assert!(zone(&waiting, &object(&relabelled)) && !zone(&waiting, &object(&unchanged)));
    assert!(binding(&waiting, &object(&unchanged)));
}

#[test]
fn nodes_matter_to_all() {
    let event = Event {
        wake: Wake::NODE_ADDED,
        subject: Subject::Node {
            old: None,
            new: None,
        },
    };
    for hint in [restrictions, limits, binding, zone] {
        assert!(hint(&with_claim("x"), &event));
    }
}

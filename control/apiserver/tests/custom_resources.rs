//! Resources that a CustomResourceDefinition brings: served as soon as their
//! names are accepted, pruned, defaulted and validated by their schema, gone
//! with their definition.

mod common;

use std::time::Duration;

use common::{ask, events, root, send, server};
use control_apiserver::ApiServer;
use control_types::value;
use control_types::value::Value;
use http::Method;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const GEARS: &str = "/apis/example.com/v1/namespaces/default/gears";

fn definition() -> Value {
    value!({
        "metadata": {"name": "gears.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "gears", "singular": "gear", "kind": "Gear", "listKind": "GearList", "shortNames": ["gr"]},
            "versions": [
                {"name": "v1", "served": true, "storage": true,
                 "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
                 "selectableFields": [{"jsonPath": ".spec.color"}],
                 "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {
                        "color": {"type": "string", "default": "red", "enum": ["red", "blue"]},
                        "replicas": {"type": "integer", "minimum": 0}
                    }},
                    "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}}
                 }}}},
                {"name": "v1beta1", "served": true, "storage": false,
                 "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}
            ]
        }
    })
}

fn gear(name: &str, spec: Value) -> Value {
    value!({"apiVersion": "example.com/v1", "kind": "Gear", "metadata": {"name": name}, "spec": spec})
}

/// Defines gears and waits until they are served.
async fn defined(server: &ApiServer) {
    let (code, made) = ask(
        server,
        &root(),
        Method::POST,
        DEFINITIONS,
        Some(definition()),
    )
    .await;
    assert_eq!(code, 201, "{made:?}");
    for _ in 0..100 {
        let (code, _) = ask(server, &root(), Method::GET, GEARS, None).await;
        if code == 200 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("gears are not served");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_are_pruned_defaulted_and_validated_by_their_schema() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, root) = (server(dir.path()).await, root());
    let (code, _) = ask(&server, &root, Method::GET, GEARS, None).await;
    assert_eq!(code, 404, "nobody has defined gears");
    defined(&server).await;
    let sent = gear("a", value!({"replicas": 1, "bogus": 2}));
    let (code, made) = ask(&server, &root, Method::POST, GEARS, Some(sent)).await;
    assert_eq!(code, 201, "{made:?}");
    assert_eq!(
        made.get("spec"),
        Some(&value!({"color": "red", "replicas": 1}))
    );
    let wrong = gear("b", value!({"replicas": -1}));
    let (code, refused) = ask(&server, &root, Method::POST, GEARS, Some(wrong)).await;
    assert_eq!(code, 422);
    assert_eq!(
        refused.str_at(&["message"]),
        Some(
            "Gear.example.com \"b\" is invalid: [spec.replicas: Invalid value: -1: spec.replicas in body should be greater than or equal to 0, .spec.replicas: Invalid value: -1: should be a non-negative integer]"
        )
    );
    let (_, list) = ask(
        &server,
        &root,
        Method::GET,
        &format!("{GEARS}?fieldSelector=spec.color%3Dblue"),
        None,
    )
    .await;
    assert_eq!(list.str_at(&["kind"]), Some("GearList"));
    assert!(list.items_at(&["items"]).is_empty());
    let old = "/apis/example.com/v1beta1/namespaces/default/gears/a";
    let (code, other) = ask(&server, &root, Method::GET, old, None).await;
    assert_eq!(
        (code, other.str_at(&["apiVersion"])),
        (200, Some("example.com/v1beta1"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_and_scale_are_written_through_their_subresources() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, root) = (server(dir.path()).await, root());
    defined(&server).await;
    let sent = gear("a", value!({"replicas": 1}));
    let (code, _) = ask(&server, &root, Method::POST, GEARS, Some(sent)).await;
    assert_eq!(code, 201);
    let patch = value!({"spec": {"replicas": 9}, "status": {"replicas": 5}});
    let path = format!("{GEARS}/a/status");
    let (code, now) = ask(&server, &root, Method::PATCH, &path, Some(patch)).await;
    assert_eq!(code, 200, "{now:?}");
    assert_eq!(now.i64_at(&["spec", "replicas"]), Some(1));
    assert_eq!(now.i64_at(&["status", "replicas"]), Some(5));
    assert_eq!(now.i64_at(&["metadata", "generation"]), Some(1));
    let path = format!("{GEARS}/a/scale");
    let patch = value!({"spec": {"replicas": 3}});
    let (code, scale) = ask(&server, &root, Method::PATCH, &path, Some(patch)).await;
    assert_eq!(code, 200, "{scale:?}");
    assert_eq!(scale.i64_at(&["status", "replicas"]), Some(5));
    let (_, now) = ask(&server, &root, Method::GET, &format!("{GEARS}/a"), None).await;
    assert_eq!(now.i64_at(&["spec", "replicas"]), Some(3));
    assert_eq!(now.i64_at(&["metadata", "generation"]), Some(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_go_before_their_definition_and_watches_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, root) = (server(dir.path()).await, root());
    defined(&server).await;
    let sent = gear("a", value!({}));
    let (code, _) = ask(&server, &root, Method::POST, GEARS, Some(sent)).await;
    assert_eq!(code, 201);
    let (_, groups) = ask(&server, &root, Method::GET, "/apis/example.com/v1", None).await;
    let names: Vec<_> = groups
        .items_at(&["resources"])
        .iter()
        .filter_map(|one| one.str_at(&["name"]))
        .collect();
    assert_eq!(names, ["gears", "gears/status", "gears/scale"]);
    let watch = format!("{GEARS}?watch=1&resourceVersion=0");
    let watch = send(&server, &root, Method::GET, &watch, &[], None).await;
    let one = format!("{DEFINITIONS}/gears.example.com");
    let (code, _) = ask(&server, &root, Method::DELETE, &one, None).await;
    assert_eq!(code, 200);
    let mut gone = false;
    for _ in 0..100 {
        let (code, _) = ask(&server, &root, Method::GET, &one, None).await;
        gone = code == 404;
        if gone {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(gone, "the definition stays");
    let seen = events(watch).await;
    let kinds: Vec<_> = seen
        .iter()
        .filter_map(|one| one.str_at(&["type"]))
        .collect();
    assert_eq!(kinds, ["ADDED", "DELETED"]);
    let (code, _) = ask(&server, &root, Method::GET, GEARS, None).await;
    assert_eq!(code, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_starts_serves_what_was_defined() {
    let dir = tempfile::tempdir().expect("a directory");
    let first = server(dir.path()).await;
    defined(&first).await;
    let sent = gear("a", value!({}));
    let (code, _) = ask(&first, &root(), Method::POST, GEARS, Some(sent)).await;
    assert_eq!(code, 201);
    let second = common::beside(&first).await;
    let (code, found) = ask(&second, &root(), Method::GET, &format!("{GEARS}/a"), None).await;
    assert_eq!(code, 200, "{found:?}");
    assert_eq!(found.str_at(&["spec", "color"]), Some("red"));
}

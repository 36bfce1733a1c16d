//! Resources that a CustomResourceDefinition brings: served as soon as their
//! names are accepted, pruned, defaulted and validated by their schema, gone
//! with their definition.

mod common;

use std::time::{Duration, Instant};

use common::{ask, events, root, send, server};
use control_apiserver::ApiServer;
use control_types::value;
use control_types::value::Value;
use http::Method;
use http_body_util::BodyExt as _;

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_established_is_served_within_100_ms() {
    const MOST: Duration = Duration::from_millis(100);
    let dir = tempfile::tempdir().expect("a directory");
    let (server, root) = (server(dir.path()).await, root());
    let get = async |path: &str| ask(&server, &root, Method::GET, path, None).await;
    // What is made once for all definitions is not of this one.
    for path in ["/openapi/v2", "/openapi/v3", "/apis"] {
        assert_eq!(get(path).await.0, 200);
    }
    let watch = format!("{DEFINITIONS}?watch=1");
    let mut watch = send(&server, &root, Method::GET, &watch, &[], None)
        .await
        .into_body();
    let sent = Some(definition());
    let (code, _) = ask(&server, &root, Method::POST, DEFINITIONS, sent).await;
    assert_eq!(code, 201);
    let begun = Instant::now();
    let established = value!({"type": "Established", "status": "True"});
    loop {
        let frame = tokio::time::timeout(Duration::from_secs(20), watch.frame()).await;
        let frame = frame.expect("in time").expect("more").expect("no error");
        let line = frame.into_data().expect("data");
        let events = line
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty());
        let mut objects = events.map(|line| Value::from_slice(line).expect("an event"));
        let says_so = |event: &Value| {
            let conditions = event.items_at(&["object", "status", "conditions"]);
            conditions.iter().any(|one| {
                ["type", "status"]
                    .iter()
                    .all(|member| one.get(member) == established.get(member))
            })
        };
        if objects.any(|event| says_so(&event)) {
            break;
        }
    }
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
    let since = Instant::now();
    let mut shown = Vec::new();
    for (path, is_shown) in SHOWN {
        loop {
            let (code, answer) = get(path).await;
            let took = since.elapsed();
            if code == 200 && is_shown(&answer) {
                println!("{path}: shown {took:?} after it was established");
                shown.push(took);
                break;
            }
            assert!(took < Duration::from_secs(20), "{path}: {code} {answer:?}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    // Documents are made by many steps that a debug build takes slowly: their time is
    // that of a release build (docs/performance.md).
    assert!(shown[..3].iter().all(|took| *took < MOST), "{shown:?}");
    assert!(shown[3..].iter().all(|took| *took < 50 * MOST), "{shown:?}");
}

/// Where a definition is seen, and how.
const SHOWN: &[(&str, fn(&Value) -> bool)] = &[
    (GEARS, |list| list.get("items").is_some()),
    ("/apis/example.com/v1", |list| {
        list.items_at(&["resources"]).len() == 3
    }),
    ("/apis", |list| {
        let mut groups = list.items_at(&["groups"]).iter();
        groups.any(|group| group.str_at(&["name"]) == Some("example.com"))
    }),
    ("/openapi/v3/apis/example.com/v1", |document| {
        let path = ["components", "schemas", "com.example.v1.Gear"];
        document.path(&path).is_some()
    }),
    ("/openapi/v2", |document| {
        let path = ["definitions", "com.example.v1.Gear"];
        document.path(&path).is_some()
    }),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_stored_in_another_version_loses_nothing_until_it_is_written() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, root) = (server(dir.path()).await, root());
    let ask = async |method: Method, path: &str, object: Option<Value>| {
        ask(&server, &root, method, path, object).await
    };
    let version = |name: &str, field: &str, storage: bool| {
        let mut properties = Value::object();
        properties.insert(field.to_owned(), value!({"type": "string"}));
        properties.insert("both", value!({"type": "string"}));
        value!({"name": (name), "served": true, "storage": (storage), "schema": {
            "openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": (properties)}
            }}
        }})
    };
    let mut definition = definition();
    let versions = |first: bool| {
        value!([
            (version("v1", "old", first)),
            (version("v2", "new", !first))
        ])
    };
    let spec = definition.get_mut("spec").expect("there");
    spec.insert("versions", versions(true));
    let (code, _) = ask(Method::POST, DEFINITIONS, Some(definition)).await;
    assert_eq!(code, 201);
    let served = async |path: &str, wanted: &Value| {
        for _ in 0..200 {
            let (_, found) = ask(Method::GET, path, None).await;
            if found.get("spec") == Some(wanted) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{path}: {:?}", ask(Method::GET, path, None).await);
    };
    let whole = value!({"both": "b", "old": "o"});
    let (v1, v2) = (GEARS, GEARS.replace("/v1/", "/v2/"));
    for _ in 0..200 {
        if ask(Method::POST, v1, Some(gear("a", whole.clone())))
            .await
            .0
            == 201
        {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let path = format!("{DEFINITIONS}/gears.example.com");
    let (_, mut definition) = ask(Method::GET, &path, None).await;
    let spec = definition.get_mut("spec").expect("there");
    spec.insert("versions", versions(false));
    let (code, changed) = ask(Method::PUT, &path, Some(definition)).await;
    assert_eq!(code, 200, "{changed:?}");
    let (one, two) = (format!("{v1}/a"), format!("{v2}/a"));
    served(&two, &value!({"both": "b"})).await;
    served(&one, &whole).await;
    let (_, list) = ask(Method::GET, v1, None).await;
    assert_eq!(list.items_at(&["items"])[0].get("spec"), Some(&whole));
    let (_, list) = ask(Method::GET, &v2, None).await;
    let item = &list.items_at(&["items"])[0];
    assert_eq!(item.str_at(&["apiVersion"]), Some("example.com/v2"));
    assert_eq!(item.get("spec"), Some(&value!({"both": "b"})));
    let seen = async |path: &str| {
        let path = format!("{path}?watch=1&resourceVersion=0&timeoutSeconds=1");
        let events = events(send(&server, &root, Method::GET, &path, &[], None).await).await;
        events[0].path(&["object", "spec"]).cloned()
    };
    assert_eq!(seen(v1).await, Some(whole));
    assert_eq!(seen(&v2).await, Some(value!({"both": "b"})));
    // A write that changes nothing stores it in the present version.
    let (_, same) = ask(Method::GET, &two, None).await;
    let before = same.path(&["metadata", "resourceVersion"]).cloned();
    let (code, written) = ask(Method::PUT, &two, Some(same)).await;
    assert_eq!(code, 200);
    assert_ne!(
        written.path(&["metadata", "resourceVersion"]).cloned(),
        before
    );
    served(&one, &value!({"both": "b"})).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn null_that_is_applied_is_no_value_of_what_is_not_nullable() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, root) = (server(dir.path()).await, root());
    defined(&server).await;
    let body = |field: &str| {
        let mut spec = Value::object();
        spec.insert(field.to_owned(), Value::Null);
        Some(
            value!({"apiVersion": "example.com/v1", "kind": "Gear", "metadata": {"name": "a"}, "spec": (spec)}),
        )
    };
    let path = format!("{GEARS}/a?fieldManager=m");
    let headers = [("content-type", "application/apply-patch+yaml")];
    let answer = send(
        &server,
        &root,
        Method::PATCH,
        &path,
        &headers,
        body("replicas"),
    )
    .await;
    assert_eq!(answer.status(), 422);
    let answer = send(
        &server,
        &root,
        Method::PATCH,
        &path,
        &headers,
        body("color"),
    )
    .await;
    assert_eq!(answer.status(), 201, "a default takes the place of null");
}

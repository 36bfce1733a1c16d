//! Custom resources whose versions a webhook converts: on every way in and out, and
//! not at all while it gives no good answer.

mod common;
#[path = "common/webhook.rs"]
mod webhook;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{ask, events, root, send, server};
use control_apiserver::ApiServer;
use control_types::meta;
use control_types::value;
use control_types::value::Value;
use http::Method;
use webhook::{Fake, Reply};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const V1: &str = "/apis/example.com/v1/namespaces/default/gears";
const V2: &str = "/apis/example.com/v2/namespaces/default/gears";

fn definition(client: Value) -> Value {
    let schema = |field: &str| {
        let mut properties = Value::object();
        properties.insert(field.to_owned(), value!({"type": "string"}));
        properties.insert("size", value!({"type": "integer", "default": 1}));
        value!({"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "properties": (properties)}
        }}})
    };
    value!({
        "metadata": {"name": "gears.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "gears", "singular": "gear", "kind": "Gear", "listKind": "GearList"},
            "conversion": {"strategy": "Webhook", "webhook": {
                "clientConfig": (client), "conversionReviewVersions": ["v1"]
            }},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": (schema("host")),
                 "selectableFields": [{"jsonPath": ".spec.host"}]},
                {"name": "v2", "served": true, "storage": false, "schema": (schema("address")),
                 "selectableFields": [{"jsonPath": ".spec.address"}]}
            ]
        }
    })
}

/// What a good webhook answers: `host` of v1 is `address` of v2.
fn convert(question: &Value) -> Reply {
    let request = question.get("request").cloned().unwrap_or_default();
    let to = request.str_at(&["desiredAPIVersion"]).unwrap_or_default();
    let (from_field, to_field) = match to {
        "example.com/v2" => ("host", "address"),
        _ => ("address", "host"),
    };
    let objects: Vec<Value> = request
        .items_at(&["objects"])
        .iter()
        .map(|object| {
            let mut object = object.clone();
            object.insert("apiVersion", to);
            if let Some(spec) = object.get_mut("spec")
                && let Some(value) = spec.remove(from_field)
            {
                spec.insert(to_field.to_owned(), value);
            }
            object
        })
        .collect();
    answer(&request, objects)
}

fn answer(request: &Value, objects: Vec<Value>) -> Reply {
    let uid = request.str_at(&["uid"]).unwrap_or_default();
    Reply::Object(value!({
        "kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1",
        "response": {"uid": (uid), "result": {"status": "Success"}, "convertedObjects": (objects)}
    }))
}

fn gear(version: &str, name: &str, spec: Value) -> Value {
    value!({
        "apiVersion": (format!("example.com/{version}")), "kind": "Gear",
        "metadata": {"name": (name)}, "spec": (spec)
    })
}

/// Defines gears and waits until they are served.
async fn defined(server: &ApiServer, client: Value) {
    let sent = Some(definition(client));
    let (code, made) = ask(server, &root(), Method::POST, DEFINITIONS, sent).await;
    assert_eq!(code, 201, "{made:?}");
    for _ in 0..200 {
        let (code, _) = ask(server, &root(), Method::GET, V1, None).await;
        let path = "/api/v1/namespaces/default";
        let (there, _) = ask(server, &root(), Method::GET, path, None).await;
        if (code, there) == (200, 200) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("gears are not served");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_are_converted_on_every_way_in_and_out() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, root) = (server(dir.path()).await, root());
    let fake = Fake::start(|_, question| convert(question)).await;
    defined(&server, fake.at("/convert")).await;
    let ask = async |method: Method, path: &str, object: Option<Value>| {
        ask(&server, &root, method, path, object).await
    };
    let spec = |object: &Value| object.get("spec").cloned().unwrap_or_default();
    let (two, one) = (format!("{V2}/a"), format!("{V1}/a"));

    let sent = gear("v2", "a", value!({"address": "x"}));
    let (code, made) = ask(Method::POST, V2, Some(sent)).await;
    assert_eq!(code, 201, "{made:?}");
    assert_eq!(spec(&made), value!({"address": "x", "size": 1}));
    let (_, read) = ask(Method::GET, &one, None).await;
    assert_eq!(spec(&read), value!({"host": "x", "size": 1}));
    assert_eq!(read.str_at(&["apiVersion"]), Some("example.com/v1"));
    let (_, read) = ask(Method::GET, &two, None).await;
    assert_eq!(spec(&read), value!({"address": "x", "size": 1}));
    assert_eq!(meta::resource_version(&read), meta::resource_version(&made));

    // Who watches sees what is there and what changes, in the version asked for.
    let path = format!("{V2}?watch=true&resourceVersion=0");
    let watch = send(&server, &root, Method::GET, &path, &[], None).await;
    let change = value!({"spec": {"address": "y"}});
    let (code, changed) = ask(Method::PATCH, &two, Some(change)).await;
    assert_eq!(
        (code, changed.str_at(&["spec", "address"])),
        (200, Some("y"))
    );
    let (_, mut whole) = ask(Method::GET, &one, None).await;
    whole.set_path(&["spec", "host"], "z");
    let (code, _) = ask(Method::PUT, &one, Some(whole)).await;
    assert_eq!(code, 200);
    let (code, _) = ask(Method::DELETE, &two, None).await;
    assert_eq!(code, 200);
    let seen: Vec<(String, String)> = events(watch)
        .await
        .iter()
        .map(|event| {
            let text = |path: &[&str]| event.str_at(path).unwrap_or_default().to_owned();
            assert_eq!(text(&["object", "apiVersion"]), "example.com/v2");
            (text(&["type"]), text(&["object", "spec", "address"]))
        })
        .collect();
    let wanted = [
        ("ADDED", "x"),
        ("MODIFIED", "y"),
        ("MODIFIED", "z"),
        ("DELETED", "z"),
    ];
    assert_eq!(
        seen,
        wanted.map(|(kind, at)| (kind.to_owned(), at.to_owned()))
    );

    // A list is converted together.
    for name in ["b", "c", "d"] {
        let sent = gear("v1", name, value!({"host": (name)}));
        let (code, _) = ask(Method::POST, V1, Some(sent)).await;
        assert_eq!(code, 201);
    }
    server.api().catch_up().await.expect("caches");
    fake.take();
    let (code, list) = ask(Method::GET, V2, None).await;
    assert_eq!(code, 200);
    let addresses: Vec<&str> = list
        .items_at(&["items"])
        .iter()
        .filter_map(|item| item.str_at(&["spec", "address"]))
        .collect();
    assert_eq!(addresses, ["b", "c", "d"]);
    assert_eq!(fake.take().len(), 1);
    // It is remembered, and the version that is stored needs nobody.
    let (_, _) = ask(Method::GET, V2, None).await;
    let (_, list) = ask(Method::GET, V1, None).await;
    assert_eq!(
        list.items_at(&["items"])[0].str_at(&["spec", "host"]),
        Some("b")
    );
    assert_eq!(fake.take().len(), 0);
    let (code, gone) = ask(Method::DELETE, V2, None).await;
    assert_eq!(
        (code, gone.items_at(&["items"]).len()),
        (200, 3),
        "{gone:?}"
    );
    assert_eq!(
        gone.items_at(&["items"])[2].str_at(&["spec", "address"]),
        Some("d")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owners_of_fields_are_found_in_other_versions() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, root) = (server(dir.path()).await, root());
    let fake = Fake::start(|_, question| convert(question)).await;
    defined(&server, fake.at("/convert")).await;
    let apply = async |version: &str, manager: &str, spec: Value| {
        let path = format!(
            "/apis/example.com/{version}/namespaces/default/gears/a?fieldManager={manager}"
        );
        let headers = [("content-type", "application/apply-patch+yaml")];
        let sent = Some(gear(version, "a", spec));
        let answer = send(&server, &root, Method::PATCH, &path, &headers, sent).await;
        let code = answer.status().as_u16();
        server.api().catch_up().await.expect("caches");
        code
    };
    assert_eq!(apply("v1", "one", value!({"host": "x"})).await, 201);
    // The same field under another name is the other's.
    assert_eq!(apply("v2", "two", value!({"address": "y"})).await, 409);
    assert_eq!(
        apply("v2", "two", value!({"address": "x", "size": 3})).await,
        200
    );
    // Who gives it up leaves it to the other.
    assert_eq!(apply("v1", "one", value!({})).await, 200);
    let (_, read) = ask(&server, &root, Method::GET, &format!("{V1}/a"), None).await;
    assert_eq!(read.get("spec"), Some(&value!({"host": "x", "size": 3})));
    assert_eq!(apply("v2", "two", value!({"size": 3})).await, 200);
    let (_, read) = ask(&server, &root, Method::GET, &format!("{V1}/a"), None).await;
    assert_eq!(read.get("spec"), Some(&value!({"size": 3})));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_are_selected_by_the_fields_of_the_version_asked_for() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, root) = (server(dir.path()).await, root());
    let fake = Fake::start(|_, question| convert(question)).await;
    defined(&server, fake.at("/convert")).await;
    let ask = async |method: Method, path: &str, object: Option<Value>| {
        let (code, answer) = ask(&server, &root, method, path, object).await;
        server.api().catch_up().await.expect("caches");
        (code, answer)
    };
    for (name, host) in [("a", "x"), ("b", "y"), ("c", "x")] {
        let sent = gear("v1", name, value!({"host": (host)}));
        let (code, _) = ask(Method::POST, V1, Some(sent)).await;
        assert_eq!(code, 201);
    }
    let names = |list: &Value| -> Vec<String> {
        let items = list.items_at(&["items"]).iter();
        items.map(|item| meta::name(item).to_owned()).collect()
    };
    // Path, code, who is found.
    let one = format!("{V2}?fieldSelector=spec.address%3Dx&limit=1");
    let table = [
        (
            format!("{V1}?fieldSelector=spec.host%3Dx"),
            200,
            vec!["a", "c"],
        ),
        (
            format!("{V2}?fieldSelector=spec.address%3Dx"),
            200,
            vec!["a", "c"],
        ),
        (
            format!("{V2}?fieldSelector=spec.address!%3Dx"),
            200,
            vec!["b"],
        ),
        (one.clone(), 200, vec!["a"]),
        (format!("{V2}?fieldSelector=spec.host%3Dx"), 400, vec![]),
    ];
    for (path, code, found) in table {
        let (got, list) = ask(Method::GET, &path, None).await;
        assert_eq!(
            (got, names(&list)),
            (code, found.iter().map(ToString::to_string).collect()),
            "{path}"
        );
    }
    let (_, list) = ask(Method::GET, &one, None).await;
    let next = list.str_at(&["metadata", "continue"]).unwrap_or_default();
    let (_, list) = ask(Method::GET, &format!("{one}&continue={next}"), None).await;
    assert_eq!(names(&list), ["c"]);

    // A watch sees what comes to be selected, and what ceases to be, as it was.
    let path = format!("{V2}?watch=true&resourceVersion=0&fieldSelector=spec.address%3Dx");
    let watch = send(&server, &root, Method::GET, &path, &[], None).await;
    for (name, address) in [("b", "x"), ("a", "z"), ("a", "w")] {
        let change = Some(value!({"spec": {"address": (address)}}));
        let (code, _) = ask(Method::PATCH, &format!("{V2}/{name}"), change).await;
        assert_eq!(code, 200);
    }
    let (code, _) = ask(Method::DELETE, &format!("{V1}/c"), None).await;
    assert_eq!(code, 200);
    let seen: Vec<String> = events(watch)
        .await
        .iter()
        .map(|event| {
            let text = |path: &[&str]| event.str_at(path).unwrap_or_default();
            let (name, address) = (
                &["object", "metadata", "name"],
                &["object", "spec", "address"],
            );
            format!("{} {} {}", text(&["type"]), text(name), text(address))
        })
        .collect();
    assert_eq!(
        seen,
        [
            "ADDED a x",
            "ADDED c x",
            "ADDED b x",
            "DELETED a x",
            "DELETED c x"
        ]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_shown_that_was_not_converted() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, root) = (server(dir.path()).await, root());
    let broken = Arc::new(AtomicBool::new(true));
    let state = Arc::clone(&broken);
    let fake = Fake::start(move |_, question| {
        if !state.load(Ordering::SeqCst) {
            return convert(question);
        }
        let request = question.get("request").cloned().unwrap_or_default();
        let mut objects = request.items_at(&["objects"]).to_vec();
        for object in &mut objects {
            object.insert("apiVersion", "example.com/v2");
            meta::set_name(object, "other");
        }
        answer(&request, objects)
    })
    .await;
    defined(&server, fake.at("/convert")).await;
    let ask = async |method: Method, path: &str, object: Option<Value>| {
        ask(&server, &root, method, path, object).await
    };
    let sent = gear("v1", "a", value!({"host": "x"}));
    let (code, _) = ask(Method::POST, V1, Some(sent)).await;
    assert_eq!(code, 201);
    let why = "conversion webhook for example.com/v1, Kind=Gear returned invalid object: must have the same name: a != other";
    let refused = value!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": (why), "code": 500
    });
    for path in [format!("{V2}/a"), V2.to_owned(), format!("{V2}?watch=true")] {
        let (code, answer) = ask(Method::GET, &path, None).await;
        assert_eq!((code, &answer), (500, &refused), "{path}");
    }
    let change = || Some(value!({"spec": {"address": "y"}}));
    let (code, answer) = ask(Method::PATCH, &format!("{V2}/a"), change()).await;
    assert_eq!((code, answer), (500, refused));
    // What is stored needs no webhook.
    let (code, read) = ask(Method::GET, &format!("{V1}/a"), None).await;
    assert_eq!((code, read.str_at(&["spec", "host"])), (200, Some("x")));
    broken.store(false, Ordering::SeqCst);
    let (code, read) = ask(Method::PATCH, &format!("{V2}/a"), change()).await;
    assert_eq!((code, read.str_at(&["spec", "address"])), (200, Some("y")));

    // Objects that were stored when another version was the stored one are converted,
    // and not renamed.
    let path = format!("{DEFINITIONS}/gears.example.com");
    let (_, mut definition) = ask(Method::GET, &path, None).await;
    let versions = definition
        .get_mut("spec")
        .and_then(|spec| spec.get_mut("versions"));
    let versions = versions.map(Value::make_array).expect("versions");
    versions[0].insert("storage", false);
    versions[1].insert("storage", true);
    let (code, answer) = ask(Method::PUT, &path, Some(definition)).await;
    assert_eq!(code, 200, "{answer:?}");
    server.api().catch_up().await.expect("caches");
    for (path, field) in [(V1, "host"), (V2, "address")] {
        let (code, read) = ask(Method::GET, &format!("{path}/a"), None).await;
        assert_eq!(
            (code, read.str_at(&["spec", field])),
            (200, Some("y")),
            "{path}"
        );
        let (code, read) = ask(Method::GET, path, None).await;
        let items = read.items_at(&["items"]);
        assert_eq!(
            (code, items[0].str_at(&["spec", field])),
            (200, Some("y")),
            "{path}"
        );
    }
}

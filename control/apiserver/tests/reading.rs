//! What a recording of a server's answers cannot show of lists and watches.

mod common;

use std::time::Duration;

use common::{ask, root, send, server};
use control_types::value;
use control_types::value::Value;
use http::Method;
use http_body_util::BodyExt as _;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn names(list: &Value) -> Vec<&str> {
    let items = list.items_at(&["items"]).iter();
    items
        .filter_map(|item| item.str_at(&["metadata", "name"]))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_goes_on_in_the_present_when_its_past_is_forgotten() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, root) = (server(dir.path()).await, root());
    for name in ["a", "b", "c"] {
        let map = value!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}});
        let (code, _) = ask(&server, &root, Method::POST, MAPS, Some(map)).await;
        assert_eq!(code, 201);
    }
    let query = format!("{MAPS}?limit=1");
    let (_, first) = ask(&server, &root, Method::GET, &query, None).await;
    assert_eq!(names(&first), ["a"]);
    let token = first
        .str_at(&["metadata", "continue"])
        .expect("more")
        .to_owned();
    // The list's past is forgotten, and one of the objects with it.
    let (code, _) = ask(&server, &root, Method::DELETE, &format!("{MAPS}/b"), None).await;
    assert_eq!(code, 200);
    let store = server.api().store();
    let newest = store.revision();
    store.compact(newest).await.expect("compacted");
    let query = format!("{MAPS}?limit=1&continue={token}");
    let (code, gone) = ask(&server, &root, Method::GET, &query, None).await;
    assert_eq!(
        (code, gone.str_at(&["reason"])),
        (410, Some("Expired")),
        "{gone:?}"
    );
    let token = gone
        .str_at(&["metadata", "continue"])
        .expect("a way to go on");
    let query = format!("{MAPS}?continue={token}");
    let (code, rest) = ask(&server, &root, Method::GET, &query, None).await;
    assert_eq!(code, 200, "{rest:?}");
    assert_eq!(names(&rest), ["c"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forgotten_past_is_told_though_nothing_changed_since() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, root) = (server(dir.path()).await, root());
    for name in ["a", "b"] {
        let map = value!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}});
        ask(&server, &root, Method::POST, MAPS, Some(map)).await;
    }
    let query = format!("{MAPS}?limit=1");
    let (_, first) = ask(&server, &root, Method::GET, &query, None).await;
    let token = first.str_at(&["metadata", "continue"]).expect("more");
    // Something else is written, and only that is remembered.
    let other = value!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "s"}});
    let secrets = "/api/v1/namespaces/default/secrets";
    ask(&server, &root, Method::POST, secrets, Some(other)).await;
    let store = server.api().store();
    let newest = store.revision();
    store.compact(newest).await.expect("compacted");
    let query = format!("{MAPS}?limit=1&continue={token}");
    let (code, gone) = ask(&server, &root, Method::GET, &query, None).await;
    assert_eq!(code, 410, "{gone:?}");
    let token = gone.str_at(&["metadata", "continue"]).expect("a way on");
    let query = format!("{MAPS}?limit=1&continue={token}");
    let (_, rest) = ask(&server, &root, Method::GET, &query, None).await;
    assert_eq!(names(&rest), ["b"]);
    assert_ne!(
        rest.str_at(&["metadata", "resourceVersion"]),
        first.str_at(&["metadata", "resourceVersion"])
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_from_beyond_the_store_is_ended_so_that_clients_list_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, root) = (server(dir.path()).await, root());
    let newest = server.api().store().revision();
    let list = format!("{MAPS}?resourceVersion={}", newest + 1000);
    let (code, refused) = ask(&server, &root, Method::GET, &list, None).await;
    assert_eq!(code, 504, "{refused:?}");
    assert_eq!(refused.i64_at(&["details", "retryAfterSeconds"]), Some(1));
    let watch = format!("{MAPS}?watch=1&resourceVersion={}", newest + 1000);
    let answer = send(&server, &root, Method::GET, &watch, &[], None).await;
    assert_eq!(answer.status().as_u16(), 200);
    let body = answer.into_body().collect();
    let body = tokio::time::timeout(Duration::from_secs(10), body).await;
    let bytes = body.expect("an end").expect("a body").to_bytes();
    let event = Value::from_slice(&bytes).expect("one event");
    assert_eq!(event.str_at(&["type"]), Some("ERROR"));
    assert_eq!(event.i64_at(&["object", "code"]), Some(410));
    assert_eq!(event.str_at(&["object", "reason"]), Some("Expired"));
    let cause = &event.items_at(&["object", "details", "causes"])[0];
    assert_eq!(cause.str_at(&["reason"]), Some("ResourceVersionTooLarge"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_from_a_revision_that_comes_in_time_goes_on_from_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, root) = (server(dir.path()).await, root());
    let newest = server.api().store().revision();
    let watch = format!(
        "{MAPS}?watch=1&timeoutSeconds=2&resourceVersion={}",
        newest + 2
    );
    let answer = send(&server, &root, Method::GET, &watch, &[], None).await;
    let body = tokio::spawn(answer.into_body().collect());
    for name in ["a", "b", "c", "d", "e"] {
        let map = value!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}});
        ask(&server, &root, Method::POST, MAPS, Some(map)).await;
    }
    let bytes = body.await.expect("a task").expect("a body").to_bytes();
    let lines = bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    let seen: Vec<Value> = lines
        .map(|line| Value::from_slice(line).expect("JSON"))
        .collect();
    assert!(!seen.is_empty(), "no event");
    for event in &seen {
        assert_eq!(event.str_at(&["type"]), Some("ADDED"), "{event:?}");
        let version = event.str_at(&["object", "metadata", "resourceVersion"]);
        let version: u64 = version.expect("a version").parse().expect("a number");
        assert!(version > newest + 2);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn addresses_of_services_that_are_not_stored_are_given_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, root) = (server(dir.path()).await, root());
    let services = "/api/v1/namespaces/default/services";
    let service = |name: &str, address: &str| {
        value!({
            "kind": "Service", "apiVersion": "v1", "metadata": {"name": name},
            "spec": {"clusterIP": address, "ports": [{"port": 80}]}
        })
    };
    let made = Some(service("a", "10.96.0.50"));
    let (code, answer) = ask(&server, &root, Method::POST, services, made).await;
    assert_eq!(code, 201, "{answer:?}");
    // The same name with another address: nothing is left of the second try.
    let again = Some(service("a", "10.96.0.51"));
    let (code, _) = ask(&server, &root, Method::POST, services, again).await;
    assert_eq!(code, 409);
    let address = |text: &str| format!("/apis/networking.k8s.io/v1/ipaddresses/{text}");
    let (code, _) = ask(&server, &root, Method::GET, &address("10.96.0.51"), None).await;
    assert_eq!(code, 404);
    // Two that want the same at the same time: one gets it.
    let same = ["b", "c"].map(|name| {
        let body = Some(service(name, "10.96.0.60"));
        ask(&server, &root, Method::POST, services, body)
    });
    let mut codes: Vec<_> = futures::future::join_all(same)
        .await
        .into_iter()
        .map(|(code, _)| code)
        .collect();
    codes.sort_unstable();
    assert_eq!(codes, [201, 422]);
    let one = format!("{services}/a");
    let (code, _) = ask(&server, &root, Method::DELETE, &one, None).await;
    assert_eq!(code, 200);
    let (code, _) = ask(&server, &root, Method::GET, &address("10.96.0.50"), None).await;
    assert_eq!(code, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_on_one_store_give_an_address_out_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let (first, root) = (server(dir.path()).await, root());
    let second = common::beside(&first).await;
    let services = "/api/v1/namespaces/default/services";
    let asked = [&first, &second]
        .into_iter()
        .enumerate()
        .map(|(at, server)| {
            let body = value!({
                "kind": "Service", "apiVersion": "v1", "metadata": {"name": (format!("s{at}"))},
                "spec": {"clusterIP": "10.96.0.77", "ports": [{"port": 80}]}
            });
            ask(server, &root, Method::POST, services, Some(body))
        });
    let mut codes: Vec<_> = futures::future::join_all(asked)
        .await
        .into_iter()
        .map(|(code, _)| code)
        .collect();
    codes.sort_unstable();
    assert_eq!(codes, [201, 422]);
    // Both are endpoints of the `kubernetes` Service.
    let path = "/api/v1/namespaces/default/endpoints/kubernetes";
    let (_, endpoints) = ask(&second, &root, Method::GET, path, None).await;
    let addresses: Vec<_> = endpoints.items_at(&["subsets"])[0]
        .items_at(&["addresses"])
        .iter()
        .filter_map(|address| address.str_at(&["ip"]))
        .collect();
    assert_eq!(addresses, ["127.0.0.1", "127.0.0.2"]);
}

#[tokio::test]
async fn lists_are_counted_with_what_they_looked_at_and_sent() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = server(dir.path()).await;
    let maps = "/api/v1/namespaces/default/configmaps";
    for (name, color) in [("a", "red"), ("b", "blue"), ("c", "red")] {
        let map = value!({"metadata": {"name": name, "labels": {"color": color}}});
        let (code, _) = ask(&server, &root(), Method::POST, maps, Some(map)).await;
        assert_eq!(code, 201);
    }
    for query in ["?labelSelector=color%3Dred", ""] {
        let path = format!("{maps}{query}");
        let (code, _) = ask(&server, &root(), Method::GET, &path, None).await;
        assert_eq!(code, 200);
    }
    let answer = send(&server, &root(), Method::GET, "/metrics", &[], None).await;
    let body = answer.into_body().collect().await.expect("read").to_bytes();
    let text = String::from_utf8_lossy(&body);
    let value = |metric: &str| -> u64 {
        let line = text.lines().find(|line| line.starts_with(metric));
        let line = line.unwrap_or_else(|| panic!("no {metric}"));
        let number = line.rsplit(' ').next().and_then(|text| text.parse().ok());
        number.unwrap_or_else(|| panic!("{line}"))
    };
    let of = r#"{group="",index="",resource="configmaps"}"#;
    assert_eq!(value(&format!("apiserver_cache_list_total{of}")), 2);
    let looked = value(&format!("apiserver_cache_list_fetched_objects_total{of}"));
    assert_eq!(looked, 6);
    let sent = r#"apiserver_cache_list_returned_objects_total{group="",resource="configmaps"}"#;
    assert_eq!(value(sent), 5);
    let room = r#"watch_cache_capacity{group="",resource="configmaps"}"#;
    assert!(value(room) >= 1);
    assert!(value("apiserver_storage_size_bytes{") > 0);
}

//! Tests whole migrations against an API server in memory.

use std::time::Duration;

use serde_json::{Value, json};

use super::CONTROLLER;
use crate::fake_api::{FakeApi, Recorded};

const MIGRATION: &str =
    "/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations/secrets-again";
const SECRET: &str = "/api/v1/namespaces/n/secrets/s";

/// Answers discovery like a server with the feature gate; `verbs` are those of Secrets.
fn discovery(request: &Recorded, verbs: &[&str]) -> Option<(u16, Value)> {
    let resources = match request.path.as_str() {
        "/apis/storagemigration.k8s.io/v1beta1" => {
            json!([{"name": "storageversionmigrations"}])
        }
        "/api/v1" => {
            json!([{"name": "secrets", "kind": "Secret", "namespaced": true, "verbs": verbs}])
        }
        _ => return None,
    };
    Some((200, json!({"resources": resources})))
}

fn server(verbs: &'static [&'static str], resource: &str) -> FakeApi {
    let api = FakeApi::new();
    api.answer_with(move |request| discovery(request, verbs));
    api.put("/api/v1/namespaces/n", json!({}));
    api.put(SECRET, json!({"data": {"a": "b"}}));
    api.put(
        MIGRATION,
        json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"resource": {"group": "", "resource": resource}}}),
    );
    api
}

fn conditions(api: &FakeApi) -> Vec<String> {
    let migration = api.object(MIGRATION).unwrap();
    let conditions = migration["status"]["conditions"].as_array().cloned();
    let line = |one: &Value| {
        let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
        format!("{}={} {}", text("type"), text("status"), text("message"))
    };
    conditions.unwrap_or_default().iter().map(line).collect()
}

fn applied(api: &FakeApi) -> Vec<Recorded> {
    let mut all = api.requests();
    all.retain(|request| request.method == "PATCH" && request.path == SECRET);
    all
}

#[tokio::test(start_paused = true)]
async fn every_old_object_is_written_once_with_its_uid_and_revision() {
    let api = server(&["list", "patch", "update"], "secrets");
    let secret = api.object(SECRET).unwrap();
    let _running = api.run(&CONTROLLER, crate::Config::default());
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(
        conditions(&api),
        ["Running=False Migration completed", "Succeeded=True "]
    );
    let applied = applied(&api);
    assert_eq!(applied.len(), 1, "{applied:?}");
    assert_eq!(
        applied[0].body,
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {
            "uid": secret["metadata"]["uid"],
            "resourceVersion": secret["metadata"]["resourceVersion"]}})
    );
    assert!(applied[0].query.contains(super::NAME));
}

#[tokio::test(start_paused = true)]
async fn conflicts_are_no_failures_and_other_refusals_are() {
    for (code, reason, end) in [
        (409, "Conflict", "Succeeded=True "),
        (
            422,
            "Invalid",
            "Failed=True migration encountered unhandled error: no",
        ),
    ] {
        let api = server(&[], "secrets");
        api.answer_with(move |request| {
            if request.method == "PATCH" && request.path == SECRET {
                let status = json!({"kind": "Status", "status": "Failure", "code": code,
                    "reason": reason, "message": "no"});
                return Some((code, status));
            }
            discovery(request, &["list", "patch", "update"])
        });
        let _running = api.run(&CONTROLLER, crate::Config::default());
        tokio::time::sleep(Duration::from_secs(5)).await;
        let conditions = conditions(&api);
        assert!(
            conditions[1].starts_with(end.trim_end()),
            "{reason}: {conditions:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn resource_that_cannot_be_migrated_fails_with_the_reason() {
    let api = server(&["list"], "secrets");
    let _running = api.run(&CONTROLLER, crate::Config::default());
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(
        conditions(&api)[1],
        "Failed=True resource \"/v1, Resource=secrets\" does not support discovery operations: \
         [update patch list]"
    );
    let api = server(&[], "nothing");
    let _running = api.run(&CONTROLLER, crate::Config::default());
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(
        conditions(&api)[1],
        "Failed=True resource does not exist in discovery"
    );
}

#[tokio::test(start_paused = true)]
async fn controller_waits_until_its_api_is_served() {
    let api = server(&[], "secrets");
    let hidden = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let is_hidden = std::sync::Arc::clone(&hidden);
    api.answer_with(move |request| {
        if is_hidden.load(std::sync::atomic::Ordering::SeqCst) {
            return None;
        }
        discovery(request, &["list", "patch", "update"])
    });
    let _running = api.run(&CONTROLLER, crate::Config::default());
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(conditions(&api).is_empty());
    let asked = api.requests().len();
    assert!(asked <= 7, "{asked} requests while nothing is served");
    hidden.store(false, std::sync::atomic::Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(65)).await;
    assert_eq!(conditions(&api).len(), 2);
}

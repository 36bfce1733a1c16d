//! Tests the loop against an API server in memory, in paused time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::CONTROLLER;
use crate::Config;
use crate::fake_api::FakeApi;

const AUTOSCALER: &str = "/apis/autoscaling/v2/namespaces/a/horizontalpodautoscalers/web";
const SCALE: &str = "/apis/apps/v1/namespaces/a/deployments/web/scale";
const METRICS: &str = "/apis/metrics.k8s.io/v1beta1/namespaces/a/pods";

/// A server with an autoscaler of a Deployment whose pods use 900m of the one CPU that
/// each requests. The first `conflicts` writes of the scale fail.
fn cluster(conflicts: usize) -> (FakeApi, Arc<AtomicI64>) {
    let api = FakeApi::new();
    api.put(
        AUTOSCALER,
        json!({"metadata": {}, "spec": {"minReplicas": 1, "maxReplicas": 10,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "metrics": [{"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 45}}}]}}),
    );
    for name in ["p0", "p1"] {
        api.put(
            &format!("/api/v1/namespaces/a/pods/{name}"),
            json!({"metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
                "status": {"phase": "Running", "startTime": "2020-01-01T00:00:00Z",
                    "conditions": [{"type": "Ready", "status": "True",
                        "lastTransitionTime": "2020-01-01T00:00:00Z"}]}}),
        );
    }
    let replicas = Arc::new(AtomicI64::new(2));
    let (known, left) = (Arc::clone(&replicas), AtomicUsize::new(conflicts));
    api.answer_with(
        move |request| match (&request.method, request.path.as_str()) {
            (&Method::GET, SCALE) => {
                let replicas = known.load(Ordering::SeqCst);
                let scale = json!({"metadata": {"name": "web", "resourceVersion": "1"},
                "spec": {"replicas": replicas},
                "status": {"replicas": replicas, "selector": "app=web"}});
                Some((200, scale))
            }
            (&Method::PUT, SCALE) => {
                let conflicts =
                    left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
                if conflicts.is_ok() {
                    let conflict = json!({"kind": "Status", "status": "Failure", "code": 409,
                    "reason": "Conflict", "message": "changed"});
                    return Some((409, conflict));
                }
                let wanted = request.body["spec"]["replicas"].as_i64()?;
                known.store(wanted, Ordering::SeqCst);
                Some((200, request.body.clone()))
            }
            (&Method::GET, METRICS) => {
                let items: Vec<Value> = ["p0", "p1"]
                    .iter()
                    .map(|name| {
                        json!({"metadata": {"name": name}, "timestamp": "2030-01-01T00:00:00Z",
                        "window": "30s", "containers": [{"name": "c", "usage": {"cpu": "900m"}}]})
                    })
                    .collect();
                Some((200, json!({"items": items})))
            }
            _ => None,
        },
    );
    (api, replicas)
}

#[tokio::test(start_paused = true)]
async fn busy_deployment_is_scaled_and_its_autoscaler_says_why() {
    let (api, replicas) = cluster(0);
    let _running = api.run(&CONTROLLER, Config::default());
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(replicas.load(Ordering::SeqCst), 4);
    let status = &api.object(AUTOSCALER).unwrap()["status"];
    assert_eq!(status["currentReplicas"], 2);
    assert_eq!(status["desiredReplicas"], 4);
    assert_eq!(
        status["currentMetrics"][0]["resource"]["current"],
        json!({"averageUtilization": 90, "averageValue": "900m"})
    );
    let reasons: Vec<&str> = status["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|condition| condition["reason"].as_str())
        .collect();
    assert_eq!(
        reasons,
        ["SucceededRescale", "ValidMetricFound", "DesiredWithinRange"]
    );
    let query = api
        .requests()
        .into_iter()
        .find(|request| request.path == METRICS);
    assert!(query.unwrap().query.contains("labelSelector=app%3Dweb"));
}

#[tokio::test(start_paused = true)]
async fn conflict_is_no_reason_to_wait() {
    let (api, replicas) = cluster(2);
    let _running = api.run(&CONTROLLER, Config::default());
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(replicas.load(Ordering::SeqCst), 4);
}

#[tokio::test(start_paused = true)]
async fn pods_that_two_autoscalers_count_are_not_scaled() {
    let (api, replicas) = cluster(0);
    let mut other = api.object(AUTOSCALER).unwrap();
    other["metadata"] = json!({});
    api.put(&AUTOSCALER.replace("/web", "/zweb"), other);
    let _running = api.run(&CONTROLLER, Config::default());
    tokio::time::sleep(Duration::from_secs(50)).await;
    // the first reconciliation knows only one of them
    let first = replicas.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(replicas.load(Ordering::SeqCst), first);
    let status = &api.object(AUTOSCALER).unwrap()["status"];
    let messages: Vec<&str> = status["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|condition| condition["message"].as_str())
        .collect();
    assert!(
        messages.contains(
            &"pods by selector app=web are controlled by multiple HPAs: [{web a} {zweb a}]"
        ),
        "{messages:?}"
    );
}

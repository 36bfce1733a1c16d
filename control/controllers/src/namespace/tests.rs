//! Tests the whole controller against a fake API server in paused time.

use std::time::Duration;

use http::Method;
use tokio::time::{Instant, sleep};

use super::*;
use crate::Config;
use crate::fake_api::FakeApi;

const NAMESPACE: &str = "/api/v1/namespaces/x";
const HELD: &str = "/api/v1/namespaces/x/configmaps/held";

/// Returns a server with the namespace `x`, whose deletion was requested.
fn server() -> FakeApi {
    let api = FakeApi::new();
    api.put(
        NAMESPACE,
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"finalizers": ["kubernetes"]}}),
    );
    api
}

fn put_held(api: &FakeApi) {
    api.put(
        HELD,
        json!({"metadata": {"finalizers": ["example.com/keep"]}}),
    );
}

/// How many requests were sent in a time, without reflectors' reconnects.
async fn requests_in(api: &FakeApi, time: Duration) -> usize {
    let before = api.requests().len();
    sleep(time).await;
    let requests = api.requests();
    let sent = requests[before..].iter();
    sent.filter(|it| !it.query.contains("watch=true")).count()
}

#[tokio::test(start_paused = true)]
async fn namespace_goes_with_all_that_is_in_it() {
    let api = server();
    api.put("/api/v1/namespaces/x/pods/p", json!({}));
    api.put("/apis/apps/v1/namespaces/x/deployments/d", json!({}));
    api.put("/api/v1/namespaces/y/pods/p", json!({}));
    let _running = api.run(&CONTROLLER, Config::default());
    sleep(Duration::from_secs(2)).await;
    assert_eq!(api.object(NAMESPACE), None);
    assert_eq!(api.object("/apis/apps/v1/namespaces/x/deployments/d"), None);
    assert!(api.object("/api/v1/namespaces/y/pods/p").is_some());
}

#[tokio::test(start_paused = true)]
async fn namespace_that_waits_asks_ever_more_seldom() {
    let api = server();
    put_held(&api);
    let _running = api.run(&CONTROLLER, Config::default());
    sleep(Duration::from_secs(60)).await;
    assert!(api.object(NAMESPACE).is_some());
    let sent = requests_in(&api, Duration::from_secs(600)).await;
    // two sweeps of all resources, and a list and a status twice a minute
    assert!(sent <= 200, "{sent} requests in 10 minutes");
}

#[tokio::test(start_paused = true)]
async fn object_that_is_stored_after_the_first_sweep_is_deleted_though_others_remain() {
    const LATE: &str = "/apis/apps/v1/namespaces/x/deployments/late";
    let api = server();
    put_held(&api);
    let _running = api.run(&CONTROLLER, Config::default());
    sleep(Duration::from_millis(100)).await;
    let waiting = api.object(NAMESPACE).expect("kept");
    assert!(waiting["status"]["conditions"].is_array(), "not swept yet");
    api.put(LATE, json!({}));
    sleep(Duration::from_secs(10)).await;
    assert_eq!(api.object(LATE), None);
    assert!(api.object(HELD).is_some());
}

#[tokio::test(start_paused = true)]
async fn namespace_goes_as_soon_as_the_last_object_does() {
    let api = server();
    put_held(&api);
    let _running = api.run(&CONTROLLER, Config::default());
    sleep(Duration::from_secs(300)).await;
    assert!(api.object(NAMESPACE).is_some());
    api.remove(HELD);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(api.object(NAMESPACE), None);
}

#[tokio::test(start_paused = true)]
async fn namespace_goes_as_soon_as_the_last_pod_does() {
    let api = server();
    let pod = |name: &str| format!("/api/v1/namespaces/x/pods/{name}");
    for name in ["p", "q"] {
        api.put(
            &pod(name),
            json!({"metadata": {"finalizers": ["example.com/keep"]}}),
        );
    }
    let _running = api.run(&CONTROLLER, Config::default());
    sleep(Duration::from_secs(300)).await;
    let began = Instant::now();
    api.remove(&pod("p"));
    sleep(Duration::from_millis(10)).await;
    api.remove(&pod("q"));
    while api.object(NAMESPACE).is_some() {
        sleep(Duration::from_millis(10)).await;
        assert!(began.elapsed() < Duration::from_secs(1));
    }
}

#[tokio::test(start_paused = true)]
async fn missed_event_costs_half_a_minute() {
    let api = server();
    put_held(&api);
    api.answer_with(|request| {
        let refused = request.path.ends_with("/configmaps") && request.query.contains("watch=");
        refused.then(|| {
            (
                403,
                json!({"kind": "Status", "code": 403, "reason": "Forbidden"}),
            )
        })
    });
    let _running = api.run(&CONTROLLER, Config::default());
    sleep(Duration::from_secs(300)).await;
    api.remove(HELD);
    sleep(Duration::from_secs(31)).await;
    assert_eq!(api.object(NAMESPACE), None);
}

#[tokio::test(start_paused = true)]
async fn objects_of_aggregated_apis_go_with_their_namespace() {
    const FLUNDER: &str = "/apis/wares.example.com/v1/namespaces/x/flunders/f";
    let api = server();
    let spec = json!({"group": "wares.example.com", "version": "v1", "service": {"name": "s"}});
    api.put(
        "/apis/apiregistration.k8s.io/v1/apiservices/v1.wares.example.com",
        json!({"spec": spec}),
    );
    api.put(FLUNDER, json!({}));
    let started = Instant::now();
    api.answer_with(move |request| {
        let discovery = request.path == "/apis/wares.example.com/v1";
        if !discovery {
            return None;
        }
        if started.elapsed() < Duration::from_secs(40) {
            return Some((
                503,
                json!({"kind": "Status", "code": 503, "message": "no endpoints"}),
            ));
        }
        let flunders = json!({"name": "flunders", "kind": "Flunder", "namespaced": true,
            "verbs": ["delete", "list"]});
        Some((200, json!({"resources": [flunders]})))
    });
    let _running = api.run(&CONTROLLER, Config::default());
    sleep(Duration::from_secs(39)).await;
    let waiting = api
        .object(NAMESPACE)
        .expect("it waits for the group's server");
    let conditions = waiting["status"]["conditions"].as_array().expect("a list");
    let discovery = conditions
        .iter()
        .find(|one| one["type"] == "NamespaceDeletionDiscoveryFailure")
        .expect("reported");
    assert_eq!(discovery["status"], "True");
    sleep(Duration::from_secs(32)).await;
    assert_eq!(api.object(FLUNDER), None);
    assert_eq!(api.object(NAMESPACE), None);
    let by_collection = |it: &crate::fake_api::Recorded| {
        it.method == Method::DELETE && it.path.starts_with("/apis/wares.example.com/")
    };
    assert!(api.requests().iter().any(by_collection));
}

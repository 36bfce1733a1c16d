//! Tests of the followed kinds, and of the whole controller against a fake API server in
//! paused time. `tests/model/garbage.rs` checks its behaviour under faults.

use serde_json::Value;
use tokio::time::sleep;

use super::*;
use crate::Config;
use crate::fake_api::FakeApi;

const OWNER: &str = "/api/v1/namespaces/d/configmaps/owner";
const FLUNDER: &str = "/apis/wares.example.com/v1/namespaces/d/flunders/f";

fn owned_by(api_version: &str, kind: &str, name: &str, uid: &str) -> Value {
    json!({"metadata": {"ownerReferences": [
        {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid}]}})
}

/// Registers the aggregated API `wares.example.com/v1`, which serves flunders.
fn register_flunders(api: &FakeApi) {
    let spec = json!({"group": "wares.example.com", "version": "v1", "service": {"name": "s"}});
    api.put(
        "/apis/apiregistration.k8s.io/v1/apiservices/v1.wares.example.com",
        json!({"spec": spec}),
    );
}

/// A server that answers requests for lists and watches of flunders with 503 if
/// `is_failing`.
fn server(is_failing: impl Fn(&crate::fake_api::Recorded) -> bool + Send + 'static) -> FakeApi {
    let api = FakeApi::new();
    api.answer_with(move |request| {
        if request.path == "/apis/wares.example.com/v1" {
            let flunders = json!({"name": "flunders", "kind": "Flunder", "namespaced": true,
                "verbs": ["delete", "get", "list", "patch", "watch"]});
            return Some((200, json!({"resources": [flunders]})));
        }
        let of_flunders = request.path.ends_with("/flunders");
        let failure = || (503, json!({"kind": "Status", "code": 503}));
        (of_flunders && is_failing(request)).then(failure)
    });
    api
}

#[test]
fn every_resource_is_followed_once() {
    let all = built_in();
    let names: BTreeSet<String> = all.iter().map(ToString::to_string).collect();
    assert_eq!(names.len(), all.len());
    for name in [
        "pods",
        "replicasets.apps",
        "nodes",
        "endpointslices.discovery.k8s.io",
    ] {
        assert!(names.contains(name), "{name} is missing");
    }
    assert!(!names.contains("events"));
    assert!(!names.contains("events.events.k8s.io"));
}

#[tokio::test(start_paused = true)]
async fn object_of_an_aggregated_api_goes_with_its_owner() {
    let api = server(|_| false);
    register_flunders(&api);
    api.put(OWNER, json!({"metadata": {"uid": "owner"}}));
    api.put(FLUNDER, owned_by("v1", "ConfigMap", "owner", "owner"));
    let _running = api.run(&CONTROLLER, Config::default());
    sleep(Duration::from_secs(5)).await;
    assert!(api.object(FLUNDER).is_some());
    api.remove(OWNER);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(api.object(FLUNDER), None);
}

#[tokio::test(start_paused = true)]
async fn object_whose_owner_is_of_an_unknown_kind_is_judged_when_the_kind_is_served() {
    let api = server(|_| false);
    let flunder = owned_by("wares.example.com/v1", "Flunder", "gone", "gone");
    api.put(OWNER, flunder);
    let _running = api.run(&CONTROLLER, Config::default());
    sleep(Duration::from_secs(120)).await;
    assert!(api.object(OWNER).is_some());
    register_flunders(&api);
    sleep(DISCOVERY + Duration::from_secs(1)).await;
    assert_eq!(api.object(OWNER), None);
}

#[tokio::test(start_paused = true)]
async fn orphaning_releases_dependents_of_aggregated_kinds_that_the_graph_does_not_hold() {
    // Flunders cannot be watched, so the graph never holds any.
    let api = server(|request| request.query.contains("watch="));
    register_flunders(&api);
    api.put(
        OWNER,
        json!({"metadata": {"uid": "owner", "finalizers": [ORPHAN],
            "deletionTimestamp": "2026-01-01T00:00:00Z"}}),
    );
    api.put(FLUNDER, owned_by("v1", "ConfigMap", "owner", "owner"));
    let _running = api.run(&CONTROLLER, Config::default());
    sleep(FIRST_LISTS + Duration::from_secs(5)).await;
    assert_eq!(api.object(OWNER), None);
    let flunder = api.object(FLUNDER).expect("kept");
    let owners = flunder["metadata"]["ownerReferences"].as_array();
    assert!(owners.is_none_or(Vec::is_empty), "{flunder}");
}

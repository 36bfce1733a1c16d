//! Checks resource claims: each pod has one per template, none outlives its pod, and devices are
//! released when nobody uses them.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::api::Api;
use crate::cases;
use crate::cluster::{Cluster, simulate};
use crate::history::{Action, Step, history, key};
use crate::objects;

const CLAIMS: &str = "resourceclaims.resource.k8s.io";
const TEMPLATES: &str = "resourceclaimtemplates.resource.k8s.io";
const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
const RESOURCES: &[&str] = &[CLAIMS, "pods"];

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    let value = object.pointer(pointer).and_then(Value::as_str);
    value.unwrap_or_default()
}

fn list<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    let list = object.pointer(pointer).and_then(Value::as_array);
    list.into_iter().flatten()
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "a"}, "spec": {
        "containers": [{"name": "c", "image": "one"}], "resourceClaims": [
            {"name": "gpu", "resourceClaimTemplateName": "t"},
            {"name": "net", "resourceClaimTemplateName": "t"},
            {"name": "shared", "resourceClaimName": "shared"}]}})
}

fn template() -> Value {
    json!({"metadata": {"name": "t", "namespace": "a"},
        "spec": {"metadata": {"labels": {"a": "b"}}, "spec": {"devices": {"requests": []}}}})
}

fn shared() -> Value {
    json!({"metadata": {"name": "shared", "namespace": "a"}, "spec": {}})
}

/// Allocates claims that pods name, as the scheduler does, until it is dropped.
async fn allocate(api: Api) {
    loop {
        let pods = api.list("pods");
        for (key, claim) in api.objects(CLAIMS) {
            let allocated = claim
                .pointer("/status/allocation")
                .is_some_and(Value::is_object);
            let going = claim.pointer("/metadata/deletionTimestamp").is_some();
            let uses = |pod: &&Value| {
                let named = list(pod, "/status/resourceClaimStatuses")
                    .any(|status| text(status, "/resourceClaimName") == key.name);
                let phase = text(pod, "/status/phase");
                (named || key.name == "shared") && phase != "Failed" && phase != "Succeeded"
            };
            if !allocated && !going && pods.iter().any(|pod| uses(&pod)) {
                api.change(&key, |claim| {
                    claim["metadata"]["finalizers"] = json!([FINALIZER]);
                    claim["status"]["allocation"] = json!({"devices": {}});
                });
            }
        }
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
}

fn actions() -> Vec<Action> {
    let mut actions = vec![
        Action::Create(CLAIMS, shared()),
        Action::Delete(key(CLAIMS, "a", "shared"), "Background"),
        Action::Create(TEMPLATES, template()),
        Action::Delete(key(TEMPLATES, "a", "t"), "Background"),
    ];
    for name in ["p0", "p1"] {
        actions.push(Action::Create("pods", pod(name)));
        actions.push(Action::Delete(key("pods", "a", name), "Background"));
        actions.push(Action::Set(
            key("pods", "a", name),
            "/status/phase",
            json!("Succeeded"),
        ));
    }
    actions
}

async fn run(steps: &[Step]) {
    let mut cluster = Cluster::new(&["resourceclaim-controller", "garbage-collector-controller"]);
    objects::base(&cluster.api);
    cluster.api.put(TEMPLATES, template());
    cluster.api.put(CLAIMS, shared());
    cluster.api.put("pods", pod("p0"));
    let scheduler = tokio::spawn(allocate(cluster.api.clone()));
    cluster.restart();
    for step in steps {
        cluster.step(step).await;
    }
    if cluster.api.get(TEMPLATES, "a", "t").is_none() {
        cluster.api.put(TEMPLATES, template());
    }
    cluster.settle().await;
    scheduler.abort();
    check(&cluster);
}

fn check(cluster: &Cluster) {
    let pods = cluster.api.list("pods");
    let claims = cluster.api.list(CLAIMS);
    let mut of_pods: BTreeMap<(String, String), usize> = BTreeMap::new();
    for claim in &claims {
        let owner = text(claim, "/metadata/ownerReferences/0/uid").to_owned();
        if !owner.is_empty() {
            let entry = "/metadata/annotations/resource.kubernetes.io~1pod-claim-name";
            let count = of_pods.entry((owner.clone(), text(claim, entry).to_owned()));
            *count.or_default() += 1;
            let mut pods = pods.iter();
            let lives = pods.any(|pod| text(pod, "/metadata/uid") == owner);
            assert!(lives, "claim of a pod that is gone: {claim}");
        }
        for consumer in list(claim, "/status/reservedFor") {
            let mut pods = pods.iter();
            let user = pods.find(|pod| text(pod, "/metadata/uid") == text(consumer, "/uid"));
            let user = user.unwrap_or_else(|| panic!("reserved for nobody: {claim}"));
            assert_ne!(text(user, "/status/phase"), "Succeeded", "{claim}");
        }
    }
    for pod in pods {
        let done = matches!(text(&pod, "/status/phase"), "Succeeded" | "Failed");
        if done || pod.pointer("/metadata/deletionTimestamp").is_some() {
            continue;
        }
        let uid = text(&pod, "/metadata/uid");
        for entry in ["gpu", "net"] {
            let count = of_pods.get(&(uid.to_owned(), entry.to_owned()));
            assert_eq!(count, Some(&1), "claims of {entry} for {pod}");
            let mut statuses = list(&pod, "/status/resourceClaimStatuses");
            let name = statuses.find(|status| text(status, "/name") == entry);
            let name = name.map_or("", |status| text(status, "/resourceClaimName"));
            let claim = cluster.api.get(CLAIMS, "a", name);
            let claim = claim.unwrap_or_else(|| panic!("{entry} of {pod} names no claim"));
            let reserved =
                list(&claim, "/status/reservedFor").any(|consumer| text(consumer, "/uid") == uid);
            assert!(reserved, "{claim} is not reserved for {pod}");
        }
    }
}

proptest! {
    #![proptest_config(cases(20))]

    #[test]
    fn claims_to_devices_come_and_go_with_their_pods(
        seed in any::<u64>(),
        steps in history(actions(), RESOURCES, 12),
    ) {
        simulate(seed, || run(&steps));
    }
}

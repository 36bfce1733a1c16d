//! Checks Deployments, ReplicaSets and Services: the requested number of pods exists, and each of
//! them is in the EndpointSlices.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::cluster::{Cluster, simulate};
use crate::environment::ready;
use crate::history::{Action, Step, history, key};
use crate::{cases, objects};

fn actions() -> Vec<Action> {
    let web = || key("deployments.apps", "a", "web");
    let set = || key("replicasets.apps", "a", "set");
    let image = "/spec/template/spec/containers/0/image";
    vec![
        Action::Set(web(), "/spec/replicas", json!(0)),
        Action::Set(web(), "/spec/replicas", json!(4)),
        Action::Set(web(), image, json!("two")),
        Action::Set(web(), image, json!("one")),
        Action::Delete(web(), "Foreground"),
        Action::Create("deployments.apps", objects::deployment("web", 2)),
        Action::Set(set(), "/spec/replicas", json!(1)),
        Action::Set(set(), "/spec/replicas", json!(3)),
        Action::Delete(set(), "Background"),
        Action::Create("replicasets.apps", objects::replica_set("set", 2)),
        Action::Delete(key("services", "a", "web"), "Background"),
        Action::Create("services", objects::service("web")),
    ]
}

fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

async fn run(steps: &[Step]) {
    let mut cluster = Cluster::new(&[
        "deployment-controller",
        "replicaset-controller",
        "endpointslice-controller",
        "garbage-collector-controller",
    ]);
    objects::base(&cluster.api);
    cluster
        .api
        .put("deployments.apps", objects::deployment("web", 2));
    cluster
        .api
        .put("replicasets.apps", objects::replica_set("set", 2));
    cluster.api.put("services", objects::service("web"));
    cluster.restart();
    for step in steps {
        cluster.step(step).await;
    }
    cluster.settle().await;
    let api = &cluster.api;
    let pods = api.list("pods");
    let of_app = |app: &str| {
        pods.iter()
            .filter(|pod| pod["metadata"]["labels"]["app"] == app)
            .count()
    };
    for (resource, name) in [("deployments.apps", "web"), ("replicasets.apps", "set")] {
        let object = api.get(resource, "a", name);
        let wanted = object
            .as_ref()
            .map_or(0, |object| number(object, "/spec/replicas"));
        assert_eq!(
            of_app(name),
            usize::try_from(wanted).unwrap(),
            "pods of {name}"
        );
        if let Some(object) = object {
            let generation = number(&object, "/metadata/generation");
            assert_eq!(number(&object, "/status/observedGeneration"), generation);
            assert_eq!(
                number(&object, "/status/availableReplicas"),
                wanted,
                "{object}"
            );
        }
    }
    let serving: BTreeSet<&str> = pods
        .iter()
        .filter(|pod| pod["metadata"]["labels"]["app"] == "web" && ready(pod) == "True")
        .filter_map(|pod| pod["status"]["podIP"].as_str())
        .collect();
    let slices = api.list("endpointslices.discovery.k8s.io");
    let shown: BTreeSet<&str> = slices
        .iter()
        .flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten())
        .filter_map(|endpoint| endpoint["addresses"][0].as_str())
        .collect();
    if api.get("services", "a", "web").is_some() {
        assert_eq!(shown, serving);
    } else {
        assert!(slices.is_empty(), "slices of a Service that is gone");
    }
}

proptest! {
    #![proptest_config(cases(20))]

    #[test]
    fn pods_and_slices_are_as_many_as_asked_for(
        seed in any::<u64>(),
        steps in history(actions(),
            &["pods", "replicasets.apps", "deployments.apps", "services",
                "endpointslices.discovery.k8s.io"], 12),
    ) {
        simulate(seed, || run(&steps));
    }
}

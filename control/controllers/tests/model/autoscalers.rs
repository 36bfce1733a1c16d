//! Checks HorizontalPodAutoscalers without metrics: the number of replicas moves into the bounds,
//! unless it is zero, and stays there.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::cluster::{Cluster, simulate};
use crate::history::{Action, Step, history, key};
use crate::{cases, objects};

const RESOURCES: &[&str] = &["horizontalpodautoscalers.autoscaling", "deployments.apps"];

fn autoscaler(min: i32, max: i32) -> Value {
    json!({"metadata": {"name": "web", "namespace": "a"}, "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": min, "maxReplicas": max, "metrics": [{"type": "Resource", "resource":
            {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]}})
}

fn actions() -> Vec<Action> {
    let web = || key("deployments.apps", "a", "web");
    let hpa = || key("horizontalpodautoscalers.autoscaling", "a", "web");
    vec![
        Action::Set(web(), "/spec/replicas", json!(0)),
        Action::Set(web(), "/spec/replicas", json!(1)),
        Action::Set(web(), "/spec/replicas", json!(9)),
        Action::Delete(web(), "Background"),
        Action::Create("deployments.apps", objects::deployment("web", 1)),
        Action::Set(hpa(), "/spec/minReplicas", json!(3)),
        Action::Set(hpa(), "/spec/maxReplicas", json!(4)),
        Action::Delete(hpa(), "Background"),
        Action::Create("horizontalpodautoscalers.autoscaling", autoscaler(2, 5)),
    ]
}

async fn run(steps: &[Step]) {
    let mut cluster = Cluster::new(&["horizontal-pod-autoscaler-controller"]);
    objects::base(&cluster.api);
    let api = cluster.api.clone();
    api.put("deployments.apps", objects::deployment("web", 1));
    api.put("horizontalpodautoscalers.autoscaling", autoscaler(2, 5));
    cluster.restart();
    for step in steps {
        cluster.step(step).await;
    }
    cluster.settle().await;
    let Some(hpa) = api.get("horizontalpodautoscalers.autoscaling", "a", "web") else {
        return;
    };
    let condition = |r#type: &str| {
        let conditions = hpa["status"]["conditions"].as_array().cloned();
        let found = conditions
            .into_iter()
            .flatten()
            .find(|c| c["type"] == r#type);
        found.map_or(Value::Null, |condition| condition["reason"].clone())
    };
    let Some(web) = api.get("deployments.apps", "a", "web") else {
        assert_eq!(condition("AbleToScale"), "FailedGetScale");
        return;
    };
    let number = |value: &Value| value.as_i64().unwrap();
    let replicas = number(&web["spec"]["replicas"]);
    if replicas == 0 {
        assert_eq!(condition("ScalingActive"), "ScalingDisabled");
        return;
    }
    let (min, max) = (
        number(&hpa["spec"]["minReplicas"]),
        number(&hpa["spec"]["maxReplicas"]),
    );
    assert!(
        (min..=max).contains(&replicas),
        "{replicas} replicas of {min} to {max}"
    );
    assert_eq!(number(&hpa["status"]["currentReplicas"]), replicas);
    assert_eq!(condition("ScalingActive"), "FailedGetResourceMetric");
}

proptest! {
    #![proptest_config(cases(20))]

    #[test]
    fn replicas_come_to_lie_within_the_bounds(
        seed in any::<u64>(),
        steps in history(actions(), RESOURCES, 12),
    ) {
        simulate(seed, || run(&steps));
    }
}

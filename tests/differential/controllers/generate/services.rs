//! Services with their endpoints, disruption budgets, autoscalers.

use control_client::{Propagation, resources};
use serde_json::{Value, json};

use super::{image, steps, template};
use crate::controllers::mirror::AUTOSCALERS;
use crate::controllers::scenario::{AFTER_PERIOD, Action, Step};
use tests::random::Random;

fn deployment(app: &str, replicas: usize) -> Action {
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": app},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": app}},
            "template": template(app, "one", &json!({}))}});
    Action::Create(resources::DEPLOYMENTS, object)
}

fn scale(app: &str, replicas: usize) -> Action {
    let patch = json!({"spec": {"replicas": replicas}});
    Action::Patch(resources::DEPLOYMENTS, app.to_owned(), patch)
}

pub fn service(random: &mut Random, _: &str) -> Vec<Step> {
    let mut ports = vec![json!({"name": "web", "port": 80, "targetPort": 8080})];
    if random.chance(40) {
        ports.push(json!({"name": "named", "port": 81, "targetPort": "http"}));
    }
    if random.chance(20) {
        ports.push(json!({"name": "none", "port": 82, "targetPort": "unknown"}));
    }
    let mut spec = json!({"selector": {"app": "web"}, "ports": ports});
    match random.below(6) {
        0 => spec["clusterIP"] = "None".into(),
        1 => spec["type"] = "NodePort".into(),
        2 => {
            if let Some(spec) = spec.as_object_mut() {
                spec.remove("selector");
            }
        }
        _ => {}
    }
    if random.chance(20) {
        spec["publishNotReadyAddresses"] = true.into();
    }
    let selects = spec.get("selector").is_some();
    let mut labels = json!({"team": "a"});
    if random.chance(15) {
        labels["service.kubernetes.io/headless"] = "".into();
    }
    let service = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "labels": labels}, "spec": spec});
    let mut first = vec![Action::Create(resources::SERVICES, service)];
    if !selects {
        let addresses = json!([{"ip": "198.51.100.1"}, {"ip": "198.51.100.2", "hostname": "b"}]);
        let endpoints = json!({"apiVersion": "v1", "kind": "Endpoints",
            "metadata": {"name": "web"}, "subsets": [{"addresses": addresses,
                "ports": [{"name": "web", "port": 8080}]}]});
        first.push(Action::Create(resources::ENDPOINTS, endpoints));
    }
    let patch = |patch: Value| Action::Patch(resources::SERVICES, "web".to_owned(), patch);
    let pods = |patch: Value| Action::Patch(resources::DEPLOYMENTS, "web".to_owned(), patch);
    let choices = vec![
        vec![scale("web", random.between(0, 4))],
        vec![pods(image("two"))],
        vec![Action::PatchPod(
            "web".to_owned(),
            json!({"metadata": {"labels": {"app": "other"}}}),
        )],
        vec![pods(
            json!({"spec": {"template": {"metadata": {"annotations":
            {"case/unready": ""}}}}}),
        )],
        vec![patch(json!({"spec": {"publishNotReadyAddresses": true}}))],
        vec![patch(
            json!({"metadata": {"labels": {"team": "b", "new": "x"}}}),
        )],
        vec![patch(json!({"spec": {"selector": {"app": "nobody"}}}))],
        vec![patch(json!({"spec": {"selector": null}}))],
        vec![patch(json!({"spec": {"ports": [
            {"name": "web", "port": 80, "targetPort": 9090, "appProtocol": "http"}]}}))],
        vec![Action::Delete(
            resources::SERVICES,
            "web".to_owned(),
            Propagation::Background,
        )],
        vec![Action::DeletePod("web".to_owned())],
    ];
    let mut all = vec![
        Step::new([deployment("web", random.between(1, 4))]),
        Step::new(first),
    ];
    all.extend(steps(random, choices, 4));
    all
}

pub fn budget(random: &mut Random, _: &str) -> Vec<Step> {
    let amount: Value = match random.below(4) {
        0 => json!("50%"),
        1 => json!("100%"),
        _ => random.between(0, 4).into(),
    };
    let field = *random.pick(&["minAvailable", "maxUnavailable"]);
    let mut spec = json!({field: amount, "selector": {"matchLabels": {"app": "web"}}});
    if random.chance(15) {
        spec["selector"] = json!({});
    }
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "budget"}, "spec": spec});
    let budgets = || resources::POD_DISRUPTION_BUDGETS;
    let patch = |patch: Value| Action::Patch(budgets(), "budget".to_owned(), patch);
    let mut first = vec![deployment("web", random.between(1, 4))];
    let bare = random.chance(30);
    if bare {
        let mut pod = template("web", "bare", &json!({}));
        pod["apiVersion"] = "v1".into();
        pod["kind"] = "Pod".into();
        pod["metadata"]["name"] = "bare".into();
        first.push(Action::Create(resources::PODS, pod));
    }
    let choices = vec![
        vec![scale("web", random.between(0, 5))],
        vec![patch(
            json!({"spec": {"selector": {"matchLabels": {"app": "nobody"}}}}),
        )],
        vec![patch(json!({"metadata": {"labels": {"a": "b"}}}))],
        vec![Action::Patch(
            resources::DEPLOYMENTS,
            "web".to_owned(),
            json!({"spec": {"template": {"metadata": {"annotations": {"case/unready": ""}}}}}),
        )],
        vec![Action::DeletePod("web".to_owned())],
        vec![Action::Delete(
            resources::DEPLOYMENTS,
            "web".to_owned(),
            Propagation::Background,
        )],
    ];
    let mut all = vec![
        Step::new(first),
        Step::new([Action::Create(budgets(), budget)]),
    ];
    all.extend(steps(random, choices, 3));
    all
}

/// Autoscalers in a cluster without metrics: what they say of that.
pub fn autoscaler(random: &mut Random, _: &str) -> Vec<Step> {
    let metric = match random.below(3) {
        0 => json!({"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": 50}}}),
        1 => json!({"type": "ContainerResource", "containerResource": {"name": "memory",
            "container": "c", "target": {"type": "AverageValue", "averageValue": "10Mi"}}}),
        _ => json!({"type": "Resource", "resource": {"name": "memory",
            "target": {"type": "AverageValue", "averageValue": "10Mi"}}}),
    };
    let minimum = random.between(1, 3);
    let target = *random.pick(&["web", "web", "web", "missing"]);
    let object = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "scaler"}, "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target},
            "minReplicas": minimum, "maxReplicas": minimum + random.between(0, 3),
            "metrics": [metric]}});
    vec![
        Step::new([deployment("web", random.between(0, 6))]),
        Step::new([Action::Create(AUTOSCALERS, object)]).calm(AFTER_PERIOD),
    ]
}

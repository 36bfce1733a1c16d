//! ValidatingAdmissionPolicies: at rest the types of every generation are checked.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::cases;
use crate::cluster::{Cluster, simulate};
use crate::history::{Action, Step, history, key};
use crate::objects;

const POLICIES: &str = "validatingadmissionpolicies.admissionregistration.k8s.io";
const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
const RESOURCES: &[&str] = &[POLICIES, DEFINITIONS];
const EXPRESSION: &str = "/spec/validations/0/expression";

fn policy(name: &str, expression: &str) -> Value {
    json!({"metadata": {"name": name, "generation": 1}, "spec": {
        "matchConstraints": {"resourceRules": [{"apiGroups": ["apps"], "apiVersions": ["v1"],
            "operations": ["CREATE"], "resources": ["deployments"]}]},
        "validations": [{"expression": expression}]}, "status": {}})
}

fn actions() -> Vec<Action> {
    let good = json!("object.spec.replicas > 1");
    let bad = json!("object.spec.nothing > 1");
    let mut actions = Vec::new();
    for name in ["p0", "p1"] {
        let at = || key(POLICIES, "", name);
        actions.push(Action::Create(POLICIES, policy(name, "true")));
        actions.push(Action::Set(at(), EXPRESSION, good.clone()));
        actions.push(Action::Set(at(), EXPRESSION, bad.clone()));
        actions.push(Action::Delete(at(), "Background"));
    }
    actions
}

async fn run(steps: &[Step]) {
    let mut cluster = Cluster::new(&["validatingadmissionpolicy-status-controller"]);
    objects::base(&cluster.api);
    cluster.api.put(POLICIES, policy("p0", "true"));
    cluster.restart();
    for step in steps {
        cluster.step(step).await;
    }
    cluster.settle().await;
    for policy in cluster.api.list(POLICIES) {
        let status = &policy["status"];
        assert_eq!(
            status["observedGeneration"], policy["metadata"]["generation"],
            "{policy}"
        );
        let is_wrong = policy.pointer(EXPRESSION) == Some(&json!("object.spec.nothing > 1"));
        let warned = status["typeChecking"]["expressionWarnings"].is_array();
        assert_eq!(warned, is_wrong, "{policy}");
    }
}

proptest! {
    #![proptest_config(cases(20))]

    #[test]
    fn types_of_every_generation_are_checked(
        seed in any::<u64>(),
        steps in history(actions(), RESOURCES, 12),
    ) {
        simulate(seed, || run(&steps));
    }
}

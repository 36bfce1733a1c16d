//! Checks the properties of every controller, alone and all together.

use control_controllers::CONTROLLERS;
use proptest::prelude::*;
use proptest::test_runner::{TestError, TestRunner};
use serde_json::json;

use crate::cluster::{Cluster, simulate};
use crate::history::{Action, Step, history, key};
use crate::{cases, objects};

const RESOURCES: &[&str] = &[
    "pods",
    "nodes",
    "leases.coordination.k8s.io",
    "replicasets.apps",
    "deployments.apps",
    "statefulsets.apps",
    "daemonsets.apps",
    "controllerrevisions.apps",
    "jobs.batch",
    "cronjobs.batch",
    "services",
    "endpointslices.discovery.k8s.io",
    "namespaces",
    "configmaps",
    "widgets.example.com",
    "customresourcedefinitions.apiextensions.k8s.io",
];

fn actions() -> Vec<Action> {
    let web = || key("deployments.apps", "a", "web");
    vec![
        Action::Set(web(), "/spec/replicas", json!(0)),
        Action::Set(web(), "/spec/replicas", json!(3)),
        Action::Set(
            web(),
            "/spec/template/spec/containers/0/image",
            json!("two"),
        ),
        Action::Delete(web(), "Background"),
        Action::Delete(web(), "Foreground"),
        Action::Delete(web(), "Orphan"),
        Action::Create("deployments.apps", objects::deployment("web", 1)),
        Action::Set(
            key("replicasets.apps", "a", "set"),
            "/spec/replicas",
            json!(1),
        ),
        Action::Delete(key("replicasets.apps", "a", "set"), "Foreground"),
        Action::Set(
            key("statefulsets.apps", "a", "db"),
            "/spec/replicas",
            json!(3),
        ),
        Action::Delete(key("statefulsets.apps", "a", "db"), "Orphan"),
        Action::Set(
            key("daemonsets.apps", "a", "agent"),
            "/spec/template/spec/containers/0/image",
            json!("two"),
        ),
        Action::Delete(key("daemonsets.apps", "a", "agent"), "Foreground"),
        Action::Delete(key("jobs.batch", "a", "once"), "Background"),
        Action::Delete(key("cronjobs.batch", "a", "tick"), "Background"),
        Action::Delete(key("configmaps", "a", "owner"), "Orphan"),
        Action::Delete(key("configmaps", "a", "owner"), "Foreground"),
        Action::Delete(key("persistentvolumeclaims", "a", "claim"), "Background"),
        Action::Delete(key("persistentvolumes", "", "volume"), "Background"),
        Action::Delete(key("endpoints", "a", "outside"), "Background"),
        Action::Delete(key("namespaces", "", "a"), "Background"),
        Action::Delete(key("nodes", "", "n1"), "Background"),
        Action::Create("nodes", objects::node("n1")),
        Action::PowerOff("n0"),
        Action::PowerOn("n0"),
    ]
}

/// Runs a history, and checks that the cluster comes to rest with nothing left to do.
async fn run(controllers: &[&str], steps: &[Step]) {
    let mut cluster = Cluster::new(controllers);
    objects::everything(&cluster.api);
    cluster.restart();
    for step in steps {
        cluster.step(step).await;
    }
    cluster.settle().await;
}

fn check(name: &str, controllers: &[&str], count: u32, most: usize) {
    let mut runner = TestRunner::new(cases(count));
    let strategy = (any::<u64>(), history(actions(), RESOURCES, most));
    let result = runner.run(&strategy, |(seed, steps)| {
        simulate(seed, || run(controllers, &steps));
        Ok(())
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(why, (seed, steps))) => {
            panic!("{name}, seed {seed}, {steps:#?}: {why}")
        }
        Err(error) => panic!("{name}: {error}"),
    }
}

#[test]
fn every_controller_comes_to_rest_with_nothing_left_to_do() {
    for controller in CONTROLLERS {
        check(controller.name, &[controller.name], 2, 12);
    }
}

#[test]
fn all_controllers_together_come_to_rest_with_nothing_left_to_do() {
    check("all", &["*"], 4, 16);
}

//! Deployments, ReplicaSets, ReplicationControllers, StatefulSets and DaemonSets.

use control_client::{Propagation, resources};
use serde_json::{Value, json};

use super::{and, image, int_or_percent, steps, template};
use crate::controllers::scenario::{Action, Step};
use tests::random::Random;

const PROPAGATIONS: [Propagation; 3] = [
    Propagation::Background,
    Propagation::Foreground,
    Propagation::Orphan,
];

pub fn deployment(random: &mut Random, _: &str) -> Vec<Step> {
    let deployments = || resources::DEPLOYMENTS;
    let strategy = if random.chance(25) {
        json!({"type": "Recreate"})
    } else if random.chance(30) {
        json!({})
    } else {
        let surge = int_or_percent(random, 0);
        let zero = surge == json!(0);
        json!({"type": "RollingUpdate", "rollingUpdate": {
            "maxSurge": surge,
            "maxUnavailable": int_or_percent(random, usize::from(zero))}})
    };
    let mut spec = json!({
        "replicas": random.between(0, 6),
        "selector": {"matchLabels": {"app": "web"}},
        "template": template("web", "one", &json!({})),
        "strategy": strategy,
    });
    if random.chance(40) {
        spec["revisionHistoryLimit"] = random.between(0, 2).into();
    }
    if random.chance(20) {
        spec["minReadySeconds"] = 1.into();
    }
    if random.chance(15) {
        spec["paused"] = true.into();
    }
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "annotations": {"team": "a"}}, "spec": spec});
    let patch = |patch: Value| Action::Patch(deployments(), "web".to_owned(), patch);
    let unready = json!({"spec": {"template": {"metadata":
        {"annotations": {"case/unready": ""}}}}});
    let ready = json!({"spec": {"template": {"metadata":
        {"annotations": {"case/unready": null}}}}});
    let choices = vec![
        vec![patch(image("two"))],
        vec![patch(image("three"))],
        vec![patch(image("one"))],
        vec![patch(json!({"spec": {"replicas": random.between(0, 7)}}))],
        vec![patch(and(
            image("four"),
            &json!({"spec": {"paused": true}}),
        ))],
        vec![patch(json!({"spec": {"paused": false}}))],
        vec![patch(
            json!({"spec": {"paused": true, "replicas": random.between(1, 5)}}),
        )],
        vec![patch(unready)],
        vec![patch(ready)],
        vec![patch(json!({"metadata": {"annotations": {"team": "b"}}}))],
        vec![patch(
            json!({"spec": {"template": {"metadata": {"labels": {"tier": "x"}}}}}),
        )],
        vec![Action::DeletePod("web".to_owned())],
        vec![Action::PatchPod(
            "web".to_owned(),
            json!({"metadata": {"labels": {"app": "other"}}}),
        )],
        vec![patch(and(image("five"), &json!({"spec": {"replicas": 3}})))],
    ];
    let mut all = vec![Step::new([Action::Create(deployments(), object.clone())])];
    all.extend(steps(random, choices, 4));
    if random.chance(40) {
        let policy = *random.pick(&PROPAGATIONS);
        all.push(Step::new([Action::Delete(
            deployments(),
            "web".to_owned(),
            policy,
        )]));
        if random.chance(60) {
            all.push(Step::new([Action::Create(deployments(), object)]));
        }
    }
    all
}

pub fn replica_set(random: &mut Random, _: &str) -> Vec<Step> {
    let is_set = random.chance(60);
    let (resource, mut object) = if is_set {
        let object = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "spec": {
            "selector": {"matchLabels": {"app": "set"}}}});
        (resources::REPLICA_SETS, object)
    } else {
        let object = json!({"apiVersion": "v1", "kind": "ReplicationController",
            "spec": {"selector": {"app": "set"}}});
        (resources::REPLICATION_CONTROLLERS, object)
    };
    object["metadata"] = json!({"name": "set"});
    object["spec"]["replicas"] = random.between(0, 5).into();
    object["spec"]["template"] = template("set", "one", &json!({}));
    let mut first = Vec::new();
    // Pods that are there before are adopted.
    for number in 0..random.below(3) {
        let mut pod = template("set", "old", &json!({}));
        pod["apiVersion"] = "v1".into();
        pod["kind"] = "Pod".into();
        pod["metadata"]["name"] = format!("early-{number}").into();
        first.push(Action::Create(resources::PODS, pod));
    }
    let mut all = Vec::new();
    if !first.is_empty() {
        all.push(Step::new(first));
    }
    all.push(Step::new([Action::Create(
        resource.clone(),
        object.clone(),
    )]));
    let patch = |patch: Value| Action::Patch(resource.clone(), "set".to_owned(), patch);
    let choices = vec![
        vec![patch(json!({"spec": {"replicas": random.between(0, 6)}}))],
        vec![Action::PatchPod(
            "set".to_owned(),
            json!({"metadata": {"labels": {"app": "gone"}}}),
        )],
        vec![Action::DeletePod("set".to_owned())],
        vec![patch(image("two")), Action::DeletePod("set".to_owned())],
        vec![Action::PatchPod(
            "set".to_owned(),
            json!({"metadata": {"annotations": {"case/exit": "1"}}}),
        )],
        vec![patch(json!({"metadata": {"labels": {"a": "b"}}}))],
        vec![patch(json!({"spec": {"minReadySeconds": 1}}))],
    ];
    all.extend(steps(random, choices, 3));
    if random.chance(50) {
        let policy = *random.pick(&PROPAGATIONS);
        all.push(Step::new([Action::Delete(
            resource.clone(),
            "set".to_owned(),
            policy,
        )]));
        if random.chance(60) {
            all.push(Step::new([Action::Create(resource, object)]));
        }
    }
    all
}

pub fn stateful_set(random: &mut Random, _: &str) -> Vec<Step> {
    let sets = || resources::STATEFUL_SETS;
    let mut spec = json!({
        "replicas": random.between(0, 4),
        "serviceName": "db",
        "selector": {"matchLabels": {"app": "db"}},
        "template": template("db", "one", &json!({})),
        "podManagementPolicy": random.pick(&["OrderedReady", "Parallel"]),
    });
    if random.chance(40) {
        spec["updateStrategy"] = match random.below(3) {
            0 => json!({"type": "OnDelete"}),
            _ => json!({"type": "RollingUpdate",
                "rollingUpdate": {"partition": random.between(0, 3)}}),
        };
    }
    if random.chance(30) {
        spec["ordinals"] = json!({"start": random.between(1, 5)});
    }
    if random.chance(50) {
        spec["volumeClaimTemplates"] = json!([{"metadata": {"name": "data",
            "labels": {"of": "db"}}, "spec": {"accessModes": ["ReadWriteOnce"],
            "storageClassName": "none",
            "resources": {"requests": {"storage": "1Gi"}}}}]);
        if random.chance(70) {
            spec["persistentVolumeClaimRetentionPolicy"] = json!({
                "whenDeleted": random.pick(&["Retain", "Delete"]),
                "whenScaled": random.pick(&["Retain", "Delete"])});
        }
    }
    if random.chance(30) {
        spec["revisionHistoryLimit"] = random.between(0, 2).into();
    }
    if random.chance(20) {
        spec["minReadySeconds"] = 1.into();
    }
    let object = json!({"apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": "db"}, "spec": spec});
    let patch = |patch: Value| Action::Patch(sets(), "db".to_owned(), patch);
    let choices = vec![
        vec![patch(image("two"))],
        vec![patch(image("three"))],
        vec![patch(image("one"))],
        vec![patch(json!({"spec": {"replicas": random.between(0, 5)}}))],
        vec![patch(json!({"spec": {"replicas": random.between(0, 5)}}))],
        vec![patch(
            json!({"spec": {"updateStrategy": {"type": "RollingUpdate",
            "rollingUpdate": {"partition": random.between(0, 2)}}}}),
        )],
        vec![Action::DeletePod("db".to_owned())],
        vec![patch(
            json!({"spec": {"template": {"metadata": {"annotations":
            {"case/unready": ""}}}}}),
        )],
        vec![patch(
            json!({"spec": {"persistentVolumeClaimRetentionPolicy": {
            "whenDeleted": "Delete", "whenScaled": random.pick(&["Retain", "Delete"])}}}),
        )],
        vec![patch(and(
            image("four"),
            &json!({"spec": {"replicas": random.between(1, 4)}}),
        ))],
    ];
    let mut all = vec![Step::new([Action::Create(sets(), object.clone())])];
    all.extend(steps(random, choices, 4));
    if random.chance(40) {
        let policy = *random.pick(&PROPAGATIONS);
        all.push(Step::new([Action::Delete(sets(), "db".to_owned(), policy)]));
        if random.chance(60) {
            all.push(Step::new([Action::Create(sets(), object)]));
        }
    }
    all
}

pub fn daemon_set(random: &mut Random, _: &str) -> Vec<Step> {
    let sets = || resources::DAEMON_SETS;
    let mut pods = template("agent", "one", &json!({}));
    if random.chance(50) {
        pods["spec"]["nodeSelector"] = json!({"pool": random.pick(&["a", "b", "none"])});
    }
    let mut spec = json!({"selector": {"matchLabels": {"app": "agent"}}, "template": pods});
    if random.chance(60) {
        spec["updateStrategy"] = match random.below(4) {
            0 => json!({"type": "OnDelete"}),
            1 => json!({"type": "RollingUpdate", "rollingUpdate": {
                "maxSurge": int_or_percent(random, 1), "maxUnavailable": 0}}),
            _ => json!({"type": "RollingUpdate", "rollingUpdate": {
                "maxUnavailable": int_or_percent(random, 1)}}),
        };
    }
    if random.chance(30) {
        spec["revisionHistoryLimit"] = random.between(0, 2).into();
    }
    let object = json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "agent"}, "spec": spec});
    let patch = |patch: Value| Action::Patch(sets(), "agent".to_owned(), patch);
    let choices = vec![
        vec![patch(image("two"))],
        vec![patch(image("three"))],
        vec![patch(image("one"))],
        vec![patch(json!({"spec": {"template": {"spec":
            {"nodeSelector": {"pool": random.pick(&["a", "b"])}}}}}))],
        vec![Action::DeletePod("agent".to_owned())],
        vec![patch(
            json!({"spec": {"template": {"metadata": {"annotations":
            {"case/unready": ""}}}}}),
        )],
        vec![patch(
            json!({"spec": {"template": {"metadata": {"annotations":
            {"case/unready": null}}}}}),
        )],
        vec![patch(json!({"spec": {"minReadySeconds": 1}}))],
    ];
    let mut all = vec![Step::new([Action::Create(sets(), object.clone())])];
    all.extend(steps(random, choices, 4));
    if random.chance(40) {
        let policy = *random.pick(&PROPAGATIONS);
        all.push(Step::new([Action::Delete(
            sets(),
            "agent".to_owned(),
            policy,
        )]));
        if random.chance(60) {
            all.push(Step::new([Action::Create(sets(), object)]));
        }
    }
    all
}

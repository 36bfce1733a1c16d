//! Quotas, namespaces that end, and objects that own others.

use control_client::{Propagation, resources};
use serde_json::{Value, json};

use super::{steps, template};
use crate::controllers::scenario::{Action, Step};
use tests::random::Random;

fn deployment(replicas: usize) -> Action {
    let mut template = template("web", "one", &json!({}));
    template["spec"]["containers"][0]["resources"] =
        json!({"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}});
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web"}, "spec": {"replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}}, "template": template}});
    Action::Create(resources::DEPLOYMENTS, object)
}

fn config_map(name: &str, meta: Value) -> Action {
    let mut meta = meta;
    meta["name"] = name.into();
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta});
    Action::Create(resources::CONFIG_MAPS, object)
}

pub fn quota(random: &mut Random, _: &str) -> Vec<Step> {
    let all = [
        ("pods", "10"),
        ("requests.cpu", "2"),
        ("limits.memory", "4Gi"),
        ("count/deployments.apps", "5"),
        ("services", "3"),
        ("configmaps", "20"),
        ("persistentvolumeclaims", "2"),
        ("requests.storage", "10Gi"),
        ("count/replicasets.apps", "9"),
        ("secrets", "7"),
    ];
    let hard: serde_json::Map<String, Value> = random
        .some(&all, 50)
        .into_iter()
        .map(|(name, value)| ((*name).to_owned(), json!(value)))
        .collect();
    let mut spec = json!({"hard": hard});
    if random.chance(25) {
        spec = json!({"hard": {"pods": "9", "requests.cpu": "1"},
            "scopes": [random.pick(&["NotTerminating", "NotBestEffort"])]});
    }
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": "quota"}, "spec": spec});
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "claim"}, "spec": {"accessModes": ["ReadWriteOnce"],
            "storageClassName": "none", "resources": {"requests": {"storage": "2Gi"}}}});
    let patch = json!({"spec": {"hard": {"pods": "8", "services": "4"}}});
    let first = Action::Create(resources::RESOURCE_QUOTAS, quota);
    let choices = vec![
        vec![config_map("one", json!({})), config_map("two", json!({}))],
        vec![Action::Create(resources::PERSISTENT_VOLUME_CLAIMS, claim)],
        vec![Action::Patch(
            resources::DEPLOYMENTS,
            "web".to_owned(),
            json!({"spec": {"replicas": random.between(0, 5)}}),
        )],
        vec![Action::Patch(
            resources::RESOURCE_QUOTAS,
            "quota".to_owned(),
            patch,
        )],
        vec![Action::DeletePod("web".to_owned())],
        vec![Action::Delete(
            resources::DEPLOYMENTS,
            "web".to_owned(),
            Propagation::Background,
        )],
    ];
    let mut all = if random.chance(50) {
        vec![
            Step::new([deployment(random.between(0, 4))]),
            Step::new([first]),
        ]
    } else {
        vec![
            Step::new([first]),
            Step::new([deployment(random.between(0, 4))]),
        ]
    };
    all.extend(steps(random, choices, 3));
    all
}

/// A reference to an object that this case created before; the uid is filled in.
fn owner(name: &str, blocks: bool, controls: bool) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": format!("UID:{name}"),
        "blockOwnerDeletion": blocks, "controller": controls})
}

pub fn garbage(random: &mut Random, _: &str) -> Vec<Step> {
    let names = ["a", "b", "c", "d", "e", "f"];
    let mut made = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let mut owners = Vec::new();
        for owned_by in &names[..at] {
            if random.chance(45) {
                owners.push(owner(owned_by, random.chance(50), owners.is_empty()));
            }
        }
        let mut meta = json!({"ownerReferences": owners});
        if random.chance(15) {
            meta["finalizers"] = json!(["example.com/hold"]);
        }
        made.push(config_map(name, meta));
    }
    if random.chance(30) {
        let mut absent = owner("a", false, false);
        absent["uid"] = "00000000-0000-4000-8000-000000000000".into();
        made.push(config_map("orphan", json!({"ownerReferences": [absent]})));
    }
    let delete = |random: &mut Random| {
        let policy = *random.pick(&[
            Propagation::Background,
            Propagation::Foreground,
            Propagation::Orphan,
        ]);
        let name = (*random.pick(&names[..4])).to_owned();
        vec![Action::Delete(resources::CONFIG_MAPS, name, policy)]
    };
    let release = |name: &str| {
        let patch = json!({"metadata": {"finalizers": null}});
        Action::Patch(resources::CONFIG_MAPS, name.to_owned(), patch)
    };
    let mut all = vec![Step::new(made)];
    for _ in 0..random.between(1, 3) {
        all.push(Step::new(delete(random)));
    }
    all.push(Step::new(names.iter().map(|name| release(name))));
    all
}

pub fn namespace(random: &mut Random, case: &str) -> Vec<Step> {
    let other = format!("{case}-other");
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}});
    let mut held = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "held", "namespace": other}});
    let holds = random.chance(50);
    if holds {
        held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    }
    let mut pod = template("web", "one", &json!({}));
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["name"] = "pod".into();
    pod["metadata"]["namespace"] = other.clone().into();
    pod["spec"]["automountServiceAccountToken"] = false.into();
    let mut all = vec![
        Step::new([Action::Create(resources::NAMESPACES, namespace)]),
        Step::new([
            Action::Create(resources::CONFIG_MAPS, held),
            Action::Create(resources::PODS, pod),
        ]),
        Step::new([Action::Delete(
            resources::NAMESPACES,
            other.clone(),
            Propagation::Background,
        )])
        .calm(std::time::Duration::from_secs(12)),
    ];
    if holds {
        let patch = json!({"metadata": {"namespace": other, "finalizers": null}});
        let release = Action::Patch(resources::CONFIG_MAPS, "held".to_owned(), patch);
        all.push(Step::new([release]).calm(std::time::Duration::from_secs(22)));
    }
    all
}

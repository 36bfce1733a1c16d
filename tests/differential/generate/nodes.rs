//! Random nodes.

use serde_json::{Map, Value, json};

use super::{Constraint, Focus};
use crate::case::Object;
use tests::random::Random;

/// Labels whose values are domains.
pub const TOPOLOGIES: [&str; 4] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "rack",
];

/// Taints by key and value.
pub const TAINTS: [(&str, &str); 4] = [
    ("dedicated", "a"),
    ("dedicated", "b"),
    ("flaky", ""),
    ("gpu", "true"),
];

/// Effects of taints.
pub const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Images with their sizes in MiB.
pub const IMAGES: [(&str, i64); 5] = [
    ("registry.example/web:1", 500),
    ("registry.example/web:latest", 90),
    ("registry.example/db:2", 1500),
    ("cache:latest", 20),
    ("registry.example:5000/tool:latest", 300),
];

/// The nodes of a case. Their names are its own, so that a node of an earlier case that is
/// not gone yet is noticed.
pub fn nodes(random: &mut Random, seed: u64, focus: &Focus) -> Vec<Object> {
    let count = random.between(2, 9);
    (0..count)
        .map(|at| Object::new(node(random, &format!("n{seed}-{at}"), focus)))
        .collect()
}

fn node(random: &mut Random, name: &str, focus: &Focus) -> Value {
    let mut labels = Map::new();
    if random.chance(95) {
        labels.insert("kubernetes.io/hostname".into(), json!(name));
    }
    for (key, values, chance) in [
        ("topology.kubernetes.io/zone", &["z1", "z2", "z3"][..], 85),
        ("topology.kubernetes.io/region", &["r1", "r2"], 60),
        ("rack", &["k1", "k2", "k3", "k4"], 60),
        ("disk", &["ssd", "hdd"], 70),
        ("generation", &["1", "3", "7", "12", "many"], 70),
    ] {
        if random.chance(chance) {
            labels.insert(key.into(), json!(random.pick(values)));
        }
    }
    let mut allocatable = json!({
        "cpu": random.pick(&["500m", "1", "1500m", "2", "4"]),
        "memory": random.pick(&["512Mi", "1Gi", "3000000001", "4Gi", "2G"]),
        "ephemeral-storage": random.pick(&["1Gi", "10Gi"]),
        "pods": random.pick(&["0", "2", "5", "110", "110"]),
    });
    if random.chance(40) {
        allocatable["example.com/gpu"] = json!(random.pick(&["0", "1", "4"]));
    }
    if random.chance(20) {
        allocatable["hugepages-2Mi"] = json!(random.pick(&["0", "64Mi"]));
    }
    let images: Vec<Value> = random
        .some(&IMAGES, 30)
        .into_iter()
        .map(|(name, size)| json!({"names": [name], "sizeBytes": size << 20}))
        .collect();
    let mut spec = json!({});
    if random.chance(focus.chance(Constraint::Taints) / 2) {
        let mut taints: Vec<Value> = Vec::new();
        for _ in 0..random.between(1, 2) {
            let (key, value) = random.pick(&TAINTS);
            let effect = random.pick(&EFFECTS);
            let known = taints
                .iter()
                .any(|it| it["key"] == *key && it["effect"] == *effect);
            if !known {
                taints.push(json!({"key": key, "value": value, "effect": effect}));
            }
        }
        spec["taints"] = json!(taints);
    }
    if random.chance(focus.chance(Constraint::Taints) / 5) {
        spec["unschedulable"] = json!(true);
    }
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {
            "capacity": allocatable, "allocatable": allocatable, "images": images,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady",
                "message": "ready", "lastHeartbeatTime": "2026-01-01T00:00:00Z",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        },
    })
}

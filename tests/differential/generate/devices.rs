//! Random devices, and claims to them.

use serde_json::{Value, json};

use super::NAMESPACES;
use crate::case::Object;
use tests::random::Random;

const DRIVER: &str = "gpu.example.com";

/// Claims of each namespace. Nobody decides about a pod whose claim is not there.
const CLAIMS: [&str; 4] = ["one", "two", "large", "any"];

/// Classes of devices, devices of nodes, and claims.
pub fn objects(random: &mut Random, seed: u64, nodes: &[Object]) -> Vec<Object> {
    let mut objects = Vec::new();
    for (name, expression) in [
        ("gpu", format!("device.driver == \"{DRIVER}\"")),
        (
            "large",
            format!("device.capacity[\"{DRIVER}\"].memory.compareTo(quantity(\"4Gi\")) >= 0"),
        ),
    ] {
        objects.push(Object::new(json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
            "metadata": {"name": name},
            "spec": {"selectors": [{"cel": {"expression": expression}}]},
        })));
    }
    for node in nodes {
        if random.chance(70) {
            let count = random.between(1, 3);
            let devices = (0..count).map(|at| device(random, at));
            objects.push(Object::new(json!({
                "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
                "metadata": {"name": format!("{}-gpus", node.name())},
                "spec": {
                    "driver": DRIVER, "nodeName": node.name(), "devices": devices.collect::<Value>(),
                    "pool": {"name": node.name(), "generation": 1, "resourceSliceCount": 1},
                },
            })));
        }
    }
    if random.chance(40) {
        let zone =
            json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z1"]});
        objects.push(Object::new(json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
            "metadata": {"name": format!("shared-{seed}")},
            "spec": {
                "driver": DRIVER, "devices": [device(random, 0)],
                "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]},
                "pool": {"name": format!("shared-{seed}"), "generation": 1, "resourceSliceCount": 1},
            },
        })));
    }
    for (namespace, _) in NAMESPACES {
        for claim in CLAIMS {
            objects.push(Object::new(json!({
                "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
                "metadata": {"namespace": namespace, "name": claim},
                "spec": {"devices": spec(random, claim)},
            })));
        }
    }
    objects
}

fn device(random: &mut Random, at: usize) -> Value {
    let mut device = json!({
        "name": format!("gpu-{at}"),
        "attributes": {
            "model": {"string": random.pick(&["a100", "h100"])},
            "numa": {"int": random.below(2)},
        },
        "capacity": {"memory": {"value": random.pick(&["2Gi", "4Gi", "8Gi"])}},
    });
    if random.chance(15) {
        device["taints"] = json!([{"key": "broken", "effect": "NoSchedule"}]);
    }
    device
}

fn spec(random: &mut Random, claim: &str) -> Value {
    let class = if claim == "large" { "large" } else { "gpu" };
    let mut exactly = json!({"deviceClassName": class});
    match random.below(5) {
        0 => exactly["allocationMode"] = json!("All"),
        1 => exactly["count"] = json!(2),
        _ => {}
    }
    if random.chance(40) {
        let model = random.pick(&["a100", "h100"]);
        let expression = format!("device.attributes[\"{DRIVER}\"].model == \"{model}\"");
        exactly["selectors"] = json!([{"cel": {"expression": expression}}]);
    }
    if random.chance(25) {
        exactly["tolerations"] = json!([{"key": "broken", "operator": "Exists"}]);
    }
    match claim {
        "two" => {
            let mut spec = json!({"requests": [
                {"name": "first", "exactly": exactly},
                {"name": "second", "exactly": {"deviceClassName": "gpu"}},
            ]});
            if random.chance(60) {
                spec["constraints"] = json!([{"matchAttribute": format!("{DRIVER}/numa")}]);
            }
            spec
        }
        "any" => {
            exactly["name"] = json!("preferred");
            json!({"requests": [{"name": "r", "firstAvailable": [
                exactly, {"name": "other", "deviceClassName": "gpu"}]}]})
        }
        _ => json!({"requests": [{"name": "r", "exactly": exactly}]}),
    }
}

/// Gives a pod claims to devices.
pub fn add_to(random: &mut Random, pod: &mut Value) {
    let claim = random.pick(&CLAIMS);
    pod["spec"]["resourceClaims"] = json!([{"name": "c", "resourceClaimName": claim}]);
    pod["spec"]["containers"][0]["resources"]["claims"] = json!([{"name": "c"}]);
}

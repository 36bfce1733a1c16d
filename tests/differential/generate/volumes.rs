//! Random volumes, claims to them, and what drivers say of nodes.

use serde_json::{Value, json};

use super::NAMESPACES;
use crate::case::Object;
use tests::random::Random;

/// The CSI driver of all volumes.
const DRIVER: &str = "csi.example.com";

/// Claims of each namespace, by what they are about; not all of them are in a case.
const CLAIMS: [&str; 8] = [
    "bound-a", "bound-b", "bound-c", "once", "wait", "local", "pending", "lost",
];

/// Classes of volumes, drivers and their limits, volumes and claims.
pub fn objects(random: &mut Random, seed: u64, nodes: &[Object]) -> Vec<Object> {
    let mut objects = vec![
        class("now", "Immediate", DRIVER, None),
        class(
            "local",
            "WaitForFirstConsumer",
            "kubernetes.io/no-provisioner",
            None,
        ),
    ];
    let topology = random.chance(40).then(|| *random.pick(&["z1", "z2"]));
    objects.push(class("wait", "WaitForFirstConsumer", DRIVER, topology));
    let counts_capacity = random.chance(40);
    objects.push(Object::new(json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": DRIVER},
        "spec": {"attachRequired": true, "storageCapacity": counts_capacity},
    })));
    if counts_capacity {
        for zone in random.some(&["z1", "z2", "z3"], 60) {
            objects.push(Object::new(json!({
                "apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity",
                "metadata": {"namespace": "red", "name": format!("capacity-{zone}")},
                "storageClassName": "wait", "capacity": random.pick(&["500Mi", "10Gi"]),
                "nodeTopology": {"matchLabels": {"topology.kubernetes.io/zone": zone}},
            })));
        }
    }
    for node in nodes {
        if random.chance(75) {
            let mut driver = json!({
                "name": DRIVER, "nodeID": node.name(),
                "topologyKeys": ["topology.kubernetes.io/zone"],
            });
            if random.chance(70) {
                driver["allocatable"] = json!({"count": random.between(1, 3)});
            }
            objects.push(Object::new(json!({
                "apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
                "metadata": {"name": node.name()}, "spec": {"drivers": [driver]},
            })));
        }
        if random.chance(40) {
            let hostname = json!({"key": "kubernetes.io/hostname", "operator": "In",
                "values": [node.name()]});
            objects.push(Object::new(json!({
                "apiVersion": "v1", "kind": "PersistentVolume",
                "metadata": {"name": format!("local-{}", node.name())},
                "spec": {
                    "capacity": {"storage": random.pick(&["500Mi", "1Gi", "2Gi"])},
                    "accessModes": ["ReadWriteOnce"], "storageClassName": "local",
                    "persistentVolumeReclaimPolicy": "Retain",
                    "local": {"path": "/mnt"},
                    "nodeAffinity": {"required": {"nodeSelectorTerms": [
                        {"matchExpressions": [hostname]}]}},
                },
                "status": {"phase": "Available"},
            })));
        }
    }
    for (namespace, _) in NAMESPACES {
        for claim in random.some(&CLAIMS, 75) {
            objects.extend(claim_objects(random, seed, namespace, claim, nodes));
        }
    }
    objects
}

fn class(name: &str, mode: &str, provisioner: &str, zone: Option<&str>) -> Object {
    let mut class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": provisioner, "volumeBindingMode": mode, "reclaimPolicy": "Delete",
    });
    if let Some(zone) = zone {
        class["allowedTopologies"] = json!([{"matchLabelExpressions": [
            {"key": "topology.kubernetes.io/zone", "values": [zone]}]}]);
    }
    Object::new(class)
}

/// A claim, with its volume if it is bound to one.
fn claim_objects(
    random: &mut Random,
    seed: u64,
    namespace: &str,
    name: &str,
    nodes: &[Object],
) -> Vec<Object> {
    let (class, mode) = match name {
        "wait" => ("wait", "ReadWriteOnce"),
        "local" => ("local", "ReadWriteOnce"),
        "once" => ("now", "ReadWriteOncePod"),
        _ => ("now", *random.pick(&["ReadWriteOnce", "ReadWriteMany"])),
    };
    let mut claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {
            "accessModes": [mode], "storageClassName": class,
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Pending"},
    });
    if ["wait", "local", "pending"].contains(&name) {
        return vec![Object::new(claim)];
    }
    let volume = format!("v{seed}-{namespace}-{name}");
    claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
    claim["spec"]["volumeName"] = json!(volume);
    if name == "lost" {
        claim["status"] = json!({"phase": "Lost"});
        return vec![Object::new(claim)];
    }
    claim["status"] = json!({"phase": "Bound", "accessModes": [mode],
        "capacity": {"storage": "1Gi"}});
    let mut spec = json!({
        "capacity": {"storage": "1Gi"}, "accessModes": [mode], "storageClassName": class,
        "persistentVolumeReclaimPolicy": "Retain",
        "claimRef": {"kind": "PersistentVolumeClaim", "apiVersion": "v1",
            "namespace": namespace, "name": name},
        // Equal handles are one volume, which counts once.
        "csi": {"driver": DRIVER, "volumeHandle": if random.chance(20) { "shared" } else { &volume }},
    });
    if random.chance(60) {
        let (key, value) = match random.below(3) {
            0 => ("kubernetes.io/hostname", random.pick(nodes).name()),
            _ => ("topology.kubernetes.io/zone", *random.pick(&["z1", "z2"])),
        };
        spec["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": key, "operator": "In", "values": [value]}]}]}});
    }
    let mut metadata = json!({"name": volume});
    if random.chance(30) {
        let zones = random.pick(&["z1", "z1__z2", "z3"]);
        metadata["labels"] = json!({"topology.kubernetes.io/zone": zones});
    }
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": metadata, "spec": spec, "status": {"phase": "Bound"},
    });
    vec![Object::new(volume), Object::new(claim)]
}

/// Gives a pod volumes.
pub fn add_to(random: &mut Random, pod: &mut Value) {
    let mut volumes = pod["spec"]["volumes"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let count = random.between(1, 2);
    for at in 0..count {
        let volume = match random.below(20) {
            0 => json!({"ephemeral": {"volumeClaimTemplate": {"spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}}}}}}),
            1 => json!({"gcePersistentDisk": {"pdName": "disk", "readOnly": random.chance(50)}}),
            2 => json!({"awsElasticBlockStore": {"volumeID": "vol-1"}}),
            3 => json!({"persistentVolumeClaim": {"claimName": "absent"}}),
            _ => json!({"persistentVolumeClaim": {"claimName": random.pick(&CLAIMS)}}),
        };
        let same = volumes
            .iter()
            .any(|it| it["persistentVolumeClaim"] == volume["persistentVolumeClaim"]);
        if same && !volume["persistentVolumeClaim"].is_null() {
            continue;
        }
        let mut volume = volume;
        volume["name"] = json!(format!("d{at}"));
        volumes.push(volume);
    }
    pod["spec"]["volumes"] = json!(volumes);
}

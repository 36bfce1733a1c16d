//! Tests messages about missing volumes.

use control_client::{Cache, View};
use serde_json::{Value, json};

use super::*;

fn objects<V: View>(objects: Value) -> Cache<V> {
    let Value::Array(objects) = objects else {
        return Cache::fixed([]);
    };
    let objects = objects.into_iter();
    Cache::fixed(objects.map(|object| serde_json::from_value(object).expect("an object")))
}

fn pod(spec: &Value, status: &Value) -> Pod {
    let pod = json!({
        "metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec, "status": status
    });
    serde_json::from_value(pod).expect("a pod")
}

fn lacks(pod: &Pod, catalog: &Catalog) -> String {
    match VolumeState::prepare(&Snapshot::new(), pod, catalog, &AssumedVolumes::default()) {
        Ok(_) => String::new(),
        Err(unmet) => unmet.reason,
    }
}

#[test]
fn a_claim_to_a_volume_must_be_there_and_bound_or_wait_for_its_pod() {
    let plain = pod(
        &json!({"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "x"}}, {"name": "e", "emptyDir": {}}]}),
        &json!({}),
    );
    let ephemeral = pod(
        &json!({"volumes": [{"name": "d", "ephemeral": {}}]}),
        &json!({}),
    );
    assert_eq!(
        lacks(&plain, &Catalog::default()),
        "persistentvolumeclaim \"x\" not found"
    );
    assert_eq!(
        lacks(&ephemeral, &Catalog::default()),
        "waiting for ephemeral volume controller to create the persistentvolumeclaim \"p-d\""
    );
    let claim = |name: &str, metadata: Value, spec: Value, phase: &str| {
        let mut claim = json!({"metadata": metadata, "spec": spec, "status": {"phase": phase}});
        claim["metadata"]["name"] = json!(name);
        claim["metadata"]["namespace"] = json!("n");
        let classes =
            json!([{"metadata": {"name": "late"}, "volumeBindingMode": "WaitForFirstConsumer"}]);
        Catalog {
            persistent_volume_claims: objects(json!([claim])),
            persistent_volumes: objects(json!([{"metadata": {"name": "v"}}])),
            storage_classes: objects(classes),
            ..Catalog::default()
        }
    };
    let bound = json!({"annotations": {"pv.kubernetes.io/bind-completed": "yes"}});
    for (metadata, spec, phase, why) in [
        (bound.clone(), json!({"volumeName": "v"}), "Bound", ""),
        (
            bound.clone(),
            json!({"volumeName": "gone"}),
            "Bound",
            "persistentvolume \"gone\" not found",
        ),
        (
            bound,
            json!({"volumeName": "gone"}),
            "Lost",
            "persistentvolumeclaim \"x\" bound to non-existent persistentvolume \"gone\"",
        ),
        (
            json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}),
            json!({"volumeName": "v"}),
            "Bound",
            "persistentvolumeclaim \"x\" is being deleted",
        ),
        (
            json!({}),
            json!({"volumeName": "v", "storageClassName": null}),
            "Pending",
            "pod has unbound immediate PersistentVolumeClaims",
        ),
        (
            json!({}),
            json!({"storageClassName": "late"}),
            "Pending",
            "",
        ),
    ] {
        assert_eq!(lacks(&plain, &claim("x", metadata, spec, phase)), why);
    }
    let of_another = claim("p-d", json!({}), json!({}), "Bound");
    assert_eq!(
        lacks(&ephemeral, &of_another),
        "PVC n/p-d was not created for pod n/p (pod is not owner)"
    );
}

fn with_volume(name: &str, priority: i32, volume: &Value) -> std::sync::Arc<Pod> {
    let pod = json!({
        "metadata": {"name": name, "namespace": "n", "uid": name},
        "spec": {"priority": priority, "volumes": [volume],
            "containers": [{"resources": {"requests": {"cpu": "1"}}}]},
    });
    std::sync::Arc::new(serde_json::from_value(pod).expect("a pod"))
}

/// Returns the pods that a pod preempts, or why it does not.
fn evicts(cluster: &mut crate::Cluster, pod: &std::sync::Arc<Pod>) -> String {
    let mut placer = crate::Placer::default();
    let crate::Decision::Unschedulable(diagnosis) = placer.place(cluster, pod, 0) else {
        return "nobody".to_owned();
    };
    match placer.preempt(cluster, pod, &diagnosis, 0) {
        Ok(found) => {
            let victims = found.victims.iter().map(|pod| pod.metadata.name.as_str());
            victims.collect::<Vec<_>>().join(" ")
        }
        Err(none) => format!("{} {}", diagnosis.message(), none.message),
    }
}

#[test]
fn storage_that_cannot_be_shared_is_taken_from_pods_of_lower_priority() {
    let claim = json!({"metadata": {"name": "x", "namespace": "n", "uid": "x",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": "v", "accessModes": ["ReadWriteOncePod"]}});
    let volume = json!({"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOncePod"],
        "csi": {"driver": "d", "volumeHandle": "h"}}});
    let mut cluster = crate::Cluster {
        catalog: std::sync::Arc::new(Catalog {
            persistent_volume_claims: objects(json!([claim])),
            persistent_volumes: objects(json!([volume])),
            ..Catalog::default()
        }),
        ..crate::Cluster::default()
    };
    for name in ["a", "b"] {
        let node = json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "10"}}});
        let node = serde_json::from_value(node).expect("a node");
        cluster.snapshot.set_node(&std::sync::Arc::new(node));
    }
    let exclusive = json!({"name": "d", "persistentVolumeClaim": {"claimName": "x"}});
    cluster
        .snapshot
        .put_pod(&with_volume("user", 0, &exclusive), "b");
    assert_eq!(
        evicts(&mut cluster, &with_volume("urgent", 10, &exclusive)),
        "user"
    );
    let reason = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod";
    let kept = evicts(&mut cluster, &with_volume("equal", 0, &exclusive));
    assert!(
        kept.starts_with(&format!("0/2 nodes are available: 2 {reason}.")),
        "{kept}"
    );
    let disk = json!({"name": "d", "awsElasticBlockStore": {"volumeID": "vol-1"}});
    for node in ["a", "b"] {
        let name = format!("disk-{node}");
        cluster
            .snapshot
            .put_pod(&with_volume(&name, 5, &disk), node);
    }
    let kept = evicts(&mut cluster, &with_volume("late", 5, &disk));
    assert!(
        kept.starts_with("0/2 nodes are available: 2 node(s) had no available disk."),
        "{kept}"
    );
    assert_eq!(
        evicts(&mut cluster, &with_volume("urgent", 10, &disk)),
        "disk-a"
    );
}

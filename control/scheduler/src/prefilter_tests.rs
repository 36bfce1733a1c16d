//! What a pod is said to lack.

use control_client::View;
use serde_json::{Value, json};

use super::*;

fn objects<V: View>(objects: Value) -> Cache<V> {
    let Value::Array(objects) = objects else {
        return Cache::fixed([]);
    };
    let objects = objects.into_iter();
    Cache::fixed(objects.map(|object| serde_json::from_value(object).expect("an object")))
}

fn none() -> Claims {
    Claims {
        persistent: objects(json!([])),
        volumes: objects(json!([])),
        classes: objects(json!([])),
        devices: objects(json!([])),
    }
}

fn pod(spec: &Value, status: &Value) -> Pod {
    let pod = json!({
        "metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec, "status": status
    });
    serde_json::from_value(pod).expect("a pod")
}

fn lacks(pod: &Pod, claims: &Claims) -> String {
    match prefilter(pod, claims) {
        Ok(_) => String::new(),
        Err(unmet) => unmet.reason,
    }
}

#[test]
fn a_claim_to_a_volume_must_be_there_and_bound() {
    let plain = pod(
        &json!({"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "x"}}, {"name": "e", "emptyDir": {}}]}),
        &json!({}),
    );
    let ephemeral = pod(
        &json!({"volumes": [{"name": "d", "ephemeral": {}}]}),
        &json!({}),
    );
    assert_eq!(
        lacks(&plain, &none()),
        "persistentvolumeclaim \"x\" not found"
    );
    assert_eq!(
        lacks(&ephemeral, &none()),
        "waiting for ephemeral volume controller to create the persistentvolumeclaim \"p-d\""
    );
    let claim = |name: &str, metadata: Value, spec: Value, phase: &str| {
        let mut claim = json!({"metadata": metadata, "spec": spec, "status": {"phase": phase}});
        claim["metadata"]["name"] = json!(name);
        claim["metadata"]["namespace"] = json!("n");
        let classes =
            json!([{"metadata": {"name": "late"}, "volumeBindingMode": "WaitForFirstConsumer"}]);
        Claims {
            persistent: objects(json!([claim])),
            volumes: objects(json!([{"metadata": {"name": "v"}}])),
            classes: objects(classes),
            ..none()
        }
    };
    let bound = json!({"annotations": {"pv.kubernetes.io/bind-completed": "yes"}});
    for (metadata, spec, phase, why) in [
        (bound.clone(), json!({"volumeName": "v"}), "Bound", ""),
        (
            bound.clone(),
            json!({"volumeName": "gone"}),
            "Bound",
            "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
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
            "persistentvolumeclaim \"x\" waits for its first consumer, which this scheduler does not support yet",
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

#[test]
fn a_claim_to_devices_must_be_allocated_and_reserved() {
    let named = pod(
        &json!({"resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}]}),
        &json!({}),
    );
    let made = |statuses: Value| {
        pod(
            &json!({"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]}),
            &json!({"resourceClaimStatuses": statuses}),
        )
    };
    let with = |status: Value| Claims {
        devices: objects(json!([{"metadata": {"name": "c", "namespace": "n"}, "status": status}])),
        ..none()
    };
    assert_eq!(
        lacks(&named, &none()),
        "resourceclaim.resource.k8s.io \"c\" not found"
    );
    assert!(lacks(&named, &with(json!({}))).contains("\"c\" is not allocated"));
    let allocated = json!({"allocation": {}});
    assert!(lacks(&named, &with(allocated)).contains("\"c\" is not reserved"));
    let ready = with(json!({"allocation": {}, "reservedFor": [{"uid": "u"}]}));
    assert_eq!(lacks(&named, &ready), "");
    assert!(lacks(&made(json!([])), &ready).contains("from template \"t\""));
    let status = json!([{"name": "gpu", "resourceClaimName": "c"}]);
    assert_eq!(lacks(&made(status), &ready), "");
    assert_eq!(
        lacks(&made(json!([{"name": "gpu"}])), &ready),
        "",
        "none was needed"
    );
}

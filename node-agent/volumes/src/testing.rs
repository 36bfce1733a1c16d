//! Objects for tests.

use serde_json::{Value, json};

/// The claim `default/data` of class `local`, for which node `n1` was selected.
pub fn claim() -> Value {
    json!({
        "metadata": {
            "namespace": "default", "name": "data", "uid": "u1", "resourceVersion": "7",
            "annotations": {
                "volume.kubernetes.io/storage-provisioner": "csi.orlop.dev",
                "volume.kubernetes.io/selected-node": "n1",
            }
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "local",
            "volumeMode": "Filesystem",
        },
        "status": {"phase": "Pending"}
    })
}

/// The class `local`.
pub fn class() -> Value {
    json!({
        "metadata": {"name": "local"},
        "provisioner": "csi.orlop.dev",
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
        "parameters": {"csi.storage.k8s.io/fstype": "ext4"},
    })
}

/// The bound volume of that claim on a node.
pub fn volume(node: &str) -> Value {
    json!({
        "metadata": {
            "name": "pvc-u1", "uid": "v1", "resourceVersion": "8",
            "annotations": {"pv.kubernetes.io/provisioned-by": "csi.orlop.dev"},
            "finalizers": [
                "kubernetes.io/pv-protection",
                "external-provisioner.volume.kubernetes.io/finalizer"
            ],
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": "default", "name": "data", "uid": "u1"},
            "csi": {"driver": "csi.orlop.dev", "volumeHandle": "pvc-u1", "fsType": "ext4"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "topology.csi.orlop.dev/node", "operator": "In", "values": [node]}
            ]}]}},
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": "local",
            "volumeMode": "Filesystem",
        },
        "status": {"phase": "Bound"}
    })
}

//! The references of pods and volumes, which the pod's node may read.

use control_types::meta;
use control_types::value::Value;

use super::graph::VertexKind;

/// All that a pod's edges are read from.
pub const POD_PATHS: &[&str] = &[
    "metadata.namespace",
    "metadata.name",
    "metadata.annotations",
    "spec.nodeName",
    "spec.serviceAccountName",
    "spec.imagePullSecrets",
    "spec.initContainers.env.valueFrom",
    "spec.initContainers.envFrom",
    "spec.containers.env.valueFrom",
    "spec.containers.envFrom",
    "spec.ephemeralContainers.env.valueFrom",
    "spec.ephemeralContainers.envFrom",
    "spec.volumes",
    "spec.resourceClaims",
    "status.resourceClaimStatuses",
    "status.extendedResourceClaimStatus",
];

/// All that a pod's specification and status refer to, in the pod's namespace.
/// A mirror pod refers to nothing: its agent made it up.
pub(super) fn of_pod(pod: &Value, mut see: impl FnMut(VertexKind, &str)) {
    if meta::annotation(pod, "kubernetes.io/config.mirror").is_some() {
        return;
    }
    let Some(spec) = pod.get("spec") else { return };
    let mut take = |kind, name: Option<&str>| {
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            see(kind, name);
        }
    };
    take(
        VertexKind::ServiceAccount,
        spec.str_at(&["serviceAccountName"]),
    );
    for secret in spec.items_at(&["imagePullSecrets"]) {
        take(VertexKind::Secret, secret.str_at(&["name"]));
    }
    for containers in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec.items_at(&[containers]) {
            of_container(container, &mut take);
        }
    }
    for volume in spec.items_at(&["volumes"]) {
        of_volume(meta::name(pod), volume, &mut take);
    }
    for claim in spec.items_at(&["resourceClaims"]) {
        take(
            VertexKind::ResourceClaim,
            claim.str_at(&["resourceClaimName"]),
        );
    }
    for claim in pod.items_at(&["status", "resourceClaimStatuses"]) {
        take(
            VertexKind::ResourceClaim,
            claim.str_at(&["resourceClaimName"]),
        );
    }
    take(
        VertexKind::ResourceClaim,
        pod.str_at(&["status", "extendedResourceClaimStatus", "resourceClaimName"]),
    );
}

fn of_container(container: &Value, take: &mut impl FnMut(VertexKind, Option<&str>)) {
    for from in container.items_at(&["envFrom"]) {
        take(VertexKind::Secret, from.str_at(&["secretRef", "name"]));
        take(
            VertexKind::ConfigMap,
            from.str_at(&["configMapRef", "name"]),
        );
    }
    for env in container.items_at(&["env"]) {
        take(
            VertexKind::Secret,
            env.str_at(&["valueFrom", "secretKeyRef", "name"]),
        );
        take(
            VertexKind::ConfigMap,
            env.str_at(&["valueFrom", "configMapKeyRef", "name"]),
        );
    }
}

/// Types of volumes with a `secretRef` in the pod's own namespace.
const WITH_SECRET: [&str; 7] = [
    "cephfs",
    "cinder",
    "flexVolume",
    "rbd",
    "scaleIO",
    "iscsi",
    "storageos",
];

fn of_volume(pod: &str, volume: &Value, take: &mut impl FnMut(VertexKind, Option<&str>)) {
    take(VertexKind::Secret, volume.str_at(&["secret", "secretName"]));
    take(
        VertexKind::Secret,
        volume.str_at(&["azureFile", "secretName"]),
    );
    take(
        VertexKind::Secret,
        volume.str_at(&["csi", "nodePublishSecretRef", "name"]),
    );
    for of in WITH_SECRET {
        take(
            VertexKind::Secret,
            volume.str_at(&[of, "secretRef", "name"]),
        );
    }
    for source in volume.items_at(&["projected", "sources"]) {
        take(VertexKind::Secret, source.str_at(&["secret", "name"]));
        take(VertexKind::ConfigMap, source.str_at(&["configMap", "name"]));
    }
    take(VertexKind::ConfigMap, volume.str_at(&["configMap", "name"]));
    take(
        VertexKind::Claim,
        volume.str_at(&["persistentVolumeClaim", "claimName"]),
    );
    if volume.get("ephemeral").is_some() {
        let name = volume.str_at(&["name"]).unwrap_or_default();
        take(VertexKind::Claim, Some(&format!("{pod}-{name}")));
    }
}

/// The secrets (namespace, name) that a node needs to mount a persistent
/// volume. Those with which controllers attach and expand it are none of its.
pub(super) fn secrets_of_volume(volume: &Value, mut see: impl FnMut(&str, &str)) {
    let claim = volume
        .str_at(&["spec", "claimRef", "namespace"])
        .unwrap_or_default();
    let mut take = |namespace: Option<&str>, name: Option<&str>| {
        let namespace = namespace.filter(|own| !own.is_empty()).unwrap_or(claim);
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            see(namespace, name);
        }
    };
    let azure = |field| volume.str_at(&["spec", "azureFile", field]);
    take(azure("secretNamespace"), azure("secretName"));
    for of in WITH_SECRET {
        let secret = |field| volume.str_at(&["spec", of, "secretRef", field]);
        take(secret("namespace"), secret("name"));
    }
    for use_of in [
        "nodePublishSecretRef",
        "nodeStageSecretRef",
        "nodeExpandSecretRef",
    ] {
        let secret = |field| volume.str_at(&["spec", "csi", use_of, field]);
        take(secret("namespace"), secret("name"));
    }
}

#[cfg(test)]
mod tests {
    use control_types::value;
    use control_types::value::Pick;

    use super::*;

    fn seen(pod: &Value) -> Vec<String> {
        let mut all = Vec::new();
        of_pod(pod, |kind, name| all.push(format!("{kind:?} {name}")));
        all
    }

    #[test]
    fn the_paths_of_a_pod_name_all_that_is_read_of_it() {
        let mut pod = value!({
            "metadata": {"name": "web", "namespace": "a", "annotations": {}},
            "spec": {
                "nodeName": "n1",
                "serviceAccountName": "robot",
                "imagePullSecrets": [{"name": "pull"}],
                "resourceClaims": [{"name": "c", "resourceClaimName": "given"}],
                "volumes": [{"name": "tmp", "ephemeral": {}}, {"name": "p", "projected": {"sources": [{"secret": {"name": "s"}}]}}]
            },
            "status": {
                "phase": "Running",
                "resourceClaimStatuses": [{"name": "d", "resourceClaimName": "made"}],
                "extendedResourceClaimStatus": {"resourceClaimName": "extended"}
            }
        });
        for containers in ["initContainers", "containers", "ephemeralContainers"] {
            let (from, env) = (format!("from-{containers}"), format!("env-{containers}"));
            let one = value!({
                "name": "c",
                "image": "i",
                "envFrom": [{"configMapRef": {"name": (from)}}],
                "env": [{"name": "E", "value": "v"}, {"name": "F", "valueFrom": {"secretKeyRef": {"name": (env)}}}]
            });
            pod.set_path(&["spec", containers], Value::Array(vec![one]));
        }
        let pick = Pick::from_paths(POD_PATHS.iter().copied());
        let part = Value::pick(&pod.to_vec(), &pick).unwrap();
        assert!(
            !String::from_utf8(part.to_vec())
                .unwrap()
                .contains("image\"")
        );
        assert_eq!(seen(&part), seen(&pod));
        assert_eq!(seen(&pod).len(), 13);
        pod.set_path(
            &["metadata", "annotations", "kubernetes.io/config.mirror"],
            "x",
        );
        let part = Value::pick(&pod.to_vec(), &pick).unwrap();
        assert_eq!(seen(&part), seen(&pod));
    }
}

//! `network.orlop.dev/v1alpha1` PodEndpoint: what network policy needs of pods.
//!
//! A rule may select any pod by its labels, so that every node needs all pods'
//! labels, addresses and ports, but nothing else of them. A PodEndpoint is a
//! read-only projection of a pod under the pod's name: it is made of the cache of
//! pods when it is read, with the pod's resource version. The fields that it has are
//! a pod's, so that clients read both by one type:
//!
//! | fields | |
//! | --- | --- |
//! | `metadata` | name, namespace, uid, resourceVersion, creationTimestamp, labels |
//! | `metadata.annotations` | `kubernetes.io/config.mirror` of a mirror pod |
//! | `spec` | `nodeName`, `hostNetwork` |
//! | `spec.containers`, `spec.initContainers` | `ports` (name, containerPort, protocol), `restartPolicy` |
//! | `status` | `phase`, `podIP`, `podIPs` |
//!
//! The group is listed in `/apis` and registered as an APIService where this server is
//! a whole control plane. Beside other components it is served all the same, but what
//! `/apis` answers is what kube-apiserver answers.

use std::sync::{LazyLock, OnceLock};

use control_types::value::{Pick, Value};
use control_types::{meta, value};

use crate::projected_group::{ProjectedGroup, ProjectedResource};
use control_watch_cache::{CacheEntry, DecodeError};

const API_VERSION: &str = "network.orlop.dev/v1alpha1";
const KIND: &str = "PodEndpoint";
/// Marks pods that stand for a node's static pods.
const MIRROR: &str = "kubernetes.io/config.mirror";

pub(crate) static NETWORK: ProjectedGroup = ProjectedGroup {
    group: "network.orlop.dev",
    version: "v1alpha1",
    api_version: API_VERSION,
    resources: &[&POD_ENDPOINT],
};

static POD_ENDPOINT: ProjectedResource = ProjectedResource {
    kind: KIND,
    plural: "podendpoints",
    singular: "podendpoint",
    namespaced: true,
    verbs: &["get", "list", "watch"],
    strategy: &control_kinds::GENERIC,
    source: "pods",
    project,
    described: OnceLock::new(),
};

static FIELDS: LazyLock<Pick> = LazyLock::new(|| {
    Pick::from_paths([
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "metadata.resourceVersion",
        "metadata.creationTimestamp",
        "metadata.labels",
        "metadata.annotations",
        "spec.nodeName",
        "spec.hostNetwork",
        "spec.containers.ports.name",
        "spec.containers.ports.containerPort",
        "spec.containers.ports.protocol",
        "spec.initContainers.restartPolicy",
        "spec.initContainers.ports.name",
        "spec.initContainers.ports.containerPort",
        "spec.initContainers.ports.protocol",
        "status.phase",
        "status.podIP",
        "status.podIPs",
    ])
});

/// The PodEndpoint of a pod.
fn project(pod: &CacheEntry) -> Result<Value, DecodeError> {
    let mut endpoint = pod.pick(&FIELDS)?;
    lean(&mut endpoint);
    Ok(endpoint)
}

/// Leaves out what the picked fields hold beyond a PodEndpoint's, and names its kind.
fn lean(endpoint: &mut Value) {
    let mirror = meta::annotation(endpoint, MIRROR).map(str::to_owned);
    endpoint.remove_path(&["metadata", "annotations"]);
    if let Some(mirror) = mirror {
        endpoint.set_path(&["metadata", "annotations"], value!({ MIRROR: mirror }));
    }
    for member in ["containers", "initContainers"] {
        let list = endpoint.path_mut(&["spec", member]);
        let Some(list) = list.and_then(Value::as_array_mut) else {
            continue;
        };
        list.retain(|container| !container.items_at(&["ports"]).is_empty());
        if list.is_empty() {
            endpoint.remove_path(&["spec", member]);
        }
    }
    meta::set_type(endpoint, API_VERSION, KIND);
}

#[cfg(test)]
mod tests {
    use super::*;
    use control_watch_cache::{Change, encode};

    fn projected(pod: &Value) -> Value {
        let cached = CacheEntry::new(
            "a/web",
            &encode(pod),
            7,
            Change::Added,
            &control_kinds::find_kind("", "Pod").into(),
        );
        project(&cached.expect("a pod")).expect("readable")
    }

    #[test]
    fn a_pod_endpoint_has_labels_addresses_and_ports_and_nothing_else() {
        let pod = value!({
            "kind": "Pod", "apiVersion": "v1",
            "metadata": {
                "name": "web", "namespace": "a", "uid": "u", "labels": {"app": "web"},
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "annotations": {"note": "hidden"}, "managedFields": [{"manager": "hidden"}],
                "finalizers": ["hidden/one"], "ownerReferences": [{"name": "hidden"}]
            },
            "spec": {
                "nodeName": "n1", "hostNetwork": false, "serviceAccountName": "hidden",
                "volumes": [{"name": "hidden", "secret": {"secretName": "hidden"}}],
                "imagePullSecrets": [{"name": "hidden"}],
                "containers": [
                    {
                        "name": "hidden", "image": "hidden", "command": ["hidden"],
                        "env": [{"name": "PASSWORD", "value": "hidden"}],
                        "ports": [{
                            "name": "http", "containerPort": 80, "protocol": "TCP",
                            "hostPort": 8080, "hostIP": "192.0.2.7"
                        }]
                    },
                    {"name": "hidden", "args": ["hidden"]}
                ],
                "initContainers": [
                    {"name": "hidden", "env": [{"name": "A", "value": "hidden"}]},
                    {"name": "hidden", "restartPolicy": "Always", "ports": [{"containerPort": 90}]}
                ],
                "ephemeralContainers": [{"name": "hidden", "env": [{"name": "B", "value": "hidden"}]}]
            },
            "status": {
                "phase": "Running", "podIP": "10.0.0.1",
                "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}], "hostIP": "192.0.2.7",
                "message": "hidden", "containerStatuses": [{"name": "hidden", "image": "hidden"}]
            }
        });
        let wanted = value!({
            "apiVersion": API_VERSION, "kind": KIND,
            "metadata": {
                "resourceVersion": "7", "name": "web", "namespace": "a", "uid": "u",
                "labels": {"app": "web"}, "creationTimestamp": "2026-01-01T00:00:00Z"
            },
            "spec": {
                "nodeName": "n1", "hostNetwork": false,
                "containers": [{"ports": [
                    {"name": "http", "containerPort": 80, "protocol": "TCP"}
                ]}],
                "initContainers": [
                    {"restartPolicy": "Always", "ports": [{"containerPort": 90}]}
                ]
            },
            "status": {
                "phase": "Running", "podIP": "10.0.0.1",
                "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]
            }
        });
        assert_eq!(projected(&pod), wanted);
    }

    #[test]
    fn a_mirror_pod_is_known_as_one() {
        let pod = value!({
            "kind": "Pod", "apiVersion": "v1",
            "metadata": {"name": "web", "namespace": "a", "annotations": {
                MIRROR: "f00", "kubernetes.io/config.source": "file"
            }},
            "spec": {"containers": [{"name": "c"}]}
        });
        let endpoint = projected(&pod);
        let annotations = endpoint.path(&["metadata", "annotations"]);
        assert_eq!(annotations, Some(&value!({ MIRROR: "f00" })));
        assert_eq!(endpoint.path(&["spec"]), Some(&value!({})));
    }
}

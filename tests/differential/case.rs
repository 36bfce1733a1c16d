//! A case: a cluster, and the pods that come to it one after the other.

use control_client::Resource;
use serde_json::{Value, json};

/// An object that is there before the first pod.
#[derive(Clone, Debug)]
pub struct Object {
    /// As it is sent to the API server; its status is written after its creation.
    pub value: Value,
}

/// What happens next in a case.
#[derive(Clone, Debug)]
pub enum Step {
    /// A pod that names its node comes: no scheduler is asked.
    Bound(Value),
    /// Such a pod comes, and its deletion begins.
    Terminating(Value),
    /// A pod is to be placed.
    Schedule(Value),
}

/// A cluster, and what happens in it.
#[derive(Clone, Debug)]
pub struct Case {
    /// The seed that it was made from.
    pub seed: u64,
    /// Nodes, and what pods refer to.
    pub objects: Vec<Object>,
    /// Pods, in their order.
    pub steps: Vec<Step>,
}

/// Kinds of a case, in the order in which they are created.
static RESOURCES: [Resource; 13] = [
    Resource::namespaced("apps", "v1", "replicasets", "ReplicaSet"),
    Resource::namespaced("", "v1", "services", "Service"),
    Resource::namespaced(
        "policy",
        "v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
    ),
    Resource::cluster("storage.k8s.io", "v1", "storageclasses", "StorageClass"),
    Resource::cluster("storage.k8s.io", "v1", "csidrivers", "CSIDriver"),
    Resource::cluster("", "v1", "persistentvolumes", "PersistentVolume"),
    Resource::namespaced("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
    Resource::namespaced(
        "storage.k8s.io",
        "v1",
        "csistoragecapacities",
        "CSIStorageCapacity",
    ),
    Resource::cluster("resource.k8s.io", "v1", "deviceclasses", "DeviceClass"),
    Resource::cluster("", "v1", "nodes", "Node"),
    Resource::cluster("storage.k8s.io", "v1", "csinodes", "CSINode"),
    Resource::cluster("resource.k8s.io", "v1", "resourceslices", "ResourceSlice"),
    Resource::namespaced("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim"),
];

/// All kinds that cases create, in the order of creation.
pub fn resources() -> impl Iterator<Item = &'static Resource> {
    RESOURCES.iter()
}

// === impl Object ===

impl Object {
    /// An object as it is sent.
    pub const fn new(value: Value) -> Self {
        Self { value }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        text(&self.value, "/metadata/name")
    }

    /// Its namespace; empty for objects of the cluster.
    pub fn namespace(&self) -> &str {
        text(&self.value, "/metadata/namespace")
    }

    /// Its kind.
    pub fn kind(&self) -> &str {
        text(&self.value, "/kind")
    }

    /// Its resource, if cases may create it.
    pub fn resource(&self) -> Option<&'static Resource> {
        resources().find(|it| it.kind == self.kind())
    }
}

// === impl Step ===

impl Step {
    /// The pod.
    pub const fn pod(&self) -> &Value {
        match self {
            Self::Bound(pod) | Self::Terminating(pod) | Self::Schedule(pod) => pod,
        }
    }

    /// The pod, to change it.
    pub const fn pod_mut(&mut self) -> &mut Value {
        match self {
            Self::Bound(pod) | Self::Terminating(pod) | Self::Schedule(pod) => pod,
        }
    }
}

// === impl Case ===

impl Case {
    /// The part of the case that leads to one decision: pods that were placed name their
    /// nodes, and only the last pod is to be placed.
    pub fn frozen(&self, placed: &[(String, String)], last: &Value) -> Self {
        let bound = placed.iter().filter_map(|(pod, node)| {
            let step = self.steps.iter().find(|it| key(it.pod()) == *pod)?;
            let mut pod = step.pod().clone();
            pod["spec"]["nodeName"] = json!(node);
            if let Some(spec) = pod["spec"].as_object_mut() {
                // A pod that names its node may have no gates.
                spec.remove("schedulingGates");
            }
            Some(match step {
                Step::Terminating(_) => Step::Terminating(pod),
                Step::Bound(_) | Step::Schedule(_) => Step::Bound(pod),
            })
        });
        let mut steps: Vec<Step> = bound.collect();
        steps.push(Step::Schedule(last.clone()));
        Self {
            seed: self.seed,
            objects: self.objects.clone(),
            steps,
        }
    }

    /// Cases with one thing less, those that drop most first.
    pub fn smaller(&self) -> Vec<Self> {
        let mut all = Vec::new();
        let bound = self.steps.len().saturating_sub(1);
        let mut chunk = bound.max(self.objects.len());
        while chunk > 0 {
            for at in (0..bound).step_by(chunk) {
                let mut less = self.clone();
                less.steps.drain(at..(at + chunk).min(bound));
                all.push(less);
            }
            for at in (0..self.objects.len()).step_by(chunk) {
                let mut less = self.clone();
                let end = (at + chunk).min(less.objects.len());
                let gone: Vec<Object> = less.objects.drain(at..end).collect();
                let named = |node: &str| gone.iter().any(|it| it.name() == node);
                // Pods on a node that is gone would still count.
                less.steps
                    .retain(|step| !named(text(step.pod(), "/spec/nodeName")));
                if less.objects.iter().any(|it| it.kind() == "Node") {
                    all.push(less);
                }
            }
            chunk /= 2;
        }
        for at in 0..self.steps.len() {
            for lean in leaner(self.steps[at].pod()) {
                let mut less = self.clone();
                *less.steps[at].pod_mut() = lean;
                all.push(less);
            }
        }
        for at in 0..self.objects.len() {
            for lean in leaner(&self.objects[at].value) {
                let mut less = self.clone();
                less.objects[at].value = lean;
                all.push(less);
            }
        }
        all
    }
}

/// Fields without which an object is no object of its kind.
const NEEDED: [&str; 14] = [
    "/spec/containers",
    "/spec/nodeName",
    "/spec/automountServiceAccountToken",
    "/spec/terminationGracePeriodSeconds",
    "/spec/minAvailable",
    "/spec/selector",
    "/spec/ports",
    "/status/conditions",
    "/status/allocatable",
    "/status/capacity",
    "/spec/capacity",
    "/spec/accessModes",
    "/spec/resources",
    "/spec/csi",
];

/// An object without one of its fields.
fn leaner(object: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    for parent in [
        "/spec",
        "/status",
        "/metadata/labels",
        "/spec/affinity",
        "/spec/affinity/nodeAffinity",
        "/spec/affinity/podAffinity",
        "/spec/affinity/podAntiAffinity",
        "/status/allocatable",
        "/spec/containers/0/resources/requests",
    ] {
        let fields = object.pointer(parent).and_then(Value::as_object);
        for field in fields.into_iter().flat_map(|it| it.keys()) {
            if NEEDED.contains(&format!("{parent}/{field}").as_str()) {
                continue;
            }
            let mut lean = object.clone();
            let fields = lean.pointer_mut(parent).and_then(Value::as_object_mut);
            fields.map(|it| it.remove(field));
            all.push(lean);
        }
    }
    for list in [
        "/spec/tolerations",
        "/spec/taints",
        "/spec/topologySpreadConstraints",
        "/spec/containers",
        "/status/images",
        "/spec/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution",
        "/spec/affinity/podAffinity/preferredDuringSchedulingIgnoredDuringExecution",
        "/spec/affinity/podAntiAffinity/preferredDuringSchedulingIgnoredDuringExecution",
    ] {
        let items = object.pointer(list).and_then(Value::as_array);
        let items = items.map_or(0, Vec::len);
        for at in 0..items {
            let mut lean = object.clone();
            if items > 1
                && let Some(items) = lean.pointer_mut(list).and_then(Value::as_array_mut)
            {
                items.remove(at);
                all.push(lean);
            }
        }
    }
    all
}

/// A text inside an object; empty when it is absent.
pub fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Namespace and name of an object, as logs write them.
pub fn key(object: &Value) -> String {
    let namespace = text(object, "/metadata/namespace");
    let name = text(object, "/metadata/name");
    format!("{namespace}/{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case() -> Case {
        let node = |name: &str| {
            Object::new(json!({"kind": "Node", "metadata": {"name": name}, "spec": {"taints": []}}))
        };
        let pod = |name: &str, spec: Value| json!({"metadata": {"namespace": "red", "name": name}, "spec": spec});
        Case {
            seed: 1,
            objects: vec![node("n0"), node("n1")],
            steps: vec![
                Step::Schedule(pod("a", json!({"schedulingGates": [{"name": "x"}]}))),
                Step::Schedule(pod("b", json!({"hostNetwork": true}))),
            ],
        }
    }

    #[test]
    fn a_frozen_case_has_placed_pods_on_their_nodes() {
        let case = case();
        let placed = [("red/a".to_owned(), "n1".to_owned())];
        let frozen = case.frozen(&placed, case.steps[1].pod());
        assert_eq!(frozen.steps.len(), 2);
        let first = frozen.steps[0].pod();
        assert!(matches!(frozen.steps[0], Step::Bound(_)));
        assert_eq!(first["spec"], json!({"nodeName": "n1"}));
        assert!(matches!(frozen.steps[1], Step::Schedule(_)));
    }

    #[test]
    fn smaller_cases_lack_objects_pods_or_fields_and_keep_the_last_pod() {
        let case = case();
        let placed = [("red/a".to_owned(), "n1".to_owned())];
        let frozen = case.frozen(&placed, case.steps[1].pod());
        let smaller = frozen.smaller();
        assert!(
            smaller
                .iter()
                .all(|it| key(it.steps.last().unwrap().pod()) == "red/b")
        );
        assert!(
            smaller
                .iter()
                .any(|it| it.steps.len() == 1 && it.objects.len() == 2)
        );
        assert!(smaller.iter().any(|it| it.objects.len() == 1));
        assert!(
            smaller
                .iter()
                .any(|it| it.objects[0].value["spec"] == json!({}))
        );
        let without = |it: &Case| it.steps.last().unwrap().pod()["spec"] == json!({});
        assert!(smaller.iter().any(without));
    }
}

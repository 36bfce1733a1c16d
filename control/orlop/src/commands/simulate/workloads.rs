//! Pods of documents: pods themselves, and what controllers make of workloads.

use control_client::resources;
use control_kinds::admission::{
    Priority, Stay, assign_priority, default_tolerations, global_default,
};
use control_scheduler::objects::ObjectSet;
use control_types::value::Value as Tree;
use serde_json::{Value, json};

use crate::error::Error;

/// Pods that come to the cluster.
#[derive(Clone, Debug)]
pub struct IncomingPods {
    /// A pod as the API server would store it.
    pod: Value,
    count: Count,
}

/// How many pods there are of a workload.
#[derive(Clone, Copy, Debug)]
enum Count {
    /// The pod itself.
    Itself,
    /// So many, numbered.
    Replicas(u64),
    /// One a node.
    Nodes,
}

/// Tolerations that the controller of daemon sets adds.
const OF_DAEMONS: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// The most pods of one workload.
const MOST: u64 = 1_000_000;

/// Reads documents: pods and workloads are returned, other objects are put into the
/// cluster.
///
/// # Errors
/// Invalid objects, and pods that the API server would reject.
pub fn take_in(documents: Vec<Value>, objects: &mut ObjectSet) -> Result<Vec<IncomingPods>, Error> {
    let mut workloads = Vec::new();
    let mut queue: Vec<Value> = documents;
    queue.reverse();
    while let Some(mut document) = queue.pop() {
        let kind = document["kind"].as_str().unwrap_or_default().to_owned();
        if kind == "List" {
            let items = document["items"].as_array_mut().map(std::mem::take);
            queue.extend(items.into_iter().flatten().rev());
            continue;
        }
        match template_of(&document) {
            Some(found) => workloads.push((document, found)),
            None => objects
                .put(in_namespace(document))
                .map_err(Error::Objects)?,
        }
    }
    // Classes of priority may stand behind the pods that name them.
    let mut incoming = Vec::new();
    for (document, (template, count)) in workloads {
        incoming.push(IncomingPods {
            pod: pod_of(&in_namespace(document), template, objects)?,
            count,
        });
    }
    Ok(incoming)
}

impl IncomingPods {
    /// Whether there is one for each node.
    pub const fn is_daemon_set(&self) -> bool {
        matches!(self.count, Count::Nodes)
    }

    /// The pods, on no node.
    pub fn pods(&self, objects: &ObjectSet) -> Vec<Value> {
        let name = self.pod["metadata"]["name"].as_str().unwrap_or_default();
        let called = |suffix: &str| {
            let mut pod = self.pod.clone();
            // No pod of the cluster can be called so.
            pod["metadata"]["name"] = format!("{name}#{suffix}").into();
            pod
        };
        match self.count {
            Count::Itself => vec![self.pod.clone()],
            Count::Replicas(count) => (0..count).map(|at| called(&at.to_string())).collect(),
            Count::Nodes => objects
                .all(&resources::NODES)
                .filter_map(|node| node["metadata"]["name"].as_str())
                .map(|node| {
                    let mut pod = called(node);
                    only_on(&mut pod, node);
                    pod
                })
                .collect(),
        }
    }
}

/// The path of a workload's pod template, and how many pods there are.
fn template_of(document: &Value) -> Option<(&'static str, Count)> {
    let spec = &document["spec"];
    let number = |field: &str| spec[field].as_u64().unwrap_or(1).min(MOST);
    let replicas = Count::Replicas(number("replicas"));
    match document["kind"].as_str()? {
        "Pod" => Some(("", Count::Itself)),
        "Deployment" | "ReplicaSet" | "StatefulSet" | "ReplicationController" => {
            Some(("/spec/template", replicas))
        }
        "DaemonSet" => Some(("/spec/template", Count::Nodes)),
        "Job" => {
            let at_once = number("parallelism");
            let completions = spec["completions"].as_u64().unwrap_or(at_once);
            let count = at_once.min(completions);
            Some(("/spec/template", Count::Replicas(count)))
        }
        "CronJob" => {
            let spec = &spec["jobTemplate"]["spec"];
            let at_once = spec["parallelism"].as_u64().unwrap_or(1).min(MOST);
            Some(("/spec/jobTemplate/spec/template", Count::Replicas(at_once)))
        }
        _ => None,
    }
}

/// Kinds of the cluster that a file is likely to hold; all others are in a namespace.
const OF_CLUSTER: [&str; 8] = [
    "Node",
    "Namespace",
    "PersistentVolume",
    "StorageClass",
    "PriorityClass",
    "CSINode",
    "CSIDriver",
    "DeviceClass",
];

fn in_namespace(mut document: Value) -> Value {
    let kind = document["kind"].as_str().unwrap_or_default();
    if document["metadata"]["namespace"].is_null() && !OF_CLUSTER.contains(&kind) {
        document["metadata"]["namespace"] = "default".into();
    }
    document
}

/// Returns a pod of a workload as the API server stores it. Objects that group the pods
/// for the default spread constraints are put into the cluster.
fn pod_of(document: &Value, template: &str, objects: &mut ObjectSet) -> Result<Value, Error> {
    let source = document.pointer(template).unwrap_or(&Value::Null);
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": source["metadata"], "spec": source["spec"],
    });
    for field in ["namespace", "name"] {
        pod["metadata"][field] = document["metadata"][field].clone();
    }
    let kind = document["kind"].as_str().unwrap_or_default();
    let mut owner = document.clone();
    match kind {
        "Pod" => return prepared(pod, objects),
        "Deployment" => {
            // Its pods belong to a ReplicaSet.
            owner["kind"] = "ReplicaSet".into();
            let name = document["metadata"]["name"].as_str().unwrap_or_default();
            owner["metadata"]["name"] = format!("{name}#").into();
        }
        "DaemonSet" => {
            let tolerations = OF_DAEMONS
                .map(|(key, effect)| json!({"key": key, "operator": "Exists", "effect": effect}));
            let spec = &mut pod["spec"];
            let given = spec["tolerations"].as_array().cloned().unwrap_or_default();
            spec["tolerations"] = given.into_iter().chain(tolerations).collect();
        }
        _ => {}
    }
    pod["metadata"]["ownerReferences"] = json!([{
        "apiVersion": owner["apiVersion"], "kind": owner["kind"],
        "name": owner["metadata"]["name"], "uid": "simulated", "controller": true,
    }]);
    objects.put(owner).map_err(Error::Objects)?;
    prepared(pod, objects)
}

/// A pod with the API server's defaults, and its priority.
fn prepared(pod: Value, objects: &ObjectSet) -> Result<Value, Error> {
    let name = format!(
        "{}/{}",
        pod["metadata"]["namespace"].as_str().unwrap_or_default(),
        pod["metadata"]["name"].as_str().unwrap_or_default()
    );
    let refused = |why: String| Error::Option(format!("pod `{name}`: {why}"));
    let tree = |value: &Value| {
        let bytes = value.to_string();
        Tree::from_slice(bytes.as_bytes()).map_err(|error| refused(error.to_string()))
    };
    let mut pod = tree(&pod)?;
    let kind = control_kinds::find_kind("", "Pod");
    (kind.default)(&mut pod);
    let mut classes = Vec::new();
    for class in objects.all(&resources::PRIORITY_CLASSES) {
        classes.push(tree(class)?);
    }
    let wanted = pod.str_at(&["spec", "priorityClassName"]);
    let priority = match wanted.unwrap_or_default() {
        "" => global_default(classes.iter())
            .map_or_else(Priority::without_class, Priority::from_class),
        "system-node-critical" => system(2_000_001_000, "system-node-critical"),
        "system-cluster-critical" => system(2_000_000_000, "system-cluster-critical"),
        wanted => {
            let named = |it: &&Tree| it.str_at(&["metadata", "name"]) == Some(wanted);
            let class = classes
                .iter()
                .find(named)
                .ok_or_else(|| refused(format!("no PriorityClass with name {wanted} was found")))?;
            Priority::from_class(class)
        }
    };
    assign_priority(&mut pod, &priority).map_err(|why| refused(why.into()))?;
    default_tolerations(&mut pod, Stay::default());
    (kind.prepare_create)(&mut pod);
    let errors = (kind.validate_create)(&pod);
    if let Some(first) = errors.first() {
        return Err(refused(first.to_string()));
    }
    serde_json::to_value(&pod).map_err(|error| refused(error.to_string()))
}

fn system(value: i64, class: &str) -> Priority {
    Priority {
        class: class.to_owned(),
        value,
        preemption: Some("PreemptLowerPriority".to_owned()),
    }
}

/// Confines a daemon's pod to its node.
fn only_on(pod: &mut Value, node: &str) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let fields = json!([{"key": "metadata.name", "operator": "In", "values": [node]}]);
    let terms = &mut pod["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"];
    match terms.as_array_mut() {
        Some(terms) => terms
            .iter_mut()
            .for_each(|term| term["matchFields"] = fields.clone()),
        None => *terms = json!([{"matchFields": fields}]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(kind: &str, spec: Value) -> Value {
        json!({"apiVersion": "apps/v1", "kind": kind,
            "metadata": {"namespace": "n", "name": "x"}, "spec": spec})
    }

    fn template() -> Value {
        json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c",
            "image": "i", "resources": {"limits": {"cpu": "2"}}}]}})
    }

    fn names(incoming: &IncomingPods, objects: &ObjectSet) -> Vec<String> {
        let pods = incoming.pods(objects);
        pods.iter()
            .map(|it| it["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn pods_have_the_defaults_of_the_api_and_a_priority() {
        let mut objects = ObjectSet::default();
        let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": "high"}, "value": 7});
        let mut pod = document("Pod", template()["spec"].clone());
        pod["apiVersion"] = "v1".into();
        pod["spec"]["priorityClassName"] = "high".into();
        let incoming = take_in(vec![pod, class], &mut objects).unwrap();
        let pod = &incoming[0].pods(&objects)[0];
        assert_eq!(pod["spec"]["priority"], 7);
        assert_eq!(pod["spec"]["schedulerName"], "default-scheduler");
        let requests = &pod["spec"]["containers"][0]["resources"]["requests"];
        assert_eq!(requests["cpu"], "2");
        assert_eq!(pod["spec"]["tolerations"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn workloads_stand_for_their_pods() {
        let mut objects = ObjectSet::default();
        for name in ["a", "b"] {
            objects
                .put(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}))
                .unwrap();
        }
        let selector = json!({"matchLabels": {"app": "x"}});
        let list = json!({"kind": "List", "items": [
            document("Deployment", json!({"replicas": 2, "selector": selector, "template": template()})),
            document("DaemonSet", json!({"selector": selector, "template": template()})),
            document("Job", json!({"parallelism": 3, "completions": 2, "template": template()})),
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}},
        ]});
        let incoming = take_in(vec![list], &mut objects).unwrap();
        let all: Vec<_> = incoming.iter().map(|it| names(it, &objects)).collect();
        assert_eq!(all, [["x#0", "x#1"], ["x#a", "x#b"], ["x#0", "x#1"]]);
        assert_eq!(objects.all(&resources::REPLICA_SETS).count(), 1);
        assert!(objects.get(&resources::SERVICES, "default", "s").is_some());
    }

    #[test]
    fn a_pod_that_the_api_server_would_refuse_is_named() {
        let mut pod = document("Pod", json!({"containers": []}));
        pod["apiVersion"] = "v1".into();
        let error = take_in(vec![pod], &mut ObjectSet::default()).unwrap_err();
        assert!(error.to_string().starts_with("pod `n/x`: "), "{error}");
        let mut pod = document("Pod", template()["spec"].clone());
        pod["spec"]["priorityClassName"] = "none".into();
        let error = take_in(vec![pod], &mut ObjectSet::default()).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("no PriorityClass with name none"),
            "{error}"
        );
    }
}

//! On which nodes a DaemonSet runs, and what its pods carry for that.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::history::POD_REVISION_LABEL;
use crate::node::tolerates;
use crate::views::{self, DaemonSet, Node, Text, Toleration, null_as_default};

/// The annotation of a DaemonSet with the number of its template, before revisions.
const GENERATION_ANNOTATION: &str = "deprecated.daemonset.template.generation";
/// The label of a pod with the number of its template.
const GENERATION_LABEL: &str = "pod-template-generation";
/// Taints that every daemon pod tolerates.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
/// The taint that daemon pods with `hostNetwork` tolerate as well.
const TOLERATED_BY_HOST_NETWORK: (&str, &str) =
    ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// Whether a daemon pod belongs on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Eligibility {
    /// Whether a pod is created where none exists.
    pub(super) should_run: bool,
    /// One that is there may stay.
    pub(super) should_continue: bool,
}

/// The constraints of a pod template on nodes.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Placement {
    node_name: Text,
    #[serde(deserialize_with = "null_as_default")]
    node_selector: BTreeMap<Text, Text>,
    #[serde(deserialize_with = "null_as_default")]
    affinity: Affinity,
    #[serde(deserialize_with = "null_as_default")]
    tolerations: Vec<Toleration>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Affinity {
    #[serde(deserialize_with = "null_as_default")]
    node_affinity: NodeAffinity,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeAffinity {
    required_during_scheduling_ignored_during_execution: Option<NodeSelector>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeSelector {
    #[serde(deserialize_with = "null_as_default")]
    node_selector_terms: Vec<NodeSelectorTerm>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeSelectorTerm {
    #[serde(deserialize_with = "null_as_default")]
    match_expressions: Vec<views::Requirement>,
    #[serde(deserialize_with = "null_as_default")]
    match_fields: Vec<views::Requirement>,
}

impl Placement {
    /// Reads the placement from a pod template.
    pub(super) fn from_template(template: &Value) -> Self {
        let mut spec = template.get("spec").cloned().unwrap_or_default();
        tolerate(&mut spec);
        Self::deserialize(spec).unwrap_or_default()
    }

    /// Whether a pod belongs on a node.
    pub(super) fn eligibility(&self, node: &Node) -> Eligibility {
        let never = Eligibility {
            should_run: false,
            should_continue: false,
        };
        if !self.node_name.is_empty() && self.node_name != node.metadata.name {
            return never;
        }
        if !self.selects(node) {
            return never;
        }
        let is_tolerated = |effects: &[&str]| {
            let mut taints = node.spec.taints.iter();
            taints.all(|taint| {
                !effects.contains(&taint.effect.as_str())
                    || self.tolerations.iter().any(|t| tolerates(t, taint))
            })
        };
        Eligibility {
            should_run: is_tolerated(&["NoExecute", "NoSchedule"]),
            should_continue: is_tolerated(&["NoExecute"]),
        }
    }

    fn selects(&self, node: &Node) -> bool {
        let has = |(key, value): (&Text, &Text)| node.metadata.labels.get(key) == Some(value);
        let required = &self.affinity.node_affinity;
        let required = &required.required_during_scheduling_ignored_during_execution;
        self.node_selector.iter().all(has)
            && required.as_ref().is_none_or(|selector| {
                selector
                    .node_selector_terms
                    .iter()
                    .any(|term| term.matches(node))
            })
    }
}

impl NodeSelectorTerm {
    /// An empty term, and one that makes no sense, matches nothing.
    fn matches(&self, node: &Node) -> bool {
        if self.match_expressions.is_empty() && self.match_fields.is_empty() {
            return false;
        }
        let labels = self.match_expressions.iter().all(|requirement| {
            let label = node.metadata.labels.get(&requirement.key);
            let parsed = requirement.parse(true);
            parsed.is_some_and(|requirement| requirement.matches(label))
        });
        labels
            && self.match_fields.iter().all(|requirement| {
                match (requirement.operator.as_str(), requirement.values.as_slice()) {
                    ("In", [name]) => on_name(requirement, node) == Some(name),
                    ("NotIn", [name]) => on_name(requirement, node) != Some(name),
                    _ => false,
                }
            })
    }
}

fn on_name<'a>(requirement: &views::Requirement, node: &'a Node) -> Option<&'a Text> {
    (requirement.key == "metadata.name").then_some(&node.metadata.name)
}

/// Adds the tolerations of daemon pods to a pod's spec.
fn tolerate(spec: &mut Value) {
    let by_host_network = spec.get("hostNetwork").and_then(Value::as_bool) == Some(true);
    let Some(spec) = spec.as_object_mut() else {
        return;
    };
    let tolerations = spec.entry("tolerations").or_insert_with(|| json!([]));
    if !tolerations.is_array() {
        *tolerations = json!([]);
    }
    let Some(tolerations) = tolerations.as_array_mut() else {
        return;
    };
    let more = by_host_network.then_some(TOLERATED_BY_HOST_NETWORK);
    for (key, effect) in TOLERATED.into_iter().chain(more) {
        let wanted = json!({"key": key, "operator": "Exists", "effect": effect});
        let mut found = false;
        for toleration in tolerations.iter_mut() {
            // one for some seconds is replaced by one for ever
            let same = ["key", "operator", "effect", "value"]
                .iter()
                .all(|field| text(toleration, field) == text(&wanted, field));
            if same {
                *toleration = wanted.clone();
                found = true;
            }
        }
        if !found {
            tolerations.push(wanted);
        }
    }
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object
        .get(field)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The number of the template, where the DaemonSet still says it.
pub(super) fn template_generation(set: &DaemonSet) -> Option<i64> {
    let annotation = set.metadata.annotations.get(GENERATION_ANNOTATION)?;
    annotation.parse().ok()
}

/// Whether a pod has the template of this revision, by either label.
pub(super) fn is_updated(pod: &views::Pod, hash: &str, generation: Option<i64>) -> bool {
    let label = |key: &str| pod.metadata.labels.get(key);
    let has_hash = !hash.is_empty() && label(POD_REVISION_LABEL) == Some(hash);
    has_hash
        || generation
            .is_some_and(|number| label(GENERATION_LABEL) == Some(number.to_string().as_str()))
}

/// The template of the pods of a revision, without the node.
pub(super) fn pod_template(template: &Value, generation: Option<i64>, hash: &str) -> Value {
    let mut template = template.clone();
    if !template.get("spec").is_some_and(Value::is_object) {
        template["spec"] = Value::Object(Map::new());
    }
    tolerate(&mut template["spec"]);
    let labels = &mut template["metadata"]["labels"];
    if let Some(generation) = generation {
        labels[GENERATION_LABEL] = generation.to_string().into();
    }
    labels[POD_REVISION_LABEL] = hash.into();
    template
}

/// Makes a pod's body one for a node alone: the scheduler binds it there.
pub(super) fn pin(pod: &mut Value, node: &str) {
    let required = &mut pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    *required = json!({"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]});
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(value: Value) -> Node {
        let mut node = json!({"metadata": {"name": "n0", "labels": {"zone": "a", "cores": "8"}}});
        node["spec"] = json!({"taints": value});
        serde_json::from_value(node).unwrap()
    }

    fn eligible(spec: Value, taints: Value) -> (bool, bool) {
        let placement = Placement::from_template(&json!({"spec": spec}));
        let eligibility = placement.eligibility(&node(taints));
        (eligibility.should_run, eligibility.should_continue)
    }

    fn term(term: Value) -> Value {
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [term]}}}})
    }

    #[test]
    fn nodes_are_selected_by_name_labels_and_affinity() {
        let expression = |operator: &str, key: &str, values: Value| {
            term(json!({"matchExpressions": [
                {"key": key, "operator": operator, "values": values}]}))
        };
        let field = |operator: &str, values: Value| {
            term(json!({"matchFields": [
                {"key": "metadata.name", "operator": operator, "values": values}]}))
        };
        for (spec, want) in [
            (json!({}), true),
            (json!({"nodeName": "n0"}), true),
            (json!({"nodeName": "n1"}), false),
            (json!({"nodeSelector": {"zone": "a"}}), true),
            (json!({"nodeSelector": {"zone": "a", "cores": "9"}}), false),
            (expression("In", "zone", json!(["b", "a"])), true),
            (expression("NotIn", "zone", json!(["a"])), false),
            (expression("NotIn", "other", json!(["a"])), true),
            (expression("Exists", "zone", json!([])), true),
            (expression("DoesNotExist", "zone", json!([])), false),
            (expression("Gt", "cores", json!(["7"])), true),
            (expression("Lt", "cores", json!(["7"])), false),
            (expression("Gt", "cores", json!(["many"])), false),
            (expression("In", "zone", json!([])), false),
            (expression("Near", "zone", json!(["a"])), false),
            (field("In", json!(["n0"])), true),
            (field("NotIn", json!(["n0"])), false),
            (field("In", json!(["n0", "n1"])), false),
            (term(json!({})), false),
        ] {
            assert_eq!(eligible(spec.clone(), json!([])), (want, want), "{spec}");
        }
    }

    #[test]
    fn taints_keep_pods_away_unless_daemons_tolerate_them() {
        let taint = |key: &str, effect: &str| json!([{"key": key, "effect": effect}]);
        for (taints, spec, want) in [
            (taint("x", "NoSchedule"), json!({}), (false, true)),
            (taint("x", "NoExecute"), json!({}), (false, false)),
            (taint("x", "PreferNoSchedule"), json!({}), (true, true)),
            (
                taint("x", "NoExecute"),
                json!({"tolerations": [{"operator": "Exists"}]}),
                (true, true),
            ),
            (
                taint("node.kubernetes.io/unschedulable", "NoSchedule"),
                json!({}),
                (true, true),
            ),
            (
                taint("node.kubernetes.io/unreachable", "NoExecute"),
                json!({}),
                (true, true),
            ),
            (
                taint("node.kubernetes.io/network-unavailable", "NoSchedule"),
                json!({}),
                (false, true),
            ),
            (
                taint("node.kubernetes.io/network-unavailable", "NoSchedule"),
                json!({"hostNetwork": true}),
                (true, true),
            ),
        ] {
            assert_eq!(
                eligible(spec.clone(), taints.clone()),
                want,
                "{taints} {spec}"
            );
        }
    }

    #[test]
    fn toleration_for_seconds_becomes_one_for_ever() {
        let mut spec = json!({"tolerations": [{"key": "node.kubernetes.io/not-ready",
            "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]});
        tolerate(&mut spec);
        let tolerations = spec["tolerations"].as_array().unwrap();
        assert_eq!(tolerations.len(), 6);
        assert!(
            tolerations
                .iter()
                .all(|t| t.get("tolerationSeconds").is_none())
        );
    }

    #[test]
    fn pods_equal_those_of_kube_controller_manager() {
        let recorded: Value =
            serde_json::from_str(include_str!("../history/kube_controller_manager.json")).unwrap();
        let mut compared = 0;
        for pod in recorded["pods"].as_array().unwrap() {
            if pod["owner"] != "DaemonSet" {
                continue;
            }
            let prefix = pod["generateName"].as_str().unwrap();
            let sets = recorded["sets"].as_array().unwrap();
            let set = sets.iter().find(|set| {
                let name = set["object"]["metadata"]["name"].as_str().unwrap();
                set["kind"] == "DaemonSet" && format!("{name}-") == prefix
            });
            let template = &set.unwrap()["object"]["spec"]["template"];
            let label = |key: &str| pod["labels"][key].as_str().unwrap();
            let generation = label(GENERATION_LABEL).parse().ok();
            let mut made = pod_template(template, generation, label(POD_REVISION_LABEL));
            let node = pod
                .pointer("/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values/0")
                .unwrap();
            pin(&mut made, node.as_str().unwrap());
            assert_eq!(made["metadata"]["labels"], pod["labels"]);
            assert_eq!(made["spec"]["affinity"], pod["affinity"]);
            assert_eq!(made["spec"]["tolerations"], pod["tolerations"]);
            compared += 1;
        }
        assert!(compared >= 4, "{compared}");
    }
}

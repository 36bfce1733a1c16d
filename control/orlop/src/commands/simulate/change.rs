//! Simulated changes: drained nodes and new nodes.

use std::str::FromStr;

use control_client::resources;
use control_scheduler::objects::ObjectSet;
use serde_json::{Value, json};

use crate::error::Error;
use crate::values::InvalidValue;

/// Nodes that are drained, and nodes that join.
#[derive(Clone, Debug, Default)]
pub struct SimulatedChange {
    /// Names of nodes that are drained.
    pub drain: Vec<String>,
    /// Nodes that join.
    pub nodes: Vec<Value>,
    /// Nodes like which others join.
    pub like: Vec<AddLike>,
}

/// How many nodes like another join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddLike {
    node: String,
    count: usize,
}

/// A pod that leaves a drained node.
#[derive(Clone, Debug)]
pub struct DrainedNode {
    /// Namespace and name.
    pub pod: String,
    /// The node that it leaves.
    pub node: String,
    /// The pod, on no node.
    pub object: Value,
    /// Whether a controller creates it again.
    pub comes_back: bool,
}

/// The most nodes that may be added like one other.
const MOST: usize = 100_000;

impl FromStr for AddLike {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let (node, count) = text.split_once('=').unwrap_or((text, "1"));
        match count.parse() {
            Ok(count) if (1..=MOST).contains(&count) && !node.is_empty() => Ok(Self {
                node: node.to_owned(),
                count,
            }),
            _ => {
                let way_out = format!("write NODE or NODE=COUNT, COUNT from 1 to {MOST}");
                Err(InvalidValue::new(text, "number of nodes", way_out))
            }
        }
    }
}

impl SimulatedChange {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.drain.is_empty() && self.nodes.is_empty() && self.like.is_empty()
    }

    /// Changes the cluster; returns the pods that leave drained nodes.
    ///
    /// # Errors
    /// Unknown nodes, and objects that are not nodes.
    pub fn apply(&self, objects: &mut ObjectSet) -> Result<Vec<DrainedNode>, Error> {
        for node in &self.nodes {
            if node["kind"] != "Node" && node["kind"] != "NodeList" && node["kind"] != "List" {
                return Err(Error::Option(format!(
                    "--add-node takes objects of kind Node, not `{}`",
                    node["kind"].as_str().unwrap_or_default()
                )));
            }
            objects.put(node.clone()).map_err(Error::Objects)?;
        }
        for like in &self.like {
            let original = find(objects, &like.node)?.clone();
            let daemons = pods_on(objects, &like.node)
                .into_iter()
                .filter(|pod| owner(pod) == Some("DaemonSet"));
            let daemons: Vec<Value> = daemons.collect();
            for at in 1..=like.count {
                let name = format!("{}-like-{at}", like.node);
                objects
                    .put(alike(&original, &name))
                    .map_err(Error::Objects)?;
                for daemon in &daemons {
                    let mut daemon = daemon.clone();
                    let own = daemon["metadata"]["name"].as_str().unwrap_or_default();
                    daemon["metadata"]["name"] = format!("{own}#{name}").into();
                    daemon["spec"]["nodeName"] = name.clone().into();
                    objects.put(daemon).map_err(Error::Objects)?;
                }
            }
        }
        let mut drained = Vec::new();
        for node in &self.drain {
            drained.extend(drain(objects, node)?);
        }
        Ok(drained)
    }
}

fn find<'a>(objects: &'a ObjectSet, node: &str) -> Result<&'a Value, Error> {
    objects.get(&resources::NODES, "", node).ok_or_else(|| {
        let names = objects.all(&resources::NODES);
        let names: Vec<&str> = names
            .filter_map(|it| it["metadata"]["name"].as_str())
            .take(10)
            .collect();
        Error::Option(format!(
            "there is no node `{node}`; there are {}",
            names.join(", ")
        ))
    })
}

/// A node like another, empty and ready.
fn alike(original: &Value, name: &str) -> Value {
    let mut node = original.clone();
    node["metadata"]["name"] = name.into();
    if !node["metadata"]["labels"]["kubernetes.io/hostname"].is_null() {
        node["metadata"]["labels"]["kubernetes.io/hostname"] = name.into();
    }
    if let Some(spec) = node.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("unschedulable");
        if let Some(Value::Array(taints)) = spec.get_mut("taints") {
            // Temporary conditions of the node do not carry over.
            taints.retain(|taint| {
                let key = taint["key"].as_str().unwrap_or_default();
                !key.starts_with("node.kubernetes.io/")
            });
        }
    }
    node["status"]["images"] = json!([]);
    node
}

fn pods_on(objects: &ObjectSet, node: &str) -> Vec<Value> {
    let pods = objects.all(&resources::PODS);
    pods.filter(|pod| pod["spec"]["nodeName"] == node)
        .cloned()
        .collect()
}

/// The kind of a pod's controller.
fn owner(pod: &Value) -> Option<&str> {
    let owners = pod["metadata"]["ownerReferences"].as_array()?;
    let controller = owners.iter().find(|it| it["controller"] == true)?;
    controller["kind"].as_str()
}

fn drain(objects: &mut ObjectSet, name: &str) -> Result<Vec<DrainedNode>, Error> {
    let mut node = find(objects, name)?.clone();
    node["spec"]["unschedulable"] = true.into();
    objects.put(node).map_err(Error::Objects)?;
    let mut drained = Vec::new();
    for mut pod in pods_on(objects, name) {
        let is_static = !pod["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_null();
        let ended = ["Succeeded", "Failed"]
            .iter()
            .any(|phase| pod["status"]["phase"] == *phase);
        if owner(&pod) == Some("DaemonSet") || is_static || ended {
            continue;
        }
        let text = |pointer: &str| {
            let value = pod.pointer(pointer).and_then(Value::as_str);
            value.unwrap_or_default().to_owned()
        };
        let (namespace, own) = (text("/metadata/namespace"), text("/metadata/name"));
        objects.remove(&resources::PODS, &namespace, &own);
        let comes_back = owner(&pod).is_some() && pod["metadata"]["deletionTimestamp"].is_null();
        if let Some(fields) = pod.as_object_mut() {
            fields.remove("status");
        }
        if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
            spec.remove("nodeName");
        }
        drained.push(DrainedNode {
            pod: format!("{namespace}/{own}"),
            node: name.to_owned(),
            object: pod,
            comes_back,
        });
    }
    Ok(drained)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{node, pod};
    use super::*;

    #[test]
    fn a_node_like_another_has_its_labels_and_daemons_but_not_its_troubles() {
        let mut objects = ObjectSet::default();
        let mut first = node("a", "2");
        first["spec"] = json!({"unschedulable": true, "taints": [
            {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
            {"key": "gpu", "effect": "NoSchedule"}]});
        for object in [first, pod("agent", "0", Some("a"), Some("DaemonSet"))] {
            objects.put(object).unwrap();
        }
        let change = SimulatedChange {
            like: vec!["a".parse().unwrap()],
            ..SimulatedChange::default()
        };
        change.apply(&mut objects).unwrap();
        let like = objects.get(&resources::NODES, "", "a-like-1").unwrap();
        assert_eq!(
            like["spec"],
            json!({"taints": [{"key": "gpu", "effect": "NoSchedule"}]})
        );
        assert_eq!(
            like["metadata"]["labels"]["kubernetes.io/hostname"],
            "a-like-1"
        );
        assert_eq!(pods_on(&objects, "a-like-1").len(), 1);
    }

    #[test]
    fn a_node_that_there_is_not_is_named_with_those_that_there_are() {
        let mut objects = ObjectSet::default();
        objects.put(node("a", "2")).unwrap();
        let change = SimulatedChange {
            drain: vec!["b".to_owned()],
            ..SimulatedChange::default()
        };
        let error = change.apply(&mut objects).unwrap_err().to_string();
        assert_eq!(error, "there is no node `b`; there are a");
        assert!("a=0".parse::<AddLike>().is_err());
        assert!("=2".parse::<AddLike>().is_err());
    }
}

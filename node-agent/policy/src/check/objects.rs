//! Objects out of documents, completed as a cluster would.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Error, PolicyTest};
use crate::compiler::Compiler;
use crate::objects::{
    ClusterNetworkPolicy, Metadata, Namespace, NetworkPolicy, Node, Pod, PodSpec,
};

/// All objects that affect policy, by namespace and name.
#[derive(Clone, Default, Debug)]
pub struct Objects {
    /// Namespaces.
    pub namespaces: BTreeMap<String, Namespace>,
    /// Pods.
    pub pods: BTreeMap<(String, String), Pod>,
    /// Nodes.
    pub nodes: BTreeMap<String, Node>,
    /// NetworkPolicies.
    pub policies: BTreeMap<(String, String), NetworkPolicy>,
    /// ClusterNetworkPolicies.
    pub cluster_policies: BTreeMap<String, ClusterNetworkPolicy>,
    /// The controllers of pods, ReplicaSets and Jobs, by kind, namespace and name of the
    /// controlled object.
    controllers: BTreeMap<(String, String, String), ControllerName>,
}

/// The kind and name of a controller.
#[derive(Clone, Debug)]
struct ControllerName {
    kind: String,
    name: String,
}

/// The part of a workload that defines its pods.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Template {
    metadata: Metadata,
    spec: PodSpec,
}

impl Objects {
    /// Adds a document; one of an unknown kind is ignored.
    pub(super) fn add(
        &mut self,
        mut document: Value,
        tests: &mut Vec<PolicyTest>,
    ) -> Result<(), Error> {
        if document.is_null() {
            return Ok(());
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let kind = text(&document["kind"]);
        let api = text(&document["apiVersion"]);
        let group = api.split_once('/').map_or("", |(group, _)| group);
        if kind.ends_with("List")
            && let Value::Array(items) = document["items"].take()
        {
            // Items of a typed list do not say their kind.
            for mut item in items {
                if item["kind"].is_null() {
                    item["kind"] = kind.trim_end_matches("List").into();
                    item["apiVersion"] = api.clone().into();
                }
                self.add(item, tests)?;
            }
            return Ok(());
        }
        let mut namespace = text(&document["metadata"]["namespace"]);
        if namespace.is_empty() {
            namespace = "default".into();
        }
        let name = text(&document["metadata"]["name"]);
        let key = (namespace.clone(), name.clone());
        let what = format!("{kind} {namespace}/{name}");
        let owner = controller_of(&document);
        let template = match (group, kind.as_str()) {
            ("orlop.dev", "PolicyTest") => {
                tests.push(read(document, &what)?);
                return Ok(());
            }
            ("", "Namespace") => {
                self.namespaces.insert(name, read(document, &what)?);
                return Ok(());
            }
            ("", "Node") => {
                self.nodes.insert(name, read(document, &what)?);
                return Ok(());
            }
            ("networking.k8s.io", "NetworkPolicy") => {
                let mut policy: NetworkPolicy = read(document, &what)?;
                policy.metadata.namespace = namespace;
                self.policies.insert(key, policy);
                return Ok(());
            }
            ("policy.networking.k8s.io", "ClusterNetworkPolicy") => {
                self.cluster_policies.insert(name, read(document, &what)?);
                return Ok(());
            }
            ("", "Pod") => {
                let mut pod: Pod = read(document, &what)?;
                pod.metadata.namespace.clone_from(&namespace);
                if let Some(owner) = owner {
                    self.controllers.insert((kind, namespace, name), owner);
                }
                self.pods.insert(key, pod);
                return Ok(());
            }
            // One that is controlled leads from its pods to its controller, whose template
            // is the one that counts.
            ("apps", "ReplicaSet") | ("batch", "Job") if owner.is_some() => {
                let owner = owner.map(|owner| ((kind, namespace, name), owner));
                self.controllers.extend(owner);
                return Ok(());
            }
            ("apps", "Deployment" | "StatefulSet" | "ReplicaSet" | "DaemonSet")
            | ("batch", "Job")
            | ("", "ReplicationController") => document["spec"]["template"].take(),
            ("batch", "CronJob") => document["spec"]["jobTemplate"]["spec"]["template"].take(),
            _ => return Ok(()),
        };
        let template: Template = read(template, &what)?;
        let pod = Pod {
            metadata: Metadata {
                name,
                namespace,
                labels: template.metadata.labels,
                ..Metadata::default()
            },
            spec: template.spec,
            ..Pod::default()
        };
        self.pods.entry(key).or_insert(pod);
        Ok(())
    }

    /// Returns whether a workload of this name controls the pod: directly, or through a
    /// ReplicaSet or Job.
    pub(super) fn is_controlled_by(&self, namespace: &str, pod: &str, workload: &str) -> bool {
        let owner_of = |kind: &str, name: &str| {
            let key = (kind.to_owned(), namespace.to_owned(), name.to_owned());
            self.controllers.get(&key)
        };
        let first = owner_of("Pod", pod);
        let second = first.and_then(|owner| owner_of(&owner.kind, &owner.name));
        [first, second]
            .into_iter()
            .flatten()
            .any(|owner| owner.name == workload)
    }

    /// Adds what a cluster adds: namespaces get their names as labels, pods without an
    /// address get one of 198.18.0.0/15 (RFC 2544), pods in a node's network that node's.
    pub(super) fn complete(&mut self) {
        let used = self.pods.keys().chain(self.policies.keys());
        let used: Vec<String> = used.map(|(namespace, _)| namespace.clone()).collect();
        for namespace in used {
            self.namespaces.entry(namespace).or_default();
        }
        for (name, namespace) in &mut self.namespaces {
            namespace.metadata.name.clone_from(name);
            let labels = &mut namespace.metadata.labels;
            labels.insert("kubernetes.io/metadata.name".into(), name.clone());
        }
        let first = u32::from_be_bytes([198, 18, 0, 1]);
        for (number, pod) in (0..).zip(self.pods.values_mut()) {
            let status = &mut pod.status;
            if status.pod_ip.is_empty() && status.pod_ips.is_empty() {
                status.pod_ip = std::net::Ipv4Addr::from_bits(first + number).to_string();
            }
        }
    }

    /// Tells a compiler all.
    pub fn apply_to(&self, compiler: &mut Compiler) {
        for (name, it) in &self.namespaces {
            compiler.namespace(name, Some(it));
        }
        for (name, it) in &self.nodes {
            compiler.node(name, Some(it));
        }
        for ((namespace, name), it) in &self.pods {
            compiler.pod(namespace, name, Some(it));
        }
        for ((namespace, name), it) in &self.policies {
            compiler.network_policy(namespace, name, Some(it));
        }
        for (name, it) in &self.cluster_policies {
            compiler.cluster_network_policy(name, Some(it));
        }
    }
}

/// The owner that is marked as the controller, else the first one.
fn controller_of(document: &Value) -> Option<ControllerName> {
    let owners = document["metadata"]["ownerReferences"].as_array()?;
    let owner = owners
        .iter()
        .find(|owner| owner["controller"] == true)
        .or(owners.first())?;
    Some(ControllerName {
        kind: owner["kind"].as_str()?.to_owned(),
        name: owner["name"].as_str()?.to_owned(),
    })
}

fn read<T: DeserializeOwned>(document: Value, what: &str) -> Result<T, Error> {
    serde_json::from_value(document).map_err(|error| Error::Document {
        what: what.to_owned(),
        why: error.to_string(),
    })
}

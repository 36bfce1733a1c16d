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

/// All objects that count, by namespace and name.
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
    /// Pods whose workload has another name.
    pub workloads: BTreeMap<(String, String), String>,
}

/// What of a workload makes its pods.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Template {
    metadata: Metadata,
    spec: PodSpec,
}

impl Objects {
    /// Adds a document; one of an unknown kind is none of ours.
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
                let owner = text(&document["metadata"]["ownerReferences"][0]["name"]);
                let mut pod: Pod = read(document, &what)?;
                pod.metadata.namespace = namespace;
                if !owner.is_empty() {
                    self.workloads.insert(key.clone(), owner);
                }
                self.pods.insert(key, pod);
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

    /// Gives what a cluster gives: namespaces their names as labels, pods
    /// without an address one of 198.18.0.0/15 (RFC 2544), pods of a node's
    /// network that node's.
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
    pub fn tell(&self, compiler: &mut Compiler) {
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

fn read<T: DeserializeOwned>(document: Value, what: &str) -> Result<T, Error> {
    serde_json::from_value(document).map_err(|error| Error::Document {
        what: what.to_owned(),
        why: error.to_string(),
    })
}

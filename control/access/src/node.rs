//! What a node's agent may do.
//!
//! An agent may do what the role `system:node` says, but read secrets, config
//! maps, volume claims and volumes, and ask for tokens, only for the pods that
//! are bound to its node; and write only its own lease and CSI node. This is the
//! graph of kube-apiserver's node authorizer, kept as counters: how many pods of
//! a node refer to a thing.

use std::sync::{PoisonError, RwLock};

use control_types::meta;
use control_types::value::Value;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{Attributes, Rule, bootstrap};

/// What pods on which node refer to; decides for node agents.
#[derive(Debug)]
pub struct NodeGraph {
    rules: Vec<Rule>,
    state: RwLock<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By namespace and name of the pod.
    pods: FxHashMap<(String, String), PodEdges>,
    /// Node and what its pods refer to → by how many pods.
    edges: FxHashMap<(String, Target), usize>,
    /// Volume → namespace and name of its claim.
    volumes: FxHashMap<String, (String, String)>,
}

#[derive(Debug)]
struct PodEdges {
    node: String,
    targets: FxHashSet<Target>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Target {
    kind: TargetKind,
    namespace: String,
    name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum TargetKind {
    Secret,
    ConfigMap,
    Claim,
    ServiceAccount,
    ResourceClaim,
}

// === impl NodeGraph ===

impl Default for NodeGraph {
    fn default() -> Self {
        Self {
            rules: bootstrap::node_rules(),
            state: RwLock::default(),
        }
    }
}

impl NodeGraph {
    /// Takes a pod as it is now.
    pub fn set_pod(&self, pod: &Value) {
        let place = (meta::namespace(pod).to_owned(), meta::name(pod).to_owned());
        let edges = PodEdges::of(pod);
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.remove_pod(&place);
        if let Some(edges) = edges {
            for target in &edges.targets {
                *state
                    .edges
                    .entry((edges.node.clone(), target.clone()))
                    .or_default() += 1;
            }
            state.pods.insert(place, edges);
        }
    }

    /// Forgets a deleted pod.
    pub fn remove_pod(&self, namespace: &str, name: &str) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.remove_pod(&(namespace.to_owned(), name.to_owned()));
    }

    /// Takes a persistent volume as it is now.
    pub fn set_volume(&self, volume: &Value) {
        let claim = volume
            .str_at(&["spec", "claimRef", "namespace"])
            .zip(volume.str_at(&["spec", "claimRef", "name"]));
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let name = meta::name(volume).to_owned();
        match claim {
            Some((namespace, claim)) => state
                .volumes
                .insert(name, (namespace.to_owned(), claim.to_owned())),
            None => state.volumes.remove(&name),
        };
    }

    /// Forgets a deleted persistent volume.
    pub fn remove_volume(&self, name: &str) {
        self.state
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .volumes
            .remove(name);
    }

    /// Whether the request is one that the agent of `node` may make.
    ///
    /// # Errors
    /// Why not, as kube-apiserver says it.
    pub fn allows(&self, node: &str, attributes: &Attributes) -> Result<(), String> {
        if !attributes.is_resource_request {
            return self.by_rules(attributes);
        }
        let reads = matches!(&*attributes.verb, "get" | "list" | "watch");
        let target = match (&*attributes.group, &*attributes.resource) {
            ("", "secrets") => TargetKind::Secret,
            ("", "configmaps") => TargetKind::ConfigMap,
            ("", "persistentvolumeclaims") if attributes.subresource.is_empty() => {
                TargetKind::Claim
            }
            ("", "persistentvolumes") => return self.volume(node, attributes),
            ("", "serviceaccounts") if attributes.subresource == "token" => {
                if attributes.verb != "create" || attributes.name.is_empty() {
                    return Err("can only create tokens for individual service accounts".to_owned());
                }
                return self.refers(node, TargetKind::ServiceAccount, attributes);
            }
            ("resource.k8s.io", "resourceclaims") => TargetKind::ResourceClaim,
            ("coordination.k8s.io", "leases") => {
                if attributes.namespace != "kube-node-lease" {
                    return Err(
                        r#"can only access leases in the "kube-node-lease" system namespace"#
                            .to_owned(),
                    );
                }
                return Self::own(
                    node,
                    attributes,
                    "can only access node lease with the same name as the requesting node",
                );
            }
            ("storage.k8s.io", "csinodes") => {
                return Self::own(
                    node,
                    attributes,
                    "can only access CSINode with the same name as the requesting node",
                );
            }
            _ => return self.by_rules(attributes),
        };
        if !reads || !attributes.subresource.is_empty() {
            return Err("can only read resources of this type".to_owned());
        }
        if attributes.name.is_empty() {
            return Err("can only read individual resources of this type".to_owned());
        }
        self.refers(node, target, attributes)
    }

    /// An object of the node's own name. What is to be made has no name yet in
    /// the request: admission compares it.
    fn own(node: &str, attributes: &Attributes, refusal: &str) -> Result<(), String> {
        let known = matches!(
            &*attributes.verb,
            "get" | "create" | "update" | "patch" | "delete"
        );
        if !known {
            return Err(
                "can only get, create, update, patch, or delete a node lease or CSINode".to_owned(),
            );
        }
        if attributes.verb != "create" && attributes.name != node {
            return Err(refusal.to_owned());
        }
        Ok(())
    }

    fn volume(&self, node: &str, attributes: &Attributes) -> Result<(), String> {
        if !matches!(&*attributes.verb, "get" | "list" | "watch") || attributes.name.is_empty() {
            return Err("can only read individual resources of this type".to_owned());
        }
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let claim = state.volumes.get(&attributes.name).cloned();
        drop(state);
        let Some((namespace, name)) = claim else {
            return Err(no_relationship(node));
        };
        let of_claim = Attributes {
            namespace,
            name,
            ..attributes.clone()
        };
        self.refers(node, TargetKind::Claim, &of_claim)
    }

    fn refers(&self, node: &str, kind: TargetKind, attributes: &Attributes) -> Result<(), String> {
        let target = Target {
            kind,
            namespace: attributes.namespace.clone(),
            name: attributes.name.clone(),
        };
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        if state.edges.contains_key(&(node.to_owned(), target)) {
            return Ok(());
        }
        Err(no_relationship(node))
    }

    fn by_rules(&self, attributes: &Attributes) -> Result<(), String> {
        self.rules
            .iter()
            .any(|rule| rule.allows(attributes))
            .then_some(())
            .ok_or_else(String::new)
    }
}

fn no_relationship(node: &str) -> String {
    format!("no relationship found between node '{node}' and this object")
}

// === impl State ===

impl State {
    fn remove_pod(&mut self, place: &(String, String)) {
        let Some(old) = self.pods.remove(place) else {
            return;
        };
        for target in old.targets {
            let key = (old.node.clone(), target);
            if let Some(count) = self.edges.get_mut(&key) {
                *count -= 1;
                if *count == 0 {
                    self.edges.remove(&key);
                }
            }
        }
    }
}

// === impl PodEdges ===

impl PodEdges {
    /// `None` for a pod that is bound to no node. A mirror pod refers to
    /// nothing: its agent made it up.
    fn of(pod: &Value) -> Option<Self> {
        let node = pod
            .str_at(&["spec", "nodeName"])
            .filter(|node| !node.is_empty())?;
        let mut targets = FxHashSet::default();
        if meta::annotation(pod, "kubernetes.io/config.mirror").is_none() {
            let namespace = meta::namespace(pod);
            collect(pod, |kind, name| {
                targets.insert(Target {
                    kind,
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                });
            });
        }
        Some(Self {
            node: node.to_owned(),
            targets,
        })
    }
}

/// All that a pod's specification refers to.
fn collect(pod: &Value, mut see: impl FnMut(TargetKind, &str)) {
    use TargetKind::{Claim, ConfigMap, ResourceClaim, Secret, ServiceAccount};
    let Some(spec) = pod.get("spec") else { return };
    let mut take = |kind, name: Option<&str>| {
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            see(kind, name);
        }
    };
    take(ServiceAccount, spec.str_at(&["serviceAccountName"]));
    for secret in spec.items_at(&["imagePullSecrets"]) {
        take(Secret, secret.str_at(&["name"]));
    }
    for containers in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec.items_at(&[containers]) {
            for from in container.items_at(&["envFrom"]) {
                take(Secret, from.str_at(&["secretRef", "name"]));
                take(ConfigMap, from.str_at(&["configMapRef", "name"]));
            }
            for env in container.items_at(&["env"]) {
                take(Secret, env.str_at(&["valueFrom", "secretKeyRef", "name"]));
                take(
                    ConfigMap,
                    env.str_at(&["valueFrom", "configMapKeyRef", "name"]),
                );
            }
        }
    }
    for volume in spec.items_at(&["volumes"]) {
        take(Secret, volume.str_at(&["secret", "secretName"]));
        take(ConfigMap, volume.str_at(&["configMap", "name"]));
        take(
            Claim,
            volume.str_at(&["persistentVolumeClaim", "claimName"]),
        );
        if volume.get("ephemeral").is_some() {
            let claim = format!(
                "{}-{}",
                meta::name(pod),
                volume.str_at(&["name"]).unwrap_or_default()
            );
            take(Claim, Some(&claim));
        }
        for source in volume.items_at(&["projected", "sources"]) {
            take(Secret, source.str_at(&["secret", "name"]));
            take(ConfigMap, source.str_at(&["configMap", "name"]));
        }
        take(
            Secret,
            volume.str_at(&["csi", "nodePublishSecretRef", "name"]),
        );
    }
    for claim in spec.items_at(&["resourceClaims"]) {
        take(ResourceClaim, claim.str_at(&["resourceClaimName"]));
    }
    for claim in pod.items_at(&["status", "resourceClaimStatuses"]) {
        take(ResourceClaim, claim.str_at(&["resourceClaimName"]));
    }
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;
    use crate::{NODES, User};

    fn ask(verb: &str, what: &str, namespace: &str, name: &str) -> Attributes {
        let (group, what) = what.rsplit_once(':').unwrap_or(("", what));
        let (resource, subresource) = what.split_once('/').unwrap_or((what, ""));
        Attributes {
            user: User::named("system:node:n1", [NODES]),
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            is_resource_request: true,
            ..Attributes::default()
        }
    }

    fn pod(name: &str, node: &str) -> Value {
        let mut pod = value!({
            "metadata": { "namespace": "a" },
            "spec": {
                "serviceAccountName": "robot",
                "containers": [{ "env": [{ "valueFrom": { "secretKeyRef": { "name": "key" } } }] }],
                "volumes": [
                    { "name": "v", "persistentVolumeClaim": { "claimName": "data" } },
                    { "name": "p", "projected": { "sources": [{ "configMap": { "name": "root-ca" } }] } },
                    { "name": "tmp", "ephemeral": {} },
                ],
            },
        });
        pod.set_path(&["metadata", "name"], name);
        pod.set_path(&["spec", "nodeName"], node);
        pod
    }

    #[test]
    fn an_agent_reads_what_its_pods_refer_to_and_nothing_else() {
        let graph = NodeGraph::default();
        graph.set_pod(&pod("web", "n1"));
        graph.set_volume(&value!({ "metadata": { "name": "pv" }, "spec": { "claimRef": { "namespace": "a", "name": "data" } } }));
        let yes = [
            ask("get", "secrets", "a", "key"),
            ask("watch", "secrets", "a", "key"),
            ask("get", "configmaps", "a", "root-ca"),
            ask("get", "persistentvolumeclaims", "a", "data"),
            ask("get", "persistentvolumeclaims", "a", "web-tmp"),
            ask("get", "persistentvolumes", "", "pv"),
            ask("create", "serviceaccounts/token", "a", "robot"),
        ];
        for question in &yes {
            assert_eq!(graph.allows("n1", question), Ok(()), "{question:?}");
            assert!(graph.allows("n2", question).is_err(), "{question:?}");
        }
        for no in [
            ask("list", "secrets", "a", ""),
            ask("get", "secrets", "b", "key"),
            ask("update", "secrets", "a", "key"),
            ask("create", "serviceaccounts/token", "a", "other"),
            ask("get", "persistentvolumes", "", "other"),
            ask("delete", "nodes", "", "n1"),
        ] {
            assert!(graph.allows("n1", &no).is_err(), "{no:?}");
        }
    }

    #[test]
    fn two_pods_may_refer_to_one_thing_and_the_last_takes_it_along() {
        let graph = NodeGraph::default();
        let secret = ask("get", "secrets", "a", "key");
        graph.set_pod(&pod("one", "n1"));
        graph.set_pod(&pod("one", "n1"));
        graph.set_pod(&pod("two", "n1"));
        graph.remove_pod("a", "one");
        assert_eq!(graph.allows("n1", &secret), Ok(()));
        graph.remove_pod("a", "two");
        assert_eq!(
            graph.allows("n1", &secret),
            Err("no relationship found between node 'n1' and this object".to_owned())
        );
        assert!(graph.state.read().expect("no panic").edges.is_empty());
    }

    #[test]
    fn an_agent_keeps_its_own_lease_only_and_its_pods_status() {
        let graph = NodeGraph::default();
        let lease = "coordination.k8s.io:leases";
        assert_eq!(
            graph.allows("n1", &ask("update", lease, "kube-node-lease", "n1")),
            Ok(())
        );
        assert_eq!(
            graph.allows("n1", &ask("create", lease, "kube-node-lease", "")),
            Ok(())
        );
        assert!(
            graph
                .allows("n1", &ask("update", lease, "kube-node-lease", "n2"))
                .is_err()
        );
        assert!(
            graph
                .allows("n1", &ask("update", lease, "kube-system", "n1"))
                .is_err()
        );
        assert_eq!(
            graph.allows("n1", &ask("patch", "pods/status", "a", "web")),
            Ok(())
        );
        assert_eq!(graph.allows("n1", &ask("list", "services", "", "")), Ok(()));
    }
}

//! Authorization of node agents.
//!
//! An agent may do what the role `system:node` allows, but may read only objects related
//! to its node: itself, its pods, the objects that they refer to, the volumes that they
//! mount; and may write only its own lease, CSI node and resource slices. Decisions and
//! messages are those of kube-apiserver's node authorizer. In addition, an agent reads
//! Secrets of the BGPPeers that select its node, watches claims and volumes on the local disks
//! of its node, and reads Secrets that their StorageClasses name.

mod graph;
mod local_storage;
mod references;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use control_types::labels::Selector;
use control_types::meta;
use control_types::value::Value;

pub use self::references::POD_PATHS;

use self::graph::{Graph, OwnNode, VertexKind};
use self::local_storage::LocalStorage;
use crate::{Attributes, Rule, bootstrap};

/// The references of pods by node, for decisions about node agents.
pub struct NodeGraph {
    rules: Vec<Rule>,
    graph: RwLock<Graph>,
    storage: RwLock<LocalStorage>,
    selects: OnceLock<Box<SelectsNode>>,
}

/// Whether a selector selects the labels of the Node of this name.
type SelectsNode = dyn Fn(&Selector, &str) -> bool + Send + Sync;

/// The kinds of objects, besides pods and volumes, by which nodes are known to
/// have to do with something: each names its node in its specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfNode {
    /// A VolumeAttachment.
    Attachment,
    /// A ResourceSlice.
    Slice,
}

/// Denial of a request of a node agent, in kube-apiserver's words; the message is empty
/// where it says nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeDenial {
    /// No rule allows the request.
    #[error("")]
    NoRule,
    /// Agents may not use the resource so.
    #[error("{0}")]
    Usage(&'static str),
    /// The object has nothing to do with the node.
    #[error("no relationship found between node '{node}' and this object")]
    Unrelated {
        /// The agent's node.
        node: String,
    },
    /// A collection is not restricted to the node.
    #[error("can only list/watch {resource} with {selector} selector")]
    Unselected {
        /// The resource.
        resource: String,
        /// The selector that would restrict it.
        selector: &'static str,
    },
    /// The agent reads the collection of nodes.
    #[error("node '{node}' cannot read all nodes, only its own Node object")]
    AllNodes {
        /// The agent's node.
        node: String,
    },
    /// The agent reads another node.
    #[error("node '{node}' cannot read '{name}', only its own Node object")]
    OtherNode {
        /// The agent's node.
        node: String,
        /// The node that it reads.
        name: String,
    },
}

// === impl OfNode ===

impl OfNode {
    const fn kind(self) -> OwnNode {
        match self {
            Self::Attachment => OwnNode::Attachment,
            Self::Slice => OwnNode::Slice,
        }
    }
}

// === impl NodeGraph ===

impl Default for NodeGraph {
    fn default() -> Self {
        Self {
            rules: bootstrap::node_rules(),
            graph: RwLock::default(),
            storage: RwLock::default(),
            selects: OnceLock::new(),
        }
    }
}

impl fmt::Debug for NodeGraph {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("NodeGraph")
            .field("graph", &self.graph)
            .finish_non_exhaustive()
    }
}

impl NodeGraph {
    /// Takes a pod as it is now.
    pub fn set_pod(&self, pod: &Value) {
        self.write().set_pod(pod);
    }

    /// Forgets a deleted pod.
    pub fn remove_pod(&self, namespace: &str, name: &str) {
        self.write().remove_pod(namespace, name);
    }

    /// Takes a persistent volume as it is now.
    pub fn set_volume(&self, volume: &Value) {
        self.write().set_volume(volume);
        self.storage().set_volume(volume);
    }

    /// Forgets a deleted persistent volume.
    pub fn remove_volume(&self, name: &str) {
        self.write().remove_volume(name);
        self.storage().remove_volume(name);
    }

    /// Takes a claim to a volume as it is now.
    pub fn set_claim(&self, claim: &Value) {
        self.storage().set_claim(claim);
    }

    /// Forgets a deleted claim.
    pub fn remove_claim(&self, namespace: &str, name: &str) {
        self.storage().remove_claim(namespace, name);
    }

    /// Takes a storage class as it is now.
    pub fn set_class(&self, class: &Value) {
        self.storage().set_class(class);
    }

    /// Forgets a deleted storage class.
    pub fn remove_class(&self, name: &str) {
        self.storage().remove_class(name);
    }

    /// Looks labels of Nodes up by `selects` from now on; only the first call counts.
    /// Until then no selector selects any node.
    pub fn look_labels_up_by(
        &self,
        selects: impl Fn(&Selector, &str) -> bool + Send + Sync + 'static,
    ) {
        let _ = self.selects.set(Box::new(selects));
    }

    /// Takes a BGPPeer as it is now.
    pub fn set_peer(&self, peer: &Value) {
        self.write().set_peer(peer);
    }

    /// Forgets a deleted BGPPeer.
    pub fn remove_peer(&self, name: &str) {
        self.write().remove_peer(name);
    }

    /// Takes an object that names its node, as it is now.
    pub fn set(&self, of: OfNode, object: &Value) {
        let node = object.str_at(&["spec", "nodeName"]).unwrap_or_default();
        let (namespace, name) = (meta::namespace(object), meta::name(object));
        self.write().set_owned(of.kind(), namespace, name, node);
    }

    /// Forgets such an object.
    pub fn remove(&self, of: OfNode, namespace: &str, name: &str) {
        self.write().remove_owned(of.kind(), namespace, name);
    }

    /// Whether the request is one that the agent of `node` may make.
    ///
    /// # Errors
    /// Why not, as kube-apiserver says it.
    pub fn allows(&self, node: &str, asked: &Attributes) -> Result<(), NodeDenial> {
        if !asked.is_resource_request {
            return self.by_rules(asked);
        }
        match (&*asked.group, &*asked.resource) {
            ("", "secrets") => self.read_only(node, VertexKind::Secret, asked),
            ("", "configmaps") => self.read_only(node, VertexKind::ConfigMap, asked),
            ("", "persistentvolumeclaims") if asked.subresource == "status" => {
                if !matches!(&*asked.verb, "update" | "patch") {
                    return refuse("can only get/update/patch this type");
                }
                self.refers(node, VertexKind::Claim, asked)
            }
            ("", "persistentvolumeclaims") => {
                only_get(asked)?;
                self.refers(node, VertexKind::Claim, asked)
            }
            ("", "persistentvolumes") => {
                only_get(asked)?;
                self.related(node, asked, |graph| graph.mounts(node, &asked.name))
            }
            ("resource.k8s.io", "resourceclaims") => {
                only_get(asked)?;
                self.refers(node, VertexKind::ResourceClaim, asked)
            }
            ("storage.k8s.io", "volumeattachments") => {
                only_get(asked)?;
                self.owns(node, OwnNode::Attachment, asked)
            }
            ("", "serviceaccounts") => self.account(node, asked),
            ("coordination.k8s.io", "leases") => lease(node, asked),
            ("storage.k8s.io", "csinodes") => csi_node(node, asked),
            ("resource.k8s.io", "resourceslices") => self.slice(node, asked),
            ("", "nodes") => own_node(node, asked),
            ("storage.orlop.dev", "localclaims" | "localvolumes") => own_storage(node, asked),
            ("snapshot.storage.k8s.io", "volumesnapshotcontents")
                if matches!(&*asked.verb, "list" | "watch") =>
            {
                own_contents(node, asked)
            }
            ("", "pods") => self.pod(node, asked),
            // Requests for pods' certificates are behind a gate that is off.
            ("certificates.k8s.io", "podcertificaterequests") => Err(NodeDenial::NoRule),
            _ => self.by_rules(asked),
        }
    }

    fn read_only(
        &self,
        node: &str,
        kind: VertexKind,
        asked: &Attributes,
    ) -> Result<(), NodeDenial> {
        if !reads(asked) {
            return refuse("can only read resources of this type");
        }
        if !asked.subresource.is_empty() {
            return refuse("cannot read subresource");
        }
        if asked.namespace.is_empty() {
            return refuse("can only read namespaced object of this type");
        }
        self.refers(node, kind, asked)
    }

    /// An agent reads its pods' service accounts for their annotations, and requests
    /// tokens for them.
    fn account(&self, node: &str, asked: &Attributes) -> Result<(), NodeDenial> {
        if asked.verb == "get" && asked.subresource.is_empty() {
            return self.read_only(node, VertexKind::ServiceAccount, asked);
        }
        if asked.verb != "create" || asked.name.is_empty() {
            return refuse("can only create tokens for individual service accounts");
        }
        if asked.subresource != "token" {
            return refuse("can only create token subresource of serviceaccount");
        }
        self.refers(node, VertexKind::ServiceAccount, asked)
    }

    fn slice(&self, node: &str, asked: &Attributes) -> Result<(), NodeDenial> {
        if !asked.subresource.is_empty() {
            return refuse("cannot authorize ResourceSlice subresources");
        }
        match &*asked.verb {
            "create" => Ok(()),
            "get" | "update" | "patch" | "delete" => self.owns(node, OwnNode::Slice, asked),
            "watch" | "list" | "deletecollection" if asked.selects("spec.nodeName", node) => Ok(()),
            "watch" | "list" | "deletecollection" => refuse(
                "can only list/watch/deletecollection resourceslices with nodeName field selector",
            ),
            _ => refuse(
                "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection",
            ),
        }
    }

    fn pod(&self, node: &str, asked: &Attributes) -> Result<(), NodeDenial> {
        let runs = || {
            self.related(node, asked, |graph| {
                graph.runs(node, &asked.namespace, &asked.name)
            })
        };
        match (&*asked.subresource, &*asked.verb) {
            ("", "get") => runs(),
            ("", "list" | "watch") if asked.selects("spec.nodeName", node) => Ok(()),
            ("", "list" | "watch") if !asked.name.is_empty() => runs(),
            ("", "list" | "watch") => {
                refuse("can only list/watch pods with spec.nodeName field selector")
            }
            // Admission looks at which pods.
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => {
                Ok(())
            }
            _ => Err(NodeDenial::NoRule),
        }
    }

    fn refers(&self, node: &str, kind: VertexKind, asked: &Attributes) -> Result<(), NodeDenial> {
        let (namespace, name) = (&*asked.namespace, &*asked.name);
        self.related(node, asked, |graph| {
            graph.refers(node, kind, namespace, name)
                || graph.is_password(kind, namespace, name, |peers| self.selects(peers, node))
                || kind == VertexKind::Secret && self.needs(node, namespace, name)
        })
    }

    fn owns(&self, node: &str, kind: OwnNode, asked: &Attributes) -> Result<(), NodeDenial> {
        self.related(node, asked, |graph| {
            graph.owns(node, kind, &asked.namespace, &asked.name)
        })
    }

    fn related(
        &self,
        node: &str,
        asked: &Attributes,
        is: impl FnOnce(&Graph) -> bool,
    ) -> Result<(), NodeDenial> {
        if asked.name.is_empty() {
            return refuse("No Object name found");
        }
        if is(&self.read()) {
            return Ok(());
        }
        Err(NodeDenial::Unrelated {
            node: node.to_owned(),
        })
    }

    fn selects(&self, selector: &Selector, node: &str) -> bool {
        self.selects
            .get()
            .is_some_and(|selects| selects(selector, node))
    }

    fn by_rules(&self, asked: &Attributes) -> Result<(), NodeDenial> {
        let allowed = self.rules.iter().any(|rule| rule.allows(asked));
        allowed.then_some(()).ok_or(NodeDenial::NoRule)
    }

    /// Whether the node's own volume driver needs the secret.
    fn needs(&self, node: &str, namespace: &str, name: &str) -> bool {
        let storage = self.storage.read().unwrap_or_else(PoisonError::into_inner);
        storage.needs(node, namespace, name)
    }

    fn storage(&self) -> RwLockWriteGuard<'_, LocalStorage> {
        self.storage.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> RwLockReadGuard<'_, Graph> {
        self.graph.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Graph> {
        self.graph.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refuse(why: &'static str) -> Result<(), NodeDenial> {
    Err(NodeDenial::Usage(why))
}

fn reads(asked: &Attributes) -> bool {
    matches!(&*asked.verb, "get" | "list" | "watch")
}

fn only_get(asked: &Attributes) -> Result<(), NodeDenial> {
    if asked.verb != "get" {
        return refuse("can only get individual resources of this type");
    }
    if !asked.subresource.is_empty() {
        return refuse("cannot get subresource");
    }
    Ok(())
}

fn keeps(asked: &Attributes) -> bool {
    matches!(
        &*asked.verb,
        "get" | "create" | "update" | "patch" | "delete"
    )
}

/// Allows the lease with the node's own name. A create request has no name yet: admission
/// compares it.
fn lease(node: &str, asked: &Attributes) -> Result<(), NodeDenial> {
    if !keeps(asked) {
        return refuse("can only get, create, update, patch, or delete a node lease");
    }
    if asked.namespace != "kube-node-lease" {
        return refuse(r#"can only access leases in the "kube-node-lease" system namespace"#);
    }
    if asked.verb != "create" && asked.name != node {
        return refuse("can only access node lease with the same name as the requesting node");
    }
    Ok(())
}

fn csi_node(node: &str, asked: &Attributes) -> Result<(), NodeDenial> {
    if !keeps(asked) {
        return refuse("can only get, create, update, patch, or delete a CSINode");
    }
    if !asked.subresource.is_empty() {
        return refuse("cannot authorize CSINode subresources");
    }
    if asked.verb != "create" && asked.name != node {
        return refuse("can only access CSINode with the same name as the requesting node");
    }
    Ok(())
}

/// Views of the claims for which the node was selected and of the volumes that are on it.
fn own_storage(node: &str, asked: &Attributes) -> Result<(), NodeDenial> {
    let follows = matches!(&*asked.verb, "list" | "watch") && asked.subresource.is_empty();
    if follows && asked.selects("spec.nodeName", node) {
        return Ok(());
    }
    Err(NodeDenial::Unselected {
        resource: asked.resource.clone(),
        selector: "spec.nodeName field",
    })
}

/// Snapshots in the storage of the node's own driver.
fn own_contents(node: &str, asked: &Attributes) -> Result<(), NodeDenial> {
    const MANAGED_BY: &str = "snapshot.storage.kubernetes.io/managed-by";
    if asked.selects_label(MANAGED_BY, node) {
        return Ok(());
    }
    Err(NodeDenial::Unselected {
        resource: asked.resource.clone(),
        selector: "snapshot.storage.kubernetes.io/managed-by label",
    })
}

fn own_node(node: &str, asked: &Attributes) -> Result<(), NodeDenial> {
    match (&*asked.subresource, &*asked.verb) {
        // Admission compares the name.
        ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Ok(()),
        ("", "get" | "list" | "watch") if asked.name == node => Ok(()),
        ("", "get" | "list" | "watch") if asked.name.is_empty() => Err(NodeDenial::AllNodes {
            node: node.to_owned(),
        }),
        ("", "get" | "list" | "watch") => Err(NodeDenial::OtherNode {
            node: node.to_owned(),
            name: asked.name.clone(),
        }),
        _ => Err(NodeDenial::NoRule),
    }
}

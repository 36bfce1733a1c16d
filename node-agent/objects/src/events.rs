//! Events of pods and of their node.

use control_client::events::{Format, ObjectReference, Recorder};
use control_client::{Client, resources};

use crate::pod::{Container, Pod};

/// Records the kubelet's events. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct NodeEvents {
    recorder: Recorder,
    node: ObjectReference,
}

impl NodeEvents {
    /// Of the node of that name. Must be called within a tokio runtime.
    ///
    /// Events name the node by its name alone: it is perhaps not known yet, and who looks for
    /// them goes by the name.
    #[must_use]
    pub fn new(client: &Client, node_name: &str) -> Self {
        Self {
            recorder: Recorder::new(client, "kubelet", node_name, Format::Core),
            node: ObjectReference {
                api_version: "v1".to_owned(),
                kind: "Node".to_owned(),
                name: node_name.to_owned(),
                uid: node_name.to_owned(),
                ..ObjectReference::default()
            },
        }
    }

    /// Good news about the node.
    pub fn node_normal(&self, reason: &str, message: impl Into<String>) {
        self.recorder.normal(&self.node, reason, message);
    }

    /// Bad news about the node.
    pub fn node_warning(&self, reason: &str, message: impl Into<String>) {
        self.recorder.warning(&self.node, reason, message);
    }

    /// Good news about a pod, or a container of it.
    pub fn normal(
        &self,
        pod: &Pod,
        container: Option<&str>,
        reason: &str,
        message: impl Into<String>,
    ) {
        self.recorder
            .normal(&reference(pod, container), reason, message);
    }

    /// Bad news about a pod, or a container of it.
    pub fn warning(
        &self,
        pod: &Pod,
        container: Option<&str>,
        reason: &str,
        message: impl Into<String>,
    ) {
        self.recorder
            .warning(&reference(pod, container), reason, message);
    }
}

fn reference(pod: &Pod, container: Option<&str>) -> ObjectReference {
    let reference = ObjectReference::to_object(&resources::PODS, &pod.metadata);
    match container {
        None => reference,
        Some(name) => {
            let spec = &pod.spec;
            let of = |list: &[Container]| list.iter().any(|c| c.name == name);
            let kind = if of(&spec.init_containers) {
                "initContainers"
            } else if of(&spec.ephemeral_containers) {
                "ephemeralContainers"
            } else {
                "containers"
            };
            reference.field(format!("spec.{kind}{{{name}}}"))
        }
    }
}

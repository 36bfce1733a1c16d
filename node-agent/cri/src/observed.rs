//! What the runtime has of one pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api;
use crate::api::ContainerState;

/// Labels and annotations on CRI objects: the names that the kubelet uses, so
/// that tools that read them work, and an agent adopts what a kubelet started.
pub mod key {
    /// Label: the pod's name.
    pub const POD_NAME: &str = "io.kubernetes.pod.name";
    /// Label: the pod's namespace.
    pub const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
    /// Label: the pod's uid.
    pub const POD_UID: &str = "io.kubernetes.pod.uid";
    /// Label: the container's name.
    pub const CONTAINER_NAME: &str = "io.kubernetes.container.name";
    /// Annotation: hash of the container's definition.
    pub const CONTAINER_HASH: &str = "io.kubernetes.container.hash";
    /// Annotation: how often the container was started before.
    pub const RESTART_COUNT: &str = "io.kubernetes.container.restartCount";
    /// Annotation: path in the container of the termination message.
    pub const MESSAGE_PATH: &str = "io.kubernetes.container.terminationMessagePath";
    /// Annotation: where the termination message comes from.
    pub const MESSAGE_POLICY: &str = "io.kubernetes.container.terminationMessagePolicy";
    /// Annotation: seconds that the pod gets to end by itself.
    pub const GRACE_PERIOD: &str = "io.kubernetes.pod.terminationGracePeriod";
    /// Annotation: the container's ports, as JSON.
    pub const PORTS: &str = "io.kubernetes.container.ports";
}

/// A sandbox as the runtime reports it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObservedSandbox {
    /// The runtime's id.
    pub id: String,
    /// Counts the pod's sandboxes from 0.
    pub attempt: u32,
    /// Whether it runs.
    pub ready: bool,
    /// Nanoseconds since the epoch.
    pub created_at: i64,
    /// Its addresses, the primary first; empty in the host's network.
    pub ips: Vec<String>,
}

/// A container as the runtime reports it, running or not.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedContainer {
    /// The runtime's id.
    pub id: String,
    /// Its name in the pod's specification.
    pub name: String,
    /// How often a container of this name was started before.
    pub restarts: u32,
    /// The sandbox it belongs to.
    pub sandbox: String,
    /// What it does now.
    pub state: ContainerState,
    /// Nanoseconds since the epoch, as all times here; 0 is never.
    pub created_at: i64,
    /// When its process started.
    pub started_at: i64,
    /// When its process ended.
    pub finished_at: i64,
    /// What its process ended with.
    pub exit_code: i32,
    /// Why it ended, in a word: `Completed`, `Error`, `OOMKilled`.
    pub reason: String,
    /// More about its end, from the runtime or from the container itself.
    pub message: String,
    /// The image's name.
    pub image: String,
    /// The image's digest reference.
    pub image_ref: String,
    /// Hash of the definition that it was made from.
    pub hash: String,
    /// Where its log is.
    pub log_path: String,
    /// Who it runs as, where the runtime says.
    pub user: Option<api::LinuxContainerUser>,
}

impl ObservedContainer {
    /// From the runtime's status; `None` for what is no pod's container.
    #[must_use]
    pub fn from_status(status: &api::ContainerStatus, sandbox: &str) -> Option<Self> {
        let name = status.labels.get(key::CONTAINER_NAME)?.clone();
        let restarts = status
            .annotations
            .get(key::RESTART_COUNT)
            .and_then(|count| count.parse().ok())
            .or_else(|| status.metadata.as_ref().map(|m| m.attempt))
            .unwrap_or(0);
        Some(Self {
            id: status.id.clone(),
            name,
            restarts,
            sandbox: sandbox.to_owned(),
            state: status.state(),
            created_at: status.created_at,
            started_at: status.started_at,
            finished_at: status.finished_at,
            exit_code: status.exit_code,
            reason: status.reason.clone(),
            message: status.message.clone(),
            image: status
                .image
                .as_ref()
                .map(|i| i.image.clone())
                .unwrap_or_default(),
            image_ref: if status.image_ref.is_empty() {
                status.image_id.clone()
            } else {
                status.image_ref.clone()
            },
            hash: status
                .annotations
                .get(key::CONTAINER_HASH)
                .cloned()
                .unwrap_or_default(),
            log_path: status.log_path.clone(),
            user: status.user.as_ref().and_then(|u| u.linux.clone()),
        })
    }

    /// Whether its process ended.
    #[must_use]
    pub fn exited(&self) -> bool {
        self.state == ContainerState::Exited
    }

    /// Whether its process runs.
    #[must_use]
    pub fn running(&self) -> bool {
        self.state == ContainerState::Running
    }
}

/// All sandboxes and containers of a pod, as the runtime reports them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObservedPod {
    /// Newest first.
    pub sandboxes: Vec<ObservedSandbox>,
    /// Newest first, of all names.
    pub containers: Vec<Arc<ObservedContainer>>,
}

impl ObservedPod {
    /// The newest container of that name.
    #[must_use]
    pub fn latest(&self, name: &str) -> Option<&Arc<ObservedContainer>> {
        self.containers.iter().find(|c| c.name == name)
    }

    /// The newest container of that name in that sandbox.
    #[must_use]
    pub fn latest_in(&self, sandbox: &str, name: &str) -> Option<&Arc<ObservedContainer>> {
        self.containers
            .iter()
            .find(|c| c.name == name && c.sandbox == sandbox)
    }

    /// The sandbox that the pod lives in: the newest, when it runs.
    #[must_use]
    pub fn live_sandbox(&self) -> Option<&ObservedSandbox> {
        self.sandboxes.first().filter(|s| s.ready)
    }

    /// Containers by name, newest first each.
    #[must_use]
    pub fn by_name(&self) -> BTreeMap<&str, Vec<&Arc<ObservedContainer>>> {
        let mut all: BTreeMap<&str, Vec<&Arc<ObservedContainer>>> = BTreeMap::new();
        for container in &self.containers {
            all.entry(&container.name).or_default().push(container);
        }
        all
    }

    /// Brings everything in order, newest first.
    pub fn sort(&mut self) {
        self.sandboxes
            .sort_by_key(|s| std::cmp::Reverse((s.attempt, s.created_at)));
        self.containers
            .sort_by_key(|c| std::cmp::Reverse((c.created_at, c.restarts)));
    }

    /// Whether nothing of the pod runs any more.
    #[must_use]
    pub fn is_still(&self) -> bool {
        !self.sandboxes.iter().any(|s| s.ready)
            && !self
                .containers
                .iter()
                .any(|c| matches!(c.state, ContainerState::Running | ContainerState::Unknown))
    }
}

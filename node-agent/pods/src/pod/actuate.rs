//! Brings granted resources into force: of running containers through the
//! runtime, of their pod in its control group.
//!
//! The pod's group is opened to the wider of both limits first and narrowed to
//! the new one last, so that a container never has more than its pod, whichever
//! way each of them goes.

use std::time::Duration;

use jiff::Timestamp;
use node_agent_cri::{RuntimeError, api};
use node_agent_objects::error_chain;
use node_agent_objects::pod::{Container, PodSpec};
use node_agent_pod_resources::resize::{ResizeAction, ResourceAmounts};
use node_agent_pod_resources::{pod_level_resources, qos, resize};

use super::backoff::Wait;
use super::limits;
use super::next::{self, PodGoal};
use super::state::PodState;

/// How long a change that failed waits before it is tried again.
const RETRY: Duration = Duration::from_secs(5);

/// Why granted resources are not in force.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResizeError {
    /// The runtime does not change a container.
    #[error("cannot change container {container}")]
    Container {
        container: String,
        source: RuntimeError,
    },
    /// The runtime does not change the sandbox.
    #[error("the runtime refuses the pod's resources")]
    Sandbox(#[source] RuntimeError),
    /// The pod's control group cannot be changed.
    #[error("cannot set the limits of the pod")]
    Limits(#[source] node_agent_cgroups::Error),
    /// The memory that a container uses is unknown.
    #[error("cannot read the usage of {container}")]
    Usage {
        container: String,
        source: RuntimeError,
    },
    /// The pod uses more memory. In the kubelet's words.
    #[error(
        "cannot decrease memory limits: attempting to set pod memory limit ({limit}) below current usage ({used})"
    )]
    PodMemory { limit: i64, used: u64 },
    /// A container uses more memory. In the kubelet's words.
    #[error(
        "cannot decrease memory limits: attempting to set container \"{container}\" memory limit ({limit}) below current usage ({used})"
    )]
    ContainerMemory {
        container: String,
        limit: i64,
        used: u64,
    },
}

impl PodState {
    /// Does what [`Action::Resize`](super::next::Action::Resize) says.
    pub(super) async fn resize(&mut self) {
        match self.try_resize().await {
            Ok(()) => {
                self.memory.resize_error = None;
                self.memory.resize_retry = None;
            }
            Err(error) => {
                let error = error_chain(&error);
                tracing::warn!(pod = self.pod.name(), error, "failed to resize the pod");
                if self.memory.resize_error.as_ref() != Some(&error) {
                    let generation = self.pod.metadata.generation;
                    let summary = resize::summary(&self.pod, generation, &error);
                    let message = format!("Pod resize error: {summary}");
                    self.shared
                        .events
                        .warning(&self.pod, None, "ResizeError", message);
                }
                self.memory.resize_error = Some(error);
                self.memory.resize_retry = Some(Wait::new(Timestamp::now(), RETRY));
            }
        }
    }

    /// Notes that a resize is under way, and tells when it is through: all that
    /// was granted is in force, whether or not containers began anew for it.
    pub(super) fn follow_resize(&mut self) {
        if self.aim() != PodGoal::Run || self.step.finished {
            self.memory.resizing = None;
            return;
        }
        let resizing = next::is_resizing(&self.pod, &self.observed, &self.memory);
        match self.memory.resizing {
            None if resizing => self.memory.resizing = Some(self.pod.metadata.generation),
            Some(generation) if !resizing => {
                self.memory.resizing = None;
                let summary = resize::summary(&self.pod, generation, "");
                let message = format!("Pod resize completed: {summary}");
                self.shared
                    .events
                    .normal(&self.pod, None, "ResizeCompleted", message);
            }
            _ => {}
        }
    }

    async fn try_resize(&mut self) -> Result<(), ResizeError> {
        let pod = self.pod.clone();
        let whole = pod.spec.resources.as_ref();
        let (old, new) = (self.limits_in_force(), self.pod_limits(&pod.spec));
        let mut changes = Vec::new();
        for container in pod.spec.all_containers() {
            let Some(record) = self
                .observed
                .latest(&container.name)
                .filter(|record| record.running())
            else {
                continue;
            };
            let Some(held) = self.memory.in_force.get(&record.id) else {
                continue;
            };
            if resize::change(whole, container, held) == ResizeAction::Update {
                changes.push((
                    container,
                    record.id.clone(),
                    ResourceAmounts::from_resources(held),
                ));
            }
        }
        for (container, id, old) in &changes {
            self.check_memory(container, id, *old).await?;
        }
        self.check_memory_of_pod(old, new)?;
        self.tell_runtime().await?;
        self.limit_pod(qos::widest(old, new)).await?;
        for (container, id, _) in changes {
            let binding = self.shared.managers.binding(pod.uid(), &container.name);
            let rules = &self.shared.node.rules;
            let linux = limits::container(&pod, container, rules, &binding);
            self.shared
                .runtime
                .update_container_resources(api::UpdateContainerResourcesRequest {
                    container_id: id.clone(),
                    linux: Some(linux),
                })
                .await
                .map_err(|source| ResizeError::Container {
                    container: container.name.clone(),
                    source,
                })?;
            let held = pod_level_resources::effective(&container.resources, whole);
            self.memory.in_force.insert(id, held);
        }
        self.limit_pod(new).await?;
        self.memory.pod_in_force = Some(whole.cloned().unwrap_or_default());
        Ok(())
    }

    /// Tells the runtime what the pod will have, before anything is changed: it
    /// may refuse. Many runtimes do not want to know.
    async fn tell_runtime(&self) -> Result<(), ResizeError> {
        let Some(sandbox) = self.observed.live_sandbox() else {
            return Ok(());
        };
        let request = api::UpdatePodSandboxResourcesRequest {
            pod_sandbox_id: sandbox.id.clone(),
            overhead: limits::overhead(&self.pod.spec),
            resources: Some(limits::sandbox(self.sandbox_limits())),
        };
        match self
            .shared
            .runtime
            .update_pod_sandbox_resources(request)
            .await
        {
            // containerd 2.2 has the method and says so of it, with another code
            Err(error) if error.is_unimplemented() || error.message.contains("not implemented") => {
                Ok(())
            }
            Err(error) => Err(ResizeError::Sandbox(error)),
            Ok(_) => Ok(()),
        }
    }

    /// The limits that the pod needs for what runs of it, and for what starts
    /// with what is granted.
    fn limits_in_force(&self) -> qos::PodLimits {
        let spec = next::in_force(&self.pod, &self.observed, &self.memory);
        self.pod_limits(&spec)
    }

    /// Makes room for what starts with what is granted, beside what runs.
    pub(super) async fn limit_pod_for_start(&self) -> Result<(), ResizeError> {
        let now = self.limits_in_force();
        self.limit_pod(if next::pod_changes(&self.pod, &self.memory) {
            qos::widest(now, self.pod_limits(&self.pod.spec))
        } else {
            now
        })
        .await
    }

    /// The limits of the pod's group; CPUs of one's own are not limited in
    /// time.
    pub(super) fn pod_limits(&self, spec: &PodSpec) -> qos::PodLimits {
        self.of_ones_own(qos::pod_limits(spec))
    }

    /// What the runtime is told of the pod.
    pub(super) fn sandbox_limits(&self) -> qos::PodLimits {
        self.of_ones_own(qos::sandbox_limits(&self.pod.spec))
    }

    fn of_ones_own(&self, mut limits: qos::PodLimits) -> qos::PodLimits {
        if self.shared.managers.is_exclusive(self.pod.uid()) {
            limits.cpu_quota = None;
        }
        limits
    }

    pub(super) async fn limit_pod(&self, limits: qos::PodLimits) -> Result<(), ResizeError> {
        let Some(cgroups) = &self.shared.cgroups else {
            return Ok(());
        };
        cgroups
            .limit_pod(qos::class(&self.pod.spec), self.pod.uid(), limits)
            .await
            .map_err(ResizeError::Limits)
    }

    /// The same as [`Self::check_memory`] of the whole pod.
    fn check_memory_of_pod(
        &self,
        old: qos::PodLimits,
        new: qos::PodLimits,
    ) -> Result<(), ResizeError> {
        let (Some(cgroups), Some(limit)) = (&self.shared.cgroups, new.memory) else {
            return Ok(());
        };
        if old.memory.is_some_and(|old| old <= limit) {
            return Ok(());
        }
        let class = qos::class(&self.pod.spec);
        let group = cgroups.layout().pod(class, self.pod.uid());
        // what cannot be read does not keep the pod from its resize: the kernel decides
        let used = cgroups.usage(&group).memory.unwrap_or(0);
        if used >= u64::try_from(limit).unwrap_or(0) {
            return Err(ResizeError::PodMemory { limit, used });
        }
        Ok(())
    }

    /// Memory is not limited below what is in use: the kernel would end the
    /// container or refuse, and it was promised to go on.
    async fn check_memory(
        &self,
        container: &Container,
        id: &str,
        old: ResourceAmounts,
    ) -> Result<(), ResizeError> {
        let whole = self.pod.spec.resources.as_ref();
        let limit = ResourceAmounts::from_resources(&pod_level_resources::effective(
            &container.resources,
            whole,
        ))
        .memory_limit();
        let shrinks = limit > 0 && (old.memory_limit() == 0 || limit < old.memory_limit());
        if !shrinks {
            return Ok(());
        }
        let stats = self
            .shared
            .runtime
            .list_container_stats(api::ListContainerStatsRequest {
                filter: Some(api::ContainerStatsFilter {
                    id: id.to_owned(),
                    ..api::ContainerStatsFilter::default()
                }),
            })
            .await
            .map_err(|source| ResizeError::Usage {
                container: container.name.clone(),
                source,
            })?;
        let used = stats
            .stats
            .into_iter()
            .find(|s| s.attributes.as_ref().is_some_and(|a| a.id == id))
            .and_then(|s| s.memory?.usage_bytes)
            .map_or(0, |used| used.value);
        if used >= u64::try_from(limit).unwrap_or(0) {
            return Err(ResizeError::ContainerMemory {
                container: container.name.clone(),
                limit,
                used,
            });
        }
        Ok(())
    }
}

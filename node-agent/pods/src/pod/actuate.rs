//! Brings granted resources into force: of running containers through the
//! runtime, of their pod in its control group.
//!
//! The pod's group is opened to the wider of both limits first and narrowed to
//! the new one last, so that a container never has more than its pod, whichever
//! way each of them goes.

use std::time::Duration;

use jiff::Timestamp;

use super::backoff::Wait;
use super::limits;
use super::qos;
use super::resize::{self, Amounts, Change};
use super::state::State;
use crate::cri::api;
use crate::objects::pod::{Container, PodSpec};

/// How long a change that failed waits before it is tried again.
const RETRY: Duration = Duration::from_secs(5);

impl State {
    /// Does what [`Action::Resize`](super::next::Action::Resize) says.
    pub(super) async fn resize(&mut self) {
        match self.try_resize().await {
            Ok(()) => {
                self.memory.resize_error = None;
                self.memory.resize_retry = None;
                let message = format!("Pod resize completed: {}", resize::summary(&self.pod, ""));
                self.shared
                    .normal(&self.pod, None, "ResizeCompleted", message);
            }
            Err(error) => {
                tracing::warn!(pod = self.pod.name(), error, "cannot resize the pod");
                if self.memory.resize_error.as_ref() != Some(&error) {
                    let message =
                        format!("Pod resize error: {}", resize::summary(&self.pod, &error));
                    self.shared.warning(&self.pod, None, "ResizeError", message);
                }
                self.memory.resize_error = Some(error);
                self.memory.resize_retry = Some(Wait::new(Timestamp::now(), RETRY));
            }
        }
    }

    async fn try_resize(&mut self) -> Result<(), String> {
        let pod = self.pod.clone();
        let new = self.pod_limits(&pod.spec);
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
            if resize::change(container, held) == Change::Update {
                changes.push((container, record.id.clone(), Amounts::of(held)));
            }
        }
        for (container, id, old) in &changes {
            self.check_memory(container, id, *old).await?;
        }
        self.limit_pod(qos::widest(self.limits_in_force(), new))?;
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
                .map_err(|e| format!("cannot change container {}: {e}", container.name))?;
            self.memory.in_force.insert(id, container.resources.clone());
        }
        self.limit_pod(new)
    }

    /// The limits that the pod needs for what runs of it, and for what starts
    /// with what is granted.
    pub(super) fn limits_in_force(&self) -> qos::PodLimits {
        let mut spec = self.pod.spec.clone();
        let all = spec.init_containers.iter_mut().chain(&mut spec.containers);
        for container in all {
            let held = self
                .observed
                .latest(&container.name)
                .filter(|record| record.running())
                .and_then(|record| self.memory.in_force.get(&record.id));
            if let Some(held) = held {
                container.resources = held.clone();
            }
        }
        self.pod_limits(&spec)
    }

    /// The limits of the pod's group; CPUs of one's own are not limited in
    /// time.
    pub(super) fn pod_limits(&self, spec: &PodSpec) -> qos::PodLimits {
        let mut limits = qos::pod_limits(spec);
        if self.shared.managers.is_exclusive(self.pod.uid()) {
            limits.cpu_quota = None;
        }
        limits
    }

    pub(super) fn limit_pod(&self, limits: qos::PodLimits) -> Result<(), String> {
        let Some(cgroups) = &self.shared.cgroups else {
            return Ok(());
        };
        cgroups
            .limit_pod(qos::class(&self.pod.spec), self.pod.uid(), limits)
            .map_err(|e| format!("cannot set the limits of the pod: {e}"))
    }

    /// Memory is not limited below what is in use: the kernel would end the
    /// container or refuse, and it was promised to go on.
    async fn check_memory(
        &self,
        container: &Container,
        id: &str,
        old: Amounts,
    ) -> Result<(), String> {
        let limit = Amounts::of(&container.resources).memory_limit();
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
            .map_err(|e| format!("cannot read the usage of {}: {e}", container.name))?;
        let used = stats
            .stats
            .into_iter()
            .find(|s| s.attributes.as_ref().is_some_and(|a| a.id == id))
            .and_then(|s| s.memory?.usage_bytes)
            .map_or(0, |used| used.value);
        if used >= u64::try_from(limit).unwrap_or(0) {
            return Err(format!(
                "attempting to set container \"{}\" memory limit ({limit}) below current usage ({used})",
                container.name
            ));
        }
        Ok(())
    }
}

//! Does what was decided for a pod: one action at a time.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use node_agent_cri::api;
use node_agent_cri::api::ContainerId;
use node_agent_files::{DIRECTORY_MODE, create_dirs, read_to_string};
use node_agent_images::{PullOutcome, image_uid};
use node_agent_objects::argument_expansion::Variable;
use node_agent_objects::error_chain;
use node_agent_objects::fields::PodFacts;
use node_agent_objects::pod::{Container, PodSpec};
use node_agent_objects::status::ContainerWaiting;
use node_agent_pod_registry::log_directory;
use node_agent_pod_resources::pod_level_resources;
use node_agent_probes::hooks;
use node_agent_probes::hooks::{HookOutcome, HookTarget};

use super::backoff::{Backoff, Wait};
use super::config::{self, ContainerContext};
use super::definition::definition_hash;
use super::next::{PodAction, StartFailure};
use super::state::PodState;
use super::{dns, env, kill, restarts};

/// How long a start that failed for want of something waits for it.
const WANT: Duration = Duration::from_secs(2);

/// Longest `/etc/hosts` of the node that pods in its network are given.
const HOSTS_MOST: u64 = 4 << 20;

/// The waiting reason and message of a container that failed to start.
struct RefusedStart {
    reason: &'static str,
    message: String,
}

fn refused(reason: &'static str, message: impl Into<String>) -> RefusedStart {
    RefusedStart {
        reason,
        message: message.into(),
    }
}

/// What [`refused`] returns for an error and its causes.
fn failed(reason: &'static str, error: &dyn std::error::Error) -> RefusedStart {
    refused(reason, error_chain(error))
}

impl PodState {
    /// Does one action. What failed is remembered with a time to try again.
    pub(super) async fn perform(&mut self, action: PodAction) {
        match action {
            PodAction::KillPod { grace } => self.kill_pod(grace).await,
            PodAction::MountVolumes => self.mount_volumes().await,
            PodAction::CreateSandbox { attempt } => self.create_sandbox(attempt).await,
            PodAction::Kill {
                id,
                name,
                message,
                probe,
                again,
            } => {
                let record = self
                    .observed
                    .containers
                    .iter()
                    .find(|c| c.id == id)
                    .cloned();
                if again {
                    self.memory.again.insert(id);
                }
                if let Some(record) = record {
                    let grace = kill::grace_of(&self.pod, &name, probe);
                    let killed = kill::container(
                        &self.shared,
                        &self.pod,
                        &self.observed,
                        &record,
                        grace,
                        message,
                    )
                    .await;
                    if let Err(error) = killed {
                        tracing::warn!(pod = self.pod.name(), container = name, %error, "failed to stop the container");
                        tokio::time::sleep(Duration::from_secs(1)).await;
                    }
                }
            }
            PodAction::Resize => self.resize().await,
            PodAction::Reset { containers } => self.reset(containers).await,
            PodAction::Start { name } => self.start(&name).await,
        }
    }

    /// Ends and removes containers one after the other; what fails is tried
    /// again by the next step. Their logs stay until the pod goes.
    async fn reset(&mut self, containers: Vec<(String, bool)>) {
        for (id, runs) in containers {
            let record = self.observed.containers.iter().find(|c| c.id == id);
            let name = record.map_or(String::new(), |r| r.name.clone());
            let mut done = Ok(());
            if runs {
                self.shared
                    .events
                    .normal(&self.pod, Some(&name), "Killing", "killing");
                done = kill::stop(&*self.shared.runtime, &id, 0).await;
            }
            if done.is_ok() {
                let id = ContainerId { container_id: id };
                done = match self.shared.runtime.remove_container(id).await {
                    Err(error) if !error.is_not_found() => Err(error),
                    _ => Ok(()),
                };
            }
            if let Err(error) = done {
                tracing::warn!(pod = self.pod.name(), container = name, %error, "failed to remove the container for a restart of the pod");
                tokio::time::sleep(Duration::from_secs(1)).await;
                return;
            }
        }
    }

    async fn kill_pod(&mut self, grace: i64) {
        let replaced = self.observed.sandboxes.first().is_some_and(|s| !s.ready)
            && self.observed.containers.iter().any(|c| c.running());
        if replaced {
            self.shared.events.normal(
                &self.pod,
                None,
                "SandboxChanged",
                "Pod sandbox changed, it will be killed and re-created.",
            );
        }
        if let Err(error) = kill::pod(&self.shared, &self.pod, &self.observed, grace).await {
            tracing::warn!(pod = self.pod.name(), %error, "failed to kill the pod");
            let message = format!("error killing pod: {error}");
            self.shared
                .events
                .warning(&self.pod, None, "FailedKillPod", message);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    pub(super) fn facts(&self) -> PodFacts {
        let ips = self
            .observed
            .live_sandbox()
            .map(|s| s.ips.clone())
            .filter(|ips| !ips.is_empty());
        PodFacts {
            pod_ips: if self.pod.spec.host_network {
                self.shared.node.host_ips.clone()
            } else {
                ips.unwrap_or_default()
            },
            host_ips: self.shared.node.host_ips.clone(),
            allocatable: self.shared.node.allocatable.clone(),
        }
    }

    async fn start(&mut self, name: &str) {
        let pod = self.pod.clone();
        let Some(container) = pod.spec.container(name) else {
            return;
        };
        let now = Timestamp::now();
        let key = (name.to_owned(), definition_hash(container));
        if self
            .observed
            .latest(name)
            .is_some_and(|r| r.exited() && !self.memory.again.contains(&r.id))
        {
            self.memory
                .restarts
                .entry(key)
                .or_insert_with(|| {
                    let most = self.shared.settings.restart_most;
                    Backoff::new(Duration::from_secs(10).min(most), most)
                })
                .note(now);
        }
        let started = self.start_container(container).await;
        let kind = container_type(&pod.spec, name);
        let failed = started.as_ref().err().map(|refused| refused.reason);
        self.shared.metrics.container_start(kind, failed);
        if let Err(RefusedStart { reason, message }) = started {
            self.note_failure(container, reason, message);
        } else {
            self.memory.failures.remove(name);
            self.image_backoff.remove(name);
        }
    }

    fn note_failure(&mut self, container: &Container, reason: &str, message: String) {
        let now = Timestamp::now();
        let name = &container.name;
        let mut failure = StartFailure {
            at: now,
            retry: Wait::new(now, WANT),
            reason: reason.to_owned(),
            message,
            then: None,
        };
        if reason == "ErrImagePull" {
            let backoff = self
                .image_backoff
                .entry(name.clone())
                .or_insert_with(Backoff::restarts);
            backoff.note(now);
            failure.retry = Wait::new(now, backoff.current());
            failure.then = Some(ContainerWaiting {
                reason: "ImagePullBackOff".to_owned(),
                message: format!(
                    "Back-off pulling image \"{}\": ErrImagePull: {}",
                    container.image, failure.message
                ),
            });
            let shown = format!("Back-off pulling image \"{}\"", container.image);
            self.shared
                .events
                .normal(&self.pod, Some(name), "BackOff", shown);
        }
        let shown = if reason == "ErrImagePull" || reason == "ErrImageNeverPull" {
            format!("Error: {reason}")
        } else {
            format!("Error: {}", failure.message)
        };
        self.shared
            .events
            .warning(&self.pod, Some(name), "Failed", shown);
        self.memory.failures.insert(name.clone(), failure);
    }

    async fn start_container(&mut self, container: &Container) -> Result<(), RefusedStart> {
        let (shared, pod) = (self.shared.clone(), self.pod.clone());
        let name = container.name.as_str();
        let sandbox = self
            .observed
            .live_sandbox()
            .cloned()
            .ok_or_else(|| refused("CreateContainerError", "the pod has no sandbox"))?;
        let image = self.image(container).await?;
        let uid = image_uid(&image);
        if let Some(why) = config::non_root_violation(&pod, container, uid, &image.username) {
            return Err(refused("CreateContainerConfigError", why));
        }
        let facts = self.facts();
        let sources = env::VariableSources {
            pod: &pod,
            facts: &facts,
            objects: &*shared.objects,
            volumes: &self.volumes,
        };
        let variables = env::variables(sources, container)
            .await
            .map_err(|e| failed("CreateContainerConfigError", &e))?;
        let restarts = self.restarts_of(name);
        let users = if pod.spec.host_users == Some(false) {
            let taken = shared.ranges.range_of_pod(pod.uid());
            taken.map_err(|e| failed("CreateContainerConfigError", &e))?
        } else {
            None
        };
        let mut mounts = self
            .mounts(container, &facts, &variables, restarts)
            .map_err(|e| failed("CreateContainerConfigError", &e))?;
        if let Some(users) = &users {
            // files look as if the pod's ids were the node's
            for mount in mounts.iter_mut().filter(|m| m.image.is_none()) {
                mount.uid_mappings.clone_from(&users.uids);
                mount.gid_mappings.clone_from(&users.gids);
            }
        }
        let given = shared
            .devices
            .allocate_responses(&pod, name)
            .await
            .map_err(|e| failed("PreStartHookError", &e))?;
        let claimed = shared
            .claims
            .cdi_devices(&pod, container)
            .map_err(|e| failed("CreateContainerConfigError", &e))?;
        let mut devices = self
            .volumes
            .container_devices(&pod, container)
            .map_err(|e| failed("CreateContainerConfigError", &e))?;
        let target = if container.target_container_name.is_empty() {
            String::new()
        } else {
            self.observed
                .latest(&container.target_container_name)
                .map(|r| r.id.clone())
                .ok_or_else(|| {
                    let target = &container.target_container_name;
                    refused(
                        "CreateContainerError",
                        format!("unable to find target container {target}"),
                    )
                })?
        };
        let cdi_devices = claimed.into_iter().map(|name| api::CdiDevice { name });
        let mut cdi_devices: Vec<api::CdiDevice> = cdi_devices.collect();
        let mut annotations = BTreeMap::new();
        let mut variables = variables;
        for response in given {
            variables.extend(response.envs);
            annotations.extend(response.annotations);
            mounts.extend(response.mounts);
            devices.extend(response.devices);
            cdi_devices.extend(response.cdi_devices);
        }
        let logs = log_directory(&shared.node.log_root, &pod).join(name);
        create_dirs(&logs, DIRECTORY_MODE).map_err(|e| {
            refused(
                "CreateContainerError",
                format!("cannot make `{}`: {e}", logs.display()),
            )
        })?;
        let config = config::container(
            &pod,
            container,
            &shared.node,
            ContainerContext {
                restarts,
                image: image.id.clone(),
                variables,
                mounts,
                devices,
                cdi_devices,
                annotations,
                groups: self.volumes.groups(),
                users: users.clone(),
                image_user: uid,
                target,
                binding: shared.managers.binding(pod.uid(), name),
            },
        )
        .map_err(|e| failed("CreateContainerConfigError", &e))?;
        let ended = self.observed.latest(name);
        let anew = ended.is_some_and(|record| self.memory.again.contains(&record.id));
        if anew || self.memory.resizing.is_some() {
            // it may be started with other resources than it had
            self.limit_pod_for_start()
                .await
                .map_err(|e| failed("CreateContainerError", &e))?;
        }
        let made = shared
            .runtime
            .create_container(api::CreateContainerRequest {
                pod_sandbox_id: sandbox.id.clone(),
                config: Some(config),
                sandbox_config: Some(config::sandbox(
                    &pod,
                    sandbox.attempt,
                    &shared.node,
                    dns::config(&pod, &shared.node.dns),
                    users.as_ref(),
                    self.sandbox_limits(),
                )),
            })
            .await
            .map_err(|e| failed("CreateContainerError", &e))?;
        shared
            .events
            .normal(&pod, Some(name), "Created", "Container created");
        let id = made.container_id;
        let held =
            pod_level_resources::effective(&container.resources, pod.spec.resources.as_ref());
        self.memory.in_force.insert(id.clone(), held);
        shared.attention.raise();
        shared
            .runtime
            .start_container(ContainerId {
                container_id: id.clone(),
            })
            .await
            .map_err(|e| failed("RunContainerError", &e))?;
        shared.managers.started(&pod, name);
        shared
            .events
            .normal(&pod, Some(name), "Started", "Container started");
        self.post_start(container, &id).await
    }

    async fn post_start(&mut self, container: &Container, id: &str) -> Result<(), RefusedStart> {
        let hook = container
            .lifecycle
            .as_ref()
            .and_then(|l| l.post_start.as_ref());
        let Some(hook) = hook else { return Ok(()) };
        // shown as running meanwhile
        self.refresh().await;
        self.publish(false);
        let place = HookTarget {
            runtime: &*self.shared.runtime,
            container,
            id,
            ip: self.shared.address_of(&self.pod, &self.observed),
        };
        let limit = Duration::from_secs(24 * 3600);
        match hooks::hook(hook, place, limit).await {
            HookOutcome::Success | HookOutcome::Warning(_) => Ok(()),
            HookOutcome::Failure(why) | HookOutcome::Unknown(why) => {
                let name = &container.name;
                tracing::warn!(
                    pod = self.pod.name(),
                    container = name,
                    why,
                    "postStart hook failed"
                );
                self.shared.events.warning(
                    &self.pod,
                    Some(name),
                    "FailedPostStartHook",
                    "PostStartHook failed",
                );
                let grace = self.pod.spec.grace_period();
                let record = self
                    .observed
                    .containers
                    .iter()
                    .find(|c| c.id == id)
                    .cloned();
                if let Some(record) = record {
                    let message = "FailedPostStartHook".to_owned();
                    let _ = kill::container(
                        &self.shared,
                        &self.pod,
                        &self.observed,
                        &record,
                        grace,
                        message,
                    )
                    .await;
                }
                Err(refused("PostStartHookError", why))
            }
        }
    }

    async fn image(&mut self, container: &Container) -> Result<api::Image, RefusedStart> {
        let (shared, pod) = (self.shared.clone(), self.pod.clone());
        let (name, image) = (container.name.as_str(), container.image.as_str());
        for volume in &pod.spec.volumes {
            if let node_agent_objects::volume::VolumeSource::Image(source) = &volume.source
                && container
                    .volume_mounts
                    .iter()
                    .any(|m| m.name == volume.name)
            {
                shared
                    .images
                    .ensure(
                        &pod,
                        &source.reference,
                        &source.pull_policy,
                        &*shared.objects,
                        || {},
                    )
                    .await
                    .map_err(|e| failed(e.reason(), &e))?;
            }
        }
        let pulling = || {
            shared.events.normal(
                &pod,
                Some(name),
                "Pulling",
                format!("Pulling image \"{image}\""),
            );
        };
        let had = shared
            .images
            .ensure(
                &pod,
                image,
                &container.image_pull_policy,
                &*shared.objects,
                pulling,
            )
            .await;
        match had {
            Ok((found, PullOutcome::Present)) => {
                let message = format!(
                    "Container image \"{image}\" already present on machine and can be accessed by the pod"
                );
                shared.events.normal(&pod, Some(name), "Pulled", message);
                Ok(found)
            }
            Ok((found, PullOutcome::Pulled { took, waited })) => {
                shared.metrics.image_pulled(found.size, took);
                let message = format!(
                    "Successfully pulled image \"{image}\" in {} ({} including waiting). Image size: {} bytes.",
                    seconds(took),
                    seconds(waited),
                    found.size
                );
                shared.events.normal(&pod, Some(name), "Pulled", message);
                Ok(found)
            }
            Err(error) => {
                let reason = error.reason();
                let (event, message) = match reason {
                    "ErrImagePull" => (
                        "Failed",
                        format!("Failed to pull image \"{image}\": {error}"),
                    ),
                    "ErrImageNeverPull" => ("ErrImageNeverPull", error.to_string()),
                    _ => ("InspectFailed", error.to_string()),
                };
                shared.events.warning(&pod, Some(name), event, message);
                Err(failed(reason, &error))
            }
        }
    }

    fn mounts(
        &self,
        container: &Container,
        facts: &PodFacts,
        variables: &[Variable],
        restarts: u32,
    ) -> Result<Vec<api::Mount>, node_agent_pod_volumes::Error> {
        let pod = &self.pod;
        let mut mounts = self.volumes.container_mounts(pod, container, variables)?;
        let taken =
            |path: &str, mounts: &[api::Mount]| mounts.iter().any(|m| m.container_path == path);
        if !taken("/etc/hosts", &mounts) && (pod.spec.host_network || !facts.pod_ips.is_empty()) {
            let (host, domain) = dns::names(pod, &self.shared.node.cluster_domain);
            let own = if pod.spec.host_network {
                read_to_string(Path::new("/etc/hosts"), HOSTS_MOST).unwrap_or_default()
            } else {
                String::new()
            };
            let content = dns::hosts_file(&pod.spec, &facts.pod_ips, &host, &domain, &own);
            mounts.push(self.volumes.hosts(&content)?);
        }
        let at = container.termination_message_path.as_str();
        if !at.is_empty() && !taken(at, &mounts) {
            mounts.push(
                self.volumes
                    .termination_log(&container.name, restarts, at)?,
            );
        }
        Ok(mounts)
    }

    /// How often a container of that name was started before.
    fn restarts_of(&self, name: &str) -> u32 {
        let newest = self.observed.latest(name).map(|record| &**record);
        restarts::restarts_before(newest, self.live.status().container(name))
    }
}

/// The type of a container, as metrics name it.
fn container_type(spec: &PodSpec, name: &str) -> &'static str {
    let is_among = |list: &[Container]| list.iter().any(|c| c.name == name);
    if is_among(&spec.init_containers) {
        "init_container"
    } else if is_among(&spec.ephemeral_containers) {
        "ephemeral_container"
    } else {
        "container"
    }
}

/// As Go prints a duration: `1.234s`, `250ms`.
fn seconds(duration: Duration) -> String {
    if duration < Duration::from_secs(1) {
        format!("{}ms", duration.as_millis())
    } else {
        format!("{:.3}s", duration.as_secs_f64())
    }
}

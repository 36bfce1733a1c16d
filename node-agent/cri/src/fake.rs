//! A container runtime in memory, with faults: what tests put in the place of
//! containerd. Compiled for tests and with the feature `fake`.
//!
//! It keeps the promises that the agent relies on (ids are unique, a name is
//! reserved until its container is removed, stopping and removing are
//! idempotent, what a dead sandbox held has ended) and breaks those that a
//! real one breaks: see [`Fault`]. It has no images to fetch, no processes and
//! no network; what a container does is for the test to say ([`Fake::exit`]).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use tokio::sync::mpsc;

use super::{Result, Runtime, RuntimeError, api};
use crate::observed::key::POD_UID;
use crate::origin::{LABEL, LABEL_VALUE};

/// What goes wrong with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It takes so long, and is done then.
    Slow(Duration),
    /// It fails and does nothing.
    Before,
    /// It does its work and fails.
    After,
    /// It never comes back.
    Hang,
}

#[derive(Clone)]
struct Sandbox {
    config: api::PodSandboxConfig,
    ready: bool,
    created_at: i64,
    ip: String,
}

#[derive(Clone)]
struct Container {
    sandbox: String,
    config: api::ContainerConfig,
    state: api::ContainerState,
    exit_code: i32,
    times: [i64; 3],
}

#[derive(Default)]
struct State {
    sandboxes: BTreeMap<String, Sandbox>,
    containers: BTreeMap<String, Container>,
    /// By method: what goes wrong next.
    faults: BTreeMap<&'static str, VecDeque<Fault>>,
    calls: Vec<String>,
    counter: u32,
    clock: i64,
    /// Images that nobody has.
    absent: BTreeSet<String>,
    /// Commands that fail in any container.
    failing: BTreeSet<String>,
    listeners: Vec<mpsc::UnboundedSender<api::ContainerEventResponse>>,
    deaf: bool,
    /// Who makes control groups; none is a runtime that is not asked for it yet.
    driver: Option<i32>,
}

/// A runtime in memory. `Clone` shares. `Display` shows what it has.
#[derive(Clone, Default)]
pub struct Fake(Arc<Mutex<State>>);

impl Fake {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next call of `method` (`RunPodSandbox`, …) goes wrong; several wait
    /// for one another.
    pub fn fail(&self, method: &'static str, fault: Fault) {
        let mut state = self.state();
        state.faults.entry(method).or_default().push_back(fault);
    }

    /// There is no such image, here or elsewhere.
    pub fn lacks_image(&self, name: &str) {
        self.state().absent.insert(name.to_owned());
    }

    /// Makes a sandbox of a pod with that uid, as this agent or another kubelet would.
    pub async fn run_sandbox(&self, uid: &str, own: bool) -> String {
        let mut labels = BTreeMap::from([(POD_UID.to_owned(), uid.to_owned())]);
        if own {
            labels.insert(LABEL.to_owned(), LABEL_VALUE.to_owned());
        }
        let metadata = api::PodSandboxMetadata {
            name: uid.to_owned(),
            uid: uid.to_owned(),
            namespace: "default".to_owned(),
            attempt: 0,
        };
        let config = api::PodSandboxConfig {
            metadata: Some(metadata),
            labels,
            ..api::PodSandboxConfig::default()
        };
        let made = self.run_pod_sandbox(api::RunPodSandboxRequest {
            config: Some(config),
            ..api::RunPodSandboxRequest::default()
        });
        made.await.map_or(String::new(), |id| id.pod_sandbox_id)
    }

    /// Ids of its sandboxes, in order.
    #[must_use]
    pub fn sandboxes(&self) -> Vec<String> {
        self.state().sandboxes.keys().cloned().collect()
    }

    /// From now on that command fails in any container.
    pub fn fails_command(&self, command: &str) {
        self.state().failing.insert(command.to_owned());
    }

    /// From now on it says who makes control groups.
    pub fn says_driver(&self, driver: i32) {
        self.state().driver = Some(driver);
    }

    /// From now on nobody hears of events.
    pub fn lose_events(&self) {
        self.state().deaf = true;
    }

    /// The process of the running container of that name ends. Whether there
    /// was one.
    pub fn exit(&self, name: &str, code: i32) -> bool {
        let mut state = self.state();
        let id = state
            .containers
            .iter()
            .find(|(_, c)| c.name() == name && c.state == api::ContainerState::Running)
            .map(|(id, _)| id.clone());
        let Some(id) = id else { return false };
        state.end(&id, code);
        true
    }

    /// The sandboxes die, and all in them.
    pub fn kill_sandboxes(&self) {
        let mut state = self.state();
        let ids: Vec<String> = state.sandboxes.keys().cloned().collect();
        for id in ids {
            state.kill(&id);
        }
    }

    /// Names of running containers, in order.
    #[must_use]
    pub fn running(&self) -> Vec<String> {
        let state = self.state();
        let running = state
            .containers
            .values()
            .filter(|c| c.state == api::ContainerState::Running);
        let mut names: Vec<String> = running.map(|c| c.name().to_owned()).collect();
        names.sort();
        names
    }

    /// The control groups that sandboxes were to be in.
    #[must_use]
    pub fn groups(&self) -> Vec<String> {
        let state = self.state();
        let linux = state
            .sandboxes
            .values()
            .filter_map(|s| s.config.linux.as_ref());
        linux.map(|linux| linux.cgroup_parent.clone()).collect()
    }

    /// What a container is limited to, as it was last told.
    #[must_use]
    pub fn resources(&self, id: &str) -> Option<api::LinuxContainerResources> {
        let state = self.state();
        state
            .containers
            .get(id)?
            .config
            .linux
            .as_ref()?
            .resources
            .clone()
    }

    /// What the newest container of that name was given by name (CDI).
    #[must_use]
    pub fn cdi_devices(&self, name: &str) -> Vec<String> {
        let state = self.state();
        let named = state.containers.values().filter(|c| c.name() == name);
        let newest = named.max_by_key(|c| c.times[0]);
        let given = newest.into_iter().flat_map(|c| &c.config.cdi_devices);
        given.map(|device| device.name.clone()).collect()
    }

    /// The calls that changed something, in order.
    #[must_use]
    pub fn calls(&self) -> Vec<String> {
        self.state().calls.clone()
    }

    /// Whether nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let state = self.state();
        state.sandboxes.is_empty() && state.containers.is_empty()
    }

    fn call<T: Send + 'static>(
        &self,
        method: &'static str,
        work: impl FnOnce(&mut State) -> Result<T> + Send + 'static,
    ) -> BoxFuture<'_, Result<T>> {
        async move {
            let fault = {
                let mut state = self.state();
                state.faults.get_mut(method).and_then(VecDeque::pop_front)
            };
            let broken = || error(method, tonic::Code::Unknown, "the fake was told to fail");
            match fault {
                Some(Fault::Before) => return Err(broken()),
                Some(Fault::Slow(time)) => tokio::time::sleep(time).await,
                Some(Fault::Hang) => std::future::pending().await,
                Some(Fault::After) | None => {}
            }
            let done = work(&mut self.state());
            if fault == Some(Fault::After) {
                done?;
                return Err(broken());
            }
            done
        }
        .boxed()
    }
}

impl fmt::Display for Fake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        for (id, sandbox) in &state.sandboxes {
            let ready = if sandbox.ready { "ready" } else { "dead" };
            writeln!(f, "{id} {ready}")?;
            for (id, one) in state.containers.iter().filter(|(_, c)| c.sandbox == *id) {
                writeln!(f, "  {id} {:?} {}", one.state, one.exit_code)?;
            }
        }
        Ok(())
    }
}

fn error(method: &'static str, code: tonic::Code, message: &str) -> RuntimeError {
    RuntimeError {
        method,
        code,
        message: message.to_owned(),
    }
}

fn missing(method: &'static str, id: &str) -> RuntimeError {
    error(
        method,
        tonic::Code::NotFound,
        &format!("\"{id}\": not found"),
    )
}

impl Container {
    fn name(&self) -> &str {
        self.config.metadata.as_ref().map_or("", |m| &m.name)
    }

    /// Takes what is set; what is not stays.
    fn update(&mut self, new: api::LinuxContainerResources) {
        let linux = self.config.linux.get_or_insert_default();
        let own = linux.resources.get_or_insert_default();
        let mut numbers = [
            (&mut own.cpu_period, new.cpu_period),
            (&mut own.cpu_quota, new.cpu_quota),
            (&mut own.cpu_shares, new.cpu_shares),
            (&mut own.memory_limit_in_bytes, new.memory_limit_in_bytes),
        ];
        for (held, new) in &mut numbers {
            if *new != 0 {
                **held = *new;
            }
        }
        for (held, new) in [
            (&mut own.cpuset_cpus, new.cpuset_cpus),
            (&mut own.cpuset_mems, new.cpuset_mems),
        ] {
            if !new.is_empty() {
                *held = new;
            }
        }
        own.unified.extend(new.unified);
    }

    fn listed(&self, id: &str) -> api::Container {
        api::Container {
            id: id.to_owned(),
            pod_sandbox_id: self.sandbox.clone(),
            metadata: self.config.metadata.clone(),
            state: self.state.into(),
            labels: self.config.labels.clone(),
            image: self.config.image.clone(),
            ..api::Container::default()
        }
    }

    fn status(&self, id: &str) -> api::ContainerStatus {
        let image = self.config.image.clone();
        api::ContainerStatus {
            id: id.to_owned(),
            metadata: self.config.metadata.clone(),
            state: self.state.into(),
            created_at: self.times[0],
            started_at: self.times[1],
            finished_at: self.times[2],
            exit_code: self.exit_code,
            image_ref: image.as_ref().map_or(String::new(), |i| i.image.clone()),
            image,
            reason: match (self.state, self.exit_code) {
                (api::ContainerState::Exited, 0) => "Completed".to_owned(),
                (api::ContainerState::Exited, _) => "Error".to_owned(),
                _ => String::new(),
            },
            labels: self.config.labels.clone(),
            annotations: self.config.annotations.clone(),
            mounts: self.config.mounts.clone(),
            ..api::ContainerStatus::default()
        }
    }
}

impl State {
    fn tick(&mut self) -> i64 {
        let now = i64::try_from(Timestamp::now().as_nanosecond()).unwrap_or(i64::MAX);
        self.clock = now.max(self.clock + 1);
        self.clock
    }

    fn fresh(&mut self, prefix: &str) -> String {
        self.counter += 1;
        format!("{prefix}-{:04}", self.counter)
    }

    fn end(&mut self, id: &str, code: i32) {
        let now = self.tick();
        if let Some(one) = self.containers.get_mut(id)
            && matches!(
                one.state,
                api::ContainerState::Running | api::ContainerState::Created
            )
        {
            one.state = api::ContainerState::Exited;
            one.exit_code = code;
            one.times[2] = now;
        }
        self.tell(id, api::ContainerEventType::Stopped);
    }

    fn kill(&mut self, sandbox: &str) {
        if let Some(found) = self.sandboxes.get_mut(sandbox) {
            found.ready = false;
        }
        let held: Vec<String> = self
            .containers
            .iter()
            .filter(|(_, c)| c.sandbox == sandbox && c.state == api::ContainerState::Running)
            .map(|(id, _)| id.clone())
            .collect();
        for id in held {
            self.end(&id, 137);
        }
    }

    fn tell(&mut self, id: &str, kind: api::ContainerEventType) {
        if self.deaf {
            return;
        }
        let sandbox = self.containers.get(id).map(|c| c.sandbox.clone());
        let metadata = sandbox
            .and_then(|id| self.sandboxes.get(&id))
            .and_then(|s| s.config.metadata.clone());
        let event = api::ContainerEventResponse {
            container_id: id.to_owned(),
            container_event_type: kind.into(),
            pod_sandbox_status: Some(api::PodSandboxStatus {
                metadata,
                ..api::PodSandboxStatus::default()
            }),
        };
        self.listeners.retain(|l| l.send(event.clone()).is_ok());
    }
}

fn selected(labels: &BTreeMap<String, String>, wanted: &BTreeMap<String, String>) -> bool {
    wanted.iter().all(|(k, v)| labels.get(k) == Some(v))
}

macro_rules! simple {
    ($($name:ident, $method:literal, $request:ident -> $response:ident, $work:expr;)*) => {
        impl Runtime for Fake {
            $(fn $name(&self, request: api::$request) -> BoxFuture<'_, Result<api::$response>> {
                let work: fn(&mut State, api::$request) -> Result<api::$response> = $work;
                self.call($method, move |state| work(state, request))
            })*

            fn events(
                &self,
            ) -> BoxFuture<'_, Result<BoxStream<'static, Result<api::ContainerEventResponse>>>> {
                let (sender, receiver) = mpsc::unbounded_channel();
                self.state().listeners.push(sender);
                let stream = futures::stream::unfold(receiver, |mut receiver| async move {
                    receiver.recv().await.map(|event| (Ok(event), receiver))
                });
                async move { Ok(stream.boxed()) }.boxed()
            }
        }
    };
}

simple! {
    version, "Version", VersionRequest -> VersionResponse, |_, _| Ok(api::VersionResponse {
        runtime_name: "fake".to_owned(),
        runtime_version: "1".to_owned(),
        runtime_api_version: "v1".to_owned(),
    });
    status, "Status", StatusRequest -> StatusResponse, |_, _| {
        let condition = |kind: &str| api::RuntimeCondition {
            r#type: kind.to_owned(),
            status: true,
            ..api::RuntimeCondition::default()
        };
        Ok(api::StatusResponse {
            status: Some(api::RuntimeStatus {
                conditions: vec![condition("RuntimeReady"), condition("NetworkReady")],
            }),
            ..api::StatusResponse::default()
        })
    };
    runtime_config, "RuntimeConfig", RuntimeConfigRequest -> RuntimeConfigResponse, |state, _| {
        let unknown = || error("RuntimeConfig", tonic::Code::Unimplemented, "unknown method RuntimeConfig");
        let cgroup_driver = state.driver.ok_or_else(unknown)?;
        Ok(api::RuntimeConfigResponse {
            linux: Some(api::LinuxRuntimeConfiguration { cgroup_driver }),
        })
    };
    update_runtime_config, "UpdateRuntimeConfig", UpdateRuntimeConfigRequest -> UpdateRuntimeConfigResponse, |_, _| Ok(Default::default());
    run_pod_sandbox, "RunPodSandbox", RunPodSandboxRequest -> SandboxId, |state, request| {
        let config = request.config.unwrap_or_default();
        let metadata = config.metadata.clone().unwrap_or_default();
        if let Some((id, _)) = state.sandboxes.iter().find(|(_, s)| s.config.metadata.as_ref() == Some(&metadata)) {
            let message = format!("failed to reserve sandbox name \"{}\": name is reserved for \"{id}\"", metadata.name);
            return Err(error("RunPodSandbox", tonic::Code::Unknown, &message));
        }
        let id = state.fresh("sandbox");
        let created_at = state.tick();
        let ip = format!("10.0.0.{}", state.counter % 250 + 1);
        state.calls.push(format!("run {id}"));
        state.sandboxes.insert(id.clone(), Sandbox { config, ready: true, created_at, ip });
        Ok(api::SandboxId { pod_sandbox_id: id })
    };
    stop_pod_sandbox, "StopPodSandbox", SandboxId -> StopPodSandboxResponse, |state, request| {
        state.calls.push(format!("stop {}", request.pod_sandbox_id));
        state.kill(&request.pod_sandbox_id);
        Ok(Default::default())
    };
    remove_pod_sandbox, "RemovePodSandbox", SandboxId -> RemovePodSandboxResponse, |state, request| {
        let id = request.pod_sandbox_id;
        state.calls.push(format!("remove {id}"));
        state.kill(&id);
        state.containers.retain(|_, c| c.sandbox != id);
        state.sandboxes.remove(&id);
        Ok(Default::default())
    };
    pod_sandbox_status, "PodSandboxStatus", PodSandboxStatusRequest -> PodSandboxStatusResponse, |state, request| {
        let id = request.pod_sandbox_id;
        let found = state.sandboxes.get(&id).ok_or_else(|| missing("PodSandboxStatus", &id))?;
        Ok(api::PodSandboxStatusResponse {
            status: Some(api::PodSandboxStatus {
                id,
                metadata: found.config.metadata.clone(),
                state: i32::from(!found.ready),
                created_at: found.created_at,
                network: Some(api::PodSandboxNetworkStatus { ip: found.ip.clone(), ..Default::default() }),
                ..api::PodSandboxStatus::default()
            }),
            ..api::PodSandboxStatusResponse::default()
        })
    };
    list_pod_sandbox, "ListPodSandbox", ListPodSandboxRequest -> ListPodSandboxResponse, |state, request| {
        let wanted = request.filter.unwrap_or_default().label_selector;
        let items = state.sandboxes.iter().filter(|(_, s)| selected(&s.config.labels, &wanted));
        Ok(api::ListPodSandboxResponse {
            items: items.map(|(id, s)| api::PodSandbox {
                id: id.clone(),
                metadata: s.config.metadata.clone(),
                state: i32::from(!s.ready),
                created_at: s.created_at,
                labels: s.config.labels.clone(),
                annotations: s.config.annotations.clone(),
            }).collect(),
        })
    };
    create_container, "CreateContainer", CreateContainerRequest -> ContainerId, |state, request| {
        let config = request.config.unwrap_or_default();
        let sandbox = request.pod_sandbox_id;
        if !state.sandboxes.get(&sandbox).is_some_and(|s| s.ready) {
            return Err(missing("CreateContainer", &sandbox));
        }
        let taken = state.containers.iter().find(|(_, c)| c.sandbox == sandbox && c.config.metadata == config.metadata);
        if let Some((id, one)) = taken {
            let message = format!("failed to reserve container name \"{}\": name is reserved for \"{id}\"", one.name());
            return Err(error("CreateContainer", tonic::Code::Unknown, &message));
        }
        let id = state.fresh(config.metadata.as_ref().map_or("container", |m| &m.name));
        let created_at = state.tick();
        state.calls.push(format!("create {id}"));
        state.containers.insert(id.clone(), Container {
            sandbox,
            config,
            state: api::ContainerState::Created,
            exit_code: 0,
            times: [created_at, 0, 0],
        });
        state.tell(&id, api::ContainerEventType::Created);
        Ok(api::ContainerId { container_id: id })
    };
    start_container, "StartContainer", ContainerId -> StartContainerResponse, |state, request| {
        let id = request.container_id;
        let now = state.tick();
        let one = state.containers.get_mut(&id).ok_or_else(|| missing("StartContainer", &id))?;
        if one.state != api::ContainerState::Created {
            return Err(error("StartContainer", tonic::Code::Unknown, "container is not in created state"));
        }
        one.state = api::ContainerState::Running;
        one.times[1] = now;
        state.calls.push(format!("start {id}"));
        state.tell(&id, api::ContainerEventType::Started);
        Ok(Default::default())
    };
    stop_container, "StopContainer", StopContainerRequest -> StopContainerResponse, |state, request| {
        state.calls.push(format!("stop {} within {}", request.container_id, request.timeout));
        state.end(&request.container_id, 137);
        Ok(Default::default())
    };
    remove_container, "RemoveContainer", ContainerId -> RemoveContainerResponse, |state, request| {
        state.calls.push(format!("remove {}", request.container_id));
        state.containers.remove(&request.container_id);
        Ok(Default::default())
    };
    list_containers, "ListContainers", ListContainersRequest -> ListContainersResponse, |state, request| {
        let wanted = request.filter.unwrap_or_default().label_selector;
        let found = state.containers.iter().filter(|(_, c)| selected(&c.config.labels, &wanted));
        Ok(api::ListContainersResponse { containers: found.map(|(id, c)| c.listed(id)).collect() })
    };
    container_status, "ContainerStatus", ContainerStatusRequest -> ContainerStatusResponse, |state, request| {
        let id = request.container_id;
        let one = state.containers.get(&id).ok_or_else(|| missing("ContainerStatus", &id))?;
        Ok(api::ContainerStatusResponse { status: Some(one.status(&id)), ..Default::default() })
    };
    update_pod_sandbox_resources, "UpdatePodSandboxResources", UpdatePodSandboxResourcesRequest -> UpdatePodSandboxResourcesResponse, |state, request| {
        let id = request.pod_sandbox_id;
        state.calls.push(format!("size {id}"));
        let one = state.sandboxes.get_mut(&id).ok_or_else(|| missing("UpdatePodSandboxResources", &id))?;
        one.config.linux.get_or_insert_default().resources = request.resources;
        Ok(Default::default())
    };
    update_container_resources, "UpdateContainerResources", UpdateContainerResourcesRequest -> UpdateContainerResourcesResponse, |state, request| {
        let id = request.container_id;
        state.calls.push(format!("update {id}"));
        let one = state.containers.get_mut(&id).ok_or_else(|| missing("UpdateContainerResources", &id))?;
        one.update(request.linux.unwrap_or_default());
        Ok(Default::default())
    };
    reopen_container_log, "ReopenContainerLog", ContainerId -> ReopenContainerLogResponse, |_, _| Ok(Default::default());
    exec_sync, "ExecSync", ExecSyncRequest -> ExecSyncResponse, |state, request| {
        let fails = request.cmd.first().is_some_and(|command| state.failing.contains(command));
        Ok(api::ExecSyncResponse { exit_code: fails.into(), ..Default::default() })
    };
    checkpoint_container, "CheckpointContainer", CheckpointContainerRequest -> CheckpointContainerResponse, |_, _| Ok(api::CheckpointContainerResponse {});
    exec, "Exec", ExecRequest -> StreamUrl, |_, _| Err(error("Exec", tonic::Code::Unimplemented, "the fake has no streams"));
    attach, "Attach", AttachRequest -> StreamUrl, |_, _| Err(error("Attach", tonic::Code::Unimplemented, "the fake has no streams"));
    port_forward, "PortForward", PortForwardRequest -> StreamUrl, |_, _| Err(error("PortForward", tonic::Code::Unimplemented, "the fake has no streams"));
    list_container_stats, "ListContainerStats", ListContainerStatsRequest -> ListContainerStatsResponse, |_, _| Ok(Default::default());
    list_images, "ListImages", ListImagesRequest -> ListImagesResponse, |_, _| Ok(Default::default());
    image_status, "ImageStatus", ImageRequest -> ImageStatusResponse, |state, request| {
        let name = request.image.unwrap_or_default().image;
        if state.absent.contains(&name) {
            return Ok(api::ImageStatusResponse::default());
        }
        Ok(api::ImageStatusResponse { image: Some(api::Image { id: name, ..Default::default() }) })
    };
    pull_image, "PullImage", PullImageRequest -> PullImageResponse, |state, request| {
        let name = request.image.unwrap_or_default().image;
        if state.absent.contains(&name) {
            return Err(missing("PullImage", &name));
        }
        Ok(Default::default())
    };
    remove_image, "RemoveImage", ImageRequest -> RemoveImageResponse, |_, _| Ok(Default::default());
    image_fs_info, "ImageFsInfo", ImageFsInfoRequest -> ImageFsInfoResponse, |_, _| Ok(Default::default());
}

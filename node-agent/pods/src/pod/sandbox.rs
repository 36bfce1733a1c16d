//! Makes a pod's sandbox, with its control group and the ids of its own.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use node_agent_cgroups::FixedLimits;
use node_agent_cri::{RuntimeError, api};
use node_agent_files::{DIRECTORY_MODE, create_dirs};
use node_agent_node_lifecycle::guard;
use node_agent_objects::error_chain;
use node_agent_pod_registry::log_directory;
use node_agent_pod_resources::{hugepages, qos};

use super::backoff::{Backoff, Wait};
use super::state::PodState;
use super::{config, dns, kill, limits, userns};

/// Why a pod has no sandbox, mostly in the kubelet's words.
#[derive(Debug, thiserror::Error)]
enum SandboxError {
    /// The runtime has no network for pods yet.
    #[error("network is not ready: container runtime network not ready")]
    NetworkNotReady,
    /// The folder of its logs cannot be created.
    #[error("cannot make `{}`", path.display())]
    Logs { path: PathBuf, source: io::Error },
    /// Its control group cannot be created.
    #[error("unable to ensure pod container exists")]
    Cgroup(#[source] node_agent_cgroups::Error),
    /// The runtime has no user namespaces.
    #[error("can't set `spec.hostUsers: false`, runtime does not support user namespaces")]
    RuntimeUsers,
    /// The handler of its runtime class has no user namespaces.
    #[error(
        "can't set `spec.hostUsers: false`, RuntimeClass handler \"{0}\" does not support user namespaces"
    )]
    HandlerUsers(String),
    /// It gets no range of user ids.
    #[error("create user namespace")]
    Users(#[source] userns::Error),
    /// Its runtime class does not exist.
    #[error("RuntimeClass \"{0}\" not found")]
    NoClass(String),
    /// Its runtime class cannot be read.
    #[error("failed to lookup RuntimeClass {name}")]
    Class {
        name: String,
        source: control_client::Error,
    },
    /// The sandbox before it does not stop.
    #[error("cannot stop the former one")]
    Former(#[source] RuntimeError),
    /// The runtime does not run it.
    #[error(transparent)]
    Run(#[from] RuntimeError),
}

impl PodState {
    /// Makes the sandbox, when drivers have prepared the pod's devices.
    pub(super) async fn create_sandbox(&mut self, attempt: u32) {
        let (shared, pod) = (self.shared.clone(), self.pod.clone());
        let failed = match shared.claims.prepare(&pod, &*shared.objects).await {
            Err(error) => Some((
                "FailedPrepareDynamicResources",
                format!(
                    "Failed to prepare dynamic resources: prepare dynamic resources: {}",
                    error_chain(&error)
                ),
            )),
            Ok(()) => {
                // its group is made with what is granted
                let whole = pod.spec.resources.clone();
                self.memory.pod_in_force = Some(whole.unwrap_or_default());
                let made = self.run_sandbox(attempt).await;
                shared.metrics.pod_sandbox(made.is_err());
                made.err().map(|error| {
                    let message = format!("Failed to create pod sandbox: {}", error_chain(&error));
                    ("FailedCreatePodSandBox", message)
                })
            }
        };
        match failed {
            None => {
                self.memory.sandbox_retry = None;
                self.sandbox_backoff =
                    Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
            }
            Some((reason, message)) => {
                let now = Timestamp::now();
                self.sandbox_backoff.note(now);
                self.memory.sandbox_retry = Some(Wait::new(now, self.sandbox_backoff.current()));
                shared.events.warning(&pod, None, reason, message);
            }
        }
    }

    async fn run_sandbox(&self, attempt: u32) -> Result<(), SandboxError> {
        let shared = &self.shared;
        let spec = &self.pod.spec;
        if !spec.host_network && !shared.attention.network_ready() {
            let error = SandboxError::NetworkNotReady;
            shared
                .events
                .warning(&self.pod, None, "NetworkNotReady", error.to_string());
            return Err(error);
        }
        let logs = log_directory(&shared.node.log_root, &self.pod);
        create_dirs(&logs, DIRECTORY_MODE)
            .map_err(|source| SandboxError::Logs { path: logs, source })?;
        if let Some(cgroups) = &shared.cgroups {
            cgroups
                .make_pod(
                    qos::class(spec),
                    self.pod.uid(),
                    self.pod_limits(spec),
                    shared.settings.pod_pids,
                    &FixedLimits {
                        huge: hugepages::of_pod(&shared.node.rules.huge, spec),
                        protected: limits::protected(&self.pod, &shared.node.rules),
                    },
                )
                .await
                .map_err(SandboxError::Cgroup)?;
            guard::set_classes(&shared.pods, Some(cgroups), shared.settings.memory.qos).await;
        }
        let handler = self.runtime_handler().await?;
        let users = self.take_users(&handler).await?;
        kill::sandboxes(&*shared.runtime, &self.observed)
            .await
            .map_err(SandboxError::Former)?;
        let config = config::sandbox(
            &self.pod,
            attempt,
            &shared.node,
            dns::config(&self.pod, &shared.node.dns),
            users.as_ref(),
            self.sandbox_limits(),
        );
        let made = shared.runtime.run_pod_sandbox(api::RunPodSandboxRequest {
            config: Some(config),
            runtime_handler: handler,
        });
        shared.crowd.run(made).await?;
        Ok(())
    }

    /// Ids of the pod's own, when it wants them and the runtime can.
    async fn take_users(&self, handler: &str) -> Result<Option<api::UserNamespace>, SandboxError> {
        if self.pod.spec.host_users != Some(false) {
            return Ok(None);
        }
        let request = api::StatusRequest { verbose: false };
        let can = self
            .shared
            .runtime
            .status(request)
            .await
            .is_ok_and(|status| {
                status.runtime_handlers.iter().any(|found| {
                    let features = found.features.as_ref();
                    found.name == handler && features.is_some_and(|f| f.user_namespaces)
                })
            });
        if !can {
            // to run it with the node's own ids would be what it must not have
            return Err(if handler.is_empty() {
                SandboxError::RuntimeUsers
            } else {
                SandboxError::HandlerUsers(handler.to_owned())
            });
        }
        let taken = self.shared.ranges.take(self.pod.uid());
        taken.map(Some).map_err(SandboxError::Users)
    }

    /// The runtime's name for the pod's runtime class.
    async fn runtime_handler(&self) -> Result<String, SandboxError> {
        #[derive(serde::Deserialize)]
        struct RuntimeClass {
            handler: String,
        }
        let Some(class) = self.pod.spec.runtime_class_name.as_deref() else {
            return Ok(String::new());
        };
        self.shared
            .client
            .get::<RuntimeClass>(&control_client::resources::RUNTIME_CLASSES, "", class)
            .await
            .map(|found| found.handler)
            .map_err(|error| match error {
                control_client::Error::NotFound(_) => SandboxError::NoClass(class.to_owned()),
                source => SandboxError::Class {
                    name: class.to_owned(),
                    source,
                },
            })
    }
}

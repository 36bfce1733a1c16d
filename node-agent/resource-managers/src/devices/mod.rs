//! Device plugins (`v1beta1`): programs that have devices for containers, and
//! who was given which.
//!
//! ```text
//! <root>/device-plugins/kubelet.sock                  plugins register here
//! <root>/device-plugins/<endpoint>                    and are asked there
//! <root>/device-plugins/kubelet_internal_checkpoint   what was given to whom
//! <root>/pod-resources/kubelet.sock                   the same, for monitors
//! ```
//!
//! Devices are given when a pod is admitted, and taken back when nothing of it
//! runs any more. What the checkpoint holds counts, whoever wrote it; a plugin
//! that goes away takes its devices out of use, not from those that have them.

pub mod api;
mod pool;
mod serve;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use node_agent_cri::{RuntimeClient as Socket, RuntimeError};
use node_agent_files::{atomic_file, blocking};
use node_agent_objects::pod::{Container, Pod};
use node_agent_objects::quantity;
use node_agent_objects::status::ResourceStatus;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::hints::{NumaMask, ProviderHints};
use crate::requests;
use pool::DevicePool;

pub use pool::AllocationError;
pub use serve::{PodLister, serve};

/// How long a plugin may take for one call.
const PATIENCE: Option<Duration> = Some(Duration::from_secs(30));

/// A device plugin that is registered and reachable.
#[derive(Clone)]
struct RegisteredPlugin {
    socket: Socket,
    options: api::DevicePluginOptions,
    /// Tells this one from the one before it.
    number: u64,
}

/// Allocates the devices of device plugins to containers.
#[derive(Default)]
pub struct DeviceManager {
    folder: PathBuf,
    pool: Mutex<DevicePool>,
    plugins: Mutex<(u64, BTreeMap<String, RegisteredPlugin>)>,
    /// Held while the checkpoint is written.
    saving: Mutex<()>,
    /// Gets the uids of pods whose devices are not as they were.
    changed: Option<mpsc::UnboundedSender<String>>,
}

impl DeviceManager {
    /// With what was given before, by the checkpoint in the agent's folder.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        let folder = root.join("device-plugins");
        let pool = match std::fs::read_to_string(folder.join(CHECKPOINT)) {
            Err(_) => DevicePool::default(),
            Ok(text) => DevicePool::load(&text).unwrap_or_else(|error| {
                tracing::warn!(%error, "failed to read the device checkpoint");
                DevicePool::default()
            }),
        };
        Self {
            folder,
            pool: Mutex::new(pool),
            ..Self::default()
        }
    }

    /// Has `changed` get the uids of pods whose devices are not as they were.
    #[must_use]
    pub fn telling(mut self, changed: mpsc::UnboundedSender<String>) -> Self {
        self.changed = Some(changed);
        self
    }

    fn tell(&self, pods: BTreeSet<String>) {
        for pod in pods {
            if let Some(changed) = &self.changed {
                // nobody looks any more when the agent ends
                let _ = changed.send(pod);
            }
        }
    }

    /// By container: how the devices are that a pod was given.
    #[must_use]
    pub fn health(&self, pod: &str) -> BTreeMap<String, Vec<ResourceStatus>> {
        self.pool().health(pod)
    }

    fn pool(&self) -> MutexGuard<'_, DevicePool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn plugins(&self) -> MutexGuard<'_, (u64, BTreeMap<String, RegisteredPlugin>)> {
        self.plugins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what was given.
    pub(crate) fn save(&self) -> std::io::Result<()> {
        let _turn = blocking::lock(&self.saving);
        let text = self.pool().save();
        let path = self.folder.join(CHECKPOINT);
        if std::fs::read_to_string(&path).unwrap_or_default() == text {
            return Ok(());
        }
        atomic_file::write(&path, &text)
    }

    /// By resource: how many devices the node has, and how many of use.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<String, (usize, usize)> {
        self.pool().counts()
    }

    /// Follows a plugin that has registered, until it is gone.
    async fn follow(self: Arc<Self>, request: api::RegisterRequest, shutdown: CancellationToken) {
        let resource = request.resource_name;
        let socket = Socket::new(&self.folder.join(&request.endpoint).display().to_string());
        let number = {
            let mut plugins = self.plugins();
            plugins.0 += 1;
            let number = plugins.0;
            let plugin = RegisteredPlugin {
                socket: socket.clone(),
                options: request.options.unwrap_or_default(),
                number,
            };
            plugins.1.insert(resource.clone(), plugin);
            number
        };
        let is_current = || {
            let plugins = self.plugins();
            plugins.1.get(&resource).is_some_and(|p| p.number == number)
        };
        let watched = socket
            .stream::<_, api::ListAndWatchResponse>(
                "v1beta1.DevicePlugin/ListAndWatch",
                api::Empty {},
            )
            .await;
        match watched {
            Err(error) => tracing::warn!(resource, %error, "failed to watch a device plugin"),
            Ok(mut told) => loop {
                let next = tokio::select! {
                    () = shutdown.cancelled() => return,
                    next = told.next() => next,
                };
                // another plugin took over
                if !is_current() {
                    return;
                }
                let Some(Ok(response)) = next else { break };
                tracing::info!(
                    resource,
                    devices = response.devices.len(),
                    "device plugin reported its devices"
                );
                let pods = self.pool().set(&resource, response.devices);
                self.tell(pods);
                if let Err(error) = self.save() {
                    tracing::warn!(%error, "failed to write the device checkpoint");
                }
            },
        }
        if is_current() {
            tracing::warn!(resource, "device plugin disconnected");
            self.plugins().1.remove(&resource);
            let pods = self.pool().lost(&resource);
            self.tell(pods);
        }
    }

    /// Where a container's devices could be, by resource: on which of `nodes`.
    #[must_use]
    pub fn places(&self, pod: &Pod, container: &Container, nodes: NumaMask) -> ProviderHints {
        let pool = self.pool();
        let wishes = wishes(pod, |resource| pool.knows(resource));
        let own = wishes.iter().filter(|w| w.container == container.name);
        own.map(|wish| {
            let places = pool.places(
                pod.uid(),
                Some(&container.name),
                wish.resource,
                wish.count,
                &wish.before,
                nodes,
            );
            (wish.resource.to_owned(), places)
        })
        .collect()
    }

    /// The same for all of a pod together.
    #[must_use]
    pub fn pod_places(&self, pod: &Pod, nodes: NumaMask) -> ProviderHints {
        let pool = self.pool();
        let wishes = wishes(pod, |resource| pool.knows(resource));
        let mut all = ProviderHints::new();
        for wish in &wishes {
            let of = |c: &Container| {
                let own =
                    |w: &&DeviceRequest<'_>| w.container == c.name && w.resource == wish.resource;
                wishes.iter().find(own).map_or(0, |w| w.count as u64)
            };
            let count = usize::try_from(requests::of_pod(pod, of)).unwrap_or(usize::MAX);
            let places = pool.places(pod.uid(), None, wish.resource, count, &[], nodes);
            all.insert(wish.resource.to_owned(), places);
        }
        all
    }

    /// Gives a container the devices that it asks for, as far as possible of
    /// the NUMA nodes `near`.
    ///
    /// # Errors
    /// Why it cannot have them.
    pub async fn allocate(
        &self,
        pod: &Pod,
        container: &Container,
        near: Option<NumaMask>,
    ) -> Result<(), AllocationError> {
        let wishes = wishes(pod, |resource| self.pool().knows(resource));
        for wish in wishes.iter().filter(|w| w.container == container.name) {
            self.give(pod, wish, near).await?;
        }
        Ok(())
    }

    /// Takes back what a pod was given.
    pub(crate) fn drop_of(&self, pod: &str) {
        self.pool().keep(|uid| uid != pod);
    }

    async fn give(
        &self,
        pod: &Pod,
        wish: &DeviceRequest<'_>,
        near: Option<NumaMask>,
    ) -> Result<(), AllocationError> {
        let (uid, container, resource) = (pod.uid(), wish.container, wish.resource);
        let choice =
            self.pool()
                .choose(uid, container, resource, wish.count, &wish.before, near)?;
        let Some(choice) = choice else { return Ok(()) };
        let plugin = self.plugins().1.get(resource).cloned();
        let plugin = plugin.ok_or_else(|| AllocationError::Unregistered(resource.to_owned()))?;
        let mut preferred = Vec::new();
        if plugin.options.get_preferred_allocation_available {
            let request = api::PreferredAllocationRequest {
                container_requests: vec![api::ContainerPreferredAllocationRequest {
                    available: choice.free.union(&choice.must).cloned().collect(),
                    must_include: choice.must.iter().cloned().collect(),
                    allocation_size: i32::try_from(wish.count).unwrap_or(i32::MAX),
                }],
            };
            let answer: api::PreferredAllocationResponse = plugin
                .call("v1beta1.DevicePlugin/GetPreferredAllocation", request)
                .await?;
            let first = answer.container_responses.into_iter().next();
            preferred = first.map(|r| r.device_ids).unwrap_or_default();
        }
        let taken = choice.pick(&preferred);
        let request = api::AllocateRequest {
            container_requests: vec![api::ContainerAllocateRequest {
                devices_ids: taken.iter().cloned().collect(),
            }],
        };
        let answer: api::AllocateResponse = plugin
            .call("v1beta1.DevicePlugin/Allocate", request)
            .await?;
        let response = answer.container_responses.into_iter().next();
        let response = response.ok_or_else(|| AllocationError::NoResponse(resource.to_owned()))?;
        self.pool()
            .grant(uid, container, resource, &taken, response);
        Ok(())
    }

    /// Returns the plugins' allocation responses for a container, after calling
    /// `PreStartContainer` of the plugins that ask for it.
    ///
    /// # Errors
    /// When a plugin does not let it start.
    pub async fn allocate_responses(
        &self,
        pod: &Pod,
        container: &str,
    ) -> Result<Vec<api::ContainerAllocateResponse>, AllocationError> {
        let grants: Vec<pool::DeviceGrant> = self
            .pool()
            .grants_of(pod.uid(), container)
            .cloned()
            .collect();
        let mut all = Vec::with_capacity(grants.len());
        for grant in grants {
            let plugin = self.plugins().1.get(&grant.resource).cloned();
            if let Some(plugin) = plugin.filter(|p| p.options.pre_start_required) {
                let request = api::PreStartContainerRequest {
                    devices_ids: grant.devices().cloned().collect(),
                };
                plugin
                    .call::<_, api::Empty>("v1beta1.DevicePlugin/PreStartContainer", request)
                    .await?;
            }
            all.push(grant.response);
        }
        Ok(all)
    }

    /// Takes back what pods have that are not to be kept.
    pub fn keep(&self, keeps: impl Fn(&str) -> bool) {
        if self.pool().keep(keeps)
            && let Err(error) = self.save()
        {
            tracing::warn!(%error, "failed to write the device checkpoint after a release");
        }
    }
}

const CHECKPOINT: &str = "kubelet_internal_checkpoint";

impl RegisteredPlugin {
    async fn call<Q, A>(&self, method: &'static str, request: Q) -> Result<A, RuntimeError>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        self.socket.unary(method, request, PATIENCE).await
    }
}

/// The amount of one resource that a container requests.
#[derive(Debug, PartialEq)]
struct DeviceRequest<'a> {
    container: &'a str,
    resource: &'a str,
    count: usize,
    /// Containers of the pod that are through when this one starts.
    before: Vec<&'a str>,
}

/// What the containers of a pod want of resources that plugins have.
fn wishes(pod: &Pod, knows: impl Fn(&str) -> bool) -> Vec<DeviceRequest<'_>> {
    let mut all = Vec::new();
    let mut through: Vec<&str> = Vec::new();
    let of = |container: &Container| {
        let mut wants: Vec<(String, usize)> = Vec::new();
        for (name, text) in &container.resources.limits {
            let count = quantity::whole(text).and_then(|n| usize::try_from(n).ok());
            if let Some(count) = count.filter(|n| *n > 0)
                && name.contains('/')
                && knows(name)
            {
                wants.push((name.clone(), count));
            }
        }
        wants
    };
    let spec = &pod.spec;
    for container in spec.init_containers.iter().chain(&spec.containers) {
        for (resource, count) in of(container) {
            let resource = container.resources.limits.get_key_value(&resource);
            let Some((resource, _)) = resource else {
                continue;
            };
            all.push(DeviceRequest {
                container: &container.name,
                resource,
                count,
                before: through.clone(),
            });
        }
        let is_init = spec
            .init_containers
            .iter()
            .any(|c| c.name == container.name);
        if is_init && !container.is_sidecar() {
            through.push(&container.name);
        }
    }
    all
}

#[cfg(test)]
mod tests;

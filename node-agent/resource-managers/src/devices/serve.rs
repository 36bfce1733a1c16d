//! What the agent serves on sockets of its own: the registration of device
//! plugins, and the pod resources API that monitors of devices read.

use std::path::Path;
use std::sync::Arc;

use http::Request;
use hyper::body::Incoming;
use node_agent_objects::pod::{Container, Pod};
use node_agent_pod_resources::cpuset::CpuSet;
use node_agent_unix_grpc::server::{GrpcResponse, listen, unary, unknown};
use tokio_util::sync::CancellationToken;

use super::pool::DevicePool;
use super::{CHECKPOINT, DeviceManager, api};
use crate::memory::MemoryBlock;

/// Serves both sockets until `shutdown`.
pub async fn serve(
    devices: Arc<DeviceManager>,
    pods: Arc<dyn PodLister>,
    root: &Path,
    shutdown: CancellationToken,
) {
    let registration = devices.folder.join("kubelet.sock");
    clear(&devices.folder);
    let resources = root.join("pod-resources/kubelet.sock");
    let own = (devices.clone(), shutdown.clone());
    let first = listen(&registration, shutdown.clone(), move |request| {
        let (devices, shutdown) = own.clone();
        async move { register(devices, shutdown, request).await }
    });
    let second = listen(&resources, shutdown, move |request| {
        let (devices, pods) = (devices.clone(), pods.clone());
        async move { tell(&devices, pods, request).await }
    });
    tokio::join!(first, second);
}

/// Returns the pods of the node.
pub trait PodLister: Send + Sync + 'static {
    /// All of them.
    fn all(&self) -> Vec<Arc<Pod>>;

    /// CPUs and memory of a container's own.
    fn own(&self, pod: &str, container: &str) -> (CpuSet, Vec<MemoryBlock>);

    /// The claims of a container.
    fn claims(&self, pod: &Pod, container: &Container) -> Vec<api::DynamicResource>;

    /// CPUs and memory that can be somebody's own.
    fn allocatable(&self) -> (CpuSet, Vec<MemoryBlock>);
}

/// Plugins register anew when their socket and the agent's are gone.
fn clear(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let kind = entry.file_type();
        let is_socket = kind.is_ok_and(|k| std::os::unix::fs::FileTypeExt::is_socket(&k));
        if is_socket && entry.file_name() != CHECKPOINT {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

async fn register(
    devices: Arc<DeviceManager>,
    shutdown: CancellationToken,
    request: Request<Incoming>,
) -> GrpcResponse {
    if request.uri().path() != "/v1beta1.Registration/Register" {
        return unknown();
    }
    unary(request, move |wanted: api::RegisterRequest| {
        check(&wanted).map_err(|error| tonic::Status::invalid_argument(error.to_string()))?;
        tracing::info!(
            resource = wanted.resource_name,
            "device plugin is registering"
        );
        // it is asked only when it was answered
        let (devices, shutdown) = (devices.clone(), shutdown.clone());
        control_supervise::task("device-plugin")
            .detail(&*wanted.resource_name)
            .spawn_restarting(move || devices.clone().follow(wanted.clone(), shutdown.clone()));
        Ok(api::Empty {})
    })
    .await
}

/// Why a plugin cannot be registered.
#[derive(Debug, thiserror::Error)]
enum RegistrationError {
    /// It speaks another version.
    #[error(
        "requested API version \"{0}\" is not supported by kubelet. Supported version is v1beta1"
    )]
    Version(String),
    /// Its resource is not an extended resource.
    #[error("the ResourceName \"{0}\" is invalid")]
    ResourceName(String),
    /// Its socket is in another folder.
    #[error("the endpoint \"{0}\" is no socket's name")]
    Endpoint(String),
}

/// Checks that a plugin can be used as it says.
fn check(wanted: &api::RegisterRequest) -> Result<(), RegistrationError> {
    if wanted.version != "v1beta1" {
        return Err(RegistrationError::Version(wanted.version.clone()));
    }
    let named = wanted.resource_name.split_once('/');
    let native = |domain: &str| domain == "kubernetes.io" || domain.ends_with(".kubernetes.io");
    if !named
        .is_some_and(|(domain, name)| !domain.is_empty() && !name.is_empty() && !native(domain))
    {
        let name = wanted.resource_name.clone();
        return Err(RegistrationError::ResourceName(name));
    }
    // below the folder, and nowhere else
    if wanted.endpoint.is_empty() || wanted.endpoint.contains('/') {
        return Err(RegistrationError::Endpoint(wanted.endpoint.clone()));
    }
    Ok(())
}

async fn tell(
    devices: &DeviceManager,
    pods: Arc<dyn PodLister>,
    request: Request<Incoming>,
) -> GrpcResponse {
    let pool = devices.pool().clone();
    match request.uri().path() {
        "/v1.PodResourcesLister/List" => {
            unary(request, move |_: api::Empty| {
                let all = pods.all();
                Ok(api::ListPodResourcesResponse {
                    pod_resources: all
                        .iter()
                        .map(|pod| resources(&pool, &*pods, pod))
                        .collect(),
                })
            })
            .await
        }
        "/v1.PodResourcesLister/Get" => {
            unary(request, move |wanted: api::GetPodResourcesRequest| {
                let all = pods.all();
                let found = all.iter().find(|pod| {
                    pod.name() == wanted.pod_name && pod.namespace() == wanted.pod_namespace
                });
                let found = found.ok_or_else(|| tonic::Status::not_found("pod not found"))?;
                Ok(api::GetPodResourcesResponse {
                    pod_resources: Some(resources(&pool, &*pods, found)),
                })
            })
            .await
        }
        "/v1.PodResourcesLister/GetAllocatableResources" => {
            unary(request, move |_: api::Empty| {
                let (cpus, memory) = pods.allocatable();
                Ok(api::AllocatableResourcesResponse {
                    devices: pool.usable(),
                    cpu_ids: cpus.iter().map(i64::from).collect(),
                    memory: memory.into_iter().map(told).collect(),
                })
            })
            .await
        }
        _ => unknown(),
    }
}

fn told(block: MemoryBlock) -> api::ContainerMemory {
    let node = |id: u32| api::NumaNode { id: id.into() };
    api::ContainerMemory {
        memory_type: block.r#type,
        size: block.size,
        topology: Some(api::TopologyInfo {
            nodes: block.nodes.into_iter().map(node).collect(),
        }),
    }
}

fn resources(pool: &DevicePool, pods: &dyn PodLister, pod: &Pod) -> api::PodResources {
    let containers = pod.spec.init_containers.iter().filter(|c| c.is_sidecar());
    api::PodResources {
        name: pod.name().to_owned(),
        namespace: pod.namespace().to_owned(),
        containers: containers
            .chain(&pod.spec.containers)
            .map(|container| {
                let (cpus, memory) = pods.own(pod.uid(), &container.name);
                api::ContainerResources {
                    name: container.name.clone(),
                    devices: pool
                        .grants_of(pod.uid(), &container.name)
                        .flat_map(super::pool::DeviceGrant::pod_resources)
                        .collect(),
                    cpu_ids: cpus.iter().map(i64::from).collect(),
                    memory: memory.into_iter().map(told).collect(),
                    dynamic_resources: pods.claims(pod, container),
                }
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_registers_with_its_version_a_resource_and_a_socket_beside_the_agents() {
        let wanted = |version: &str, name: &str, endpoint: &str| {
            check(&api::RegisterRequest {
                version: version.to_owned(),
                endpoint: endpoint.to_owned(),
                resource_name: name.to_owned(),
                options: None,
            })
        };
        assert!(wanted("v1beta1", "a.com/gpu", "gpu.sock").is_ok());
        assert!(wanted("v1", "a.com/gpu", "gpu.sock").is_err());
        for name in [
            "gpu",
            "/gpu",
            "a.com/",
            "kubernetes.io/gpu",
            "x.kubernetes.io/gpu",
        ] {
            assert!(wanted("v1beta1", name, "gpu.sock").is_err(), "{name}");
        }
        for endpoint in ["", "../x", "/tmp/x"] {
            assert!(
                wanted("v1beta1", "a.com/gpu", endpoint).is_err(),
                "{endpoint}"
            );
        }
    }
}

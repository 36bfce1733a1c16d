//! The border to the container runtime: CRI v1 over a unix socket, and what the runtime has of
//! pods ([`observe`], [`observed`], [`origin`]).
//!
//! [`Runtime`] is all that the rest of the agent knows of it. [`RuntimeClient`] is the
//! real one; tests put a fake in its place.

pub mod api;
mod client;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
mod log_line;
pub mod observe;
pub mod observed;
pub mod origin;
mod relist_rate;

pub use client::{CallTimeout, RuntimeClient};
pub use log_line::LogLine;
pub use relist_rate::RelistRate;

use std::sync::Arc;
use std::time::Instant;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use node_agent_kubelet_metrics::PodMetrics;

/// A call to the container runtime that failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("rpc error: code = {code:?} desc = {message}")]
pub struct RuntimeError {
    /// The CRI method.
    pub method: &'static str,
    /// The gRPC code that came back.
    pub code: tonic::Code,
    /// What the runtime said.
    pub message: String,
}

impl RuntimeError {
    /// Whether the object that was asked for does not exist (any more).
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.code == tonic::Code::NotFound
    }

    /// Whether the runtime does not know the method: older than the protocol.
    #[must_use]
    pub fn is_unimplemented(&self) -> bool {
        self.code == tonic::Code::Unimplemented
    }
}

/// The result of a call to the runtime.
pub type Result<T> = std::result::Result<T, RuntimeError>;

/// A runtime whose calls are counted and timed.
pub struct MeasuredRuntime {
    inner: Arc<dyn Runtime>,
    metrics: Arc<PodMetrics>,
}

impl MeasuredRuntime {
    /// Counts the calls of `inner` in `metrics`.
    #[must_use]
    pub fn new(inner: Arc<dyn Runtime>, metrics: Arc<PodMetrics>) -> Self {
        Self { inner, metrics }
    }

    fn measure<'a, T: Send + 'a>(
        &'a self,
        method: &'static str,
        call: BoxFuture<'a, Result<T>>,
    ) -> BoxFuture<'a, Result<T>> {
        Box::pin(async move {
            let begun = Instant::now();
            let done = call.await;
            self.metrics
                .runtime_operation(method, done.is_err(), begun.elapsed());
            done
        })
    }
}

macro_rules! runtime {
    ($($(#[$doc:meta])* $name:ident, $method:literal, $request:ident -> $response:ident, $limit:expr;)*) => {
        /// The container runtime, as the agent sees it: the methods of CRI v1.
        pub trait Runtime: Send + Sync + 'static {
            $($(#[$doc])*
            fn $name(&self, request: api::$request) -> BoxFuture<'_, Result<api::$response>>;)*

            /// Events of containers as they happen. Fails with `Unimplemented`
            /// (possibly as the first item) where the runtime has none.
            fn events(&self) -> BoxFuture<'_, Result<BoxStream<'static, Result<api::ContainerEventResponse>>>>;
        }

        impl Runtime for RuntimeClient {
            $(fn $name(&self, request: api::$request) -> BoxFuture<'_, Result<api::$response>> {
                let limit: fn(&api::$request) -> client::CallTimeout = $limit;
                let limit = limit(&request);
                Box::pin(self.unary($method, request, limit))
            })*

            fn events(&self) -> BoxFuture<'_, Result<BoxStream<'static, Result<api::ContainerEventResponse>>>> {
                Box::pin(self.stream("runtime.v1.RuntimeService/GetContainerEvents", api::GetEventsRequest {}))
            }
        }

        impl Runtime for MeasuredRuntime {
            $(fn $name(&self, request: api::$request) -> BoxFuture<'_, Result<api::$response>> {
                self.measure(client::name($method), self.inner.$name(request))
            })*

            fn events(&self) -> BoxFuture<'_, Result<BoxStream<'static, Result<api::ContainerEventResponse>>>> {
                self.measure("GetContainerEvents", self.inner.events())
            }
        }
    };
}

runtime! {
    /// Name and version of the runtime.
    version, "runtime.v1.RuntimeService/Version", VersionRequest -> VersionResponse, |_| client::USUAL;
    /// Whether the runtime and its network are ready.
    status, "runtime.v1.RuntimeService/Status", StatusRequest -> StatusResponse, |_| client::USUAL;
    /// What the runtime wants of the agent.
    runtime_config, "runtime.v1.RuntimeService/RuntimeConfig", RuntimeConfigRequest -> RuntimeConfigResponse, |_| client::USUAL;
    /// Tells the runtime the node's pod network.
    update_runtime_config, "runtime.v1.RuntimeService/UpdateRuntimeConfig", UpdateRuntimeConfigRequest -> UpdateRuntimeConfigResponse, |_| client::USUAL;
    /// Makes a pod's namespaces and network.
    run_pod_sandbox, "runtime.v1.RuntimeService/RunPodSandbox", RunPodSandboxRequest -> SandboxId, |_| client::SLOW;
    /// Ends what runs in a sandbox and gives its network back; idempotent.
    stop_pod_sandbox, "runtime.v1.RuntimeService/StopPodSandbox", SandboxId -> StopPodSandboxResponse, |_| client::USUAL;
    /// Forgets a sandbox and its containers; idempotent.
    remove_pod_sandbox, "runtime.v1.RuntimeService/RemovePodSandbox", SandboxId -> RemovePodSandboxResponse, |_| client::USUAL;
    /// Tells the runtime what a pod as a whole has from now on.
    update_pod_sandbox_resources, "runtime.v1.RuntimeService/UpdatePodSandboxResources", UpdatePodSandboxResourcesRequest -> UpdatePodSandboxResourcesResponse, |_| client::USUAL;
    /// One sandbox, with its addresses.
    pod_sandbox_status, "runtime.v1.RuntimeService/PodSandboxStatus", PodSandboxStatusRequest -> PodSandboxStatusResponse, |_| client::USUAL;
    /// All sandboxes.
    list_pod_sandbox, "runtime.v1.RuntimeService/ListPodSandbox", ListPodSandboxRequest -> ListPodSandboxResponse, |_| client::USUAL;
    /// Makes a container, without starting it.
    create_container, "runtime.v1.RuntimeService/CreateContainer", CreateContainerRequest -> ContainerId, |_| client::USUAL;
    /// Starts a container that was made.
    start_container, "runtime.v1.RuntimeService/StartContainer", ContainerId -> StartContainerResponse, |_| client::USUAL;
    /// Signals a container, and kills it after the time given; idempotent.
    stop_container, "runtime.v1.RuntimeService/StopContainer", StopContainerRequest -> StopContainerResponse,
        |r| Some(std::time::Duration::from_secs(120 + u64::try_from(r.timeout).unwrap_or(0)));
    /// Forgets a container; idempotent.
    remove_container, "runtime.v1.RuntimeService/RemoveContainer", ContainerId -> RemoveContainerResponse, |_| client::USUAL;
    /// All containers.
    list_containers, "runtime.v1.RuntimeService/ListContainers", ListContainersRequest -> ListContainersResponse, |_| client::USUAL;
    /// One container, whole.
    container_status, "runtime.v1.RuntimeService/ContainerStatus", ContainerStatusRequest -> ContainerStatusResponse, |_| client::USUAL;
    /// Changes the limits of a running container.
    update_container_resources, "runtime.v1.RuntimeService/UpdateContainerResources", UpdateContainerResourcesRequest -> UpdateContainerResourcesResponse, |_| client::USUAL;
    /// Writes a running container to a file.
    checkpoint_container, "runtime.v1.RuntimeService/CheckpointContainer", CheckpointContainerRequest -> CheckpointContainerResponse,
        |r| Some(std::time::Duration::from_secs(120 + u64::try_from(r.timeout).unwrap_or(0)));
    /// Makes the runtime open a container's log file anew, after a rotation.
    reopen_container_log, "runtime.v1.RuntimeService/ReopenContainerLog", ContainerId -> ReopenContainerLogResponse, |_| client::USUAL;
    /// Runs a command in a container and waits for it.
    exec_sync, "runtime.v1.RuntimeService/ExecSync", ExecSyncRequest -> ExecSyncResponse,
        |r| (r.timeout > 0).then(|| std::time::Duration::from_secs(30 + u64::try_from(r.timeout).unwrap_or(0)));
    /// Where to connect for a command with streams.
    exec, "runtime.v1.RuntimeService/Exec", ExecRequest -> StreamUrl, |_| client::USUAL;
    /// Where to connect for the streams of a container's own process.
    attach, "runtime.v1.RuntimeService/Attach", AttachRequest -> StreamUrl, |_| client::USUAL;
    /// Where to connect for connections into a pod.
    port_forward, "runtime.v1.RuntimeService/PortForward", PortForwardRequest -> StreamUrl, |_| client::USUAL;
    /// What the containers use.
    list_container_stats, "runtime.v1.RuntimeService/ListContainerStats", ListContainerStatsRequest -> ListContainerStatsResponse, |_| client::USUAL;
    /// All images.
    list_images, "runtime.v1.ImageService/ListImages", ListImagesRequest -> ListImagesResponse, |_| client::USUAL;
    /// One image, none when it is not there.
    image_status, "runtime.v1.ImageService/ImageStatus", ImageRequest -> ImageStatusResponse, |_| client::USUAL;
    /// Fetches an image.
    pull_image, "runtime.v1.ImageService/PullImage", PullImageRequest -> PullImageResponse, |_| None;
    /// Removes an image; idempotent.
    remove_image, "runtime.v1.ImageService/RemoveImage", ImageRequest -> RemoveImageResponse, |_| client::USUAL;
    /// Where images are kept and how much they take.
    image_fs_info, "runtime.v1.ImageService/ImageFsInfo", ImageFsInfoRequest -> ImageFsInfoResponse, |_| client::USUAL;
}

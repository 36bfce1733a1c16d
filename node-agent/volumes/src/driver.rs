//! A client of the driver's Controller service.

use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use csi_api as api;
use http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint, Uri};

/// Name of the driver.
pub const NAME: &str = "csi.orlop.dev";

/// Topology key and node label by which a volume belongs to a node.
pub const NODE_KEY: &str = "topology.csi.orlop.dev/node";

/// Namespace of CSIStorageCapacity objects and of stock sidecars' leases.
pub const NAMESPACE: &str = "kube-system";

/// How long a call may take: copies of whole volumes are among them.
const PATIENCE: Duration = Duration::from_secs(300);

/// A failed call, worded as stock sidecars word it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rpc error: code = {code:?} desc = {message}")]
pub struct CallError {
    /// gRPC code.
    pub code: tonic::Code,
    /// What the driver says.
    pub message: String,
}

impl CallError {
    /// Whether the driver may still be at work on the call.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        use tonic::Code::{Aborted, Cancelled, DeadlineExceeded, Unavailable};
        matches!(
            self.code,
            Aborted | Cancelled | DeadlineExceeded | Unavailable
        )
    }
}

/// A client of the driver; it connects with the first call.
#[derive(Clone, Debug)]
pub struct Driver {
    channel: Channel,
}

impl Driver {
    /// Makes a client for a socket. Must be called within a tokio runtime.
    #[must_use]
    pub fn new(socket: &Path) -> Self {
        let path = socket.to_owned();
        let channel = Endpoint::from_static("http://driver.invalid")
            .connect_timeout(Duration::from_secs(5))
            .connect_with_connector_lazy(tower::service_fn(move |_: Uri| {
                let path = path.clone();
                async move {
                    let stream = tokio::net::UnixStream::connect(path).await?;
                    Ok::<_, std::io::Error>(hyper_util::rt::TokioIo::new(stream))
                }
            }));
        Self { channel }
    }

    async fn call<Q, A>(&self, method: &'static str, request: Q) -> Result<A, CallError>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        let error = |code, message: String| CallError { code, message };
        let call = async {
            let mut grpc = tonic::client::Grpc::new(self.channel.clone());
            grpc.ready()
                .await
                .map_err(|source| error(tonic::Code::Unavailable, source.to_string()))?;
            let path = PathAndQuery::from_str(&format!("/csi.v1.Controller/{method}"))
                .map_err(|source| error(tonic::Code::Internal, source.to_string()))?;
            let codec = tonic_prost::ProstCodec::<Q, A>::default();
            grpc.unary(tonic::Request::new(request), path, codec)
                .await
                .map(tonic::Response::into_inner)
                .map_err(|status| error(status.code(), status.message().to_owned()))
        };
        let late = || {
            error(
                tonic::Code::DeadlineExceeded,
                "context deadline exceeded".to_owned(),
            )
        };
        tokio::time::timeout(PATIENCE, call)
            .await
            .unwrap_or_else(|_| Err(late()))
    }

    /// Returns what the Controller service can do.
    ///
    /// # Errors
    /// When the driver does not answer.
    pub async fn capabilities(&self) -> Result<Vec<api::ControllerCapability>, CallError> {
        let request = api::ControllerGetCapabilitiesRequest {};
        let answer: api::ControllerGetCapabilitiesResponse =
            self.call("ControllerGetCapabilities", request).await?;
        let all = answer.capabilities.iter();
        Ok(all.filter_map(|it| Some(it.rpc?.r#type())).collect())
    }

    /// Creates a volume.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn create_volume(
        &self,
        request: api::CreateVolumeRequest,
    ) -> Result<api::Volume, CallError> {
        let answer: api::CreateVolumeResponse = self.call("CreateVolume", request).await?;
        answer.volume.ok_or_else(|| CallError {
            code: tonic::Code::Internal,
            message: "the answer to CreateVolume contains no volume".to_owned(),
        })
    }

    /// Deletes a volume.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn delete_volume(&self, request: api::DeleteVolumeRequest) -> Result<(), CallError> {
        self.call::<_, api::DeleteVolumeResponse>("DeleteVolume", request)
            .await
            .map(drop)
    }

    /// Grows a volume.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn expand_volume(
        &self,
        request: api::ControllerExpandVolumeRequest,
    ) -> Result<api::ControllerExpandVolumeResponse, CallError> {
        self.call("ControllerExpandVolume", request).await
    }

    /// Copies a volume as a snapshot.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn create_snapshot(
        &self,
        request: api::CreateSnapshotRequest,
    ) -> Result<api::Snapshot, CallError> {
        let answer: api::CreateSnapshotResponse = self.call("CreateSnapshot", request).await?;
        answer.snapshot.ok_or_else(|| CallError {
            code: tonic::Code::Internal,
            message: "the answer to CreateSnapshot contains no snapshot".to_owned(),
        })
    }

    /// Describes a snapshot.
    ///
    /// # Errors
    /// What the driver says; `NotFound` without such a snapshot.
    pub async fn snapshot(&self, id: &str) -> Result<api::Snapshot, CallError> {
        let request = api::GetSnapshotRequest {
            snapshot_id: id.to_owned(),
            secrets: std::collections::BTreeMap::new(),
        };
        let answer: api::GetSnapshotResponse = self.call("GetSnapshot", request).await?;
        answer.snapshot.ok_or_else(|| CallError {
            code: tonic::Code::NotFound,
            message: format!("snapshot {id} does not exist"),
        })
    }

    /// Deletes a snapshot.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn delete_snapshot(
        &self,
        request: api::DeleteSnapshotRequest,
    ) -> Result<(), CallError> {
        self.call::<_, api::DeleteSnapshotResponse>("DeleteSnapshot", request)
            .await
            .map(drop)
    }

    /// Changes the attributes of a volume.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn modify_volume(
        &self,
        request: api::ControllerModifyVolumeRequest,
    ) -> Result<(), CallError> {
        self.call::<_, api::ControllerModifyVolumeResponse>("ControllerModifyVolume", request)
            .await
            .map(drop)
    }

    /// Returns the volumes that are damaged or out of reach.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn health(&self) -> Result<Vec<api::VolumeHealth>, CallError> {
        let mut all = Vec::new();
        let mut starting_token = String::new();
        loop {
            let request = api::ControllerListVolumeHealthRequest {
                max_entries: 0,
                starting_token,
                secrets: std::collections::BTreeMap::new(),
            };
            let answer: api::ControllerListVolumeHealthResponse =
                self.call("ControllerListVolumeHealth", request).await?;
            all.extend(answer.entries);
            if answer.next_token.is_empty() {
                return Ok(all);
            }
            starting_token = answer.next_token;
        }
    }

    /// Returns how much can be provisioned.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn capacity(
        &self,
        request: api::GetCapacityRequest,
    ) -> Result<api::GetCapacityResponse, CallError> {
        self.call("GetCapacity", request).await
    }
}

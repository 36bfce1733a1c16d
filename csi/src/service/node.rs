//! The Node service.

use std::path::PathBuf;

use csi_api as api;
use futures::future::BoxFuture;
use tonic::body::Body;

use super::controller::health;
use super::{Answer, Services, path, required, unimplemented};
use crate::driver::health::Severity;
use crate::driver::{Driver, inline};
use crate::error::{Error, Result};
use crate::ids;
use crate::request::access::Access;
use crate::request::size::{Range, to_wire};
use crate::request::topology;

/// The Node service.
#[derive(Clone)]
pub(super) struct Node(pub(super) Services);

impl Node {
    pub(super) fn answer(
        &self,
        method: &str,
        request: http::Request<Body>,
    ) -> BoxFuture<'static, Answer> {
        let it = &self.0;
        match method {
            "NodeStageVolume" => it.unary("NodeStageVolume", request, stage),
            "NodeUnstageVolume" => it.unary("NodeUnstageVolume", request, unstage),
            "NodePublishVolume" => it.unary("NodePublishVolume", request, publish),
            "NodeUnpublishVolume" => it.unary("NodeUnpublishVolume", request, unpublish),
            "NodeGetVolumeStats" => it.unary("NodeGetVolumeStats", request, stats),
            "NodeExpandVolume" => it.unary("NodeExpandVolume", request, expand),
            "NodeGetVolumeHealth" => it.unary("NodeGetVolumeHealth", request, volume_health),
            "NodeGetStorageHealth" => it.unary("NodeGetStorageHealth", request, storage_health),
            "NodeGetCapabilities" => it.unary("NodeGetCapabilities", request, capabilities),
            "NodeGetInfo" => it.unary("NodeGetInfo", request, info),
            _ => unimplemented(method),
        }
    }
}

fn access(capability: Option<api::VolumeCapability>) -> Result<Access> {
    let capability = capability.ok_or(Error::Missing {
        field: "volume_capability",
    })?;
    Access::parse(&capability)
}

/// The volume of a request.
fn volume(handle: String) -> Result<String> {
    required("volume_id", handle).map(ids::of_volume_handle)
}

fn stage(
    driver: &Driver,
    request: api::NodeStageVolumeRequest,
) -> Result<api::NodeStageVolumeResponse> {
    let id = volume(request.volume_id)?;
    let staging = path("staging_target_path", request.staging_target_path)?;
    let access = access(request.volume_capability)?;
    driver.stage(&id, &staging, &access, &request.secrets)?;
    Ok(api::NodeStageVolumeResponse {})
}

fn unstage(
    driver: &Driver,
    request: api::NodeUnstageVolumeRequest,
) -> Result<api::NodeUnstageVolumeResponse> {
    let id = volume(request.volume_id)?;
    let staging = path("staging_target_path", request.staging_target_path)?;
    driver.unstage(&id, &staging)?;
    Ok(api::NodeUnstageVolumeResponse {})
}

fn publish(
    driver: &Driver,
    request: api::NodePublishVolumeRequest,
) -> Result<api::NodePublishVolumeResponse> {
    let handle = required("volume_id", request.volume_id)?;
    let target = path("target_path", request.target_path)?;
    let access = access(request.volume_capability)?;
    if inline::is_inline(&request.volume_context) {
        let (context, secrets) = (&request.volume_context, &request.secrets);
        driver.publish_inline(&handle, &target, &access, context, secrets)?;
        return Ok(api::NodePublishVolumeResponse {});
    }
    let id = volume(handle)?;
    if request.staging_target_path.is_empty() {
        return Err(Error::Precondition {
            id,
            reason: "`staging_target_path` is required: stage the volume first".to_owned(),
        });
    }
    let staging = path("staging_target_path", request.staging_target_path)?;
    driver.publish(&id, &staging, &target, &access, request.readonly)?;
    Ok(api::NodePublishVolumeResponse {})
}

fn unpublish(
    driver: &Driver,
    request: api::NodeUnpublishVolumeRequest,
) -> Result<api::NodeUnpublishVolumeResponse> {
    let id = volume(request.volume_id)?;
    let target = path("target_path", request.target_path)?;
    driver.unpublish(&id, &target)?;
    Ok(api::NodeUnpublishVolumeResponse {})
}

fn stats(
    driver: &Driver,
    request: api::NodeGetVolumeStatsRequest,
) -> Result<api::NodeGetVolumeStatsResponse> {
    let id = volume(request.volume_id)?;
    let volume_path = PathBuf::from(required("volume_path", request.volume_path)?);
    let stats = driver.stats(&id, &volume_path)?;
    let usage =
        |unit: api::UsageUnit, (available, total, used): (u64, u64, u64)| api::VolumeUsage {
            available: to_wire(available),
            total: to_wire(total),
            used: to_wire(used),
            unit: unit.into(),
        };
    let mut all = vec![usage(api::UsageUnit::Bytes, stats.bytes)];
    all.extend(
        stats
            .inodes
            .map(|inodes| usage(api::UsageUnit::Inodes, inodes)),
    );
    Ok(api::NodeGetVolumeStatsResponse { usage: all })
}

fn expand(
    driver: &Driver,
    request: api::NodeExpandVolumeRequest,
) -> Result<api::NodeExpandVolumeResponse> {
    let id = volume(request.volume_id)?;
    let volume_path = PathBuf::from(required("volume_path", request.volume_path)?);
    let range = Range::parse(&id, request.capacity_range)?;
    let bytes = driver.expand_on_node(&id, &volume_path, range, &request.secrets)?;
    Ok(api::NodeExpandVolumeResponse {
        capacity_bytes: to_wire(bytes),
    })
}

fn volume_health(
    driver: &Driver,
    request: api::NodeGetVolumeHealthRequest,
) -> Result<api::NodeGetVolumeHealthResponse> {
    let id = volume(request.volume_id)?;
    let findings = driver.volume_health(&id)?;
    Ok(api::NodeGetVolumeHealthResponse {
        volume_health: Some(health(&id, &findings)),
    })
}

#[expect(clippy::unnecessary_wraps, reason = "all calls have one shape")]
fn storage_health(
    driver: &Driver,
    _: api::NodeGetStorageHealthRequest,
) -> Result<api::NodeGetStorageHealthResponse> {
    let entry = |(class, finding): (String, crate::driver::health::Finding)| {
        let status = match finding.severity {
            Severity::Degraded => api::StorageHealthErrorType::StorageDegraded,
            Severity::Inaccessible | Severity::DataLoss => {
                api::StorageHealthErrorType::StorageUnreachable
            }
        };
        api::StorageBackendHealth {
            status: status.into(),
            reason: finding.reason.to_owned(),
            message: format!("class `{class}`: {}", finding.message),
            volume_capability: None,
        }
    };
    Ok(api::NodeGetStorageHealthResponse {
        backend_health: driver.storage_health().into_iter().map(entry).collect(),
    })
}

#[expect(clippy::unnecessary_wraps, reason = "all calls have one shape")]
fn capabilities(
    driver: &Driver,
    _: api::NodeGetCapabilitiesRequest,
) -> Result<api::NodeGetCapabilitiesResponse> {
    use api::Capability::{
        ExpandVolume, GetStorageHealth, GetVolumeHealth, GetVolumeStats, SingleNodeMultiWriter,
        StageUnstageVolume,
    };
    let all = [
        StageUnstageVolume,
        GetVolumeStats,
        ExpandVolume,
        SingleNodeMultiWriter,
        GetVolumeHealth,
        GetStorageHealth,
    ];
    let stores = driver.stores();
    let grows = stores.iter().any(|it| it.backend.features().expansion);
    let all = all.into_iter().filter(|it| grows || *it != ExpandVolume);
    let capability = |capability: api::Capability| api::NodeServiceCapability {
        rpc: Some(api::Rpc {
            r#type: capability.into(),
        }),
    };
    Ok(api::NodeGetCapabilitiesResponse {
        capabilities: all.map(capability).collect(),
    })
}

#[expect(clippy::unnecessary_wraps, reason = "all calls have one shape")]
fn info(driver: &Driver, _: api::NodeGetInfoRequest) -> Result<api::NodeGetInfoResponse> {
    Ok(api::NodeGetInfoResponse {
        node_id: driver.node.clone(),
        // Disks and loop devices are not counted out.
        max_volumes_per_node: 0,
        accessible_topology: Some(topology::of_node(&driver.node)),
    })
}

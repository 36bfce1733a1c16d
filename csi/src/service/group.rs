//! The GroupController service.

use csi_api as api;
use futures::future::BoxFuture;
use tonic::body::Body;

use super::controller::snapshot;
use super::{Answer, Services, required, unimplemented};
use crate::catalog::record::{GroupRecord, SnapshotRecord};
use crate::driver::{Driver, groups};
use crate::error::{Error, Result};
use crate::ids::of_snapshot_handle;

/// The GroupController service.
#[derive(Clone)]
pub(super) struct GroupController(pub(super) Services);

impl GroupController {
    pub(super) fn answer(
        &self,
        method: &str,
        request: http::Request<Body>,
    ) -> BoxFuture<'static, Answer> {
        let it = &self.0;
        match method {
            "GroupControllerGetCapabilities" => {
                it.unary("GroupControllerGetCapabilities", request, capabilities)
            }
            "CreateVolumeGroupSnapshot" => it.unary("CreateVolumeGroupSnapshot", request, create),
            "DeleteVolumeGroupSnapshot" => it.unary("DeleteVolumeGroupSnapshot", request, delete),
            "GetVolumeGroupSnapshot" => it.unary("GetVolumeGroupSnapshot", request, get),
            _ => unimplemented(method),
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "all calls have one shape")]
fn capabilities(
    _: &Driver,
    _: api::GroupControllerGetCapabilitiesRequest,
) -> Result<api::GroupControllerGetCapabilitiesResponse> {
    let capability = api::GroupControllerCapability::CreateDeleteGetVolumeGroupSnapshot;
    Ok(api::GroupControllerGetCapabilitiesResponse {
        capabilities: vec![api::GroupControllerServiceCapability {
            rpc: Some(api::GroupControllerRpc {
                r#type: capability.into(),
            }),
        }],
    })
}

fn group(
    driver: &Driver,
    record: &GroupRecord,
    members: &[SnapshotRecord],
) -> api::VolumeGroupSnapshot {
    let all = members.iter();
    api::VolumeGroupSnapshot {
        group_snapshot_id: record.id.clone(),
        snapshots: all.map(|record| snapshot(driver, record)).collect(),
        creation_time: Some(api::Timestamp {
            seconds: record.created,
            nanos: 0,
        }),
        ready_to_use: true,
    }
}

/// Returns the driver's own identifiers of snapshots.
fn own_ids(driver: &Driver, ids: Vec<String>) -> Vec<String> {
    let own = |id| of_snapshot_handle(id, &driver.node);
    ids.into_iter().map(own).collect()
}

fn create(
    driver: &Driver,
    request: api::CreateVolumeGroupSnapshotRequest,
) -> Result<api::CreateVolumeGroupSnapshotResponse> {
    let name = required("name", request.name)?;
    if request.source_volume_ids.is_empty() {
        return Err(Error::Missing {
            field: "source_volume_ids",
        });
    }
    let (record, members) = driver.create_group(&name, &request.source_volume_ids)?;
    Ok(api::CreateVolumeGroupSnapshotResponse {
        group_snapshot: Some(group(driver, &record, &members)),
    })
}

fn delete(
    driver: &Driver,
    request: api::DeleteVolumeGroupSnapshotRequest,
) -> Result<api::DeleteVolumeGroupSnapshotResponse> {
    let id = required("group_snapshot_id", request.group_snapshot_id)?;
    driver.delete_group(&id, &own_ids(driver, request.snapshot_ids))?;
    Ok(api::DeleteVolumeGroupSnapshotResponse {})
}

fn get(
    driver: &Driver,
    request: api::GetVolumeGroupSnapshotRequest,
) -> Result<api::GetVolumeGroupSnapshotResponse> {
    let id = required("group_snapshot_id", request.group_snapshot_id)?;
    let (_, record, members) = driver.group(&id)?;
    groups::check_members(&record, &own_ids(driver, request.snapshot_ids))?;
    Ok(api::GetVolumeGroupSnapshotResponse {
        group_snapshot: Some(group(driver, &record, &members)),
    })
}

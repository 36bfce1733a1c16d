//! The Controller service.

use std::collections::BTreeMap;

use csi_api as api;
use futures::future::BoxFuture;
use tonic::body::Body;

use super::{Answer, Services, class, required, unimplemented};
use crate::catalog::record::{Origin, SnapshotRecord, VolumeRecord};
use crate::driver::health::{Finding, Severity};
use crate::driver::volumes::NewVolume;
use crate::driver::{Driver, NAME};
use crate::error::{Error, Result};
use crate::filesystem::mounts::MountTable;
use crate::ids::{self, NAME_LIMIT};
use crate::request::access::Access;
use crate::request::size::{Range, to_wire};
use crate::request::{pages, topology};

/// The Controller service.
#[derive(Clone)]
pub(super) struct Controller(pub(super) Services);

impl Controller {
    pub(super) fn answer(
        &self,
        method: &str,
        request: http::Request<Body>,
    ) -> BoxFuture<'static, Answer> {
        let it = &self.0;
        match method {
            "CreateVolume" => it.unary("CreateVolume", request, create_volume),
            "DeleteVolume" => it.unary("DeleteVolume", request, delete_volume),
            "ValidateVolumeCapabilities" => {
                it.unary("ValidateVolumeCapabilities", request, validate)
            }
            "ListVolumes" => it.unary("ListVolumes", request, list_volumes),
            "ControllerGetVolume" => it.unary("ControllerGetVolume", request, get_volume),
            "GetCapacity" => it.unary("GetCapacity", request, capacity),
            "ControllerGetCapabilities" => {
                it.unary("ControllerGetCapabilities", request, capabilities)
            }
            "CreateSnapshot" => it.unary("CreateSnapshot", request, create_snapshot),
            "DeleteSnapshot" => it.unary("DeleteSnapshot", request, delete_snapshot),
            "ListSnapshots" => it.unary("ListSnapshots", request, list_snapshots),
            "GetSnapshot" => it.unary("GetSnapshot", request, get_snapshot),
            "ControllerExpandVolume" => it.unary("ControllerExpandVolume", request, expand),
            "ControllerModifyVolume" => it.unary("ControllerModifyVolume", request, modify),
            "ControllerGetVolumeHealth" => {
                it.unary("ControllerGetVolumeHealth", request, get_health)
            }
            "ControllerListVolumeHealth" => {
                it.unary("ControllerListVolumeHealth", request, list_health)
            }
            // ControllerPublishVolume: a local volume is attached to its node.
            _ => unimplemented(method),
        }
    }
}

fn checked_name(name: String) -> Result<String> {
    let name = required("name", name)?;
    if name.len() > NAME_LIMIT {
        let expected = format!("at most {NAME_LIMIT} bytes");
        return Err(Error::invalid("name", name, expected));
    }
    Ok(name)
}

fn origin(driver: &Driver, source: Option<api::VolumeContentSource>) -> Result<Option<Origin>> {
    let Some(source) = source else {
        return Ok(None);
    };
    match (source.snapshot, source.volume) {
        (Some(snapshot), None) => {
            let field = "volume_content_source.snapshot.snapshot_id";
            let id = snapshot_id(driver, field, snapshot.snapshot_id)?;
            Ok(Some(Origin::Snapshot(id)))
        }
        (None, Some(volume)) => {
            let field = "volume_content_source.volume.volume_id";
            Ok(Some(Origin::Volume(required(field, volume.volume_id)?)))
        }
        _ => Err(Error::Missing {
            field: "volume_content_source (exactly one of `snapshot` and `volume`)",
        }),
    }
}

fn create_volume(
    driver: &Driver,
    request: api::CreateVolumeRequest,
) -> Result<api::CreateVolumeResponse> {
    let name = checked_name(request.name)?;
    let new = NewVolume {
        range: Range::parse(&name, request.capacity_range)?,
        access: Access::parse_all(&request.volume_capabilities)?,
        class: class(&request.parameters)?,
        origin: origin(driver, request.volume_content_source)?,
        mutable: request.mutable_parameters,
        ephemeral: None,
        name,
    };
    topology::check(request.accessibility_requirements.as_ref(), &driver.node)?;
    let (_, record) = driver.create_volume(&new)?;
    Ok(api::CreateVolumeResponse {
        volume: Some(volume(driver, &record)),
    })
}

fn volume(driver: &Driver, record: &VolumeRecord) -> api::Volume {
    let content_source = record.origin.as_ref().map(|origin| match origin {
        Origin::Snapshot(id) => api::VolumeContentSource {
            snapshot: Some(api::SnapshotSource {
                snapshot_id: ids::snapshot_handle(id, &driver.node),
            }),
            volume: None,
        },
        Origin::Volume(id) => api::VolumeContentSource {
            snapshot: None,
            volume: Some(api::VolumeSource {
                volume_id: id.clone(),
            }),
        },
    });
    api::Volume {
        capacity_bytes: to_wire(record.bytes),
        volume_id: record.id.clone(),
        volume_context: context(driver, record),
        content_source,
        accessible_topology: vec![topology::of_node(&driver.node)],
    }
}

/// Describes the storage of a volume for people: its class, its backend, its location,
/// and the disk.
fn context(driver: &Driver, record: &VolumeRecord) -> BTreeMap<String, String> {
    let Ok((store, _)) = driver.volume(&record.id) else {
        return BTreeMap::new();
    };
    let location = store.backend.location(record);
    let mounts = MountTable::read().ok();
    // A file or folder is on a disk that is mounted; a device is one.
    let disk = mounts.as_ref().and_then(|mounts| {
        let mount = mounts.containing(&location)?;
        (!location.starts_with("/dev")).then(|| mount.source.display().to_string())
    });
    let all = [
        ("class", Some(store.class.name.clone())),
        ("backend", Some(store.class.backend.name().to_owned())),
        ("location", Some(location.display().to_string())),
        ("disk", disk),
    ];
    let named = |(name, text): (&str, Option<String>)| Some((format!("{NAME}/{name}"), text?));
    all.into_iter().filter_map(named).collect()
}

fn delete_volume(
    driver: &Driver,
    request: api::DeleteVolumeRequest,
) -> Result<api::DeleteVolumeResponse> {
    driver.delete_volume(&required("volume_id", request.volume_id)?)?;
    Ok(api::DeleteVolumeResponse {})
}

fn validate(
    driver: &Driver,
    request: api::ValidateVolumeCapabilitiesRequest,
) -> Result<api::ValidateVolumeCapabilitiesResponse> {
    let id = required("volume_id", request.volume_id)?;
    if request.volume_capabilities.is_empty() {
        return Err(Error::Missing {
            field: "volume_capabilities",
        });
    }
    let (_, record) = driver.volume(&id)?;
    let fits = Access::parse_all(&request.volume_capabilities).and_then(|all| {
        let block = all
            .iter()
            .any(|it| it.kind == crate::request::access::AccessKind::Block);
        let fs_type = all.iter().find_map(Access::fs_type);
        if block != record.block {
            let expected = "the volume was created with the other access type";
            return Err(Error::invalid("access_type", "other", expected));
        }
        match (fs_type, record.requested) {
            (Some(wanted), Some(has)) if wanted != has => {
                let expected = format!("the volume holds {}", has.name());
                Err(Error::invalid("fs_type", wanted.name(), expected))
            }
            _ => Ok(()),
        }
    });
    Ok(match fits {
        Ok(()) => api::ValidateVolumeCapabilitiesResponse {
            confirmed: Some(api::Confirmed {
                volume_context: request.volume_context,
                volume_capabilities: request.volume_capabilities,
                parameters: request.parameters,
                mutable_parameters: request.mutable_parameters,
            }),
            message: String::new(),
        },
        Err(error) => api::ValidateVolumeCapabilitiesResponse {
            confirmed: None,
            message: error.chain(),
        },
    })
}

fn list_volumes(
    driver: &Driver,
    request: api::ListVolumesRequest,
) -> Result<api::ListVolumesResponse> {
    let mut all: Vec<(String, VolumeRecord)> = Vec::new();
    for store in driver.stores() {
        let entries = store.catalog.entries();
        all.extend(
            entries
                .volumes
                .iter()
                .map(|(id, record)| (id.clone(), record.clone())),
        );
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    let (page, next_token) = pages::cut(all, &request.starting_token, request.max_entries)?;
    let entry = |record: &VolumeRecord| api::ListVolumesEntry {
        volume: Some(volume(driver, record)),
        status: None,
    };
    Ok(api::ListVolumesResponse {
        entries: page.iter().map(entry).collect(),
        next_token,
    })
}

fn get_volume(
    driver: &Driver,
    request: api::ControllerGetVolumeRequest,
) -> Result<api::ControllerGetVolumeResponse> {
    let (_, record) = driver.volume(&required("volume_id", request.volume_id)?)?;
    Ok(api::ControllerGetVolumeResponse {
        volume: Some(volume(driver, &record)),
        status: Some(api::VolumeStatus::default()),
    })
}

fn capacity(driver: &Driver, request: api::GetCapacityRequest) -> Result<api::GetCapacityResponse> {
    let elsewhere = |it: &api::Topology| !topology::contains(it, &driver.node);
    if request.accessible_topology.as_ref().is_some_and(elsewhere) {
        return Ok(api::GetCapacityResponse::default());
    }
    if !request.volume_capabilities.is_empty() {
        Access::parse_all(&request.volume_capabilities)?;
    }
    let store = driver.class(class(&request.parameters)?.as_deref())?;
    let space = store.space()?;
    let value = |bytes| {
        Some(api::Int64Value {
            value: to_wire(bytes),
        })
    };
    Ok(api::GetCapacityResponse {
        available_capacity: to_wire(space.available),
        maximum_volume_size: value(space.largest),
        minimum_volume_size: value(store.backend.bounds().minimum),
    })
}

#[expect(clippy::unnecessary_wraps, reason = "all calls have one shape")]
fn capabilities(
    driver: &Driver,
    _: api::ControllerGetCapabilitiesRequest,
) -> Result<api::ControllerGetCapabilitiesResponse> {
    use api::ControllerCapability::{
        CloneVolume, CreateDeleteSnapshot, CreateDeleteVolume, ExpandVolume, GetCapacity,
        GetSnapshot, GetVolume, GetVolumeHealth, ListSnapshots, ListVolumeHealth, ListVolumes,
        ModifyVolume, SingleNodeMultiWriter,
    };
    let all = [
        CreateDeleteVolume,
        ListVolumes,
        GetCapacity,
        CreateDeleteSnapshot,
        ListSnapshots,
        CloneVolume,
        ExpandVolume,
        GetVolume,
        SingleNodeMultiWriter,
        ModifyVolume,
        GetSnapshot,
        GetVolumeHealth,
        ListVolumeHealth,
    ]
    .into_iter();
    let features: Vec<_> = driver
        .stores()
        .iter()
        .map(|it| it.backend.features())
        .collect();
    let named = |it: &api::ControllerCapability| match it {
        CreateDeleteSnapshot | ListSnapshots | GetSnapshot => {
            features.iter().any(|it| it.snapshots)
        }
        CloneVolume => features.iter().any(|it| it.clones),
        // A stock resizer would consider both reachable.
        ExpandVolume => !driver.expands_on_node && features.iter().any(|it| it.expansion),
        ModifyVolume => !driver.expands_on_node,
        _ => true,
    };
    let capability = |capability: api::ControllerCapability| api::ControllerServiceCapability {
        rpc: Some(api::ControllerRpc {
            r#type: capability.into(),
        }),
    };
    Ok(api::ControllerGetCapabilitiesResponse {
        capabilities: all.filter(named).map(capability).collect(),
    })
}

/// Returns the driver's own identifier of the snapshot that a request names.
pub(super) fn snapshot_id(driver: &Driver, field: &'static str, id: String) -> Result<String> {
    Ok(ids::of_snapshot_handle(required(field, id)?, &driver.node))
}

pub(super) fn snapshot(driver: &Driver, record: &SnapshotRecord) -> api::Snapshot {
    api::Snapshot {
        size_bytes: to_wire(record.bytes),
        snapshot_id: ids::snapshot_handle(&record.id, &driver.node),
        source_volume_id: record.source.clone(),
        creation_time: Some(api::Timestamp {
            seconds: record.created,
            nanos: 0,
        }),
        ready_to_use: true,
        group_snapshot_id: record.group.clone().unwrap_or_default(),
        // Only with the plugin's capability for it, which is alpha.
        accessible_topology: Vec::new(),
    }
}

fn create_snapshot(
    driver: &Driver,
    request: api::CreateSnapshotRequest,
) -> Result<api::CreateSnapshotResponse> {
    let name = checked_name(request.name)?;
    let source = required("source_volume_id", request.source_volume_id)?;
    topology::check(request.accessibility_requirements.as_ref(), &driver.node)?;
    let record = driver.create_snapshot(&name, &source)?;
    Ok(api::CreateSnapshotResponse {
        snapshot: Some(snapshot(driver, &record)),
    })
}

fn delete_snapshot(
    driver: &Driver,
    request: api::DeleteSnapshotRequest,
) -> Result<api::DeleteSnapshotResponse> {
    driver.delete_snapshot(&snapshot_id(driver, "snapshot_id", request.snapshot_id)?)?;
    Ok(api::DeleteSnapshotResponse {})
}

fn list_snapshots(
    driver: &Driver,
    request: api::ListSnapshotsRequest,
) -> Result<api::ListSnapshotsResponse> {
    let id = ids::of_snapshot_handle(request.snapshot_id, &driver.node);
    let wanted = |record: &SnapshotRecord| {
        let is = |filter: &str, value: &str| filter.is_empty() || filter == value;
        is(&id, &record.id) && is(&request.source_volume_id, &record.source)
    };
    let mut all: Vec<(String, SnapshotRecord)> = Vec::new();
    for store in driver.stores() {
        let entries = store.catalog.entries();
        let found = entries.snapshots.values().filter(|record| wanted(record));
        all.extend(found.map(|record| (record.id.clone(), record.clone())));
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    let (page, next_token) = pages::cut(all, &request.starting_token, request.max_entries)?;
    let entry = |record: &SnapshotRecord| api::ListSnapshotsEntry {
        snapshot: Some(snapshot(driver, record)),
    };
    Ok(api::ListSnapshotsResponse {
        entries: page.iter().map(entry).collect(),
        next_token,
    })
}

fn get_snapshot(
    driver: &Driver,
    request: api::GetSnapshotRequest,
) -> Result<api::GetSnapshotResponse> {
    let (_, record) = driver.snapshot(&snapshot_id(driver, "snapshot_id", request.snapshot_id)?)?;
    Ok(api::GetSnapshotResponse {
        snapshot: Some(snapshot(driver, &record)),
    })
}

fn expand(
    driver: &Driver,
    request: api::ControllerExpandVolumeRequest,
) -> Result<api::ControllerExpandVolumeResponse> {
    let id = required("volume_id", request.volume_id)?;
    if request.capacity_range.is_none() {
        return Err(Error::Missing {
            field: "capacity_range",
        });
    }
    let range = Range::parse(&id, request.capacity_range)?;
    let (record, node_expansion_required) = driver.expand_volume(&id, range)?;
    Ok(api::ControllerExpandVolumeResponse {
        capacity_bytes: to_wire(record.bytes),
        node_expansion_required,
    })
}

fn modify(
    driver: &Driver,
    request: api::ControllerModifyVolumeRequest,
) -> Result<api::ControllerModifyVolumeResponse> {
    let id = required("volume_id", request.volume_id)?;
    driver.modify_volume(&id, &request.mutable_parameters)?;
    Ok(api::ControllerModifyVolumeResponse {})
}

pub(super) fn health(id: &str, findings: &[Finding]) -> api::VolumeHealth {
    let entry = |finding: &Finding| api::VolumeHealthEntry {
        status: match finding.severity {
            Severity::Degraded => api::VolumeHealthErrorType::Degraded,
            Severity::Inaccessible => api::VolumeHealthErrorType::Inaccessible,
            Severity::DataLoss => api::VolumeHealthErrorType::DataLoss,
        }
        .into(),
        reason: finding.reason.to_owned(),
        message: finding.message.clone(),
    };
    api::VolumeHealth {
        volume_id: id.to_owned(),
        health_statuses: findings.iter().map(entry).collect(),
    }
}

fn get_health(
    driver: &Driver,
    request: api::ControllerGetVolumeHealthRequest,
) -> Result<api::ControllerGetVolumeHealthResponse> {
    let id = required("volume_id", request.volume_id)?;
    let findings = driver.volume_health(&id)?;
    Ok(api::ControllerGetVolumeHealthResponse {
        volume_health: Some(health(&id, &findings)),
    })
}

fn list_health(
    driver: &Driver,
    request: api::ControllerListVolumeHealthRequest,
) -> Result<api::ControllerListVolumeHealthResponse> {
    // The specification lets a driver list the volumes that are not well only.
    let mut all: Vec<(String, api::VolumeHealth)> = Vec::new();
    for (id, findings) in driver
        .all_health()
        .into_iter()
        .filter(|(_, it)| !it.is_empty())
    {
        let health = health(&id, &findings);
        all.push((id, health));
    }
    let (entries, next_token) = pages::cut(all, &request.starting_token, request.max_entries)?;
    Ok(api::ControllerListVolumeHealthResponse {
        entries,
        next_token,
    })
}

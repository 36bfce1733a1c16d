//! The Identity service.

use csi_api as api;
use futures::future::BoxFuture;
use tonic::body::Body;

use super::{Answer, Services, unimplemented};
use crate::driver::{Driver, NAME};
use crate::error::Result;

/// The Identity service.
#[derive(Clone)]
pub(super) struct Identity(pub(super) Services);

impl Identity {
    pub(super) fn answer(
        &self,
        method: &str,
        request: http::Request<Body>,
    ) -> BoxFuture<'static, Answer> {
        match method {
            "GetPluginInfo" => self.0.unary("GetPluginInfo", request, info),
            "GetPluginCapabilities" => self.0.unary("GetPluginCapabilities", request, capabilities),
            "Probe" => self.0.unary("Probe", request, probe),
            _ => unimplemented(method),
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "all calls have one shape")]
fn info(_: &Driver, _: api::GetPluginInfoRequest) -> Result<api::GetPluginInfoResponse> {
    Ok(api::GetPluginInfoResponse {
        name: NAME.to_owned(),
        vendor_version: env!("CARGO_PKG_VERSION").to_owned(),
        manifest: Default::default(),
    })
}

#[expect(clippy::unnecessary_wraps, reason = "all calls have one shape")]
fn capabilities(
    driver: &Driver,
    _: api::GetPluginCapabilitiesRequest,
) -> Result<api::GetPluginCapabilitiesResponse> {
    use api::PluginServiceType::{
        ControllerService, GroupControllerService, SnapshotMetadataService,
        VolumeAccessibilityConstraints,
    };
    let features: Vec<_> = driver
        .stores()
        .iter()
        .map(|it| it.backend.features())
        .collect();
    let mut services = vec![ControllerService, VolumeAccessibilityConstraints];
    if features.iter().any(|it| it.groups) {
        services.push(GroupControllerService);
    }
    if features.iter().any(|it| it.changed_blocks) {
        services.push(SnapshotMetadataService);
    }
    let service = |service: api::PluginServiceType| api::PluginCapability {
        service: Some(api::PluginService {
            r#type: service.into(),
        }),
        volume_expansion: None,
    };
    let mut capabilities: Vec<_> = services.into_iter().map(service).collect();
    if features.iter().any(|it| it.expansion) {
        capabilities.push(api::PluginCapability {
            service: None,
            volume_expansion: Some(api::PluginVolumeExpansion {
                r#type: api::VolumeExpansionType::Online.into(),
            }),
        });
    }
    Ok(api::GetPluginCapabilitiesResponse { capabilities })
}

/// The driver is ready when a class can be used.
#[expect(clippy::unnecessary_wraps, reason = "all calls have one shape")]
fn probe(driver: &Driver, _: api::ProbeRequest) -> Result<api::ProbeResponse> {
    Ok(api::ProbeResponse {
        ready: Some(api::BoolValue {
            value: !driver.stores().is_empty(),
        }),
    })
}

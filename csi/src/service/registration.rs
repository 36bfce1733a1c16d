//! Registration with a kubelet, without a sidecar: a socket in the kubelet's
//! `plugins_registry`.

use std::path::PathBuf;

use csi_api::registration::{
    InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse,
};
use futures::future::BoxFuture;
use tonic::body::Body;

use super::{Answer, Services};
use crate::driver::NAME;

/// The Registration service.
#[derive(Clone)]
pub(super) struct Registration {
    services: Services,
    endpoint: PathBuf,
}

impl Registration {
    /// Announces that the driver answers at a socket.
    pub(super) fn new(services: Services, endpoint: PathBuf) -> Self {
        Self { services, endpoint }
    }

    pub(super) fn info(&self, request: http::Request<Body>) -> BoxFuture<'static, Answer> {
        let endpoint = self.endpoint.display().to_string();
        self.services
            .unary("GetInfo", request, move |_, _: InfoRequest| {
                Ok(PluginInfo {
                    r#type: "CSIPlugin".to_owned(),
                    name: NAME.to_owned(),
                    endpoint,
                    supported_versions: vec!["1.0.0".to_owned()],
                })
            })
    }

    pub(super) fn status(&self, request: http::Request<Body>) -> BoxFuture<'static, Answer> {
        let method = "NotifyRegistrationStatus";
        self.services
            .unary(method, request, |_, status: RegistrationStatus| {
                if status.plugin_registered {
                    tracing::info!("registered with the kubelet");
                } else {
                    tracing::error!(error = status.error, "kubelet rejected the driver");
                }
                Ok(RegistrationStatusResponse {})
            })
    }
}

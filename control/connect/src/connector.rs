//! By which ways nodes, pods and Services are reached.

use control_proxy::Kubelets;
use control_proxy::egress::Dialer;
use control_types::status::Status;

/// By which ways nodes, pods and Services are reached.
#[derive(Debug, Clone)]
pub struct Connector {
    kubelets: Option<Kubelets>,
    pub(crate) dialer: Dialer,
}

impl Connector {
    /// Reaches nodes' agents by `kubelets`, and everything else in the cluster by `dialer`.
    #[must_use]
    pub fn new(kubelets: Option<Kubelets>, dialer: Dialer) -> Self {
        Self { kubelets, dialer }
    }

    /// Credentials towards kubelets.
    ///
    /// # Errors
    /// 503 when this server was started without.
    pub(crate) fn kubelets(&self) -> Result<&Kubelets, Status> {
        self.kubelets.as_ref().ok_or_else(|| {
            Status::service_unavailable("this server has no credentials towards kubelets")
        })
    }
}

//! The way to nodes' agents: where a node's kubelet listens, and the
//! credentials that this server shows there.

use std::sync::Arc;

use arc_swap::ArcSwap;
use control_pki::Issued;
use control_types::status::Status;
use control_types::value::Value;
use rustls::ClientConfig;

use crate::egress::Dialer;
use crate::egress::target::Target;

/// Port of a kubelet whose node does not name one.
const PORT: u16 = 10250;

/// Kinds of a node's addresses, the one to be tried before the others first.
const ADDRESSES: [&str; 3] = ["InternalIP", "ExternalIP", "Hostname"];

/// What a node says in `status.declaredFeatures` when its kubelet takes
/// WebSocket streams as they come from clients (KEP-4006).
const WEBSOCKETS: &str = "ExtendWebSocketsToKubelet";

/// Credentials towards kubelets. Cheap to clone.
#[derive(Clone)]
pub struct Kubelets {
    verified: Arc<ArcSwap<ClientConfig>>,
    unverified: Arc<ArcSwap<ClientConfig>>,
    dialer: Dialer,
}

/// Where one node's kubelet is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// An address or a host's name.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Whether it translates WebSocket streams itself.
    pub websockets: bool,
}

// === impl Kubelets ===

impl Kubelets {
    /// Shows `own` to kubelets (`Cluster::kubelet_client`) and believes those
    /// whose serving certificate is of the authority `ca_pem`.
    ///
    /// # Errors
    /// When one of them cannot be read.
    pub fn new(ca_pem: &str, own: &Issued) -> Result<Self, control_pki::Error> {
        let (verified, unverified) = Self::configs(ca_pem, own)?;
        Ok(Self {
            verified: Arc::new(ArcSwap::from_pointee(verified)),
            unverified: Arc::new(ArcSwap::from_pointee(unverified)),
            dialer: Dialer::default(),
        })
    }

    /// The same credentials, for kubelets that are reached by this way.
    #[must_use]
    pub fn by(self, dialer: Dialer) -> Self {
        Self { dialer, ..self }
    }

    /// Uses other credentials for connections from now on.
    ///
    /// # Errors
    /// As [`Kubelets::new`]; the old ones then stay.
    pub fn replace(&self, ca_pem: &str, own: &Issued) -> Result<(), control_pki::Error> {
        let (verified, unverified) = Self::configs(ca_pem, own)?;
        self.verified.store(Arc::new(verified));
        self.unverified.store(Arc::new(unverified));
        Ok(())
    }

    /// A node's kubelet as the target of a connection; `verify` is false only
    /// for clients that ask for it (`insecureSkipTLSVerifyBackend`).
    #[must_use]
    pub fn target(&self, endpoint: &Endpoint, verify: bool) -> Target {
        let config = if verify {
            &self.verified
        } else {
            &self.unverified
        };
        Target {
            host: endpoint.host.clone(),
            port: endpoint.port,
            tls: Some(config.load_full()),
            server_name: None,
            dialer: self.dialer.clone(),
        }
    }

    fn configs(
        ca_pem: &str,
        own: &Issued,
    ) -> Result<(ClientConfig, ClientConfig), control_pki::Error> {
        let verified = control_pki::client_config(ca_pem, Some(own))?;
        let mut blind = verified.clone();
        blind
            .dangerous()
            .set_certificate_verifier(control_pki::any_server());
        Ok((verified, blind))
    }
}

impl std::fmt::Debug for Kubelets {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Kubelets").finish_non_exhaustive()
    }
}

// === impl Endpoint ===

impl Endpoint {
    /// Reads it from a Node.
    ///
    /// # Errors
    /// 500 when the node has no address of a kind that can be used.
    pub fn of(node: &Value) -> Result<Self, Status> {
        let addresses = node.items_at(&["status", "addresses"]);
        let host = ADDRESSES
            .iter()
            .find_map(|kind| {
                addresses
                    .iter()
                    .find(|address| address.str_at(&["type"]) == Some(kind))?
                    .str_at(&["address"])
            })
            .ok_or_else(|| {
                let kinds = ADDRESSES.join(" ");
                crate::proxy::plain_error(format!(
                    "no preferred addresses found; known addresses: {}; preferred: [{kinds}]",
                    String::from_utf8_lossy(&Value::Array(addresses.to_vec()).to_vec())
                ))
            })?;
        let port = node
            .i64_at(&["status", "daemonEndpoints", "kubeletEndpoint", "Port"])
            .and_then(|port| u16::try_from(port).ok())
            .filter(|port| *port != 0)
            .unwrap_or(PORT);
        let websockets = node
            .items_at(&["status", "declaredFeatures"])
            .iter()
            .any(|feature| feature.as_str() == Some(WEBSOCKETS));
        Ok(Self {
            host: host.to_owned(),
            port,
            websockets,
        })
    }
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    #[test]
    fn the_internal_address_comes_before_the_name() {
        let node = value!({"status": {
            "addresses": [
                {"type": "Hostname", "address": "node-1"},
                {"type": "InternalIP", "address": "10.0.0.7"},
                {"type": "InternalIP", "address": "fd00::7"}
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10350}},
            "declaredFeatures": ["Other", "ExtendWebSocketsToKubelet"]
        }});
        let expected = Endpoint {
            host: "10.0.0.7".into(),
            port: 10350,
            websockets: true,
        };
        assert_eq!(Endpoint::of(&node), Ok(expected));
    }

    #[test]
    fn a_node_that_says_only_its_name_is_asked_at_the_usual_port() {
        let node = value!({"status": {"addresses": [{"type": "Hostname", "address": "node-1"}]}});
        let expected = Endpoint {
            host: "node-1".into(),
            port: 10250,
            websockets: false,
        };
        assert_eq!(Endpoint::of(&node), Ok(expected));
    }

    #[test]
    fn a_node_without_addresses_cannot_be_asked() {
        let refused = Endpoint::of(&value!({"status": {}})).expect_err("no address");
        assert_eq!(refused.code, 500);
        assert!(refused.message.starts_with("no preferred addresses found"));
    }
}

//! Connections to kubelets: where a node's kubelet listens, and the client credentials
//! that this server presents.

use std::sync::Arc;

use arc_swap::ArcSwap;
use control_pki::CertificateKeyPair;
use control_types::meta;
use control_types::status::Status;
use control_types::value::Value;
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::client::danger::ServerCertVerifier;

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
    shared: Arc<ArcSwap<Configs>>,
    dialer: Dialer,
}

struct Configs {
    verifier: Arc<dyn ServerCertVerifier>,
    /// Session resumption is disabled: a resumed session skips the verification of the
    /// certificate, and each node's certificate must be verified for that node.
    verified: ClientConfig,
    unverified: Arc<ClientConfig>,
}

/// Where one node's kubelet is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Name of the node.
    pub node: String,
    /// An address or a host's name.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Whether it translates WebSocket streams itself.
    pub websockets: bool,
}

// === impl Kubelets ===

impl Kubelets {
    /// Shows `own` to kubelets (`Cluster::kubelet_client`) and accepts those whose serving
    /// certificate an authority in `ca_pem` signed for their node (`system:node:NAME`).
    ///
    /// # Errors
    /// When one of them cannot be read.
    pub fn new(ca_pem: &str, own: &CertificateKeyPair) -> Result<Self, control_pki::Error> {
        Ok(Self {
            shared: Arc::new(ArcSwap::from_pointee(Configs::new(ca_pem, own)?)),
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
    pub fn replace(
        &self,
        ca_pem: &str,
        own: &CertificateKeyPair,
    ) -> Result<(), control_pki::Error> {
        self.shared.store(Arc::new(Configs::new(ca_pem, own)?));
        Ok(())
    }

    /// A node's kubelet as the target of a connection; `verify` is false only
    /// for clients that ask for it (`insecureSkipTLSVerifyBackend`).
    #[must_use]
    pub fn target(&self, endpoint: &Endpoint, verify: bool) -> Target {
        let configs = self.shared.load();
        let config = if verify {
            configs.for_node(&endpoint.node)
        } else {
            Arc::clone(&configs.unverified)
        };
        Target {
            host: endpoint.host.clone(),
            port: endpoint.port,
            tls: Some(config),
            server_name: None,
            dialer: self.dialer.clone(),
        }
    }
}

// === impl Configs ===

impl Configs {
    fn new(ca_pem: &str, own: &CertificateKeyPair) -> Result<Self, control_pki::Error> {
        let mut verified = control_pki::client_config(ca_pem, Some(own))?;
        let mut unverified = verified.clone();
        unverified
            .dangerous()
            .set_certificate_verifier(control_pki::any_server());
        verified.resumption = Resumption::disabled();
        Ok(Self {
            verifier: control_pki::server_verifier(ca_pem)?,
            verified,
            unverified: Arc::new(unverified),
        })
    }

    /// Returns a client that accepts the kubelet of this node alone.
    fn for_node(&self, node: &str) -> Arc<ClientConfig> {
        let mut config = self.verified.clone();
        let subject = format!("system:node:{node}");
        let verifier = control_pki::verify_subject(Arc::clone(&self.verifier), subject);
        config.dangerous().set_certificate_verifier(verifier);
        Arc::new(config)
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
    pub fn from_node(node: &Value) -> Result<Self, Status> {
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
                control_request::plain_error(format!(
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
            node: meta::name(node).to_owned(),
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
        let node = value!({"metadata": {"name": "n1"}, "status": {
            "addresses": [
                {"type": "Hostname", "address": "node-1"},
                {"type": "InternalIP", "address": "10.0.0.7"},
                {"type": "InternalIP", "address": "fd00::7"}
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10350}},
            "declaredFeatures": ["Other", "ExtendWebSocketsToKubelet"]
        }});
        let expected = Endpoint {
            node: "n1".into(),
            host: "10.0.0.7".into(),
            port: 10350,
            websockets: true,
        };
        assert_eq!(Endpoint::from_node(&node), Ok(expected));
    }

    #[test]
    fn a_node_that_says_only_its_name_is_asked_at_the_usual_port() {
        let node = value!({"status": {"addresses": [{"type": "Hostname", "address": "node-1"}]}});
        let expected = Endpoint {
            node: String::new(),
            host: "node-1".into(),
            port: 10250,
            websockets: false,
        };
        assert_eq!(Endpoint::from_node(&node), Ok(expected));
    }

    #[test]
    fn a_node_without_addresses_cannot_be_asked() {
        let refused = Endpoint::from_node(&value!({"status": {}})).expect_err("no address");
        assert_eq!(refused.code, 500);
        assert!(refused.message.starts_with("no preferred addresses found"));
    }
}

//! Requests for certificates.

use std::collections::BTreeMap;

use control_client::Meta;
use serde::Deserialize;

use super::common::{Condition, Text, list, null_as_default};

/// A request for a certificate (`certificates.k8s.io/v1`).
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct CertificateSigningRequest {
    /// Name, uid, creation time.
    pub metadata: Meta,
    /// The request and its sender.
    pub spec: RequestSpec,
    /// The decision.
    pub status: RequestStatus,
}

/// The request and its sender; immutable.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestSpec {
    /// The PKCS #10 request: PEM, in base64.
    pub request: String,
    /// The requested signer.
    pub signer_name: Text,
    /// The requested usages.
    #[serde(deserialize_with = "list")]
    pub usages: Vec<Text>,
    /// For how long, if not for the usual time.
    pub expiration_seconds: Option<i64>,
    /// The sender's user name, as recorded by the API server.
    pub username: Text,
    /// The sender's uid.
    pub uid: Text,
    /// The sender's groups.
    #[serde(deserialize_with = "list")]
    pub groups: Vec<Text>,
    /// Further attributes of the sender.
    #[serde(deserialize_with = "null_as_default")]
    pub extra: BTreeMap<String, Vec<Text>>,
}

/// The decision.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct RequestStatus {
    /// `Approved`, `Denied`, `Failed`.
    #[serde(deserialize_with = "list")]
    pub conditions: Vec<Condition>,
    /// The certificate: PEM, in base64; empty until it is signed.
    #[serde(deserialize_with = "null_as_default")]
    pub certificate: String,
}

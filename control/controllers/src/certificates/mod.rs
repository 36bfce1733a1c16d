//! CertificateSigningRequests: approved by rule, signed by the cluster's authority,
//! deleted when old.

mod approving;
mod cleaning;
mod kubelet;
mod pod_requests;
mod serving;
mod signing;

pub(crate) use approving::CONTROLLER as APPROVING;
pub(crate) use cleaning::CONTROLLER as CLEANING;
pub(crate) use pod_requests::CONTROLLER as POD_REQUESTS;
pub(crate) use signing::CONTROLLER as SIGNING;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use control_client::{Client, Error, resources};
use control_pki::CertificateRequest;
use serde_json::Value;

use crate::views::{CertificateSigningRequest, Text};
use crate::work;

/// For clients of the API server that are nodes' agents.
const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// For the serving API of nodes' agents.
const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
/// For any client of the API server.
const CLIENT: &str = "kubernetes.io/kube-apiserver-client";

impl CertificateSigningRequest {
    /// Returns the parsed request if it is valid and its signature verified.
    fn read(&self) -> Option<CertificateRequest> {
        let pem = STANDARD.decode(&self.spec.request).ok()?;
        CertificateRequest::parse(&pem).ok()
    }

    fn has(&self, condition: &str) -> bool {
        let conditions = &self.status.conditions;
        conditions
            .iter()
            .any(|c| c.r#type == condition && matches!(c.status.as_str(), "True" | ""))
    }

    /// Returns whether it was approved or denied.
    fn is_decided(&self) -> bool {
        self.has("Approved") || self.has("Denied")
    }

    /// Whether the usages are exactly these, with or without key encipherment
    /// (which only RSA keys need).
    fn is_for(&self, usages: &[&str]) -> bool {
        let known = |usage: &Text| usage == "key encipherment" || usages.contains(&usage.as_str());
        self.spec.usages.iter().all(known)
            && usages
                .iter()
                .all(|usage| self.spec.usages.iter().any(|own| own == usage))
    }
}

/// Changes the current state of a request through a subresource; a request that was
/// deleted or recreated is left alone.
async fn change(
    client: &Client,
    request: &CertificateSigningRequest,
    subresource: &str,
    change: impl FnOnce(&mut Value),
) -> Result<(), Error> {
    let meta = &request.metadata;
    let resource = &resources::CERTIFICATE_SIGNING_REQUESTS;
    let mut object: Value = match client.get(resource, "", &meta.name).await {
        Ok(object) => object,
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return Err(error),
    };
    if object["metadata"]["uid"] != meta.uid.as_str() {
        return Ok(());
    }
    change(&mut object);
    let changed = client
        .update_subresource::<Value>(resource, "", &meta.name, subresource, &object)
        .await;
    work::unless_gone(changed)
}

/// Adds a condition that is true.
fn add_condition(object: &mut Value, kind: &str, reason: &str, message: &str) {
    let condition = serde_json::json!({
        "type": kind, "status": "True", "reason": reason, "message": message,
    });
    match &mut object["status"]["conditions"] {
        Value::Array(conditions) => conditions.push(condition),
        other => *other = Value::Array(vec![condition]),
    }
}

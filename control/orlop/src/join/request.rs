//! Asking the API for a certificate.

use std::time::{Duration, Instant};

use control_client::{Client, resources};
use control_pki::Request;
use serde_json::{Value, json};

use super::{Error, decode, encode};

/// How long is waited for approval and signature. People may be needed.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long controllers take at most, when they are there.
const SOON: Duration = Duration::from_secs(5);

/// The purpose of the certificate.
#[derive(Clone, Copy, Debug)]
pub enum RequestKind {
    /// Asking the API server.
    Client,
    /// Being asked by it.
    Serving,
}

/// The state of a request.
#[derive(Debug, PartialEq, Eq)]
enum RequestState {
    Pending,
    Approved,
    Refused(&'static str, String),
    Issued(String),
}

/// Sends the request and waits for its certificate (PEM).
pub async fn certificate(
    client: &Client,
    asked: &Request,
    kind: RequestKind,
) -> Result<String, Error> {
    let (signer, usage) = match kind {
        RequestKind::Client => ("kubernetes.io/kube-apiserver-client-kubelet", "client auth"),
        RequestKind::Serving => ("kubernetes.io/kubelet-serving", "server auth"),
    };
    let body = json!({
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"generateName": "csr-"},
        "spec": {
            "request": encode(&asked.request_pem),
            "signerName": signer,
            "usages": ["digital signature", usage],
        },
    });
    let resource = &resources::CERTIFICATE_SIGNING_REQUESTS;
    let created: Value = client
        .create(resource, "", &body)
        .await
        .map_err(Error::Client)?;
    let name = created["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let began = Instant::now();
    let mut told = false;
    loop {
        let waited = began.elapsed();
        let state = match client.get::<Value>(resource, "", &name).await {
            Ok(object) => state(&object),
            Err(error) => return Err(Error::Client(error)),
        };
        let what = match state {
            RequestState::Issued(pem) => return Ok(pem),
            RequestState::Refused(how, message) => {
                return Err(Error::Refused { name, how, message });
            }
            RequestState::Pending => "approved",
            RequestState::Approved => "signed",
        };
        if waited >= PATIENCE {
            let waited = PATIENCE;
            return Err(Error::Ignored { name, what, waited });
        }
        if waited >= SOON && !told {
            told = true;
            tracing::info!(
                request = name,
                signer,
                "waiting until the certificate request is {what}"
            );
        }
        let pause = if waited < SOON { 50 } else { 1000 };
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
}

fn state(object: &Value) -> RequestState {
    let status = &object["status"];
    if let Some(pem) = status["certificate"].as_str().and_then(decode) {
        return RequestState::Issued(pem);
    }
    let conditions = status["conditions"].as_array();
    let find = |kind: &str| {
        let mut all = conditions.into_iter().flatten();
        all.find(|c| c["type"] == kind)
            .map(|c| c["message"].as_str().unwrap_or_default().to_owned())
    };
    if let Some(message) = find("Denied") {
        RequestState::Refused("denied", message)
    } else if let Some(message) = find("Failed") {
        RequestState::Refused("not signed", message)
    } else if find("Approved").is_some() {
        RequestState::Approved
    } else {
        RequestState::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_read_from_conditions_and_certificate() {
        let with = |kind: &str| {
            state(&json!({"status": {"conditions": [{"type": kind, "message": "why"}]}}))
        };
        assert_eq!(state(&json!({})), RequestState::Pending);
        assert_eq!(with("Approved"), RequestState::Approved);
        assert_eq!(
            with("Denied"),
            RequestState::Refused("denied", "why".to_owned())
        );
        assert_eq!(
            with("Failed"),
            RequestState::Refused("not signed", "why".to_owned())
        );
        let issued = json!({"status": {"certificate": encode("PEM")}});
        assert_eq!(state(&issued), RequestState::Issued("PEM".to_owned()));
    }
}

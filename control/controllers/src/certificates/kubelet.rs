//! Recognises the certificate requests of nodes' agents.

use control_pki::CertificateRequest;

use super::{CLIENT, KUBELET_CLIENT, KUBELET_SERVING};
use crate::views::CertificateSigningRequest;

/// Returns why a request is not one that its signer signs; `None` if it is.
pub(super) fn fault(
    request: &CertificateSigningRequest,
    asked: &CertificateRequest,
) -> Option<&'static str> {
    match request.spec.signer_name.as_str() {
        KUBELET_CLIENT => of_a_node(asked).or_else(|| {
            if !asked.dns_names.is_empty() {
                Some("DNS subjectAltNames are not allowed")
            } else if !asked.addresses.is_empty() {
                Some("IP subjectAltNames are not allowed")
            } else if !request.is_for(&["digital signature", "client auth"]) {
                Some("usages did not match [client auth digital signature key encipherment]")
            } else {
                None
            }
        }),
        KUBELET_SERVING => of_a_node(asked).or_else(|| {
            if asked.dns_names.is_empty() && asked.addresses.is_empty() {
                Some("DNS or IP subjectAltName is required")
            } else if !request.is_for(&["digital signature", "server auth"]) {
                Some("usages did not match [digital signature key encipherment server auth]")
            } else {
                None
            }
        }),
        CLIENT => {
            let usages = &request.spec.usages;
            let fits = |usage: &str| {
                matches!(
                    usage,
                    "client auth" | "digital signature" | "key encipherment"
                )
            };
            if !usages.iter().all(|usage| fits(usage)) {
                Some("invalid usage for client certificate")
            } else if !usages.iter().any(|usage| usage == "client auth") {
                Some("missing required usage for client certificate: client auth")
            } else {
                None
            }
        }
        _ => Some("no signer of this cluster has this name"),
    }
}

fn of_a_node(asked: &CertificateRequest) -> Option<&'static str> {
    if asked.orgs != ["system:nodes"] {
        Some("subject organization is not system:nodes")
    } else if !asked.emails.is_empty() {
        Some("Email subjectAltNames are not allowed")
    } else if !asked.uris.is_empty() {
        Some("URI subjectAltNames are not allowed")
    } else if asked.other_names {
        Some("subjectAltNames of this kind are not allowed")
    } else if !asked.cn.starts_with("system:node:") {
        Some("subject common name does not begin with system:node:")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use control_pki::Request;
    use serde_json::json;

    use super::*;

    fn asked(cn: &str, org: &str, sans: &[&str]) -> CertificateRequest {
        let sans: Vec<_> = sans.iter().map(ToString::to_string).collect();
        let request = Request::new(cn, &[org], &sans).expect("a request");
        CertificateRequest::parse(request.request_pem.as_bytes()).expect("read")
    }

    fn request(signer: &str, usages: &[&str]) -> CertificateSigningRequest {
        serde_json::from_value(json!({"spec": {"signerName": signer, "usages": usages}}))
            .expect("a request")
    }

    #[test]
    fn a_nodes_requests_must_be_exactly_that() {
        const NODE: &str = "system:node:n1";
        let client = &["digital signature", "client auth"][..];
        let rsa = &["key encipherment", "digital signature", "client auth"][..];
        let server = &["digital signature", "server auth"][..];
        for (signer, usages, cn, org, sans, right) in [
            (KUBELET_CLIENT, client, NODE, "system:nodes", &[][..], true),
            (KUBELET_CLIENT, rsa, NODE, "system:nodes", &[], true),
            (KUBELET_CLIENT, server, NODE, "system:nodes", &[], false),
            (KUBELET_CLIENT, client, NODE, "system:masters", &[], false),
            (KUBELET_CLIENT, client, "root", "system:nodes", &[], false),
            (KUBELET_CLIENT, client, NODE, "system:nodes", &["n1"], false),
            (KUBELET_SERVING, server, NODE, "system:nodes", &["n1"], true),
            (KUBELET_SERVING, server, NODE, "system:nodes", &[], false),
            (
                KUBELET_SERVING,
                client,
                NODE,
                "system:nodes",
                &["n1"],
                false,
            ),
            (CLIENT, client, "ann", "ops", &[], true),
            (CLIENT, server, "ann", "ops", &[], false),
            (CLIENT, &["digital signature"], "ann", "ops", &[], false),
            ("example.com/signer", client, "ann", "ops", &[], false),
        ] {
            let found = fault(&request(signer, usages), &asked(cn, org, sans));
            assert_eq!(
                found.is_none(),
                right,
                "{signer} {usages:?} {cn} {org} {sans:?}: {found:?}"
            );
        }
    }
}

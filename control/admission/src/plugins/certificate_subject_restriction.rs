//! `CertificateSubjectRestriction`: nobody asks for a certificate of `system:masters`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use control_access::MASTERS;
use control_pki::CertificateRequest;
use control_types::status::Status;
use control_types::value::Value;

use crate::admission::{Admission, AdmissionResult, Change, done};
use crate::attributes::Attributes;

/// Signs certificates of any client of this server.
const CLIENTS: &str = "kubernetes.io/kube-apiserver-client";

/// The plugin.
#[derive(Debug)]
pub struct CertificateSubjectRestriction;

impl Admission for CertificateSubjectRestriction {
    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        change: Change<'a>,
        _warnings: &'a mut Vec<String>,
    ) -> AdmissionResult<'a> {
        done(check(attributes, change.new))
    }
}

fn check(attributes: &Attributes<'_>, object: &Value) -> Result<(), Status> {
    if object.str_at(&["spec", "signerName"]) != Some(CLIENTS) {
        return Ok(());
    }
    let text = object.str_at(&["spec", "request"]).unwrap_or_default();
    let pem = STANDARD.decode(text).unwrap_or_default();
    // A request that cannot be read is refused by the validation of its kind.
    let Ok(asked) = CertificateRequest::parse(&pem) else {
        return Ok(());
    };
    if !asked.orgs.iter().any(|org| org == MASTERS) {
        return Ok(());
    }
    let why = format!("use of {CLIENTS} signer with system:masters group is not allowed");
    Err(attributes.refuse(object, &why))
}

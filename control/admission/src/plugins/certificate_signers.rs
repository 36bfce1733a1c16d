//! `CertificateApproval` and `CertificateSigning`: who approves requests for certificates of a
//! signer, and who signs them, has the right to.

use control_access::Attributes as AccessAttributes;
use control_types::status::{Status, quote};
use control_types::value::Value;

use crate::admission::{Admission, AdmissionResult, Change, done};
use crate::attributes::Attributes;

/// Either plugin, by the verb that it asks for.
#[derive(Debug)]
pub struct CertificateSigners(&'static str);

impl CertificateSigners {
    /// `CertificateApproval`
    pub const APPROVAL: Self = Self("approve");
    /// `CertificateSigning`
    pub const SIGNING: Self = Self("sign");

    fn check(&self, attributes: &Attributes<'_>, change: Change<'_>) -> Result<(), Status> {
        let Some(old) = change.old else {
            return Ok(());
        };
        let verb = self.0;
        let part = |object: &Value| {
            let status = |field: &str| object.path(&["status", field]).cloned().unwrap_or_default();
            (status("certificate"), status("conditions"))
        };
        if verb == "sign" && part(change.new) == part(old) {
            return Ok(());
        }
        let signer = old.str_at(&["spec", "signerName"]).unwrap_or_default();
        let may = |name: &str| {
            let denial = attributes.cluster.denial(&AccessAttributes {
                user: attributes.context.user.clone(),
                verb: verb.into(),
                group: "certificates.k8s.io".into(),
                version: "*".into(),
                resource: "signers".into(),
                name: name.to_owned(),
                is_resource_request: true,
                ..AccessAttributes::default()
            });
            denial.is_none()
        };
        let domain = signer.split('/').next().unwrap_or_default();
        if may(signer) || may(&format!("{domain}/*")) {
            return Ok(());
        }
        let why = format!(
            "user not permitted to {verb} requests with signerName {}",
            quote(signer)
        );
        Err(attributes.refuse(change.new, &why))
    }
}

impl Admission for CertificateSigners {
    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        change: Change<'a>,
        _warnings: &'a mut Vec<String>,
    ) -> AdmissionResult<'a> {
        done(self.check(attributes, change))
    }
}

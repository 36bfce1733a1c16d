//! Who asks for certificates, and who may approve and sign them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use control_access::{Attributes, MASTERS};
use control_pki::Requested;
use control_types::status::{Cause, Status, quote};
use control_types::value::Value;

use crate::api::ServedResource;
use crate::chain::Context;

use super::{Plugin, on, refuse};

const GROUP: &str = "certificates.k8s.io";
/// Signs certificates of any client of this server.
const CLIENTS: &str = "kubernetes.io/kube-apiserver-client";

/// States in a new request who sent it.
pub(super) fn admit_create(context: &Context, object: &mut Value) {
    let user = &context.user;
    let list = |texts: &[String]| -> Vec<Value> {
        texts
            .iter()
            .map(|text| Value::from(text.as_str()))
            .collect()
    };
    let spec = object
        .make_object()
        .get_or_insert_with("spec", Value::object);
    let spec = spec.make_object();
    for field in ["username", "uid", "groups", "extra"] {
        spec.remove(field);
    }
    spec.insert("username", user.name.as_str());
    if !user.uid.is_empty() {
        spec.insert("uid", user.uid.as_str());
    }
    spec.insert("groups", list(&user.groups));
    if !user.extra.is_empty() {
        let mut extra = Value::object();
        for (key, values) in &user.extra {
            extra.insert(key.as_str(), list(values));
        }
        spec.insert("extra", extra);
    }
}

/// Refuses a request that is none, or (`restricted`) that no one may make.
pub(super) fn check_create(
    served: &ServedResource,
    object: &Value,
    restricted: bool,
) -> Result<(), Status> {
    let text = object.str_at(&["spec", "request"]).unwrap_or_default();
    let asked = STANDARD
        .decode(text)
        .map_err(|error| error.to_string())
        .and_then(|pem| Requested::parse(&pem));
    let asked = asked.map_err(|why| {
        let cause = Cause {
            reason: "FieldValueInvalid".into(),
            message: format!("Invalid value: {}: {why}", quote(text)),
            field: "spec.request".into(),
        };
        let resource = served.resource;
        let name = control_types::meta::name(object);
        Status::invalid(resource.group, resource.kind, name, vec![cause])
    })?;
    let signer = object.str_at(&["spec", "signerName"]);
    if restricted && signer == Some(CLIENTS) && asked.orgs.iter().any(|org| org == MASTERS) {
        let why = format!("use of {CLIENTS} signer with system:masters group is not allowed");
        return Err(refuse(served, object, &why));
    }
    Ok(())
}

/// Who approves needs the verb `approve` for the signer, who signs `sign`.
pub(super) fn check_update(
    context: &Context,
    served: &ServedResource,
    subresource: &str,
    new: &Value,
    old: &Value,
) -> Result<(), Status> {
    let (verb, plugin) = match subresource {
        "approval" => ("approve", Plugin::CertificateApproval),
        "status" => ("sign", Plugin::CertificateSigning),
        _ => return Ok(()),
    };
    if !on(&context.api, plugin) {
        return Ok(());
    }
    let part = |object: &Value| {
        let status = |field: &str| object.path(&["status", field]).cloned().unwrap_or_default();
        (status("certificate"), status("conditions"))
    };
    if verb == "sign" && part(new) == part(old) {
        return Ok(());
    }
    let signer = old.str_at(&["spec", "signerName"]).unwrap_or_default();
    let may = |name: &str| {
        context.may(&Attributes {
            user: context.user.clone(),
            verb: verb.into(),
            group: GROUP.into(),
            version: "*".into(),
            resource: "signers".into(),
            name: name.to_owned(),
            is_resource_request: true,
            ..Attributes::default()
        })
    };
    let domain = signer.split('/').next().unwrap_or_default();
    if may(signer) || may(&format!("{domain}/*")) {
        return Ok(());
    }
    let why = format!(
        "user not permitted to {verb} requests with signerName {}",
        quote(signer)
    );
    Err(refuse(served, new, &why))
}

//! New requests for certificates: who makes them, and whether they can be read.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use control_access::User;
use control_pki::CertificateRequest;
use control_strategy::ServedVersion;
use control_types::status::{Cause, Status, quote};
use control_types::value::Value;
use control_types::{error_chain, meta};

/// Whether these are requests for certificates.
pub(crate) fn are_of(served: &ServedVersion) -> bool {
    let resource = served.resource;
    (resource.group, resource.plural) == ("certificates.k8s.io", "certificatesigningrequests")
}

/// States in a new request who sent it.
pub(crate) fn set_requester(user: &User, object: &mut Value) {
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

/// Refuses a request that cannot be read.
///
/// # Errors
/// 422.
pub(crate) fn check(served: &ServedVersion, object: &Value) -> Result<(), Status> {
    let text = object.str_at(&["spec", "request"]).unwrap_or_default();
    let asked = STANDARD
        .decode(text)
        .map_err(|error| error.to_string())
        .and_then(|pem| CertificateRequest::parse(&pem).map_err(|error| error_chain(&error)));
    asked.map(drop).map_err(|why| {
        let cause = Cause {
            reason: "FieldValueInvalid".into(),
            message: format!("Invalid value: {}: {why}", quote(text)),
            field: "spec.request".into(),
        };
        let resource = served.resource;
        Status::invalid(
            resource.group,
            resource.kind,
            meta::name(object),
            vec![cause],
        )
    })
}

//! `CertificateSigningRequest`: a certificate that somebody asks for, approves
//! and signs, each through a part of the object of their own.
//!
//! Who asks is stated by the API server, and the request itself is read by it
//! (`admission`): no signature can be checked here.

use control_types::value::Value;

use crate::error::{Errors, Path};
use crate::generic::PLAIN;
use crate::rules::{collect, meta, names};
use crate::table::{Now, age, columns, name};
use crate::tree::{Read, Write, same};
use crate::{Field, FieldError, Kind, Subresource};

pub(crate) static KIND: Kind = Kind {
    group: "certificates.k8s.io",
    kind: "CertificateSigningRequest",
    namespaced: Some(false),
    prepare_create: |object| object.put("status", Value::object()),
    prepare_update: |new, old| {
        new.take_from(old, "spec");
        new.take_from(old, "status");
    },
    prepare_status_update: |new, old| {
        new.take_from(old, "spec");
        for kind in ["Approved", "Denied"] {
            keep_conditions(new, old, kind);
        }
    },
    validate_create: |object| collect(|errors| check(object, None, errors)),
    validate_update: |new, old| changed(new, old, false, false),
    validate_status_update: |new, old| changed(new, old, false, true),
    subresources: &[Subresource {
        name: "approval",
        prepare: |new, old| {
            let conditions = new.at("status").at("conditions").clone();
            new.take_from(old, "spec");
            new.take_from(old, "status");
            if !matches!(conditions, Value::Null) {
                new.make("status").put("conditions", conditions);
            }
        },
        validate: |new, old| changed(new, old, true, false),
    }],
    selectable: &["spec.signerName"],
    selectable_fields,
    columns: columns::CERTIFICATE_SIGNING_REQUEST,
    row,
    allow_unconditional_update: true,
    ..PLAIN
};

/// What a certificate may be for.
const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

const LEGACY: &str = "kubernetes.io/legacy-unknown";
const SHORTEST_LIFE: i64 = 600;
const DOMAIN_LIMIT: usize = 253;
const SIGNER_LIMIT: usize = DOMAIN_LIMIT + 1 + DOMAIN_LIMIT + 1 + 63;

/// What is wrong with a request; what its old form (`old`) had wrong already,
/// is taken.
fn check(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    meta::validate(object, Some(false), |_, _| Vec::new(), errors);
    let (spec, at) = (object.at("spec"), Path::new("spec"));
    if spec.text("request").is_empty() {
        errors.invalid(
            &at.child("request"),
            "",
            "PEM block type must be CERTIFICATE REQUEST",
        );
    }
    // The spec never changes: on an update it was looked at before.
    if old.is_none() {
        check_usages(spec.items("usages"), &at.child("usages"), errors);
        check_signer(spec.text("signerName"), &at.child("signerName"), errors);
        if let Some(seconds) = spec.int("expirationSeconds").filter(|s| *s < SHORTEST_LIFE) {
            errors.invalid(
                &at.child("expirationSeconds"),
                seconds,
                "may not specify a duration less than 600 seconds (10 minutes)",
            );
        }
    }
    check_conditions(object, old, errors);
}

fn check_usages(usages: &[Value], at: &Path<'_>, errors: &mut Errors) {
    if usages.is_empty() {
        errors.required(at, "");
    }
    for (i, usage) in usages.iter().map(Read::as_text).enumerate() {
        if !USAGES.contains(&usage) {
            errors.not_supported(&at.index(i), usage, USAGES);
        }
    }
    for (i, usage) in usages.iter().enumerate() {
        if usages.iter().take(i).any(|other| other == usage) {
            errors.duplicate(&at.index(i), usage.clone());
        }
    }
}

/// A signer is named like `example.com/signer-name`.
fn check_signer(signer: &str, at: &Path<'_>, errors: &mut Errors) {
    if signer.is_empty() {
        return errors.required(at, "");
    }
    if signer == LEGACY {
        let why = "the legacy signerName is not allowed via this API version";
        return errors.invalid(at, signer, why);
    }
    let Some((domain, path)) = signer
        .split_once('/')
        .filter(|(_, path)| !path.contains('/'))
    else {
        let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return errors.invalid(at, signer, why);
    };
    if domain.len() > DOMAIN_LIMIT {
        errors.too_long(at, DOMAIN_LIMIT);
    }
    check_labels(domain, names::dns_label, at, errors);
    if !domain.contains('.') {
        let why = "should be a domain with at least two segments separated by dots";
        errors.invalid(at, domain, why);
    }
    check_labels(path, names::dns_subdomain, at, errors);
    if signer.len() > SIGNER_LIMIT {
        errors.too_long(at, SIGNER_LIMIT);
    }
}

/// Tells of the first wrong label only: the others would read the same.
fn check_labels(text: &str, rule: fn(&str) -> Vec<String>, at: &Path<'_>, errors: &mut Errors) {
    for label in text.split('.') {
        let wrong = rule(label);
        for why in &wrong {
            let shown = crate::error::quoted(label);
            errors.invalid(at, text, format!("validating label {shown}: {why}"));
        }
        if !wrong.is_empty() {
            return;
        }
    }
}

fn check_conditions(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let all = Path::new("status.conditions");
    let list = object.at("status").items("conditions");
    let has_both = |object: &Value| count(object, "Approved") > 0 && count(object, "Denied") > 0;
    let both_before = old.is_some_and(has_both);
    for (i, condition) in list.iter().enumerate() {
        let (kind, status, at) = (
            condition.text("type"),
            condition.text("status"),
            all.index(i),
        );
        if kind.is_empty() {
            errors.required(&at.child("type"), "");
        }
        let may_be: &[&str] = match kind {
            "Approved" | "Denied" | "Failed" => &["True"],
            _ => &["False", "True", "Unknown"],
        };
        if status.is_empty() {
            errors.required(&at.child("status"), "");
        } else if !may_be.contains(&status) {
            errors.not_supported(&at.child("status"), status, may_be);
        }
        let other = match kind {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => "",
        };
        let before = || list.iter().take(i);
        if !both_before && !other.is_empty() && before().any(|c| c.text("type") == other) {
            let why = "Approved and Denied conditions are mutually exclusive";
            errors.invalid(&all, kind, why);
        }
        if before().any(|c| c.text("type") == kind) {
            errors.duplicate(&at.child("type"), kind);
        }
    }
}

/// What an update may not do: `approving` may set approval, `signing` may set
/// the certificate.
fn changed(new: &Value, old: &Value, approving: bool, signing: bool) -> Vec<FieldError> {
    collect(|errors| {
        check(new, Some(old), errors);
        let at = Path::new("status.conditions");
        for kind in ["Approved", "Denied", "Failed"] {
            if count(new, kind) < count(old, kind) {
                let why = format!("updates may not remove a condition of type \"{kind}\"");
                errors.forbidden(&at, why);
            }
        }
        for kind in ["Approved", "Denied"].iter().filter(|_| !approving) {
            if count(new, kind) > count(old, kind) {
                let why = format!("updates may not add a condition of type \"{kind}\"");
                errors.forbidden(&at, why);
            } else if count(new, kind) == count(old, kind)
                && !conditions(new, kind)
                    .zip(conditions(old, kind))
                    .all(|(new, old)| same(new, old))
            {
                let why = format!("updates may not modify a condition of type \"{kind}\"");
                errors.forbidden(&at, why);
            }
        }
        let certificate = |object: &Value| object.at("status").text("certificate").to_owned();
        if certificate(new) != certificate(old) {
            let at = Path::new("status.certificate");
            if !signing {
                errors.forbidden(&at, "updates may not set certificate content");
            } else if !certificate(old).is_empty() {
                errors.forbidden(&at, "updates may not modify existing certificate content");
            }
        }
        meta::update(new, old, errors);
    })
}

fn conditions<'a>(object: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    let list = object.at("status").items("conditions");
    list.iter().filter(move |c| c.text("type") == kind)
}

fn count(object: &Value, kind: &str) -> usize {
    conditions(object, kind).count()
}

/// Puts the old conditions of a type in the place of the new ones, if there
/// are as many; else validation tells.
fn keep_conditions(new: &mut Value, old: &Value, kind: &str) {
    if count(new, kind) != count(old, kind) {
        return;
    }
    let Some(status) = new.there("status") else {
        return;
    };
    let places = status.items_mut("conditions").iter_mut();
    for (place, kept) in places
        .filter(|c| c.text("type") == kind)
        .zip(conditions(old, kind))
    {
        *place = kept.clone();
    }
}

fn selectable_fields(object: &Value) -> Vec<Field> {
    let signer = object.at("spec").text("signerName").to_owned();
    vec![("spec.signerName", signer)]
}

fn row(object: &Value, now: Now) -> Vec<Value> {
    let spec = object.at("spec");
    let life = spec
        .int("expirationSeconds")
        .map(crate::table::duration)
        .unwrap_or_default();
    let decided = ["Denied", "Approved"]
        .into_iter()
        .find(|kind| count(object, kind) > 0);
    let mut state = decided.unwrap_or("Pending").to_owned();
    if count(object, "Failed") > 0 {
        state.push_str(",Failed");
    }
    if !object.at("status").text("certificate").is_empty() {
        state.push_str(",Issued");
    }
    vec![
        name(object),
        age(object, now),
        crate::table::or_none(spec.text("signerName")),
        spec.text("username").into(),
        crate::table::or_none(&life),
        state.into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Value {
        Value::from_slice(
            br#"{"metadata":{"name":"a","resourceVersion":"1"},"spec":{"request":"LS0t","signerName":"example.com/signer",
                "usages":["client auth"]},"status":{}}"#,
        )
        .expect("test object")
    }

    fn with(status: &str) -> Value {
        let mut object = request();
        object.put(
            "status",
            Value::from_slice(status.as_bytes()).expect("a status"),
        );
        object
    }

    fn texts(errors: &[FieldError]) -> String {
        let all: Vec<_> = errors.iter().map(ToString::to_string).collect();
        all.join("; ")
    }

    #[test]
    fn nobody_comes_with_an_approval() {
        let mut object = with(r#"{"conditions":[{"type":"Approved","status":"True"}]}"#);
        assert!(KIND.before_create(&mut object).is_empty());
        assert_eq!(count(&object, "Approved"), 0);
    }

    #[test]
    fn signers_and_usages_are_looked_at() {
        for (signer, why) in [
            ("", "Required"),
            ("signer", "must be a fully qualified domain"),
            ("example/signer", "at least two segments"),
            ("example.com/Signer", "validating label"),
            (LEGACY, "legacy signerName"),
        ] {
            let mut object = request();
            object.make("spec").put("signerName", signer);
            let found = texts(&KIND.before_create(&mut object));
            assert!(found.contains(why), "{signer}: {found}");
        }
        let mut object = request();
        let usages = ["client auth", "client auth", "flying"].map(Value::from);
        object
            .make("spec")
            .put("usages", Value::Array(usages.into()));
        let found = texts(&KIND.before_create(&mut object));
        assert!(
            found.contains("Duplicate value") && found.contains("Unsupported value: \"flying\""),
            "{found}"
        );
    }

    #[test]
    fn approval_is_set_through_its_subresource_only_and_stays() {
        let old = request();
        let approved = with(r#"{"conditions":[{"type":"Approved","status":"True"}]}"#);
        let mut new = approved.clone();
        let errors = KIND.before_subresource_update("approval", &mut new, &old);
        assert!(errors.expect("there").is_empty());
        assert_eq!(count(&new, "Approved"), 1);

        let mut new = approved.clone();
        let found = texts(&KIND.before_status_update(&mut new, &old));
        assert!(found.contains("may not add a condition of type"), "{found}");

        let mut new = request();
        let found = KIND.before_subresource_update("approval", &mut new, &approved);
        let found = texts(&found.expect("there"));
        assert!(found.contains("may not remove"), "{found}");

        let mut new = with(
            r#"{"conditions":[{"type":"Approved","status":"True"},{"type":"Denied","status":"True"}]}"#,
        );
        let found = KIND.before_subresource_update("approval", &mut new, &approved);
        let found = texts(&found.expect("there"));
        assert!(found.contains("mutually exclusive"), "{found}");
    }

    #[test]
    fn a_certificate_is_set_once_and_by_the_status_only() {
        let (old, signed) = (request(), with(r#"{"certificate":"QQ=="}"#));
        assert!(
            KIND.before_status_update(&mut signed.clone(), &old)
                .is_empty()
        );
        let other = with(r#"{"certificate":"Qg=="}"#);
        let found = texts(&KIND.before_status_update(&mut other.clone(), &signed));
        assert!(found.contains("existing certificate content"), "{found}");
        let mut sneaky = signed.clone();
        let errors = KIND.before_subresource_update("approval", &mut sneaky, &old);
        assert!(errors.expect("there").is_empty());
        assert_eq!(sneaky.at("status").text("certificate"), "");
    }

    #[test]
    fn the_table_tells_the_state() {
        let now = jiff::Timestamp::now();
        let state = |object: &Value| row(object, now).last().cloned().unwrap_or_default();
        assert_eq!(state(&request()), Value::from("Pending"));
        let issued =
            with(r#"{"conditions":[{"type":"Approved","status":"True"}],"certificate":"QQ=="}"#);
        assert_eq!(state(&issued), Value::from("Approved,Issued"));
    }
}

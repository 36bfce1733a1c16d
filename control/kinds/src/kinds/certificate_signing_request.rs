//! `CertificateSigningRequest`: a request for a certificate.

use control_types::time;
use control_types::value::Value;

use crate::error::{Errors, Path};
use crate::generic::PLAIN;
use crate::rules::{collect, meta, names, pem};
use crate::table::{Timestamp, age, columns, name, or_none};
use crate::tree::{Read, Write, same};
use crate::{Field, FieldError, Kind, Subresource};

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
const CONDITIONS: Path<'static> = Path::new("status.conditions");

pub(crate) static KIND: Kind = Kind {
    group: "certificates.k8s.io",
    kind: "CertificateSigningRequest",
    namespaced: Some(false),
    prepare_create: |object| object.drop_field("status"),
    prepare_update: |new, old| {
        new.take_from(old, "spec");
        new.take_from(old, "status");
    },
    prepare_status_update,
    validate_create: |object| collect(|errors| check(object, None, errors)),
    validate_update: |new, old| update(new, old, UpdatePath::Object),
    validate_status_update: |new, old| update(new, old, UpdatePath::Status),
    subresources: &[Subresource {
        name: "approval",
        prepare: prepare_approval,
        validate: |new, old| update(new, old, UpdatePath::Approval),
    }],
    selectable: &["spec.signerName"],
    selectable_fields,
    columns: columns::CERTIFICATE_SIGNING_REQUEST,
    row,
    allow_unconditional_update: true,
    ..PLAIN
};

/// The endpoint of an update; each may change other fields.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UpdatePath {
    Object,
    Status,
    Approval,
}

fn of_type<'a>(object: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    object
        .at("status")
        .items("conditions")
        .iter()
        .filter(move |condition| condition.text("type") == kind)
}

fn prepare_status_update(new: &mut Value, old: &Value) {
    new.take_from(old, "spec");
    // an issuer must not change the decision
    for kind in ["Approved", "Denied"] {
        let before: Vec<&Value> = of_type(old, kind).collect();
        if before.len() != of_type(new, kind).count() {
            continue;
        }
        let conditions = new.make("status").items_mut("conditions");
        let present = conditions.iter_mut().filter(|c| c.text("type") == kind);
        for (condition, was) in present.zip(before) {
            *condition = was.clone();
        }
    }
    stamp(new, old);
}

fn prepare_approval(new: &mut Value, old: &Value) {
    stamp(new, old);
    let conditions = new.at("status").at("conditions").clone();
    new.take_from(old, "spec");
    new.take_from(old, "status");
    if !conditions.is_null() {
        new.make("status").put("conditions", conditions);
    } else if let Some(status) = new.there("status") {
        status.drop_field("conditions");
    }
}

/// Gives new conditions their times.
fn stamp(new: &mut Value, old: &Value) {
    let now = time::now();
    let Some(status) = new.there("status") else {
        return;
    };
    for condition in status.items_mut("conditions") {
        condition.absent("lastUpdateTime", now.as_str());
        let before = old.at("status").items("conditions").iter().find(|was| {
            was.text("type") == condition.text("type")
                && was.text("status") == condition.text("status")
                && was.has("lastTransitionTime")
        });
        let since = before.map_or(now.as_str(), |was| was.text("lastTransitionTime"));
        condition.absent("lastTransitionTime", since);
    }
}

fn check(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    meta::validate(object, Some(false), |_, _| names::Messages::new(), errors);
    let (spec, at) = (object.at("spec"), Path::new("spec"));
    let request = spec.text("request");
    if let Err(error) = pem::certificate_request(request) {
        let shown = spec.at("request").clone();
        errors.invalid(&at.child("request"), shown, error.to_string());
    }
    let usages: Vec<&str> = spec.items("usages").iter().map(Read::as_text).collect();
    let usages_at = at.child("usages");
    if usages.is_empty() {
        errors.required(&usages_at, "");
    }
    let before: Vec<&str> = old.map_or(Vec::new(), |old| {
        let usages = old.at("spec").items("usages");
        usages.iter().map(Read::as_text).collect()
    });
    let unknown = before.iter().any(|usage| !USAGES.contains(usage));
    let twice = |list: &[&str]| {
        let mut sorted = list.to_vec();
        sorted.sort_unstable();
        sorted.windows(2).any(|pair| pair.first() == pair.last())
    };
    for (i, usage) in usages.iter().enumerate() {
        if !unknown && !USAGES.contains(usage) {
            errors.not_supported(&usages_at.index(i), *usage, USAGES);
        }
    }
    for (i, usage) in usages.iter().enumerate() {
        if !twice(&before) && usages.iter().take(i).any(|other| other == usage) {
            errors.duplicate(&usages_at.index(i), *usage);
        }
    }
    let signer = spec.text("signerName");
    let kept = old.is_some_and(|old| old.at("spec").text("signerName") == LEGACY);
    if signer == LEGACY && !kept {
        errors.invalid(
            &at.child("signerName"),
            signer,
            "the legacy signerName is not allowed via this API version",
        );
    } else {
        check_signer(signer, &at.child("signerName"), errors);
    }
    if let Some(seconds) = spec.int("expirationSeconds").filter(|s| *s < 600) {
        errors.invalid(
            &at.child("expirationSeconds"),
            seconds,
            "may not specify a duration less than 600 seconds (10 minutes)",
        );
    }
    check_conditions(object, old, errors);
    let certificate = object.at("status").text("certificate");
    let untouched = old.is_some_and(|old| old.at("status").text("certificate") == certificate);
    if !untouched && let Err(error) = pem::certificates(certificate) {
        let at = Path::new("status.certificate");
        errors.invalid(&at, "<certificate data>", error.to_string());
    }
}

/// A signer: a domain and a path, `example.com/signer-name`.
fn check_signer(signer: &str, at: &Path<'_>, errors: &mut Errors) {
    if signer.is_empty() {
        errors.required(at, "");
        return;
    }
    let Some((domain, path)) = signer
        .split_once('/')
        .filter(|(_, path)| !path.contains('/'))
    else {
        errors.invalid(
            at,
            signer,
            "must be a fully qualified domain and path of the form 'example.com/signer-name'",
        );
        return;
    };
    if domain.len() > 253 {
        errors.too_long(at, 253);
    }
    let quoted = crate::error::quoted;
    for label in domain.split('.') {
        for message in names::dns_label(label) {
            errors.invalid(
                at,
                domain,
                format!("validating label {}: {message}", quoted(label)),
            );
        }
    }
    if !domain.contains('.') {
        errors.invalid(
            at,
            domain,
            "should be a domain with at least two segments separated by dots",
        );
    }
    for label in path.split('.') {
        for message in names::dns_subdomain(label) {
            errors.invalid(
                at,
                path,
                format!("validating label {}: {message}", quoted(label)),
            );
        }
    }
    if path.len() > 317 {
        errors.too_long(at, 317);
    }
    if signer.len() > 571 {
        errors.too_long(at, 571);
    }
}

fn check_conditions(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let of = |object: &Value| -> Vec<String> {
        let conditions = object.at("status").items("conditions");
        conditions
            .iter()
            .map(|c| c.text("type").to_owned())
            .collect()
    };
    let before = old.map(of).unwrap_or_default();
    let had = |kind: &str| before.iter().any(|known| known == kind);
    let both_before = had("Approved") && had("Denied");
    let twice_before = (0..before.len()).any(|i| before[..i].contains(&before[i]));
    let conditions = object.at("status").items("conditions");
    for (i, condition) in conditions.iter().enumerate() {
        let at = CONDITIONS.index(i);
        let (kind, status) = (condition.text("type"), condition.text("status"));
        if kind.is_empty() && !had("") {
            errors.required(&at.child("type"), "");
        }
        let allowed: &[&str] = if matches!(kind, "Approved" | "Denied" | "Failed") {
            &["True"]
        } else {
            &["False", "True", "Unknown"]
        };
        if status.is_empty() {
            errors.required(&at.child("status"), "");
        } else if !allowed.contains(&status) {
            errors.not_supported(&at.child("status"), status, allowed);
        }
        let earlier = |wanted: &str| conditions.iter().take(i).any(|c| c.text("type") == wanted);
        let opposite = match kind {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => "",
        };
        if !opposite.is_empty() && earlier(opposite) && !both_before {
            let why = "Approved and Denied conditions are mutually exclusive";
            errors.invalid(&CONDITIONS, kind, why);
        }
        if earlier(kind) && !twice_before {
            errors.duplicate(&at.child("type"), kind);
        }
    }
}

fn update(new: &Value, old: &Value, through: UpdatePath) -> Vec<FieldError> {
    collect(|errors| {
        check(new, Some(old), errors);
        for kind in ["Approved", "Denied", "Failed"] {
            let (now, before): (Vec<_>, Vec<_>) =
                (of_type(new, kind).collect(), of_type(old, kind).collect());
            if now.len() < before.len() {
                let why = format!("updates may not remove a condition of type \"{kind}\"");
                errors.forbidden(&CONDITIONS, why);
            } else if through != UpdatePath::Approval && kind != "Failed" {
                let changed = now.iter().zip(&before).any(|(a, b)| !same(a, b));
                if now.len() > before.len() {
                    let why = format!("updates may not add a condition of type \"{kind}\"");
                    errors.forbidden(&CONDITIONS, why);
                } else if changed {
                    let why = format!("updates may not modify a condition of type \"{kind}\"");
                    errors.forbidden(&CONDITIONS, why);
                }
            }
        }
        let certificate = |object: &Value| object.at("status").text("certificate").to_owned();
        if certificate(new) != certificate(old) {
            let at = Path::new("status.certificate");
            if through != UpdatePath::Status {
                errors.forbidden(&at, "updates may not set certificate content");
            } else if !certificate(old).is_empty() {
                errors.forbidden(&at, "updates may not modify existing certificate content");
            }
        }
        meta::update(new, old, errors);
    })
}

fn selectable_fields(object: &Value) -> Vec<Field> {
    let signer = object.at("spec").text("signerName").to_owned();
    vec![("spec.signerName", signer)]
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (object.at("spec"), object.at("status"));
    let has = |kind: &str| of_type(object, kind).next().is_some();
    let mut state = if has("Denied") {
        "Denied"
    } else if has("Approved") {
        "Approved"
    } else {
        "Pending"
    }
    .to_owned();
    if has("Failed") {
        state.push_str(",Failed");
    }
    if !status.text("certificate").is_empty() {
        state.push_str(",Issued");
    }
    let lasting = spec
        .int("expirationSeconds")
        .map_or("<none>".to_owned(), crate::table::duration);
    vec![
        name(object),
        age(object, now),
        or_none(spec.text("signerName")),
        spec.text("username").into(),
        lasting.into(),
        state.into(),
    ]
}

//! `APIService`: a group and version that another server serves, or this one.

use control_types::value;
use control_types::value::Value;

use crate::error::{Errors, Path};
use crate::generic::{self, PLAIN};
use crate::rules::{collect, meta, names};
use crate::table::{Timestamp, age, columns, name};
use crate::tree::{Read, Write};
use crate::{FieldError, Kind};

pub(crate) static KIND: Kind = Kind {
    group: "apiregistration.k8s.io",
    kind: "APIService",
    namespaced: Some(false),
    default: |object| {
        if let Some(spec) = object.there("spec")
            && let Some(service) = spec.there("service")
        {
            service.absent("port", 443_i64);
        }
    },
    prepare_create,
    prepare_update: generic::keep_status,
    prepare_status_update: generic::update_status_keep_metadata,
    validate_create: |object| collect(|errors| check(object, errors)),
    validate_update: |new, old| {
        collect(|errors| {
            meta::update_generic(new, old, errors);
            check(new, errors);
        })
    },
    validate_status_update,
    columns: columns::API_SERVICE,
    row,
    ..PLAIN
};

/// Marks local APIs as available immediately.
fn prepare_create(object: &mut Value) {
    object.drop_field("status");
    if !object.at("spec").has("service") {
        let stamp = object.at("metadata").at("creationTimestamp").clone();
        object.put(
            "status",
            value!({"conditions": [{
                "type": "Available", "status": "True", "lastTransitionTime": (stamp),
                "reason": "Local", "message": "Local APIServices are always available"
            }]}),
        );
    }
}

fn check(object: &Value, errors: &mut Errors) {
    let (spec, at) = (object.at("spec"), Path::new("spec"));
    let (group, version) = (spec.text("group"), spec.text("version"));
    meta::validate_generic(object, Some(false), names::segment_name, errors);
    let name = object.at("metadata").text("name");
    let wanted = format!("{version}.{group}");
    if !name.is_empty() && names::segment_name(name, false).is_empty() && name != wanted {
        let wanted = crate::error::quoted(&wanted);
        errors.invalid(
            &Path::new("metadata.name"),
            name,
            format!("must be `spec.version+\".\"+spec.group`: {wanted}"),
        );
    }
    if group.is_empty() && version != "v1" {
        errors.required(
            &at.child("group"),
            "only v1 may have an empty group and it better be legacy kube",
        );
    }
    if !group.is_empty() {
        errors.invalid_each(&at.child("group"), group, names::dns_subdomain(group));
    }
    errors.invalid_each(&at.child("version"), version, names::dns1035_label(version));
    for (field, most) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1000)] {
        let priority = spec.num(field);
        if !(1..=most).contains(&priority) {
            let why = format!("must be positive and less than {most}");
            errors.invalid(&at.child(field), priority, why);
        }
    }
    let (bundle, insecure) = (spec.text("caBundle"), spec.flag("insecureSkipTLSVerify"));
    let insecure_at = at.child("insecureSkipTLSVerify");
    if !spec.has("service") {
        if !bundle.is_empty() {
            errors.invalid(
                &at.child("caBundle"),
                format!("{} bytes", bundle.len() / 4 * 3),
                "local APIServices may not have a caBundle",
            );
        }
        if insecure {
            errors.invalid(
                &insecure_at,
                true,
                "local APIServices may not have insecureSkipTLSVerify",
            );
        }
        return;
    }
    let (service, service_at) = (spec.at("service"), at.child("service"));
    for field in ["namespace", "name"] {
        if service.text(field).is_empty() {
            errors.required(&service_at.child(field), "");
        }
    }
    let port = service.num("port");
    let wrong = names::port_number(port);
    if !wrong.is_empty() {
        let why = format!("port is not valid: {}", wrong.join(", "));
        errors.invalid(&service_at.child("port"), port, why);
    }
    if insecure && !bundle.is_empty() {
        errors.invalid(&insecure_at, true, "may not be true if caBundle is present");
    }
}

fn validate_status_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update_generic(new, old, errors);
        let all = Path::new("status.conditions");
        for (i, condition) in new.at("status").items("conditions").iter().enumerate() {
            let status = condition.text("status");
            if !matches!(status, "True" | "False" | "Unknown") {
                let known = &["True", "False", "Unknown"];
                errors.not_supported(&all.index(i).child("status"), status, known);
            }
        }
    })
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let service = object.at("spec").at("service");
    let shown = if service.is_null() {
        "Local".to_owned()
    } else {
        format!("{}/{}", service.text("namespace"), service.text("name"))
    };
    let available = object
        .at("status")
        .items("conditions")
        .iter()
        .find(|condition| condition.text("type") == "Available")
        .map_or("Unknown".to_owned(), |condition| {
            match (condition.text("status"), condition.text("reason")) {
                ("True", _) => "True".to_owned(),
                (status, reason) => format!("{status} ({reason})"),
            }
        });
    vec![
        name(object),
        shown.into(),
        available.into(),
        age(object, now),
    ]
}

//! `IPAddress`: an allocated address of a Service.

use control_types::value::Value;

use crate::error::{Errors, Path};
use crate::generic::PLAIN;
use crate::rules::{collect, immutable_as, ip, meta, names};
use crate::table::{Timestamp, age, columns, name};
use crate::tree::Read;
use crate::{FieldError, Kind};

pub(crate) static KIND: Kind = Kind {
    group: "networking.k8s.io",
    kind: "IPAddress",
    namespaced: Some(false),
    validate_create: |object| collect(|errors| check(object, errors)),
    validate_update,
    columns: columns::IP_ADDRESS,
    row,
    allow_unconditional_update: true,
    ..PLAIN
};

/// The name is the address itself, in its canonical form.
fn address_name(text: &str, _prefix: bool) -> names::Messages {
    collect(|errors| ip::canonical(text, &Path::new(""), errors))
        .into_iter()
        .map(|error| error.detail)
        .collect()
}

fn check(object: &Value, errors: &mut Errors) {
    meta::validate(object, Some(false), address_name, errors);
    let (parent, at) = (
        object.at("spec").at("parentRef"),
        Path::new("spec.parentRef"),
    );
    if parent.is_null() {
        errors.required(&at, "");
        return;
    }
    let group = parent.text("group");
    if !group.is_empty() {
        errors.invalid_each(&at.child("group"), group, names::dns_subdomain(group));
    }
    for field in ["resource", "name", "namespace"] {
        let text = parent.text(field);
        if !text.is_empty() {
            errors.invalid_each(&at.child(field), text, names::segment_name(text, false));
        } else if field != "namespace" {
            errors.required(&at.child(field), "");
        }
    }
}

fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        check(new, errors);
        meta::update(new, old, errors);
        immutable_as(
            "networking.ParentReference",
            new.at("spec").at("parentRef"),
            old.at("spec").at("parentRef"),
            &Path::new("spec.parentRef"),
            errors,
        );
    })
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let parent = object.at("spec").at("parentRef");
    let shown = if parent.is_null() {
        "<none>".to_owned()
    } else {
        let mut shown = parent.text("resource").to_lowercase();
        if !parent.text("group").is_empty() {
            shown = format!("{shown}.{}", parent.text("group").to_lowercase());
        }
        for field in ["namespace", "name"] {
            if field == "name" || !parent.text(field).is_empty() {
                shown = format!("{shown}/{}", parent.text(field));
            }
        }
        shown
    };
    vec![name(object), shown.into(), age(object, now)]
}

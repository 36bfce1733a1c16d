//! Lease: who leads, and that a node lives.

use control_types::value::Value;

use crate::Kind;
use crate::error::{Errors, Path};
use crate::generic::PLAIN;
use crate::rules::{collect, meta, names};
use crate::table::{age, columns, name};
use crate::tree::{Read, Write};

pub(crate) static KIND: Kind = Kind {
    group: "coordination.k8s.io",
    kind: "Lease",
    namespaced: Some(true),
    prepare_create: |object| drop_coordination(object, None),
    prepare_update: |new, old| drop_coordination(new, Some(old)),
    validate_create: |object| {
        collect(|errors| {
            meta::validate(object, Some(true), names::subdomain_name, errors);
            check(object, errors);
        })
    },
    validate_update: |new, old| {
        collect(|errors| {
            meta::update(new, old, errors);
            check(new, errors);
        })
    },
    columns: columns::LEASE,
    row: |object, now| {
        let holder = object.at("spec").text("holderIdentity");
        vec![name(object), holder.into(), age(object, now)]
    },
    allow_create_on_update: true,
    ..PLAIN
};

/// Coordinated election is off in 1.36: its fields are dropped unless they were there.
fn drop_coordination(new: &mut Value, old: Option<&Value>) {
    for field in ["strategy", "preferredHolder"] {
        if !old.is_some_and(|old| old.at("spec").has(field))
            && let Some(spec) = new.there("spec")
        {
            spec.drop_field(field);
        }
    }
}

fn check(object: &Value, errors: &mut Errors) {
    let (spec, at) = (object.at("spec"), Path::new("spec"));
    if let Some(seconds) = spec.int("leaseDurationSeconds").filter(|s| *s <= 0) {
        errors.invalid(
            &at.child("leaseDurationSeconds"),
            seconds,
            "must be greater than 0",
        );
    }
    if let Some(count) = spec.int("leaseTransitions").filter(|c| *c < 0) {
        errors.invalid(
            &at.child("leaseTransitions"),
            count,
            "must be greater than or equal to 0",
        );
    }
}

//! `ResourceClaim` and `ResourceClaimTemplate`: requests for devices.

use control_types::value::Value;

use crate::error::{Errors, Path};
use crate::generic::{self, PLAIN};
use crate::rules::{
    annotations_and_labels, collect, device_slices, devices, immutable_as, meta, names,
};
use crate::table::{Timestamp, age, columns, name};
use crate::tree::{Read, Write};
use crate::{FieldError, Kind};

const GROUP: &str = "resource.k8s.io";
const CONSUMERS: usize = 256;

pub(crate) static CLAIM: Kind = Kind {
    group: GROUP,
    kind: "ResourceClaim",
    namespaced: Some(true),
    default: |object| devices::default_claim(object.make("spec")),
    prepare_create: generic::no_status,
    prepare_update: generic::keep_status,
    prepare_status_update: generic::update_status_keep_metadata,
    validate_create: |object| {
        collect(|errors| {
            meta::validate(object, Some(true), names::subdomain_name, errors);
            devices::claim(object.at("spec"), &Path::new("spec"), errors);
        })
    },
    validate_update: |new, old| {
        collect(|errors| {
            meta::validate(new, Some(true), names::subdomain_name, errors);
            meta::update(new, old, errors);
            let (now, then) = (new.at("spec"), old.at("spec"));
            let name = "resource.ResourceClaimSpec";
            immutable_as(name, now, then, &Path::new("spec"), errors);
        })
    },
    validate_status_update,
    columns: columns::RESOURCE_CLAIM,
    row,
    allow_unconditional_update: true,
    ..PLAIN
};

pub(crate) static TEMPLATE: Kind = Kind {
    group: GROUP,
    kind: "ResourceClaimTemplate",
    namespaced: Some(true),
    default: |object| devices::default_claim(object.make("spec").make("spec")),
    validate_create: |object| collect(|errors| check_template(object, errors)),
    validate_update: |new, old| {
        collect(|errors| {
            meta::update(new, old, errors);
            let (now, then) = (new.at("spec"), old.at("spec"));
            let name = "resource.ResourceClaimTemplateSpec";
            immutable_as(name, now, then, &Path::new("spec"), errors);
        })
    },
    columns: columns::RESOURCE_CLAIM_TEMPLATE,
    row: |object, now| vec![name(object), age(object, now)],
    allow_unconditional_update: true,
    ..PLAIN
};

fn check_template(object: &Value, errors: &mut Errors) {
    meta::validate(object, Some(true), names::subdomain_name, errors);
    let at = Path::new("spec");
    let spec = object.at("spec");
    annotations_and_labels(spec.at("metadata"), &at.child("metadata"), errors);
    devices::claim(spec.at("spec"), &at.child("spec"), errors);
}

/// Validates a status update: reservations require an allocation, and an allocation is
/// immutable.
fn validate_status_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update(new, old, errors);
        let (status, before) = (new.at("status"), old.at("status"));
        let at = Path::new("status");
        let all = at.child("reservedFor");
        let consumers = status.items("reservedFor");
        let uid = |consumer: &'_ Value| -> String { consumer.text("uid").to_owned() };
        if consumers.len() > CONSUMERS {
            errors.too_many(&all, consumers.len(), CONSUMERS);
        } else {
            for (i, consumer) in consumers.iter().enumerate() {
                for field in ["resource", "name", "uid"] {
                    if consumer.text(field).is_empty() {
                        errors.required(&all.index(i).child(field), "");
                    }
                }
            }
            for (i, consumer) in consumers.iter().enumerate() {
                if consumers
                    .iter()
                    .take(i)
                    .any(|other| uid(other) == uid(consumer))
                {
                    errors.duplicate(&all.index(i), uid(consumer));
                }
            }
        }
        device_slices::statuses(status, &at, errors);
        let added = consumers
            .iter()
            .any(|consumer| !before.items("reservedFor").contains(consumer));
        if !consumers.is_empty() && !status.has("allocation") {
            errors.forbidden(&all, "may not be specified when `allocated` is not set");
        } else if added && new.at("metadata").has("deletionTimestamp") {
            errors.forbidden(&all, "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set");
        }
        let at = at.child("allocation");
        let allocation = status.at("allocation");
        if before.has("allocation") && !allocation.is_null() {
            let name = "resource.AllocationResult";
            immutable_as(name, allocation, before.at("allocation"), &at, errors);
        } else if !allocation.is_null() {
            let known = devices::request_names(new.at("spec").at("devices"));
            device_slices::allocation(allocation, &known, &at, errors);
        }
    })
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let status = object.at("status");
    let mut states = Vec::new();
    let deleted = object.at("metadata").has("deletionTimestamp");
    if deleted {
        states.push("deleted");
    }
    if status.has("allocation") {
        states.push("allocated");
        if !status.items("reservedFor").is_empty() {
            states.push("reserved");
        }
    } else if !deleted {
        states.push("pending");
    }
    vec![name(object), states.join(",").into(), age(object, now)]
}

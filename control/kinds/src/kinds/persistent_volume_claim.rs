//! `PersistentVolumeClaim`: a request for storage.

use control_types::value::Value;

use crate::error::{Errors, Path};
use crate::generic::{self, PLAIN};
use crate::rules::{
    claims, collect, defaults, difference, immutable, meta, names, quantity, resources,
};
use crate::table::{Timestamp, age, cells, columns, name, or_unset};
use crate::tree::{Read, Write, same};
use crate::{FieldError, Kind, local_storage};

const SPEC: Path<'static> = Path::new("spec");

pub(crate) static KIND: Kind = Kind {
    group: "",
    kind: "PersistentVolumeClaim",
    namespaced: Some(true),
    default,
    prepare_create,
    prepare_update,
    prepare_status_update: generic::update_status,
    validate_create,
    validate_update,
    validate_status_update,
    warnings,
    selectable_from: &["metadata.annotations"],
    selectable_fields: local_storage::fields_of_claim,
    columns: columns::PERSISTENT_VOLUME_CLAIM,
    row,
    allow_unconditional_update: true,
    ..PLAIN
};

pub(crate) fn default(object: &mut Value) {
    object.make("status").blank("phase", "Pending");
    let spec = object.make("spec");
    spec.absent("volumeMode", "Filesystem");
    defaults::resources(spec.there("resources"));
}

fn prepare_create(object: &mut Value) {
    let mut status = Value::object();
    status.put("phase", "Pending");
    object.put("status", status);
    sources(object.make("spec"), &Value::Null);
}

fn prepare_update(new: &mut Value, old: &Value) {
    new.take_from(old, "status");
    sources(new.make("spec"), old.at("spec"));
}

/// Synchronises the two fields for the source of a claim (KEP 1495): `dataSource` accepts
/// only claims and snapshots.
fn sources(spec: &mut Value, old: &Value) {
    // CrossNamespaceVolumeDataSource is off
    if !spec.at("dataSourceRef").text("namespace").is_empty() && !old.has("dataSourceRef") {
        spec.drop_field("dataSourceRef");
    }
    let source = spec.at("dataSource");
    let known = matches!(
        (source.text("apiGroup"), source.text("kind")),
        ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
    );
    let in_use = old.has("dataSource") || old.has("dataSourceRef");
    if !known && !in_use && !spec.has("dataSourceRef") {
        spec.drop_field("dataSource");
    }
    follow(spec);
}

/// Either field fills the other.
fn follow(spec: &mut Value) {
    if spec.has("dataSource") && !spec.has("dataSourceRef") {
        let source = spec.at("dataSource").clone();
        spec.put("dataSourceRef", source);
    } else if spec.has("dataSourceRef")
        && !spec.has("dataSource")
        && spec.at("dataSourceRef").text("namespace").is_empty()
    {
        let mut source = spec.at("dataSourceRef").clone();
        source.drop_field("namespace");
        spec.put("dataSource", source);
    }
}

fn check(object: &Value, errors: &mut Errors) {
    meta::validate(object, Some(true), names::subdomain_name, errors);
    claims::spec(object.at("spec"), &Path::new("spec"), errors);
}

fn validate_create(object: &Value) -> Vec<FieldError> {
    collect(|errors| check(object, errors))
}

fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update(new, old, errors);
        check(new, errors);
        let (after, before) = (new.at("spec"), old.at("spec"));
        const BETA: &str = "volume.beta.kubernetes.io/storage-class";
        let (beta, beta_before) = (
            new.at("metadata").at("annotations").text(BETA),
            old.at("metadata").at("annotations").text(BETA),
        );
        let class = "storageClassName";
        // the class may move from its annotation to its field, once
        let moves = !beta_before.is_empty()
            && !before.has(class)
            && after.text(class) == beta_before
            && (beta.is_empty() || beta == beta_before);
        let mut fixed = after.clone();
        if moves {
            fixed.drop_field(class);
        } else {
            if beta != beta_before {
                errors.invalid(
                    &Path::new("metadata.annotations").child(BETA),
                    beta,
                    "field is immutable",
                );
            }
            if !before.has(class) && beta_before.is_empty() && after.has(class) {
                fixed.drop_field(class);
            }
        }
        if before.text("volumeName").is_empty() {
            fixed.take_from(before, "volumeName");
        }
        if new.at("status").text("phase") == "Bound" {
            if fixed.at("resources").has("requests") {
                let then = before.at("resources").at("requests").clone();
                fixed
                    .make("resources")
                    .make("requests")
                    .take_from(&then, "storage");
            }
            fixed.take_from(before, "volumeAttributesClassName");
        }
        let mut then = before.clone();
        follow(&mut then);
        if !same(&fixed, &then) {
            let shown = difference("core.PersistentVolumeClaimSpec", &then, &fixed);
            errors.forbidden(
                &SPEC,
                format!("spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n{shown}"),
            );
        }
        let asked =
            |spec: &Value| quantity::to_nanos(spec.at("resources").at("requests").at("storage"));
        let held = quantity::to_nanos(old.at("status").at("capacity").at("storage"));
        if asked(after) < asked(before) && asked(after) <= held {
            errors.forbidden(
                &SPEC.child("resources.requests.storage"),
                "field can not be less than status.capacity",
            );
        }
        immutable(
            after.at("volumeMode"),
            before.at("volumeMode"),
            &Path::new("volumeMode"),
            errors,
        );
        let attributes = "volumeAttributesClassName";
        let at = SPEC.child(attributes);
        if old.at("status").has("currentVolumeAttributesClassName")
            && !same(after.at(attributes), before.at(attributes))
            && after.text(attributes).is_empty()
        {
            let what = if after.has(attributes) {
                "empty string"
            } else {
                "nil"
            };
            errors.forbidden(&at, format!("update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil"));
        }
    })
}

/// States of a resize that a driver reports.
const RESIZES: &[&str] = &[
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizePending",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
];

fn validate_status_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update(new, old, errors);
        let at = Path::new("status");
        let status = new.at("status");
        let list = at.child("capacity");
        for (name, amount) in status.entries("capacity") {
            resources::not_negative(amount, &list.key(name), errors);
        }
        let known = |name: &str, at: &Path<'_>, errors: &mut Errors| {
            let before = errors.len();
            errors.invalid_each(at, name, names::qualified(name));
            if errors.len() == before && name != "storage" && resources::is_native(name) {
                errors.not_supported(at, name, &["storage"]);
            }
            errors.len() == before
        };
        let list = at.child("allocatedResourceStatuses");
        for (name, state) in status.entries("allocatedResourceStatuses") {
            known(name, &list, errors);
            if !RESIZES.contains(&state.as_text()) {
                let mut sorted = RESIZES.to_vec();
                sorted.sort_unstable();
                errors.not_supported(&list, name, &sorted);
            }
        }
        let list = at.child("allocatedResources");
        for (name, amount) in status.entries("allocatedResources") {
            if !known(name, &list, errors) {
                continue;
            }
            resources::not_negative(amount, &list.key(name), errors);
        }
    })
}

fn warnings(object: &Value, _old: Option<&Value>) -> Vec<String> {
    const BETA: &str = "volume.beta.kubernetes.io/storage-class";
    let mut out = Vec::new();
    if object.at("metadata").at("annotations").has(BETA) {
        out.push(format!("metadata.annotations[{BETA}]: deprecated since v1.8; use \"storageClassName\" attribute instead"));
    }
    claims::warnings(object.at("spec"), &Path::new("spec"), &mut out);
    out
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (object.at("spec"), object.at("status"));
    let deleting = object.at("metadata").has("deletionTimestamp");
    let bound = !spec.text("volumeName").is_empty();
    let capacity = status.at("capacity").text("storage");
    let legacy = object
        .at("metadata")
        .at("annotations")
        .text("volume.beta.kubernetes.io/storage-class");
    let class = if legacy.is_empty() {
        spec.text("storageClassName")
    } else {
        legacy
    };
    let modes = cells::access_modes(status.items("accessModes"));
    vec![
        name(object),
        if deleting {
            "Terminating".into()
        } else {
            status.text("phase").into()
        },
        spec.text("volumeName").into(),
        if bound && capacity.is_empty() {
            "0".into()
        } else if bound {
            capacity.into()
        } else {
            "".into()
        },
        if bound { modes.into() } else { "".into() },
        class.into(),
        or_unset(spec.text("volumeAttributesClassName")),
        age(object, now),
        or_unset(spec.text("volumeMode")),
    ]
}

//! `PersistentVolumeClaim`: a wish for storage.

use control_types::value::Value;

use crate::error::{Errors, Path};
use crate::generic::{self, PLAIN};
use crate::rules::{claims, collect, defaults, meta, names, quantity};
use crate::table::{Now, age, cells, columns, name, or_unset};
use crate::tree::{Read, Write, same};
use crate::{FieldError, Kind};

pub(crate) static KIND: Kind = Kind {
    group: "",
    kind: "PersistentVolumeClaim",
    namespaced: Some(true),
    default,
    prepare_create,
    prepare_update: generic::keep_status,
    prepare_status_update: generic::update_status,
    validate_create,
    validate_update,
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
    // a claim of the older kind of source fills the newer, and the reverse
    let spec = object.make("spec");
    if spec.has("dataSource") && !spec.has("dataSourceRef") {
        let source = spec.at("dataSource").clone();
        spec.put("dataSourceRef", source);
    } else if spec.has("dataSourceRef")
        && !spec.has("dataSource")
        && spec.at("dataSourceRef").text("namespace").is_empty()
    {
        let source = spec.at("dataSourceRef").clone();
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
        let fixed = |object: &Value| {
            let mut spec = object.at("spec").clone();
            spec.make("resources")
                .make("requests")
                .drop_field("storage");
            spec.drop_field("volumeAttributesClassName");
            spec.drop_field("volumeName");
            spec
        };
        let bound = old.at("spec").text("volumeName");
        let moved = !bound.is_empty() && bound != new.at("spec").text("volumeName");
        if moved || !same(&fixed(new), &fixed(old)) {
            errors.forbidden(
                &Path::new("spec"),
                "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
            );
        }
        let asked = |object: &Value| {
            quantity::of(object.dig(&["spec", "resources", "requests", "storage"]))
        };
        let held = quantity::of(old.at("status").at("capacity").at("storage"));
        if asked(new) < asked(old) && asked(new) <= held {
            errors.forbidden(
                &Path::new("spec.resources.requests.storage"),
                "field can not be less than status.capacity",
            );
        }
    })
}

fn row(object: &Value, now: Now) -> Vec<Value> {
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

//! `PersistentVolume`: a piece of storage.

use control_types::internal;
use control_types::time;
use control_types::value::Value;

use crate::error::{Errors, Path};
use crate::generic::{self, PLAIN};
use crate::rules::{
    collect, defaults, difference, immutable, meta, names, node_labels, quantity, resources,
    volume_spec,
};
use crate::table::{Timestamp, age, cells, columns, name, or_unset};
use crate::tree::{Read, Write, same};
use crate::{FieldError, Kind, local_storage};

pub(crate) static KIND: Kind = Kind {
    group: "",
    kind: "PersistentVolume",
    namespaced: Some(false),
    default,
    prepare_create,
    prepare_update: generic::keep_status,
    prepare_status_update,
    validate_create: |object| collect(|errors| check(object, errors)),
    validate_update,
    warnings,
    selectable_from: &["spec.csi.driver", "spec.nodeAffinity"],
    selectable_fields: local_storage::fields_of_volume,
    columns: columns::PERSISTENT_VOLUME,
    row,
    allow_unconditional_update: true,
    ..PLAIN
};

fn default(object: &mut Value) {
    object.make("status").blank("phase", "Pending");
    let spec = object.make("spec");
    spec.blank("persistentVolumeReclaimPolicy", "Retain");
    spec.absent("volumeMode", "Filesystem");
    quantity::round_list_to_milli(spec.there("capacity"));
    defaults::volume_source(spec);
}

fn prepare_create(object: &mut Value) {
    let stamp = object.at("metadata").at("creationTimestamp").clone();
    let mut status = Value::object();
    status.put("phase", "Pending");
    status.put("lastPhaseTransitionTime", stamp);
    object.put("status", status);
}

fn prepare_status_update(new: &mut Value, old: &Value) {
    const TIME: &str = "lastPhaseTransitionTime";
    new.take_from(old, "spec");
    let before = old.at("status");
    let status = new.make("status");
    if status.text("phase") == before.text("phase") {
        if !status.has(TIME) {
            status.take_from(before, TIME);
        }
    } else if !status.has(TIME) || status.at(TIME) == before.at(TIME) {
        status.put(TIME, time::now());
    }
}

fn check(object: &Value, errors: &mut Errors) {
    meta::validate(object, Some(false), names::subdomain_name, errors);
    volume_spec::check(object.at("spec"), false, &Path::new("spec"), errors);
}

fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        // looked at as a new volume, and once more as a changed one
        check(new, errors);
        check(new, errors);
        let (spec, before) = (new.at("spec"), old.at("spec"));
        let source = |spec: &Value, added: bool| {
            let mut out = Value::object();
            for kind in volume_spec::SOURCES {
                out.take_from(spec, kind);
            }
            if added && let Some(csi) = out.there("csi") {
                csi.drop_field("controllerExpandSecretRef");
            }
            out
        };
        // a secret for growing may be added later
        let added = before.has("csi") && !before.at("csi").has("controllerExpandSecretRef");
        let (now, then) = (source(spec, added), source(before, added));
        if !same(&now, &then) {
            let shown = difference("core.PersistentVolumeSource", &then, &now);
            errors.forbidden(
                &Path::new("spec.persistentvolumesource"),
                format!("spec.persistentvolumesource is immutable after creation\n{shown}"),
            );
        }
        immutable(
            spec.at("volumeMode"),
            before.at("volumeMode"),
            &Path::new("volumeMode"),
            errors,
        );
        if before.has("nodeAffinity") {
            let now = spec.at("nodeAffinity");
            if !same(now, before.at("nodeAffinity")) {
                errors.invalid(
                    &Path::new("nodeAffinity"),
                    internal::form("core.VolumeNodeAffinity", now),
                    "field is immutable, except for updating from beta label to GA",
                );
            }
        }
        let class = "volumeAttributesClassName";
        if before.has(class) && !spec.has(class) {
            errors.forbidden(
                &Path::new("spec.volumeAttributesClassName"),
                "update from non-nil value to nil is forbidden",
            );
        }
    })
}

fn warnings(object: &Value, _old: Option<&Value>) -> Vec<String> {
    let spec = object.at("spec");
    let at = Path::new("spec");
    let mut out = Vec::new();
    let meta = object.at("metadata").at("annotations");
    if meta.has("volume.beta.kubernetes.io/storage-class") {
        out.push("metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use \"storageClassName\" attribute instead".to_owned());
    }
    if meta.has("volume.beta.kubernetes.io/mount-options") {
        out.push("metadata.annotations[volume.beta.kubernetes.io/mount-options]: deprecated since v1.31; use \"mountOptions\" attribute instead".to_owned());
    }
    if spec.text("persistentVolumeReclaimPolicy") == "Recycle" {
        out.push(format!("{}: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.", at.child("persistentVolumeReclaimPolicy")));
    }
    let gone = [
        ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
        ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
        ("storageOS", "deprecated in v1.22, non-functional in v1.25+"),
        (
            "photonPersistentDisk",
            "deprecated in v1.11, non-functional in v1.16+",
        ),
        ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
        ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
    ];
    for (kind, why) in gone {
        let field = if kind == "storageOS" {
            "storageos"
        } else {
            kind
        };
        if spec.has(field) {
            out.push(format!("{}: {why}", at.child(kind)));
        }
    }
    let terms = Path::new("spec.nodeAffinity.required.nodeSelectorTerms");
    let list = spec
        .dig(&["nodeAffinity", "required"])
        .items("nodeSelectorTerms");
    for (i, term) in list.iter().enumerate() {
        out.extend(node_labels::term_warnings(term, &terms.index(i)));
    }
    out
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (object.at("spec"), object.at("status"));
    let claim = if spec.has("claimRef") {
        let claim = spec.at("claimRef");
        format!("{}/{}", claim.text("namespace"), claim.text("name"))
    } else {
        String::new()
    };
    let capacity = spec.at("capacity").at("storage");
    let legacy = object
        .at("metadata")
        .at("annotations")
        .text("volume.beta.kubernetes.io/storage-class");
    let class = match legacy {
        "" => spec.text("storageClassName"),
        legacy => legacy,
    };
    let phase = if object.at("metadata").has("deletionTimestamp") {
        "Terminating"
    } else {
        status.text("phase")
    };
    vec![
        name(object),
        if capacity.is_null() {
            "0".into()
        } else {
            resources::shown(capacity).into()
        },
        cells::access_modes(spec.items("accessModes")).into(),
        spec.text("persistentVolumeReclaimPolicy").into(),
        phase.into(),
        claim.into(),
        class.into(),
        or_unset(spec.text("volumeAttributesClassName")),
        status.text("reason").into(),
        age(object, now),
        or_unset(spec.text("volumeMode")),
    ]
}

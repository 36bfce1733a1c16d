//! `VolumeAttachment`: a volume at a node.

use control_types::value::Value;

use crate::error::{Errors, Path};
use crate::generic::{self, PLAIN};
use crate::rules::{collect, immutable_as, meta, names, volume_spec, volumes};
use crate::table::{Timestamp, age, columns, name};
use crate::tree::Read;
use crate::{FieldError, Kind};

const METADATA_LIMIT: usize = 256 * (1 << 10);
const MESSAGE_LIMIT: usize = 1024;

pub(crate) static KIND: Kind = Kind {
    group: "storage.k8s.io",
    kind: "VolumeAttachment",
    namespaced: Some(false),
    prepare_create: generic::no_status,
    prepare_update: generic::keep_status,
    prepare_status_update: generic::update_status_keep_metadata,
    validate_create: |object| collect(|errors| check(object, errors)),
    validate_update,
    validate_status_update: validate_update,
    columns: columns::VOLUME_ATTACHMENT,
    row,
    ..PLAIN
};

fn check(object: &Value, errors: &mut Errors) {
    meta::validate(object, Some(false), names::subdomain_name, errors);
    let (spec, at) = (object.at("spec"), Path::new("spec"));
    if spec.text("attacher").is_empty() {
        errors.required(&at.child("attacher"), "");
    } else {
        volumes::csi_driver(spec.text("attacher"), &at.child("attacher"), errors);
    }
    let source = spec.at("source");
    let source_at = at.child("source");
    let one = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    let volume = source.text("persistentVolumeName");
    match (
        source.has("inlineVolumeSpec"),
        source.has("persistentVolumeName"),
    ) {
        (false, false) => errors.required(&source_at, one),
        (true, true) => errors.forbidden(&source_at, one),
        (false, true) if volume.is_empty() => errors.required(
            &source_at.child("persistentVolumeName"),
            "must specify non empty persistentVolumeName",
        ),
        (false, true) => {}
        (true, false) => volume_spec::check(
            source.at("inlineVolumeSpec"),
            true,
            &source_at.child("inlineVolumeSpec"),
            errors,
        ),
    }
    let node = spec.text("nodeName");
    errors.invalid_each(&at.child("nodeName"), node, names::dns_subdomain(node));
    check_status(object.at("status"), errors);
    if source.has("persistentVolumeName") {
        errors.invalid_each(
            &Path::new("spec.source.persistentVolumeName"),
            volume,
            names::dns_subdomain(volume),
        );
    }
}

fn check_status(status: &Value, errors: &mut Errors) {
    let at = Path::new("status");
    let size: usize = status
        .entries("attachmentMetadata")
        .map(|(key, value)| key.len() + value.as_text().len())
        .sum();
    if size > METADATA_LIMIT {
        errors.too_long(&at.child("attachmentMetadata"), METADATA_LIMIT);
    }
    for field in ["attachError", "detachError"] {
        let failure = status.at(field);
        if failure.text("message").len() > MESSAGE_LIMIT {
            errors.too_long(&at.child(field).child("message"), METADATA_LIMIT);
        }
        if let Some(code) = failure.int("errorCode").filter(|code| *code < 0) {
            errors.invalid(
                &at.child(field).child("errorCode"),
                code,
                names::between(0, i64::from(i32::MAX)),
            );
        }
    }
}

fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        check(new, errors);
        let (now, then) = (new.at("spec"), old.at("spec"));
        let name = "storage.VolumeAttachmentSpec";
        immutable_as(name, now, then, &Path::new("spec"), errors);
    })
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = object.at("spec");
    vec![
        name(object),
        spec.text("attacher").into(),
        spec.at("source").text("persistentVolumeName").into(),
        spec.text("nodeName").into(),
        object.at("status").flag("attached").into(),
        age(object, now),
    ]
}

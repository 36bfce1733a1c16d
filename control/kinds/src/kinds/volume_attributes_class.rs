//! `VolumeAttributesClass`: changeable properties of volumes.

use control_types::value::Value;

use super::storage_class::provisioner;
use crate::error::{Errors, Path};
use crate::generic::PLAIN;
use crate::rules::{collect, meta, names, volume_spec};
use crate::table::{age, columns, name};
use crate::tree::{Read, same};
use crate::{FieldError, Kind};

pub(crate) static KIND: Kind = Kind {
    group: "storage.k8s.io",
    kind: "VolumeAttributesClass",
    namespaced: Some(false),
    validate_create: |object| collect(|errors| check(object, errors)),
    validate_update,
    columns: columns::VOLUME_ATTRIBUTES_CLASS,
    row: |object, now| {
        vec![
            name(object),
            object.text("driverName").into(),
            age(object, now),
        ]
    },
    allow_unconditional_update: true,
    ..PLAIN
};

fn check(object: &Value, errors: &mut Errors) {
    meta::validate(object, Some(false), names::subdomain_name, errors);
    provisioner(object.text("driverName"), &Path::new("driverName"), errors);
    volume_spec::parameters(
        object.at("parameters"),
        false,
        &Path::new("parameters"),
        errors,
    );
}

fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update(new, old, errors);
        for field in ["driverName", "parameters"] {
            if !same(new.at(field), old.at(field)) {
                errors.forbidden(
                    &Path::new(field),
                    format!("updates to {field} are forbidden."),
                );
            }
        }
        check(new, errors);
    })
}

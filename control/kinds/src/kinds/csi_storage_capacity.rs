//! `CSIStorageCapacity`: how much a driver can still provide.

use control_types::value::Value;

use crate::error::{Errors, Path};
use crate::generic::PLAIN;
use crate::rules::{collect, immutable, labels, meta, names, node_labels, quantity};
use crate::tree::Read;
use crate::{FieldError, Kind};

pub(crate) static KIND: Kind = Kind {
    group: "storage.k8s.io",
    kind: "CSIStorageCapacity",
    namespaced: Some(true),
    validate_create: |object| collect(|errors| check(object, errors)),
    validate_update,
    warnings: |object, _| {
        node_labels::selector_warnings(object.at("nodeTopology"), &Path::new("nodeTopology"))
    },
    ..PLAIN
};

fn check(object: &Value, errors: &mut Errors) {
    meta::validate(object, Some(true), names::subdomain_name, errors);
    labels::selector(
        object.at("nodeTopology"),
        &Path::new("nodeTopology"),
        errors,
    );
    let class = object.text("storageClassName");
    errors.invalid_each(
        &Path::new("storageClassName"),
        class,
        names::dns_subdomain(class),
    );
    let capacity = object.at("capacity");
    if quantity::to_nanos(capacity) < 0 {
        errors.invalid(
            &Path::new("capacity"),
            capacity.clone(),
            "must be greater than or equal to 0",
        );
    }
}

fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        check(new, errors);
        meta::update(new, old, errors);
        for field in ["nodeTopology", "storageClassName"] {
            immutable(new.at(field), old.at(field), &Path::new(field), errors);
        }
    })
}

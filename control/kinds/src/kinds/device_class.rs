//! `DeviceClass`: devices that are alike to those who ask for one.

use control_types::value::Value;

use crate::Kind;
use crate::error::{Errors, Path};
use crate::generic::{self, PLAIN};
use crate::rules::{collect, devices, meta, names, resources};
use crate::table::{age, columns, name};
use crate::tree::Read;

pub(crate) static KIND: Kind = Kind {
    group: "resource.k8s.io",
    kind: "DeviceClass",
    namespaced: Some(false),
    prepare_create: generic::generation_one,
    prepare_update: |new, old| generic::raise_generation_on(new, old, &["spec"]),
    validate_create: |object| collect(|errors| check(object, errors)),
    validate_update: |new, old| {
        collect(|errors| {
            meta::update(new, old, errors);
            check(new, errors);
        })
    },
    columns: columns::DEVICE_CLASS,
    row: |object, now| vec![name(object), age(object, now)],
    allow_unconditional_update: true,
    ..PLAIN
};

fn check(object: &Value, errors: &mut Errors) {
    meta::validate(object, Some(false), names::subdomain_name, errors);
    let (spec, at) = (object.at("spec"), Path::new("spec"));
    devices::selectors(spec.items("selectors"), &at.child("selectors"), errors);
    let all = at.child("config");
    for (i, config) in spec.items("config").iter().enumerate() {
        devices::configuration(config, &all.index(i), errors);
    }
    let field = "extendedResourceName";
    if spec.has(field) && !resources::is_extended(spec.text(field)) {
        errors.invalid(
            &at.child(field),
            spec.text(field),
            "must be a valid extended resource name",
        );
    }
}

//! `ResourceSlice`: the devices that a driver has.

use control_types::value::Value;

use crate::error::{Errors, Path};
use crate::generic::{self, PLAIN};
use crate::rules::{collect, immutable, meta, names, volumes};
use crate::table::{Now, age, columns, name};
use crate::tree::Read;
use crate::{Field, FieldError, Kind};

const DEVICES: usize = 128;

pub(crate) static KIND: Kind = Kind {
    group: "resource.k8s.io",
    kind: "ResourceSlice",
    namespaced: Some(false),
    prepare_create: generic::generation_one,
    prepare_update: |new, old| generic::raise_generation_on(new, old, &["spec"]),
    validate_create: |object| collect(|errors| check(object, errors)),
    validate_update,
    selectable: &["spec.driver", "spec.nodeName"],
    selectable_fields,
    columns: columns::RESOURCE_SLICE,
    row,
    allow_unconditional_update: true,
    ..PLAIN
};

fn check(object: &Value, errors: &mut Errors) {
    meta::validate(object, Some(false), names::subdomain_name, errors);
    let (spec, at) = (object.at("spec"), Path::new("spec"));
    let driver = spec.text("driver");
    if driver.is_empty() {
        errors.required(&at.child("driver"), "");
    } else {
        volumes::csi_driver(driver, &at.child("driver"), errors);
    }
    let (pool, pool_at) = (spec.at("pool"), at.child("pool"));
    let name = pool.text("name");
    if name.is_empty() {
        errors.required(&pool_at.child("name"), "");
    } else {
        for part in name.split('/') {
            errors.invalid_each(&pool_at.child("name"), part, names::dns_subdomain(part));
        }
    }
    if pool.num("resourceSliceCount") <= 0 {
        errors.invalid(
            &pool_at.child("resourceSliceCount"),
            pool.num("resourceSliceCount"),
            "must be greater than zero",
        );
    }
    if pool.num("generation") < 0 {
        errors.invalid(
            &pool_at.child("generation"),
            pool.num("generation"),
            "must be greater than or equal to zero",
        );
    }
    let places = [
        !spec.text("nodeName").is_empty(),
        spec.has("nodeSelector"),
        spec.flag("allNodes"),
        spec.flag("perDeviceNodeSelection"),
    ];
    let chosen = places.iter().filter(|place| **place).count();
    if chosen == 0 {
        errors.required(
            &at,
            "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required",
        );
    } else if chosen > 1 {
        errors.invalid(
            &at,
            Value::Null,
            "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required, but multiple fields are set",
        );
    }
    if spec.has("nodeName") {
        let node = spec.text("nodeName");
        errors.invalid_each(&at.child("nodeName"), node, names::dns_subdomain(node));
    }
    let all = at.child("devices");
    let devices = spec.items("devices");
    if devices.len() > DEVICES {
        errors.too_many(&all, devices.len(), DEVICES);
    }
    for (i, device) in devices.iter().enumerate() {
        let name = device.text("name");
        let at = all.index(i);
        errors.invalid_each(&at.child("name"), name, names::dns_label(name));
        if devices
            .iter()
            .take(i)
            .any(|other| other.text("name") == name)
        {
            errors.duplicate(&at.child("name"), name);
        }
        let attributes = at.child("attributes");
        for (name, attribute) in device.entries("attributes") {
            let values = attribute.as_object().map_or(0, control_types::Map::len);
            if values != 1 {
                let why = "exactly one value must be specified";
                errors.invalid(&attributes.key(name), attribute.clone(), why);
            }
        }
    }
}

fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        check(new, errors);
        meta::update(new, old, errors);
        for (path, said) in [
            (&["spec", "driver"][..], "spec.driver"),
            (&["spec", "pool", "name"], "spec.pool.name"),
            (&["spec", "nodeName"], "spec.nodeName"),
        ] {
            immutable(new.dig(path), old.dig(path), &Path::new(said), errors);
        }
    })
}

fn selectable_fields(object: &Value) -> Vec<Field> {
    let spec = object.at("spec");
    vec![
        ("spec.driver", spec.text("driver").to_owned()),
        ("spec.nodeName", spec.text("nodeName").to_owned()),
    ]
}

fn row(object: &Value, now: Now) -> Vec<Value> {
    let spec = object.at("spec");
    vec![
        name(object),
        spec.text("nodeName").into(),
        spec.text("driver").into(),
        spec.at("pool").text("name").into(),
        age(object, now),
    ]
}

//! `ResourceSlice`: the devices that a driver has.

use control_types::time;
use control_types::value::Value;

use crate::error::{Errors, Path, quoted};
use crate::generic::{self, PLAIN};
use crate::rules::{collect, device_slices, immutable, immutable_text, meta, names};
use crate::table::{Timestamp, age, columns, name};
use crate::tree::{Read, Write};
use crate::{Field, FieldError, Kind};

pub(crate) static KIND: Kind = Kind {
    group: "resource.k8s.io",
    kind: "ResourceSlice",
    namespaced: Some(false),
    default,
    prepare_create: generic::generation_one,
    prepare_update: |new, old| generic::raise_generation_on(new, old, &["spec"]),
    validate_create: |object| collect(|errors| check(object, errors)),
    validate_update,
    warnings,
    selectable: &["spec.driver", "spec.nodeName"],
    selectable_fields,
    columns: columns::RESOURCE_SLICE,
    row,
    allow_unconditional_update: true,
    ..PLAIN
};

fn check(object: &Value, errors: &mut Errors) {
    meta::validate(object, Some(false), names::subdomain_name, errors);
    device_slices::spec(object.at("spec"), None, &Path::new("spec"), errors);
}

/// Taints are dated when they appear.
fn default(object: &mut Value) {
    let spec = object.make("spec");
    for device in spec.items_mut("devices") {
        for taint in device.items_mut("taints") {
            taint.absent("timeAdded", time::now());
        }
    }
}

fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update(new, old, errors);
        let before = Some(old.at("spec"));
        device_slices::spec(new.at("spec"), before, &Path::new("spec"), errors);
        for (path, said) in [
            (&["spec", "pool", "name"][..], "spec.pool.name"),
            (&["spec", "driver"], "spec.driver"),
        ] {
            let (now, then) = (new.dig(path).as_text(), old.dig(path).as_text());
            immutable_text(now, then, &Path::new(said), errors);
        }
        let node = &["spec", "nodeName"];
        immutable(
            new.dig(node),
            old.dig(node),
            &Path::new("spec.nodeName"),
            errors,
        );
    })
}

fn warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let driver = new.at("spec").text("driver");
    let known = old.is_some_and(|old| old.at("spec").text("driver") == driver);
    if known || driver == driver.to_lowercase() {
        return Vec::new();
    }
    vec![format!(
        "spec.driver: driver names should be lowercase; {} contains uppercase characters",
        quoted(driver)
    )]
}

fn selectable_fields(object: &Value) -> Vec<Field> {
    let spec = object.at("spec");
    vec![
        ("spec.driver", spec.text("driver").to_owned()),
        ("spec.nodeName", spec.text("nodeName").to_owned()),
    ]
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = object.at("spec");
    vec![
        name(object),
        spec.text("nodeName").into(),
        spec.text("driver").into(),
        spec.at("pool").text("name").into(),
        age(object, now),
    ]
}

//! `PriorityClass`: how important pods are.

use control_types::value::Value;

use crate::error::{Errors, Path};
use crate::generic::{self, PLAIN};
use crate::rules::{collect, immutable, meta, names};
use crate::table::{Timestamp, age, columns, name};
use crate::tree::{Read, Write};
use crate::{FieldError, Kind};

/// Above it are the classes of the system.
const HIGHEST: i64 = 1_000_000_000;
const SYSTEM: &[(&str, i64)] = &[
    ("system-node-critical", 2_000_001_000),
    ("system-cluster-critical", 2_000_000_000),
];

pub(crate) static KIND: Kind = Kind {
    group: "scheduling.k8s.io",
    kind: "PriorityClass",
    namespaced: Some(false),
    default: |object| object.absent("preemptionPolicy", "PreemptLowerPriority"),
    prepare_create: generic::generation_one,
    validate_create: |object| collect(|errors| check(object, errors)),
    validate_update,
    columns: columns::PRIORITY_CLASS,
    row,
    allow_unconditional_update: true,
    undeletable: |name| {
        SYSTEM
            .iter()
            .any(|(system, _)| *system == name)
            .then_some("this is a system priority class and cannot be deleted")
    },
    ..PLAIN
};

fn check(object: &Value, errors: &mut Errors) {
    meta::validate(object, Some(false), names::subdomain_name, errors);
    let name = object.at("metadata").text("name");
    let value = object.num("value");
    if name.starts_with("system-") {
        let wrong = match SYSTEM.iter().find(|(known, _)| *known == name) {
            None => Some(format!("{name} is not a known system priority class")),
            Some((_, wanted)) if *wanted != value => {
                Some(format!("value of {name} PriorityClass must be {wanted}"))
            }
            Some(_) if object.flag("globalDefault") => Some(format!(
                "globalDefault of {name} PriorityClass must be false"
            )),
            Some(_) => None,
        };
        if let Some(wrong) = wrong {
            errors.forbidden(
                &Path::new("metadata.name"),
                format!("priority class names with 'system-' prefix are reserved for system use only. error: {wrong}"),
            );
        }
    } else if value > HIGHEST {
        errors.forbidden(
            &Path::new("value"),
            format!("maximum allowed value of a user defined priority is {HIGHEST}"),
        );
    }
    let at = Path::new("preemptionPolicy");
    match object.text("preemptionPolicy") {
        "PreemptLowerPriority" | "Never" => {}
        "" if !object.has("preemptionPolicy") => {}
        "" => errors.required(&at, ""),
        other => errors.not_supported(&at, other, &["PreemptLowerPriority", "Never"]),
    }
}

fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update(new, old, errors);
        if new.num("value") != old.num("value") {
            errors.forbidden(&Path::new("value"), "may not be changed in an update.");
        }
        let policy = "preemptionPolicy";
        immutable(new.at(policy), old.at(policy), &Path::new(policy), errors);
    })
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        object.num("value").into(),
        object.flag("globalDefault").into(),
        age(object, now),
        object.text("preemptionPolicy").into(),
    ]
}

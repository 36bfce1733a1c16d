//! `PodDisruptionBudget`: how many pods may be evicted at a time.

use control_types::value::Value;

use crate::error::{Errors, Path};
use crate::generic::{self, DEFAULT};
use crate::rules::validate_workload::{amount, at_most_all};
use crate::rules::{collect, conditions, labels, non_negative};
use crate::table::{Timestamp, age, columns, name};
use crate::tree::{Read, Write};
use crate::{FieldError, Kind};

pub(crate) static KIND: Kind = Kind {
    group: "policy",
    kind: "PodDisruptionBudget",
    namespaced: Some(true),
    prepare_create: generic::first_generation_no_status,
    prepare_status_update: |new, old| new.take_from(old, "spec"),
    validate_create: |object| collect(|errors| check(object, errors)),
    validate_update: |new, _| collect(|errors| check(new, errors)),
    validate_status_update,
    columns: columns::POD_DISRUPTION_BUDGET,
    row,
    ..DEFAULT
};

fn check(object: &Value, errors: &mut Errors) {
    let (spec, at) = (object.at("spec"), Path::new("spec"));
    let bounds = ["minAvailable", "maxUnavailable"];
    if bounds.iter().all(|field| spec.has(field)) {
        errors.invalid(
            &at,
            spec.clone(),
            "minAvailable and maxUnavailable cannot be both set",
        );
    }
    for field in bounds.iter().filter(|field| spec.has(field)) {
        amount(spec.at(field), &at.child(field), errors);
        at_most_all(spec.at(field), &at.child(field), errors);
    }
    labels::selector(spec.at("selector"), &at.child("selector"), errors);
    let policy = "unhealthyPodEvictionPolicy";
    if spec.has(policy) && !matches!(spec.text(policy), "AlwaysAllow" | "IfHealthyBudget") {
        errors.not_supported(
            &at.child(policy),
            spec.text(policy),
            &["AlwaysAllow", "IfHealthyBudget"],
        );
    }
}

fn validate_status_update(new: &Value, _old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        let (status, at) = (new.at("status"), Path::new("status"));
        conditions::all(status.items("conditions"), &at.child("conditions"), errors);
        for field in [
            "disruptionsAllowed",
            "currentHealthy",
            "desiredHealthy",
            "expectedPods",
        ] {
            non_negative(status.num(field), &at.child(field), errors);
        }
    })
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = object.at("spec");
    let shown = |field: &str| match spec.at(field) {
        Value::Null => Value::from("N/A"),
        Value::Int(number) => number.to_string().into(),
        text => text.as_text().into(),
    };
    vec![
        name(object),
        shown("minAvailable"),
        shown("maxUnavailable"),
        object.at("status").num("disruptionsAllowed").into(),
        age(object, now),
    ]
}

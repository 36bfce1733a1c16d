//! Deployment: rolling replacement of pods by replica sets.

use control_types::value::Value;

use crate::generic::{self, DEFAULT};
use crate::rules::{defaults, labels, validate_workload as rules};
use crate::table::{Timestamp, age, cells, columns, name};
use crate::tree::{Read, Write};
use crate::{FieldError, Kind, Scale};

pub(crate) static KIND: Kind = Kind {
    group: "apps",
    kind: "Deployment",
    namespaced: Some(true),
    template: Some(&["spec", "template"]),
    default,
    prepare_create: generic::first_generation_no_status,
    prepare_update,
    prepare_status_update: generic::update_status_keep_labels,
    validate_create,
    validate_update,
    validate_status_update,
    warnings: rules::named_template_warnings,
    columns: columns::DEPLOYMENT,
    row,
    allow_unconditional_update: true,
    scale: Some(SCALE),
    ..DEFAULT
};

/// The scale paths of workloads.
pub(crate) const SCALE: Scale = Scale {
    spec_replicas: &["spec", "replicas"],
    status_replicas: &["status", "replicas"],
    selector: Some(&["spec", "selector"]),
};

fn default(object: &mut Value) {
    let spec = object.make("spec");
    spec.absent("replicas", 1_i64);
    let strategy = spec.make("strategy");
    strategy.blank("type", "RollingUpdate");
    if strategy.text("type") == "RollingUpdate" {
        let rolling = strategy.make("rollingUpdate");
        rolling.absent("maxUnavailable", "25%");
        rolling.absent("maxSurge", "25%");
    }
    spec.absent("revisionHistoryLimit", 10_i64);
    spec.absent("progressDeadlineSeconds", 600_i64);
    defaults::pod_template(Some(spec.make("template")));
}

fn prepare_update(new: &mut Value, old: &Value) {
    new.take_from(old, "status");
    // annotations count as well: rollouts read them
    let annotations = |o: &Value| o.at("metadata").at("annotations").clone();
    if annotations(new) == annotations(old) {
        generic::raise_generation_on(new, old, &["spec"]);
    } else {
        generic::raise_generation(new, old);
    }
}

fn validate_create(object: &Value) -> Vec<FieldError> {
    rules::deployment(object)
}

fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    rules::deployment_update(new, old)
}

fn validate_status_update(new: &Value, old: &Value) -> Vec<FieldError> {
    rules::deployment_status(new, old)
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (object.at("spec"), object.at("status"));
    let [names, images] = cells::containers(spec.at("template").at("spec"));
    vec![
        name(object),
        format!("{}/{}", status.num("readyReplicas"), spec.num("replicas")).into(),
        status.num("updatedReplicas").into(),
        status.num("availableReplicas").into(),
        age(object, now),
        names,
        images,
        labels::format(spec.at("selector")).into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_annotations_raises_the_generation_too() {
        let parse = |text: &str| Value::from_slice(text.as_bytes()).expect("test object");
        let old =
            parse(r#"{"metadata":{"generation":3},"spec":{"replicas":1},"status":{"replicas":1}}"#);
        let mut new =
            parse(r#"{"metadata":{"generation":3,"annotations":{"a":"b"}},"spec":{"replicas":1}}"#);
        prepare_update(&mut new, &old);
        assert_eq!(new.at("metadata").num("generation"), 4);
        assert_eq!(new.at("status").num("replicas"), 1);
    }

    #[test]
    fn recreate_has_no_rolling_parameters() {
        let mut object = Value::from_slice(br#"{"spec":{"strategy":{"type":"Recreate"}}}"#)
            .expect("test object");
        default(&mut object);
        assert!(!object.at("spec").at("strategy").has("rollingUpdate"));
        assert_eq!(object.at("spec").num("replicas"), 1);
    }
}

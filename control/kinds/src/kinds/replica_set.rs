//! `ReplicaSet`: a number of equal pods.

use control_types::value::Value;

use super::deployment::SCALE;
use crate::generic::{self, DEFAULT};
use crate::rules::{defaults, labels, validate_workload as rules};
use crate::table::{Timestamp, age, cells, columns, name};
use crate::tree::{Read, Write};
use crate::{Field, Kind};

pub(crate) static KIND: Kind = Kind {
    group: "apps",
    kind: "ReplicaSet",
    namespaced: Some(true),
    template: Some(&["spec", "template"]),
    default,
    prepare_create: generic::first_generation_no_status,
    prepare_status_update: generic::update_status,
    validate_create: rules::replica_set,
    validate_update: rules::replica_set_update,
    validate_status_update: rules::replica_set_status,
    warnings: rules::named_template_warnings,
    columns: columns::REPLICA_SET,
    row,
    allow_unconditional_update: true,
    scale: Some(SCALE),
    ..DEFAULT
};

fn default(object: &mut Value) {
    let spec = object.make("spec");
    spec.absent("replicas", 1_i64);
    defaults::pod_template(Some(spec.make("template")));
}

pub(crate) fn selectable_fields(object: &Value) -> Vec<Field> {
    vec![(
        "status.replicas",
        object.at("status").num("replicas").to_string(),
    )]
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let mut cells = counts(object, now);
    cells.push(labels::format(object.at("spec").at("selector")).into());
    cells
}

/// The columns that replica sets and replication controllers share.
pub(crate) fn counts(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (object.at("spec"), object.at("status"));
    let [names, images] = cells::containers(spec.at("template").at("spec"));
    vec![
        name(object),
        spec.num("replicas").into(),
        status.num("replicas").into(),
        status.num("readyReplicas").into(),
        age(object, now),
        names,
        images,
    ]
}

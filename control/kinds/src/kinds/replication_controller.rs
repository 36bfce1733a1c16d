//! `ReplicationController`: the older replica set, whose selector is a map.

use control_types::value::Value;

use super::replica_set;
use crate::generic::{self, DEFAULT};
use crate::rules::{defaults, labels, validate_workload as rules};
use crate::table::{Timestamp, columns};
use crate::tree::{Read, Write};
use crate::{Kind, Scale};

pub(crate) static KIND: Kind = Kind {
    group: "",
    kind: "ReplicationController",
    namespaced: Some(true),
    template: Some(&["spec", "template"]),
    default,
    prepare_create: generic::first_generation_no_status,
    prepare_status_update: generic::update_status,
    validate_create: rules::replication_controller,
    settle: labels_from_template,
    validate_update: rules::replication_controller_update,
    validate_status_update: rules::replica_set_status,
    warnings: rules::named_template_warnings,
    selectable: &["status.replicas"],
    selectable_fields: replica_set::selectable_fields,
    columns: columns::REPLICATION_CONTROLLER,
    row,
    allow_unconditional_update: true,
    scale: Some(Scale {
        spec_replicas: &["spec", "replicas"],
        status_replicas: &["status", "replicas"],
        selector: Some(&["spec", "selector"]),
    }),
    ..DEFAULT
};

fn default(object: &mut Value) {
    let spec = object.make("spec");
    spec.absent("replicas", 1_i64);
    defaults::pod_template(spec.there("template"));
    labels_from_template(object);
}

/// Gives a controller without selector or labels those of its pods.
fn labels_from_template(object: &mut Value) {
    let spec = object.make("spec");
    let labels = spec.at("template").at("metadata").at("labels").clone();
    if labels.as_object().is_some_and(|l| !l.is_empty()) {
        if spec.size("selector") == 0 {
            spec.put("selector", labels.clone());
        }
        let meta = object.make("metadata");
        if meta.size("labels") == 0 {
            meta.put("labels", labels);
        }
    }
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let mut cells = replica_set::counts(object, now);
    cells.push(labels::format_map(object.at("spec").at("selector")).into());
    cells
}

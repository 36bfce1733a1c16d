//! `PodTemplate`: a template kept on its own.

use control_types::value::Value;

use crate::Kind;
use crate::generic::{self, DEFAULT};
use crate::rules::{defaults, labels, validate_workload as rules};
use crate::table::{Timestamp, cells, columns, name};
use crate::tree::{Read, Write};

pub(crate) static KIND: Kind = Kind {
    group: "",
    kind: "PodTemplate",
    namespaced: Some(true),
    template: Some(&["template"]),
    default,
    prepare_create: generic::generation_one,
    prepare_update,
    validate_create: rules::stored_template,
    validate_update: rules::stored_template_update,
    warnings: rules::stored_template_warnings,
    columns: columns::POD_TEMPLATE,
    row,
    allow_unconditional_update: true,
    ..DEFAULT
};

fn default(object: &mut Value) {
    defaults::pod_template(Some(object.make("template")));
}

fn prepare_update(new: &mut Value, old: &Value) {
    generic::raise_generation_on(new, old, &["template"]);
}

fn row(object: &Value, _now: Timestamp) -> Vec<Value> {
    let template = object.at("template");
    let [names, images] = cells::containers(template.at("spec"));
    vec![
        name(object),
        names,
        images,
        labels::format_map(template.at("metadata").at("labels")).into(),
    ]
}

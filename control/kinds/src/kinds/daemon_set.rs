//! `DaemonSet`: one pod per node.

use control_types::value::Value;

use crate::Kind;
use crate::generic::{self, DEFAULT};
use crate::rules::{defaults, labels, validate_workload as rules};
use crate::table::{Timestamp, age, cells, columns, name};
use crate::tree::{Read, Write, same};

pub(crate) static KIND: Kind = Kind {
    group: "apps",
    kind: "DaemonSet",
    namespaced: Some(true),
    template: Some(&["spec", "template"]),
    default,
    prepare_create,
    prepare_update,
    prepare_status_update: |new, old| {
        generic::update_status(new, old);
        set_template_generation(new, template_generation(old));
    },
    field_annotations: &[TEMPLATE_GENERATION],
    validate_create: rules::daemon_set,
    validate_update: rules::daemon_set_update,
    validate_status_update: rules::daemon_set_status,
    warnings: rules::template_warnings,
    columns: columns::DAEMON_SET,
    row,
    allow_unconditional_update: true,
    ..DEFAULT
};

/// The template's own generation lives in an annotation since `apps/v1`.
pub(super) const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn default(object: &mut Value) {
    // The API server's internal field is read from the annotation, and written there
    // whatever the client sent.
    let generation = template_generation(object);
    set_template_generation(object, generation);
    let spec = object.make("spec");
    let strategy = spec.make("updateStrategy");
    strategy.blank("type", "RollingUpdate");
    if strategy.text("type") == "RollingUpdate" {
        let rolling = strategy.make("rollingUpdate");
        rolling.absent("maxUnavailable", 1_i64);
        rolling.absent("maxSurge", 0_i64);
    }
    spec.absent("revisionHistoryLimit", 10_i64);
    defaults::pod_template(Some(spec.make("template")));
}

fn template_generation(object: &Value) -> i64 {
    object
        .at("metadata")
        .at("annotations")
        .text(TEMPLATE_GENERATION)
        .parse()
        .unwrap_or(0)
}

fn set_template_generation(object: &mut Value, generation: i64) {
    object
        .make("metadata")
        .make("annotations")
        .put(TEMPLATE_GENERATION, generation.to_string());
}

fn prepare_create(object: &mut Value) {
    generic::first_generation_no_status(object);
    let generation = template_generation(object).max(1);
    set_template_generation(object, generation);
}

fn prepare_update(new: &mut Value, old: &Value) {
    new.take_from(old, "status");
    let before = template_generation(old);
    let changed = !same(new.at("spec").at("template"), old.at("spec").at("template"));
    let generation = if changed {
        before.saturating_add(1)
    } else {
        before
    };
    set_template_generation(new, generation);
    generic::raise_generation_on(new, old, &["spec"]);
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (object.at("spec"), object.at("status"));
    let [names, images] = cells::containers(spec.at("template").at("spec"));
    vec![
        name(object),
        status.num("desiredNumberScheduled").into(),
        status.num("currentNumberScheduled").into(),
        status.num("numberReady").into(),
        status.num("updatedNumberScheduled").into(),
        status.num("numberAvailable").into(),
        labels::format_map(spec.at("template").at("spec").at("nodeSelector")).into(),
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
    fn only_a_change_of_the_template_raises_its_generation() {
        let mut first = Value::from_slice(br#"{"metadata":{},"spec":{"template":{"a":1}}}"#)
            .expect("test object");
        prepare_create(&mut first);
        let mut second = first.clone();
        second.make("spec").put("minReadySeconds", 3_i64);
        prepare_update(&mut second, &first);
        assert_eq!(
            (
                template_generation(&second),
                second.at("metadata").num("generation")
            ),
            (1, 2)
        );
        let mut third = second.clone();
        third.make("spec").make("template").put("a", 2_i64);
        prepare_update(&mut third, &second);
        assert_eq!(
            (
                template_generation(&third),
                third.at("metadata").num("generation")
            ),
            (2, 3)
        );
    }
}

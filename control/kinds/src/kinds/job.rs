//! Job: pods that run to completion.

use control_types::value::{Map, Value};

use crate::generic::DEFAULT;
use crate::rules::{defaults, labels, validate_job as rules, validate_workload};
use crate::table::{Timestamp, age, cells, columns, name, since};
use crate::tree::{Read, Write, same};
use crate::{Field, Kind, generic};

pub(crate) static KIND: Kind = Kind {
    group: "batch",
    kind: "Job",
    namespaced: Some(true),
    template: Some(&["spec", "template"]),
    default,
    prepare_create,
    prepare_update: |new, old| {
        labels_from_template(new);
        generic::update_spec(new, old);
    },
    prepare_status_update: generic::update_status,
    validate_create: rules::job,
    settle: labels_from_template,
    validate_update: rules::job_update,
    validate_status_update: rules::job_status,
    warnings: |new, old| validate_workload::job_warnings(new, old, "spec"),
    selectable: &["status.successful"],
    selectable_from: &["status.succeeded"],
    selectable_fields,
    columns: columns::JOB,
    row,
    allow_unconditional_update: true,
    ..DEFAULT
};

fn default(object: &mut Value) {
    let spec = object.make("spec");
    if !spec.has("completions") && !spec.has("parallelism") {
        spec.put("completions", 1_i64);
    }
    spec.absent("parallelism", 1_i64);
    let per_index = spec.has("backoffLimitPerIndex");
    spec.absent(
        "backoffLimit",
        if per_index { i64::from(i32::MAX) } else { 6 },
    );
    spec.absent("completionMode", "NonIndexed");
    spec.absent("suspend", false);
    let failed_only = spec.has("podFailurePolicy");
    spec.absent(
        "podReplacementPolicy",
        if failed_only {
            "Failed"
        } else {
            "TerminatingOrFailed"
        },
    );
    spec.absent("manualSelector", false);
    defaults::pod_template(Some(spec.make("template")));
    failure_policy(spec);
    labels_from_template(object);
}

/// Gives a job without labels those of its pods.
fn labels_from_template(object: &mut Value) {
    let template = object.at("spec").at("template");
    let labels = template.at("metadata").at("labels").clone();
    let meta = object.make("metadata");
    if meta.size("labels") == 0 && labels.as_object().is_some_and(|l| !l.is_empty()) {
        meta.put("labels", labels);
    }
}

/// Patterns of conditions in `podFailurePolicy` look for `True` unless they say otherwise.
pub(crate) fn failure_policy(spec: &mut Value) {
    if let Some(policy) = spec.there("podFailurePolicy") {
        for rule in policy.items_mut("rules") {
            for pattern in rule.items_mut("onPodConditions") {
                pattern.blank("status", "True");
            }
        }
    }
}

/// Both spellings of the labels that tie pods to their job.
fn identity(object: &Value) -> [(&'static str, String); 4] {
    let meta = object.at("metadata");
    let (uid, name) = (meta.text("uid").to_owned(), meta.text("name").to_owned());
    [
        ("controller-uid", uid.clone()),
        ("batch.kubernetes.io/controller-uid", uid),
        ("job-name", name.clone()),
        ("batch.kubernetes.io/job-name", name),
    ]
}

fn prepare_create(object: &mut Value) {
    generic::first_generation_no_status(object);
    if object.at("spec").flag("manualSelector") {
        return;
    }
    // labels that the job has from its pods change with theirs
    let template = object.at("spec").at("template").at("metadata");
    let labels = object.at("metadata").at("labels");
    let labelled = template.size("labels") > 0 && same(labels, template.at("labels"));
    let identity = identity(object);
    let uid = object.at("metadata").text("uid").to_owned();
    let spec = object.make("spec");
    let template_labels = spec.make("template").make("metadata").make("labels");
    for (key, value) in &identity {
        // a label that someone set stays: validation reports it
        template_labels.absent(key, value.as_str());
    }
    let selector = spec.make("selector");
    if !selector.has("matchLabels") {
        selector.put("matchLabels", Map::new());
    }
    selector
        .make("matchLabels")
        .absent("batch.kubernetes.io/controller-uid", uid);
    if labelled {
        let labels = object.at("spec").at("template").at("metadata");
        let labels = labels.at("labels").clone();
        object.make("metadata").put("labels", labels);
    }
}

fn selectable_fields(object: &Value) -> Vec<Field> {
    vec![(
        "status.successful",
        object.at("status").num("succeeded").to_string(),
    )]
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (object.at("spec"), object.at("status"));
    let succeeded = status.num("succeeded");
    let completions = match (spec.int("completions"), spec.num("parallelism")) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, many) if many > 1 => format!("{succeeded}/1 of {many}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let (start, end) = (status.text("startTime"), status.text("completionTime"));
    let took = match (start.is_empty(), end.parse::<Timestamp>()) {
        (true, _) => String::new(),
        (false, Ok(end)) => since(start, end),
        (false, Err(_)) => since(start, now),
    };
    let holds = |kind: &str| {
        status
            .items("conditions")
            .iter()
            .any(|c| c.text("type") == kind && c.text("status") == "True")
    };
    let state = if holds("Complete") {
        "Complete"
    } else if holds("Failed") {
        "Failed"
    } else if object.at("metadata").has("deletionTimestamp") {
        "Terminating"
    } else if holds("Suspended") {
        "Suspended"
    } else if holds("FailureTarget") {
        "FailureTarget"
    } else if holds("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    };
    let [names, images] = cells::containers(spec.at("template").at("spec"));
    vec![
        name(object),
        state.into(),
        completions.into(),
        took.into(),
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
    fn a_job_selects_its_pods_by_its_own_uid() {
        let mut job = Value::from_slice(br#"{"metadata":{"name":"j","uid":"u"},"spec":{}}"#)
            .expect("test object");
        default(&mut job);
        prepare_create(&mut job);
        let spec = job.at("spec");
        assert_eq!(
            spec.at("selector")
                .at("matchLabels")
                .text("batch.kubernetes.io/controller-uid"),
            "u"
        );
        assert_eq!(
            spec.at("template")
                .at("metadata")
                .at("labels")
                .text("job-name"),
            "j"
        );
        assert_eq!((spec.num("completions"), spec.num("backoffLimit")), (1, 6));
    }
}

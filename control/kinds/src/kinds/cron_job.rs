//! `CronJob`: jobs on a schedule.

use control_types::value::Value;

use crate::Kind;
use crate::generic::{self, DEFAULT};
use crate::rules::{defaults, labels, validate_batch as rules};
use crate::table::{Timestamp, age, cells, columns, name, or_none, since};
use crate::tree::{Read, Write};

pub(crate) static KIND: Kind = Kind {
    group: "batch",
    kind: "CronJob",
    namespaced: Some(true),
    template: Some(&["spec", "jobTemplate", "spec", "template"]),
    default,
    prepare_create: generic::first_generation_no_status,
    prepare_status_update: generic::update_status,
    validate_create: rules::cron_job,
    validate_update: rules::cron_job_update,
    warnings: rules::cron_job_warnings,
    columns: columns::CRON_JOB,
    row,
    allow_unconditional_update: true,
    ..DEFAULT
};

fn default(object: &mut Value) {
    let spec = object.make("spec");
    spec.blank("concurrencyPolicy", "Allow");
    spec.absent("suspend", false);
    spec.absent("successfulJobsHistoryLimit", 3_i64);
    spec.absent("failedJobsHistoryLimit", 1_i64);
    let job = spec.make("jobTemplate").make("spec");
    defaults::pod_template(Some(job.make("template")));
    super::job::failure_policy(job);
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (object.at("spec"), object.at("status"));
    let job = spec.at("jobTemplate").at("spec");
    let [names, images] = cells::containers(job.at("template").at("spec"));
    let last = status.text("lastScheduleTime");
    let active = i64::try_from(status.items("active").len()).unwrap_or(i64::MAX);
    vec![
        name(object),
        spec.text("schedule").into(),
        or_none(spec.text("timeZone")),
        cells::truth(spec.truth("suspend")),
        active.into(),
        if last.is_empty() {
            "<none>".into()
        } else {
            since(last, now).into()
        },
        age(object, now),
        names,
        images,
        labels::format(job.at("selector")).into(),
    ]
}

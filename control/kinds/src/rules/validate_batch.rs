//! Cron jobs and their schedules.

use control_types::cron::{self, Schedule};
use control_types::value::Value;

use super::validate_job::job_spec;
use super::{collect, meta, names, non_negative, validate_workload};
use crate::FieldError;
use crate::error::{Errors, Path};
use crate::tree::Read;

const SPEC: Path<'static> = Path::new("spec");

pub(crate) fn cron_job(object: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::validate(object, Some(true), names::subdomain_name, errors);
        cron_job_spec(object, None, errors);
        // its jobs get eleven more characters
        if object.at("metadata").text("name").len() > 52 {
            errors.invalid(
                &Path::new("metadata.name"),
                object.at("metadata").text("name"),
                "must be no more than 52 characters",
            );
        }
    })
}

pub(crate) fn cron_job_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update(new, old, errors);
        cron_job_spec(new, Some(old), errors);
    })
}

fn cron_job_spec(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let spec = object.at("spec");
    let before = old.map(|old| old.at("spec"));
    let schedule = spec.text("schedule");
    let at = SPEC.child("schedule");
    if schedule.is_empty() {
        errors.required(&at, "");
    } else {
        if let Err(problem) = Schedule::parse(schedule) {
            errors.invalid(&at, schedule, problem.to_string());
        }
        // An existing one may stay.
        let had_zone = before.is_some_and(|before| before.text("schedule").contains("TZ"));
        match (schedule.contains("TZ"), had_zone) {
            (true, true) if spec.has("timeZone") => errors.invalid(
                &at,
                schedule,
                "cannot use both timeZone field and TZ or CRON_TZ in schedule",
            ),
            (true, false) => errors.invalid(
                &at,
                schedule,
                "cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
            ),
            _ => {}
        }
    }
    non_negative(
        spec.num("startingDeadlineSeconds"),
        &SPEC.child("startingDeadlineSeconds"),
        errors,
    );
    let same_zone = before.is_some_and(|before| {
        (before.has("timeZone"), before.text("timeZone"))
            == (spec.has("timeZone"), spec.text("timeZone"))
    });
    if spec.has("timeZone") && !same_zone {
        time_zone(spec.text("timeZone"), errors);
    }
    super::container::required_one_of(
        spec.text("concurrencyPolicy"),
        &["Allow", "Forbid", "Replace"],
        &SPEC.child("concurrencyPolicy"),
        errors,
    );
    let job = spec.at("jobTemplate").at("spec");
    let at = SPEC.child("jobTemplate.spec");
    job_spec(job, &at, errors);
    if job.flag("manualSelector") {
        errors.not_supported(&at.child("manualSelector"), true, &["nil", "false"]);
    }
    for field in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        non_negative(spec.num(field), &SPEC.child(field), errors);
    }
}

fn time_zone(zone: &str, errors: &mut Errors) {
    let at = SPEC.child("timeZone");
    if zone.is_empty() {
        errors.invalid(&at, zone, "timeZone must be nil or non-empty string");
        return;
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+');
    let is_part = |part: &str| {
        let dots = matches!(part, "." | "..");
        !dots && !part.starts_with('-') && (1..=14).contains(&part.len()) && part.chars().all(plain)
    };
    if !zone.split('/').all(is_part) {
        errors.invalid(&at, zone, format!("unknown time zone {zone}"));
        return;
    }
    if zone.eq_ignore_ascii_case("local") {
        errors.invalid(
            &at,
            zone,
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
        );
    }
    if let Err(problem) = cron::zone(zone) {
        errors.invalid(&at, zone, problem.to_string());
    }
}

pub(crate) fn cron_job_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut out = validate_workload::job_warnings(new, old, "spec.jobTemplate.spec");
    if old.is_some() && new.at("spec").text("schedule").contains("TZ") {
        // the field is named with its parent twice
        out.push("cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details".into());
    }
    out
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    #[test]
    fn a_zone_in_the_schedule_is_only_kept() {
        let object = |schedule: &str, zone: Value| {
            let mut spec = value!({"schedule": (schedule)});
            spec.insert("timeZone", zone);
            value!({"spec": (spec)})
        };
        let said = |new: &Value, old: Option<&Value>| -> Vec<String> {
            let mut errors = Errors::new();
            cron_job_spec(new, old, &mut errors);
            let errors = errors.into_vec();
            let of = |error: &FieldError| error.field.starts_with("spec.schedule");
            errors
                .iter()
                .filter(|error| of(error))
                .map(|error| error.detail.clone())
                .collect()
        };
        let with = object("TZ=UTC 0 * * * *", Value::Null);
        assert!(said(&with, None)[0].starts_with("cannot use TZ or CRON_TZ in schedule"));
        assert!(said(&with, Some(&with)).is_empty());
        let both = object("TZ=UTC 0 * * * *", "UTC".into());
        assert!(said(&both, Some(&with))[0].starts_with("cannot use both"));
        assert!(said(&object("0 * * * *", Value::Null), None).is_empty());
    }

    #[test]
    fn time_zones_are_names_of_the_database() {
        let said = |zone: &str| {
            let mut errors = Errors::new();
            time_zone(zone, &mut errors);
            errors.into_vec().len()
        };
        for (zone, wrong) in [
            ("Europe/Berlin", 0),
            ("UTC", 0),
            ("", 1),
            ("../etc/passwd", 1),
            ("No/Where", 1),
            ("Europe/berlin", 1),
            ("Local", 1),
        ] {
            assert_eq!(said(zone), wrong, "{zone}");
        }
    }
}

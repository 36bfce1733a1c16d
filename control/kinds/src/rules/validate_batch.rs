//! Cron jobs and their schedules.

use control_types::value::Value;

use super::validate_job::job_spec;
use super::{collect, meta, names, non_negative, validate_workload};
use crate::FieldError;
use crate::error::{Errors, Path, quoted};
use crate::tree::Read;

const SPEC: Path<'static> = Path::new("spec");

pub(crate) fn cron_job(object: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::validate(object, Some(true), names::subdomain_name, errors);
        cron_job_spec(object, errors);
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
        cron_job_spec(new, errors);
    })
}

fn cron_job_spec(object: &Value, errors: &mut Errors) {
    let spec = object.at("spec");
    let schedule = spec.text("schedule");
    let at = SPEC.child("schedule");
    if schedule.is_empty() {
        errors.required(&at, "");
    } else if let Err(problem) = schedule_of(schedule) {
        errors.invalid(&at, schedule, problem);
    }
    non_negative(
        spec.num("startingDeadlineSeconds"),
        &SPEC.child("startingDeadlineSeconds"),
        errors,
    );
    if spec.has("timeZone") {
        let zone = spec.text("timeZone");
        let at = SPEC.child("timeZone");
        if zone.is_empty() {
            errors.invalid(&at, zone, "timeZone must be nil or non-empty string");
        } else if zone.eq_ignore_ascii_case("local") {
            errors.invalid(&at, zone, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones");
        } else if jiff::tz::TimeZone::get(zone).is_err() {
            errors.invalid(&at, zone, format!("unknown time zone {zone}"));
        }
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

/// Checks the five fields of a schedule, or one of its names (`@daily`).
fn schedule_of(text: &str) -> Result<(), String> {
    if let Some(name) = text.strip_prefix('@') {
        let known = matches!(
            name,
            "yearly" | "annually" | "monthly" | "weekly" | "daily" | "midnight" | "hourly"
        );
        if known || name.strip_prefix("every ").is_some_and(|d| !d.is_empty()) {
            return Ok(());
        }
        return Err(format!("unrecognized descriptor: {text}"));
    }
    let fields: Vec<&str> = text.split_whitespace().collect();
    if fields.len() != 5 {
        return Err(format!(
            "expected exactly 5 fields, found {}: [{}]",
            fields.len(),
            fields.join(" ")
        ));
    }
    let months = [
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ];
    let days = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
    let bounds: [(i64, i64, &[&str]); 5] = [
        (0, 59, &[]),
        (0, 23, &[]),
        (1, 31, &[]),
        (1, 12, &months),
        (0, 6, &days),
    ];
    for (field, (least, most, names)) in fields.iter().zip(bounds) {
        for part in field.split(',') {
            schedule_part(part, least, most, names)?;
        }
    }
    Ok(())
}

fn schedule_part(part: &str, least: i64, most: i64, names: &[&str]) -> Result<(), String> {
    let (range, step) = match part.split_once('/') {
        Some((range, step)) => (range, Some(step)),
        None => (part, None),
    };
    let number = |text: &str| -> Result<i64, String> {
        if let Some(i) = names.iter().position(|n| n.eq_ignore_ascii_case(text)) {
            return Ok(i64::try_from(i).unwrap_or(0) + least);
        }
        text.parse::<i64>().map_err(|_| {
            format!(
                "failed to parse int from {text}: strconv.Atoi: parsing {}: invalid syntax",
                quoted(text)
            )
        })
    };
    let (start, end) = match range {
        "*" | "?" => (least, most),
        _ => match range.split_once('-') {
            Some((a, b)) => (number(a)?, number(b)?),
            None => {
                let n = number(range)?;
                (n, if step.is_some() { most } else { n })
            }
        },
    };
    if let Some(step) = step
        && number(step)? == 0
    {
        return Err(format!("step of range should be a positive number: {part}"));
    }
    if start < least {
        return Err(format!(
            "beginning of range ({start}) below minimum ({least}): {part}"
        ));
    }
    if end > most {
        return Err(format!(
            "end of range ({end}) above maximum ({most}): {part}"
        ));
    }
    if start > end {
        return Err(format!(
            "beginning of range ({start}) beyond end of range ({end}): {part}"
        ));
    }
    Ok(())
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
    use super::*;

    #[test]
    fn schedules_are_checked_field_by_field() {
        for right in [
            "*/5 * * * *",
            "@daily",
            "0 0 1 jan mon-fri",
            "0,30 8-17/2 * * 0",
        ] {
            assert_eq!(schedule_of(right), Ok(()), "{right}");
        }
        assert_eq!(
            schedule_of("60 * * * *"),
            Err("end of range (60) above maximum (59): 60".into())
        );
        assert!(
            schedule_of("* * *")
                .is_err_and(|e| e.starts_with("expected exactly 5 fields, found 3"))
        );
        assert!(schedule_of("@never").is_err());
    }
}

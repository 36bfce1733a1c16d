//! Jobs and cron jobs.

use control_types::value::Value;

use super::{collect, labels, meta, names, non_negative, one_of, validate_workload};
use crate::FieldError;
use crate::error::{ErrorKind, Errors, Path, quoted};
use crate::tree::{Read, Write, same};

const SPEC: Path<'static> = Path::new("spec");

fn job_spec(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        non_negative(spec.num(field), &at.child(field), errors);
    }
    if spec.has("maxFailedIndexes") && !spec.has("backoffLimitPerIndex") {
        errors.required(
            &at.child("backoffLimitPerIndex"),
            "when maxFailedIndexes is specified",
        );
    }
    if spec.has("managedBy") {
        managed_by(spec.text("managedBy"), &at.child("managedBy"), errors);
    }
    let mode = spec.text("completionMode");
    if spec.has("completionMode") {
        one_of(
            mode,
            &["NonIndexed", "Indexed"],
            &at.child("completionMode"),
            errors,
        );
    }
    if mode == "Indexed" {
        if !spec.has("completions") {
            errors.required(&at.child("completions"), "when completion mode is Indexed");
        }
        if spec.num("parallelism") > 100_000 {
            errors.invalid(
                &at.child("parallelism"),
                spec.num("parallelism"),
                "must be less than or equal to 100000 when completion mode is Indexed",
            );
        }
        let failed = spec.num("maxFailedIndexes");
        if spec.has("completions") && failed > spec.num("completions") {
            errors.invalid(
                &at.child("maxFailedIndexes"),
                failed,
                "must be less than or equal to completions",
            );
        }
    }
    if matches!(mode, "" | "NonIndexed") {
        for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if let Some(number) = spec.int(field) {
                errors.invalid(&at.child(field), number, "requires indexed completion mode");
            }
        }
    }
    failure_policy(spec, &at.child("podFailurePolicy.rules"), errors);
    if spec.has("successPolicy") {
        let at = at.child("successPolicy");
        if mode == "Indexed" {
            success_policy(spec, &at.child("rules"), errors);
        } else {
            errors.invalid(
                &at,
                spec.at("successPolicy").clone(),
                "requires indexed completion mode",
            );
        }
    }
    if spec.has("podReplacementPolicy") {
        let of: &[&str] = if spec.has("podFailurePolicy") {
            &["Failed"]
        } else {
            &["Failed", "TerminatingOrFailed"]
        };
        one_of(
            spec.text("podReplacementPolicy"),
            of,
            &at.child("podReplacementPolicy"),
            errors,
        );
    }
    validate_workload::template(spec.at("template"), &at.child("template"), errors);
    let policy_at = at.child("template.spec.restartPolicy");
    match spec.at("template").at("spec").text("restartPolicy") {
        "Always" | "" => errors.required(&policy_at, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if spec.has("podFailurePolicy") => errors.invalid(
            &policy_at,
            "OnFailure",
            "only \"Never\" is supported when podFailurePolicy is specified",
        ),
        "OnFailure" | "Never" => {}
        other => errors.not_supported(&policy_at, other, &["OnFailure", "Never"]),
    }
}

/// A controller's name with a domain: `acme.io/foo`.
fn managed_by(name: &str, at: &Path<'_>, errors: &mut Errors) {
    match name.split_once('/') {
        _ if name.is_empty() => errors.required(at, ""),
        Some((host, path)) if !host.is_empty() && !path.is_empty() => {
            errors.invalid_each(at, host, names::dns_subdomain(host));
        }
        _ => errors.invalid(
            at,
            name,
            "must be a domain-prefixed path (such as \"acme.io/foo\")",
        ),
    }
    if name.len() > 63 {
        errors.too_long(at, 63);
    }
}

fn values_text(of: &[&str]) -> String {
    format!(
        "valid values: [{}]",
        of.iter().map(|v| quoted(v)).collect::<Vec<_>>().join(" ")
    )
}

fn failure_policy(spec: &Value, all: &Path<'_>, errors: &mut Errors) {
    let rules = spec.at("podFailurePolicy").items("rules");
    if rules.len() > 20 {
        errors.too_many(all, rules.len(), 20);
    }
    let actions = ["Count", "FailIndex", "FailJob", "Ignore"];
    for (i, rule) in rules.iter().enumerate() {
        let at = all.index(i);
        match rule.text("action") {
            "" => errors.required(&at.child("action"), values_text(&actions)),
            "FailIndex" if !spec.has("backoffLimitPerIndex") => {
                errors.invalid(
                    &at.child("action"),
                    "FailIndex",
                    "requires the backoffLimitPerIndex to be set",
                );
            }
            other => one_of(other, &actions, &at.child("action"), errors),
        }
        let codes = rule.at("onExitCodes");
        if !codes.is_null() {
            exit_codes(codes, spec, &at.child("onExitCodes"), errors);
        }
        let conditions = rule.items("onPodConditions");
        let list = at.child("onPodConditions");
        for (i, pattern) in conditions.iter().enumerate() {
            let at = list.index(i);
            let kind = pattern.text("type");
            errors.invalid_each(&at.child("type"), kind, names::qualified(kind));
            let states = ["False", "True", "Unknown"];
            match pattern.text("status") {
                "" => errors.required(&at.child("status"), values_text(&states)),
                other => one_of(other, &states, &at.child("status"), errors),
            }
        }
        let detail = match (codes.is_null(), conditions.is_empty()) {
            (false, false) => "specifying both OnExitCodes and OnPodConditions is not supported",
            (true, true) => "specifying one of OnExitCodes and OnPodConditions is required",
            _ => continue,
        };
        errors.add(ErrorKind::Invalid, &at, None, detail);
    }
}

fn exit_codes(codes: &Value, spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let operators = ["In", "NotIn"];
    match codes.text("operator") {
        "" => errors.required(&at.child("operator"), values_text(&operators)),
        other => one_of(other, &operators, &at.child("operator"), errors),
    }
    if codes.has("containerName") {
        let name = codes.text("containerName");
        let pod = spec.at("template").at("spec");
        let known = pod
            .items("containers")
            .iter()
            .chain(pod.items("initContainers"))
            .any(|c| c.text("name") == name);
        if !known {
            errors.invalid(
                &at.child("containerName"),
                name,
                "must be one of the container or initContainer names in the pod template",
            );
        }
    }
    let values = codes.items("values");
    let list = at.child("values");
    let whole = || Value::Array(values.to_vec());
    if values.is_empty() {
        errors.invalid(&list, whole(), "at least one value is required");
    } else if values.len() > 255 {
        errors.too_many(&list, values.len(), 255);
    }
    for (i, value) in values.iter().enumerate() {
        let number = value.as_i64().unwrap_or(0);
        if codes.text("operator") == "In" && number == 0 {
            errors.invalid(&list.index(i), number, "must not be 0 for the In operator");
        }
        if values.iter().take(i).any(|v| v == value) {
            errors.duplicate(&list.index(i), number);
        }
    }
    if values.windows(2).any(|w| w[0].as_i64() > w[1].as_i64()) {
        errors.invalid(&list, whole(), "must be ordered");
    }
}

fn success_policy(spec: &Value, all: &Path<'_>, errors: &mut Errors) {
    let rules = spec.at("successPolicy").items("rules");
    if rules.is_empty() {
        errors.required(
            all,
            "at least one rules must be specified when the successPolicy is specified",
        );
    }
    if rules.len() > 20 {
        errors.too_many(all, rules.len(), 20);
    }
    for (i, rule) in rules.iter().enumerate() {
        let at = all.index(i);
        if !rule.has("succeededCount") && !rule.has("succeededIndexes") {
            errors.required(
                &at,
                "at least one of succeededCount or succeededIndexes must be specified",
            );
        }
        if let Some(count) = rule.int("succeededCount") {
            let at = at.child("succeededCount");
            non_negative(count, &at, errors);
            let most = spec.num("completions");
            if count > most {
                errors.invalid(
                    &at,
                    count,
                    format!(
                        "must be less than or equal to {most} (the number of specified completions)"
                    ),
                );
            }
        }
    }
}

fn generated_selector(object: &Value, errors: &mut Errors) {
    let spec = object.at("spec");
    if spec.flag("manualSelector") || !spec.has("selector") {
        return;
    }
    let metadata = object.at("metadata");
    let mut expected = Value::object();
    for (key, field) in [
        ("controller-uid", "uid"),
        ("job-name", "name"),
        ("batch.kubernetes.io/controller-uid", "uid"),
        ("batch.kubernetes.io/job-name", "name"),
    ] {
        let wanted = metadata.text(field);
        expected.put(key, wanted);
        let at = Path::new("spec.template.metadata.labels");
        let labels = spec.at("template").at("metadata").at("labels");
        if !labels.has(key) {
            errors.required(&at.key(key), format!("must be '{wanted}'"));
        } else if labels.text(key) != wanted {
            errors.invalid(&at.key(key), labels.clone(), format!("must be '{wanted}'"));
        }
    }
    if !labels::matches(spec.at("selector"), &expected) {
        errors.invalid(
            &SPEC.child("selector"),
            spec.at("selector").clone(),
            "`selector` not auto-generated",
        );
    }
}

fn whole_spec(spec: &Value, errors: &mut Errors) {
    job_spec(spec, &SPEC, errors);
    if !spec.has("selector") {
        errors.required(&SPEC.child("selector"), "");
        return;
    }
    labels::selector(spec.at("selector"), &SPEC.child("selector"), errors);
    let labels = spec.at("template").at("metadata").at("labels");
    if !labels::matches(spec.at("selector"), labels) {
        errors.invalid(
            &SPEC.child("template.metadata.labels"),
            labels.clone(),
            "`selector` does not match template `labels`",
        );
    }
}

pub(crate) fn job(object: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::validate(object, Some(true), names::subdomain_name, errors);
        generated_selector(object, errors);
        let spec = object.at("spec");
        whole_spec(spec, errors);
        if spec.text("completionMode") == "Indexed" && spec.num("completions") > 0 {
            let name = object.at("metadata").text("name");
            let last = format!("{name}-{}", spec.num("completions") - 1);
            if !names::dns_label(&last).is_empty() {
                errors.invalid(
                    &Path::new("metadata.name"),
                    name,
                    format!("will not able to create pod with invalid DNS label: {last}"),
                );
            }
        }
    })
}

pub(crate) fn job_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update(new, old, errors);
        let (after, before) = (new.at("spec"), old.at("spec"));
        whole_spec(after, errors);
        let elastic = after.text("completionMode") == "Indexed"
            && after.has("completions")
            && after.num("completions") == after.num("parallelism");
        for field in [
            "completions",
            "selector",
            "completionMode",
            "podFailurePolicy",
            "backoffLimitPerIndex",
            "managedBy",
            "successPolicy",
        ] {
            if field == "completions" && elastic {
                continue;
            }
            super::immutable(
                after.at(field),
                before.at(field),
                &SPEC.child(field),
                errors,
            );
        }
        let suspended = before.flag("suspend") && !old.at("status").has("startTime");
        let fixed = |spec: &Value| {
            let mut template = spec.at("template").clone();
            if suspended {
                // before a job starts it may still be told where its pods go
                for field in ["nodeSelector", "affinity", "tolerations", "schedulingGates"] {
                    template.make("spec").drop_field(field);
                }
                for list in ["containers", "initContainers"] {
                    for c in template.make("spec").items_mut(list) {
                        c.drop_field("resources");
                    }
                }
                template.make("metadata").drop_field("labels");
                template.make("metadata").drop_field("annotations");
            }
            template
        };
        if !same(&fixed(after), &fixed(before)) {
            errors.invalid(
                &SPEC.child("template"),
                after.at("template").clone(),
                "field is immutable",
            );
        }
    })
}

pub(crate) fn job_status(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update(new, old, errors);
        let at = Path::new("status");
        let status = new.at("status");
        for field in ["active", "succeeded", "failed", "ready", "terminating"] {
            non_negative(status.num(field), &at.child(field), errors);
        }
        let holds = |kind: &str| {
            status
                .items("conditions")
                .iter()
                .any(|c| c.text("type") == kind && c.text("status") == "True")
        };
        let (complete, failed) = (holds("Complete"), holds("Failed"));
        if complete && failed {
            errors.add(
                ErrorKind::Invalid,
                &at.child("conditions"),
                None,
                "cannot set Complete=True and Failed=true conditions",
            );
        }
        let same_as_before = same(status, old.at("status"));
        if same_as_before {
            return;
        }
        if complete && !status.has("completionTime") {
            errors.required(
                &at.child("completionTime"),
                "completionTime is required for Complete jobs",
            );
        }
        if (complete || failed) && !status.has("startTime") {
            errors.required(
                &at.child("startTime"),
                "startTime is required for finished job",
            );
        }
        if (complete || failed) && status.num("active") > 0 {
            errors.invalid(
                &at.child("active"),
                status.num("active"),
                "active>0 is invalid for finished job",
            );
        }
    })
}

pub(crate) fn job_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    validate_workload::job_warnings(new, old, "spec")
}

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

//! Jobs: validation of their spec, of updates, and of status transitions.

use control_types::internal;
use control_types::value::Value;

use super::{collect, immutable_as, labels, meta, names, non_negative, one_of, validate_workload};
use crate::FieldError;
use crate::error::{ErrorKind, Errors, Path, quoted};
use crate::tree::{Read, Write, same};

const SPEC: Path<'static> = Path::new("spec");
const STATUS: Path<'static> = Path::new("status");
/// Above this many completions a job that counts failures per index has tighter limits.
const MANY: i64 = 100_000;
/// How many bytes the indexes of a success policy may take.
const INDEXES: usize = 64 * 1024;

/// The spec of a job, wherever it stands.
pub(crate) fn job_spec(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
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
        let failed_at = at.child("maxFailedIndexes");
        if spec.has("completions") && failed > spec.num("completions") {
            errors.invalid(
                &failed_at,
                failed,
                "must be less than or equal to completions",
            );
        }
        if failed > MANY {
            errors.invalid(&failed_at, failed, "must be less than or equal to 100000");
        }
        if spec.num("completions") > MANY && spec.has("backoffLimitPerIndex") {
            if !spec.has("maxFailedIndexes") {
                errors.required(
                    &failed_at,
                    "must be specified when completions is above 100000",
                );
            }
            for field in ["parallelism", "maxFailedIndexes"] {
                let number = spec.num(field);
                if number > 10_000 {
                    errors.invalid(&at.child(field), number, "must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per index");
                }
            }
        }
    }
    if !spec.has("completionMode") || mode == "NonIndexed" {
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
        if conditions.len() > 20 {
            errors.too_many(&list, conditions.len(), 20);
        }
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
        let given = codes.at("values").clone();
        errors.invalid(&list, given, "at least one value is required");
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
        let most = spec.num("completions");
        let mut listed = 0;
        if rule.has("succeededIndexes") {
            let (text, at) = (rule.text("succeededIndexes"), at.child("succeededIndexes"));
            if text.len() > INDEXES {
                errors.too_long(&at, INDEXES);
            }
            match indexes(text, most) {
                Ok(total) => listed = total,
                Err(why) => {
                    errors.invalid(&at, text, format!("error parsing succeededIndexes: {why}"));
                }
            }
        }
        if let Some(count) = rule.int("succeededCount") {
            let at = at.child("succeededCount");
            non_negative(count, &at, errors);
            if count > most {
                errors.invalid(
                    &at,
                    count,
                    format!(
                        "must be less than or equal to {most} (the number of specified completions)"
                    ),
                );
            }
            if rule.has("succeededIndexes") && count > listed {
                errors.invalid(&at, count, format!("must be less than or equal to {listed} (the number of indexes in the specified succeededIndexes field)"));
            }
        }
    }
}

/// Validates a generated selector; `prefixed` requires the labels with a domain as well.
fn generated_selector(object: &Value, prefixed: bool, errors: &mut Errors) {
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
    ]
    .into_iter()
    .filter(|(key, _)| prefixed || !key.contains('/'))
    {
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
    let found = errors.len();
    if spec.has("selector") {
        labels::selector(spec.at("selector"), &SPEC.child("selector"), errors);
    } else {
        errors.required(&SPEC.child("selector"), "");
    }
    // a selector that cannot be read matches nothing and is not held against the labels
    let readable = errors.len() == found || !spec.has("selector");
    let labels = spec.at("template").at("metadata").at("labels");
    if readable && !(spec.has("selector") && labels::matches(spec.at("selector"), labels)) {
        errors.invalid(
            &SPEC.child("template.metadata.labels"),
            labels.clone(),
            "`selector` does not match template `labels`",
        );
    }
}

pub(crate) fn job(object: &Value) -> Vec<FieldError> {
    collect(|errors| check(object, true, errors))
}

fn check(object: &Value, prefixed: bool, errors: &mut Errors) {
    meta::validate(object, Some(true), names::subdomain_name, errors);
    generated_selector(object, prefixed, errors);
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
}

pub(crate) fn job_update(new: &Value, old: &Value) -> Vec<FieldError> {
    const PREFIXED: [&str; 2] = [
        "batch.kubernetes.io/job-name",
        "batch.kubernetes.io/controller-uid",
    ];
    collect(|errors| {
        let (after, before) = (new.at("spec"), old.at("spec"));
        let known = before.at("template").at("metadata").at("labels");
        // looked at as a new job, and once more as a changed one
        check(new, PREFIXED.iter().all(|key| known.has(key)), errors);
        meta::update(new, old, errors);
        whole_spec(after, errors);
        completions(after, before, errors);
        unchanged(after, before, &["selector"], errors);
        template(new, old, errors);
        let rest = [
            "completionMode",
            "podFailurePolicy",
            "backoffLimitPerIndex",
            "managedBy",
            "successPolicy",
        ];
        unchanged(after, before, &rest, errors);
    })
}

fn unchanged(after: &Value, before: &Value, fields: &[&str], errors: &mut Errors) {
    for field in fields {
        let name = match *field {
            "podFailurePolicy" => "batch.PodFailurePolicy",
            "successPolicy" => "batch.SuccessPolicy",
            _ => "",
        };
        let (now, then) = (after.at(field), before.at(field));
        immutable_as(name, now, then, &SPEC.child(field), errors);
    }
}

/// An indexed job may grow and shrink, together with its parallelism.
fn completions(after: &Value, before: &Value, errors: &mut Errors) {
    if after.text("completionMode") != "Indexed" {
        unchanged(after, before, &["completions"], errors);
        return;
    }
    let now = after.num("completions");
    if after.has("completions")
        && after.int("completions") != before.int("completions")
        && now != after.num("parallelism")
    {
        errors.invalid(
            &SPEC.child("completions"),
            now,
            "can only be modified in tandem with spec.parallelism",
        );
    }
}

/// Checks changes of the template: before the pods of a suspended job exist, its
/// placement and requests may change (KEP 2926, KEP 5440).
fn template(new: &Value, old: &Value, errors: &mut Errors) {
    let at = SPEC.child("template");
    let (after, before) = (new.at("spec").at("template"), old.at("spec").at("template"));
    let suspended = old.at("spec").flag("suspend");
    let loose = suspended
        && (!old.at("status").has("startTime") || holds(old, "Suspended"))
        && old.at("status").num("active") == 0;
    if !loose {
        immutable_as("core.PodTemplateSpec", after, before, &at, errors);
        return;
    }
    let (spec, mut then) = (after.at("spec"), before.at("spec").clone());
    let node = "nodeAffinity";
    match (spec.has("affinity"), then.has("affinity")) {
        (false, true) => {
            let affinity = then.make("affinity");
            affinity.drop_field(node);
            if affinity
                .as_object()
                .is_some_and(control_types::Map::is_empty)
            {
                then.drop_field("affinity");
            }
        }
        (true, _) => then.make("affinity").take_from(spec.at("affinity"), node),
        (false, false) => {}
    }
    for field in ["nodeSelector", "tolerations", "schedulingGates"] {
        then.take_from(spec, field);
    }
    for list in ["containers", "initContainers"] {
        let now = spec.items(list);
        if now.len() == then.items(list).len() {
            for (c, now) in then.items_mut(list).iter_mut().zip(now) {
                if c.text("name") == now.text("name") {
                    c.take_from(now, "resources");
                }
            }
        }
    }
    if !same(spec, &then) {
        let shown = internal::form("core.PodTemplateSpec", after);
        errors.invalid(&at, shown, "field is immutable");
    }
}

/// Whether a condition of the job is true.
fn holds(job: &Value, kind: &str) -> bool {
    has_condition(job, kind, "True")
}

fn has_condition(job: &Value, kind: &str, state: &str) -> bool {
    job.at("status")
        .items("conditions")
        .iter()
        .any(|c| c.text("type") == kind && c.text("status") == state)
}

fn finished(job: &Value) -> bool {
    holds(job, "Complete") || holds(job, "Failed")
}

/// Validates an update of the status: fields are only checked when they change, so that
/// an invalid status can still be corrected.
pub(crate) fn job_status(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update(new, old, errors);
        numbers(new.at("status"), errors);
        conditions(new, old, errors);
        times(new, old, errors);
        pods(new, old, errors);
        job_indexes(new, old, errors);
        transitions(new, old, errors);
    })
}

fn numbers(status: &Value, errors: &mut Errors) {
    for field in ["active", "succeeded", "failed", "ready", "terminating"] {
        non_negative(status.num(field), &STATUS.child(field), errors);
    }
    let at = STATUS.child("uncountedTerminatedPods");
    let mut seen: Vec<&str> = Vec::new();
    for list in ["succeeded", "failed"] {
        let all = at.child(list);
        let ids = status.at("uncountedTerminatedPods").items(list);
        for (i, id) in ids.iter().map(Read::as_text).enumerate() {
            if id.is_empty() {
                errors.invalid(&all.index(i), id, "must not be empty");
            } else if seen.contains(&id) {
                errors.duplicate(&all.index(i), id);
            } else {
                seen.push(id);
            }
        }
    }
}

fn changed(new: &Value, old: &Value, field: &str) -> bool {
    !same(new.at("status").at(field), old.at("status").at(field))
}

fn flipped(new: &Value, old: &Value, kind: &str) -> bool {
    holds(new, kind) != holds(old, kind)
}

fn refuse_conditions(errors: &mut Errors, why: &str) {
    errors.add(ErrorKind::Invalid, &STATUS.child("conditions"), None, why);
}

fn conditions(new: &Value, old: &Value, errors: &mut Errors) {
    let (complete, failed) = (holds(new, "Complete"), holds(new, "Failed"));
    let (target, met) = (
        holds(new, "FailureTarget"),
        holds(new, "SuccessCriteriaMet"),
    );
    let completes = flipped(new, old, "Complete");
    let fails = flipped(new, old, "Failed");
    if (completes || fails) && complete && failed {
        refuse_conditions(
            errors,
            "cannot set Complete=True and Failed=true conditions",
        );
    }
    if (completes || flipped(new, old, "FailureTarget")) && complete && target {
        refuse_conditions(
            errors,
            "cannot set Complete=True and FailureTarget=true conditions",
        );
    }
    if (fails || changed(new, old, "failedIndexes")) && failed && !target {
        refuse_conditions(
            errors,
            "cannot set Failed=True condition without the FailureTarget=true condition",
        );
    }
    if (completes || flipped(new, old, "SuccessCriteriaMet")) && complete && !met {
        refuse_conditions(
            errors,
            "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
        );
    }
    if met && failed {
        refuse_conditions(
            errors,
            "cannot set SuccessCriteriaMet=True and Failed=true conditions",
        );
    }
    if met && target {
        refuse_conditions(
            errors,
            "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
        );
    }
    if new.at("spec").has("successPolicy") && !met && complete {
        refuse_conditions(
            errors,
            "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True",
        );
    }
}

fn times(new: &Value, old: &Value, errors: &mut Errors) {
    let (status, before) = (new.at("status"), old.at("status"));
    let complete = holds(new, "Complete");
    let completion = changed(new, old, "completionTime");
    let at = STATUS.child("completionTime");
    let end = status.at("completionTime");
    if flipped(new, old, "Complete") || completion {
        if !end.is_null() && !complete {
            errors.invalid(
                &at,
                end.clone(),
                "cannot set completionTime when there is no Complete=True condition",
            );
        }
        if end.is_null() && complete {
            errors.required(&at, "completionTime is required for Complete jobs");
        }
    }
    let start = status.at("startTime");
    if (changed(new, old, "startTime") || completion)
        && !start.is_null()
        && !end.is_null()
        && end.as_text() < start.as_text()
    {
        errors.invalid(&at, end.clone(), "must be equal to or after `startTime`");
    }
    let idle = new.at("spec").flag("suspend") && new.at("spec").int("completions") == Some(0);
    let begins = finished(new) != finished(old) || changed(new, old, "startTime");
    if begins && !idle && start.is_null() && finished(new) {
        errors.required(
            &STATUS.child("startTime"),
            "startTime is required for finished job",
        );
    }
    if !end.is_null() && before.has("completionTime") && completion {
        errors.invalid(&at, end.clone(), "field is immutable");
    }
    let resumes = holds(old, "Suspended") && has_condition(new, "Suspended", "False");
    if before.has("startTime")
        && changed(new, old, "startTime")
        && !resumes
        && !new.at("spec").flag("suspend")
    {
        errors.invalid(
            &STATUS.child("startTime"),
            start.clone(),
            "field is immutable for unsuspended job once set",
        );
    }
}

fn pods(new: &Value, old: &Value, errors: &mut Errors) {
    let status = new.at("status");
    let ends = finished(new) != finished(old);
    let active = changed(new, old, "active");
    for field in ["active", "terminating"] {
        let number = status.num(field);
        if (ends || changed(new, old, field)) && finished(new) && number > 0 {
            errors.invalid(
                &STATUS.child(field),
                number,
                format!("{field}>0 is invalid for finished job"),
            );
        }
    }
    let uncounted = status.at("uncountedTerminatedPods");
    let left = !uncounted.items("succeeded").is_empty() || !uncounted.items("failed").is_empty();
    if (ends || changed(new, old, "uncountedTerminatedPods")) && finished(new) && left {
        errors.invalid(
            &STATUS.child("uncountedTerminatedPods"),
            uncounted.clone(),
            "must be empty for finished job",
        );
    }
    let ready = status.num("ready");
    if (active || changed(new, old, "ready")) && status.has("ready") && ready > status.num("active")
    {
        errors.invalid(
            &STATUS.child("ready"),
            ready,
            "cannot set more ready pods than active",
        );
    }
}

fn job_indexes(new: &Value, old: &Value, errors: &mut Errors) {
    let (spec, status) = (new.at("spec"), new.at("status"));
    let most = spec.num("completions");
    let completed = status.text("completedIndexes");
    let failed = status.text("failedIndexes");
    let (completed_at, failed_at) = (
        STATUS.child("completedIndexes"),
        STATUS.child("failedIndexes"),
    );
    let completes = changed(new, old, "completedIndexes");
    let fails = changed(new, old, "failedIndexes");
    if completes
        && spec.has("completions")
        && let Err(why) = indexes(completed, most)
    {
        errors.invalid(
            &completed_at,
            completed,
            format!("error parsing completedIndexes: {why}"),
        );
    }
    if fails
        && spec.has("completions")
        && spec.has("backoffLimitPerIndex")
        && let Err(why) = indexes(failed, most)
    {
        errors.invalid(
            &failed_at,
            failed,
            format!("error parsing failedIndexes: {why}"),
        );
    }
    if completes && !completed.is_empty() && spec.text("completionMode") != "Indexed" {
        errors.invalid(
            &completed_at,
            completed,
            "cannot set non-empty completedIndexes when non-indexed completion mode",
        );
    }
    if fails && status.has("failedIndexes") && !spec.has("backoffLimitPerIndex") {
        errors.invalid(
            &failed_at,
            failed,
            "cannot set non-null failedIndexes when backoffLimitPerIndex is null",
        );
    }
    if (fails || completes)
        && spec.has("completions")
        && let Some(index) = overlap(completed, failed, most)
    {
        errors.invalid(
            &failed_at,
            failed,
            format!("failedIndexes and completedIndexes overlap at index: {index}"),
        );
    }
}

fn transitions(new: &Value, old: &Value, errors: &mut Errors) {
    let (spec, status, before) = (new.at("spec"), new.at("status"), old.at("status"));
    for kind in ["Failed", "Complete", "FailureTarget"] {
        if holds(old, kind) && !holds(new, kind) {
            refuse_conditions(
                errors,
                &format!("cannot disable the terminal {kind}=True condition"),
            );
        }
    }
    // an indexed job whose parallelism follows its completions may be scaled down
    let elastic = spec.text("completionMode") == "Indexed"
        && spec.int("completions") == spec.int("parallelism");
    for (field, may_fall) in [("failed", false), ("succeeded", elastic)] {
        let now = status.num(field);
        if !may_fall && now < before.num(field) {
            errors.invalid(
                &STATUS.child(field),
                now,
                format!("cannot decrease the {field} counter"),
            );
        }
    }
    let (met, was_met) = (
        holds(new, "SuccessCriteriaMet"),
        holds(old, "SuccessCriteriaMet"),
    );
    if was_met && !met {
        refuse_conditions(
            errors,
            "cannot disable the SuccessCriteriaMet=True condition",
        );
    }
    if holds(old, "Complete") && !was_met && met {
        refuse_conditions(
            errors,
            "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions",
        );
    }
}

/// Error for an invalid list of indexes; the message is kube-apiserver's.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum IndexError {
    #[error("cannot convert string to integer for index: {}", quoted(.0))]
    NoNumber(String),
    #[error("too large index: {}", quoted(.0))]
    TooLarge(String),
    #[error(
        "the fragment {} violates the requirement that an index interval can have at most two parts separated by '-'",
        quoted(.0)
    )]
    Parts(String),
    #[error("non-increasing order, previous: {previous}, current: {current}")]
    Order { previous: i64, current: i64 },
}

/// Parses an interval of indexes (`3` or `3-5`) below `most`.
fn interval(text: &str, most: i64) -> Result<(i64, i64), IndexError> {
    let number = |part: &str| {
        let number: i64 = part
            .parse()
            .map_err(|_| IndexError::NoNumber(part.to_owned()))?;
        if number >= most {
            return Err(IndexError::TooLarge(part.to_owned()));
        }
        Ok(number)
    };
    let mut parts = text.split('-');
    let (first, last, more) = (parts.next().unwrap_or(""), parts.next(), parts.next());
    if more.is_some() {
        return Err(IndexError::Parts(text.to_owned()));
    }
    let first = number(first)?;
    let Some(last) = last else {
        return Ok((first, first));
    };
    let last = number(last)?;
    if first >= last {
        return Err(IndexError::Order {
            previous: first,
            current: last,
        });
    }
    Ok((first, last))
}

/// How many indexes a list of intervals holds (`0,2-4`).
fn indexes(text: &str, most: i64) -> Result<i64, IndexError> {
    if text.is_empty() {
        return Ok(0);
    }
    let (mut previous, mut total) = (None, 0);
    for part in text.split(',') {
        let (first, last) = interval(part, most)?;
        if let Some(previous) = previous.filter(|previous| *previous >= first) {
            return Err(IndexError::Order {
                previous,
                current: first,
            });
        }
        total += last - first + 1;
        previous = Some(last);
    }
    Ok(total)
}

/// The first index that is in both lists; what cannot be read is passed over.
fn overlap(completed: &str, failed: &str, most: i64) -> Option<i64> {
    let read = |text: &str| -> Vec<(i64, i64)> {
        text.split(',')
            .filter_map(|part| interval(part, most).ok())
            .collect()
    };
    let (completed, failed) = (read(completed), read(failed));
    let (mut c, mut f) = (completed.iter().peekable(), failed.iter().peekable());
    loop {
        let (a, b) = (c.peek()?, f.peek()?);
        if a.0 <= b.1 && b.0 <= a.1 {
            return Some(a.0.max(b.0));
        }
        if a.0 <= b.0 {
            c.next();
        } else {
            f.next();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_counted_and_checked() {
        assert_eq!(indexes("0-2,4", 5), Ok(4));
        assert!(indexes("0-2,2", 5).is_err_and(|e| e.to_string().starts_with("non-increasing")));
        assert!(indexes("5", 5).is_err_and(|e| e.to_string().starts_with("too large")));
        assert!(indexes("1-2-3", 5).is_err());
        assert_eq!(overlap("0-2,5", "4-6", 9), Some(5));
        assert_eq!(overlap("0-2", "3", 9), None);
    }

    #[test]
    fn a_job_that_ended_stays_so() {
        let job = |conditions: &str| {
            let text = format!(
                r#"{{"metadata":{{"resourceVersion":"1"}},"spec":{{"suspend":false}},"status":{{"startTime":"2026-01-01T00:00:00Z","conditions":[{conditions}]}}}}"#
            );
            Value::from_slice(text.as_bytes()).expect("test job")
        };
        let failed =
            r#"{"type":"FailureTarget","status":"True"},{"type":"Failed","status":"True"}"#;
        assert!(job_status(&job(failed), &job("")).is_empty());
        assert_eq!(job_status(&job(""), &job(failed)).len(), 2);
    }
}

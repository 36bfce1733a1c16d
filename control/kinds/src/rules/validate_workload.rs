//! Workloads that keep pods running: validation of replicas, selectors, templates and
//! strategies.

use control_types::internal;
use control_types::value::Value;

use super::container::required_one_of;
use super::{
    claims, collect, immutable, labels, meta, names, non_negative, pod_warnings, profiles,
    validate_pod,
};
use crate::FieldError;
use crate::error::{Errors, Path};
use crate::tree::{Read, Write, same};

const SPEC: Path<'static> = Path::new("spec");
const STATUS: Path<'static> = Path::new("status");

fn counts(owner: &Value, fields: &[&'static str], at: &Path<'_>, errors: &mut Errors) {
    for field in fields {
        non_negative(owner.num(field), &at.child(field), errors);
    }
}

/// A pod template.
pub(crate) fn template(template: &Value, at: &Path<'_>, errors: &mut Errors) {
    let metadata = template.at("metadata");
    labels::labels(metadata.at("labels"), &at.child("labels"), errors);
    meta::annotations(metadata.at("annotations"), &at.child("annotations"), errors);
    let (annotations, spec) = (metadata.at("annotations"), template.at("spec"));
    validate_pod::annotations(annotations, spec, &at.child("annotations"), errors);
    validate_pod::spec(spec, "", false, &at.child("spec"), errors);
    profiles::fields(annotations, spec, &at.child("spec"), errors);
    if !template.at("spec").items("ephemeralContainers").is_empty() {
        errors.forbidden(
            &at.child("spec.ephemeralContainers"),
            "ephemeral containers not allowed in pod template",
        );
    }
}

/// A template whose pods never end by themselves.
fn lasting_template(template_value: &Value, owner: &str, at: &Path<'_>, errors: &mut Errors) {
    template(template_value, at, errors);
    lasting(template_value, owner, at, errors);
}

fn lasting(template_value: &Value, owner: &str, at: &Path<'_>, errors: &mut Errors) {
    let spec = template_value.at("spec");
    if spec.text("restartPolicy") != "Always" {
        errors.not_supported(
            &at.child("spec.restartPolicy"),
            spec.text("restartPolicy"),
            &["Always"],
        );
    }
    if spec.has("activeDeadlineSeconds") {
        errors.forbidden(
            &at.child("spec.activeDeadlineSeconds"),
            format!("activeDeadlineSeconds in {owner} is not Supported"),
        );
    }
}

/// A selector that selects something, and among it the template's pods. Tells
/// whether the selector can be understood at all.
fn selector(spec: &Value, empty: &str, errors: &mut Errors) -> bool {
    let at = SPEC.child("selector");
    let selector = spec.at("selector");
    if selector.is_null() {
        errors.required(&at, "");
        // an absent selector selects nothing
        matches_template(spec, errors);
        return true;
    }
    let before = errors.len();
    labels::selector(selector, &at, errors);
    if labels::is_empty_selector(selector) {
        errors.invalid(&at, selector.clone(), empty);
        return true;
    }
    if errors.len() > before {
        return false;
    }
    matches_template(spec, errors);
    true
}

/// Selector and template of a deployment or a replica set.
fn replicated_template(spec: &Value, errors: &mut Errors) {
    if selector(spec, "empty selector is invalid for deployment", errors) {
        lasting_template(
            spec.at("template"),
            "ReplicaSet",
            &SPEC.child("template"),
            errors,
        );
    } else {
        let selector = spec.at("selector").clone();
        errors.invalid(&SPEC.child("selector"), selector, "invalid label selector");
    }
}

fn matches_template(spec: &Value, errors: &mut Errors) {
    let labels = spec.at("template").at("metadata").at("labels");
    let selector = spec.at("selector");
    if selector.is_null() || !labels::matches(selector, labels) {
        errors.invalid(
            &SPEC.child("template.metadata.labels"),
            labels.clone(),
            "`selector` does not match template `labels`",
        );
    }
}

/// Validates a number or a percentage, and returns its value.
pub(crate) fn amount(value: &Value, at: &Path<'_>, errors: &mut Errors) {
    match value {
        Value::String(text) => errors.invalid_each(at, text, names::percent(text)),
        other => non_negative(other.as_i64().unwrap_or(0), at, errors),
    }
}

/// Returns the number of an amount, also of a percentage.
fn size(value: &Value) -> i64 {
    match value {
        // a number in quotes is no percentage, but still read as one
        Value::String(text) if names::percent(text).is_empty() => {
            text.trim_end_matches('%').parse().unwrap_or(0)
        }
        Value::String(text) => text.parse().unwrap_or(0),
        other => other.as_i64().unwrap_or(0),
    }
}

/// Percentages of more than everything.
pub(crate) fn at_most_all(value: &Value, at: &Path<'_>, errors: &mut Errors) {
    if let Value::String(text) = value
        && names::percent(text).is_empty()
        && size(value) > 100
    {
        errors.invalid(at, text.as_str(), "must not be greater than 100%");
    }
}

fn deployment_spec(object: &Value, errors: &mut Errors) {
    let spec = object.at("spec");
    counts(spec, &["replicas"], &SPEC, errors);
    replicated_template(spec, errors);
    let strategy = spec.at("strategy");
    let at = SPEC.child("strategy");
    let rolling_at = at.child("rollingUpdate");
    match strategy.text("type") {
        "Recreate" if strategy.has("rollingUpdate") => {
            errors.forbidden(
                &rolling_at,
                "may not be specified when strategy `type` is 'Recreate'",
            );
        }
        "Recreate" => {}
        "RollingUpdate" if !strategy.has("rollingUpdate") => {
            errors.required(&rolling_at, "this should be defaulted and never be nil");
        }
        "RollingUpdate" => {
            let rolling = strategy.at("rollingUpdate");
            let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
            amount(unavailable, &rolling_at.child("maxUnavailable"), errors);
            amount(surge, &rolling_at.child("maxSurge"), errors);
            if size(unavailable) == 0 && size(surge) == 0 {
                errors.invalid(
                    &rolling_at.child("maxUnavailable"),
                    unavailable.clone(),
                    "may not be 0 when `maxSurge` is 0",
                );
            }
            at_most_all(unavailable, &rolling_at.child("maxUnavailable"), errors);
        }
        _ => errors.not_supported(
            &at,
            internal::form("apps.DeploymentStrategy", strategy),
            &["Recreate", "RollingUpdate"],
        ),
    }
    counts(
        spec,
        &["minReadySeconds", "revisionHistoryLimit"],
        &SPEC,
        errors,
    );
    if let Some(deadline) = spec.int("progressDeadlineSeconds") {
        let at = SPEC.child("progressDeadlineSeconds");
        non_negative(deadline, &at, errors);
        if deadline <= spec.num("minReadySeconds") {
            errors.invalid(&at, deadline, "must be greater than minReadySeconds");
        }
    }
}

pub(crate) fn deployment(object: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::validate(object, Some(true), names::subdomain_name, errors);
        deployment_spec(object, errors);
    })
}

pub(crate) fn deployment_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update(new, old, errors);
        deployment_spec(new, errors);
        selector_stays(new, old, errors);
    })
}

fn selector_stays(new: &Value, old: &Value, errors: &mut Errors) {
    let at = SPEC.child("selector");
    immutable(
        new.at("spec").at("selector"),
        old.at("spec").at("selector"),
        &at,
        errors,
    );
}

fn bounded(status: &Value, fields: &[&'static str], by: &str, text: &str, errors: &mut Errors) {
    for field in fields
        .iter()
        .filter(|field| status.num(field) > status.num(by))
    {
        errors.invalid(&STATUS.child(field), status.num(field), text);
    }
}

fn collisions(new: &Value, old: &Value, errors: &mut Errors) {
    let count = |object: &Value| object.at("status").int("collisionCount");
    let now = new.at("status").num("collisionCount");
    if count(old).is_some_and(|then| count(new).is_none_or(|now| now < then)) {
        errors.invalid(
            &STATUS.child("collisionCount"),
            now,
            "cannot be decremented",
        );
    }
}

pub(crate) fn deployment_status(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update(new, old, errors);
        let status = new.at("status");
        let all = [
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "collisionCount",
            "terminatingReplicas",
        ];
        counts(status, &all, &STATUS, errors);
        let parts = ["updatedReplicas", "readyReplicas", "availableReplicas"];
        bounded(
            status,
            &parts,
            "replicas",
            "cannot be greater than status.replicas",
            errors,
        );
        bounded(
            status,
            &["availableReplicas"],
            "readyReplicas",
            "cannot be greater than readyReplicas",
            errors,
        );
        collisions(new, old, errors);
    })
}

fn replica_set_spec(object: &Value, errors: &mut Errors) {
    let spec = object.at("spec");
    counts(spec, &["replicas", "minReadySeconds"], &SPEC, errors);
    replicated_template(spec, errors);
}

pub(crate) fn replica_set(object: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::validate(object, Some(true), names::subdomain_name, errors);
        replica_set_spec(object, errors);
    })
}

pub(crate) fn replica_set_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update(new, old, errors);
        replica_set_spec(new, errors);
        selector_stays(new, old, errors);
    })
}

pub(crate) fn replica_set_status(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update(new, old, errors);
        let status = new.at("status");
        let all = [
            "replicas",
            "fullyLabeledReplicas",
            "readyReplicas",
            "availableReplicas",
            "observedGeneration",
            "terminatingReplicas",
        ];
        counts(status, &all, &STATUS, errors);
        let parts = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
        bounded(
            status,
            &parts,
            "replicas",
            "cannot be greater than status.replicas",
            errors,
        );
        bounded(
            status,
            &["availableReplicas"],
            "readyReplicas",
            "cannot be greater than readyReplicas",
            errors,
        );
    })
}

fn controller_spec(object: &Value, errors: &mut Errors) {
    let spec = object.at("spec");
    counts(spec, &["minReadySeconds"], &SPEC, errors);
    if spec.size("selector") == 0 {
        errors.required(&SPEC.child("selector"), "");
    }
    counts(spec, &["replicas"], &SPEC, errors);
    let at = SPEC.child("template");
    if !spec.has("template") {
        errors.required(&at, "");
        return;
    }
    let labels = spec.at("template").at("metadata").at("labels");
    if !spec
        .entries("selector")
        .all(|(k, v)| labels.has(k) && labels.text(k) == v.as_text())
    {
        errors.invalid(
            &at.child("metadata.labels"),
            labels.clone(),
            "`selector` does not match template `labels`",
        );
    }
    lasting_template(spec.at("template"), "ReplicationController", &at, errors);
}

pub(crate) fn replication_controller(object: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::validate(object, Some(true), names::subdomain_name, errors);
        controller_spec(object, errors);
    })
}

pub(crate) fn replication_controller_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update(new, old, errors);
        controller_spec(new, errors);
    })
}

fn daemon_set_spec(object: &Value, errors: &mut Errors) {
    let spec = object.at("spec");
    if spec.has("selector") {
        selector(spec, "empty selector is invalid for daemonset", errors);
    } else {
        matches_template(spec, errors);
    }
    let at = SPEC.child("template");
    lasting_template(spec.at("template"), "DaemonSet", &at, errors);
    counts(spec, &["minReadySeconds"], &SPEC, errors);
    let strategy = spec.at("updateStrategy");
    let at = SPEC.child("updateStrategy");
    match strategy.text("type") {
        "OnDelete" => {}
        "RollingUpdate" if !strategy.has("rollingUpdate") => {
            errors.required(&at.child("rollingUpdate"), "");
        }
        "RollingUpdate" => {
            let at = at.child("rollingUpdate");
            let rolling = strategy.at("rollingUpdate");
            let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
            amount(unavailable, &at.child("maxUnavailable"), errors);
            amount(surge, &at.child("maxSurge"), errors);
            at_most_all(unavailable, &at.child("maxUnavailable"), errors);
            at_most_all(surge, &at.child("maxSurge"), errors);
            match (size(unavailable) != 0, size(surge) != 0) {
                (true, true) => errors.invalid(
                    &at.child("maxSurge"),
                    surge.clone(),
                    "may not be set when maxUnavailable is non-zero",
                ),
                (false, false) => {
                    errors.required(
                        &at.child("maxUnavailable"),
                        "cannot be 0 when maxSurge is 0",
                    );
                }
                _ => {}
            }
        }
        _ => errors.not_supported(
            &at,
            internal::form("apps.DaemonSetUpdateStrategy", strategy),
            &["RollingUpdate", "OnDelete"],
        ),
    }
    counts(spec, &["revisionHistoryLimit"], &SPEC, errors);
}

pub(crate) fn daemon_set(object: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::validate(object, Some(true), names::subdomain_name, errors);
        daemon_set_spec(object, errors);
    })
}

pub(crate) fn daemon_set_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update(new, old, errors);
        selector_stays(new, old, errors);
        daemon_set_spec(new, errors);
    })
}

pub(crate) fn daemon_set_status(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update(new, old, errors);
        let all = [
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ];
        counts(new.at("status"), &all, &STATUS, errors);
        collisions(new, old, errors);
    })
}

fn stateful_set_spec(object: &Value, update: bool, errors: &mut Errors) {
    let spec = object.at("spec");
    let policy_at = SPEC.child("podManagementPolicy");
    match spec.text("podManagementPolicy") {
        "" => errors.required(&policy_at, ""),
        "OrderedReady" | "Parallel" => {}
        other => errors.invalid(&policy_at, other, "must be 'OrderedReady' or 'Parallel'"),
    }
    let strategy = spec.at("updateStrategy");
    let at = SPEC.child("updateStrategy");
    let rolling = strategy.at("rollingUpdate");
    match strategy.text("type") {
        "" => errors.required(&at, ""),
        "OnDelete" if !rolling.is_null() => errors.invalid(
            &at.child("rollingUpdate"),
            internal::form("apps.RollingUpdateStatefulSetStrategy", rolling),
            "only allowed for updateStrategy 'RollingUpdate'",
        ),
        "OnDelete" => {}
        "RollingUpdate" => non_negative(
            rolling.num("partition"),
            &at.child("rollingUpdate.partition"),
            errors,
        ),
        _ => errors.invalid(
            &at,
            internal::form("apps.StatefulSetUpdateStrategy", strategy),
            "must be 'RollingUpdate' or 'OnDelete'",
        ),
    }
    let retention = spec.at("persistentVolumeClaimRetentionPolicy");
    let at = SPEC.child("persistentVolumeClaimRetentionPolicy");
    for field in ["whenDeleted", "whenScaled"] {
        if retention.has(field) {
            required_one_of(
                retention.text(field),
                &["Retain", "Delete"],
                &at.child(field),
                errors,
            );
        }
    }
    counts(spec, &["replicas", "minReadySeconds"], &SPEC, errors);
    non_negative(
        spec.at("ordinals").num("start"),
        &SPEC.child("ordinals.start"),
        errors,
    );
    let service = spec.text("serviceName");
    if !update && !service.is_empty() {
        errors.invalid_each(
            &SPEC.child("serviceName"),
            service,
            names::dns_label(service),
        );
    }
    if !update {
        let list = SPEC.child("volumeClaimTemplates");
        for (i, claim) in spec.items("volumeClaimTemplates").iter().enumerate() {
            claims::spec(claim.at("spec"), &list.index(i).child("spec"), errors);
        }
    }
    if !selector(spec, "empty selector is invalid for statefulset", errors) {
        errors.invalid(&SPEC.child("selector"), spec.at("selector").clone(), "");
        return;
    }
    // the controller adds a volume per claim: the template may mount them
    let mut pods = spec.at("template").clone();
    let own = spec.items("volumeClaimTemplates");
    let inner = pods.make("spec");
    inner.drop_field("hostname");
    inner.drop_field("subdomain");
    if !own.is_empty() {
        let named = |name: &str| own.iter().any(|c| c.at("metadata").text("name") == name);
        let mut all: Vec<Value> = Vec::new();
        for name in own.iter().map(|claim| claim.at("metadata").text("name")) {
            if all.iter().any(|volume| volume.text("name") == name) {
                continue;
            }
            let mut volume = Value::object();
            volume.put("name", name);
            volume.make("persistentVolumeClaim").put("claimName", name);
            all.push(volume);
        }
        all.extend(
            inner
                .items("volumes")
                .iter()
                .filter(|v| !named(v.text("name")))
                .cloned(),
        );
        inner.put("volumes", Value::Array(all));
    }
    let at = SPEC.child("template");
    template(&pods, &at, errors);
    // labels and annotations are checked again
    let metadata = pods.at("metadata");
    labels::labels(metadata.at("labels"), &at.child("labels"), errors);
    meta::annotations(metadata.at("annotations"), &at.child("annotations"), errors);
    lasting(&pods, "StatefulSet", &at, errors);
}

pub(crate) fn stateful_set(object: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::validate(object, Some(true), names::label_name, errors);
        stateful_set_spec(object, false, errors);
    })
}

pub(crate) fn stateful_set_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update(new, old, errors);
        stateful_set_spec(new, true, errors);
        let fixed = |object: &Value| {
            let mut spec = object.at("spec").clone();
            for field in [
                "replicas",
                "template",
                "updateStrategy",
                "minReadySeconds",
                "ordinals",
                "revisionHistoryLimit",
                "persistentVolumeClaimRetentionPolicy",
            ] {
                spec.drop_field(field);
            }
            spec
        };
        if !same(&fixed(new), &fixed(old)) {
            errors.forbidden(
                &SPEC,
                "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
            );
        }
    })
}

pub(crate) fn stateful_set_status(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        let status = new.at("status");
        let parts = [
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
        ];
        counts(status, &["replicas"], &STATUS, errors);
        counts(status, &parts, &STATUS, errors);
        counts(
            status,
            &["observedGeneration", "collisionCount"],
            &STATUS,
            errors,
        );
        bounded(
            status,
            &parts,
            "replicas",
            "cannot be greater than status.replicas",
            errors,
        );
        let text = "cannot be greater than status.readyReplicas";
        bounded(
            status,
            &["availableReplicas"],
            "readyReplicas",
            text,
            errors,
        );
        meta::update(new, old, errors);
        collisions(new, old, errors);
    })
}

pub(crate) fn stored_template(object: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::validate(object, Some(true), names::subdomain_name, errors);
        template(object.at("template"), &Path::new("template"), errors);
    })
}

pub(crate) fn stored_template_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update(new, old, errors);
        template(new.at("template"), &Path::new("template"), errors);
    })
}

/// Warnings for the template at `path`: of a new object, and of one whose
/// generation an update raised.
fn warn_of_template(new: &Value, old: Option<&Value>, path: &str, out: &mut Vec<String>) {
    let generation = |object: &Value| object.at("metadata").num("generation");
    if old.is_some_and(|old| generation(old) == generation(new)) {
        return;
    }
    let template = path.split('.').fold(new, |at, key| at.at(key));
    pod_warnings::check(
        template.at("metadata"),
        template.at("spec"),
        Some(&Path::new(path)),
        out,
    );
}

/// Warnings for the name of a new object whose pods are called after it.
fn warn_of_name(new: &Value, old: Option<&Value>, out: &mut Vec<String>) {
    let messages = names::dns_label(new.at("metadata").text("name"));
    if old.is_none() && !messages.is_empty() {
        out.push(format!(
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [{}]",
            messages.join(" ")
        ));
    }
}

pub(crate) fn template_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut out = Vec::new();
    warn_of_template(new, old, "spec.template", &mut out);
    out
}

/// The same, and the name of the object itself is looked at.
pub(crate) fn named_template_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut out = Vec::new();
    warn_of_name(new, old, &mut out);
    warn_of_template(new, old, "spec.template", &mut out);
    out
}

/// Warnings for the job spec at `path`.
pub(crate) fn job_warnings(new: &Value, old: Option<&Value>, path: &str) -> Vec<String> {
    let mut out = Vec::new();
    warn_of_name(new, old, &mut out);
    let spec = path.split('.').fold(new, |at, key| at.at(key));
    if spec.text("completionMode") == "Indexed"
        && spec.num("completions") > 100_000
        && spec.num("parallelism") > 10_000
    {
        out.push(format!("{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"));
    }
    warn_of_template(new, old, &format!("{path}.template"), &mut out);
    out
}

pub(crate) fn stateful_set_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut out = template_warnings(new, old);
    let all = SPEC.child("volumeClaimTemplates");
    for (i, claim) in new
        .at("spec")
        .items("volumeClaimTemplates")
        .iter()
        .enumerate()
    {
        let at = all.index(i);
        // as stock has it
        let at = if old.is_some() { at.child("Spec") } else { at };
        claims::warnings(claim.at("spec"), &at, &mut out);
    }
    if new.at("spec").num("revisionHistoryLimit") < 0 {
        out.push("spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended".into());
    }
    out
}

pub(crate) fn stored_template_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut out = Vec::new();
    warn_of_template(new, old, "template", &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deployments_selector_must_match_its_template() {
        let object = Value::from_slice(
            br#"{"metadata":{"name":"a","namespace":"n"},"spec":{"replicas":-1,"selector":{"matchLabels":{"a":"b"}},
            "strategy":{"type":"Recreate"},"template":{"metadata":{"labels":{"a":"c"}},"spec":{
            "restartPolicy":"Always","dnsPolicy":"Default","terminationGracePeriodSeconds":30,
            "containers":[{"name":"c","image":"i","imagePullPolicy":"Always","terminationMessagePolicy":"File"}]}}}}"#,
        )
        .expect("test object");
        let found: Vec<String> = deployment(&object)
            .iter()
            .map(|e| e.field.clone())
            .collect();
        assert_eq!(found, ["spec.replicas", "spec.template.metadata.labels"]);
    }
}

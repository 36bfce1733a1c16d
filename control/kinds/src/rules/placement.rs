//! Placement of pods: node selectors, affinity, topology spread.

use control_types::value::Value;

use super::{labels, names, one_of};
use crate::error::{Errors, Path};
use crate::tree::Read;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// `affinity` of a pod.
pub(crate) fn affinity(affinity: &Value, at: &Path<'_>, errors: &mut Errors) {
    let node = affinity.at("nodeAffinity");
    let node_at = at.child("nodeAffinity");
    if node.has(REQUIRED) {
        node_selector(node.at(REQUIRED), true, &node_at.child(REQUIRED), errors);
    }
    let list = node_at.child(PREFERRED);
    for (i, term) in node.items(PREFERRED).iter().enumerate() {
        let at = list.index(i);
        weight(term, &at, errors);
        node_selector_term(
            term.at("preference"),
            false,
            &at.child("preference"),
            errors,
        );
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let (terms, at) = (affinity.at(kind), at.child(kind));
        let list = at.child(REQUIRED);
        for (i, term) in terms.items(REQUIRED).iter().enumerate() {
            pod_affinity_term(term, &list.index(i), errors);
        }
        let list = at.child(PREFERRED);
        for (i, term) in terms.items(PREFERRED).iter().enumerate() {
            let at = list.index(i);
            weight(term, &at, errors);
            pod_affinity_term(
                term.at("podAffinityTerm"),
                &at.child("podAffinityTerm"),
                errors,
            );
        }
    }
}

fn weight(term: &Value, at: &Path<'_>, errors: &mut Errors) {
    if !(1..=100).contains(&term.num("weight")) {
        errors.invalid(
            &at.child("weight"),
            term.num("weight"),
            "must be in the range 1-100",
        );
    }
}

/// A `NodeSelector`.
pub(crate) fn node_selector(
    selector: &Value,
    check_values: bool,
    at: &Path<'_>,
    errors: &mut Errors,
) {
    let list = at.child("nodeSelectorTerms");
    let terms = selector.items("nodeSelectorTerms");
    if terms.is_empty() {
        errors.required(&list, "must have at least one node selector term");
    }
    for (i, term) in terms.iter().enumerate() {
        node_selector_term(term, check_values, &list.index(i), errors);
    }
}

fn node_selector_term(term: &Value, check_values: bool, at: &Path<'_>, errors: &mut Errors) {
    let list = at.child("matchExpressions");
    for (i, requirement) in term.items("matchExpressions").iter().enumerate() {
        expression(requirement, check_values, &list.index(i), errors);
    }
    let list = at.child("matchFields");
    for (i, requirement) in term.items("matchFields").iter().enumerate() {
        let at = list.index(i);
        let values = requirement.items("values");
        match requirement.text("operator") {
            "In" | "NotIn" if values.len() != 1 => errors.required(
                &at.child("values"),
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
            ),
            "In" | "NotIn" => {}
            other => errors.invalid(
                &at.child("operator"),
                other,
                "not a valid selector operator",
            ),
        }
        if requirement.text("key") == "metadata.name" {
            let list = at.child("values");
            for (i, value) in values.iter().map(Read::as_text).enumerate() {
                errors.invalid_each(&list.index(i), value, names::dns_subdomain(value));
            }
        } else {
            errors.invalid(
                &at.child("key"),
                requirement.text("key"),
                "not a valid field selector key",
            );
        }
    }
}

fn expression(requirement: &Value, check_values: bool, at: &Path<'_>, errors: &mut Errors) {
    let values = requirement.items("values");
    match requirement.text("operator") {
        "In" | "NotIn" if values.is_empty() => {
            errors.required(
                &at.child("values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            );
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => errors.forbidden(
            &at.child("values"),
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        ),
        "Gt" | "Lt" if values.len() != 1 => errors.required(
            &at.child("values"),
            "must be specified single value when `operator` is 'Lt' or 'Gt'",
        ),
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => errors.invalid(
            &at.child("operator"),
            other,
            "not a valid selector operator",
        ),
    }
    labels::label_key(requirement.text("key"), &at.child("key"), errors);
    if check_values {
        let list = at.child("values");
        for (i, value) in values.iter().map(Read::as_text).enumerate() {
            errors.invalid_each(&list.index(i), value, names::label_value(value));
        }
    }
}

fn pod_affinity_term(term: &Value, at: &Path<'_>, errors: &mut Errors) {
    labels::selector(term.at("labelSelector"), &at.child("labelSelector"), errors);
    labels::selector(
        term.at("namespaceSelector"),
        &at.child("namespaceSelector"),
        errors,
    );
    for name in term.items("namespaces").iter().map(Read::as_text) {
        // the API names this field in the singular
        errors.invalid_each(&at.child("namespace"), name, names::dns_label(name));
    }
    label_keys(term, at, errors);
    let key = term.text("topologyKey");
    if key.is_empty() {
        errors.required(&at.child("topologyKey"), "can not be empty");
    }
    labels::label_key(key, &at.child("topologyKey"), errors);
}

/// `matchLabelKeys` and `mismatchLabelKeys` beside a selector.
fn label_keys(term: &Value, at: &Path<'_>, errors: &mut Errors) {
    let selector = term.at("labelSelector");
    for field in ["matchLabelKeys", "mismatchLabelKeys"] {
        let (keys, at) = (term.items(field), at.child(field));
        if keys.is_empty() {
            continue;
        }
        if selector.is_null() {
            errors.forbidden(&at, "must not be specified when labelSelector is not set");
            continue;
        }
        for (i, key) in keys.iter().map(Read::as_text).enumerate() {
            labels::label_key(key, &at.index(i), errors);
        }
    }
    let keys: Vec<&str> = term
        .items("matchLabelKeys")
        .iter()
        .map(Read::as_text)
        .collect();
    let mut selected: Vec<&str> = selector
        .entries("matchLabels")
        .map(|(key, _)| key)
        .collect();
    for requirement in selector.items("matchExpressions") {
        let key = requirement.text("key");
        if let Some(i) = keys
            .iter()
            .position(|k| *k == key)
            .filter(|_| selected.contains(&key))
        {
            errors.invalid(
                &at.index(i),
                key,
                "exists in both matchLabelKeys and labelSelector",
            );
        }
        selected.push(key);
    }
    let mismatched: Vec<&str> = term
        .items("mismatchLabelKeys")
        .iter()
        .map(Read::as_text)
        .collect();
    let list = at.child("matchLabelKeys");
    for (i, key) in keys
        .iter()
        .enumerate()
        .filter(|(_, key)| mismatched.contains(key))
    {
        errors.invalid(
            &list.index(i),
            *key,
            "exists in both matchLabelKeys and mismatchLabelKeys",
        );
    }
}

/// `topologySpreadConstraints` of a pod.
pub(crate) fn spread(list: &[Value], all: &Path<'_>, errors: &mut Errors) {
    for (i, constraint) in list.iter().enumerate() {
        let at = all.index(i);
        if constraint.num("maxSkew") <= 0 {
            errors.invalid(
                &at.child("maxSkew"),
                constraint.num("maxSkew"),
                "must be greater than zero",
            );
        }
        let (key, action) = (
            constraint.text("topologyKey"),
            constraint.text("whenUnsatisfiable"),
        );
        if key.is_empty() {
            errors.required(&at.child("topologyKey"), "can not be empty");
        }
        one_of(
            action,
            &["DoNotSchedule", "ScheduleAnyway"],
            &at.child("whenUnsatisfiable"),
            errors,
        );
        let again =
            |c: &Value| c.text("topologyKey") == key && c.text("whenUnsatisfiable") == action;
        if list.iter().skip(i + 1).any(again) {
            errors.duplicate(
                &at.child("{topologyKey, whenUnsatisfiable}"),
                format!("{{{key}, {action}}}"),
            );
        }
        if let Some(domains) = constraint.int("minDomains") {
            let at = at.child("minDomains");
            if domains <= 0 {
                errors.invalid(&at, domains, "must be greater than zero");
            }
            if action != "DoNotSchedule" {
                errors.invalid(
                    &at,
                    domains,
                    format!(
                        "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
                    ),
                );
            }
        }
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if constraint.has(field) {
                one_of(
                    constraint.text(field),
                    &["Honor", "Ignore"],
                    &at.child(field),
                    errors,
                );
            }
        }
        label_keys(constraint, &at, errors);
        labels::selector(
            constraint.at("labelSelector"),
            &at.child("labelSelector"),
            errors,
        );
    }
}
